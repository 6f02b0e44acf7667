//===- AutoScheduleTest.cpp - the chosen schedule against all of them -----===//
//
// Random layers on random clusters. The tests compare the choice of --schedule=auto with the fastest schedule of the
// whole space, whose candidates are all simulated. They also compare the bound by which the search leaves candidates
// out with the candidates' times. MOE_AUTO_CASES is the number of layers, and MOE_AUTO_SEED selects others.
//
//===----------------------------------------------------------------------===//
#include "moe/Planner/AutoSchedule.h"

#include "LayerGraph.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Parser/Parser.h"
#include "llvm/Support/FormatVariadic.h"

#include "moe/Compiler/Schedule.h"
#include "moe/Cost/ClusterProfile.h"
#include "moe/Dialect/Moe/IR/MoeDialect.h"
#include "moe/Dialect/Plan/IR/PlanDialect.h"
#include "moe/Dialect/Plan/IR/ProgramMemory.h"
#include "moe/Report/Explanations.h"
#include "moe/Simulator/Prediction.h"

#include <gtest/gtest.h>
#include <random>
#include <set>

using namespace mlir;
using namespace mlir::moe;

namespace {

/// A layer on a cluster.
struct Case {
  Layer layer;
  std::string parallel, cluster;
  double network = 1, latency = 1, devices = 1; ///< factors of bandwidths, of latencies, and of devices' rates
  bool skewed = false;                          ///< tokens choose unevenly

  std::string describe() const {
    return llvm::formatv("{0}; {1} on {2}, network x {3}, latency x {4}, devices x {5}{6}", layer.describe(), parallel,
                         cluster, network, latency, devices, skewed ? ", uneven" : "");
  }
};

int64_t getNumber(const char *name, int64_t otherwise) {
  const char *text = std::getenv(name);
  return text ? std::atoll(text) : otherwise;
}

class AutoScheduleTest : public testing::Test {
protected:
  AutoScheduleTest() {
    DialectRegistry registry;
    registerDialects(registry);
    context.appendDialectRegistry(registry);
    context.disableMultithreading();
  }

  ClusterProfile load(const std::string &name) {
    return llvm::cantFail(ClusterProfile::load(MOE_SHARE_DIR "/clusters/" + name + ".json"));
  }
  ParallelAttr parse(StringRef parallel) { return *parseParallel(&context, parallel); }
  OwningOpRef<ModuleOp> parseGraph(const std::string &text, StringRef parallel) {
    OwningOpRef<ModuleOp> graph = parseSourceString<ModuleOp>(text, &context);
    (*graph)->setAttr(kParallelAttrName, parse(parallel));
    return graph;
  }
  PlanOptions getOptions(StringRef parallel, const ClusterProfile &cluster) {
    PlanOptions options;
    options.parallel = parse(parallel);
    options.schedule = "auto";
    options.cluster = &cluster;
    options.devicesPerNode = cluster.devicesPerNode;
    return options;
  }
  /// Last error while `run` runs, or empty.
  std::string getError(llvm::function_ref<void()> run) {
    std::string error;
    ScopedDiagnosticHandler keep(&context, [&](Diagnostic &diagnostic) {
      if (diagnostic.getSeverity() == DiagnosticSeverity::Error)
        error = diagnostic.str();
      return success();
    });
    run();
    return error;
  }

  MLIRContext context;
};

//===----------------------------------------------------------------------===//
// Random layers
//===----------------------------------------------------------------------===//

class Draw {
public:
  explicit Draw(int64_t seed) : random(seed) {}

