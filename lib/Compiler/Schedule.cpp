//===- Schedule.cpp - the schedules by name -------------------------------===//
#include "moe/Compiler/Schedule.h"

#include "SchedulePasses.h"

#include "mlir/IR/Diagnostics.h"
#include "llvm/ADT/StringExtras.h"

#include "moe/Dialect/Moe/Transforms/LeftLayers.h"
#include "moe/Dialect/Moe/Transforms/Passes.h"
#include "moe/Support/Suggestion.h"
#include "moe/Support/UsageError.h"

using namespace mlir;
using namespace mlir::moe;

using mpipemoe::Strategy;

//===----------------------------------------------------------------------===//
// Parts of a schedule as text
//===----------------------------------------------------------------------===//

template <LayerRewrite rewrite> static LogicalResult readLayer(MLIRContext *, StringRef, ParsedSchedule &parsed) {
  parsed.layer = rewrite;
  return success();
}
template <LayerRewrite rewrite> static std::optional<std::string> writeLayer(const ParsedSchedule &schedule) {
  return schedule.layer == rewrite ? std::optional<std::string>("") : std::nullopt;
}
static void dropLayer(ParsedSchedule &schedule) {
  schedule.layer = LayerRewrite::Baseline;
  schedule.saa = false;
}

template <bool ParsedSchedule::*flag> static LogicalResult readFlag(MLIRContext *, StringRef, ParsedSchedule &parsed) {
  parsed.*flag = true;
  return success();
}
template <bool ParsedSchedule::*flag> static std::optional<std::string> writeFlag(const ParsedSchedule &schedule) {
  return schedule.*flag ? std::optional<std::string>("") : std::nullopt;
}

template <Strategy strategy> static LogicalResult readStrategy(MLIRContext *, StringRef, ParsedSchedule &parsed) {
  parsed.strategy = strategy;
  return success();
}
template <Strategy strategy> static std::optional<std::string> writeStrategy(const ParsedSchedule &schedule) {
  return !schedule.chooseStrategy && schedule.strategy == strategy ? std::optional<std::string>("") : std::nullopt;
}
static void dropStrategy(ParsedSchedule &schedule) { schedule.strategy = Strategy::None; }

/// The most chunks for which a plan is compiled in reasonable time.
static constexpr int64_t maxChunks = 64;

static LogicalResult readChunks(MLIRContext *context, StringRef argument, ParsedSchedule &parsed) {
  auto isRead = [](StringRef text, int64_t &number) {
    return !text.getAsInteger(10, number) && number >= 1 && number <= maxChunks;
  };
  auto [chunks, ring] = argument.split(',');
  bool isAuto = chunks == "auto", hasRing = argument.contains(',');
  if (isAuto)
    parsed.chunks = 0;
  if ((isAuto || isRead(chunks, parsed.chunks)) && (!hasRing || isRead(ring, parsed.ring)))
    return success();
  return emitUsageError(context) << "expected chunks:N or chunks:N,RING with N and RING from 1 to " << maxChunks
                                 << ", or auto for N, in --schedule but got 'chunks:" << argument << "'";
}

/// Reads `NUMBER`, `WORD` or `NUMBER,WORD`, and leaves a missing one as it is.
static LogicalResult readArguments(MLIRContext *context, StringRef name, StringRef text, int64_t &number,
                                   ArrayRef<StringRef> words, function_ref<void(unsigned)> setWord) {
  auto [first, second] = text.split(',');
  bool hasTwo = text.contains(',');
  StringRef last = hasTwo ? second : first;
  const StringRef *word = llvm::find(words, last);
  bool isWord = word != words.end(), wantsNumber = hasTwo || !isWord;
  if (isWord)
    setWord(word - words.begin());
  if ((wantsNumber && (first.getAsInteger(10, number) || number < 1)) || (hasTwo && !isWord))
    return emitUsageError(context) << "expected a positive number, one of " << llvm::join(words, ", ")
                                   << ", or both with a comma between, after '" << name << ":' in --schedule but got '"
                                   << text << "'";
  return success();
}

