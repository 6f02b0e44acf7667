//===- Roofline.cpp - the bounds of a step, and its bytes -----------------===//
#include "Roofline.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringMap.h"

using namespace mlir::moe;

/// Most ranks for which the bound of the links comes from a matrix of all ranks. If ranks stand for more than that, the
/// bound comes from the exchanges of each simulated rank, because the matrix would cost more than the simulation.
static constexpr int64_t maxMatrixRanks = 128;

namespace {
/// An exchange of a program, with the number of exchanges that are the same.
struct RepeatedExchange {
  uint32_t launch;
  double times;
};
} // namespace

/// Ragged exchanges differ in their rows, so each stands alone.
static std::vector<RepeatedExchange> getExchanges(const Execution &execution, uint32_t program) {
  const SimWorld &world = execution.world;
  std::vector<RepeatedExchange> result;
  llvm::DenseMap<uint32_t, uint32_t> known; ///< index in the result, by kind
  for (auto [index, launch] : llvm::enumerate(world.linked[program].launches)) {
    if (!launch.exchanges())
      continue;
    double times = execution.getTimes(program, index);
    if (world.programs[program].launches[index].cost.raggedRows > 0) {
      result.push_back({static_cast<uint32_t>(index), times});
      continue;
    }
    auto [entry, isNew] = known.try_emplace(execution.exchanges.getKind(program, index), result.size());
    if (isNew)
      result.push_back({static_cast<uint32_t>(index), 0});
    result[entry->second].times += times;
  }
  return result;
}

/// Bound for the bytes between all ranks. Each rank sends what the simulated rank of its class sends.
static llvm::Expected<double> getMatrixBound(const Execution &execution,
                                             llvm::ArrayRef<std::vector<RepeatedExchange>> exchanges) {
  int64_t ranks = execution.world.getNumRanks();
  std::vector<double> matrix(ranks * ranks, 0.0);
  for (int64_t rank = 0; rank < ranks; ++rank) {
    llvm::MutableArrayRef<double> row(matrix.data() + rank * ranks, ranks);
    for (const RepeatedExchange &it : exchanges[execution.world.programOfRank[rank]])
      if (llvm::Error error = execution.exchanges.addBytesSent(rank, it.launch, row, it.times))
        return error;
  }
  if (llvm::all_of(matrix, [](double bytes) { return bytes == 0; }))
    return 0;
  return execution.model.getLinkBound(matrix);
}

/// Seconds of a rank's exchanges, without the part that does not depend on bytes.
static llvm::Expected<double> getExchangeSeconds(const Execution &execution, int64_t rank,
                                                 llvm::ArrayRef<RepeatedExchange> exchanges) {
  double sum = 0;
  for (const RepeatedExchange &it : exchanges) {
    llvm::Expected<GroupExchange> exchange = execution.exchanges.make(rank, it.launch);
    if (!exchange)
      return exchange.takeError();
    if (exchange->ranks.size() == 1)
      continue;
    auto fit = execution.model.getAlphaBeta(exchange->collective, exchange->ranks, exchange->dtype, exchange->payload);
    if (!fit)
      return fit.takeError();
    sum += it.times * fit->beta * exchange->getPart() * exchange->getWholePayload();
  }
  return sum;
}

/// Longest sum of a rank's exchanges.
static llvm::Expected<double> getExchangeBound(const Execution &execution,
                                               llvm::ArrayRef<std::vector<RepeatedExchange>> exchanges) {
  double longest = 0;
  for (const SimRank &it : execution.ranks) {
    llvm::Expected<double> seconds = getExchangeSeconds(execution, it.rank, exchanges[it.program]);
    if (!seconds)
      return seconds;
    longest = std::max(longest, *seconds);
  }
  return longest;
}

/// Exchanges by program.
static std::vector<std::vector<RepeatedExchange>> getExchanges(const Execution &execution) {
  std::vector<std::vector<RepeatedExchange>> exchanges;
  for (uint32_t program = 0; program < execution.world.programs.size(); ++program)
    exchanges.push_back(getExchanges(execution, program));
  return exchanges;
}

