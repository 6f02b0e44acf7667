//===- DescribeCluster.cpp - what passes know of a cluster ----------------===//
#include "Stages.h"

#include "llvm/ADT/Sequence.h"

#include "moe/Dialect/Moe/IR/MoeOps.h"
#include "moe/Support/UsageError.h"

using namespace mlir;
using namespace mlir::moe;

static llvm::Expected<std::unique_ptr<CostModel>> createModel(const CompileOptions &options) {
  return CostModel::create(*options.cluster, options.parallel.getWorld(), CostForm::ClosedForm);
}

//===----------------------------------------------------------------------===//
// A layer's rates, for FasterMoE's passes
//===----------------------------------------------------------------------===//

namespace {
/// Measures the first layer of a model.
class Measure {
public:
  Measure(LayerOp layer, const CompileOptions &options, const CostModel &model)
      : layer(layer), parallel(options.parallel), model(model),
        nodeRanks(std::min(options.devicesPerNode, options.parallel.getWorld())) {
    llvm::raw_string_ostream(dtype) << getX().getElementType();
    // Members of ep that hold the first part of each expert.
    for (int64_t member = 0; member < parallel.getEp(); ++member)
      members.push_back(member * parallel.getEsp());
  }

  llvm::Error run(ClusterRates &rates);

private:
  RankedTensorType getX() { return cast<RankedTensorType>(layer.getX().getType()); }
  double getRows();
  llvm::Expected<double> getFlopsPerSecond();
  llvm::Expected<double> getLinkRate(int64_t senders, int64_t firstReceiver, int64_t endReceiver);
  llvm::Error setExchange(ClusterRates &rates);

  LayerOp layer;
  ParallelAttr parallel;
  const CostModel &model;
  int64_t nodeRanks;
  std::string dtype;
  SmallVector<int64_t> members;
};
} // namespace

/// Rows that the experts of a rank compute on average.
double Measure::getRows() {
  return static_cast<double>(getX().getDimSize(0)) / static_cast<double>(parallel.getTokenGroup().getSize()) *
         static_cast<double>(layer.getTopK() * parallel.getEsp());
}

/// Rate of the first product of an expert with twice the mean rows: experts that are worth shadowing have more.
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

llvm::Error Measure::setExchange(ClusterRates &rates) {
  auto payload = static_cast<int64_t>(getRows() * static_cast<double>(getX().getDimSize(1)) *
                                      static_cast<double>(getX().getElementTypeBitWidth()) / 8);
  auto exchange = model.getAlphaBeta(Collective::AllToAll, members, dtype, payload);
  if (!exchange)
    return exchange.takeError();
  rates.expertBytes = exchange->beta > 0 ? 1 / exchange->beta : 0;
  rates.expertStart = exchange->alpha;
  auto w1 = cast<RankedTensorType>(layer.getW1().getType()), w2 = cast<RankedTensorType>(layer.getW2().getType());
  int64_t bytes = (getByteSize(w1) + getByteSize(w2)) / w1.getDimSize(0) / parallel.getEsp();
  auto broadcast = model.getAlphaBeta(Collective::Broadcast, members, dtype, bytes);
  if (!broadcast)
    return broadcast.takeError();
  double seconds = broadcast->alpha + broadcast->beta * static_cast<double>(bytes);
  rates.broadcastBytes = seconds > 0 ? static_cast<double>(bytes) / seconds : 0;
  return llvm::Error::success();
}

llvm::Error Measure::run(ClusterRates &rates) {
  if (parallel.getEp() == 1)
    return llvm::Error::success();
  auto set = [](double &to, llvm::Expected<double> from) -> llvm::Error {
    if (from)
      to = *from;
    return from.takeError();
  };
  if (llvm::Error error = set(rates.expertFlops, getFlopsPerSecond()))
    return error;
  if (llvm::Error error = setExchange(rates))
    return error;
  int64_t ranks = parallel.getEp() * parallel.getEsp();
  if (llvm::Error error = set(rates.linkBytes, getLinkRate(1, 0, std::min(ranks, nodeRanks))))
    return error;
  if (ranks <= nodeRanks)
    return llvm::Error::success();
  return set(rates.nodeLinkBytes, getLinkRate(nodeRanks, nodeRanks, std::min(ranks, 2 * nodeRanks)));
}

static llvm::Error setLayerRates(ModuleOp graph, const CompileOptions &options, ClusterRates &rates) {
  auto layers = getFunction(graph).getOps<LayerOp>();
  if (layers.empty())
    return llvm::Error::success();
  llvm::Expected<std::unique_ptr<CostModel>> model = createModel(options);
  if (!model)
    return model.takeError();
  return Measure(*layers.begin(), options, **model).run(rates);
}

//===----------------------------------------------------------------------===//
// Lines, for Parm's Algorithm 1
//===----------------------------------------------------------------------===//

/// alpha and beta, in seconds and seconds a byte, of a collective over the first ranks.
static llvm::Expected<parm::AlphaBeta> getLine(const CostModel &model, Collective collective, int64_t members,
                                               ModuleOp graph) {
  if (members == 1)
    return parm::AlphaBeta();
  // All exchanged values are about as large as the input.
  auto input = cast<ShapedType>(getFunction(graph).getArgumentTypes().front());
  std::string dtype;
  llvm::raw_string_ostream(dtype) << input.getElementType();
  SmallVector<int64_t> ranks = llvm::to_vector(llvm::seq<int64_t>(0, members));
  llvm::Expected<CostModel::AlphaBeta> line =
      model.getAlphaBeta(collective, ranks, dtype, getByteSize(input) / model.getNumRanks());
  if (!line)
    return line.takeError();
  return parm::AlphaBeta{line->alpha, line->beta};
}

