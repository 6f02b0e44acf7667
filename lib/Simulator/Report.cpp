//===- Report.cpp - sums and critical path of a simulated step ------------===//
#include "moe/Simulator/Report.h"

#include "Repetition.h"

#include "moe/Cost/Papers.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringMap.h"
#include "llvm/Support/xxhash.h"

#include <algorithm>
#include <cmath>

using namespace mlir::moe;
using llvm::ArrayRef;

std::string mlir::moe::getLaunchName(const SimProgram &program, uint32_t launch) {
  const SimLaunch &op = program.launches[launch];
  return op.group < 0 ? op.kernel : op.kernel + " [" + program.groups[op.group].name + "]";
}

std::string mlir::moe::getRankName(const SimRank &rank) {
  if (rank.count == 1)
    return "rank " + std::to_string(rank.rank);
  return "ranks " + std::to_string(rank.rank) + "-" + std::to_string(rank.rank + rank.count - 1) + " (" +
         std::to_string(rank.count) + " alike)";
}

/// Launches of one simulated rank, sorted by begin.
using RankTimes = std::vector<const SimTime *>;

static std::vector<RankTimes> splitByRank(const SimResult &result) {
  std::vector<RankTimes> ranks(result.ranks.size());
  for (const SimTime &time : result.times)
    ranks[time.rank].push_back(&time);
  for (RankTimes &rank : ranks)
    llvm::stable_sort(rank, [](const SimTime *a, const SimTime *b) { return a->begin < b->begin; });
  return ranks;
}

namespace {
/// A part of the time of SimResult::times that is counted several times.
struct CountedSpan {
  double begin = 0, end = 0, times = 1;
};
} // namespace

/// The whole time once, and the repeated part as often as it is left out.
static llvm::SmallVector<CountedSpan, 2> getSpans(const SimResult &result) {
  llvm::SmallVector<CountedSpan, 2> spans = {{0, result.getEnd(), 1}};
  const SimResult::Repetition &repetition = result.repetition;
  if (!result.isWhole())
    spans.push_back({repetition.until - repetition.seconds, repetition.until, static_cast<double>(repetition.count)});
  return spans;
}

/// Seconds of the spans in which at least one launch that satisfies `counts` runs.
static double getBusySeconds(const SimResult &result, const RankTimes &rank, ArrayRef<CountedSpan> spans,
                             llvm::function_ref<bool(const SimLaunch &)> counts) {
  double sum = 0;
  for (const CountedSpan &span : spans) {
    double busy = 0, covered = span.begin;
    for (const SimTime *time : rank) {
      if (time->begin >= span.end)
        break;
      double end = std::min(time->end, span.end);
      if (end <= covered || !counts(result.getLaunch(*time)))
        continue;
      busy += end - std::max(time->begin, covered);
      covered = end;
    }
    sum += span.times * busy;
  }
  return sum;
}

namespace {
/// A launch that touches a buffer.
struct BufferUse {
  uint32_t launch;
  bool writes, isRows; ///< whether it writes the buffer, or multiplies its rows in a narrow type
  bool isGradient;     ///< whether it computes a narrow gradient of weights
};
} // namespace

/// Uses of each buffer in the order of launches.
static std::vector<std::vector<BufferUse>> findUses(const SimProgram &program, const Precision &precision) {
  std::vector<std::vector<BufferUse>> uses(program.buffers.size());
  for (auto [number, launch] : llvm::enumerate(program.launches)) {
    const NarrowProduct *product = precision.find(launch.kernel, launch.dtype, launch.cost);
    auto add = [&](int32_t buffer, BufferUse use) {
      if (buffer >= 0)
        uses[buffer].push_back(use);
    };
    auto index = static_cast<uint32_t>(number);
    for (auto [place, buffer] : llvm::enumerate(launch.inputs))
      add(buffer, {index, false, product && !product->ofWeights && place == 0, product && product->ofWeights});
    for (int32_t buffer : launch.outputs)
      add(buffer, {index, true, false, false});
  }
  return uses;
}

