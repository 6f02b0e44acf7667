//===- Forms.h - what the forms of the cost model share ---------*- C++ -*-===//
#ifndef MOE_LIB_COST_FORMS_H
#define MOE_LIB_COST_FORMS_H

#include "CollectiveFlows.h"

#include "moe/Cost/CostModel.h"
#include "moe/Cost/Topology.h"

#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/Hashing.h"
#include "llvm/ADT/StringMap.h"

#include <string>

namespace mlir::moe {

/// What was computed for a collective of a group, found again by its ranks.
template <typename T> class GroupCache {
public:
  /// Null where it is new.
  T *find(Collective collective, llvm::ArrayRef<int64_t> ranks, llvm::StringRef dtype) {
    auto it = entries.find(getKey(collective, ranks, dtype));
    if (it == entries.end())
      return nullptr;
    for (const std::unique_ptr<Entry> &entry : it->second)
      if (entry->collective == collective && entry->dtype == dtype && llvm::ArrayRef(entry->ranks) == ranks)
        return &entry->value;
    return nullptr;
  }
  /// Valid as long as the cache.
  T &insert(Collective collective, llvm::ArrayRef<int64_t> ranks, llvm::StringRef dtype, T value) {
    auto &same = entries[getKey(collective, ranks, dtype)];
    same.push_back(std::make_unique<Entry>(Entry{collective, ranks.vec(), dtype.str(), std::move(value)}));
    return same.back()->value;
  }

private:
  struct Entry {
    Collective collective;
    std::vector<int64_t> ranks;
    std::string dtype;
    T value;
  };
  static size_t getKey(Collective collective, llvm::ArrayRef<int64_t> ranks, llvm::StringRef dtype) {
    return llvm::hash_combine(collective, ranks.size(), ranks.front(), ranks.back(), ranks[ranks.size() / 2], dtype);
  }
  llvm::DenseMap<size_t, llvm::SmallVector<std::unique_ptr<Entry>, 1>> entries;
};

/// What an exchange needs by its links, where its siblings in an SPMD program exchange at the same time.
struct LinkTimes {
  struct Part {
    double latency = 0; ///< seconds until the first byte is at its end
    double posts = 0;   ///< seconds in which the busiest member sends its messages off
    double beta = 0;    ///< seconds of the most loaded link, for each byte of payload
    bool isPipelined = false;
  };
  llvm::SmallVector<Part, 1> parts; ///< one for each phase
  double getAlpha(const Protocol &protocol, Algorithm algorithm) const;
  double getBeta() const;
};

/// alpha and beta near some payload, and what the flows of the exchange need.
struct GroupTime : CostModel::AlphaBeta {
  Algorithm algorithm = Algorithm::Ring;
  double linkBeta = 0;         ///< what the links alone give, by the protocol with all of their bandwidth
  bool isExtrapolated = false; ///< no measurement brackets the group and the payload
};

struct CostModel::State {
  const ClusterProfile &profile;
  int64_t ranks;
  /// Null where the profile has no links.
  std::unique_ptr<Topology> topology;
  /// The one without faults; null where there are none.
  std::unique_ptr<Topology> healthy;
  NodeLayout layout;
  llvm::StringMap<llvm::SmallVector<const KernelRate *>> kernels;
  std::array<GroupCache<LinkTimes>, kNumAlgorithms> links, healthyLinks; ///< by algorithm
  GroupCache<llvm::DenseMap<int64_t, GroupTime>> times;                  ///< by payload

  /// From the links, without faults if `isHealthy`. Fails where the algorithm does not carry the exchange out.
  llvm::Expected<LinkTimes> getLinkTimes(Collective collective, llvm::ArrayRef<int64_t> ranks, Algorithm algorithm,
                                         bool isHealthy);
};

/// The seconds of a curve, and its slope in seconds a byte, which is at least that of its last points: no message is
/// faster than the wire. Below the first point the time is constant.
double getCurveSeconds(const CollectiveFit &fit, double bytes);
double getCurveBeta(const CollectiveFit &fit, double bytes);

std::unique_ptr<CostModel> makeClosedForm(std::unique_ptr<CostModel::State> state);
std::unique_ptr<CostModel> makeLinkLevel(std::unique_ptr<CostModel::State> state);

llvm::Error makeCostError(const llvm::Twine &message);

} // namespace mlir::moe

#endif // MOE_LIB_COST_FORMS_H
