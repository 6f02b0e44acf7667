//===- StrategySeconds.cpp - MPipeMoE's Eq. 10 on a cluster ---------------===//
#include "Evaluator.h"

#include "llvm/ADT/Sequence.h"

#include "moe/Dialect/Moe/IR/MoeOps.h"

using namespace mlir;
using namespace mlir::moe;
using mpipemoe::Strategy;

namespace {
/// One chunk of a layer on one rank.
struct Chunk {
  int64_t rows = 0, embedding = 0, hidden = 0, experts = 0, members = 1;
  std::string dtype;
  int64_t elementBytes = 4;

  int64_t getBytes() const { return rows * embedding * elementBytes; }
  /// b H M and b M of Eq. 7 to 9.
  double getProduct() const {
    return static_cast<double>(rows) * static_cast<double>(hidden) * static_cast<double>(embedding);
  }
  double getElements() const { return static_cast<double>(rows) * static_cast<double>(embedding); }
};
} // namespace

static Chunk getChunk(LayerOp layer, const ParsedSchedule &schedule, ParallelAttr parallel) {
  auto x = cast<RankedTensorType>(layer.getX().getType()), w2 = cast<RankedTensorType>(layer.getW2().getType());
  Chunk chunk;
  int64_t tokens = x.getDimSize(0), groups = std::max<int64_t>(layer.getGroups(), parallel.getTokenGroup().getSize());
  int64_t dispatched = layer.isDropless() ? tokens * static_cast<int64_t>(layer.getTopK())
                                          : groups * layer.getCapacity(tokens / groups) * layer.getNumExperts();
  // A rank may dispatch only its own share, as in S1 and S2. Each shard of an expert gets all rows in any case.
  bool shares = schedule.sharesTokens();
  double members = shares ? static_cast<double>(parallel.getMp()) : 1;
  double rows = static_cast<double>(dispatched) / static_cast<double>(parallel.getTokenGroup().getSize()) *
                static_cast<double>(parallel.getEsp()) / members;
  chunk.rows = std::max<int64_t>(1, static_cast<int64_t>(rows) / schedule.chunks);
  chunk.embedding = x.getDimSize(1);
  chunk.hidden = std::max<int64_t>(1, w2.getDimSize(1) / parallel.getEsp());
  chunk.experts = std::max<int64_t>(1, w2.getDimSize(0) / parallel.getEp());
  chunk.members = shares ? parallel.getEp() * parallel.getEsp() : parallel.getEp();
  llvm::raw_string_ostream(chunk.dtype) << x.getElementType();
  chunk.elementBytes = std::max<int64_t>(1, x.getElementTypeBitWidth() / 8);
  return chunk;
}

static llvm::Expected<double> getProductSeconds(const CostModel &model, const Chunk &chunk) {
  OpCost cost;
  cost.resource = Resource::Matrix;
  cost.gemm = {chunk.experts, std::max<int64_t>(1, chunk.rows / chunk.experts), chunk.hidden, chunk.embedding};
  cost.flops = cost.gemm.getFlops();
  return model.getSeconds(Work{getKernelNameOf<GroupedMatmulOp>(), {}, chunk.dtype, &cost, {}});
}

static llvm::Expected<double> getExchangeSeconds(const CostModel &model, const Chunk &chunk) {
  if (chunk.members == 1)
    return 0.0;
  SmallVector<int64_t> ranks = llvm::to_vector(llvm::seq<int64_t>(0, chunk.members));
  return model.getSeconds(GroupExchange{
      .collective = Collective::AllToAll, .dtype = chunk.dtype, .payload = chunk.getBytes(), .ranks = ranks});
}

static llvm::Expected<double> getCopySeconds(const CostModel &model, const Chunk &chunk) {
  OpCost cost;
  cost.resource = Resource::HostLink;
  cost.bytesRead = cost.bytesWritten = chunk.getBytes();
  return model.getSeconds(Work{kCopyKernel, {}, chunk.dtype, &cost, {}});
}

/// Sets `rate` to `amount` a second, or to infinity if there is no work.
static llvm::Error setRate(double &rate, double amount, llvm::Expected<double> seconds) {
  if (!seconds)
    return seconds.takeError();
  rate = *seconds > 0 ? amount / *seconds : std::numeric_limits<double>::infinity();
  return llvm::Error::success();
}

static llvm::Expected<mpipemoe::Rates> getRates(const CostModel &model, const Chunk &chunk) {
  mpipemoe::Rates rates;
  constexpr Resource matrix = Resource::Matrix, network = Resource::Network, copy = Resource::HostLink;
  if (llvm::Error error = setRate(rates.computePerSecond, chunk.getProduct(), getProductSeconds(model, chunk)))
    return error;
  if (llvm::Error error = setRate(rates.communicationPerSecond, chunk.getElements(), getExchangeSeconds(model, chunk)))
    return error;
  if (llvm::Error error = setRate(rates.copyPerSecond, chunk.getElements(), getCopySeconds(model, chunk)))
    return error;
  auto bits = [](auto... some) { return ((1U << static_cast<unsigned>(some)) | ...); };
  std::tuple<double &, Resource, unsigned> speeds[] = {{rates.compute, matrix, bits(matrix, network)},
                                                       {rates.communication, network, bits(matrix, network)},
                                                       {rates.communicationAll, network, bits(matrix, network, copy)},
                                                       {rates.copyAll, copy, bits(matrix, network, copy)}};
  for (auto [fraction, resource, busy] : speeds) {
    llvm::Expected<double> speed = model.getSpeed(resource, busy);
    if (!speed)
      return speed.takeError();
    fraction = *speed;
  }
  return rates;
}

llvm::Expected<SmallVector<double, 5>> mlir::moe::getStrategySeconds(ModuleOp graph, const ParsedSchedule &schedule,
                                                                     const PlanOptions &options) {
  SmallVector<double, 5> seconds(5, 0.0);
  auto layers = (*graph.getOps<func::FuncOp>().begin()).getOps<LayerOp>();
  if (layers.empty())
    return seconds;
  llvm::Expected<std::unique_ptr<CostModel>> model =
      CostModel::create(*options.cluster, options.parallel.getWorld(), CostForm::ClosedForm);
  if (!model)
    return model.takeError();
  Chunk chunk = getChunk(*layers.begin(), schedule, options.parallel);
  llvm::Expected<mpipemoe::Rates> rates = getRates(**model, chunk);
  if (!rates)
    return rates.takeError();
  mpipemoe::Layer layer{static_cast<double>(chunk.embedding), static_cast<double>(chunk.hidden),
                        static_cast<double>(chunk.rows)};
  for (Strategy strategy : {Strategy::None, Strategy::S1, Strategy::S2, Strategy::S3, Strategy::S4})
    seconds[static_cast<unsigned>(strategy)] =
        static_cast<double>(schedule.chunks) * mpipemoe::getSeconds(layer, strategy, *rates);
  return seconds;
}
