//===- Schedule.cpp - the schedules by name -------------------------------===//
#include "moe/Compiler/Schedule.h"

#include "Stages.h"

#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FormatVariadic.h"

#include "moe/Dialect/Moe/Transforms/LeftLayers.h"
#include "moe/Support/Text.h"
#include "moe/Support/UsageError.h"

using namespace mlir;
using namespace mlir::moe;

using mpipemoe::Strategy;

//===----------------------------------------------------------------------===//
// Parts of a schedule as text
//===----------------------------------------------------------------------===//

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

static LogicalResult readHier(MLIRContext *context, StringRef argument, ParsedSchedule &parsed) {
  int64_t &ranks = parsed.hierRanks.emplace(0);
  if (!argument.data() || (!argument.getAsInteger(10, ranks) && ranks > 1))
    return success();
  return emitUsageError(context)
         << "expected hier, or hier:RANKS with RANKS of at least 2, in --schedule but got 'hier:" << argument << "'";
}
static std::optional<std::string> writeHier(const ParsedSchedule &schedule) {
  if (!schedule.hierRanks)
    return std::nullopt;
  return *schedule.hierRanks == 0 ? "" : ":" + std::to_string(*schedule.hierRanks);
}

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

static std::optional<std::string> writeShadows(const ParsedSchedule &schedule) {
  if (!schedule.shadows)
    return std::nullopt;
  return writeArguments(schedule.shadows->most, stringifyShadowPolicy(schedule.shadows->policy),
                        schedule.shadows->policy == ShadowSchedule().policy);
}

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
  LogicalResult (*read)(MLIRContext *, StringRef argument, ParsedSchedule &) = nullptr;
  /// The text after the name, from the colon on. None if `schedule` does not have this part.
  std::optional<std::string> (*write)(const ParsedSchedule &schedule) = nullptr;
  AddPasses *addPasses = nullptr;
  /// The form of the text after the colon, for people: in brackets if it is optional, empty if there is none.
  StringLiteral argument = "";
  /// The only rewrite of layers that it can be combined with. Empty: any.
  StringLiteral of = "";
  /// Whether it changes exchanges with the experts, or depends on them.
  bool needsExchanges = false;
  /// The kinds that it cannot be combined with, and why: the end of a sentence about this part.
  SmallVector<Kind, 4> excluded = {};
  StringLiteral excludedFor = "";
  /// Whether a rewrite of layers leaves such exchanges.
  bool leavesExchanges = true;
  /// Whether a rewrite of layers lets members of mp share their equal tokens. Then 'auto' tries it with mp > 1 alone.
  bool sharesTokens = false;
  /// Whether 'auto' tries it (getCombinations), and with which arguments; a null one: without.
  bool isCombined = false;
  SmallVector<StringRef, 2> combinedArguments = {StringRef()};
  /// The pass that may leave layers as they are. `drop` removes this part if the pass left them all.
  StringLiteral pass = "";
  void (*drop)(ParsedSchedule &) = nullptr;

  bool takesArgument() const { return !argument.empty(); }
  bool needsArgument() const { return takesArgument() && argument.front() != '['; }
};

/// A part of a schedule, and the text that gives it.
using Part = std::pair<const Entry *, StringRef>;
} // namespace

static constexpr Kind kOrderInName[] = {Kind::Layer,   Kind::Overlap, Kind::ByNode, Kind::Chunks,
                                        Kind::Shadows, Kind::Smart,   Kind::Gate,   Kind::Residuals};
/// An overlap's passes need the backward too (addOverlap).
static constexpr Kind kOrderOfPasses[] = {Kind::Layer,     Kind::Gate,   Kind::ByNode, Kind::Shadows,
                                          Kind::Residuals, Kind::Chunks, Kind::Smart};

