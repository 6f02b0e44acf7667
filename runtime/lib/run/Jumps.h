//===- Jumps.h - the sides of jumps that a plan took ----------------------===//
#ifndef MOERT_RUN_JUMPS_H
#define MOERT_RUN_JUMPS_H

#include "run/Verify.h"

#include <array>
#include <functional>

namespace moert::run {

/// An argument of the reference near a jump of a derivative: the op, its earlier calls, and the element of its input.
using NearJump = std::array<int64_t, 3>;

/// Runs the reference with these arguments on the other side of their jumps.
using RunAcross = std::function<Status(std::span<const NearJump> crossed, RunResult &again)>;

/// Finds the arguments of `near` that the plan has on another side than its reference: moving them across their jumps
/// brings the results of the reference closer to those of the plan. `bounds` has the results that differ, with the
/// differences that rounding explains. One argument changes a few of their elements, so the changes by several add up,
/// and halves of `near` can be tried. Makes at most kMostJumpRuns runs. Clears `isComplete` if they do not suffice, and
/// finds fewer then.
Status findCrossed(const RunResult &plan, const RunResult &reference, std::span<const NearJump> near,
                   const Distances &bounds, const RunAcross &run, std::vector<NearJump> &crossed, bool &isComplete);

inline constexpr int64_t kMostJumpRuns = 256;

} // namespace moert::run

#endif // MOERT_RUN_JUMPS_H