static LogicalResult readShadows(MLIRContext *context, StringRef argument, ParsedSchedule &parsed) {
  ShadowSchedule &shadows = parsed.shadows.emplace();
  if (!argument.data())
    return success();
  return readArguments(context, "shadow", argument, shadows.most, {"algorithm1", "prefix", "simulate"},
                       [&](unsigned word) { shadows.policy = *symbolizeShadowPolicy(word); });
}

static LogicalResult readSmart(MLIRContext *context, StringRef argument, ParsedSchedule &parsed) {
  SmartSchedule &smart = parsed.smart.emplace();
  if (!argument.data())
    return success();
  return readArguments(context, "smart", argument, smart.groupSize, {"ring", "topology"},
                       [&](unsigned word) { smart.order = word == 0 ? SmartOrder::Ring : SmartOrder::Topology; });
}

static LogicalResult readOnce(MLIRContext *context, StringRef argument, ParsedSchedule &parsed) {
  OnceSchedule &once = parsed.once.emplace();
  auto [word, ranks] = argument.split(',');
  once.hasNodes = word == "node";
  bool hasRanks = argument.contains(',');
  bool isRead = !hasRanks || (once.hasNodes && !ranks.getAsInteger(10, once.nodeRanks) && once.nodeRanks > 0);
  if ((once.hasNodes || word == "rank") && isRead)
    return success();
  return emitUsageError(context) << "expected once:rank, once:node, or once:node,RANKS with RANKS of at least 1, in "
                                    "--schedule but got 'once:"
                                 << argument << "'";
}
static std::optional<std::string> writeOnce(const ParsedSchedule &schedule) {
  if (!schedule.once)
    return std::nullopt;
  if (!schedule.once->hasNodes)
    return ":rank";
  return schedule.once->nodeRanks == 0 ? ":node" : ":node," + std::to_string(schedule.once->nodeRanks);
}
static void dropOnce(ParsedSchedule &schedule) { schedule.once.reset(); }

static LogicalResult readHier(MLIRContext *context, StringRef argument, ParsedSchedule &parsed) {
  HierSchedule &hier = parsed.hier.emplace();
  if (!argument.data() || (!argument.getAsInteger(10, hier.nodeRanks) && hier.nodeRanks > 1))
    return success();
  return emitUsageError(context)
         << "expected hier, or hier:RANKS with RANKS of at least 2, in --schedule but got 'hier:" << argument << "'";
}
static std::optional<std::string> writeHier(const ParsedSchedule &schedule) {
  if (!schedule.hier)
    return std::nullopt;
  return schedule.hier->nodeRanks == 0 ? "" : ":" + std::to_string(schedule.hier->nodeRanks);
}
static void dropHier(ParsedSchedule &schedule) { schedule.hier.reset(); }

/// The arguments that differ from the defaults, with their colon.
static std::string writeArguments(int64_t number, StringRef word, bool isDefaultWord) {
  SmallVector<std::string> texts;
  if (number)
    texts.push_back(std::to_string(number));
  if (!isDefaultWord)
    texts.push_back(word.str());
  return texts.empty() ? "" : ":" + llvm::join(texts, ",");
}

static std::optional<std::string> writeChunks(const ParsedSchedule &schedule) {
  if (schedule.chunks == 1)
    return std::nullopt;
  return ":" + (schedule.chunks ? std::to_string(schedule.chunks) : "auto") +
         (schedule.getRing() != schedule.getOwnRing() ? "," + std::to_string(schedule.ring) : "");
}
static void dropChunks(ParsedSchedule &schedule) { schedule.chunks = 1; }

static std::optional<std::string> writeShadows(const ParsedSchedule &schedule) {
  if (!schedule.shadows)
    return std::nullopt;
  return writeArguments(schedule.shadows->most, stringifyShadowPolicy(schedule.shadows->policy),
                        schedule.shadows->policy == ShadowSchedule().policy);
}
static void dropShadows(ParsedSchedule &schedule) { schedule.shadows.reset(); }

