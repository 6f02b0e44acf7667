//===- simulator_speed.cpp - how fast the simulator is --------------------===//
//
// Programs like those that moe-compile makes of MoE layers, on a cluster of nodes of 8 devices: simulated ops per
// second of all ranks on one core, symmetric plans of many ranks, uneven routing at link level, and how time grows with
// ops and ranks.
//
//===----------------------------------------------------------------------===//
#include "moe/Simulator/Simulator.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/raw_ostream.h"

#include <chrono>

using namespace mlir::moe;

namespace {

constexpr int64_t devicesPerNode = 8;
constexpr int64_t tokens = 4096, model = 4096, hidden = 14336, experts = 64, topK = 2;

/// The figures do not matter to speed.
ClusterProfile makeProfile() {
  ClusterProfile profile;
  profile.name = "benchmark";
  profile.maxNodes = 128;
  profile.devicesPerNode = devicesPerNode;
  profile.memoryBytesPerSecond = 2e12;
  profile.launchSeconds = profile.kernelSeconds = 2e-6;
  DeviceRate &rate = profile.rates.emplace_back();
  rate.dtype = "bf16";
  rate.flopsPerSecond = 1e15;
  rate.efficiency = {{16, 256, 4096}, {1024, 8192}, {1024, 8192}, {}};
  for (int point = 0; point < 12; ++point)
    rate.efficiency.values.push_back(0.2 + 0.04 * point);
  Interference both;
  both.compute = both.communication = true;
  both.computeSpeed = 0.95;
  both.communicationSpeed = 0.9;
  profile.interference.push_back(both);
  profile.algorithms.fill(Algorithm::Ring);
  profile.algorithms[static_cast<unsigned>(Collective::AllToAll)] = Algorithm::Pairwise;
  profile.links = {{"device*", "switch", 400e9, 400e9, 1e-6}, {"device*", "network", 50e9, 50e9, 3e-6}};
  for (unsigned collective = 1; collective < kNumCollectives; ++collective) {
    CollectiveFit fit;
    fit.collective = static_cast<Collective>(collective);
    fit.minMembers = fit.minPerNode = 1;
    fit.maxMembers = fit.maxPerNode = 1024;
    fit.alpha = 2e-5;
    fit.beta = 2e-11;
    profile.collectives.push_back(fit);
  }
  return profile;
}

/// Forward and backward of MoE layers with ep over neighbours and gradients summed over all ranks.
class LayerMaker {
public:
  LayerMaker(int64_t ranks, int64_t ep, bool dropless) : ranks(ranks), ep(ep), dropless(dropless) {
    program.name = "rank";
    program.numRanks = ranks;
    program.streams = {"compute", "comm.intra", "comm.inter"};
    program.groups = {{"ep", ep, 1}, {"dp", ranks, 1}};
  }

  SimProgram make(int64_t layers);

private:
  enum Stream : uint32_t { Compute, Comm, Gradients };
  enum Group : int32_t { Experts, Data };

  int32_t addCounts(int64_t rows, int64_t columns);
  SimLaunch &launch(Stream stream, const char *kernel, Resource resource);
  void memory(const char *kernel, int64_t rowBytes);
  void product(const char *kernel, int64_t columns, int64_t depth);
  void exchange(bool toExperts);
  void makeRagged(SimLaunch &launch, int32_t counts, int64_t rows);
  void reduceGradients(int64_t bytes);
  void pass(Stream from, Stream to);
  void route();
  void forward();
  void backward();

  int64_t ranks, ep;
  bool dropless;
  SimProgram program;
  std::string label;
  int32_t routed = -1, expertCounts = -1;
};

} // namespace

int32_t LayerMaker::addCounts(int64_t rows, int64_t columns) {
  SimBuffer buffer;
  buffer.dtype = "i32";
  buffer.shape = {rows, columns};
  program.buffers.push_back(buffer);
  return static_cast<int32_t>(program.buffers.size()) - 1;
}

SimLaunch &LayerMaker::launch(Stream stream, const char *kernel, Resource resource) {
  program.ops.push_back({SimOp::Kind::Launch, stream, static_cast<uint32_t>(program.launches.size())});
  SimLaunch &it = program.launches.emplace_back();
  it.kernel = kernel;
  it.label = label;
  it.dtype = "bf16";
  it.stream = stream;
  it.cost.resource = resource;
  return it;
}

