//===- Schedule.cpp - the schedules by name -------------------------------===//
#include "Schedule.h"

#include "LayerFigures.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/Diagnostics.h"
#include "mlir/Transforms/Passes.h"
#include "llvm/ADT/StringExtras.h"

#include "moe/Cost/ClusterProfile.h"
#include "moe/Cost/CostModel.h"
#include "moe/Cost/Papers.h"
#include "moe/Dialect/Moe/IR/MoeDialect.h"
#include "moe/Dialect/Moe/IR/MoeOps.h"
#include "moe/Dialect/Moe/Transforms/Passes.h"
#include "moe/Dialect/Plan/Transforms/Passes.h"

using namespace mlir;
using namespace mlir::moe;

using mpipemoe::Strategy;

static InFlightDiagnostic emitUsageError(MLIRContext *context) { return emitError(UnknownLoc::get(context)); }

//===----------------------------------------------------------------------===//
// Names
//===----------------------------------------------------------------------===//

namespace {
/// Names of one kind exclude each other.
enum class Kind { Layer, Overlap, Pipeline, Residuals, Shadows, Smart, Gate };

struct Name {
  StringLiteral name;
  Kind kind;
  /// What stands behind a colon, for people; in brackets where nothing need, empty where nothing does.
  StringLiteral argument = "";
  /// Of which rewrite of layers an overlap is part; empty: of all.
  StringLiteral of = "";

  bool takesArgument() const { return !argument.empty(); }
  bool needsArgument() const { return takesArgument() && argument.front() != '['; }
};
} // namespace

static ArrayRef<Name> getKnownNames() {
  static const Name names[] = {{"baseline", Kind::Layer}, // What moe-partition gives.
                               {"s1", Kind::Layer},
                               {"s2", Kind::Layer},
                               {"ppmoe", Kind::Layer},
                               {"parm-auto", Kind::Layer},
                               {"auto", Kind::Layer},
                               {"saa", Kind::Overlap, "", "s2"},
                               {"pipeline", Kind::Pipeline, "N|auto[,RING]"},
                               {"mpipe-s1", Kind::Residuals},
                               {"mpipe-s2", Kind::Residuals},
                               {"mpipe-s3", Kind::Residuals},
                               {"mpipe-s4", Kind::Residuals},
                               {"mpipe-auto", Kind::Residuals},
                               {"shadow", Kind::Shadows, "[MAX,POLICY]"},
                               {"smart", Kind::Smart, "[RANKS,ORDER]"},
                               {"topology-gate", Kind::Gate}};
  return names;
}

static std::string getFullName(const Name &name) {
  if (!name.takesArgument())
    return name.name.str();
  return name.name.str() + (name.needsArgument() ? ":" + name.argument.str() : "[:" + name.argument.drop_front().str());
}

StringRef mlir::moe::getName(Strategy strategy) {
  static const StringLiteral names[] = {"none", "mpipe-s1", "mpipe-s2", "mpipe-s3", "mpipe-s4"};
  return names[static_cast<unsigned>(strategy)];
}

static StringRef getName(SmartOrder order) { return order == SmartOrder::Ring ? "ring" : "topology"; }

/// What was given besides what is taken by itself.
static std::string getArguments(int64_t number, StringRef word, bool isDefaultWord) {
  SmallVector<std::string> texts;
  if (number)
    texts.push_back(std::to_string(number));
  if (!isDefaultWord)
    texts.push_back(word.str());
  return texts.empty() ? "" : ":" + llvm::join(texts, ",");
}

std::string ParsedSchedule::getName() const {
  std::string text = layer;
  if (saa)
    text += "+saa";
  if (chunks != 1)
    text += "+pipeline:" + (chunks ? std::to_string(chunks) : "auto") +
            (getRing() != getOwnRing() ? "," + std::to_string(ring) : "");
  if (shadows)
    text += "+shadow" +
            getArguments(shadows->most, stringifyShadowPolicy(shadows->policy), shadows->policy == Shadows().policy);
  if (smart)
    text += "+smart" + getArguments(smart->groupSize, ::getName(smart->order), smart->order == Smart().order);
  if (topologyGate)
    text += "+topology-gate";
  if (chooseStrategy)
    text += "+mpipe-auto";
  else if (strategy != Strategy::None)
    text += ("+" + moe::getName(strategy)).str();
  // What is said by the rest is not repeated.
  StringRef rest = text;
  return rest.consume_front("baseline+") ? rest.str() : text;
}

