//===- Simulator.cpp - a plan in virtual time -----------------------------===//
#include "moe/Simulator/Simulator.h"

#include "Classes.h"
#include "Confidences.h"
#include "Engine.h"
#include "FurtherPasses.h"
#include "HostClock.h"
#include "Repetition.h"
#include "Roofline.h"
#include "TokenReach.h"

#include "mlir/IR/BuiltinOps.h"
#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/MathExtras.h"

#include <cmath>
#include <numeric>

using namespace mlir::moe;
using mlir::ModuleOp;
using mlir::OwningOpRef;

static bool sharesProcessors(const CostModel &model) { return model.getProfile().processors.count > 0; }

static llvm::Error check(const CostModel &model, const SimOptions &options) {
  const ClusterProfile &profile = model.getProfile();
  if (sharesProcessors(model) && model.hasContention())
    return llvm::createStringError("cluster '" + profile.name +
                                   "': expected --network=closed-form, since the devices of a node share processors");
  if (options.emulateLinks && !sharesProcessors(model))
    return llvm::createStringError("cluster '" + profile.name +
                                   "': expected a cluster whose devices share processors for --emulate-links");
  for (const Straggler &it : options.stragglers) {
    if (it.rank < 0 || it.rank >= model.getNumRanks())
      return llvm::createStringError("expected a straggler's rank below " + llvm::Twine(model.getNumRanks()) +
                                     " but got " + llvm::Twine(it.rank));
    if (!(it.slowdown > 0) || std::isinf(it.slowdown))
      return llvm::createStringError("expected a positive slowdown of rank " + llvm::Twine(it.rank));
  }
  return llvm::Error::success();
}

static std::vector<SimRank> chooseRanks(const SimWorld &world, const CostModel &model, const Counts &counts,
                                        const SimOptions &options) {
  bool mayDiffer = !counts.isEven() || options.allRanks || !options.stragglers.empty() || model.hasContention() ||
                   sharesProcessors(model);
  return mayDiffer ? getAllRanks(world) : findClasses(world, model.getProfile());
}

/// Slowdown of each simulated rank. With stragglers, all ranks are simulated, so rank numbers are indices.
static std::vector<double> getSlowdowns(const SimOptions &options, size_t numRanks) {
  std::vector<double> slowdown(numRanks, 1);
  for (const Straggler &it : options.stragglers)
    slowdown[it.rank] *= it.slowdown;
  return slowdown;
}

static uint64_t countOps(const SimWorld &world, llvm::ArrayRef<SimRank> ranks) {
  uint64_t ops = 0;
  for (const SimRank &rank : ranks)
    ops += world.programs[rank.program].ops.size();
  return ops;
}

/// Takes the costs from an earlier order of the program, or computes and keeps them.
static llvm::Expected<LaunchCosts> makeCosts(const SimWorld &world, llvm::ArrayRef<SimRank> ranks,
                                             const CostModel &model, Counts &counts, Exchanges &exchanges,
                                             const SimOptions &options) {
  if (!options.known)
    return LaunchCosts::create(world, ranks, model, counts, exchanges);
  std::shared_ptr<const LaunchCosts> &known = options.known->ofIteration[options.iteration];
  llvm::ArrayRef<unsigned> order = options.known->order;
  if (known)
    return known->reorder(order);
  llvm::Expected<LaunchCosts> costs = LaunchCosts::create(world, ranks, model, counts, exchanges);
  if (!costs)
    return costs.takeError();
  std::vector<unsigned> places(order.size());
  for (auto [place, launch] : llvm::enumerate(order))
    places[launch] = place;
  known = std::make_shared<LaunchCosts>(costs->reorder(places));
  return costs;
}

