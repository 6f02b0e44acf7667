//===- Schedule.cpp - the schedules by name -------------------------------===//
#include "Schedule.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/Diagnostics.h"
#include "llvm/ADT/StringExtras.h"

#include "moe/Cost/ClusterProfile.h"
#include "moe/Cost/CostModel.h"
#include "moe/Cost/Papers.h"
#include "moe/Dialect/Moe/IR/MoeDialect.h"
#include "moe/Dialect/Moe/IR/MoeInterfaces.h"
#include "moe/Dialect/Moe/Transforms/Passes.h"
#include "moe/Dialect/Plan/Transforms/Passes.h"

using namespace mlir;
using namespace mlir::moe;

namespace {
/// A schedule is a rewrite of the baseline forward, or an overlap in forward and backward.
struct Schedule {
  StringLiteral name;
  /// At most one of those that rewrite the whole layer can be had.
  bool rewritesLayer;
  /// Of which of those an overlap is part; empty: of all.
  StringLiteral of;
};
} // namespace

static ArrayRef<Schedule> getSchedules() {
  static const Schedule schedules[] = {{"baseline", true, ""}, // What moe-partition gives.
                                       {"s1", true, ""},
                                       {"s2", true, ""},
                                       {"auto", true, ""},
                                       {"saa", false, "s2"}};
  return schedules;
}

static InFlightDiagnostic emitUsageError(MLIRContext *context) { return emitError(UnknownLoc::get(context)); }

static SmallVector<StringRef> splitNames(const CompileOptions &options) {
  SmallVector<StringRef> names;
  StringRef(options.schedule).split(names, '+');
  return names;
}

/// The layer's rewrite and the overlaps that are asked for.
static FailureOr<StringRef> checkNames(MLIRContext *context, const CompileOptions &options) {
  StringRef layer;
  SmallVector<StringRef> names = splitNames(options);
  auto find = [](StringRef name) {
    return llvm::find_if(getSchedules(), [&](const Schedule &known) { return known.name == name; });
  };
  for (StringRef name : names) {
    const Schedule *known = find(name);
    if (known == getSchedules().end())
      return emitUsageError(context)
             << "expected --schedule to be made of "
             << llvm::join(llvm::map_range(getSchedules(), [](const Schedule &known) { return known.name.str(); }),
                           ", ")
             << ", joined by '+', but got '" << options.schedule << "'";
    if (known->rewritesLayer && !layer.empty() && layer != name)
      return emitUsageError(context) << "expected one of '" << layer << "' and '" << name
                                     << "' in --schedule, since each rewrites the whole layer, but got '"
                                     << options.schedule << "'";
    if (known->rewritesLayer)
      layer = name;
  }
  for (StringRef name : names)
    if (const Schedule *known = find(name); !known->of.empty() && layer != known->of)
      return emitUsageError(context) << "expected '" << name << "' with '" << known->of
                                     << "' in --schedule, a part of which it overlaps, but got '" << options.schedule
                                     << "'";
  return layer;
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
    return plan::isInsideNode(parallel.getGroup(name), options.devicesPerNode, parallel.getWorld());
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
    return emitUsageError(graph.getContext()) << "expected a cluster for the schedule 'auto'";
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

LogicalResult mlir::moe::addSchedule(PassManager &passes, const CompileOptions &options, ModuleOp graph) {
  FailureOr<StringRef> layer = checkNames(graph.getContext(), options);
  if (failed(layer))
    return failure();
  if (*layer == "auto")
    return addAuto(passes, options, graph);
  if (*layer == "baseline")
    return success();
  MoePauseMpOptions pause;
  pause.schedule = *layer == "s1" ? PauseMpSchedule::S1 : PauseMpSchedule::S2;
  passes.addNestedPass<func::FuncOp>(createMoePauseMp(pause));
  return success();
}

StringRef mlir::moe::getS2OfAuto(const CompileOptions &options) { return getSaaPhases(options) > 1 ? "s2+saa" : "s2"; }

/// Whether Algorithm 1 took S2 for a layer.
static bool hasS2(func::FuncOp forward) {
  auto choices = forward->getAttrOfType<ArrayAttr>(kScheduleChoicesAttrName);
  return choices && llvm::any_of(choices.getAsRange<DictionaryAttr>(),
                                 [](DictionaryAttr choice) { return choice.getAs<StringAttr>("chosen") == "s2"; });
}

void mlir::moe::addOverlap(PassManager &passes, const CompileOptions &options, func::FuncOp forward) {
  SmallVector<StringRef> names = splitNames(options);
  bool chosen = llvm::is_contained(names, "auto") && getSaaPhases(options) > 1 && hasS2(forward);
  if (chosen || llvm::is_contained(names, "saa"))
    passes.addNestedPass<func::FuncOp>(createMoeSplitExchanges());
}