/// A part that gives one member one value.
template <auto member, auto value> static Entry makeEntry(Entry entry) {
  entry.read = [](MLIRContext *, StringRef, ParsedSchedule &parsed) {
    parsed.*member = value;
    return success();
  };
  entry.write = [](const ParsedSchedule &schedule) {
    return schedule.*member == value ? std::optional<std::string>("") : std::nullopt;
  };
  return entry;
}
template <LayerRewrite rewrite>
static Entry makeLayer(StringLiteral name, AddPasses *addPasses, StringLiteral pass, bool leavesExchanges,
                       bool sharesTokens, bool isCombined) {
  return makeEntry<&ParsedSchedule::layer, rewrite>({.name = name,
                                                     .kind = Kind::Layer,
                                                     .addPasses = addPasses,
                                                     .leavesExchanges = leavesExchanges,
                                                     .sharesTokens = sharesTokens,
                                                     .isCombined = isCombined,
                                                     .pass = pass,
                                                     .drop = [](ParsedSchedule &schedule) {
                                                       schedule.layer = LayerRewrite::Baseline;
                                                       schedule.saa = false;
                                                     }});
}
/// MPipeMoE's strategies do not need exchanges: without them, rows are dispatched again instead of exchanged again.
template <Strategy strategy> static Entry makeStrategy(StringLiteral name) {
  return makeEntry<&ParsedSchedule::strategy, strategy>(
      {.name = name,
       .kind = Kind::Residuals,
       .addPasses = addResiduals,
       .pass = "moe-set-residuals",
       .drop = [](ParsedSchedule &schedule) { schedule.strategy = Strategy::None; }});
}