/// Computes alpha and beta of an exchange that overlaps a gather, which Eq. 14 of Parm treats as one collective. The
/// longer one hides all but one phase of the shorter one. `gatherPerByte` is the number of bytes gathered per byte
/// exchanged.
static parm::AlphaBeta overlap(parm::AlphaBeta exchange, parm::AlphaBeta gather, double gatherPerByte, int64_t phases) {
  auto n = static_cast<double>(phases);
  gather.beta *= gatherPerByte;
  if (exchange.beta >= gather.beta || phases == 1)
    return {exchange.alpha + gather.alpha, exchange.beta + gather.beta / n};
  return {exchange.alpha / n + n * gather.alpha, exchange.beta / n + gather.beta};
}

static llvm::Error setParmLines(ModuleOp graph, const CompileOptions &options, ClusterRates &rates) {
  ParallelAttr parallel = options.parallel;
  llvm::Expected<std::unique_ptr<CostModel>> model = createModel(options);
  if (!model)
    return model.takeError();
  auto exchange = getLine(**model, Collective::AllToAll, parallel.getEp() * parallel.getEsp(), graph);
  if (!exchange)
    return exchange.takeError();
  auto gather = getLine(**model, Collective::AllGather, parallel.getMp(), graph);
  if (!gather)
    return gather.takeError();
  // y = X / N_MP bytes are exchanged where E T M = X / N_ESP are gathered.
  double gatherPerByte = static_cast<double>(parallel.getMp()) / static_cast<double>(parallel.getEsp());
  parm::AlphaBeta both = overlap(*exchange, *gather, gatherPerByte, getSaaPhases(options));
  rates.allToAllAlpha = exchange->alpha;
  rates.allToAllBeta = exchange->beta;
  rates.allGatherAlpha = gather->alpha;
  rates.allGatherBeta = gather->beta;
  rates.overlappedAlpha = both.alpha;
  rates.overlappedBeta = both.beta;
  return llvm::Error::success();
}

//===----------------------------------------------------------------------===//
// A device's rates
//===----------------------------------------------------------------------===//

/// Bytes a second that a rank exchanges with the others of `ranks` neighbours; 0 if the cluster does not say.
static double getExchangeRate(const ClusterProfile &cluster, int64_t ranks, StringRef dtype) {
  constexpr int64_t manyBytes = int64_t(1) << 26;
  llvm::Expected<std::unique_ptr<CostModel>> model = CostModel::create(cluster, ranks, CostForm::ClosedForm);
  if (!model) {
    llvm::consumeError(model.takeError());
    return 0;
  }
  auto line =
      (*model)->getAlphaBeta(Collective::AllToAll, llvm::to_vector(llvm::seq<int64_t>(0, ranks)), dtype, manyBytes);
  if (!line) {
    llvm::consumeError(line.takeError());
    return 0;
  }
  return line->beta > 0 ? 1 / line->beta : 0;
}

/// Sets the rates that the cluster has, and leaves the others as they are.
static void setDeviceRates(ModuleOp graph, const ClusterProfile &cluster, int64_t nodeRanks, ClusterRates &rates) {
  rates.memoryBytes = cluster.memoryBytesPerSecond;
  for (Type type : getFunction(graph).getArgumentTypes()) {
    auto tensor = dyn_cast<RankedTensorType>(type);
    if (!tensor || !isa<FloatType>(tensor.getElementType()))
      continue;
    std::string dtype;
    llvm::raw_string_ostream(dtype) << tensor.getElementType();
    if (const DeviceRate *rate = cluster.getRate(dtype))
      rates.flops = rate->flopsPerSecond;
    int64_t most = cluster.getMaxDevices();
    if (double rate = getExchangeRate(cluster, std::min(nodeRanks, most), dtype); rate > 0)
      rates.insideBytes = rate;
    if (double rate = getExchangeRate(cluster, std::min(2 * nodeRanks, most), dtype); rate > 0)
      rates.outsideBytes = rate;
    return;
  }
}

FailureOr<ClusterAttr> mlir::moe::describeCluster(ModuleOp graph, const ParsedSchedule &schedule,
                                                  const CompileOptions &options) {
  ClusterRates rates;
  rates.nodeRanks = options.devicesPerNode;
  bool needsLayer = schedule.shadows || schedule.topologyGate, needsLines = schedule.layer == LayerRewrite::ParmAuto;
  if (!options.cluster && (needsLayer || needsLines))
    return emitUsageError(graph.getContext()) << "expected a cluster for the schedule '" << schedule.getName() << "'";
  if (options.cluster)
    setDeviceRates(graph, *options.cluster, options.devicesPerNode, rates);
  llvm::Error error = needsLayer ? setLayerRates(graph, options, rates) : llvm::Error::success();
  if (!error && needsLines)
    error = setParmLines(graph, options, rates);
  if (error)
    return emitUsageError(graph.getContext()) << llvm::toString(std::move(error));
  return ClusterAttr::get(graph.getContext(), rates);
}
