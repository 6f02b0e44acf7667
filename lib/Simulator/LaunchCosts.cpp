//===- LaunchCosts.cpp - costs of launches on each rank -------------------===//
#include "LaunchCosts.h"

#include "llvm/ADT/STLExtras.h"

using namespace mlir::moe;

namespace {
class Pricer {
public:
  Pricer(const SimWorld &world, const CostModel &model, Counts &counts, Exchanges &exchanges)
      : world(world), model(model), counts(counts), exchanges(exchanges) {}

  llvm::Error addRank(std::vector<LaunchCost> &costs, int64_t rank);

private:
  llvm::Expected<LaunchCost> price(int64_t rank, uint32_t launch);
  llvm::Expected<double> getSeconds(int64_t rank, uint32_t launch, llvm::ArrayRef<int64_t> rows);
  llvm::Expected<double> getRaggedSeconds(int64_t rank, uint32_t launch, llvm::ArrayRef<int64_t> rows);

  const SimWorld &world;
  const CostModel &model;
  Counts &counts;
  Exchanges &exchanges;
  /// Rows and seconds of the last rank, by program and ragged launch. With even routing the next rank has the same.
  llvm::DenseMap<std::pair<uint32_t, uint32_t>, std::pair<std::vector<int64_t>, double>> last;
};
} // namespace

llvm::Expected<double> Pricer::getSeconds(int64_t rank, uint32_t index, llvm::ArrayRef<int64_t> rows) {
  const SimLaunch &launch = world.getLaunch(rank, index);
  llvm::Expected<double> seconds =
      model.getSeconds(Work{launch.kernel, launch.params, launch.dtype, &launch.cost, rows});
  if (!seconds)
    return addLaunch(seconds.takeError(), world.getProgram(rank), index);
  return seconds;
}

llvm::Expected<double> Pricer::getRaggedSeconds(int64_t rank, uint32_t index, llvm::ArrayRef<int64_t> rows) {
  auto &[lastRows, lastSeconds] = last[{world.programOfRank[rank], index}];
  if (llvm::ArrayRef(lastRows) == rows)
    return lastSeconds;
  llvm::Expected<double> seconds = getSeconds(rank, index, rows);
  if (seconds) {
    lastRows.assign(rows.begin(), rows.end());
    lastSeconds = *seconds;
  }
  return seconds;
}

llvm::Expected<LaunchCost> Pricer::price(int64_t rank, uint32_t index) {
  const OpCost &needs = world.getLaunch(rank, index).cost;
  LaunchCost cost;
  llvm::ArrayRef<int64_t> rows;
  double use = 1;
  if (needs.raggedRows > 0) {
    llvm::Expected<const Counts::Value *> value = counts.get(rank, index);
    if (!value)
      return value.takeError();
    rows = (*value)->perExpert;
    cost.rows = counts.getRows(**value, rank, index);
    use = static_cast<double>(cost.rows) / static_cast<double>(needs.raggedRows);
  }
  cost.flops = use * needs.flops;
  cost.bytes = use * static_cast<double>(needs.getBytesMoved());
  if (needs.resource == Resource::None)
    return cost;
  bool isExchange = needs.resource == Resource::Network;
  llvm::Expected<double> figure = isExchange             ? exchanges.getBytesSent(rank, index)
                                  : needs.raggedRows > 0 ? getRaggedSeconds(rank, index, rows)
                                                         : getSeconds(rank, index, {});
  if (!figure)
    return figure.takeError();
  (isExchange ? cost.bytes : cost.seconds) = *figure;
  return cost;
}

llvm::Error Pricer::addRank(std::vector<LaunchCost> &costs, int64_t rank) {
  for (uint32_t launch = 0; launch < world.getProgram(rank).launches.size(); ++launch) {
    llvm::Expected<LaunchCost> cost = price(rank, launch);
    if (!cost)
      return cost.takeError();
    costs.push_back(*cost);
  }
  return llvm::Error::success();
}

llvm::Expected<LaunchCosts> LaunchCosts::create(const SimWorld &world, llvm::ArrayRef<SimRank> ranks,
                                                const CostModel &model, Counts &counts, Exchanges &exchanges) {
  LaunchCosts result;
  Pricer pricer(world, model, counts, exchanges);
  llvm::SmallVector<bool> differ;
  for (const SimProgram &program : world.programs)
    differ.push_back(
        llvm::any_of(program.launches, [](const SimLaunch &launch) { return launch.cost.raggedRows > 0; }));
  std::vector<std::optional<size_t>> shared(world.programs.size());
  for (const SimRank &rank : ranks) {
    std::optional<size_t> &first = shared[rank.program];
    if (!first || differ[rank.program]) {
      first = result.costs.size();
      if (llvm::Error error = pricer.addRank(result.costs, rank.rank))
        return error;
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

/// Seconds of the launches on the first rank of program number `program`.
static llvm::Expected<std::vector<double>>
getLaunchSeconds(const SimWorld &world, size_t program, const CostModel &model, Counts &counts, Exchanges &exchanges) {
  SimRank first{world.programs[program].firstRank, 1, static_cast<uint32_t>(program)};
  llvm::Expected<LaunchCosts> costs = LaunchCosts::create(world, first, model, counts, exchanges);
  if (!costs)
    return costs.takeError();
  std::vector<double> seconds;
  for (auto [launch, linked] : llvm::enumerate(world.linked[program].launches)) {
    llvm::Expected<double> its = linked.exchanges() ? getExchangeSeconds(world, first.rank, launch, model, exchanges)
                                                    : costs->get(0)[launch].seconds;
    if (!its)
      return its.takeError();
    seconds.push_back(*its);
  }
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
  for (size_t program = 0; program < programs.size(); ++program) {
    llvm::Expected<std::vector<double>> seconds = ::getLaunchSeconds(*world, program, model, *counts, exchanges);
    if (!seconds)
      return seconds.takeError();
    all.push_back(std::move(*seconds));
  }
  return all;
}