/// Adds what quantised rows change between a product and the gradient of its weights. Only the quantised ones stay, or
/// also the others if the backward reads them, too. Views have no bytes of their own, and stay as they are.
static void addKept(const SimProgram &program, const Precision &precision, llvm::ArrayRef<const SimTime *> launches,
                    std::vector<MemoryPoint> &changes) {
  if (precision.keptShare == 1)
    return;
  for (auto [buffer, uses] : llvm::zip_equal(program.buffers, findUses(program, precision)))
    for (size_t at = 0; at + 1 < uses.size(); ++at) {
      const SimTime *product = launches[uses[at].launch], *gradient = launches[uses[at + 1].launch];
      if (!uses[at].isRows || !uses[at + 1].isGradient || !product || !gradient || buffer.isHost)
        continue;
      auto others = llvm::ArrayRef(uses).drop_front(at + 1).take_until([](const BufferUse &use) { return use.writes; });
      bool isReadOtherwise = llvm::any_of(others, [](const BufferUse &use) { return !use.isGradient; });
      double bytes = (precision.keptShare - (isReadOtherwise ? 0 : 1)) * static_cast<double>(buffer.bytes);
      changes.insert(changes.end(), {{product->end, bytes}, {gradient->begin, -bytes}});
    }
}

static std::vector<MemoryPoint> followMemory(const SimProgram &program, const RankTimes &rank,
                                             const Precision &precision) {
  std::vector<const SimTime *> launches(program.launches.size());
  for (const SimTime *time : rank)
    launches[time->launch] = time;
  std::vector<MemoryPoint> changes = {{0, 0}};
  for (const SimBuffer &buffer : program.buffers) {
    auto bytes = static_cast<double>(buffer.bytes);
    if (buffer.isHost)
      continue;
    if (buffer.isArgument)
      changes[0].bytes += bytes;
    else if (buffer.firstLaunch >= 0 && launches[buffer.firstLaunch] && launches[buffer.lastLaunch])
      changes.insert(changes.end(),
                     {{launches[buffer.firstLaunch]->begin, bytes}, {launches[buffer.lastLaunch]->end, -bytes}});
  }
  addKept(program, precision, launches, changes);
  llvm::stable_sort(changes, [](const MemoryPoint &a, const MemoryPoint &b) { return a.seconds < b.seconds; });
  // Changes at one time become one point.
  std::vector<MemoryPoint> points;
  double bytes = 0;
  for (const MemoryPoint &change : changes) {
    bytes += change.bytes;
    if (!points.empty() && points.back().seconds == change.seconds)
      points.back().bytes = bytes;
    else
      points.push_back({change.seconds, bytes});
  }
  return points;
}

std::vector<MemoryPoint> mlir::moe::getMemoryOverTime(const SimResult &result, uint32_t rank) {
  return followMemory(result.programs[result.ranks[rank].program], splitByRank(result)[rank], result.precision);
}

static RankUse getRankUse(const SimResult &result, const SimProgram &program, const RankTimes &rank,
                          const StepParts &parts) {
  RankUse use{parts, {}};
  llvm::SmallVector<CountedSpan, 2> spans = getSpans(result);
  for (auto [number, name] : llvm::enumerate(program.streams)) {
    double busy = getBusySeconds(result, rank, spans, [&](const SimLaunch &launch) { return launch.stream == number; });
    use.streams.push_back({name, busy, result.seconds - busy});
  }
  auto getSeconds = [&](Resource resource) {
    return getBusySeconds(result, rank, spans,
                          [&](const SimLaunch &launch) { return launch.cost.resource == resource; });
  };
  use.communication = getSeconds(Resource::Network);
  use.copy = getSeconds(Resource::HostLink);
  for (const MemoryPoint &point : followMemory(program, rank, result.precision))
    use.peakBytes = std::max(use.peakBytes, point.bytes);
  return use;
}