static std::optional<std::string> writeSmart(const ParsedSchedule &schedule) {
  if (!schedule.smart)
    return std::nullopt;
  SmartOrder order = schedule.smart->order;
  return writeArguments(schedule.smart->groupSize, order == SmartOrder::Ring ? "ring" : "topology",
                        order == SmartSchedule().order);
}

//===----------------------------------------------------------------------===//
// The table
//===----------------------------------------------------------------------===//

namespace {
/// Names of one kind exclude each other.
enum class Kind { Layer, Overlap, ByNode, Chunks, Shadows, Smart, Gate, Residuals };

/// One name of --schedule. Functions that are null do nothing.
struct Entry {
  StringLiteral name;
  Kind kind;
  /// Reads the text after the colon, which is null without a colon.
  LogicalResult (*read)(MLIRContext *, StringRef argument, ParsedSchedule &);
  /// The text after the name, from the colon on. None if `schedule` does not have this part.
  std::optional<std::string> (*write)(const ParsedSchedule &schedule);
  AddPasses *addPasses = nullptr;
  /// The form of the text after the colon, for people: in brackets if it is optional, empty if there is none.
  StringLiteral argument = "";
  /// The only rewrite of layers that it can be combined with. Empty: any.
  StringLiteral of = "";
  /// Whether it changes exchanges with the experts, or depends on them.
  bool needsExchanges = false;
  /// The kinds that it cannot be combined with (excludes), and why: the end of a sentence about this part.
  unsigned excluded = 0;
  StringLiteral excludedFor = "";
  /// Whether a rewrite of layers leaves such exchanges.
  bool leavesExchanges = true;
  /// Whether a rewrite of layers lets members of mp share the tokens that all of them have.
  bool sharesTokens = false;
  /// Whether 'auto' tries it (getCombinations), and with which arguments; none: without.
  bool isCombined = false;
  ArrayRef<StringLiteral> combinedArguments = {};
  /// The pass that may leave layers as they are. `drop` removes this part if the pass left them all.
  StringLiteral pass = "";
  void (*drop)(ParsedSchedule &) = nullptr;

  bool takesArgument() const { return !argument.empty(); }
  bool needsArgument() const { return takesArgument() && argument.front() != '['; }
  bool excludes(Kind other) const { return (excluded & (1U << static_cast<unsigned>(other))) != 0; }
};
} // namespace

static constexpr unsigned getBits(std::initializer_list<Kind> kinds) {
  unsigned bits = 0;
  for (Kind kind : kinds)
    bits |= 1U << static_cast<unsigned>(kind);
  return bits;
}

static constexpr Kind kOrderInName[] = {Kind::Layer,   Kind::Overlap, Kind::ByNode, Kind::Chunks,
                                        Kind::Shadows, Kind::Smart,   Kind::Gate,   Kind::Residuals};
/// An overlap's passes need the backward too (addOverlap).
static constexpr Kind kOrderOfPasses[] = {Kind::Layer,     Kind::Gate,   Kind::ByNode, Kind::Shadows,
                                          Kind::Residuals, Kind::Chunks, Kind::Smart};

template <LayerRewrite rewrite>
static Entry makeLayer(StringLiteral name, AddPasses *addPasses, StringLiteral pass, bool leavesExchanges,
                       bool sharesTokens, bool isCombined) {
  return {.name = name,
          .kind = Kind::Layer,
          .read = readLayer<rewrite>,
          .write = writeLayer<rewrite>,
          .addPasses = addPasses,
          .leavesExchanges = leavesExchanges,
          .sharesTokens = sharesTokens,
          .isCombined = isCombined,
          .pass = pass,
          .drop = dropLayer};
}
/// MPipeMoE's strategies do not need exchanges: without them, rows are dispatched again instead of exchanged again.
template <Strategy strategy> static Entry makeStrategy(StringLiteral name) {
  return {.name = name,
          .kind = Kind::Residuals,
          .read = readStrategy<strategy>,
          .write = writeStrategy<strategy>,
          .addPasses = addResiduals,
          .pass = "moe-set-residuals",
          .drop = dropStrategy};
}

