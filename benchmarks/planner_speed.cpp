//===- planner_speed.cpp - speed of --schedule=auto -----------------------===//
//
// A training step of one layer of olmoe-1b-7b (64 experts, top 8) on hgx-h100. The program measures rates per second on
// one core: compiled candidates, bounds of compiled ones, and simulated ones. It also measures the whole search, and
// the search that leaves nothing out. The exit status is 1 if a rate is below its goal.
//
//===----------------------------------------------------------------------===//
#include "LayerBench.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/FormatVariadic.h"

#include "moe/Dialect/Moe/IR/MoeDialect.h"
#include "moe/Planner/AutoSchedule.h"
#include "moe/Simulator/Prediction.h"
#include "moe/Simulator/Simulator.h"

#include <ctime>

using namespace mlir;
using namespace mlir::moe;

/// Seconds of the processor, so that other programs do not count.
static double getSeconds(llvm::function_ref<void()> run) {
  std::clock_t begin = std::clock();
  run();
  return static_cast<double>(std::clock() - begin) / CLOCKS_PER_SEC;
}

namespace {
/// A planned step.
struct Case {
  int64_t ranks, mp, ep;
  bool dropless;

  std::string describe() const {
    return llvm::formatv("{0}, {1} ranks, mp {2}, ep {3}", dropless ? "dropless" : "capacity", ranks, mp, ep);
  }
};

class Bench : public LayerBench {
public:
  using LayerBench::LayerBench;

  /// Measures a case. Prints a row for each figure.
  void measure(const Case &what);
  bool isGood() const { return good; }

private:
  /// Plans of some schedules of all kinds, in the program's order, as the search makes them to bound them.
  std::vector<OwningOpRef<ModuleOp>> compileSome(ModuleOp graph, PlanOptions options, const Case &what);
  void measureSearch(const Case &what, ModuleOp graph, const PlanOptions &options);
  void print(const Case &what, const char *figure, double value, double wanted, bool atMost = false);

  bool good = true;
};
} // namespace

/// Prints a row. `wanted` is 0 for a figure without a goal.
void Bench::print(const Case &what, const char *figure, double value, double wanted, bool atMost) {
  bool holds = wanted == 0 || (atMost ? value <= wanted : value >= wanted);
  good &= holds;
  std::string wish = wanted == 0 ? "" : llvm::formatv("{0} {1}", atMost ? "at most" : "at least", wanted).str();
  llvm::outs() << llvm::formatv("{0,-34} {1,-32} {2,12:F1}  {3,-16} {4}\n", what.describe(), figure, value, wish,
                                wanted == 0 ? ""
                                : holds     ? "ok"
                                            : "FAIL");
  llvm::outs().flush();
}

std::vector<OwningOpRef<ModuleOp>> Bench::compileSome(ModuleOp graph, PlanOptions options, const Case &what) {
  std::vector<OwningOpRef<ModuleOp>> plans;
  options.order = OrderPolicy::Program;
  double seconds = getSeconds([&] {
    for (const char *schedule : {"baseline", "s1", "s2", "s2+saa", "chunks:4", "s1+chunks:4", "s2+chunks:8"}) {
      options.schedule = schedule;
      FailureOr<OwningOpRef<ModuleOp>> plan = mlir::moe::planAndCompile(graph, options);
      if (failed(plan))
        std::exit(1);
      plans.push_back(std::move(*plan));
    }
  });
  print(what, "compiled a second", static_cast<double>(plans.size()) / seconds, 0);
  return plans;
}

/// Calls `run` with each of `count` numbers in turn. Returns calls per second. The first calls fill the model's caches
/// and do not count.
static double measureRate(size_t count, llvm::function_ref<void(size_t)> run) {
  constexpr size_t rounds = 200;
  auto runAll = [&](size_t times) {
    for (size_t i = 0; i < times * count; ++i)
      run(i % count);
  };
  runAll(1);
  return static_cast<double>(count * rounds) / getSeconds([&] { runAll(rounds); });
}

void Bench::measure(const Case &what) {
  OwningOpRef<ModuleOp> graph = import(/*layers=*/1, what.ranks / what.mp, what.dropless);
  PlanOptions options;
  options.devicesPerNode = cluster.devicesPerNode;
  options.cluster = &cluster;
  options.reference = false;
  options.parallel = *parseParallel(
      context.get(), llvm::formatv("dp={0},mp={1},ep={2}", what.ranks / what.mp, what.mp, what.ep).str());
  std::vector<OwningOpRef<ModuleOp>> plans = compileSome(*graph, options, what);
  std::vector<std::vector<SimProgram>> programs;
  for (OwningOpRef<ModuleOp> &plan : plans)
    programs.push_back(check(makeSimPrograms(*plan)));
  auto model = check(CostModel::create(cluster, what.ranks, CostForm::ClosedForm));
  print(what, "bounds a second",
        measureRate(plans.size(), [&](size_t i) { check(getStepBound(programs[i], *model, SimOptions())); }), 10000);
  print(what, "simulated a second, with programs and reports",
        measureRate(plans.size(), [&](size_t i) { check(predict(*plans[i], "", *model)); }), 500);
  measureSearch(what, *graph, options);
}

/// Applied ones are compiled and bounded, simulated ones ordered as well.
void Bench::measureSearch(const Case &what, ModuleOp graph, const PlanOptions &options) {
  graph->setAttr(kParallelAttrName, options.parallel);
  ScheduleExplanation result;
  double seconds = getSeconds([&] { result = searchSpace(graph, options); });
  print(what, "the search, seconds", seconds, 0);
  print(what, "  candidates", static_cast<double>(result.candidates.size()), 0);
  print(what, "  applied", static_cast<double>(result.applied), 0);
  print(what, "  ordered and simulated", static_cast<double>(result.simulated), 0);
  PlanOptions exhaustive = options;
  exhaustive.exhaustive = true;
  seconds = getSeconds([&] { result = searchSpace(graph, exhaustive); });
  print(what, "exhaustive, candidates a second", static_cast<double>(result.simulated) / seconds, 0);
}

int main(int, char **argv) {
  Bench bench;
  llvm::outs() << "layer                              figure                                         wanted\n";
  for (const Case &what : {Case{8, 1, 8, false}, Case{64, 2, 8, false}, Case{64, 2, 8, true}})
    bench.measure(what);
  return bench.isGood() ? 0 : 1;
}