  template <typename T> T of(std::initializer_list<T> choices) {
    return choices.begin()[std::uniform_int_distribution<size_t>(0, choices.size() - 1)(random)];
  }
  /// A random factor from 2^-most to 2^most.
  double factor(double most) { return std::exp2(std::uniform_real_distribution<double>(-most, most)(random)); }
  Case draw();

private:
  std::mt19937_64 random;
};

Case Draw::draw() {
  Case one;
  one.cluster = of<const char *>({"hgx-h100", "parm-a", "parm-b", "fastermoe-johnny", "fastermoe-trevor",
                                  "mpipemoe-a100", "ppmoe-v100-32", "localhost"});
  int64_t world = one.cluster == "parm-a" ? of({2, 4, 8}) : of({2, 4, 4, 8, 8, 16});
  int64_t mp = std::min<int64_t>(world, of({1, 1, 2, 4})), dp = world / mp;
  int64_t esp = std::min<int64_t>(mp, of({1, 1, 2, 4})), ep = world / esp;
  if (ep > 4 && of({0, 1}))
    ep /= 2;
  one.parallel = llvm::formatv("dp={0},mp={1},ep={2},esp={3}", dp, mp, ep, esp);
  one.network = factor(3), one.latency = factor(3), one.devices = factor(3);
  Layer &layer = one.layer;
  layer.tokens = world * of({32, 64, 128, 256, 512});
  layer.model = of({64, 128, 256, 512, 1024});
  layer.hidden = of({64, 256, 1024, 2048});
  layer.experts = ep * of({1, 2, 4});
  layer.topK = std::min<int64_t>(layer.experts, of({1, 2}));
  layer.capacity = of({0.0, 0.0, 1.0, 1.25, 2.0});
  one.skewed = layer.capacity == 0 && of({0, 1}) && one.cluster != "localhost";
  return one;
}

void scale(ClusterProfile &cluster, const Case &one) {
  for (LinkPattern &link : cluster.links) {
    link.bytesPerSecond *= one.network;
    link.backBytesPerSecond *= one.network;
    link.latency *= one.latency;
  }
  for (FabricLevel &level : cluster.fabric)
    level.bytesPerSecond *= one.network;
  for (CollectiveFit &fit : cluster.collectives) {
    fit.beta /= one.network;
    fit.alpha *= one.latency;
    fit.perMember *= one.latency;
  }
  cluster.memoryBytesPerSecond *= one.devices;
  for (DeviceRate &rate : cluster.rates)
    rate.flopsPerSecond *= one.devices;
  for (KernelRate &kernel : cluster.kernels) {
    kernel.latency /= one.devices;
    kernel.bytesPerSecond *= one.devices;
  }
}

/// Figures of all cases together.
struct Figures {
  int64_t cases = 0, limited = 0, candidates = 0, simulated = 0, all = 0;
  double worst = 0, sum = 0, bound = 0, classBound = 0;
  std::string worstCase, boundCase, classBoundCase;

