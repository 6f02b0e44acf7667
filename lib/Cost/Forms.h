//===- Forms.h - parts that the forms of the cost model share ---*- C++ -*-===//
#ifndef MOE_LIB_COST_FORMS_H
#define MOE_LIB_COST_FORMS_H

#include "CollectiveFlows.h"

#include "moe/Cost/CostModel.h"
#include "moe/Cost/Topology.h"

#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/StringMap.h"

#include <tuple>

namespace mlir::moe {

/// Results for collectives of groups, by ranks.
template <typename T> class GroupCache {
public:
  /// Null if there is no result yet. Valid until the next insertion.
  T *find(Collective collective, llvm::ArrayRef<int64_t> ranks, llvm::StringRef dtype) {
    auto it = entries.find({collective, ranks, dtype});
    return it == entries.end() ? nullptr : &it->second;
  }
  T &insert(Collective collective, llvm::ArrayRef<int64_t> ranks, llvm::StringRef dtype, T value) {
    return entries[{collective, ranks.copy(storage), dtype.copy(storage)}] = std::move(value);
  }

private:
  llvm::DenseMap<std::tuple<Collective, llvm::ArrayRef<int64_t>, llvm::StringRef>, T> entries;
  llvm::BumpPtrAllocator storage; ///< memory of the keys
};

/// Times of an exchange on links while its siblings, the other groups of the SPMD program, exchange too.
struct LinkTimes {
  struct Part {
    double latency = 0; ///< seconds until the first byte arrives
    double posts = 0;   ///< seconds in which the busiest member posts its messages
    double beta = 0;    ///< seconds of the busiest link for each byte of payload
    bool isPipelined = false;
  };
  llvm::SmallVector<Part, 1> parts; ///< one part for each phase
  double getAlpha(const Protocol &protocol, Algorithm algorithm) const;
  double getBeta() const;
};

/// alpha and beta near some payload, with facts that the flows of the exchange need.
struct GroupTime : CostModel::AlphaBeta {
  Algorithm algorithm = Algorithm::Ring;
  double linkBeta = 0;         ///< beta from links alone, for a protocol that uses their whole bandwidth
  bool isExtrapolated = false; ///< whether no measurement brackets the group and the payload
};

struct CostModel::State {
  const ClusterProfile &profile;
  int64_t ranks;
  std::optional<Topology> topology; ///< none if the profile has no links
  std::optional<Topology> healthy;  ///< the topology without faults; none if there are no faults
  NodeLayout layout;
  llvm::StringMap<llvm::SmallVector<const KernelRate *>> kernels;
  std::array<GroupCache<LinkTimes>, kNumAlgorithms> links, healthyLinks; ///< by algorithm
  GroupCache<llvm::DenseMap<int64_t, GroupTime>> times;                  ///< by payload

  /// Times on links, without faults if `isHealthy`. Fails if the algorithm cannot carry out the exchange.
  llvm::Expected<LinkTimes> getLinkTimes(Collective collective, llvm::ArrayRef<int64_t> ranks, Algorithm algorithm,
                                         bool isHealthy);
};

/// Seconds of a curve. The time is constant below the first point. The slope, in seconds a byte, is at least that of
/// the last points, because no message is faster than the wire.
double getCurveSeconds(const CollectiveFit &fit, double bytes);
double getCurveBeta(const CollectiveFit &fit, double bytes);

std::unique_ptr<CostModel> makeClosedForm(std::unique_ptr<CostModel::State> state);
std::unique_ptr<CostModel> makeLinkLevel(std::unique_ptr<CostModel::State> state);

} // namespace mlir::moe

#endif // MOE_LIB_COST_FORMS_H
