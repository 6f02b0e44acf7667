//===- Schedule.h - the schedules by name -----------------------*- C++ -*-===//
#ifndef MOE_COMPILER_SCHEDULE_H
#define MOE_COMPILER_SCHEDULE_H

#include "moe/Compiler/Compiler.h"
#include "moe/Cost/Papers.h"

namespace mlir::moe {

/// shadow[:MAX[,POLICY]]. A MAX of 0 leaves the number to moe-shadow-experts.
struct ShadowSchedule {
  int64_t most = 0;
  ShadowPolicy policy = ShadowPolicy::simulate;
};

/// smart[:RANKS[,ORDER]]. RANKS of 0 leave the groups of close ranks to moe-smart-schedule.
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

/// The rewrite of whole layers.
enum class LayerRewrite { Baseline, S1, S2, PpMoe, ParmAuto };

/// A schedule that was read from its name.
struct ParsedSchedule {
  LayerRewrite layer = LayerRewrite::Baseline;
  bool saa = false;
  /// Number of chunks in chunks:N; 0 for chunks:auto.
  int64_t chunks = 1;
  /// RING in chunks:N,RING; 0 if none was given.
  int64_t ring = 0;
  /// Strategy of mpipe-s1 .. mpipe-s4; none otherwise.
  mpipemoe::Strategy strategy = mpipemoe::Strategy::None;
  /// mpipe-auto: Eq. 10 decides.
  bool chooseStrategy = false;
  std::optional<ShadowSchedule> shadows;
  std::optional<SmartSchedule> smart;
  bool topologyGate = false;
  std::optional<OnceSchedule> once;
  /// hier[:RANKS]: a layer with a capacity exchanges between nodes of RANKS ranks, and inside each. 0: the cluster's.
  std::optional<int64_t> hierRanks;
  /// Whether it is auto, and all of this is open.
  bool everything = false;

  /// Whether rows are sent to their experts, so that there are exchanges to divide.
  bool hasExchanges() const;
  /// Whether the members of mp share the tokens that all of them have, so that each dispatches a part of them.
  bool sharesTokens() const;
  /// Whether a part of it exchanges differently between nodes and inside.
  bool isByNode() const { return once || hierRanks; }
  /// Whether exchanges and computation of a layer can overlap.
  bool canOverlap() const { return chunks != 1 || dependsOnRouting(); }
  /// Whether exchanges depend on the experts that tokens choose.
  bool dependsOnRouting() const { return shadows || smart; }
  /// Number of chunks whose exchanged values are alive at once; of values inside the experts, one chunk less. 0: all
  /// chunks. The default is two with a strategy that keeps less: without one, no chunk has to wait for its place.
  int64_t getRing() const { return ring ? ring : getOwnRing(); }
  int64_t getOwnRing() const { return strategy == mpipemoe::Strategy::None ? 0 : 2; }
  /// Whether times decide a part of it.
  bool isOpen() const { return chunks == 0 || chooseStrategy; }
  /// The names joined by '+', as --schedule takes them.
  std::string getName() const;
};

/// "baseline", "s1", ...
StringRef getName(LayerRewrite rewrite);

/// Fails with an error that lists the known names or says which exclude each other.
FailureOr<ParsedSchedule> parseSchedule(MLIRContext *context, StringRef schedule);

/// Whether the parts can be combined.
bool isPossible(const ParsedSchedule &schedule);

/// Every combination of parts that 'auto' may take. The passes refuse some of them. The topology-aware gate is left
/// out, since it changes the experts that tokens choose.
SmallVector<ParsedSchedule> getCombinations();

/// The schedule that stands for S2 where 'parm-auto' chooses between it and 's1' on these options' cluster.
ParsedSchedule getS2OfAuto(ParsedSchedule schedule, const CompileOptions &options);

} // namespace mlir::moe

#endif // MOE_COMPILER_SCHEDULE_H
