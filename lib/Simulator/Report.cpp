//===- Report.cpp - sums and critical path of a simulated step ------------===//
#include "moe/Simulator/Report.h"

#include "Repetition.h"
#include "StepParts.h"

#include "moe/Cost/Papers.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringMap.h"
#include "llvm/Support/xxhash.h"

#include <algorithm>

using namespace mlir::moe;
using llvm::ArrayRef;

namespace {
enum class Kind { None, Compute, Communication, Copy };

/// The launches of one simulated rank, sorted by begin.
struct RankTimes {
  const SimProgram *program = nullptr;
  std::vector<const SimTime *> times;

  const SimLaunch &getLaunch(const SimTime &time) const { return program->launches[time.launch]; }
};
} // namespace

static Kind getKind(Resource resource) {
  switch (resource) {
  case Resource::None:
    return Kind::None;
  case Resource::Matrix:
  case Resource::Memory:
    return Kind::Compute;
  case Resource::Network:
    return Kind::Communication;
  case Resource::HostLink:
    return Kind::Copy;
  }
  return Kind::None;
}

std::string mlir::moe::getLaunchName(const SimProgram &program, uint32_t launch) {
  const SimLaunch &op = program.launches[launch];
  return op.group < 0 ? op.kernel : op.kernel + " [" + program.groups[static_cast<size_t>(op.group)].name + "]";
}

std::string mlir::moe::getRankName(const SimRank &rank) {
  if (rank.count == 1)
    return "rank " + std::to_string(rank.rank);
  return "ranks " + std::to_string(rank.rank) + "-" + std::to_string(rank.rank + rank.count - 1) + " (" +
         std::to_string(rank.count) + " alike)";
}

static const SimLaunch &getLaunch(const SimResult &result, const SimTime &time) {
  return result.programs[result.ranks[time.rank].program].launches[time.launch];
}

static std::vector<RankTimes> splitByRank(const SimResult &result) {
  std::vector<RankTimes> ranks(result.ranks.size());
  for (auto [times, rank] : llvm::zip_equal(ranks, result.ranks))
    times.program = &result.programs[rank.program];
  for (const SimTime &time : result.times)
    ranks[time.rank].times.push_back(&time);
  for (RankTimes &rank : ranks)
    llvm::stable_sort(rank.times, [](const SimTime *a, const SimTime *b) { return a->begin < b->begin; });
  return ranks;
}

/// Seconds of the spans in which at least one launch that satisfies `counts` runs.
static double getBusySeconds(const RankTimes &rank, ArrayRef<CountedSpan> spans,
                             llvm::function_ref<bool(const SimLaunch &)> counts) {
  double sum = 0;
  for (const CountedSpan &span : spans) {
    double busy = 0, covered = span.begin;
    for (const SimTime *time : rank.times) {
      if (time->begin >= span.end)
        break;
      double end = std::min(time->end, span.end);
      if (end <= covered || !counts(rank.getLaunch(*time)))
        continue;
      busy += end - std::max(time->begin, covered);
      covered = end;
    }
    sum += span.times * busy;
  }
  return sum;
}

static std::vector<MemoryPoint> followMemory(const RankTimes &rank) {
  std::vector<const SimTime *> launches(rank.program->launches.size());
  for (const SimTime *time : rank.times)
    launches[time->launch] = time;
  std::vector<MemoryPoint> changes = {{0, 0}};
  for (const SimBuffer &buffer : rank.program->buffers) {
    double bytes = static_cast<double>(buffer.bytes);
    if (buffer.isHost)
      continue;
    if (buffer.isArgument) {
      changes[0].bytes += bytes;
      continue;
    }
    if (buffer.firstLaunch < 0 || !launches[static_cast<size_t>(buffer.firstLaunch)] ||
        !launches[static_cast<size_t>(buffer.lastLaunch)])
      continue;
    changes.push_back({launches[static_cast<size_t>(buffer.firstLaunch)]->begin, bytes});
    changes.push_back({launches[static_cast<size_t>(buffer.lastLaunch)]->end, -bytes});
  }
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
  RankTimes times;
  times.program = &result.programs[result.ranks[rank].program];
  for (const SimTime &time : result.times)
    if (time.rank == rank)
      times.times.push_back(&time);
  return followMemory(times);
}