  void addRegret(const Candidate &taken, const Candidate &fastest, const std::string &what) {
    double regret = taken.estimate.seconds / fastest.estimate.seconds - 1;
    sum += std::max(0.0, regret);
    if (regret > worst)
      worst = regret, worstCase = taken.schedule + " instead of " + fastest.schedule + "; " + what;
  }
  void addBounds(const ScheduleExplanation &everything, const std::string &what);
  void print() const {
    llvm::outs() << llvm::formatv(
        "{0} cases and {1} with a memory limit: regret {2:P2} in the mean, {3:P2} at most ({4})\n"
        "simulated {5} of {6} candidates ({7:P1}), and {8} where all that can be are\n"
        "bound / seconds at most {9:F4} ({10}), of a class's first {11:F4} ({12})\n",
        cases, limited, sum / static_cast<double>(cases + limited), worst, worstCase, simulated, candidates,
        static_cast<double>(simulated) / static_cast<double>(candidates), all, bound, boundCase, classBound,
        classBoundCase);
    llvm::outs().flush();
  }
};

/// Adds the bound of every simulated candidate, and of the first one of its class.
void Figures::addBounds(const ScheduleExplanation &everything, const std::string &what) {
  std::map<std::string, double> firsts;
  for (const Candidate &one : everything.candidates)
    firsts.try_emplace(one.scheduleClass, one.bound);
  for (const Candidate &one : everything.candidates) {
    if (one.estimate.seconds == 0)
      continue;
    if (double ratio = one.bound / one.estimate.seconds; ratio > bound)
      bound = ratio, boundCase = one.schedule + "; " + what;
    if (double ratio = firsts[one.scheduleClass] / one.estimate.seconds; ratio > classBound)
      classBound = ratio, classBoundCase = one.schedule + "; " + what;
  }
}

/// Fastest candidate that fits. If none does, one of infinitely many seconds.
Candidate getFastest(const ScheduleExplanation &result, int64_t limit = std::numeric_limits<int64_t>::max()) {
  Candidate fastest;
  fastest.estimate.seconds = std::numeric_limits<double>::infinity();
  for (const Candidate &one : result.candidates)
    if (one.estimate.seconds > 0 && one.estimate.seconds < fastest.estimate.seconds && one.estimate.bytes <= limit)
      fastest = one;
  return fastest;
}

/// Memory that half of the schedules need, or that is less than the choice's. 0 if no schedule needs less.
int64_t getLimit(const ScheduleExplanation &everything, const Candidate &chosen) {
  std::vector<int64_t> memories;
  for (const Candidate &candidate : everything.candidates)
    if (candidate.estimate.seconds > 0)
      memories.push_back(candidate.estimate.bytes);
  llvm::sort(memories);
  int64_t limit = std::min(memories[memories.size() / 2], chosen.estimate.bytes - 1);
  return limit < memories.front() ? 0 : limit;
}

/// The regrets and bounds of one case, with all of the memory and where the choice does not fit. A layer that cannot be
/// divided so counts as none.
void compare(ModuleOp graph, PlanOptions options, const std::string &what, Figures &figures) {
  ScheduleExplanation found = searchSpace(graph, options);
  options.exhaustive = true;
  ScheduleExplanation everything = searchSpace(graph, options);
  options.exhaustive = false;
  ASSERT_EQ(found.best.has_value(), everything.best.has_value());
  if (!found.best)
    return;
  ++figures.cases;
  figures.candidates += static_cast<int64_t>(found.candidates.size());
  figures.simulated += found.simulated;
  figures.all += everything.simulated;
  figures.addBounds(everything, what);
  const Candidate &chosen = found.candidates[*found.best];
  figures.addRegret(chosen, getFastest(everything), what);
  options.memoryLimit = getLimit(everything, chosen);
  if (options.memoryLimit == 0)
    return;
  ScheduleExplanation limited = searchSpace(graph, options);
  ASSERT_TRUE(limited.best.has_value());
  // With little memory, other orders are tried, too.
  options.exhaustive = true;
  everything = searchSpace(graph, options);
  const Candidate &fitting = limited.candidates[*limited.best];
  EXPECT_LE(fitting.estimate.bytes, options.memoryLimit);
  ++figures.limited;
  figures.addRegret(fitting, getFastest(everything, options.memoryLimit), what + ", limited");
}

/// The search's choice is as fast as the fastest candidate, and no bound exceeds a time.
TEST_F(AutoScheduleTest, Regret) {
  int64_t wanted = getNumber("MOE_AUTO_CASES", 1), shown = 0;
  Draw draw(getNumber("MOE_AUTO_SEED", 1));
  Figures figures;
  while (figures.cases < wanted && !HasFailure()) {
    Case one = draw.draw();
    SCOPED_TRACE(one.describe());
    ClusterProfile cluster = load(one.cluster);
    scale(cluster, one);
    OwningOpRef<ModuleOp> graph = parseGraph(one.layer.getText(), one.parallel);
    ASSERT_TRUE(graph);
    PlanOptions options = getOptions(one.parallel, cluster);
    RoutingSource skewed;
    skewed.synthetic.preset = kUnbalancedRouting;
    if (one.skewed)
      options.routing = &skewed;
    compare(*graph, options, one.describe(), figures);
    constexpr int64_t often = 10;
    if (figures.cases / often > std::exchange(shown, figures.cases / often))
      figures.print();
  }
  figures.print();
  EXPECT_LE(figures.worst, 0.02) << figures.worstCase;
  EXPECT_LE(figures.sum / static_cast<double>(figures.cases + figures.limited), 0.005);
  EXPECT_LE(figures.bound, 1 + 1e-9) << figures.boundCase;
  EXPECT_LE(figures.classBound, 1 + 1e-9) << figures.classBoundCase;
}

/// There are more processors than ranks, so a rank's streams run at once, each on its own processor.
TEST_F(AutoScheduleTest, BoundOnManyProcessors) {
  ClusterProfile cluster = load("localhost");
  cluster.processors.count = 16;
  for (std::vector<double> &speed : cluster.processors.speed)
    if (!speed.empty())
      speed.resize(16, speed.back());
  // Makes exchanges take about as long as products.
  for (CollectiveFit &fit : cluster.collectives)
    fit.beta *= 16;
  Layer layer;
  layer.hidden = 128;
  OwningOpRef<ModuleOp> graph = parseGraph(layer.getText(), "dp=2,ep=2");
  PlanOptions options = getOptions("dp=2,ep=2", cluster);
  options.exhaustive = true;
  ScheduleExplanation everything = searchSpace(*graph, options);
  ASSERT_TRUE(everything.best.has_value());
  Figures figures;
  figures.addBounds(everything, "");
  EXPECT_GT(figures.bound, 0.5);
  EXPECT_LE(figures.bound, 1 + 1e-9) << figures.boundCase;
  EXPECT_LE(figures.classBound, 1 + 1e-9) << figures.classBoundCase;
}

//===----------------------------------------------------------------------===//
// What is promised besides
//===----------------------------------------------------------------------===//

/// A plan as text, or the error.
std::string toText(FailureOr<OwningOpRef<ModuleOp>> plan) {
  std::string text;
  if (succeeded(plan))
    llvm::raw_string_ostream(text) << **plan;
  return text;
}

/// Plans and their explanations depend only on the inputs, to the last bit.
TEST_F(AutoScheduleTest, Deterministic) {
  ClusterProfile cluster = load("parm-b");
  Layer layer;
  layer.capacity = 0;
  PlanOptions options = getOptions("dp=4,mp=2,ep=4,esp=2", cluster);
  std::string texts[2];
  for (std::string &text : texts) {
    OwningOpRef<ModuleOp> graph = parseGraph(layer.getText(), "dp=4,mp=2,ep=4,esp=2");
    text = toText(mlir::moe::planAndCompile(*graph, options));
  }
  EXPECT_NE(texts[0].find("plan.explain"), std::string::npos);
  EXPECT_EQ(texts[0], texts[1]);
}

/// The search's figures of candidates are those of their plans, compiled one by one from the graph, to the last bit.
TEST_F(AutoScheduleTest, CandidatesAreTheirPlans) {
  ClusterProfile cluster = load("hgx-h100");
  OwningOpRef<ModuleOp> graph;
  auto compare = [&](PlanOptions options) {
    for (const Candidate &one : searchSpace(*graph, options).candidates) {
      if (one.verdict != Verdict::Simulated && one.verdict != Verdict::Chosen)
        continue;
      PlanOptions alone = options;
      alone.schedule = one.schedule;
      alone.order = one.order ? one.order : options.order;
      FailureOr<OwningOpRef<ModuleOp>> plan = mlir::moe::planAndCompile(*graph, alone);
      ASSERT_TRUE(succeeded(plan)) << one.schedule;
      auto model = llvm::cantFail(CostModel::create(cluster, options.parallel.getWorld(), CostForm::ClosedForm));
      RoutingTrace trace = llvm::cantFail(makeTrace(**plan, options.routing));
      Prediction prediction = llvm::cantFail(predict(**plan, "", *model, &trace));
      EXPECT_EQ(one.estimate.seconds, prediction.result.seconds) << one.schedule;
      EXPECT_EQ(one.estimate.bytes, getMemory(getLargestProgram(**plan)).getDeviceBytes()) << one.schedule;
    }
  };
  Layer layer;
  graph = parseGraph(layer.getText(), "dp=2,ep=2");
  PlanOptions options = getOptions("dp=2,ep=2", cluster);
  options.exhaustive = true;
  compare(options);
  layer.capacity = 0;
  graph = parseGraph(layer.getText(), "dp=2,ep=2");
  options.order = OrderPolicy::Program;
  compare(options);
  RoutingSource skewed;
  skewed.synthetic.preset = kUnbalancedRouting;
  options.routing = &skewed;
  options.order.reset();
  options.exhaustive = false;
  compare(options);
}

/// If no plan fits, the error names the memory of the smallest one and its parts. With that much memory there is a
/// plan.
TEST_F(AutoScheduleTest, NothingFits) {
  ClusterProfile cluster = load("hgx-h100");
  OwningOpRef<ModuleOp> graph = parseGraph(Layer().getText(), "dp=4,ep=4");
  PlanOptions options = getOptions("dp=4,ep=4", cluster);
  options.memoryLimit = 1000;
  options.order = OrderPolicy::Program;
  std::string error = getError([&] { EXPECT_TRUE(failed(mlir::moe::planAndCompile(*graph, options))); });
  EXPECT_NE(error.find("no schedule with a plan of at most 1000 bytes per rank: the smallest of"), std::string::npos)
      << error;
  EXPECT_NE(error.find("alive at"), std::string::npos) << error;
  size_t needs = error.find(" needs ");
  ASSERT_NE(needs, std::string::npos);
  options.memoryLimit = std::atoll(error.c_str() + needs + 7);
  EXPECT_GT(options.memoryLimit, 1000);
  EXPECT_EQ(getError([&] { EXPECT_TRUE(succeeded(mlir::moe::planAndCompile(*graph, options))); }), "");
}

/// A search that is stopped returns the best plan so far.
TEST_F(AutoScheduleTest, Interrupted) {
  ClusterProfile cluster = load("parm-a");
  OwningOpRef<ModuleOp> graph = parseGraph(Layer().getText(), "dp=2,mp=2,ep=2,esp=2");
  PlanOptions options = getOptions("dp=2,mp=2,ep=2,esp=2", cluster);
  int64_t calls = 0;
  options.isStopped = [&] { return ++calls >= 2; };
  ScheduleExplanation result = searchSpace(*graph, options);
  EXPECT_EQ(calls, 2);
  EXPECT_FALSE(result.isComplete);
  ASSERT_TRUE(result.best.has_value());
  const Candidate &best = result.candidates[*result.best];
  EXPECT_EQ(best.verdict, Verdict::Chosen);
  EXPECT_EQ(best.estimate.seconds, getFastest(result).estimate.seconds);
  calls = 0;
  FailureOr<OwningOpRef<ModuleOp>> plan = mlir::moe::planAndCompile(*graph, options);
  ASSERT_TRUE(succeeded(plan));
  std::string text;
  llvm::raw_string_ostream os(text);
  printExplanation(getExplanation(**plan), os);
  EXPECT_NE(text.find("the search was interrupted"), std::string::npos) << text;
}

/// Before a simulation there is no plan. This does not mean that none is possible.
TEST_F(AutoScheduleTest, InterruptedAtOnce) {
  ClusterProfile cluster = load("parm-a");
  OwningOpRef<ModuleOp> graph = parseGraph(Layer().getText(), "dp=2,mp=2,ep=2,esp=2");
  PlanOptions options = getOptions("dp=2,mp=2,ep=2,esp=2", cluster);
  options.isStopped = [] { return true; };
  options.memoryLimit = 1000;
  auto compile = [&] { EXPECT_TRUE(failed(mlir::moe::planAndCompile(*graph, options))); };
  EXPECT_EQ(getError(compile), "no schedule: the search was interrupted before it compared any that fits");
  // The first of the space is what no pass accepts.
  graph = parseGraph(Layer().getText(), "dp=8,ep=8");
  options = getOptions("dp=8,ep=8", cluster);
  options.isStopped = [] { return true; };
  EXPECT_EQ(getError(compile), "no schedule: the search was interrupted before it compared any");
}

/// GPT3-XL as MPipeMoE describes it, one expert on each rank, on its cluster with eight times the FLOP/s. Exchanges
/// take about as long as products.
struct Xl {
  explicit Xl(ClusterProfile profile, int64_t tokens) : cluster(std::move(profile)) {
    for (DeviceRate &rate : cluster.rates)
      rate.flopsPerSecond *= 8;
    layer.tokens = 64 * tokens, layer.model = 2048, layer.hidden = 8192, layer.experts = 64, layer.capacity = 1;
  }
  ClusterProfile cluster;
  Layer layer;
};

double getSeconds(FailureOr<OwningOpRef<ModuleOp>> plan, const ClusterProfile &cluster) {
  return llvm::cantFail(predict(**plan, "", cluster)).result.seconds;
}

/// Layers in one piece have an order, too: their exchanges can overlap with the computation of weight gradients.
TEST_F(AutoScheduleTest, OrderOfOnePiece) {
  Xl xl(load("mpipemoe-a100"), 1024);
  OwningOpRef<ModuleOp> graph = parseGraph(xl.layer.getText(), "dp=64,ep=64");
  PlanOptions options = getOptions("dp=64,ep=64", xl.cluster);
  // As if all devices were in one node, where there is nothing to exchange by node.
  options.devicesPerNode = 64;
  ScheduleExplanation result = searchSpace(*graph, options);
  ASSERT_TRUE(result.best.has_value());
  const Candidate &best = result.candidates[*result.best];
  EXPECT_EQ(best.schedule, "baseline");
  EXPECT_EQ(best.order, OrderPolicy::Search);
  // So it is compiled.
  EXPECT_EQ(getSeconds(mlir::moe::planAndCompile(*graph, options), xl.cluster), best.estimate.seconds);
  options.schedule = "baseline";
  EXPECT_LT(best.estimate.seconds, 0.95 * getSeconds(mlir::moe::planAndCompile(*graph, options), xl.cluster));
}

/// On several nodes, layers with a capacity may exchange by node, and dropless layers may send tokens once.
TEST_F(AutoScheduleTest, ExchangesByNode) {
  auto getClasses = [&](StringRef parallel, int64_t capacity) {
    Xl xl(load("mpipemoe-a100"), 16);
    xl.layer.capacity = capacity;
    OwningOpRef<ModuleOp> graph = parseGraph(xl.layer.getText(), parallel);
    std::set<std::string> classes;
    for (const Candidate &one : searchSpace(*graph, getOptions(parallel, xl.cluster)).candidates)
      if (one.byNode)
        classes.insert(one.scheduleClass);
    return classes;
  };
  using Classes = std::set<std::string>;
  EXPECT_EQ(getClasses("dp=16,ep=16", 1), (Classes{"hier", "s1+hier", "s2+hier"}));
  EXPECT_EQ(getClasses("dp=16,ep=16", 0),
            (Classes{"once:node", "once:rank", "s1+once:node", "s1+once:rank", "s2+once:node", "s2+once:rank"}));
  EXPECT_EQ(getClasses("dp=8,ep=8", 1), Classes());
  EXPECT_EQ(getClasses("dp=8,ep=8", 0), (Classes{"once:rank", "s1+once:rank", "s2+once:rank"}));
}

/// --schedule accepts all combinations that the search tries.
TEST_F(AutoScheduleTest, CombinationsAreSchedules) {
  for (const ParsedSchedule &one : getCombinations()) {
    EXPECT_TRUE(isPossible(one)) << one.getName();
    EXPECT_TRUE(succeeded(parseSchedule(&context, one.getName()))) << one.getName();
  }
  for (StringRef name : {"once:rank+chunks:4,2", "once:node+mpipe-s4", "hier+smart", "s2+saa+hier", "ppmoe+shadow"}) {
    std::string error = getError([&] { EXPECT_TRUE(failed(parseSchedule(&context, name))) << name.str(); });
    EXPECT_NE(error, "") << name.str();
  }
  ParsedSchedule once = *parseSchedule(&context, "once:node+chunks:4");
  EXPECT_TRUE(isPossible(once));
  once.ring = 2;
  EXPECT_FALSE(isPossible(once));
}

/// With little memory, a paper's order may fit if the fastest one does not.
TEST_F(AutoScheduleTest, OrderThatFits) {
  Xl xl(load("mpipemoe-a100"), 4096);
  OwningOpRef<ModuleOp> graph = parseGraph(xl.layer.getText(), "dp=64,ep=64");
  PlanOptions options = getOptions("dp=64,ep=64", xl.cluster), paper = options;
  paper.schedule = "chunks:2+mpipe-s4";
  paper.order = OrderPolicy::MPipeMoe;
  FailureOr<OwningOpRef<ModuleOp>> own = mlir::moe::planAndCompile(*graph, paper);
  ASSERT_TRUE(succeeded(own));
  options.memoryLimit = getMemory(getLargestProgram(**own)).getDeviceBytes();
  FailureOr<OwningOpRef<ModuleOp>> chosen = mlir::moe::planAndCompile(*graph, options);
  ASSERT_TRUE(succeeded(chosen));
  EXPECT_LE(getMemory(getLargestProgram(**chosen)).getDeviceBytes(), options.memoryLimit);
  EXPECT_LE(getSeconds(std::move(chosen), xl.cluster), getSeconds(std::move(own), xl.cluster));
}

/// Equal layers of a model share one choice, and the whole model decides in the end.
TEST_F(AutoScheduleTest, WholeModel) {
  ClusterProfile cluster = load("parm-b");
  Layer layer;
  layer.count = 3;
  OwningOpRef<ModuleOp> graph = parseGraph(layer.getText(), "dp=4,mp=2,ep=4,esp=2");
  ASSERT_TRUE(graph);
  FailureOr<OwningOpRef<ModuleOp>> plan =
      mlir::moe::planAndCompile(*graph, getOptions("dp=4,mp=2,ep=4,esp=2", cluster));
  ASSERT_TRUE(succeeded(plan));
  std::optional<ScheduleExplanation> explanation = getScheduleExplanation(**plan);
  ASSERT_TRUE(explanation && explanation->best);
  double chosen = explanation->candidates[*explanation->best].whole.seconds;
  std::vector<double> others;
  for (const Candidate &one : explanation->candidates)
    if (one.verdict != Verdict::Chosen && one.whole.seconds > 0)
      others.push_back(one.whole.seconds);
  EXPECT_GT(chosen, 0);
  EXPECT_EQ(others.size(), 2u);
  for (double other : others)
    EXPECT_LE(chosen, other);
}

/// The errors of the profile's fits and of measured pairs decide whether the choice is clear. A sentence and the JSON
/// say so. Without measured pairs, nothing is clear.
TEST_F(AutoScheduleTest, Uncertainty) {
  ClusterProfile cluster = load("localhost");
  Layer layer;
  layer.experts = 8;
  OwningOpRef<ModuleOp> graph = parseGraph(layer.getText(), "dp=4,mp=2,ep=8");
  PlanOptions options = getOptions("dp=4,mp=2,ep=8", cluster);
  auto explain = [&](double error, bool asJson) {
    for (CollectiveFit &fit : cluster.collectives)
      fit.relativeError = error;
    for (KernelRate &kernel : cluster.kernels)
      kernel.relativeError = error;
    for (DeviceRate &rate : cluster.rates) {
      rate.efficiency.relativeError = error;
      for (SpecialCurve &special : rate.special)
        special.efficiency.relativeError = error;
    }
    FailureOr<OwningOpRef<ModuleOp>> plan = mlir::moe::planAndCompile(*graph, options);
    std::string text;
    llvm::raw_string_ostream os(text);
    asJson ? writeExplanation(getExplanation(**plan), &context, os) : printExplanation(getExplanation(**plan), os);
    return text;
  };
  auto expect = [](const std::string &text, const char *part) {
    EXPECT_NE(text.find(part), std::string::npos) << text;
  };
  expect(explain(0, false), "the profile does not say how far its times may be off");
  expect(explain(1e-6, false), "%); no measured pairs of steps say how sure this is\n");
  cluster.measured.pairError = 1e-6;
  expect(explain(1e-6, false), "%): the choice is clear\n");
  expect(explain(1e-6, true), "\"close\": [],");
  std::string close = explain(10, false);
  expect(close, "the choice is within the figures' uncertainty (");
  expect(close, " more: measure them\n");
  expect(close, "   ~ ");
  EXPECT_EQ(explain(10, true).find("\"close\": [],"), std::string::npos);
  cluster.measured.pairError = 10;
  expect(explain(1e-6, false), "the choice is within the figures' uncertainty (1000.0%) of ");
}

/// Alternatives in the explanation must also fit.
TEST_F(AutoScheduleTest, ChangesThatFit) {
  ClusterProfile cluster = load("fastermoe-johnny");
  Layer layer;
  layer.tokens = 4096, layer.model = 256, layer.hidden = 512, layer.experts = 8, layer.capacity = 1;
  OwningOpRef<ModuleOp> graph = parseGraph(layer.getText(), "dp=4,mp=2,ep=8");
  PlanOptions options = getOptions("dp=4,mp=2,ep=8", cluster);
  ScheduleExplanation found = searchSpace(*graph, options);
  ASSERT_TRUE(found.best.has_value());
  options.memoryLimit = found.candidates[*found.best].estimate.bytes - 1;
  ScheduleExplanation limited = searchSpace(*graph, options);
  addChanges(*graph, options, limited);
  ASSERT_TRUE(limited.changes && !limited.changes->empty());
  for (const Change &change : *limited.changes)
    for (const Candidate &one : limited.candidates)
      if (one.schedule == change.schedule) {
        EXPECT_EQ(one.verdict, Verdict::Simulated) << change.change << ": " << change.schedule;
      }
}

/// A step sums its gradients once for any number of micro-batches.
TEST_F(AutoScheduleTest, SumsOfGradients) {
  ClusterProfile cluster = load("hgx-h100");
  Layer layer;
  layer.count = 2;
  OwningOpRef<ModuleOp> graph = parseGraph(layer.getText(), "dp=2,ep=1");
  PlanOptions options = getOptions("dp=2,ep=1", cluster);
  auto getBytesSent = [&](int64_t microBatches) {
    options.microBatches = microBatches;
    ScheduleExplanation result = searchSpace(*graph, options);
    return result.best ? result.candidates[*result.best].estimate.bytesSent : 0;
  };
  double all = getBytesSent(1);
  EXPECT_GT(all, 0);
  // The sum of the auxiliary loss has a few bytes in each micro-batch.
  EXPECT_NEAR(getBytesSent(4), all / 4, all / 1000);
}

/// With little memory, a model has a slower schedule than all that need more.
TEST_F(AutoScheduleTest, WholeModelThatFits) {
  ClusterProfile cluster = load("mpipemoe-a100");
  Layer layer;
  layer.tokens = 2048, layer.experts = 8, layer.count = 2;
  OwningOpRef<ModuleOp> graph = parseGraph(layer.getText(), "dp=8,ep=8");
  PlanOptions options = getOptions("dp=8,ep=8", cluster), small = options;
  auto getBytes = [&](const PlanOptions &options) {
    FailureOr<OwningOpRef<ModuleOp>> plan = mlir::moe::planAndCompile(*graph, options);
    return succeeded(plan) ? getMemory(getLargestProgram(**plan)).getDeviceBytes() : int64_t(0);
  };
  small.schedule = "chunks:16+mpipe-s3";
  options.memoryLimit = getBytes(small);
  int64_t bytes = getBytes(options);
  EXPECT_GT(bytes, 0);
  EXPECT_LE(bytes, options.memoryLimit);
}

/// Without MoE layers there is no choice, but a plan.
TEST_F(AutoScheduleTest, NoLayers) {
  ClusterProfile cluster = load("hgx-h100");
  OwningOpRef<ModuleOp> graph = parseGraph(R"mlir(
    func.func @model(%x: tensor<64x8xf32> {moe.name = "x", moe.role = "input"})
        -> (tensor<64x8xf32> {moe.name = "y", moe.role = "output"}) {
      %y = moe.add %x, %x : tensor<64x8xf32>
      return %y : tensor<64x8xf32>
    })mlir",
                                           "dp=2");
  FailureOr<OwningOpRef<ModuleOp>> plan = mlir::moe::planAndCompile(*graph, getOptions("dp=2", cluster));
  ASSERT_TRUE(succeeded(plan));
  EXPECT_FALSE((**plan)->hasAttr(plan::kExplainAttrName));
}

