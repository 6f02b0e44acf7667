//===- ParseParallel.cpp - reading --parallel -----------------------------===//
#include "llvm/ADT/StringExtras.h"

#include "moe/Compiler/Compiler.h"
#include "moe/Dialect/Moe/IR/MoeDialect.h"
#include "moe/Support/Suggestion.h"

using namespace mlir;
using namespace mlir::moe;

/// The end of an error about an unknown group, which other frameworks may know under that name.
static std::string suggestGroup(StringRef name) {
  if (name == "tp")
    return "; tensor parallelism is 'mp' here";
  if (name == "sp")
    return "; context parallelism is 'cp' here, and sequence parallelism is --sequence-parallel";
  if (name == "etp")
    return "; tensor parallelism of experts is 'esp' here";
  return suggestName(name, {"auto", "pp", "dp", "cp", "mp", "ep", "esp"});
}

FailureOr<GivenGroups> mlir::moe::parseGroups(MLIRContext *context, StringRef text) {
  auto error = [&] { return mlir::emitError(UnknownLoc::get(context)); };
  GivenGroups given;
  std::pair<StringRef, std::optional<int64_t> *> sizes[] = {{"pp", &given.pp}, {"dp", &given.dp}, {"cp", &given.cp},
                                                            {"mp", &given.mp}, {"ep", &given.ep}, {"esp", &given.esp}};
  SmallVector<StringRef> items;
  text.split(items, ',', /*MaxSplit=*/-1, /*KeepEmpty=*/false);
  if (!items.empty() && items.front() == "auto") {
    given.isOpen = true;
    items.erase(items.begin());
  }
  for (StringRef item : items) {
    auto [name, value] = item.split('=');
    auto *known = llvm::find_if(sizes, [name = name](const auto &one) { return one.first == name; });
    bool isKnown = known != std::end(sizes);
    int64_t size = 0;
    if (!isKnown || value.getAsInteger(10, size) || size < 1 || size > kMaxWorld)
      return error() << "expected --parallel to be like " << (given.isOpen ? "auto,pp=4,ep=8" : "dp=4,mp=2,ep=4,esp=2")
                     << " with pp, dp, cp, mp, ep or esp between 1 and " << kMaxWorld << " but got '" << item << "'"
                     << (isKnown ? "" : suggestGroup(name));
    if (*known->second)
      return error() << "expected each group once in --parallel but got '" << name << "' twice";
    *known->second = size;
  }
  return given;
}

FailureOr<ParallelAttr> mlir::moe::makeParallel(MLIRContext *context, const GivenGroups &given) {
  context->loadDialect<MoeDialect>();
  int64_t pp = given.pp.value_or(1), cp = given.cp.value_or(1), mp = given.mp.value_or(1);
  int64_t ep = given.ep.value_or(1), esp = given.esp.value_or(1);
  int64_t dp = given.dp.value_or(std::max<int64_t>(1, ep * esp / (cp * mp)));
  auto error = [&] { return mlir::emitError(UnknownLoc::get(context)); };
  auto parallel = ParallelAttr::getChecked(error, context, pp * dp * cp * mp, pp, dp, mp, ep, esp, cp);
  return parallel ? FailureOr<ParallelAttr>(parallel) : FailureOr<ParallelAttr>(failure());
}

FailureOr<ParallelAttr> mlir::moe::parseParallel(MLIRContext *context, StringRef text) {
  FailureOr<GivenGroups> given = parseGroups(context, text);
  return failed(given) ? FailureOr<ParallelAttr>(failure()) : makeParallel(context, *given);
}
