//===- Schedule.h - the schedules by name -----------------------*- C++ -*-===//
#ifndef MOE_COMPILER_SCHEDULE_H
#define MOE_COMPILER_SCHEDULE_H

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Pass/PassManager.h"

#include "moe/Compiler/Compiler.h"
#include "moe/Cost/Papers.h"
#include "moe/Dialect/Moe/Transforms/ScheduleOptions.h"

namespace mlir::moe {

/// shadow[:MAX[,POLICY]]; MAX 0: as many as moe-shadow-experts takes by itself.
struct ShadowSchedule {
  int64_t most = 0;
  ShadowPolicy policy = ShadowPolicy::simulate;
};

/// smart[:RANKS[,ORDER]]; RANKS 0: what moe-smart-schedule finds close.
struct SmartSchedule {
  int64_t groupSize = 0;
  SmartOrder order = SmartOrder::Topology;
};

/// once:rank, once:node[,RANKS]: a token goes once to each rank that holds some of its experts; with nodes, first once
/// to each node of RANKS ranks, and from there to its ranks. RANKS 0: the cluster's nodes.
struct OnceSchedule {
  bool hasNodes = false;
  int64_t nodeRanks = 0;
};

/// hier[:RANKS]: a layer with a capacity exchanges between nodes of RANKS ranks, and inside each. 0: the cluster's
/// nodes.
struct HierSchedule {
  int64_t nodeRanks = 0;
};

/// The rewrite of whole layers.
enum class LayerRewrite {
#define LAYER_REWRITE(value, ...) value,
#include "moe/Compiler/LayerRewrites.def"
};

/// What --schedule asks for.
struct ParsedSchedule {
  LayerRewrite layer = LayerRewrite::Baseline;
  bool saa = false;
  /// Of pipeline:N; 0 for pipeline:auto.
  int64_t chunks = 1;
  /// Of pipeline:N,RING; 0: none was given.
  int64_t ring = 0;
  /// Of mpipe-s1 .. mpipe-s4; none otherwise.
  mpipemoe::Strategy strategy = mpipemoe::Strategy::None;
  /// mpipe-auto: Eq. 10 decides.
  bool chooseStrategy = false;
  std::optional<ShadowSchedule> shadows;
  std::optional<SmartSchedule> smart;
  bool topologyGate = false;
  std::optional<OnceSchedule> once;
  std::optional<HierSchedule> hier;
  /// Of auto: all of this is open.
  bool everything = false;

  /// Whether rows go to their experts, so that there is something to divide.
  bool hasExchanges() const;
  /// Whether the members of mp share the tokens that all of them have, so that each dispatches a part of them.
  bool sharesTokens() const;
  /// Whether a part of it exchanges in another way between nodes than inside.
  bool isByNode() const { return once || hier; }
  /// Whether exchanges and computation of a layer can overlap.
  bool canOverlap() const { return chunks != 1 || dependsOnRouting(); }
  /// Whether what is exchanged when, or at all, depends on what the tokens choose.
  bool dependsOnRouting() const { return shadows || smart; }
  /// How many chunks' exchanged values are alive at once, and one less of what is inside the experts; 0: of all chunks.
  /// By itself two where a strategy keeps less: without one nothing has to wait for its place.
  int64_t getRing() const { return ring ? ring : getOwnRing(); }
  int64_t getOwnRing() const { return strategy == mpipemoe::Strategy::None ? 0 : 2; }
  /// Whether something is left to decide by times.
  bool isOpen() const { return chunks == 0 || chooseStrategy; }
  /// The names joined by '+', as --schedule takes them.
  std::string getName() const;
};

/// "baseline", "s1", ...
StringRef getName(LayerRewrite rewrite);
/// "none", "mpipe-s1", ...
StringRef getName(mpipemoe::Strategy strategy);

/// Fails with an error that lists the known names or says which exclude each other.
FailureOr<ParsedSchedule> parseSchedule(MLIRContext *context, StringRef schedule);

/// Whether --schedule takes its parts together.
bool isPossible(const ParsedSchedule &schedule);

/// Every combination of rewrites of layers, their overlap, exchanges by node, shadows and the smart schedule that
/// 'auto' may take. Which of them can be, the passes say. The topology-aware gate is none of them, since it changes
/// what tokens choose.
SmallVector<ParsedSchedule> getCombinations();

/// Appends the passes that turn the baseline forward into `schedule`, which is not open. Fails with an error that says
/// what of the cluster is not known. `graph` is what is compiled.
LogicalResult addSchedule(PassManager &passes, const ParsedSchedule &schedule, const CompileOptions &options,
                          ModuleOp graph);
/// Appends what the schedule does with forward and backward alike; addSchedule's passes have made `forward`.
void addOverlap(PassManager &passes, const ParsedSchedule &schedule, const CompileOptions &options,
                func::FuncOp forward);
/// `schedule` without the parts whose passes left every layer of `forward` as it is.
ParsedSchedule getApplied(ParsedSchedule schedule, func::FuncOp forward);
/// The schedule that stands for S2 where 'parm-auto' chooses between it and 's1' on these options' cluster.
ParsedSchedule getS2OfAuto(ParsedSchedule schedule, const CompileOptions &options);

} // namespace mlir::moe

#endif // MOE_COMPILER_SCHEDULE_H