/// The module keeps every field of the explanation.
TEST_F(AutoScheduleTest, Explanation) {
  OwningOpRef<ModuleOp> plan = ModuleOp::create(UnknownLoc::get(&context));
  EXPECT_FALSE(getScheduleExplanation(*plan));
  ScheduleExplanation written;
  Candidate &one = written.candidates.emplace_back();
  one.schedule = "s1";
  one.order = OrderPolicy::MPipeMoe;
  one.overlaps = true;
  one.estimate.seconds = 0.5;
  one.estimate.bytes = 7;
  one.whole.seconds = 2;
  one.verdict = Verdict::TooLarge;
  written.candidates.emplace_back().verdict = Verdict::Chosen;
  written.changes.emplace().push_back({"tokens x 2", "s2"});
  written.applied = 2;
  written.isComplete = false;
  written.margin = {"s2", 0.25, 0.125, true, {"s1", "s2"}};
  setExplanation(*plan, written);
  std::optional<ScheduleExplanation> read = getScheduleExplanation(*plan);
  ASSERT_TRUE(read);
  ASSERT_EQ(read->candidates.size(), 2u);
  const Candidate &same = read->candidates.front();
  EXPECT_EQ(same.schedule, "s1");
  EXPECT_EQ(same.order, OrderPolicy::MPipeMoe);
  EXPECT_TRUE(same.overlaps);
  EXPECT_EQ(same.estimate.seconds, 0.5);
  EXPECT_EQ(same.estimate.bytes, 7);
  EXPECT_EQ(same.whole.seconds, 2);
  EXPECT_EQ(same.verdict, Verdict::TooLarge);
  EXPECT_FALSE(read->candidates.back().order);
  EXPECT_EQ(read->best, 1u);
  ASSERT_TRUE(read->changes);
  EXPECT_EQ(read->changes->front().schedule, "s2");
  EXPECT_EQ(read->applied, 2);
  EXPECT_FALSE(read->isComplete);
  ASSERT_TRUE(read->margin);
  EXPECT_EQ(read->margin->margin, 0.25);
  EXPECT_EQ(read->margin->close.size(), 2u);
  EXPECT_FALSE(read->isOpen);
}

} // namespace
