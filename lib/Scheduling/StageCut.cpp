//===- StageCut.cpp - stages of about equal time --------------------------===//
#include "moe/Scheduling/StageCut.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/SmallVectorExtras.h"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <functional>
#include <limits>
#include <numeric>
#include <vector>

using namespace mlir;
using namespace mlir::moe;

std::string StageCutProblem::check() const {
  if (receive.size() != seconds.size())
    return "expected receiving times of " + std::to_string(seconds.size()) + " parts but got " +
           std::to_string(receive.size());
  if (stages < 1 || static_cast<size_t>(stages) > seconds.size())
    return "expected from 1 to " + std::to_string(seconds.size()) + " stages but got " + std::to_string(stages);
  return "";
}

std::string StageCutProblem::verify(ArrayRef<size_t> first) const {
  if (first.size() != static_cast<size_t>(stages))
    return "expected " + std::to_string(stages) + " stages but got " + std::to_string(first.size());
  if (first.front() != 0 || first.back() >= seconds.size() ||
      std::adjacent_find(first.begin(), first.end(), std::greater_equal<>()) != first.end())
    return "expected stages that begin with part 0 and at rising parts";
  return "";
}

/// Converts seconds to units of a billionth of all. Sums of whole numbers are exact, so rounding does not decide
/// between two cuts of equal time.
static SmallVector<int64_t> makeWhole(ArrayRef<double> seconds, double all) {
  constexpr double units = 1e9;
  return llvm::map_to_vector(
      seconds, [&](double one) { return static_cast<int64_t>(all > 0 ? std::llround(one / all * units) : 0); });
}

SmallVector<size_t> mlir::moe::cutIntoStages(const StageCutProblem &problem) {
  assert(problem.check().empty() && "expected a problem without a mistake");
  const auto &[seconds, receiveSeconds, stages] = problem;
  size_t count = seconds.size();
  // No stage takes longer, so the sum of their squares does not overflow.
  double all = std::accumulate(seconds.begin(), seconds.end(), 0.0);
  all = std::accumulate(receiveSeconds.begin(), receiveSeconds.end(), all);
  SmallVector<int64_t> before = {0}, receive = makeWhole(receiveSeconds, all);
  for (int64_t units : makeWhole(seconds, all))
    before.push_back(before.back() + units);
  auto getUnits = [&](size_t from, size_t to) { return before[to] - before[from] + receive[from]; };
  // best[k][to] is the result of `join` for the best k + 1 stages of the parts before `to`. The last of these stages
  // begins at from[k][to].
  constexpr int64_t never = std::numeric_limits<int64_t>::max();
  std::vector<std::vector<int64_t>> best;
  std::vector<std::vector<size_t>> from(stages, std::vector<size_t>(count + 1, 0));
  auto find = [&](int64_t most, auto join) {
    best.assign(stages, std::vector<int64_t>(count + 1, never));
    for (size_t to = 1; to <= count && getUnits(0, to) <= most; ++to)
      best[0][to] = join(0, getUnits(0, to));
    for (int64_t stage = 1; stage < stages; ++stage)
      for (size_t to = stage + 1; to <= count; ++to)
        // A stage that begins sooner takes longer. The longest of the best stages is taken.
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
  // The slowest stage is as short as possible. Within that, stages are as equal as possible.
  int64_t slowest = find(never - 1, [](int64_t earlier, int64_t units) { return std::max(earlier, units); });
  find(slowest, [](int64_t earlier, int64_t units) { return earlier + units * units; });
  SmallVector<size_t> first(stages, 0);
  for (size_t stage = stages - 1, to = count; stage > 0; --stage)
    to = first[stage] = from[stage][to];
  return first;
}