void StepParts::add(const StepParts &parts, double factor) {
  compute += factor * parts.compute;
  exposedCommunication += factor * parts.exposedCommunication;
  bubble += factor * parts.bubble;
  other += factor * parts.other;
  hiddenCommunication += factor * parts.hiddenCommunication;
}

namespace {
/// Divides the seconds from `begin` to `end` of one rank.
struct Divider {
  const SimResult &result;
  double begin, end;

  StepParts divide(uint32_t rank, const RankTimes &times) const;

private:
  /// Whether the launch exchanges data between stages.
  bool isHandover(const SimTime &time) const {
    int32_t group = result.getLaunch(time).group;
    return group >= 0 && result.getProgram(time).groups[group].isChannel();
  }
  double clip(double from, double to) const { return std::max(0.0, std::min(to, end) - std::max(from, begin)); }
  double getBubble(uint32_t rank, int32_t cause, double idleSince, double idleUntil) const;
};
} // namespace

/// Bubble in an idle time from `idleSince` to `idleUntil`, which ended because of time number `cause`. It reaches up to
/// the last event of the pipeline in the idle time. The walk along causes goes back in time, so it finds this event
/// first.
double Divider::getBubble(uint32_t rank, int32_t cause, double idleSince, double idleUntil) const {
  for (; cause >= 0 && result.times[cause].end > idleSince; cause = result.times[cause].cause) {
    const SimTime &time = result.times[cause];
    if (isHandover(time) || result.ranks[time.rank].program != result.ranks[rank].program)
      return clip(idleSince, std::min(time.end, idleUntil));
  }
  return 0;
}

/// Only computation and exchanges with ranks of the own stage are work.
StepParts Divider::divide(uint32_t rank, const RankTimes &times) const {
  StepParts parts;
  double computedUntil = 0, exchangedUntil = 0, busyUntil = 0, busy = 0, exchange = 0;
  auto add = [&](double &sum, double &until, const SimTime &time) {
    sum += clip(std::max(time.begin, until), time.end);
    until = std::max(until, time.end);
  };
  for (const SimTime *time : times) {
    WorkKind kind = getKind(result.getLaunch(*time).cost.resource);
    bool isExchange = kind == WorkKind::Communication && !isHandover(*time);
    if (kind != WorkKind::Compute && !isExchange)
      continue;
    if (time->begin > busyUntil)
      parts.bubble += getBubble(rank, time->cause, busyUntil, time->begin);
    isExchange ? add(exchange, exchangedUntil, *time) : add(parts.compute, computedUntil, *time);
    add(busy, busyUntil, *time);
  }
  // At the end, the rank waits for the launch that ends last.
  parts.bubble += getBubble(rank, static_cast<int32_t>(result.times.size()) - 1, busyUntil, result.getEnd());
  parts.exposedCommunication = std::max(0.0, busy - parts.compute);
  parts.hiddenCommunication = std::max(0.0, exchange - parts.exposedCommunication);
  parts.other = std::max(0.0, end - begin - busy - parts.bubble);
  return parts;
}

/// Parts of the seconds from `begin` to `end`, by simulated rank.
static std::vector<StepParts> getPartsByRank(const SimResult &result, ArrayRef<RankTimes> times, double begin,
                                             double end) {
  std::vector<StepParts> parts;
  for (auto [rank, its] : llvm::enumerate(times))
    parts.push_back(Divider{result, begin, end}.divide(rank, its));
  return parts;
}

StepParts mlir::moe::getStepParts(const SimResult &result, double begin, double end) {
  double ranks = 0;
  for (const SimRank &rank : result.ranks)
    ranks += static_cast<double>(rank.count);
  StepParts mean;
  for (auto [rank, parts] : llvm::zip_equal(result.ranks, getPartsByRank(result, splitByRank(result), begin, end)))
    mean.add(parts, static_cast<double>(rank.count) / ranks);
  return mean;
}

