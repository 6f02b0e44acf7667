//===- Forms.h - what the forms of the cost model share ---------*- C++ -*-===//
#ifndef MOE_LIB_COST_FORMS_H
#define MOE_LIB_COST_FORMS_H

#include "moe/Cost/CostModel.h"
#include "moe/Cost/Topology.h"

#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/StringMap.h"

#include <string>

namespace mlir::moe {

/// What was computed for a collective of a group, found again by its ranks.
class GroupCache {
public:
  const CostModel::AlphaBeta *find(Collective collective, llvm::ArrayRef<int64_t> ranks, llvm::StringRef dtype) const;
  void insert(Collective collective, llvm::ArrayRef<int64_t> ranks, llvm::StringRef dtype, CostModel::AlphaBeta value);

private:
  struct Entry {
    Collective collective;
    std::vector<int64_t> ranks;
    std::string dtype;
    CostModel::AlphaBeta value;
  };
  llvm::DenseMap<size_t, llvm::SmallVector<Entry, 1>> entries;
};

struct CostModel::State {
  const ClusterProfile &profile;
  int64_t ranks;
  /// Null where the profile has no links.
  std::unique_ptr<Topology> topology;
  /// The one without faults; null where there are none.
  std::unique_ptr<Topology> healthy;
  llvm::StringMap<llvm::SmallVector<const KernelRate *>> kernels;
  /// Results of getAlphaBeta, and those that come from `topology` and from `healthy`.
  std::array<GroupCache, kNumAlgorithms> groups, fromLinks, fromHealthyLinks; ///< by algorithm
};

std::unique_ptr<CostModel> makeClosedForm(std::unique_ptr<CostModel::State> state);
std::unique_ptr<CostModel> makeLinkLevel(std::unique_ptr<CostModel::State> state);

llvm::Error makeCostError(const llvm::Twine &message);

} // namespace mlir::moe

#endif // MOE_LIB_COST_FORMS_H