static ArrayRef<Entry> getEntries() {
  using Schedule = ParsedSchedule;
  static const Entry entries[] = {
      makeLayer<LayerRewrite::Baseline>("baseline", nullptr, "", true, false, true),
      makeLayer<LayerRewrite::S1>("s1", addPause<PauseMpSchedule::S1>, "moe-pause-mp", true, true, true),
      makeLayer<LayerRewrite::S2>("s2", addPause<PauseMpSchedule::S2>, "moe-pause-mp", true, true, true),
      makeLayer<LayerRewrite::PpMoe>("ppmoe", addPass<createMoePpMoe>, "moe-ppmoe", false, true, true),
      makeLayer<LayerRewrite::ParmAuto>("parm-auto", addParmAuto, "moe-pause-mp", true, true, false),
      makeEntry<&Schedule::everything, true>({.name = "auto", .kind = Kind::Layer}),
      makeEntry<&Schedule::saa, true>({.name = "saa", .kind = Kind::Overlap, .of = "s2", .isCombined = true}),
      {.name = "once",
       .kind = Kind::ByNode,
       .read = readOnce,
       .write = writeOnce,
       .addPasses = addOnce,
       .argument = "rank|node[,RANKS]",
       .needsExchanges = true,
       .excluded = {Kind::Overlap, Kind::Shadows, Kind::Smart, Kind::Residuals},
       .excludedFor = "changes exchanges that send a row for each choice",
       .isCombined = true,
       .combinedArguments = {"rank", "node"},
       .pass = "moe-send-once",
       .drop = [](Schedule &schedule) { schedule.once.reset(); }},
      {.name = "hier",
       .kind = Kind::ByNode,
       .read = readHier,
       .write = writeHier,
       .addPasses = addHier,
       .argument = "[RANKS]",
       .needsExchanges = true,
       .excluded = {Kind::Overlap, Kind::Shadows, Kind::Smart},
       .excludedFor = "changes exchanges among all ranks",
       .isCombined = true,
       .pass = "moe-exchange-by-node",
       .drop = [](Schedule &schedule) { schedule.hierRanks.reset(); }},
      {.name = "chunks",
       .kind = Kind::Chunks,
       .read = readChunks,
       .write = writeChunks,
       .addPasses = addChunks,
       .argument = "N|auto[,RING]",
       .needsExchanges = true,
       .pass = "moe-chunk-experts",
       .drop = [](Schedule &schedule) { schedule.chunks = 1; }},
      makeStrategy<Strategy::S1>("mpipe-s1"),
      makeStrategy<Strategy::S2>("mpipe-s2"),
      makeStrategy<Strategy::S3>("mpipe-s3"),
      makeStrategy<Strategy::S4>("mpipe-s4"),
      makeEntry<&Schedule::chooseStrategy, true>(
          {.name = "mpipe-auto", .kind = Kind::Residuals, .needsExchanges = true}),
      {.name = "shadow",
       .kind = Kind::Shadows,
       .read = readShadows,
       .write = writeShadows,
       .addPasses = addShadows,
       .argument = "[MAX,POLICY]",
       .needsExchanges = true,
       .isCombined = true,
       .pass = "moe-shadow-experts",
       .drop = [](Schedule &schedule) { schedule.shadows.reset(); }},
      {.name = "smart",
       .kind = Kind::Smart,
       .read = readSmart,
       .write = writeSmart,
       .addPasses = addSmart,
       .argument = "[RANKS,ORDER]",
       .needsExchanges = true,
       .isCombined = true},
      makeEntry<&Schedule::topologyGate, true>({.name = "topology-gate",
                                                .kind = Kind::Gate,
                                                .addPasses = addPass<createMoeTopologyGate>,
                                                .needsExchanges = true})};
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

std::string ParsedSchedule::getName() const {
  SmallVector<std::string> texts;
  for (const Entry *part : getParts(*this, kOrderInName))
    texts.push_back(part->name.str() + *part->write(*this));
  // The baseline is the default.
  return llvm::join(ArrayRef(texts).drop_front(texts.size() > 1 && layer == LayerRewrite::Baseline), "+");
}

/// Why `part` cannot be combined with the other parts; empty if it can.
static std::string findConflict(const Part &part, ArrayRef<Part> parts, const ParsedSchedule &parsed,
                                StringRef schedule) {
  auto [entry, text] = part;
  StringRef layer = getName(parsed.layer);
  if (!entry->of.empty() && layer != entry->of)
    return llvm::formatv("expected '{0}' with '{1}' in --schedule, whose exchanges it overlaps, but got '{2}'", text,
                         entry->of, schedule);
  if (!parsed.hasExchanges() && entry->needsExchanges)
    return llvm::formatv(
        "'{0}' and '{1}' are mutually exclusive in --schedule: '{1}' has no exchanges with the experts", text, layer);
  for (auto [other, otherText] : parts)
    if (llvm::is_contained(entry->excluded, other->kind))
      return llvm::formatv("'{0}' and '{1}' are mutually exclusive in --schedule: '{0}' {2}", text, otherText,
                           entry->excludedFor);
  // moe-chunk-experts alone makes rings.
  if (entry->kind == Kind::ByNode && parsed.once && parsed.ring > 0)
    return llvm::formatv("expected '{0}' with chunks:N without a ring in --schedule but got '{1}'", text, schedule);
  return "";
}

FailureOr<ParsedSchedule> mlir::moe::parseSchedule(MLIRContext *context, StringRef schedule) {
  ParsedSchedule parsed;
  SmallVector<StringRef> texts;
  schedule.split(texts, '+');
  SmallVector<Part> parts;
  for (StringRef text : texts) {
    auto [name, argument] = text.split(':');
    // An older name of chunks:N.
    StringRef known = name == "pipeline" ? "chunks" : name;
    const Entry *entry = llvm::find_if(getEntries(), [&](const Entry &entry) { return entry.name == known; });
    bool hasArgument = text != name, isKnown = entry != getEntries().end();
    auto names = llvm::map_to_vector(getEntries(), [](const Entry &one) -> StringRef { return one.name; });
    if (!isKnown || (hasArgument ? !entry->takesArgument() : entry->needsArgument()))
      return emitUsageError(context) << "expected --schedule to be made of "
                                     << llvm::join(llvm::map_range(getEntries(), getFullName), ", ")
                                     << ", joined by '+', but got '" << schedule << "'"
                                     << (isKnown ? "" : suggestName(name, names));
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
  for (const Part &part : parts)
    if (std::string conflict = findConflict(part, parts, parsed, schedule); !conflict.empty())
      return emitUsageError(context) << conflict;
  return parsed;
}

bool mlir::moe::isPossible(const ParsedSchedule &schedule) {
  auto parts = llvm::map_to_vector(getParts(schedule, kOrderInName),
                                   [](const Entry *entry) { return Part(entry, entry->name); });
  return llvm::all_of(parts, [&](const Part &part) { return findConflict(part, parts, schedule, "").empty(); });
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
        for (StringRef argument : entry.combinedArguments) {
          all.push_back(schedule);
          // These arguments are not refused.
          (void)entry.read(/*context=*/nullptr, argument, all.back());
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

void mlir::moe::addSchedule(PassManager &passes, const ParsedSchedule &schedule, const CompileOptions &options) {
  for (const Entry *part : getParts(schedule, kOrderOfPasses))
    if (part->addPasses)
      part->addPasses(passes, schedule, options);
}
