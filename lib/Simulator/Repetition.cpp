//===- Repetition.cpp - loops whose times repeat themselves ---------------===//
#include "Repetition.h"

#include "HostClock.h"

#include "llvm/ADT/STLExtras.h"

#include <cmath>
#include <numeric>

using namespace mlir::moe;

//===----------------------------------------------------------------------===//
// The period
//===----------------------------------------------------------------------===//

/// Relative error of seconds that are sums of many terms.
static constexpr double kTolerance = 1e-9;

static TimeNumbers numberTimes(const SimResult &step) {
  TimeNumbers numbers;
  for (const SimRank &rank : step.ranks)
    numbers.emplace_back(step.programs[rank.program].launches.size());
  for (auto [number, time] : llvm::enumerate(step.times))
    numbers[time.rank][time.launch] = number;
  return numbers;
}

namespace {
/// Tests whether iterations repeat themselves after `microBatches` micro-batches.
class PeriodTest {
public:
  PeriodTest(const SimResult &step, const TimeNumbers &numbers, int64_t microBatches)
      : step(step), numbers(numbers), microBatches(microBatches) {}

  std::optional<SimResult::Repetition> find();

private:
  const SimProgram::Loop &getLoop(uint32_t rank) const { return step.programs[step.ranks[rank].program].loop; }
  const SimTime &get(uint32_t rank, int64_t iteration, uint32_t launch) const {
    const SimProgram::Loop &loop = getLoop(rank);
    return step.times[numbers[rank][loop.first + iteration * loop.length + launch]];
  }
  /// Period in iterations.
  int64_t getPeriod(uint32_t rank) const { return microBatches / getLoop(rank).microBatches; }
  bool isLike(uint32_t rank, int64_t iteration) const;
  bool addRank(uint32_t rank);
  std::optional<SimResult::Repetition> place(double end) const;

  const SimResult &step;
  const TimeNumbers &numbers;
  int64_t microBatches;
  double seconds = 0;
  /// All events between these times are in iterations that repeat themselves.
  double since = 0, until = std::numeric_limits<double>::infinity();
};
} // namespace

bool PeriodTest::isLike(uint32_t rank, int64_t iteration) const {
  int64_t period = getPeriod(rank);
  for (uint32_t launch = 0; launch < getLoop(rank).length; ++launch) {
    const SimTime &now = get(rank, iteration, launch), &later = get(rank, iteration + period, launch);
    if (std::abs(later.begin - now.begin - seconds) > kTolerance * seconds ||
        std::abs(later.end - now.end - seconds) > kTolerance * seconds)
      return false;
  }
  return true;
}

/// Finds the range of similar iterations around the middle one.
bool PeriodTest::addRank(uint32_t rank) {
  const SimProgram::Loop &loop = getLoop(rank);
  int64_t period = getPeriod(rank), first = (loop.count - period) / 2, last = first;
  if (first < 0 || !isLike(rank, first))
    return false;
  while (first > 0 && isLike(rank, first - 1))
    --first;
  while (last + 1 + period < loop.count && isLike(rank, last + 1))
    ++last;
  for (uint32_t launch = 0; launch < loop.length; ++launch) {
    since = std::max(since, get(rank, first, launch).end);
    until = std::min(until, get(rank, last + period, launch).begin);
  }
  return true;
}

/// Takes the period before `end`, if as many times end in it as it has launches. Rounding may move a time at the border
/// from one period to the next.
std::optional<SimResult::Repetition> PeriodTest::place(double end) const {
  auto find = [&](double when) {
    return llvm::partition_point(step.times, [&](const SimTime &time) { return time.end <= when; }) -
           step.times.begin();
  };
  SimResult::Repetition found;
  found.microBatches = microBatches;
  found.begin = find(end - seconds);
  found.end = find(end);
  found.seconds = seconds;
  found.until = end;
  size_t launches = 0;
  for (uint32_t rank = 0; rank < step.ranks.size(); ++rank)
    launches += getLoop(rank).length * getPeriod(rank);
  return found.end - found.begin == launches ? std::optional(found) : std::nullopt;
}

std::optional<SimResult::Repetition> PeriodTest::find() {
  int64_t reach = 0, middle = (getLoop(0).count - getPeriod(0)) / 2;
  if (middle < 0)
    return std::nullopt;
  seconds = get(0, middle + getPeriod(0), 0).end - get(0, middle, 0).end;
  for (uint32_t rank = 0; rank < step.ranks.size(); ++rank) {
    if (!addRank(rank))
      return std::nullopt;
    reach = std::max(reach, getLoop(rank).reach * getLoop(rank).microBatches);
  }
  double needed = seconds * (1 + static_cast<double>(reach) / static_cast<double>(microBatches));
  if (!(seconds > 0) || until - since < needed)
    return std::nullopt;
  for (double part : {0.0, 0.11, 0.23, 0.37})
    if (double end = until - part * seconds; end - since >= needed)
      if (std::optional<SimResult::Repetition> found = place(end))
        return found;
  return std::nullopt;
}

