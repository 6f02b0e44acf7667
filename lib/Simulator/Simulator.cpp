//===- Simulator.cpp - a plan in virtual time -----------------------------===//
#include "moe/Simulator/Simulator.h"

#include "Classes.h"
#include "Engine.h"
#include "FitErrors.h"
#include "Roofline.h"

#include "llvm/ADT/STLExtras.h"

#include <cmath>

using namespace mlir::moe;

static bool sharesProcessors(const CostModel &model) { return model.getProfile().processors.count > 0; }

static llvm::Error check(const CostModel &model, const SimOptions &options) {
  const ClusterProfile &profile = model.getProfile();
  if (sharesProcessors(model) && model.hasContention())
    return makeError("cluster '" + profile.name +
                     "': expected the closed form where the devices of a node share processors");
  if (options.emulateLinks && !sharesProcessors(model))
    return makeError("cluster '" + profile.name +
                     "': expected the devices of a node to share processors where links are emulated");
  for (const Straggler &it : options.stragglers) {
    if (it.rank < 0 || it.rank >= model.getNumRanks())
      return makeError("expected a straggler's rank below " + llvm::Twine(model.getNumRanks()) + " but got " +
                       llvm::Twine(it.rank));
    if (!(it.slowdown > 0) || std::isinf(it.slowdown))
      return makeError("expected a positive slowdown of rank " + llvm::Twine(it.rank));
  }
  return llvm::Error::success();
}

static std::vector<SimRank> chooseRanks(const World &world, const CostModel &model, const Counts &counts,
                                        const SimOptions &options) {
  bool mayDiffer = !counts.isEven() || options.allRanks || !options.stragglers.empty() || model.hasContention() ||
                   sharesProcessors(model);
  return mayDiffer ? getAllRanks(world) : findClasses(world, model.getProfile());
}

/// Stragglers are given by rank; where there are any, all ranks are simulated.
static std::vector<double> getSlowdowns(const SimOptions &options, size_t numRanks) {
  std::vector<double> slowdown(numRanks, 1);
  for (const Straggler &it : options.stragglers)
    slowdown[it.rank] *= it.slowdown;
  return slowdown;
}

static uint64_t countOps(const World &world, llvm::ArrayRef<SimRank> ranks) {
  uint64_t ops = 0;
  for (const SimRank &rank : ranks)
    ops += world.programs[rank.program].ops.size();
  return ops;
}

llvm::Expected<SimResult> mlir::moe::simulate(std::vector<SimProgram> programs, const CostModel &model,
                                              const SimOptions &options) {
  if (llvm::Error error = check(model, options))
    return error;
  SimResult result;
  result.programs = std::move(programs);
  llvm::Expected<World> world = World::create(result.programs, model.getNumRanks());
  if (!world)
    return world.takeError();
  llvm::Expected<Counts> counts = Counts::create(*world, options.routing, options.iteration);
  if (!counts)
    return counts.takeError();
  result.ranks = chooseRanks(*world, model, *counts, options);
  Exchanges exchanges(*world, *counts);
  llvm::Expected<LaunchCosts> costs = LaunchCosts::create(*world, result.ranks, model, *counts, exchanges);
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
  llvm::Expected<SimResult::Roofline> roofline = computeRoofline(execution);
  if (!roofline)
    return roofline.takeError();
  result.roofline = *roofline;
  auto fitErrors = findFitErrors(execution);
  if (!fitErrors)
    return fitErrors.takeError();
  result.fitErrors = std::move(*fitErrors);
  return result;
}
