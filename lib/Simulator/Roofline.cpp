//===- Roofline.cpp - bounds, bytes and confidence of a step --------------===//
#include "Engine.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringMap.h"

using namespace mlir::moe;
using llvm::StringRef;

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

using ExchangeLists = std::vector<std::vector<RepeatedExchange>>;

/// Exchanges by program. Those that differ only in ranks are the same. Ragged exchanges differ in their rows, so each
/// stands alone.
static ExchangeLists getExchanges(const Execution &execution) {
  ExchangeLists all;
  for (auto [number, program] : llvm::enumerate(execution.world.programs)) {
    std::vector<RepeatedExchange> &list = all.emplace_back();
    std::map<std::tuple<Collective, int32_t, StringRef, int64_t, int64_t, int64_t, int64_t>, size_t> known;
    for (auto [index, launch] : llvm::enumerate(program.launches)) {
      const OpCost &cost = launch.cost;
      const LinkedLaunch &linked = execution.world.linked[number].launches[index];
      if (!linked.exchanges())
        continue;
      size_t place = list.size();
      if (cost.raggedRows == 0)
        place = known
                    .try_emplace({cost.collective, linked.group, launch.dtype, cost.payload, cost.root,
                                  cost.getSendPhase(), cost.phases},
                                 place)
                    .first->second;
      if (place == list.size())
        list.push_back({static_cast<uint32_t>(index), 0});
      list[place].times += execution.getTimes(number, index);
    }
  }
  return all;
}

/// Bound for the bytes between all ranks. Each rank sends what the simulated rank of its class sends.
static llvm::Expected<double> getMatrixBound(const Execution &execution, const ExchangeLists &exchanges) {
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

/// Longest sum of a rank's exchanges, without the part that does not depend on bytes.
static llvm::Expected<double> getExchangeBound(const Execution &execution, const ExchangeLists &exchanges) {
  double longest = 0;
  for (const SimRank &rank : execution.ranks) {
    double sum = 0;
    for (const RepeatedExchange &it : exchanges[rank.program]) {
      llvm::Expected<GroupExchange> exchange = execution.exchanges.make(rank.rank, it.launch);
      if (!exchange)
        return exchange.takeError();
      if (exchange->ranks.size() == 1)
        continue;
      auto fit =
          execution.model.getAlphaBeta(exchange->collective, exchange->ranks, exchange->dtype, exchange->payload);
      if (!fit)
        return fit.takeError();
      sum += it.times * fit->beta * exchange->getPart() * exchange->getWholePayload();
    }
    longest = std::max(longest, sum);
  }
  return longest;
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
  ExchangeLists exchanges = getExchanges(execution);
  int64_t ranks = execution.world.getNumRanks();
  bool hasMatrix = ranks <= maxMatrixRanks || static_cast<int64_t>(execution.ranks.size()) == ranks;
  auto seconds = hasMatrix ? getMatrixBound(execution, exchanges) : getExchangeBound(execution, exchanges);
  if (llvm::Error error = std::move(seconds).moveInto(roofline.linkSeconds))
    return llvm::createStringError("the bound of the links: " + llvm::toString(std::move(error)));
  return roofline;
}

llvm::Expected<SimResult::Sent> mlir::moe::computeSent(const Execution &execution) {
  const SimWorld &world = execution.world;
  int64_t nodeRanks = execution.model.getProfile().devicesPerNode, all = world.getNumRanks();
  ExchangeLists exchanges = getExchanges(execution);
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

static Confidence findConfidence(const Execution &execution, const SimProgram &program, uint32_t index) {
  const SimLaunch &launch = program.launches[index];
  if (launch.cost.resource != Resource::Network)
    return execution.model.getConfidence(Work{launch.kernel, launch.params, launch.dtype, &launch.cost, {}});
  GroupExchange exchange;
  exchange.collective = launch.cost.collective;
  exchange.dtype = launch.dtype;
  exchange.payload = launch.cost.payload;
  exchange.phase = launch.cost.phase;
  exchange.phases = launch.cost.phases;
  exchange.ranks = execution.exchanges.getMembers(program.firstRank, index);
  return execution.model.getConfidence(exchange);
}

std::vector<std::vector<Confidence>> mlir::moe::findConfidences(const Execution &execution) {
  std::vector<std::vector<Confidence>> result;
  for (const SimProgram &program : execution.world.programs) {
    std::vector<Confidence> &confidences = result.emplace_back();
    for (uint32_t index = 0; index < program.launches.size(); ++index)
      confidences.push_back(findConfidence(execution, program, index));
  }
  return result;
}