static llvm::Expected<double> getLinkSeconds(const Execution &execution) {
  std::vector<std::vector<RepeatedExchange>> exchanges = getExchanges(execution);
  int64_t ranks = execution.world.getNumRanks();
  if (ranks <= maxMatrixRanks || static_cast<int64_t>(execution.ranks.size()) == ranks)
    return getMatrixBound(execution, exchanges);
  return getExchangeBound(execution, exchanges);
}

namespace {
/// FLOPs of one rank.
struct Flops {
  double total = 0;
  llvm::StringMap<double> products; ///< by dtype, for matrix launches
};
} // namespace

static Flops addUpFlops(const Execution &execution, uint32_t program, const LaunchCost *costs) {
  Flops flops;
  for (auto [index, launch] : llvm::enumerate(execution.world.programs[program].launches)) {
    double its = execution.getTimes(program, index) * costs[index].flops;
    flops.total += its;
    if (launch.cost.resource == Resource::Matrix)
      flops.products[launch.dtype] += its;
  }
  return flops;
}

/// Sets the figures that depend only on FLOPs.
static void addFlops(SimResult::Roofline &roofline, const Execution &execution) {
  llvm::StringMap<double> products; ///< for all ranks, by dtype
  double most = 0;
  const LaunchCost *costs = nullptr;
  Flops flops;
  for (auto [index, it] : llvm::enumerate(execution.ranks)) {
    // Ranks that share their costs share their FLOPs.
    if (execution.costs.get(index) != costs) {
      costs = execution.costs.get(index);
      flops = addUpFlops(execution, it.program, costs);
    }
    roofline.totalFlops += flops.total * static_cast<double>(it.count);
    most = std::max(most, flops.total);
    for (const auto &product : flops.products)
      products[product.first()] += product.second * static_cast<double>(it.count);
  }
  // The first rate in the profile wins if several have equal FLOPs.
  double largest = 0;
  for (const DeviceRate &rate : execution.model.getProfile().rates)
    if (double its = products.lookup(rate.dtype); its > largest) {
      largest = its;
      roofline.peakFlops = rate.flopsPerSecond;
    }
  roofline.computeSeconds = roofline.peakFlops > 0 ? most / roofline.peakFlops : 0;
}

llvm::Expected<SimResult::Roofline> mlir::moe::computeRoofline(const Execution &execution) {
  SimResult::Roofline roofline;
  addFlops(roofline, execution);
  llvm::Expected<double> seconds = getLinkSeconds(execution);
  if (!seconds)
    return addContext(seconds.takeError(), "the bound of the links");
  roofline.linkSeconds = *seconds;
  return roofline;
}

llvm::Expected<SimResult::Sent> mlir::moe::computeSent(const Execution &execution) {
  const SimWorld &world = execution.world;
  int64_t nodeRanks = execution.model.getProfile().devicesPerNode, all = world.getNumRanks();
  std::vector<std::vector<RepeatedExchange>> exchanges = getExchanges(execution);
  SimResult::Sent sent;
  for (const SimRank &it : execution.ranks) {
    std::vector<double> row(all, 0.0);
    for (const RepeatedExchange &exchange : exchanges[it.program]) {
      const SimGroup &group = world.groups[world.getMeeting(it.rank, exchange.launch).group];
      if (group.isChannel() && !group.isSender(it.rank))
        continue;
      if (llvm::Error error = execution.exchanges.addBytesSent(it.rank, exchange.launch, row, exchange.times))
        return error;
    }
    double weight = static_cast<double>(it.count) / static_cast<double>(all);
    for (auto [to, bytes] : llvm::enumerate(row)) {
      bool isInside = static_cast<int64_t>(to) / nodeRanks == it.rank / nodeRanks;
      (isInside ? sent.insideNodes : sent.betweenNodes) += weight * bytes;
    }
  }
  return sent;
}