void LayerMaker::makeRagged(SimLaunch &it, int32_t counts, int64_t rows) {
  if (!dropless)
    return;
  it.inputs = {counts};
  it.cost.raggedRows = rows;
  it.cost.countsInput = 0;
}

void LayerMaker::memory(const char *kernel, int64_t rowBytes) {
  SimLaunch &it = launch(Compute, kernel, Resource::Memory);
  it.cost.bytesRead = it.cost.bytesWritten = tokens * topK * rowBytes;
}

/// Of the rows at the experts, for which there is eight times the room that they need on average.
void LayerMaker::product(const char *kernel, int64_t columns, int64_t depth) {
  int64_t rows = tokens * topK * (dropless ? 8 : 1), own = experts / ep;
  SimLaunch &it = launch(Compute, kernel, Resource::Matrix);
  it.cost.gemm = {own, rows / own, columns, depth};
  it.cost.flops = it.cost.gemm.getFlops();
  makeRagged(it, expertCounts, rows);
}

void LayerMaker::exchange(bool toExperts) {
  pass(Compute, Comm);
  SimLaunch &it = launch(Comm, "all_to_all", Resource::Network);
  it.group = Experts;
  it.cost.collective = Collective::AllToAll;
  it.cost.payload = tokens * topK * model * 2;
  makeRagged(it, toExperts ? routed : expertCounts, tokens * topK);
  it.cost.peerDim = toExperts ? 1 : 0;
  pass(Comm, Compute);
}

void LayerMaker::reduceGradients(int64_t bytes) {
  pass(Compute, Gradients);
  SimLaunch &it = launch(Gradients, "all_reduce", Resource::Network);
  it.group = Data;
  it.cost.collective = Collective::AllReduce;
  it.cost.payload = bytes;
}

void LayerMaker::pass(Stream from, Stream to) {
  uint32_t event = program.numEvents++;
  program.ops.push_back({SimOp::Kind::Record, from, event});
  program.ops.push_back({SimOp::Kind::Wait, to, event});
}

void LayerMaker::route() {
  routed = addCounts(1, experts);
  expertCounts = addCounts(ep, experts / ep);
  SimLaunch &it = launch(Compute, "route", Resource::Memory);
  it.cost.bytesRead = tokens * experts * 4;
  it.cost.routedOutput = 0;
  it.cost.routedRows = tokens * topK;
  it.outputs = {routed};
  program.routedLayers.push_back(label);
  if (!dropless)
    return;
  pass(Compute, Comm);
  SimLaunch &counts = launch(Comm, "all_to_all", Resource::Network);
  counts.group = Experts;
  counts.params = {1, 0};
  counts.inputs = {routed};
  counts.outputs = {expertCounts};
  counts.cost.collective = Collective::AllToAll;
  counts.cost.payload = experts * 4;
}

void LayerMaker::forward() {
  memory("matmul", model * 2);
  route();
  memory("dispatch", model * 2);
  exchange(/*toExperts=*/true);
  product("grouped_matmul", 2 * hidden, model);
  memory("activation", hidden * 2);
  product("grouped_matmul", model, hidden);
  exchange(/*toExperts=*/false);
  memory("combine", model * 2);
  memory("add", model * 2);
}

void LayerMaker::backward() {
  memory("dispatch", model * 2);
  memory("slot_dot", model * 2);
  exchange(/*toExperts=*/true);
  product("grouped_matmul", hidden, model);
  product("grouped_matmul_wgrad", model, hidden);
  memory("activation_grad", hidden * 2);
  product("grouped_matmul", model, 2 * hidden);
  product("grouped_matmul_wgrad", 2 * hidden, model);
  exchange(/*toExperts=*/false);
  memory("combine", model * 2);
  memory("route_grad", experts * 4);
  memory("matmul", model * 2);
  memory("add", model * 2);
  reduceGradients(model * experts * 2);
}

SimProgram LayerMaker::make(int64_t layers) {
  for (int64_t layer = 0; layer < layers; ++layer) {
    label = "layer" + std::to_string(layer);
    forward();
    backward();
  }
  return program;
}

//===----------------------------------------------------------------------===//
// Measurements
//===----------------------------------------------------------------------===//

template <typename T> static T check(llvm::Expected<T> value) {
  if (value)
    return std::move(*value);
  llvm::errs() << llvm::toString(value.takeError()) << "\n";
  std::exit(1);
}