/// Mean over all ranks. A rank whose program lacks a stream is idle there.
static RankUse getMeanUse(const SimResult &result, const SimReport &report) {
  RankUse mean;
  for (auto [rank, use] : llvm::zip_equal(result.ranks, report.ranks)) {
    double weight = static_cast<double>(rank.count) / static_cast<double>(report.numRanks);
    mean.add(use, weight);
    mean.communication += weight * use.communication;
    mean.copy += weight * use.copy;
    mean.peakBytes += weight * use.peakBytes;
    for (const StreamUse &stream : use.streams) {
      auto found = llvm::find_if(mean.streams, [&](const StreamUse &other) { return other.stream == stream.stream; });
      if (found == mean.streams.end())
        found = mean.streams.insert(found, {stream.stream, 0, result.seconds});
      found->busy += weight * stream.busy;
      found->idle -= weight * stream.busy;
    }
  }
  return mean;
}

/// Walks back from the last end along causes.
static std::vector<CriticalPiece> findCriticalPath(const SimResult &result) {
  std::vector<CriticalPiece> path;
  if (result.times.empty())
    return path;
  double now = result.seconds;
  auto goBack = [&](int32_t time, double begin) {
    if (begin < now)
      path.push_back({time, begin, now});
    now = std::min(now, begin);
  };
  Repeated repeated(result);
  auto getEnd = [&](RepeatedTime time) { return result.times[time.number].end + repeated.getLater(time); };
  auto getBegin = [&](RepeatedTime time) { return result.times[time.number].begin + repeated.getLater(time); };
  // This bound only matters if causes form a cycle, which does not occur in a simulation.
  size_t most = result.times.size() * (1 + result.repetition.count);
  RepeatedTime current = repeated.getLast();
  for (size_t steps = 0; current.number >= 0 && steps < most; ++steps) {
    RepeatedTime cause = repeated.getCause(current);
    // An exchange begins before its last member arrives. Until then another launch is critical.
    double ready = cause.number < 0 ? 0 : getEnd(cause);
    goBack(-1, getEnd(current));
    goBack(current.number, std::max(getBegin(current), ready));
    current = cause;
  }
  goBack(-1, 0);
  std::reverse(path.begin(), path.end());
  return path;
}

/// A number that is the same for launches of one kernel at one size, on groups of one size.
static uint64_t getErrorKind(const SimProgram &program, uint32_t index) {
  const SimLaunch &launch = program.launches[index];
  const OpCost &cost = launch.cost;
  int64_t members = launch.group < 0 ? 1 : program.groups[launch.group].size;
  int64_t stride = launch.group < 0 ? 0 : program.groups[launch.group].stride;
  const int64_t sizes[] = {cost.gemm.groups, cost.gemm.rows,    cost.gemm.columns, cost.gemm.depth, cost.payload,
                           cost.bytesRead,   cost.bytesWritten, members,           stride};
  std::string text = launch.kernel + "/" + launch.dtype;
  for (int64_t size : sizes)
    text.append("/").append(std::to_string(size));
  return llvm::xxh3_64bits(text);
}

static CriticalUse sumCriticalPath(const SimResult &result, ArrayRef<CriticalPiece> path) {
  CriticalUse use;
  for (const CriticalPiece &piece : path) {
    double seconds = piece.end - piece.begin;
    if (piece.time < 0) {
      use.waiting += seconds;
      continue;
    }
    const SimTime &time = result.times[piece.time];
    WorkKind kind = getKind(result.getLaunch(time).cost.resource);
    (kind == WorkKind::Compute         ? use.compute
     : kind == WorkKind::Communication ? use.communication
     : kind == WorkKind::Copy          ? use.copy
                                       : use.waiting) += seconds;
    if (result.confidences.empty())
      continue;
    const Confidence &confidence = result.confidences[result.ranks[time.rank].program][time.launch];
    if (confidence.relativeError) {
      double error = *confidence.relativeError * seconds;
      use.fitted += seconds;
      use.fitError += error;
      ErrorBudget &errors = kind == WorkKind::Communication ? use.communicationErrors : use.computeErrors;
      errors.add(getErrorKind(result.getProgram(time), time.launch), error);
    }
    if (confidence.isExtrapolated)
      use.extrapolated += seconds;
  }
  if (use.fitted > 0)
    use.fitError /= use.fitted;
  return use;
}

