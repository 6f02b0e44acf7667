//===- SearchSpace.cpp - the schedules that 'auto' chooses from -----------===//
#include "SearchSpace.h"

#include "moe/Cost/ClusterProfile.h"

using namespace mlir;
using namespace mlir::moe;
using mpipemoe::Strategy;

SmallVector<ScheduleClass> mlir::moe::getScheduleClasses() {
  return llvm::map_to_vector(getCombinations(),
                             [](const ParsedSchedule &first) { return ScheduleClass{first.getName(), first}; });
}

ArrayRef<int64_t> mlir::moe::getChunkCounts(int64_t most) {
  static const int64_t counts[] = {1, 2, 4, 8, 16};
  return ArrayRef(counts).take_while([&](int64_t count) { return count <= most; });
}

SmallVector<int64_t> mlir::moe::getSmallerRings(const ParsedSchedule &schedule) {
  // Without a ring every chunk has a place.
  int64_t own = std::min(schedule.chunks, schedule.getRing() ? schedule.getRing() : schedule.chunks);
  SmallVector<int64_t> rings;
  for (int64_t ring : {2, 1})
    if (ring < own)
      rings.push_back(ring);
  return rings;
}

SmallVector<Strategy> mlir::moe::getStrategies(const ClusterProfile &cluster) {
  SmallVector<Strategy> strategies = {Strategy::None, Strategy::S4};
  // Nothing is known of copies to a host without a link.
  if (cluster.hostBytesPerSecond > 0)
    strategies.append({Strategy::S1, Strategy::S2, Strategy::S3});
  return strategies;
}