static const Name *findName(StringRef name) {
  const Name *known = llvm::find_if(getKnownNames(), [&](const Name &known) { return known.name == name; });
  return known == getKnownNames().end() ? nullptr : known;
}

/// Chunks of so many that a plan is still compiled in reasonable time.
static constexpr int64_t maxChunks = 64;

static LogicalResult setChunks(MLIRContext *context, StringRef argument, ParsedSchedule &parsed) {
  auto isRead = [](StringRef text, int64_t &number) {
    return !text.getAsInteger(10, number) && number >= 1 && number <= maxChunks;
  };
  auto [chunks, ring] = argument.split(',');
  bool isAuto = chunks == "auto", hasRing = argument.contains(',');
  if (isAuto)
    parsed.chunks = 0;
  if ((isAuto || isRead(chunks, parsed.chunks)) && (!hasRing || isRead(ring, parsed.ring)))
    return success();
  return emitUsageError(context) << "expected pipeline:N or pipeline:N,RING with N and RING from 1 to " << maxChunks
                                 << ", or auto for N, in --schedule but got 'pipeline:" << argument << "'";
}

/// Reads `NUMBER`, `WORD` or `NUMBER,WORD`; what is not there stays as it is.
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
                                   << ", or both with a comma between, behind '" << name << ":' in --schedule but got '"
                                   << text << "'";
  return success();
}

static LogicalResult setShadows(MLIRContext *context, StringRef argument, ParsedSchedule &parsed) {
  ParsedSchedule::Shadows &shadows = parsed.shadows.emplace();
  if (!argument.data())
    return success();
  return readArguments(context, "shadow", argument, shadows.most, {"algorithm1", "prefix", "simulate"},
                       [&](unsigned word) { shadows.policy = *symbolizeShadowPolicy(word); });
}

static LogicalResult setSmart(MLIRContext *context, StringRef argument, ParsedSchedule &parsed) {
  ParsedSchedule::Smart &smart = parsed.smart.emplace();
  if (!argument.data())
    return success();
  return readArguments(context, "smart", argument, smart.groupSize, {"ring", "topology"},
                       [&](unsigned word) { smart.order = word == 0 ? SmartOrder::Ring : SmartOrder::Topology; });
}

static LogicalResult setName(MLIRContext *context, const Name &name, StringRef argument, ParsedSchedule &parsed) {
  switch (name.kind) {
  case Kind::Shadows:
    return setShadows(context, argument, parsed);
  case Kind::Smart:
    return setSmart(context, argument, parsed);
  case Kind::Gate:
    parsed.topologyGate = true;
    break;
  case Kind::Layer:
    parsed.layer = name.name.str();
    parsed.everything = name.name == "auto";
    break;
  case Kind::Overlap:
    parsed.saa = true;
    break;
  case Kind::Pipeline:
    return setChunks(context, argument, parsed);
  case Kind::Residuals:
    parsed.chooseStrategy = name.name == "mpipe-auto";
    for (Strategy strategy : {Strategy::S1, Strategy::S2, Strategy::S3, Strategy::S4})
      if (getName(strategy) == name.name)
        parsed.strategy = strategy;
    break;
  }
  return success();
}

/// Whether it changes, or decides by, what ranks send to experts. MPipeMoE's strategies do not: rows are dispatched
/// again where others are exchanged again.
static bool isAboutExchanges(const Name &name) {
  switch (name.kind) {
  case Kind::Pipeline:
  case Kind::Shadows:
  case Kind::Smart:
  case Kind::Gate:
    return true;
  case Kind::Residuals:
    return name.name == "mpipe-auto";
  case Kind::Layer:
  case Kind::Overlap:
    return false;
  }
  llvm_unreachable("all kinds are above");
}

/// What is part of one rewrite of layers alone, or makes no sense with one.
static LogicalResult checkTogether(MLIRContext *context, const Name &name, StringRef text, const ParsedSchedule &parsed,
                                   StringRef schedule) {
  if (!name.of.empty() && parsed.layer != name.of)
    return emitUsageError(context) << "expected '" << text << "' with '" << name.of
                                   << "' in --schedule, a part of which it overlaps, but got '" << schedule << "'";
  if (!parsed.hasExchanges() && isAboutExchanges(name))
    return emitUsageError(context) << "expected '" << text << "' without '" << parsed.layer
                                   << "' in --schedule, which leaves no exchange with the experts, but got '"
                                   << schedule << "'";
  return success();
}

