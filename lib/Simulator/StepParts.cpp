//===- StepParts.cpp - seconds of a step by kind --------------------------===//
#include "StepParts.h"

#include "llvm/ADT/STLExtras.h"

#include <algorithm>

using namespace mlir::moe;

void StepParts::add(const StepParts &parts, double factor) {
  compute += factor * parts.compute;
  exposedCommunication += factor * parts.exposedCommunication;
  bubble += factor * parts.bubble;
  other += factor * parts.other;
  hiddenCommunication += factor * parts.hiddenCommunication;
}

namespace {
/// Divides the seconds from `begin` to `end` of one rank.
class Divider {
public:
  Divider(const SimResult &result, uint32_t rank, double begin, double end)
      : result(result), rank(rank), begin(begin), end(end) {}

  /// Whether this is work of the rank's own stage: a computation, or an exchange with ranks of the stage.
  bool isWork(const SimTime &time) const { return isComputation(time) || (isExchange(time) && !isHandover(time)); }
  /// `work` has all work of the rank, sorted by begin.
  StepParts divide(llvm::ArrayRef<const SimTime *> work) const;

private:
  const SimLaunch &getLaunch(const SimTime &time) const {
    return result.programs[result.ranks[time.rank].program].launches[time.launch];
  }
  bool isComputation(const SimTime &time) const {
    Resource resource = getLaunch(time).cost.resource;
    return resource == Resource::Matrix || resource == Resource::Memory;
  }
  bool isExchange(const SimTime &time) const { return getLaunch(time).cost.resource == Resource::Network; }
  /// Whether the launch exchanges data between stages.
  bool isHandover(const SimTime &time) const {
    int32_t group = getLaunch(time).group;
    return group >= 0 &&
           result.programs[result.ranks[time.rank].program].groups[static_cast<size_t>(group)].isChannel();
  }
  bool isOfOtherStage(const SimTime &time) const {
    return result.ranks[time.rank].program != result.ranks[rank].program;
  }
  double clip(double from, double to) const { return std::max(0.0, std::min(to, end) - std::max(from, begin)); }
  double getBubble(int32_t cause, double idleSince, double idleUntil) const;

  const SimResult &result;
  uint32_t rank;
  double begin, end;
};
} // namespace

/// Bubble in an idle time from `idleSince` to `idleUntil`, which ended because of time number `cause`. It reaches up to
/// the last event of the pipeline in the idle time. The walk along causes goes back in time, so it finds this event
/// first.
double Divider::getBubble(int32_t cause, double idleSince, double idleUntil) const {
  while (cause >= 0) {
    const SimTime &time = result.times[static_cast<size_t>(cause)];
    if (time.end <= idleSince)
      break;
    if (isHandover(time) || isOfOtherStage(time))
      return clip(idleSince, std::min(time.end, idleUntil));
    cause = time.cause;
  }
  return 0;
}

StepParts Divider::divide(llvm::ArrayRef<const SimTime *> work) const {
  StepParts parts;
  double computedUntil = 0, exchangedUntil = 0, busyUntil = 0, busy = 0, exchange = 0;
  for (const SimTime *time : work) {
    if (time->begin > busyUntil)
      parts.bubble += getBubble(time->cause, busyUntil, time->begin);
    if (isComputation(*time)) {
      parts.compute += clip(std::max(time->begin, computedUntil), time->end);
      computedUntil = std::max(computedUntil, time->end);
    } else {
      exchange += clip(std::max(time->begin, exchangedUntil), time->end);
      exchangedUntil = std::max(exchangedUntil, time->end);
    }
    busy += clip(std::max(time->begin, busyUntil), time->end);
    busyUntil = std::max(busyUntil, time->end);
  }
  // At the end, the rank waits for the launch that ends last.
  parts.bubble += getBubble(static_cast<int32_t>(result.times.size()) - 1, busyUntil, result.getEnd());
  parts.exposedCommunication = std::max(0.0, busy - parts.compute);
  parts.hiddenCommunication = std::max(0.0, exchange - parts.exposedCommunication);
  parts.other = std::max(0.0, end - begin - busy - parts.bubble);
  return parts;
}

/// Parts of the seconds from `begin` to `end`, by simulated rank.
static std::vector<StepParts> getPartsByRank(const SimResult &result, double begin, double end) {
  std::vector<Divider> dividers;
  for (uint32_t rank = 0; rank < result.ranks.size(); ++rank)
    dividers.emplace_back(result, rank, begin, end);
  std::vector<std::vector<const SimTime *>> work(result.ranks.size());
  for (const SimTime &time : result.times)
    if (dividers[time.rank].isWork(time))
      work[time.rank].push_back(&time);
  std::vector<StepParts> parts;
  for (auto [divider, times] : llvm::zip_equal(dividers, work)) {
    llvm::stable_sort(times, [](const SimTime *a, const SimTime *b) { return a->begin < b->begin; });
    parts.push_back(divider.divide(times));
  }
  return parts;
}

llvm::SmallVector<CountedSpan, 2> mlir::moe::getSpans(const SimResult &result) {
  llvm::SmallVector<CountedSpan, 2> spans = {{0, result.getEnd(), 1}};
  const SimResult::Repetition &repetition = result.repetition;
  if (!result.isWhole())
    spans.push_back({repetition.until - repetition.seconds, repetition.until, static_cast<double>(repetition.count)});
  return spans;
}

std::vector<StepParts> mlir::moe::getPartsByRank(const SimResult &result) {
  std::vector<StepParts> sum(result.ranks.size());
  for (const CountedSpan &span : getSpans(result))
    for (auto [all, parts] : llvm::zip_equal(sum, ::getPartsByRank(result, span.begin, span.end)))
      all.add(parts, span.times);
  return sum;
}

StepParts mlir::moe::getStepParts(const SimResult &result, double begin, double end) {
  double ranks = 0;
  for (const SimRank &rank : result.ranks)
    ranks += static_cast<double>(rank.count);
  StepParts mean;
  for (auto [rank, parts] : llvm::zip_equal(result.ranks, ::getPartsByRank(result, begin, end)))
    mean.add(parts, static_cast<double>(rank.count) / ranks);
  return mean;
}
