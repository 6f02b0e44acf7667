//===- Simulator.cpp - a plan in virtual time -----------------------------===//
#include "moe/Simulator/Simulator.h"

#include "Engine.h"
#include "HostClock.h"
#include "InOrder.h"
#include "Repetition.h"

#include "moe/Dialect/Plan/Transforms/Subprograms.h"

#include "mlir/IR/BuiltinOps.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/MathExtras.h"

#include <cmath>
#include <numeric>

using namespace mlir;
using namespace mlir::moe;

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

/// Bytes of the pairs of ranks in ragged exchanges whose members differ.
static llvm::Error findPairBytes(const SimWorld &world, Exchanges &exchanges, SimResult &result) {
  for (auto [index, rank] : llvm::enumerate(result.ranks))
    for (auto [launch, linked] : llvm::enumerate(world.getLinked(rank.rank).launches)) {
      if (!linked.exchanges())
        continue;
      llvm::Expected<llvm::SmallVector<int64_t>> bytes = exchanges.getPairBytes(rank.rank, launch);
      if (!bytes)
        return bytes.takeError();
      if (!bytes->empty())
        result.pairBytes[{index, launch}].assign(bytes->begin(), bytes->end());
    }
  return llvm::Error::success();
}

llvm::Expected<SimResult> mlir::moe::simulate(std::vector<SimProgram> programs, const CostModel &model,
                                              const SimOptions &options) {
  if (llvm::Error error = check(model, options))
    return error;
  SimResult result;
  result.precision = model.getProfile().precision;
  result.programs = std::move(programs);
  for (SimProgram &program : result.programs)
    orderExchanges(program, model.getProfile().host.inOrder);
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
  result.seconds = result.getEnd();
  for (const SimRank &rank : result.ranks)
    result.events += world->programs[rank.program].ops.size();
  if (options.pairBytes)
    if (llvm::Error error = findPairBytes(*world, exchanges, result))
      return error;
  if (!options.figures)
    return result;
  if (llvm::Error error = computeRoofline(execution).moveInto(result.roofline))
    return error;
  if (llvm::Error error = computeSent(execution).moveInto(result.sent))
    return error;
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
  std::optional<std::vector<SimProgram>> once = llvm::expectedToOptional(makeSimPrograms(plan, LoopForm::Once));
  if (!once)
    return std::nullopt;
  // The first try has the iterations that depend on each other and four more in which times may become periodic.
  int64_t few = 0;
  for (const SimProgram &program : *once)
    few = std::max(few, program.loop.reach + 4);
  for (; 2 * getLeftOut(*once, few) >= getLeftOut(*once, 0) && getLeftOut(*once, few) > 0; few *= 2) {
    int64_t leftOut = getLeftOut(*once, few);
    auto programs = llvm::expectedToOptional(makeSimPrograms(plan, LoopForm::Unrolled, leftOut));
    auto result = programs ? llvm::expectedToOptional(simulate(std::move(*programs), model, options)) : std::nullopt;
    if (!result)
      return std::nullopt;
    if (auto found = findRepetition(*result, leftOut, model.getProfile().host)) {
      result->repetition = *found;
      result->seconds += static_cast<double>(result->repetition.count) * found->seconds;
      return result;
    }
  }
  return std::nullopt;
}