FailureOr<ParsedSchedule> mlir::moe::parseSchedule(MLIRContext *context, StringRef schedule) {
  ParsedSchedule parsed;
  SmallVector<StringRef> texts;
  schedule.split(texts, '+');
  SmallVector<std::pair<const Name *, StringRef>> names;
  for (StringRef text : texts) {
    auto [name, argument] = text.split(':');
    const Name *known = findName(name);
    bool hasArgument = text != name;
    if (!known || (hasArgument ? !known->takesArgument() : known->needsArgument()))
      return emitUsageError(context) << "expected --schedule to be made of "
                                     << llvm::join(llvm::map_range(getKnownNames(), getFullName), ", ")
                                     << ", joined by '+', but got '" << schedule << "'";
    for (auto [other, otherText] : names)
      if (known->kind == other->kind && text != otherText)
        return emitUsageError(context) << "expected one of '" << otherText << "' and '" << text
                                       << "' in --schedule, since each decides the same, but got '" << schedule << "'";
    if (failed(setName(context, *known, argument, parsed)))
      return failure();
    names.push_back({known, text});
  }
  if (parsed.everything && names.size() > 1)
    return emitUsageError(context) << "expected 'auto' alone in --schedule, since it decides all of it, but got '"
                                   << schedule << "'";
  for (auto [name, text] : names)
    if (failed(checkTogether(context, *name, text, parsed, schedule)))
      return failure();
  return parsed;
}

//===----------------------------------------------------------------------===//
// What Algorithm 1 needs to know of the cluster
//===----------------------------------------------------------------------===//

/// How many phases Parm's SAA has, 1 where it cannot be: the exchange has to leave the node, and the gather over mp
/// not, to be on another stream.
static int64_t getSaaPhases(const CompileOptions &options) {
  ParallelAttr parallel = options.parallel;
  int64_t fused = parallel.getEp() * parallel.getEsp(), mp = parallel.getMp();
  auto isInside = [&](StringRef name) {
    return parallel.getGroup(name).isInsideNode(options.devicesPerNode, parallel.getWorld());
  };
  if (mp == 1 || fused % mp != 0 || isInside("ep_esp") || !isInside("mp"))
    return 1;
  return fused / std::max(mp, parallel.getEsp());
}

/// alpha and beta, in seconds and seconds a byte, of a collective over the first ranks.
static FailureOr<parm::AlphaBeta> getLine(const CostModel &model, Collective collective, int64_t members,
                                          ModuleOp graph) {
  if (members == 1)
    return parm::AlphaBeta();
  // Of the exchanged values none is far from the input.
  auto input = cast<ShapedType>((*graph.getOps<func::FuncOp>().begin()).getArgumentTypes().front());
  std::string dtype;
  llvm::raw_string_ostream(dtype) << input.getElementType();
  SmallVector<int64_t> ranks = llvm::to_vector(llvm::seq<int64_t>(0, members));
  llvm::Expected<CostModel::AlphaBeta> line =
      model.getAlphaBeta(collective, ranks, dtype, getByteSize(input) / model.getNumRanks());
  if (!line)
    return emitUsageError(graph.getContext()) << llvm::toString(line.takeError());
  return parm::AlphaBeta{line->alpha, line->beta};
}

/// The pair that Eq. 14 has measured as one collective, from its parts: the longer one hides all but one phase of the
/// shorter. `gatherPerByte` is bytes gathered for each byte exchanged.
static parm::AlphaBeta overlap(parm::AlphaBeta exchange, parm::AlphaBeta gather, double gatherPerByte, int64_t phases) {
  auto n = static_cast<double>(phases);
  gather.beta *= gatherPerByte;
  if (exchange.beta >= gather.beta || phases == 1)
    return {exchange.alpha + gather.alpha, exchange.beta + gather.beta / n};
  return {exchange.alpha / n + n * gather.alpha, exchange.beta / n + gather.beta};
}

