//===- SpmdAxes.cpp - the atomic rank axes and sets of them ---------------===//
#include "moe/Dialect/Moe/IR/SpmdAxes.h"

#include "llvm/ADT/StringExtras.h"

#include "moe/Dialect/Moe/IR/MoeDialect.h"

using namespace mlir;
using namespace mlir::moe;

static void addBoundaries(GroupAttr group, SmallVectorImpl<int64_t> &boundaries) {
  boundaries.append({group.getStride(), group.getStride() * group.getSize()});
  llvm::sort(boundaries);
  boundaries.erase(std::unique(boundaries.begin(), boundaries.end()), boundaries.end());
}

SpmdAxes::SpmdAxes(ParallelAttr parallel) : parallel(parallel) {
  for (StringRef name : ParallelAttr::getGroupNames()) {
    named.push_back(parallel.getGroup(name));
    addBoundaries(named.back(), boundaries);
  }
}

LogicalResult SpmdAxes::refine(GroupAttr group) {
  // One rank has no boundaries, and there are none beyond the world.
  if (group.getSize() == 1 || group.getSize() > parallel.getWorld() / group.getStride())
    return success(group.getSize() == 1);
  SmallVector<int64_t> refined = boundaries;
  addBoundaries(group, refined);
  for (auto [lower, upper] : llvm::zip(refined, llvm::drop_begin(refined)))
    if (upper % lower != 0)
      return failure();
  boundaries = std::move(refined);
  if (!llvm::is_contained(named, group))
    named.push_back(group);
  return success();
}

FailureOr<AxisSet> SpmdAxes::getAxes(GroupAttr group) const {
  AxisSet set;
  int64_t covered = 1;
  for (size_t i = 0; i < getNumAxes(); ++i)
    if (boundaries[i] >= group.getStride() && boundaries[i + 1] <= group.getStride() * group.getSize()) {
      set.bits |= uint64_t(1) << i;
      covered *= boundaries[i + 1] / boundaries[i];
    }
  if (covered != group.getSize())
    return failure();
  return set;
}

FailureOr<AxisSet> SpmdAxes::getAxes(Operation *op, GroupAttr group) const {
  FailureOr<AxisSet> set = getAxes(group);
  if (failed(set))
    op->emitOpError() << "expected stride and stride * size of group " << group
                      << " to divide, or be multiples of, those of the groups of the module's " << kParallelAttrName
                      << " and of the program: "
                      << llvm::join(llvm::map_range(boundaries, [](int64_t at) { return std::to_string(at); }), ", ")
                      << "; and not to exceed the last, but got " << group.getStride() << " and "
                      << group.getStride() * group.getSize();
  return set;
}

AxisSet SpmdAxes::getCovering(GroupAttr group) const {
  AxisSet set;
  for (size_t i = 0; i < getNumAxes(); ++i)
    if (boundaries[i + 1] > group.getStride() && boundaries[i] < group.getStride() * group.getSize())
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

SmallVector<AxisSet> SpmdAxes::getEach() const {
  SmallVector<AxisSet> each;
  for (size_t i = 0; i < getNumAxes(); ++i)
    each.push_back({uint64_t(1) << i});
  return each;
}

SmallVector<GroupAttr> SpmdAxes::getGroups(AxisSet set) const {
  // A group with this name is the clearest to readers.
  for (GroupAttr group : named)
    if (!set.empty() && *getAxes(group) == set)
      return {group};
  SmallVector<GroupAttr> groups;
  for (size_t i = 0; i < getNumAxes(); ++i) {
    if (!(set.bits >> i & 1))
      continue;
    int64_t stride = boundaries[i];
    AxisSet run;
    for (; i < getNumAxes() && set.bits >> i & 1; ++i)
      run.bits |= uint64_t(1) << i;
    if (run != set) {
      groups.append(getGroups(run));
      continue;
    }
    std::string name = "stride" + std::to_string(stride);
    groups.push_back(GroupAttr::get(parallel.getContext(), name, boundaries[i] / stride, stride));
  }
  return groups;
}

std::string SpmdAxes::describe(AxisSet set) const {
  if (set.empty())
    return "none";
  return llvm::join(llvm::map_range(getGroups(set), [](GroupAttr group) { return "'" + group.getName().str() + "'"; }),
                    ", ");
}