static ArrayRef<Entry> getEntries() {
  static constexpr StringLiteral onceArguments[] = {"rank", "node"};
  static const Entry entries[] = {
#define LAYER_REWRITE(value, ...) makeLayer<LayerRewrite::value>(__VA_ARGS__),
#include "moe/Compiler/LayerRewrites.def"
      {.name = "auto",
       .kind = Kind::Layer,
       .read = readFlag<&ParsedSchedule::everything>,
       .write = writeFlag<&ParsedSchedule::everything>},
      {.name = "saa",
       .kind = Kind::Overlap,
       .read = readFlag<&ParsedSchedule::saa>,
       .write = writeFlag<&ParsedSchedule::saa>,
       .of = "s2",
       .isCombined = true},
      {.name = "once",
       .kind = Kind::ByNode,
       .read = readOnce,
       .write = writeOnce,
       .addPasses = addOnce,
       .argument = "rank|node[,RANKS]",
       .needsExchanges = true,
       .excluded = getBits({Kind::Overlap, Kind::Shadows, Kind::Smart, Kind::Residuals}),
       .excludedFor = "changes exchanges that send a row for each choice",
       .isCombined = true,
       .combinedArguments = onceArguments,
       .pass = "moe-send-once",
       .drop = dropOnce},
      {.name = "hier",
       .kind = Kind::ByNode,
       .read = readHier,
       .write = writeHier,
       .addPasses = addHier,
       .argument = "[RANKS]",
       .needsExchanges = true,
       .excluded = getBits({Kind::Overlap, Kind::Shadows, Kind::Smart}),
       .excludedFor = "changes exchanges among all ranks",
       .isCombined = true,
       .pass = "moe-exchange-by-node",
       .drop = dropHier},
      {.name = "chunks",
       .kind = Kind::Chunks,
       .read = readChunks,
       .write = writeChunks,
       .addPasses = addChunks,
       .argument = "N|auto[,RING]",
       .needsExchanges = true,
       .pass = "moe-chunk-experts",
       .drop = dropChunks},
      makeStrategy<Strategy::S1>("mpipe-s1"),
      makeStrategy<Strategy::S2>("mpipe-s2"),
      makeStrategy<Strategy::S3>("mpipe-s3"),
      makeStrategy<Strategy::S4>("mpipe-s4"),
      {.name = "mpipe-auto",
       .kind = Kind::Residuals,
       .read = readFlag<&ParsedSchedule::chooseStrategy>,
       .write = writeFlag<&ParsedSchedule::chooseStrategy>,
       .needsExchanges = true},
      {.name = "shadow",
       .kind = Kind::Shadows,
       .read = readShadows,
       .write = writeShadows,
       .addPasses = addShadows,
       .argument = "[MAX,POLICY]",
       .needsExchanges = true,
       .isCombined = true,
       .pass = "moe-shadow-experts",
       .drop = dropShadows},
      {.name = "smart",
       .kind = Kind::Smart,
       .read = readSmart,
       .write = writeSmart,
       .addPasses = addSmart,
       .argument = "[RANKS,ORDER]",
       .needsExchanges = true,
       .isCombined = true},
      {.name = "topology-gate",
       .kind = Kind::Gate,
       .read = readFlag<&ParsedSchedule::topologyGate>,
       .write = writeFlag<&ParsedSchedule::topologyGate>,
       .addPasses = addPass<createMoeTopologyGate>,
       .needsExchanges = true}};
  return entries;
}