static LogicalResult addAuto(PassManager &passes, const CompileOptions &options, ModuleOp graph) {
  if (!options.cluster)
    return emitUsageError(graph.getContext()) << "expected a cluster for the schedule 'parm-auto'";
  ParallelAttr parallel = options.parallel;
  llvm::Expected<std::unique_ptr<CostModel>> model =
      CostModel::create(*options.cluster, parallel.getWorld(), CostForm::ClosedForm);
  if (!model)
    return emitUsageError(graph.getContext()) << llvm::toString(model.takeError());
  FailureOr<parm::AlphaBeta> exchange =
      getLine(**model, Collective::AllToAll, parallel.getEp() * parallel.getEsp(), graph);
  if (failed(exchange))
    return failure();
  FailureOr<parm::AlphaBeta> gather = getLine(**model, Collective::AllGather, parallel.getMp(), graph);
  if (failed(gather))
    return failure();
  // y = X / N_MP bytes are exchanged where E T M = X / N_ESP are gathered.
  double gatherPerByte = static_cast<double>(parallel.getMp()) / static_cast<double>(parallel.getEsp());
  parm::AlphaBeta both = overlap(*exchange, *gather, gatherPerByte, getSaaPhases(options));
  constexpr double micro = 1e6, perMb = 1e12;
  MoePauseMpOptions pause;
  pause.schedule = PauseMpSchedule::Auto;
  pause.allToAllAlphaUs = exchange->alpha * micro;
  pause.allToAllBetaUsPerMb = exchange->beta * perMb;
  pause.allGatherAlphaUs = gather->alpha * micro;
  pause.allGatherBetaUsPerMb = gather->beta * perMb;
  pause.overlappedAlphaUs = both.alpha * micro;
  pause.overlappedBetaUsPerMb = both.beta * perMb;
  passes.addNestedPass<func::FuncOp>(createMoePauseMp(pause));
  return success();
}

static void addResiduals(PassManager &passes, Strategy strategy) {
  if (strategy == Strategy::None)
    return;
  bool offloadsDispatched = strategy == Strategy::S1 || strategy == Strategy::S3;
  bool offloadsHidden = strategy == Strategy::S1 || strategy == Strategy::S2;
  MoeSetResidualsOptions residuals;
  residuals.dispatched = offloadsDispatched ? Residual::offload : Residual::recommunicate;
  residuals.hidden = offloadsHidden ? Residual::offload : Residual::recompute;
  // What is set on an exchange in a group of one would go with it.
  passes.addNestedPass<func::FuncOp>(createCanonicalizerPass());
  passes.addNestedPass<func::FuncOp>(createMoeSetResiduals(residuals));
}

static void addPipeline(PassManager &passes, const ParsedSchedule &schedule) {
  MoePipelineOptions pipeline;
  pipeline.chunks = schedule.chunks;
  pipeline.exchangedRing = schedule.getRing();
  // What waits for a place inside the experts computes, which one chunk does at a time.
  pipeline.hiddenRing = schedule.getRing() > 0 ? std::max<int64_t>(1, schedule.getRing() - 1) : 0;
  passes.addNestedPass<func::FuncOp>(createMoePipeline(pipeline));
}

/// Of an exchange, 1 without the smart schedule.
static int64_t getNumPhases(const ParsedSchedule &schedule, const CompileOptions &options) {
  if (!schedule.smart)
    return 1;
  int64_t ranks = options.parallel.getEp() * options.parallel.getEsp();
  int64_t group = schedule.smart->groupSize;
  if (group == 0)
    group = getSmartGroupSize(ranks, options.devicesPerNode);
  return std::max<int64_t>(1, ranks / std::max(group, options.parallel.getEsp()));
}

static void addShadows(PassManager &passes, const ParsedSchedule &schedule, const CompileOptions &options,
                       const LayerFigures &figures) {
  constexpr double micro = 1e6;
  MoeShadowExpertsOptions shadows;
  shadows.max = schedule.shadows->most;
  shadows.policy = schedule.shadows->policy;
  shadows.flopsPerSecond = figures.flopsPerSecond;
  shadows.sendBytesPerSecond = figures.sendBytesPerSecond;
  shadows.localBytesPerSecond = figures.localBytesPerSecond;
  shadows.nodeBytesPerSecond = figures.nodeBytesPerSecond;
  shadows.broadcastBytesPerSecond = figures.broadcastBytesPerSecond;
  shadows.startUs = figures.startSeconds * micro;
  shadows.nodeRanks = options.devicesPerNode;
  shadows.phases = getNumPhases(schedule, options);
  // A chunk or a phase may have all that is left of a whole layer.
  shadows.shrink = schedule.chunks == 1 && !schedule.smart;
  passes.addNestedPass<func::FuncOp>(createMoeShadowExperts(shadows));
}