/// Returns a copy of `plan` with each subprogram written out as often as the routing of `options` demands on any rank.
/// On a rank with fewer passes the other copies have no rows. Null if the plan runs no subprograms, or if routing is
/// even.
static llvm::Expected<OwningOpRef<ModuleOp>> writeFurtherPasses(ModuleOp plan, const CostModel &model,
                                                                const SimOptions &options) {
  bool hasSome = llvm::any_of(plan.getOps<func::FuncOp>(), plan::isSubprogram);
  if (!hasSome || !options.routing)
    return OwningOpRef<ModuleOp>();
  llvm::Expected<std::vector<SimProgram>> programs = makeSimPrograms(plan);
  if (!programs)
    return programs.takeError();
  llvm::Expected<SimWorld> world = SimWorld::create(*programs, model.getNumRanks());
  if (!world)
    return world.takeError();
  llvm::Expected<Counts> counts = Counts::create(*world, options.routing, options.iteration);
  if (!counts)
    return counts.takeError();
  std::map<std::pair<StringRef, uint32_t>, int64_t> most; // runs on any rank, by program and op
  for (const SimProgram &program : *programs)
    for (auto [index, launch] : llvm::enumerate(program.launches))
      for (int64_t rank = program.firstRank; rank < program.firstRank + program.numRanks; ++rank) {
        if (launch.kernel != plan::kRepeatKernel)
          break;
        llvm::Expected<int64_t> further = counts->getFurtherPasses(rank, index);
        if (!further)
          return further.takeError();
        int64_t &passes = most[{program.name, launch.op}];
        passes = std::max(passes, *further);
      }
  OwningOpRef<ModuleOp> written = plan.clone();
  std::map<Operation *, int64_t> times;
  for (auto function : written->getOps<func::FuncOp>())
    for (auto [op, number] : numberOps(function))
      if (auto found = most.find({function.getName(), number}); found != most.end())
        times[op] = found->second;
  if (failed(plan::inlineSubprograms(*written, [&](plan::LaunchOp launch) { return times[launch]; })))
    return llvm::createStringError("expected launches that suit the subprograms that they run");
  return written;
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

/// Seconds of each stream of a rank, if launches take `slowdown` times as long as in `costs`. `met` keeps the seconds
/// of exchanges, by group, instance of the group and number of the exchange. All members take the same time, unless
/// ranks share processors.
static llvm::Expected<std::vector<double>>
addUpStreams(const SimWorld &world, int64_t rank, const LaunchCost *costs, double slowdown, const CostModel &model,
             Exchanges &exchanges, llvm::DenseMap<std::tuple<uint32_t, uint32_t, uint32_t>, double> &met) {
  std::vector<double> busy(world.numStreams);
  for (auto [launch, linked] : llvm::enumerate(world.getLinked(rank).launches)) {
    if (!linked.exchanges()) {
      busy[linked.stream] += costs[launch].seconds * slowdown;
      continue;
    }
    MeetingId id = world.getMeeting(rank, launch);
    auto [known, isNew] = met.try_emplace({id.group, id.instance, id.number});
    if (isNew || sharesProcessors(model))
      if (auto error = getExchangeSeconds(world, rank, launch, model, exchanges).moveInto(known->second))
        return error;
    busy[linked.stream] += known->second;
  }
  return busy;
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
  llvm::DenseMap<std::tuple<uint32_t, uint32_t, uint32_t>, double> met;
  double longest = 0, work = 0;
  int64_t numBusy = 0; // streams with work, of all ranks
  for (auto [index, rank] : llvm::enumerate(ranks)) {
    auto busy = addUpStreams(*world, rank.rank, costs->get(index), slowdown[index], model, exchanges, met);
    if (!busy)
      return busy.takeError();
    for (double seconds : *busy) {
      longest = std::max(longest, seconds);
      work += seconds * static_cast<double>(rank.count);
      numBusy += seconds > 0 ? rank.count : 0;
    }
  }
  const ClusterProfile &profile = model.getProfile();
  if (sharesProcessors(model)) {
    // A stream has one job at a time, so there are at most as many busy processors as streams.
    int64_t nodes = llvm::divideCeil(model.getNumRanks(), profile.devicesPerNode);
    int64_t atOnce = std::min(numBusy, profile.processors.count * nodes);
    return std::max(longest, atOnce > 0 ? work / static_cast<double>(atOnce) : 0.0);
  }
  for (const SimProgram &program : programs)
    longest = std::max(longest, getIssueSeconds(program.launches, profile.host));
  return longest;
}