/// The entries of `schedule`, one kind after the other.
static SmallVector<const Entry *> getParts(const ParsedSchedule &schedule, ArrayRef<Kind> kinds) {
  SmallVector<const Entry *> parts;
  for (Kind kind : kinds)
    for (const Entry &entry : getEntries())
      if (entry.kind == kind && entry.write(schedule))
        parts.push_back(&entry);
  return parts;
}

static std::string getFullName(const Entry &entry) {
  if (!entry.takesArgument())
    return entry.name.str();
  return entry.name.str() +
         (entry.needsArgument() ? ":" + entry.argument.str() : "[:" + entry.argument.drop_front().str());
}

//===----------------------------------------------------------------------===//
// Schedules
//===----------------------------------------------------------------------===//

static const Entry &getEntry(LayerRewrite rewrite) {
  ParsedSchedule schedule;
  schedule.layer = rewrite;
  return *getParts(schedule, Kind::Layer).front();
}
StringRef mlir::moe::getName(LayerRewrite rewrite) { return getEntry(rewrite).name; }
bool ParsedSchedule::hasExchanges() const { return getEntry(layer).leavesExchanges; }
bool ParsedSchedule::sharesTokens() const { return getEntry(layer).sharesTokens; }

StringRef mlir::moe::getName(Strategy strategy) {
  ParsedSchedule schedule;
  schedule.strategy = strategy;
  SmallVector<const Entry *> parts = getParts(schedule, Kind::Residuals);
  return parts.empty() ? StringRef("none") : StringRef(parts.front()->name);
}

std::string ParsedSchedule::getName() const {
  SmallVector<std::string> texts;
  for (const Entry *part : getParts(*this, kOrderInName))
    texts.push_back(part->name.str() + *part->write(*this));
  // The baseline is the default.
  return llvm::join(ArrayRef(texts).drop_front(texts.size() > 1 && layer == LayerRewrite::Baseline), "+");
}

static SmallVector<StringRef> getNames() {
  SmallVector<StringRef> names;
  for (const Entry &entry : getEntries())
    names.push_back(entry.name);
  return names;
}

/// Refuses a part that belongs to another rewrite of layers, or has no effect with this one.
static LogicalResult checkTogether(MLIRContext *context, const Entry &entry, StringRef text,
                                   const ParsedSchedule &parsed, StringRef schedule) {
  if (!entry.of.empty() && getName(parsed.layer) != entry.of)
    return emitUsageError(context) << "expected '" << text << "' with '" << entry.of
                                   << "' in --schedule, whose exchanges it overlaps, but got '" << schedule << "'";
  if (!parsed.hasExchanges() && entry.needsExchanges)
    return emitUsageError(context) << "'" << text << "' and '" << getName(parsed.layer)
                                   << "' are mutually exclusive in --schedule: '" << getName(parsed.layer)
                                   << "' has no exchanges with the experts";
  return success();
}

/// moe-chunk-experts alone makes rings.
static bool hasRingOfOnce(const ParsedSchedule &schedule) { return schedule.once && schedule.ring > 0; }

static LogicalResult checkExcluded(MLIRContext *context, const Entry &entry, StringRef text,
                                   ArrayRef<std::pair<const Entry *, StringRef>> parts, const ParsedSchedule &parsed,
                                   StringRef schedule) {
  for (auto [other, otherText] : parts)
    if (entry.excludes(other->kind))
      return emitUsageError(context) << "'" << text << "' and '" << otherText
                                     << "' are mutually exclusive in --schedule: '" << text << "' "
                                     << entry.excludedFor;
  if (entry.kind == Kind::ByNode && hasRingOfOnce(parsed))
    return emitUsageError(context) << "expected '" << text << "' with chunks:N without a ring in --schedule but got '"
                                   << schedule << "'";
  return success();
}

