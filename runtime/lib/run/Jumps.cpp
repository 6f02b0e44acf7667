//===- Jumps.cpp - the sides of jumps that a plan took --------------------===//

#include "run/Jumps.h"

namespace moert::run {
namespace {

/// Least agreement of a change with the plan's difference, in units of what rounding explains.
constexpr double kLeastAlike = 0.25;
/// The same in units of the mean change by one argument. Changes by other arguments agree with the difference by
/// chance. It is small, because one change may be a hundredth of another.
constexpr double kLeastPart = 1e-4;

class JumpSearch {
public:
  JumpSearch(const RunResult &plan, const RunResult &reference, const Distances &bounds, const RunAcross &run,
             std::vector<NearJump> &crossed)
      : plan(plan), reference(reference), bounds(bounds), run(run), crossed(crossed),
        difference(distancesOf(plan, reference)) {}

  Status search(std::span<const NearJump> part);
  bool isComplete() const { return runs <= kMostJumpRuns; }

private:
  /// Product of the plan's difference and the change of the reference, and the square of the change.
  struct Change {
    double alike = 0, square = 0;
  };
  Change compare(const RunResult &again) const;

  const RunResult &plan, &reference;
  const Distances &bounds;
  const RunAcross &run;
  std::vector<NearJump> &crossed;
  const Distances difference;
  int64_t runs = 0;
};

JumpSearch::Change JumpSearch::compare(const RunResult &again) const {
  auto square = [](double value) { return value * value; };
  const Distances change = distancesOf(again, reference), rest = distancesOf(plan, again);
  Change sum;
  for (const auto &[name, bound] : bounds) {
    if (bound == 0)
      continue;
    const double moved = square(change.at(name) / bound);
    sum.square += moved;
    sum.alike += (square(difference.at(name) / bound) + moved - square(rest.at(name) / bound)) / 2;
  }
  return sum;
}

Status JumpSearch::search(std::span<const NearJump> part) {
  if (part.empty() || ++runs > kMostJumpRuns)
    return {};
  RunResult again;
  MOERT_RETURN_IF_ERROR(run(part, again));
  const Change change = compare(again);
  if (!(change.alike > kLeastAlike + kLeastPart * change.square / static_cast<double>(part.size())))
    return {};
  if (part.size() == 1) {
    if (2 * change.alike > change.square)
      crossed.push_back(part.front());
    return {};
  }
  MOERT_RETURN_IF_ERROR(search(part.first(part.size() / 2)));
  return search(part.subspan(part.size() / 2));
}

} // namespace

Status findCrossed(const RunResult &plan, const RunResult &reference, std::span<const NearJump> near,
                   const Distances &bounds, const RunAcross &run, std::vector<NearJump> &crossed, bool &isComplete) {
  JumpSearch search(plan, reference, bounds, run, crossed);
  Status status = search.search(near);
  isComplete = search.isComplete();
  return status;
}

} // namespace moert::run
