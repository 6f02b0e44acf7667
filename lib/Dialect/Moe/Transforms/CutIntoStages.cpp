//===- CutIntoStages.cpp - stages of about equal time ---------------------===//
#include "moe/Dialect/Moe/Transforms/PipelineOrder.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/SmallVectorExtras.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <vector>

using namespace mlir;
using namespace mlir::moe;

/// In parts of a thousand millionth of all, so that sums are exact: which of two cuts that come to the same is taken
/// must not depend on how sums are rounded.
static SmallVector<int64_t> makeWhole(ArrayRef<double> seconds, double all) {
  constexpr double units = 1e9;
  return llvm::map_to_vector(
      seconds, [&](double one) { return static_cast<int64_t>(all > 0 ? std::llround(one / all * units) : 0); });
}

SmallVector<size_t> mlir::moe::cutIntoStages(const ProgramParts &parts, int64_t stages) {
  size_t count = parts.seconds.size();
  if (count < static_cast<size_t>(stages))
    return {};
  // All that stages can come to: so the sum of their squares does not overflow.
  double all = std::accumulate(parts.seconds.begin(), parts.seconds.end(), 0.0);
  all = std::accumulate(parts.receive.begin(), parts.receive.end(), all);
  SmallVector<int64_t> before = {0}, receive = makeWhole(parts.receive, all);
  for (int64_t units : makeWhole(parts.seconds, all))
    before.push_back(before.back() + units);
  auto getUnits = [&](size_t from, size_t to) { return before[to] - before[from] + receive[from]; };
  // best[k][to]: what `join` says of the best k + 1 stages of the parts before `to`; from[k][to]: where the last
  // begins.
  constexpr int64_t never = std::numeric_limits<int64_t>::max();
  std::vector<std::vector<int64_t>> best;
  std::vector<std::vector<size_t>> from(stages, std::vector<size_t>(count + 1, 0));
  auto find = [&](int64_t most, auto join) {
    best.assign(stages, std::vector<int64_t>(count + 1, never));
    for (size_t to = 1; to <= count && getUnits(0, to) <= most; ++to)
      best[0][to] = join(0, getUnits(0, to));
    for (int64_t stage = 1; stage < stages; ++stage)
      for (size_t to = stage + 1; to <= count; ++to)
        // The sooner a stage begins the longer it takes. Of the best the longest is taken.
        for (size_t begin = to - 1; begin >= static_cast<size_t>(stage); --begin) {
          if (before[to] - before[begin] > most)
            break;
          int64_t units = getUnits(begin, to), earlier = best[stage - 1][begin];
          if (units > most || earlier == never)
            continue;
          if (int64_t joined = join(earlier, units); joined <= best[stage][to]) {
            best[stage][to] = joined;
            from[stage][to] = begin;
          }
        }
    return best[stages - 1][count];
  };
  // As short a slowest stage as can be; and with it, stages that are as equal as can be.
  int64_t slowest = find(never - 1, [](int64_t earlier, int64_t units) { return std::max(earlier, units); });
  find(slowest, [](int64_t earlier, int64_t units) { return earlier + units * units; });
  SmallVector<size_t> first(stages, 0);
  for (size_t stage = stages - 1, to = count; stage > 0; --stage)
    to = first[stage] = from[stage][to];
  return first;
}
