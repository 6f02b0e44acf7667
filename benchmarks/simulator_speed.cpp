//===- simulator_speed.cpp - speed of the simulator -----------------------===//
//
// Training steps of olmoe-1b-7b's layers (64 experts, top 8) on hgx-h100, compiled as moe-compile does: simulated ops
// per second of all ranks on one core, symmetric plans of many ranks, uneven routing at link level, and how time grows
// with ops and ranks. Compiling is not in the times.
//
//===----------------------------------------------------------------------===//
#include "LayerBench.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/FormatVariadic.h"

#include "moe/Simulator/Simulator.h"

#include <chrono>

using namespace mlir;
using namespace mlir::moe;

namespace {
/// A simulated step.
struct Case {
  int64_t ranks, ep, layers;
  bool dropless;

  std::string describe() const {
    return llvm::formatv("{0}, {1} ranks, ep {2}, {3} layers", dropless ? "dropless" : "capacity", ranks, ep, layers);
  }
};

class Bench : public LayerBench {
public:
  using LayerBench::LayerBench;

  SimProgram compile(const Case &what);
  /// Prints the median of many simulations on one model. The first does not count.
  void measure(const Case &what, const CostModel &model, const SimOptions &options, const char *how,
               const char *wanted);
  std::unique_ptr<CostModel> makeModel(int64_t ranks, CostForm form) {
    return check(CostModel::create(cluster, ranks, form));
  }
  /// Uneven routing for `what`.
  RoutingTrace route(const Case &what);
};
} // namespace

SimProgram Bench::compile(const Case &what) {
  OwningOpRef<ModuleOp> graph = import(what.layers, what.ranks, what.dropless);
  PlanOptions options;
  options.devicesPerNode = cluster.devicesPerNode;
  FailureOr<ParallelAttr> parallel =
      parseParallel(context.get(), llvm::formatv("dp={0},ep={1}", what.ranks, what.ep).str());
  if (failed(parallel))
    std::exit(1);
  options.parallel = *parallel;
  FailureOr<OwningOpRef<ModuleOp>> plan = mlir::moe::planAndCompile(*graph, options);
  if (failed(plan))
    std::exit(1);
  return std::move(check(makeSimPrograms(**plan)).front());
}

void Bench::measure(const Case &what, const CostModel &model, const SimOptions &options, const char *how,
                    const char *wanted) {
  SimProgram program = compile(what);
  std::vector<double> seconds;
  SimResult result;
  for (int run = 0; run < 12; ++run) {
    std::vector<SimProgram> programs = {program};
    auto begin = std::chrono::steady_clock::now();
    result = check(simulate(std::move(programs), model, options));
    seconds.push_back(std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count());
  }
  seconds.erase(seconds.begin());
  llvm::sort(seconds);
  double median = seconds[seconds.size() / 2];
  llvm::outs() << llvm::formatv("{0,-46} {1,-20} {2,5} {3,8} {4,9:F3} {5,7:F2}  {6}\n", what.describe(), how,
                                result.ranks.size(), result.events, median * 1e3,
                                static_cast<double>(result.events) / median * 1e-6, wanted);
}

RoutingTrace Bench::route(const Case &what) {
  SyntheticRouting routing;
  routing.preset = kUnbalancedRouting;
  routing.first = 100;
  return routing.generate(what.ranks, what.layers, config.layer.experts, kTokens, config.layer.topK);
}

int main(int, char **argv) {
  Bench bench;
  llvm::outs()
      << "plan                                           how                  ranks      ops        ms  Mops/s\n";
  SimOptions all;
  all.allRanks = true;
  auto closed64 = bench.makeModel(64, CostForm::ClosedForm);
  for (bool dropless : {false, true})
    bench.measure({64, 8, 24, dropless}, *closed64, all, "all ranks", "wanted: 1 Mops/s");
  Case uneven{64, 8, 24, true};
  RoutingTrace trace = bench.route(uneven);
  SimOptions traced;
  traced.routing = &trace;
  traced.iteration = trace.getIterations().front();
  bench.measure(uneven, *closed64, traced, "uneven", "wanted: 1 Mops/s");

  auto links64 = bench.makeModel(64, CostForm::LinkLevel);
  for (int64_t ep : {8, 64})
    bench.measure({64, ep, 1, true}, *links64, traced, "uneven, link level", "wanted: at most 50 ms");

  for (int64_t ranks : {8, 64, 512, 1024})
    for (bool dropless : {false, true})
      bench.measure({ranks, 8, 1, dropless}, *bench.makeModel(ranks, CostForm::ClosedForm), {}, "symmetric",
                    "wanted: at most 5 ms");
  for (int64_t layers : {1, 10, 100, 500})
    bench.measure({64, 8, layers, false}, *closed64, {}, "symmetric", "wanted: linear");
}
