//===- ParseParallel.cpp - reading --parallel -----------------------------===//
#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringMap.h"

#include "moe/Compiler/Compiler.h"
#include "moe/Dialect/Moe/IR/MoeDialect.h"
#include "moe/Support/Suggestion.h"

using namespace mlir;
using namespace mlir::moe;

/// The end of an error about an unknown group. Others name tensor parallelism of the dense parts, and of experts, so.
static std::string suggestGroup(StringRef name) {
  if (name == "tp")
    return "; tensor parallelism is 'mp' here";
  if (name == "sp")
    return "; context parallelism is 'cp' here, and sequence parallelism is --sequence-parallel";
  if (name == "etp")
    return "; tensor parallelism of experts is 'esp' here";
  return suggestName(name, {"auto", "pp", "dp", "cp", "mp", "ep", "esp"});
}

FailureOr<ParallelAttr> mlir::moe::parseParallel(MLIRContext *context, StringRef text) {
  static constexpr StringLiteral names[] = {"pp", "dp", "cp", "mp", "ep", "esp"};
  auto error = [&] { return mlir::emitError(UnknownLoc::get(context)); };
  context->loadDialect<MoeDialect>();
  llvm::StringMap<int64_t> sizes;
  SmallVector<StringRef> items;
  text.split(items, ',', /*MaxSplit=*/-1, /*KeepEmpty=*/false);
  for (StringRef item : items) {
    auto [name, value] = item.split('=');
    int64_t size = 0;
    bool isKnown = llvm::is_contained(names, name);
    if (!isKnown || value.getAsInteger(10, size) || size < 1 || size > kMaxWorld)
      return error()
             << "expected --parallel to be like dp=4,mp=2,ep=4,esp=2 with pp, dp, cp, mp, ep or esp between 1 and "
             << kMaxWorld << " but got '" << item << "'" << (isKnown ? "" : suggestGroup(name));
    if (!sizes.try_emplace(name, size).second)
      return error() << "expected each group once in --parallel but got '" << name << "' twice";
  }
  auto get = [&](StringRef name) { return sizes.count(name) ? sizes[name] : 1; };
  int64_t pp = get("pp"), cp = get("cp"), mp = get("mp"), ep = get("ep"), esp = get("esp");
  int64_t dp = sizes.count("dp") ? sizes["dp"] : std::max<int64_t>(1, ep * esp / (cp * mp));
  auto parallel = ParallelAttr::getChecked(error, context, pp * dp * cp * mp, pp, dp, mp, ep, esp, cp);
  if (!parallel)
    return failure();
  return parallel;
}