void ErrorBudget::add(const ErrorBudget &other, double times) {
  for (auto [kind, seconds] : other.errors)
    errors[kind] += times * seconds;
}

double ErrorBudget::getDifference(const ErrorBudget &other) const {
  ErrorBudget difference = *this;
  difference.add(other, -1);
  double squares = 0;
  for (auto [kind, seconds] : difference.errors)
    squares += seconds * seconds;
  return std::sqrt(squares);
}

ErrorBudget CriticalUse::getErrors() const {
  ErrorBudget errors = computeErrors;
  errors.add(communicationErrors, 1);
  return errors;
}

static std::vector<KernelUse> sumKernels(const SimResult &result, const SimReport &report) {
  std::vector<KernelUse> kernels;
  llvm::StringMap<size_t> numbers;
  // Numbers of kernels by program and launch, so that each name is made only once.
  std::vector<std::vector<size_t>> kernelOf;
  for (const SimProgram &program : result.programs) {
    std::vector<size_t> &of = kernelOf.emplace_back();
    for (uint32_t launch = 0; launch < program.launches.size(); ++launch) {
      std::string name = getLaunchName(program, launch);
      auto [entry, isNew] = numbers.try_emplace(name, kernels.size());
      if (isNew)
        kernels.push_back({name, program.launches[launch].cost.resource});
      of.push_back(entry->second);
    }
  }
  auto getKernel = [&](const SimTime &time) -> KernelUse & {
    return kernels[kernelOf[result.ranks[time.rank].program][time.launch]];
  };
  const SimResult::Repetition &repetition = result.repetition;
  for (auto [number, time] : llvm::enumerate(result.times)) {
    double weight = static_cast<double>(result.ranks[time.rank].count) / static_cast<double>(report.numRanks);
    if (number >= repetition.begin && number < repetition.end)
      weight *= 1 + static_cast<double>(repetition.count);
    KernelUse &use = getKernel(time);
    use.launches += weight;
    use.seconds += weight * (time.end - time.begin);
    use.flops += weight * time.flops;
    use.bytes += weight * time.bytes;
  }
  for (const CriticalPiece &piece : report.criticalPath)
    if (piece.time >= 0)
      getKernel(result.times[piece.time]).criticalSeconds += piece.end - piece.begin;
  llvm::stable_sort(kernels, [](const KernelUse &a, const KernelUse &b) { return a.seconds > b.seconds; });
  return kernels;
}

static RooflinePoint makeRooflinePoint(const SimResult &result, int64_t numRanks) {
  const SimResult::Roofline &roofline = result.roofline;
  RooflinePoint point;
  point.seconds = result.seconds;
  point.ratio = roofline.getRatio();
  if (result.seconds > 0)
    point.mean = roofline.totalFlops / (static_cast<double>(numRanks) * result.seconds);
  point.ideal = point.semiIdeal = roofline.peakFlops;
  if (roofline.linkSeconds > 0) {
    point.ideal = fastermoe::getIdealFlopsPerSecond(roofline.peakFlops, point.ratio);
    point.semiIdeal = fastermoe::getSemiIdealFlopsPerSecond(roofline.peakFlops, point.ratio);
  }
  return point;
}

StepSpeed mlir::moe::getSpeed(const StepWork &work, double seconds, double peakFlops) {
  if (seconds <= 0)
    return {};
  StepSpeed speed{work.modelFlops / seconds, work.tokens / seconds};
  if (peakFlops > 0)
    speed.mfu = speed.flopsPerSecond / peakFlops;
  return speed;
}