namespace {
struct Figures {
  double seconds = 0;
  uint64_t ops = 0;
  size_t ranks = 0; ///< simulated
};
} // namespace

/// The programs are copied outside of the time.
static Figures measureOnce(const CostModel &model, const SimProgram &program, const SimOptions &options) {
  std::vector<SimProgram> programs = {program};
  auto begin = std::chrono::steady_clock::now();
  SimResult result = check(simulate(std::move(programs), model, options));
  std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - begin;
  return {seconds.count(), result.events, result.ranks.size()};
}

/// Median of many runs on one model, the first not counted.
static Figures measure(const CostModel &model, const SimProgram &program, const SimOptions &options) {
  measureOnce(model, program, options);
  std::vector<Figures> runs;
  for (int run = 0; run < 11; ++run)
    runs.push_back(measureOnce(model, program, options));
  llvm::sort(runs, [](const Figures &a, const Figures &b) { return a.seconds < b.seconds; });
  return runs[runs.size() / 2];
}

static void print(const llvm::Twine &what, const Figures &figures, const char *wanted) {
  llvm::outs() << llvm::formatv("{0,-58} {1,5} ranks {2,8} ops {3,9:F3} ms {4,7:F2} Mops/s  {5}\n", what.str(),
                                figures.ranks, figures.ops, figures.seconds * 1e3,
                                static_cast<double>(figures.ops) / figures.seconds * 1e-6, wanted);
}

int main() {
  ClusterProfile profile = makeProfile();
  auto makeModel = [&](int64_t ranks, CostForm form) { return check(CostModel::create(profile, ranks, form)); };
  SimOptions all;
  all.allRanks = true;

  auto model64 = makeModel(64, CostForm::ClosedForm);
  for (bool dropless : {false, true}) {
    const char *form = dropless ? "dropless" : "capacity";
    print(llvm::Twine(form) + ", all of 64 ranks, 24 layers",
          measure(*model64, LayerMaker(64, 8, dropless).make(24), all), "wanted: 1 Mops/s");
  }
  RoutingTrace trace = SyntheticRouting{}.generate(64, 24, experts, tokens, topK);
  SimOptions uneven;
  uneven.routing = &trace;
  print("dropless, uneven, 64 ranks, 24 layers", measure(*model64, LayerMaker(64, 8, true).make(24), uneven),
        "wanted: 1 Mops/s");

  auto links64 = makeModel(64, CostForm::LinkLevel);
  for (int64_t ep : {8, 64})
    print("link level, uneven, 64 ranks, 1 layer, ep " + llvm::Twine(ep),
          measure(*links64, LayerMaker(64, ep, true).make(1), uneven), "wanted: at most 50 ms");

  for (int64_t ranks : {8, 64, 512, 1024}) {
    auto model = makeModel(ranks, CostForm::ClosedForm);
    for (bool dropless : {false, true})
      for (int64_t ep : {8, 64})
        if (ep <= ranks)
          print(llvm::Twine(dropless ? "dropless" : "capacity") + ", symmetric, " + llvm::Twine(ranks) +
                    " ranks, 1 layer, ep " + llvm::Twine(ep),
                measure(*model, LayerMaker(ranks, ep, dropless).make(1), {}), "wanted: at most 5 ms");
  }
  // Alpha and beta of every group from the links, for the first time.
  ClusterProfile linksOnly = profile;
  linksOnly.collectives.clear();
  for (int64_t ranks : {64, 1024}) {
    auto model = check(CostModel::create(linksOnly, ranks, CostForm::ClosedForm));
    print("dropless, symmetric, " + llvm::Twine(ranks) + " ranks, 1 layer, from links, first run",
          measureOnce(*model, LayerMaker(ranks, 8, true).make(1), {}), "");
  }

  ClusterProfile host = makeProfile();
  host.devicesPerNode = 64;
  host.processors.count = 16;
  host.processors.speed.fill(std::vector<double>(16, 0.9));
  auto hostModel = check(CostModel::create(host, 64, CostForm::ClosedForm));
  print("dropless, 64 ranks share 16 processors, 24 layers", measure(*hostModel, LayerMaker(64, 8, true).make(24), {}),
        "wanted: 1 Mops/s");

  for (int64_t layers : {1, 10, 100, 1000, 10000})
    print("capacity, symmetric, 64 ranks, " + llvm::Twine(layers) + " layers",
          measure(*model64, LayerMaker(64, 8, false).make(layers), {}), "wanted: linear");
}
