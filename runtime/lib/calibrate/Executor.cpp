//===- Executor.cpp - the cost of launches, and of busy neighbours --------===//

#include "calibrate/Calibrate.h"
#include "calibrate/Ranks.h"

#include <algorithm>
#include <string>

namespace moert::calibrate {
namespace {

/// Number of launches in a step.
constexpr int64_t kLaunches = 1000;
constexpr int64_t kMegabyte = int64_t(1) << 20;

/// Measures launches of almost no work: the time to issue one, and the time to run one.
Status measureHostLaunches(Profile &profile) {
  std::unique_ptr<Ranks> ranks;
  MOERT_RETURN_IF_ERROR(Ranks::create({.arenaBytes = 4096}, ranks));
  auto issue = [&](moert_rank_t rank) { return Ranks::launchLittle(rank, kLaunches); };
  constexpr int kPasses = 21;
  Ranks::StepTime time;
  MOERT_RETURN_IF_ERROR(ranks->measure(issue, kPasses, time));
  profile.launchSeconds = time.issue / kLaunches;
  profile.kernelSeconds = time.work / kLaunches;
  return {};
}

/// Issues a product with few rows and a second operand from memory, as an expert has.
int32_t issueMatrix(moert_rank_t rank, const moert_group &) {
  constexpr int64_t rows = 64, columns = 704, depth = 768;
  moert_buffer a = Ranks::buffer(MOERT_F32, 0, {rows, depth});
  moert_buffer c = Ranks::buffer(MOERT_F32, kMegabyte, {rows, columns});
  int32_t code = MOERT_OK;
  for (int64_t i = 2; i < 32 && !code; i += 3) {
    moert_buffer b = Ranks::buffer(MOERT_F32, i * kMegabyte, {depth, columns});
    code = moert_matmul(rank, Ranks::kCompute, &a, &b, &c, 0, 0, Ranks::kCompute);
  }
  return code;
}

int32_t issueMemory(moert_rank_t rank, const moert_group &) {
  int32_t code = MOERT_OK;
  for (int64_t i = 0; i + 3 <= 32 && !code; i += 3) {
    auto value = [&](int64_t k) { return Ranks::buffer(MOERT_F32, (i + k) * kMegabyte, {kMegabyte / 4}); };
    moert_buffer a = value(0), b = value(1), out = value(2);
    code = moert_add(rank, Ranks::kCompute, &a, &b, &out, Ranks::kCompute);
  }
  return code;
}

int32_t issueNetwork(moert_rank_t rank, const moert_group &group) {
  int32_t code = MOERT_OK;
  for (int64_t i = 0; i + 2 <= 32 && !code; i += 2) {
    int64_t elements = kMegabyte / 4 / group.size * group.size;
    moert_buffer in = Ranks::buffer(MOERT_F32, i * kMegabyte, {elements / group.size});
    moert_buffer out = Ranks::buffer(MOERT_F32, (i + 1) * kMegabyte, {elements});
    code = moert_all_gather(rank, Ranks::kMeet, &in, &out, 0, &group, Ranks::kMeet);
  }
  return code;
}

using IssueWork = int32_t (*)(moert_rank_t, const moert_group &);

/// Measures the CPU seconds of a step on `workers` workers.
Status measureWork(int64_t workers, int64_t size, IssueWork work, int passes, double &seconds) {
  std::unique_ptr<Ranks> ranks;
  MOERT_RETURN_IF_ERROR(Ranks::create({.ranks = size, .workers = workers, .arenaBytes = 32 * kMegabyte}, ranks));
  Ranks::StepTime time;
  auto issue = [&](moert_rank_t rank) { return work(rank, ranks->group()); };
  MOERT_RETURN_IF_ERROR(ranks->measure(issue, passes, time));
  seconds = time.work;
  return {};
}

/// Measures the speed of 1, 2, .. processors that do the same: for powers of two and for all processors. Other numbers
/// are interpolated.
Status measureSpeeds(const Settings &settings, IssueWork work, std::vector<double> &speeds) {
  double alone = 0;
  for (int64_t busy = 1; busy <= settings.workers;
       busy = busy == settings.workers ? busy + 1 : std::min(2 * busy, settings.workers)) {
    double seconds = 0;
    MOERT_RETURN_IF_ERROR(measureWork(busy, 2 * settings.workers, work, settings.quick ? 3 : 9, seconds));
    if (busy == 1)
      alone = seconds;
    double speed = std::min(1.0, alone / seconds);
    double last = speeds.empty() ? speed : speeds.back();
    auto known = static_cast<int64_t>(speeds.size());
    for (int64_t k = known + 1; k <= busy; ++k)
      speeds.push_back(last + (speed - last) * static_cast<double>(k - known) / static_cast<double>(busy - known));
  }
  return {};
}

} // namespace

Status calibrateExecutor(const Settings &settings, Profile &profile) {
  MOERT_RETURN_IF_ERROR(measureHostLaunches(profile));
  Progress progress(settings.progress, "processors", 3);
  const std::pair<IssueWork, std::vector<double> *> works[] = {{issueMatrix, &profile.speeds.matrix},
                                                               {issueMemory, &profile.speeds.memory},
                                                               {issueNetwork, &profile.speeds.network}};
  for (const auto &[work, speeds] : works) {
    MOERT_RETURN_IF_ERROR(measureSpeeds(settings, work, *speeds));
    progress.step();
  }
  return {};
}

} // namespace moert::calibrate