std::string mlir::moe::describeTimes(const StepClass &steps) {
  if (steps.isOwn)
    return llvm::formatv("anchored in {0} of your own step times, a step takes {1:f2} to {2:f2} times as long",
                         steps.steps, steps.low, steps.high)
        .str();
  return llvm::formatv("measured steps of this kind took {0:f2} to {1:f2} times as long", steps.low, steps.high).str();
}

std::string mlir::moe::describeCount(const StepClass &steps) {
  if (steps.isOwn)
    return "your step times and measured pairs";
  return llvm::formatv("{0} steps of {1} source{2}", steps.steps, steps.sources, steps.sources == 1 ? "" : "s").str();
}

/// Whether the members of some instance of a group are on several nodes.
static bool crossesNodes(const SimGroup &group, int64_t ranks, int64_t devicesPerNode) {
  for (int64_t instance = 0, count = group.getNumInstances(ranks); instance < count; ++instance)
    if (group.getRank(instance, 0) / devicesPerNode != group.getRank(instance, group.size - 1) / devicesPerNode)
      return true;
  return false;
}

StepFacts mlir::moe::getStepFacts(const SimResult &result, const ClusterProfile &cluster, bool hasEvenRouting) {
  StepFacts facts;
  facts.hasEvenRouting = hasEvenRouting;
  int64_t ranks = 0;
  for (const SimRank &rank : result.ranks)
    ranks += rank.count;
  for (const SimProgram &program : result.programs) {
    std::vector<bool> carriesTokens(program.groups.size());
    for (const SimLaunch &launch : program.launches) {
      if (const CountsRule *routing = launch.getRouting())
        facts.tokens = std::max(facts.tokens, getRoutedShape(program, launch, *routing).tokens);
      if (launch.group >= 0 && launch.cost.collective == Collective::AllToAll)
        carriesTokens[launch.group] = true;
    }
    for (auto [group, carries] : llvm::zip_equal(program.groups, carriesTokens))
      facts.isInsideNode &= !carries || !crossesNodes(group, ranks, cluster.devicesPerNode);
  }
  return facts;
}

SimReport mlir::moe::makeReport(const SimResult &result, const StepWork &work) {
  SimReport report;
  for (const SimRank &rank : result.ranks)
    report.numRanks += rank.count;
  std::vector<RankTimes> times = splitByRank(result);
  std::vector<StepParts> parts(result.ranks.size());
  for (const CountedSpan &span : getSpans(result))
    for (auto [all, its] : llvm::zip_equal(parts, getPartsByRank(result, times, span.begin, span.end)))
      all.add(its, span.times);
  for (auto [rank, its, part] : llvm::zip_equal(result.ranks, times, parts))
    report.ranks.push_back(getRankUse(result, result.programs[rank.program], its, part));
  report.mean = getMeanUse(result, report);
  report.largestMemoryRank = std::ranges::max_element(report.ranks, {}, &RankUse::peakBytes) - report.ranks.begin();
  report.criticalPath = findCriticalPath(result);
  report.critical = sumCriticalPath(result, report.criticalPath);
  report.kernels = sumKernels(result, report);
  report.work = work;
  if (report.numRanks > 0)
    report.speed =
        getSpeed(work * (1 / static_cast<double>(report.numRanks)), result.seconds, result.roofline.peakFlops);
  report.roofline = makeRooflinePoint(result, report.numRanks);
  return report;
}

void mlir::moe::setMeasured(SimReport &report, const SimResult &result, const ClusterProfile &cluster,
                            bool hasEvenRouting) {
  // All measured steps are those of whole models. Single MoE layers have no attention.
  auto isAttention = [](const SimLaunch &launch) { return launch.cost.attention.products > 0; };
  if (llvm::none_of(result.programs,
                    [&](const SimProgram &program) { return llvm::any_of(program.launches, isAttention); }))
    return;
  if (const StepClass *steps = cluster.measured.find(getStepFacts(result, cluster, hasEvenRouting)))
    report.measured = *steps;
}
