//===- LayerRates.cpp - what FasterMoE's passes know of a cluster ---------===//
#include "LayerRates.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "llvm/ADT/Sequence.h"

#include "moe/Cost/ClusterProfile.h"
#include "moe/Cost/CostModel.h"
#include "moe/Dialect/Moe/IR/MoeOps.h"

using namespace mlir;
using namespace mlir::moe;

namespace {
class Measure {
public:
  Measure(LayerOp layer, const PipelineOptions &options, const CostModel &model)
      : layer(layer), parallel(options.parallel), model(model),
        nodeRanks(std::min(options.devicesPerNode, options.parallel.getWorld())) {
    llvm::raw_string_ostream(dtype) << getX().getElementType();
    // Members of ep that hold the first part of each expert.
    for (int64_t member = 0; member < parallel.getEp(); ++member)
      members.push_back(member * parallel.getEsp());
  }

  llvm::Error run(LayerRates &figures);

private:
  RankedTensorType getX() { return cast<RankedTensorType>(layer.getX().getType()); }
  double getRows();
  llvm::Expected<double> getFlopsPerSecond();
  llvm::Expected<double> getLinkRate(int64_t senders, int64_t firstReceiver, int64_t endReceiver);
  llvm::Error setExchange(LayerRates &figures);

  LayerOp layer;
  ParallelAttr parallel;
  const CostModel &model;
  int64_t nodeRanks;
  std::string dtype;
  SmallVector<int64_t> members;
};
} // namespace

/// That the experts of a rank compute on average.
double Measure::getRows() {
  return static_cast<double>(getX().getDimSize(0)) / static_cast<double>(parallel.getDp()) *
         static_cast<double>(layer.getTopK() * parallel.getEsp());
}

/// Of the first product of an expert with twice as many rows as the mean: where shadowing matters, there are more.
llvm::Expected<double> Measure::getFlopsPerSecond() {
  auto w1 = cast<RankedTensorType>(layer.getW1().getType());
  int64_t experts = std::max<int64_t>(1, w1.getDimSize(0) / parallel.getEp());
  OpCost cost;
  cost.resource = Resource::Matrix;
  cost.gemm = {1, std::max<int64_t>(1, 2 * static_cast<int64_t>(getRows()) / experts),
               std::max<int64_t>(1, w1.getDimSize(2) / parallel.getEsp()), w1.getDimSize(1)};
  cost.flops = cost.gemm.getFlops();
  llvm::Expected<double> seconds = model.getSeconds(Work{getKernelNameOf<GroupedMatmulOp>(), {}, dtype, &cost, {}});
  if (!seconds)
    return seconds;
  return cost.flops / *seconds;
}

/// Bytes a second from the first `senders` ranks, spread evenly over receivers, by the slowest link on the way.
llvm::Expected<double> Measure::getLinkRate(int64_t senders, int64_t firstReceiver, int64_t endReceiver) {
  int64_t ranks = model.getNumRanks();
  std::vector<double> matrix(ranks * ranks, 0.0);
  double bytes = 0;
  for (int64_t from = 0; from < senders; ++from)
    for (int64_t to = firstReceiver; to < endReceiver; ++to)
      if (from != to)
        bytes += matrix[from * ranks + to] = 1e6;
  if (bytes == 0)
    return 0;
  llvm::Expected<double> seconds = model.getLinkBound(matrix);
  if (!seconds)
    return seconds;
  return *seconds > 0 ? bytes / *seconds : 0;
}

llvm::Error Measure::setExchange(LayerRates &figures) {
  auto payload = static_cast<int64_t>(getRows() * static_cast<double>(getX().getDimSize(1)) *
                                      static_cast<double>(getX().getElementTypeBitWidth()) / 8);
  auto exchange = model.getAlphaBeta(Collective::AllToAll, members, dtype, payload);
  if (!exchange)
    return exchange.takeError();
  figures.sendBytesPerSecond = exchange->beta > 0 ? 1 / exchange->beta : 0;
  figures.startSeconds = exchange->alpha;
  auto w1 = cast<RankedTensorType>(layer.getW1().getType()), w2 = cast<RankedTensorType>(layer.getW2().getType());
  int64_t bytes = (getByteSize(w1) + getByteSize(w2)) / w1.getDimSize(0) / parallel.getEsp();
  auto broadcast = model.getAlphaBeta(Collective::Broadcast, members, dtype, bytes);
  if (!broadcast)
    return broadcast.takeError();
  double seconds = broadcast->alpha + broadcast->beta * static_cast<double>(bytes);
  figures.broadcastBytesPerSecond = seconds > 0 ? static_cast<double>(bytes) / seconds : 0;
  return llvm::Error::success();
}

llvm::Error Measure::run(LayerRates &figures) {
  if (parallel.getEp() == 1)
    return llvm::Error::success();
  auto set = [](double &to, llvm::Expected<double> from) -> llvm::Error {
    if (from)
      to = *from;
    return from.takeError();
  };
  if (llvm::Error error = set(figures.flopsPerSecond, getFlopsPerSecond()))
    return error;
  if (llvm::Error error = setExchange(figures))
    return error;
  int64_t ranks = parallel.getEp() * parallel.getEsp();
  if (llvm::Error error = set(figures.localBytesPerSecond, getLinkRate(1, 0, std::min(ranks, nodeRanks))))
    return error;
  if (ranks <= nodeRanks)
    return llvm::Error::success();
  return set(figures.nodeBytesPerSecond, getLinkRate(nodeRanks, nodeRanks, std::min(ranks, 2 * nodeRanks)));
}

llvm::Expected<LayerRates> mlir::moe::getLayerRates(ModuleOp graph, const PipelineOptions &options) {
  LayerRates figures;
  auto layers = (*graph.getOps<func::FuncOp>().begin()).getOps<LayerOp>();
  if (layers.empty())
    return figures;
  llvm::Expected<std::unique_ptr<CostModel>> model =
      CostModel::create(*options.cluster, options.parallel.getWorld(), CostForm::ClosedForm);
  if (!model)
    return model.takeError();
  if (llvm::Error error = Measure(*layers.begin(), options, **model).run(figures))
    return error;
  return figures;
}