llvm::Expected<SimResult> mlir::moe::simulate(std::vector<SimProgram> programs, const CostModel &model,
                                              const SimOptions &options) {
  if (llvm::Error error = check(model, options))
    return error;
  SimResult result;
  result.programs = std::move(programs);
  llvm::Expected<SimWorld> world = SimWorld::create(result.programs, model.getNumRanks());
  if (!world)
    return world.takeError();
  llvm::Expected<Counts> counts = Counts::create(*world, options.routing, options.iteration);
  if (!counts)
    return counts.takeError();
  result.ranks = chooseRanks(*world, model, *counts, options);
  Exchanges exchanges(*world, *counts);
  llvm::Expected<LaunchCosts> costs = makeCosts(*world, result.ranks, model, *counts, exchanges, options);
  if (!costs)
    return costs.takeError();
  Execution execution{
      *world, result.ranks, model, *costs, exchanges, getSlowdowns(options, result.ranks.size()), options.emulateLinks};
  auto times = sharesProcessors(model) ? runOnProcessors(execution) : runOnDevices(execution);
  if (!times)
    return times.takeError();
  result.times = std::move(*times);
  result.seconds = result.times.empty() ? 0 : result.times.back().end;
  result.events = countOps(*world, result.ranks);
  if (!options.figures)
    return result;
  llvm::Expected<SimResult::Roofline> roofline = computeRoofline(execution);
  if (!roofline)
    return roofline.takeError();
  result.roofline = *roofline;
  llvm::Expected<SimResult::Sent> sent = computeSent(execution);
  if (!sent)
    return sent.takeError();
  result.sent = *sent;
  result.confidences = findConfidences(execution);
  result.reach = findTokenReach(*world, *counts, model.getProfile().devicesPerNode);
  return result;
}

/// Number of micro-batches to leave out if at least `few` iterations of each loop are simulated.
static int64_t getLeftOut(llvm::ArrayRef<SimProgram> programs, int64_t few) {
  int64_t leftOut = std::numeric_limits<int64_t>::max(), together = 1;
  for (const SimProgram &program : programs) {
    leftOut = std::min(leftOut, (program.loop.all - few) * program.loop.microBatches);
    together = std::lcm(together, program.loop.microBatches);
  }
  return leftOut / together * together;
}

/// Simulates fewer iterations, until times repeat themselves. None if they do not within half of the iterations.
static std::optional<SimResult> simulateFew(ModuleOp plan, const CostModel &model, const SimOptions &options) {
  llvm::Expected<std::vector<SimProgram>> once = makeSimPrograms(plan, LoopForm::Once);
  if (!once) {
    llvm::consumeError(once.takeError());
    return std::nullopt;
  }
  // The first try has the iterations that depend on each other and four more in which times may become periodic.
  int64_t few = 0;
  for (const SimProgram &program : *once)
    few = std::max(few, program.loop.reach + 4);
  for (; 2 * getLeftOut(*once, few) >= getLeftOut(*once, 0) && getLeftOut(*once, few) > 0; few *= 2) {
    int64_t leftOut = getLeftOut(*once, few);
    llvm::Expected<std::vector<SimProgram>> programs = makeSimPrograms(plan, LoopForm::Unrolled, leftOut);
    llvm::Expected<SimResult> result =
        programs ? simulate(std::move(*programs), model, options) : llvm::Expected<SimResult>(programs.takeError());
    if (!result) {
      llvm::consumeError(result.takeError());
      return std::nullopt;
    }
    if (auto found = findRepetition(*result, leftOut, model.getProfile().host)) {
      result->repetition = *found;
      result->seconds += static_cast<double>(result->repetition.count) * found->seconds;
      return std::move(*result);
    }
  }
  return std::nullopt;
}

llvm::Expected<SimResult> mlir::moe::simulate(ModuleOp plan, const CostModel &model, const SimOptions &options) {
  if (!options.allIterations && !options.routing && !sharesProcessors(model))
    if (std::optional<SimResult> few = simulateFew(plan, model, options))
      return std::move(*few);
  llvm::Expected<OwningOpRef<ModuleOp>> written = writeFurtherPasses(plan, model, options);
  if (!written)
    return written.takeError();
  // Errors are about the whole plan, so simulateFew() drops its own.
  llvm::Expected<std::vector<SimProgram>> programs = makeSimPrograms(*written ? **written : plan);
  if (!programs)
    return programs.takeError();
  return simulate(std::move(*programs), model, options);
}

llvm::Expected<SimResult> mlir::moe::writeOut(SimResult result, ModuleOp plan) {
  if (result.isWhole())
    return result;
  llvm::Expected<std::vector<SimProgram>> programs = makeSimPrograms(plan);
  if (!programs)
    return programs.takeError();
  return repeat(result, std::move(*programs));
}

namespace {
/// Sums of the work of ranks' streams.
class BusyStreams {
public:
  BusyStreams(const SimWorld &world, const CostModel &model, Exchanges &exchanges)
      : world(world), model(model), exchanges(exchanges) {}

