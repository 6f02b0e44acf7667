//===- DeviceBench.cpp - calls on a device, by its clock ------------------===//

#include "calibrate/DeviceBench.h"
#include "core/Error.h"

#include <algorithm>

namespace moert::calibrate {

Status DeviceBench::create(Ranks &ranks, int64_t arenaBytes, int64_t coldBytes, std::unique_ptr<DeviceBench> &result,
                           int64_t callBytes) {
  result.reset(new DeviceBench(ranks, coldBytes, callBytes));
  MOERT_RETURN_IF_ERROR(result->findBallast(arenaBytes));
  std::vector<double> seconds;
  constexpr int kPasses = 9;
  MOERT_RETURN_IF_ERROR(measureKernels(*result, {[] { return copyOf(nullptr, nullptr, 0); }}, kPasses, seconds));
  result->nothing = seconds[0];
  return {};
}

Status DeviceBench::allocateIn(int32_t space, int64_t bytes, void *&data) {
  if (space == MOERT_SPACE_DEVICE)
    MOERT_RETURN_IF_ERROR(owner.device().checkAvailable(bytes, "calibrating"));
  return owner.device().allocate(owner.local(), space, bytes, "operands", data);
}

void DeviceBench::write(void *to, const void *from, int64_t bytes) {
  if (Status status = owner.device().write(to, from, bytes); failure.ok())
    failure = status;
}

int32_t DeviceBench::issueBallast(moert_rank_t rank) const {
  auto operand = [&](int64_t k) { return Ranks::buffer(MOERT_BF16, 2 * k * ballast * ballast, {ballast, ballast}); };
  moert_buffer a = operand(0), b = operand(1), c = operand(2);
  return moert_matmul(rank, Ranks::kCompute, &a, &b, &c, 0, 0, Ranks::kCompute);
}

/// Doubles the ballast until it takes long enough, or fills the arena.
Status DeviceBench::findBallast(int64_t arenaBytes) {
  std::vector<double> seconds;
  for (;; ballast *= 2) {
    // The first product of a shape waits for its library.
    for (int pass = 0; pass < 2; ++pass)
      MOERT_RETURN_IF_ERROR(timeStep({}, {}, seconds));
    if (seconds.at(0) >= kAhead || 3 * 2 * 4 * ballast * ballast > arenaBytes)
      return {};
  }
}

Status DeviceBench::timeStep(const std::vector<Call> &before, const std::vector<Call> &calls,
                             std::vector<double> &seconds) {
  if (!failure.ok())
    return failure;
  auto issueAll = [](moert_rank_t rank, const std::vector<Call> &issued) {
    int32_t code = MOERT_OK;
    for (size_t i = 0; i < issued.size() && !code; ++i)
      code = guarded([&] { return rank->device->launch(rank->rank, Ranks::kCompute, issued[i]); });
    return code;
  };
  auto issue = [&](moert_rank_t rank) -> int32_t {
    int32_t code = issueAll(rank, before);
    code = code ? code : issueBallast(rank);
    return code ? code : issueAll(rank, calls);
  };
  Ranks::StepTime time;
  MOERT_RETURN_IF_ERROR(owner.run(issue, time));
  seconds.clear();
  for (const OpTime &op : owner.device().timeline(owner.local(), Ranks::kCompute))
    seconds.push_back(static_cast<double>(op.end - op.begin) * 1e-9);
  seconds.erase(seconds.begin(), seconds.begin() + static_cast<std::ptrdiff_t>(before.size()));
  return {};
}

/// Whether the host may have to read the rows of a call.
static bool hasCounts(const Call &call) {
  const int8_t ragged = infoOf(call.kind).ragged;
  return ragged >= 0 && call.views[static_cast<size_t>(ragged)];
}

Status DeviceBench::timeBatch(const MakeCall &make, int count, double &seconds) {
  std::vector<Call> before, calls;
  for (int i = 0; i < count; ++i)
    calls.push_back(make());
  if (hasCounts(calls.front()))
    before.push_back(calls.front());
  std::vector<double> times;
  MOERT_RETURN_IF_ERROR(timeStep(before, calls, times));
  times.erase(times.begin());
  seconds = withoutClock(typical(std::move(times)));
  return {};
}

double DeviceBench::withoutClock(double seconds) const {
  // Resolution of the clock.
  constexpr double kLeast = 1e-7;
  return std::max(seconds - nothing, kLeast);
}

} // namespace moert::calibrate