static void addTopologyGate(PassManager &passes, const CompileOptions &options, const LayerFigures &figures) {
  MoeTopologyGateOptions gate;
  gate.nodeRanks = options.devicesPerNode;
  if (figures.localBytesPerSecond > 0) {
    gate.networkBytesPerSecond = figures.nodeBytesPerSecond;
    gate.localBytesPerSecond = figures.localBytesPerSecond;
  }
  passes.addNestedPass<func::FuncOp>(createMoeTopologyGate(gate));
}

/// Ragged exchanges are what shadows and the smart schedule change.
static LogicalResult checkDropless(const ParsedSchedule &schedule, ModuleOp graph) {
  if (!schedule.shadows && !schedule.smart)
    return success();
  for (LayerOp layer : (*graph.getOps<func::FuncOp>().begin()).getOps<LayerOp>())
    if (!layer.isDropless())
      return layer.emitOpError() << "expected a dropless layer (--dropless) for '"
                                 << (schedule.shadows ? "shadow" : "smart")
                                 << "': with a capacity each expert gets as many rows, and each rank sends as many, "
                                    "whatever the tokens choose";
  return success();
}

/// FasterMoE's rewrites, of which the smart schedule comes behind the pipeline.
static LogicalResult addFasterMoe(PassManager &passes, const ParsedSchedule &schedule, const CompileOptions &options,
                                  ModuleOp graph) {
  if (failed(checkDropless(schedule, graph)))
    return failure();
  if (!schedule.shadows && !schedule.topologyGate)
    return success();
  if (!options.cluster)
    return emitUsageError(graph.getContext()) << "expected a cluster for '" << schedule.getName() << "'";
  llvm::Expected<LayerFigures> figures = getLayerFigures(graph, options);
  if (!figures)
    return emitUsageError(graph.getContext()) << llvm::toString(figures.takeError());
  if (schedule.topologyGate)
    addTopologyGate(passes, options, *figures);
  if (schedule.shadows)
    addShadows(passes, schedule, options, *figures);
  return success();
}

static void addSmart(PassManager &passes, const ParsedSchedule &schedule, const CompileOptions &options) {
  MoeSmartScheduleOptions smart;
  smart.groupSize = schedule.smart->groupSize;
  smart.order = schedule.smart->order;
  smart.nodeRanks = options.devicesPerNode;
  passes.addNestedPass<func::FuncOp>(createMoeSmartSchedule(smart));
}

LogicalResult mlir::moe::addSchedule(PassManager &passes, const ParsedSchedule &schedule, const CompileOptions &options,
                                     ModuleOp graph) {
  if (schedule.layer == "parm-auto") {
    if (failed(addAuto(passes, options, graph)))
      return failure();
  } else if (schedule.layer == "ppmoe") {
    passes.addNestedPass<func::FuncOp>(createMoePpMoe());
  } else if (schedule.layer != "baseline") {
    MoePauseMpOptions pause;
    pause.schedule = schedule.layer == "s1" ? PauseMpSchedule::S1 : PauseMpSchedule::S2;
    passes.addNestedPass<func::FuncOp>(createMoePauseMp(pause));
  }
  if (failed(addFasterMoe(passes, schedule, options, graph)))
    return failure();
  addResiduals(passes, schedule.strategy);
  if (schedule.chunks > 1)
    addPipeline(passes, schedule);
  if (schedule.smart)
    addSmart(passes, schedule, options);
  return success();
}

ParsedSchedule mlir::moe::getS2OfAuto(ParsedSchedule schedule, const CompileOptions &options) {
  schedule.layer = "s2";
  schedule.saa = getSaaPhases(options) > 1;
  return schedule;
}

/// Whether Algorithm 1 took S2 for a layer.
static bool hasS2(func::FuncOp forward) {
  auto choices = forward->getAttrOfType<ArrayAttr>(kScheduleChoicesAttrName);
  return choices && llvm::any_of(choices.getAsRange<DictionaryAttr>(),
                                 [](DictionaryAttr choice) { return choice.getAs<StringAttr>("chosen") == "s2"; });
}

void mlir::moe::addOverlap(PassManager &passes, const ParsedSchedule &schedule, const CompileOptions &options,
                           func::FuncOp forward) {
  bool chosen = schedule.layer == "parm-auto" && getSaaPhases(options) > 1 && hasS2(forward);
  if (chosen || schedule.saa)
    passes.addNestedPass<func::FuncOp>(createMoeSplitExchanges());
}