static RankUse getRankUse(const RankTimes &rank, const StepParts &parts, double step, ArrayRef<CountedSpan> spans) {
  RankUse use;
  static_cast<StepParts &>(use) = parts;
  for (auto [number, name] : llvm::enumerate(rank.program->streams)) {
    double busy = getBusySeconds(rank, spans, [&](const SimLaunch &launch) { return launch.stream == number; });
    use.streams.push_back({name, busy, step - busy});
  }
  auto getSeconds = [&](Kind kind) {
    return getBusySeconds(rank, spans, [&](const SimLaunch &launch) { return getKind(launch.cost.resource) == kind; });
  };
  use.communication = getSeconds(Kind::Communication);
  use.copy = getSeconds(Kind::Copy);
  for (const MemoryPoint &point : followMemory(rank))
    use.peakBytes = std::max(use.peakBytes, point.bytes);
  return use;
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

static Confidence getConfidence(const SimResult &result, const CriticalPiece &piece) {
  if (piece.time < 0 || result.confidences.empty())
    return {};
  const SimTime &time = result.times[static_cast<size_t>(piece.time)];
  return result.confidences[result.ranks[time.rank].program][time.launch];
}

/// A number that is the same for launches of one kernel at one size, on groups of one size.
static uint64_t getErrorKind(const SimProgram &program, uint32_t index) {
  const SimLaunch &launch = program.launches[index];
  const OpCost &cost = launch.cost;
  int64_t members = launch.group < 0 ? 1 : program.groups[static_cast<size_t>(launch.group)].size;
  int64_t stride = launch.group < 0 ? 0 : program.groups[static_cast<size_t>(launch.group)].stride;
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
    Kind kind = Kind::None;
    if (piece.time >= 0)
      kind = getKind(getLaunch(result, result.times[static_cast<size_t>(piece.time)]).cost.resource);
    double &sum = kind == Kind::Compute         ? use.compute
                  : kind == Kind::Communication ? use.communication
                  : kind == Kind::Copy          ? use.copy
                                                : use.waiting;
    sum += piece.end - piece.begin;
    Confidence confidence = getConfidence(result, piece);
    if (confidence.relativeError) {
      double error = *confidence.relativeError * (piece.end - piece.begin);
      use.fitted += piece.end - piece.begin;
      use.fitError += error;
      const SimTime &time = result.times[static_cast<size_t>(piece.time)];
      ErrorBudget &errors = kind == Kind::Communication ? use.communicationErrors : use.computeErrors;
      errors.add(getErrorKind(result.programs[result.ranks[time.rank].program], time.launch), error);
    }
    if (confidence.isExtrapolated)
      use.extrapolated += piece.end - piece.begin;
  }
  if (use.fitted > 0)
    use.fitError /= use.fitted;
  return use;
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
      getKernel(result.times[static_cast<size_t>(piece.time)]).criticalSeconds += piece.end - piece.begin;
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

SimReport mlir::moe::makeReport(const SimResult &result, const StepWork &work) {
  SimReport report;
  for (const SimRank &rank : result.ranks)
    report.numRanks += rank.count;
  llvm::SmallVector<CountedSpan, 2> spans = getSpans(result);
  for (auto [rank, parts] : llvm::zip_equal(splitByRank(result), getPartsByRank(result)))
    report.ranks.push_back(getRankUse(rank, parts, result.seconds, spans));
  report.mean = getMeanUse(result, report);
  auto *largest = std::max_element(report.ranks.data(), report.ranks.data() + report.ranks.size(),
                                   [](const RankUse &a, const RankUse &b) { return a.peakBytes < b.peakBytes; });
  report.largestMemoryRank = static_cast<uint32_t>(largest - report.ranks.data());
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
