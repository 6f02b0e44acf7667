//===- LaunchCosts.cpp - costs of launches on each rank -------------------===//
#include "Engine.h"

#include "llvm/ADT/STLExtras.h"

using namespace mlir::moe;

namespace {
/// Rows and seconds of a ragged launch on the last rank. With even routing the next rank has the same.
struct LastRank {
  std::vector<int64_t> rows;
  double seconds = 0;
};
} // namespace

static llvm::Expected<LaunchCost> price(const SimWorld &world, int64_t rank, uint32_t index, const CostModel &model,
                                        Counts &counts, Exchanges &exchanges, LastRank &last) {
  const SimLaunch &launch = world.getLaunch(rank, index);
  LaunchCost cost;
  llvm::ArrayRef<int64_t> rows;
  double use = 1;
  if (launch.cost.raggedRows > 0) {
    llvm::Expected<const Counts::Value *> value = counts.get(rank, index);
    if (!value)
      return value.takeError();
    rows = (*value)->perExpert;
    cost.rows = counts.getRows(**value, rank, index);
    use = static_cast<double>(cost.rows) / static_cast<double>(launch.cost.raggedRows);
  }
  cost.flops = use * launch.cost.flops;
  cost.bytes = use * static_cast<double>(launch.cost.getBytesMoved());
  if (launch.cost.resource == Resource::None)
    return cost;
  if (launch.cost.resource == Resource::Network) {
    if (llvm::Error error = exchanges.getBytesSent(rank, index).moveInto(cost.bytes))
      return error;
    return cost;
  }
  if (rows.empty() || rows != llvm::ArrayRef(last.rows)) {
    Work work{launch.kernel, launch.params, launch.dtype, &launch.cost, rows};
    if (llvm::Error error = model.getSeconds(work).moveInto(last.seconds))
      return addLaunch(std::move(error), world.getProgram(rank), index);
    last.rows = rows.vec();
  }
  cost.seconds = last.seconds;
  return cost;
}

llvm::Expected<LaunchCosts> LaunchCosts::create(const SimWorld &world, llvm::ArrayRef<SimRank> ranks,
                                                const CostModel &model, Counts &counts, Exchanges &exchanges) {
  LaunchCosts result;
  std::vector<std::optional<size_t>> shared(world.programs.size());
  std::vector<std::vector<LastRank>> last(world.programs.size()); // by program and launch
  for (const SimRank &rank : ranks) {
    const SimProgram &program = world.programs[rank.program];
    std::optional<size_t> &first = shared[rank.program];
    if (!first || program.isRagged()) {
      first = result.costs.size();
      last[rank.program].resize(program.launches.size());
      for (uint32_t launch = 0; launch < program.launches.size(); ++launch) {
        auto cost = price(world, rank.rank, launch, model, counts, exchanges, last[rank.program][launch]);
        if (!cost)
          return cost.takeError();
        result.costs.push_back(*cost);
      }
    }
    result.first.push_back(*first);
  }
  return result;
}

LaunchCosts LaunchCosts::reorder(llvm::ArrayRef<unsigned> order) const {
  LaunchCosts result;
  result.first = first;
  for (size_t begin = 0; begin < costs.size(); begin += order.size())
    for (unsigned launch : order)
      result.costs.push_back(costs[begin + launch]);
  return result;
}

/// If devices share processors, a member's share keeps one processor busy.
llvm::Expected<double> mlir::moe::getExchangeSeconds(const SimWorld &world, int64_t rank, uint32_t launch,
                                                     const CostModel &model, Exchanges &exchanges) {
  const LinkedLaunch &linked = world.getLinked(rank).launches[launch];
  if (world.groups[linked.group].size == 1)
    return 0;
  llvm::Expected<GroupExchange> exchange = exchanges.make(rank, launch);
  if (!exchange)
    return exchange.takeError();
  llvm::Expected<double> seconds = model.getProfile().processors.count > 0
                                       ? model.getShareSeconds(*exchange, world.groups[linked.group].getMember(rank))
                                       : model.getSeconds(*exchange);
  if (!seconds)
    return addLaunch(seconds.takeError(), world.getProgram(rank), launch);
  return seconds;
}

llvm::Expected<std::vector<std::vector<double>>> mlir::moe::getLaunchSeconds(llvm::ArrayRef<SimProgram> programs,
                                                                             const CostModel &model) {
  llvm::Expected<SimWorld> world = SimWorld::create(programs, model.getNumRanks());
  if (!world)
    return world.takeError();
  llvm::Expected<Counts> counts = Counts::create(*world, /*trace=*/nullptr, /*iteration=*/0);
  if (!counts)
    return counts.takeError();
  Exchanges exchanges(*world, *counts);
  std::vector<std::vector<double>> all;
  for (auto [number, program] : llvm::enumerate(programs)) {
    SimRank first{program.firstRank, 1, static_cast<uint32_t>(number)};
    llvm::Expected<LaunchCosts> costs = LaunchCosts::create(*world, first, model, *counts, exchanges);
    if (!costs)
      return costs.takeError();
    std::vector<double> &seconds = all.emplace_back();
    for (auto [launch, linked] : llvm::enumerate(world->linked[number].launches)) {
      seconds.push_back(costs->get(0)[launch].seconds);
      if (linked.exchanges())
        if (auto error = getExchangeSeconds(*world, first.rank, launch, model, exchanges).moveInto(seconds.back()))
          return error;
    }
  }
  return all;
}
