//===- Space.cpp - the schedules that 'auto' chooses from -----------------===//
#include "Space.h"

#include "moe/Cost/ClusterProfile.h"

using namespace mlir;
using namespace mlir::moe;
using mpipemoe::Strategy;

SmallVector<ScheduleClass> mlir::moe::getScheduleClasses() {
  SmallVector<ScheduleClass> classes;
  for (auto [layer, saa] : std::initializer_list<std::pair<const char *, bool>>{
           {"baseline", false}, {"s1", false}, {"s2", false}, {"s2", true}, {"ppmoe", false}})
    for (bool shadows : {false, true})
      for (bool smart : {false, true}) {
        ScheduleClass &one = classes.emplace_back();
        one.first.layer = layer;
        one.first.saa = saa;
        if (shadows)
          one.first.shadows.emplace();
        if (smart)
          one.first.smart.emplace();
        one.name = one.first.getName();
      }
  return classes;
}

ArrayRef<int64_t> mlir::moe::getAutoChunkCounts() {
  static const int64_t counts[] = {1, 2, 4, 8, 16};
  return counts;
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