  /// Adds `rank`, whose launches cost `costs` on a device that is `slowdown` times as slow.
  llvm::Error add(const SimRank &rank, const LaunchCost *costs, double slowdown);

  double longest = 0; ///< seconds of the busiest stream
  double work = 0;    ///< seconds of all streams of all ranks
  int64_t count = 0;  ///< number of streams with work

private:
  llvm::Expected<double> getSeconds(int64_t rank, uint32_t launch);

  const SimWorld &world;
  const CostModel &model;
  Exchanges &exchanges;
  /// Seconds of exchanges, by group, instance and meeting. They are the same for all members.
  llvm::DenseMap<std::pair<std::pair<uint32_t, uint32_t>, uint32_t>, double> met;
};
} // namespace

llvm::Expected<double> BusyStreams::getSeconds(int64_t rank, uint32_t launch) {
  if (sharesProcessors(model))
    return getExchangeSeconds(world, rank, launch, model, exchanges);
  MeetingId id = world.getMeeting(rank, launch);
  auto [known, isNew] = met.try_emplace({{id.group, id.instance}, id.number});
  if (!isNew)
    return known->second;
  llvm::Expected<double> seconds = getExchangeSeconds(world, rank, launch, model, exchanges);
  if (seconds)
    known->second = *seconds;
  return seconds;
}

llvm::Error BusyStreams::add(const SimRank &rank, const LaunchCost *costs, double slowdown) {
  llvm::SmallVector<double> busy(world.numStreams);
  for (auto [launch, linked] : llvm::enumerate(world.getLinked(rank.rank).launches)) {
    if (!linked.exchanges()) {
      busy[linked.stream] += costs[launch].seconds * slowdown;
      continue;
    }
    llvm::Expected<double> seconds = getSeconds(rank.rank, launch);
    if (!seconds)
      return seconds.takeError();
    busy[linked.stream] += *seconds;
  }
  for (double stream : busy) {
    longest = std::max(longest, stream);
    work += stream * static_cast<double>(rank.count);
    count += stream > 0 ? rank.count : 0;
  }
  return llvm::Error::success();
}

/// Ranks whose sums give the bound. Any rank gives one. Without a trace, the ranks of a class differ at most by a
/// remainder, so one of them is enough. Shared processors need the sum of all.
static std::vector<SimRank> chooseBoundRanks(const SimWorld &world, const CostModel &model, const Counts &counts,
                                             const SimOptions &options) {
  if (sharesProcessors(model) || options.routing || !options.stragglers.empty())
    return chooseRanks(world, model, counts, options);
  return findClasses(world, model.getProfile());
}

llvm::Expected<double> mlir::moe::getStepBound(llvm::ArrayRef<SimProgram> programs, const CostModel &model,
                                               const SimOptions &options) {
  if (llvm::Error error = check(model, options))
    return error;
  llvm::Expected<SimWorld> world = SimWorld::create(programs, model.getNumRanks());
  if (!world)
    return world.takeError();
  llvm::Expected<Counts> counts = Counts::create(*world, options.routing, options.iteration);
  if (!counts)
    return counts.takeError();
  std::vector<SimRank> ranks = chooseBoundRanks(*world, model, *counts, options);
  Exchanges exchanges(*world, *counts);
  llvm::Expected<LaunchCosts> costs = LaunchCosts::create(*world, ranks, model, *counts, exchanges);
  if (!costs)
    return costs.takeError();
  std::vector<double> slowdown = getSlowdowns(options, ranks.size());
  BusyStreams busy(*world, model, exchanges);
  for (auto [index, rank] : llvm::enumerate(ranks))
    if (llvm::Error error = busy.add(rank, costs->get(index), slowdown[index]))
      return error;
  // A stream has one job at a time, so there are at most as many busy processors as streams.
  const ClusterProfile &profile = model.getProfile();
  int64_t nodes = llvm::divideCeil(model.getNumRanks(), profile.devicesPerNode);
  int64_t atOnce = std::min(busy.count, profile.processors.count * nodes);
  double longest = busy.longest;
  for (const SimProgram &program : programs)
    if (!sharesProcessors(model))
      longest = std::max(longest, getIssueSeconds(program, profile.host));
  return std::max(longest, atOnce > 0 ? busy.work / static_cast<double>(atOnce) : 0.0);
}
