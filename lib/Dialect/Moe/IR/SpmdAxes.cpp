//===- SpmdAxes.cpp - the atomic rank axes and sets of them ---------------===//
#include "moe/Dialect/Moe/IR/SpmdAxes.h"

#include "llvm/ADT/StringExtras.h"

using namespace mlir;
using namespace mlir::moe;

SpmdAxes::SpmdAxes(ParallelAttr parallel) : parallel(parallel) {
  SmallVector<int64_t> boundaries = {1};
  for (StringRef name : ParallelAttr::getGroupNames()) {
    GroupAttr group = parallel.getGroup(name);
    boundaries.push_back(group.getStride());
    boundaries.push_back(group.getStride() * group.getSize());
  }
  llvm::sort(boundaries);
  boundaries.erase(std::unique(boundaries.begin(), boundaries.end()), boundaries.end());
  for (size_t i = 0; i + 1 < boundaries.size(); ++i)
    axes.push_back({boundaries[i], boundaries[i + 1] / boundaries[i]});
}

FailureOr<AxisSet> SpmdAxes::getAxes(GroupAttr group) const {
  AxisSet set;
  int64_t covered = 1;
  for (auto [i, axis] : llvm::enumerate(axes))
    if (axis.stride >= group.getStride() && axis.stride * axis.size <= group.getStride() * group.getSize()) {
      set.bits |= uint64_t(1) << i;
      covered *= axis.size;
    }
  if (covered != group.getSize())
    return failure();
  return set;
}

AxisSet SpmdAxes::getCovering(GroupAttr group) const {
  AxisSet set;
  for (auto [i, axis] : llvm::enumerate(axes))
    if (axis.stride * axis.size > group.getStride() && axis.stride < group.getStride() * group.getSize())
      set.bits |= uint64_t(1) << i;
  return set;
}

FailureOr<AxisSet> SpmdAxes::getAxes(LayoutAttr layout) const {
  AxisSet set;
  for (size_t dim = 0; dim < layout.getDims().size(); ++dim)
    for (StringRef name : layout.getGroups(dim)) {
      GroupAttr group = parallel.getGroup(name);
      if (!group)
        return failure();
      set = set | *getAxes(group);
    }
  return set;
}

SmallVector<GroupAttr> SpmdAxes::getGroups(AxisSet set) const {
  // A group of that name says most to a reader.
  for (StringRef name : ParallelAttr::getGroupNames())
    if (GroupAttr group = parallel.getGroup(name); !set.empty() && *getAxes(group) == set)
      return {group};
  SmallVector<GroupAttr> groups;
  for (size_t i = 0; i < axes.size(); ++i) {
    if (!(set.bits >> i & 1))
      continue;
    int64_t stride = axes[i].stride, size = 1;
    AxisSet run;
    for (; i < axes.size() && set.bits >> i & 1; ++i) {
      size *= axes[i].size;
      run.bits |= uint64_t(1) << i;
    }
    if (run != set) {
      groups.append(getGroups(run));
      continue;
    }
    std::string name = "stride" + std::to_string(stride);
    groups.push_back(GroupAttr::get(parallel.getContext(), name, size, stride));
  }
  return groups;
}

std::string SpmdAxes::describe(AxisSet set) const {
  if (set.empty())
    return "none";
  return llvm::join(llvm::map_range(getGroups(set), [](GroupAttr group) { return "'" + group.getName().str() + "'"; }),
                    ", ");
}