std::optional<SimResult::Repetition> mlir::moe::findRepetition(const SimResult &step, int64_t leftOut,
                                                               const HostIssue &host) {
  TimeNumbers numbers = numberTimes(step);
  // If a host is slower than its device, the device sooner or later waits for it.
  double longest = 0; // for a micro-batch
  int64_t together = 1;
  for (const SimProgram &program : step.programs) {
    auto iteration = llvm::ArrayRef(program.launches).slice(program.loop.first, program.loop.length);
    longest = std::max(longest, getIssueSeconds(iteration, host) / static_cast<double>(program.loop.microBatches));
    together = std::lcm(together, program.loop.microBatches);
  }
  for (int64_t microBatches : {together, 2 * together, 3 * together, 4 * together}) {
    if (leftOut % microBatches != 0)
      continue;
    std::optional<SimResult::Repetition> found = PeriodTest(step, numbers, microBatches).find();
    if (!found || longest * static_cast<double>(microBatches) > found->seconds * (1 + kTolerance))
      continue;
    found->count = leftOut / microBatches;
    return found;
  }
  return std::nullopt;
}

//===----------------------------------------------------------------------===//
// The longer step
//===----------------------------------------------------------------------===//

Repeated::Repeated(const SimResult &step) : step(step) {
  if (!step.isWhole())
    numbers = numberTimes(step);
}

uint32_t Repeated::getLaunchesInPeriod(uint32_t rank) const {
  const SimProgram::Loop &loop = step.programs[step.ranks[rank].program].loop;
  return loop.length * static_cast<uint32_t>(step.repetition.microBatches / loop.microBatches);
}

RepeatedTime Repeated::getLast() const { return {static_cast<int32_t>(step.times.size()) - 1, step.repetition.count}; }

/// A time that is some periods later has a cause that is as many periods later. If that cause lies before the repeated
/// period, its counterparts in the following periods stand for it.
RepeatedTime Repeated::getCause(RepeatedTime time) const {
  RepeatedTime cause{step.times[time.number].cause, time.periods};
  auto begin = static_cast<int32_t>(step.repetition.begin);
  for (; cause.number >= 0 && cause.number < begin && cause.periods > 0; --cause.periods) {
    const SimTime &its = step.times[cause.number];
    cause.number = static_cast<int32_t>(numbers[its.rank][its.launch + getLaunchesInPeriod(its.rank)]);
  }
  return cause;
}

/// Times of all iterations.
static std::vector<SimTime> writeTimes(const SimResult &step) {
  Repeated repeated(step);
  const SimResult::Repetition &repetition = step.repetition;
  std::vector<SimTime> times(step.times.begin(), step.times.begin() + repetition.end);
  auto length = static_cast<int64_t>(repetition.end - repetition.begin);
  times.reserve(step.times.size() + repetition.count * length);
  auto add = [&](size_t number, int64_t periods) {
    RepeatedTime time{static_cast<int32_t>(number), periods}, cause = repeated.getCause(time);
    SimTime &moved = times.emplace_back(step.times[number]);
    moved.launch += static_cast<uint32_t>(periods) * repeated.getLaunchesInPeriod(moved.rank);
    moved.begin += repeated.getLater(time);
    moved.end += repeated.getLater(time);
    moved.cause = static_cast<int32_t>(cause.number < 0 ? cause.number : cause.number + cause.periods * length);
  };
  for (int64_t period = 1; period <= repetition.count; ++period)
    for (size_t number = repetition.begin; number < repetition.end; ++number)
      add(number, period);
  for (size_t number = repetition.end; number < step.times.size(); ++number)
    add(number, repetition.count);
  return times;
}

/// Confidences of the longer program's launches, copied from those that they repeat.
static std::vector<Confidence> repeat(llvm::ArrayRef<Confidence> all, const SimProgram::Loop &loop) {
  std::vector<Confidence> longer(all.take_front(loop.first));
  for (int64_t iteration = 0; iteration < loop.all; ++iteration)
    llvm::append_range(longer, all.slice(loop.first, loop.length));
  llvm::append_range(longer, all.drop_front(loop.first + loop.count * loop.length));
  return longer;
}

SimResult mlir::moe::repeat(const SimResult &step, std::vector<SimProgram> programs) {
  SimResult longer = step;
  longer.repetition = {};
  longer.times = writeTimes(step);
  for (auto [program, confidences] : llvm::zip(step.programs, longer.confidences))
    confidences = ::repeat(confidences, program.loop);
  longer.programs = std::move(programs);
  return longer;
}
