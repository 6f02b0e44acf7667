//===- StepChoice.cpp - what the plan of a step chooses -------------------===//
#include "moe/Compiler/StepChoice.h"

#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/Format.h"

#include "moe/Dialect/Moe/IR/MoeDialect.h"
#include "moe/Support/Text.h"
#include "moe/Support/UsageError.h"

using namespace mlir;
using namespace mlir::moe;

static constexpr StringLiteral kRecomputes[] = {"none",    "light",   "selective", "cheap-4",
                                                "cheap-6", "cheap-8", "cheap",     "block"};

StringRef mlir::moe::getName(Recompute recompute) { return kRecomputes[static_cast<unsigned>(recompute)]; }
std::optional<Recompute> mlir::moe::parseRecompute(StringRef name) { return parseName<Recompute>(kRecomputes, name); }

std::string ChoiceInfo::getKey() const {
  std::string key = option.str();
  std::replace(key.begin(), key.end(), '-', '_');
  return key;
}

//===----------------------------------------------------------------------===//
// Values as text
//===----------------------------------------------------------------------===//

std::string mlir::moe::getText(ParallelAttr parallel) { return parallel ? describe(parallel) : ""; }
std::string mlir::moe::getText(int64_t number) { return std::to_string(number); }
std::string mlir::moe::getText(bool flag) { return flag ? "true" : "false"; }
std::string mlir::moe::getText(PipelineOrder order) { return getName(order).str(); }
std::string mlir::moe::getText(Recompute recompute) { return getName(recompute).str(); }
std::string mlir::moe::getText(const std::string &text) { return text; }

std::string mlir::moe::getText(ArrayRef<int64_t> numbers) {
  return llvm::join(llvm::map_range(numbers, [](int64_t number) { return std::to_string(number); }), ",");
}

std::string mlir::moe::getText(std::optional<double> number) {
  std::string text;
  if (number)
    llvm::raw_string_ostream(text) << llvm::format("%g", *number);
  return text;
}

bool mlir::moe::parseText(StringRef text, int64_t &value) { return !text.getAsInteger(10, value); }

template <class T> static bool take(std::optional<T> parsed, T &value) {
  value = parsed.value_or(value);
  return parsed.has_value();
}
bool mlir::moe::parseText(StringRef text, PipelineOrder &value) { return take(parsePipelineOrder(text), value); }
bool mlir::moe::parseText(StringRef text, Recompute &value) { return take(parseRecompute(text), value); }

bool mlir::moe::parseText(StringRef text, SmallVector<int64_t> &value) {
  SmallVector<StringRef> numbers;
  text.split(numbers, ',', /*MaxSplit=*/-1, /*KeepEmpty=*/false);
  value.resize(numbers.size());
  return llvm::all_of(llvm::zip_equal(numbers, value),
                      [](auto pair) { return parseText(std::get<0>(pair), std::get<1>(pair)); });
}

//===----------------------------------------------------------------------===//
// Descriptions
//===----------------------------------------------------------------------===//

std::string mlir::moe::describe(ParallelAttr parallel) {
  std::string text;
  llvm::raw_string_ostream(text) << "pp=" << parallel.getPp() << ",dp=" << parallel.getDp()
                                 << ",mp=" << parallel.getMp() << ",ep=" << parallel.getEp()
                                 << ",esp=" << parallel.getEsp();
  if (parallel.getCp() > 1)
    text += ",cp=" + std::to_string(parallel.getCp());
  return text;
}

std::string mlir::moe::describeChoices(const StepChoice &choice) {
  std::string text = choice.schedule;
  visitChoices([&](auto member, const ChoiceInfo &info) {
    if (info.words.empty() || choice.*member == StepChoice().*member)
      return;
    auto [before, after] = info.words.split("{}");
    text += ", " + before.str();
    if (before.size() < info.words.size())
      text += getText(choice.*member) + after.str();
  });
  return text;
}

std::string mlir::moe::describeOptions(const StepChoice &choice) {
  SmallVector<std::string> options;
  StepChoice defaults;
  defaults.schedule = choice.schedule.empty() ? "" : "baseline";
  visitChoices([&](auto member, const ChoiceInfo &info) {
    if (!info.isWritten && choice.*member == defaults.*member)
      return;
    bool isFlag = std::is_same_v<decltype(member), bool StepChoice::*>;
    options.push_back("--" + info.option.str() + (isFlag ? "" : "=" + getText(choice.*member)));
  });
  return llvm::join(options, " ");
}

//===----------------------------------------------------------------------===//
// Groups
//===----------------------------------------------------------------------===//

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
  auto error = [&] { return emitUsageError(context); };
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
  auto error = [&] { return emitUsageError(context); };
  auto parallel = ParallelAttr::getChecked(error, context, pp * dp * cp * mp, pp, dp, mp, ep, esp, cp);
  return parallel ? FailureOr<ParallelAttr>(parallel) : FailureOr<ParallelAttr>(failure());
}

FailureOr<ParallelAttr> mlir::moe::parseParallel(MLIRContext *context, StringRef text) {
  FailureOr<GivenGroups> given = parseGroups(context, text);
  return failed(given) ? FailureOr<ParallelAttr>(failure()) : makeParallel(context, *given);
}