FailureOr<ParsedSchedule> mlir::moe::parseSchedule(MLIRContext *context, StringRef schedule) {
  ParsedSchedule parsed;
  SmallVector<StringRef> texts;
  schedule.split(texts, '+');
  SmallVector<std::pair<const Entry *, StringRef>> parts;
  for (StringRef text : texts) {
    auto [name, argument] = text.split(':');
    // An older name of chunks:N.
    StringRef known = name == "pipeline" ? "chunks" : name;
    const Entry *entry = llvm::find_if(getEntries(), [&](const Entry &entry) { return entry.name == known; });
    bool hasArgument = text != name, isKnown = entry != getEntries().end();
    if (!isKnown || (hasArgument ? !entry->takesArgument() : entry->needsArgument()))
      return emitUsageError(context) << "expected --schedule to be made of "
                                     << llvm::join(llvm::map_range(getEntries(), getFullName), ", ")
                                     << ", joined by '+', but got '" << schedule << "'"
                                     << (isKnown ? "" : suggestName(name, getNames()));
    for (auto [other, otherText] : parts)
      if (entry->kind == other->kind && text != otherText)
        return emitUsageError(context) << "'" << otherText << "' and '" << text
                                       << "' are mutually exclusive in --schedule";
    if (failed(entry->read(context, argument, parsed)))
      return failure();
    parts.push_back({entry, text});
  }
  if (parsed.everything && parts.size() > 1)
    return emitUsageError(context)
           << "'auto' cannot be combined with other parts in --schedule, since it chooses the whole schedule";
  for (auto [entry, text] : parts)
    if (failed(checkTogether(context, *entry, text, parsed, schedule)) ||
        failed(checkExcluded(context, *entry, text, parts, parsed, schedule)))
      return failure();
  return parsed;
}

bool mlir::moe::isPossible(const ParsedSchedule &schedule) {
  SmallVector<const Entry *> parts = getParts(schedule, kOrderInName);
  bool isTogether = llvm::all_of(parts, [&](const Entry *part) {
    return (part->of.empty() || getName(schedule.layer) == part->of) &&
           (!part->needsExchanges || schedule.hasExchanges()) &&
           llvm::none_of(parts, [&](const Entry *other) { return part->excludes(other->kind); });
  });
  return isTogether && !hasRingOfOnce(schedule);
}

SmallVector<ParsedSchedule> mlir::moe::getCombinations() {
  SmallVector<ParsedSchedule> all = {ParsedSchedule()};
  for (Kind kind : {Kind::Layer, Kind::Overlap, Kind::ByNode, Kind::Shadows, Kind::Smart})
    for (const ParsedSchedule &schedule : std::exchange(all, {})) {
      if (kind != Kind::Layer)
        all.push_back(schedule);
      for (const Entry &entry : getEntries()) {
        if (entry.kind != kind || !entry.isCombined)
          continue;
        static constexpr StringLiteral none[] = {StringLiteral("")};
        bool hasArguments = !entry.combinedArguments.empty();
        for (StringRef argument : hasArguments ? entry.combinedArguments : ArrayRef(none)) {
          all.push_back(schedule);
          // These arguments are not refused.
          (void)entry.read(/*context=*/nullptr, hasArguments ? argument : StringRef(), all.back());
          if (!isPossible(all.back()))
            all.pop_back();
        }
      }
    }
  return all;
}

ParsedSchedule mlir::moe::getApplied(ParsedSchedule schedule, func::FuncOp forward) {
  llvm::StringSet<> left = takeLeftLayers(forward);
  for (const Entry *part : getParts(schedule, kOrderInName))
    if (part->drop && left.contains(part->pass))
      part->drop(schedule);
  if (schedule.chunks == 1)
    schedule.ring = 0;
  return schedule;
}

LogicalResult mlir::moe::addSchedule(PassManager &passes, const ParsedSchedule &schedule, const CompileOptions &options,
                                     ModuleOp graph) {
  for (const Entry *part : getParts(schedule, kOrderOfPasses))
    if (part->addPasses && failed(part->addPasses(passes, schedule, options, graph)))
      return failure();
  return success();
}
