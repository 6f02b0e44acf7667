//===- PlanOrderTest.cpp - orders of plans against the best order ---------===//
//
// Compares plan-order's searched order with the papers' orders and with the best of all orders, for layers of a few
// chunks on a cluster without interference. An oracle finds the best order by its own search. It covers every order of
// the launches on both streams that the dependences allow, with chunks in any order unless a ring or a sum fixes it. It
// extends sets of launches by one launch at a time. It drops a path to a set if another path to the set has both
// streams free no later and every end that still matters no later. It also drops a path that cannot end before the
// fastest of the papers' and the program's orders, or with four chunks and a backward, before the searched one.
//
//===----------------------------------------------------------------------===//
#include "moe/LaunchOrder/Order.h"

#include "../../lib/LaunchOrder/PaperOrders.h"
#include "../../lib/LaunchOrder/Price.h"
#include "../../lib/LaunchOrder/Timeline.h"

#include "mlir/IR/BuiltinOps.h"
#include "mlir/Parser/Parser.h"
#include "mlir/Pass/PassManager.h"

#include "moe/Cost/CostModel.h"
#include "moe/Dialect/Moe/IR/MoeDialect.h"
#include "moe/Dialect/Plan/IR/PlanDialect.h"
#include "moe/Dialect/Plan/Transforms/AssignStreams.h"
#include "moe/Dialect/Plan/Transforms/Passes.h"
#include "moe/LaunchOrder/Order.h"
#include "moe/Simulator/Simulator.h"

#include <gtest/gtest.h>

#include <map>

using namespace mlir;
using namespace mlir::moe;

namespace {

//===----------------------------------------------------------------------===//
// Layers
//===----------------------------------------------------------------------===//

/// A launch as the oracle sees it. An exchange is on stream 1, all other launches on stream 0.
struct Step {
  int stream;
  int64_t seconds;
  std::vector<unsigned> before;
};

struct Shape {
  int chunks = 4;
  int64_t exchange = 16; ///< seconds of an exchange
  int64_t product = 8;   ///< seconds of a product, an even number. A chunk has two, and four in the backward
  /// Sizes of the rings of the products' operands and results, and of the values between them, or 0 for none.
  int outer = 0, inner = 0;
  bool backward = false;
  /// Whether launches of a kind are side by side in the program, not chunk by chunk. Rings may not allow that order.
  bool byKind = false;
  /// Number of layers, which are independent of each other.
  int layers = 1;
};

/// A program as text and as the oracle's steps.
class Layers {
public:
  explicit Layers(const Shape &shape) : shape(shape) {
    for (int layer = 0; layer < shape.layers; ++layer)
      addLayer("layer" + std::to_string(layer));
    text = "module attributes {moe.parallel = #moe.parallel<world = 2, pp = 1, dp = 2, mp = 1, ep = 2, esp = 1>, "
           "moe.cluster = #moe.cluster<node_ranks = 2>} {\n"
           "func.func @rank(" +
           arguments + results + ") attributes {plan.inputs = " + std::to_string(numInputs) + " : i64} {\n" + buffers +
           body + "return\n}\n}\n";
  }

  std::string text;
  std::vector<Step> steps; ///< in chunk order, whatever the program's

private:
  using Names = std::vector<std::string>;
  struct Launch {
    int kind, chunk;
    std::string text;
  };

  static std::string getType(const std::string &name) {
    return name[1] == 'b' ? "memref<4xf32, #plan<space device>>" : "memref<4xf32>";
  }
  static std::string join(const Names &names, bool types) {
    std::string all;
    for (const std::string &name : names)
      all += (all.empty() ? "" : ", ") + (types ? getType(name) : name);
    return all;
  }

  std::string addInput() {
    std::string name = "%a" + std::to_string(numInputs++);
    arguments += (arguments.empty() ? "" : ", ") + name + ": memref<4xf32>";
    return name;
  }
  std::string addResult() {
    std::string name = "%r" + std::to_string(numResults++);
    results += ", " + name + ": memref<4xf32>";
    return name;
  }
  std::string addBuffer(const std::string &ring, int depth) {
    std::string name = "%b" + std::to_string(numBuffers++);
    std::string attribute =
        depth > 0 ? " {ring = #moe.ring<\"" + ring + "\", " + std::to_string(depth) + ">}" : std::string();
    buffers += name + " = plan.buffer" + attribute + " : " + getType(name) + "\n";
    return name;
  }

  /// Adds a step and returns its number. It comes after the last writers of `from` and of `to`, and `also`.
  unsigned add(int kind, int chunk, const std::string &kernel, const std::string &label, const Names &from,
               const std::string &to, int64_t seconds, std::vector<unsigned> also = {}) {
    bool exchange = kernel == "all_to_all";
    std::string cost = exchange ? "network, collective = all_to_all, payload = " + std::to_string(seconds)
                                : "matrix, flops = " + std::to_string(seconds) + ".0, gemm = [1, " +
                                      std::to_string(seconds / 2) + ", 1, 1]";
    std::string chunkText =
        chunk < 0 ? "" : ", chunk = #moe.chunk<" + std::to_string(chunk) + " of " + std::to_string(shape.chunks) + ">";
    launches.push_back({kind, chunk,
                        "plan.launch \"" + kernel + "\"(" + join(from, false) + ") -> (" + to + ")" +
                            (exchange ? " collective over <\"ep\", 2, 1>" : "") + " {label = \"" + label +
                            "\", cost = #plan.cost<" + cost + ">" + chunkText + "} : (" + join(from, true) + ") -> " +
                            getType(to) + "\n"});
    unsigned number = steps.size();
    for (const std::string &name : from) {
      if (writer.count(name))
        also.push_back(writer[name]);
      users[name].push_back(number);
    }
    if (writer.count(to))
      also.push_back(writer[to]);
    writer[to] = number;
    users[to].push_back(number);
    steps.push_back({exchange ? 1 : 0, seconds, also});
    return number;
  }

  /// Users of the buffer whose place the ring's next buffer takes.
  std::vector<unsigned> getTurn(const Names &ring, int depth) {
    if (depth == 0 || ring.size() <= static_cast<size_t>(depth))
      return {};
    return users[ring[ring.size() - 1 - depth]];
  }
  std::vector<unsigned> getWriter(const Names &ring, int depth) {
    // A ring's buffers are written in its order.
    return depth > 0 && ring.size() > 1 ? std::vector<unsigned>{writer[ring[ring.size() - 2]]}
                                        : std::vector<unsigned>{};
  }
  std::vector<unsigned> getRingSteps(const Names &ring, int depth) {
    std::vector<unsigned> all = getTurn(ring, depth);
    for (unsigned step : getWriter(ring, depth))
      all.push_back(step);
    return all;
  }

  void flush() {
    if (shape.byKind)
      std::stable_sort(launches.begin(), launches.end(),
                       [](const Launch &a, const Launch &b) { return a.kind < b.kind; });
    for (const Launch &launch : launches)
      body += launch.text;
    launches.clear();
  }

  void addLayer(const std::string &label) {
    Names in, mid, out, results;
    for (int chunk = 0; chunk < shape.chunks; ++chunk) {
      in.push_back(addBuffer(label + ".in", shape.outer));
      add(0, chunk, "all_to_all", label, {addInput()}, in.back(), shape.exchange, getRingSteps(in, shape.outer));
      mid.push_back(addBuffer(label + ".mid", shape.inner));
      add(1, chunk, "product", label, {in.back()}, mid.back(), shape.product, getRingSteps(mid, shape.inner));
      out.push_back(addBuffer(label + ".out", shape.outer));
      add(2, chunk, "product", label, {mid.back()}, out.back(), shape.product, getRingSteps(out, shape.outer));
      results.push_back(addResult());
      add(3, chunk, "all_to_all", label, {out.back()}, results.back(), shape.exchange);
    }
    flush();
    if (shape.backward)
      addBackward(label + ".grad", results);
  }

  void addBackward(const std::string &label, const Names &results) {
    std::string grad = addBuffer("", 0), w1 = addBuffer("", 0), w2 = addBuffer("", 0);
    add(0, -1, "loss", label, results, grad, 2);
    flush();
    Names in, mid, out;
    for (int chunk = 0; chunk < shape.chunks; ++chunk) {
      auto from = [&](const std::string &value, const std::string &sum) {
        return chunk > 0 ? Names{value, sum} : Names{value};
      };
      in.push_back(addBuffer(label + ".in", shape.outer));
      add(0, chunk, "all_to_all", label, {grad}, in.back(), shape.exchange, getRingSteps(in, shape.outer));
      mid.push_back(addBuffer(label + ".mid", shape.inner));
      add(1, chunk, "product", label, {in.back()}, mid.back(), shape.product, getRingSteps(mid, shape.inner));
      add(2, chunk, "weights", label, from(in.back(), w2), w2, shape.product);
      out.push_back(addBuffer(label + ".out", shape.outer));
      add(3, chunk, "product", label, {mid.back()}, out.back(), shape.product, getRingSteps(out, shape.outer));
      add(4, chunk, "weights", label, from(mid.back(), w1), w1, shape.product);
      add(5, chunk, "all_to_all", label, {out.back()}, addResult(), shape.exchange);
    }
    flush();
  }

  Shape shape;
  std::string arguments, results, buffers, body;
  int numInputs = 0, numResults = 0, numBuffers = 0;
  std::vector<Launch> launches;
  std::map<std::string, unsigned> writer;
  std::map<std::string, std::vector<unsigned>> users;
};

//===----------------------------------------------------------------------===//
// The best of all orders
//===----------------------------------------------------------------------===//

/// Least seconds of all orders of the steps on their two streams. A step comes after steps of smaller numbers.
class Oracle {
public:
  explicit Oracle(const std::vector<Step> &steps) : steps(steps), after(steps.size()), tails(steps.size(), 0) {
    for (unsigned step = steps.size(); step-- > 0;)
      for (unsigned other : steps[step].before)
        tails[other] = std::max(tails[other], tails[step] + steps[step].seconds);
    for (unsigned step = 0; step < steps.size(); ++step) {
      uint64_t mask = 0;
      for (unsigned other : steps[step].before) {
        mask |= uint64_t(1) << other;
        after[other] |= uint64_t(1) << step;
      }
      before.push_back(mask);
    }
  }

  /// Finds orders that are faster than `known`, the seconds of some order.
  int64_t run(int64_t known) {
    bound = known;
    std::map<uint64_t, std::vector<Path>> paths = {{0, {Path{{0, 0}, std::vector<int64_t>(steps.size(), 0)}}}};
    for (unsigned count = 0; count < steps.size(); ++count) {
      std::map<uint64_t, std::vector<Path>> next;
      for (const auto &[set, front] : paths)
        for (unsigned step = 0; step < steps.size(); ++step)
          if (!(set >> step & 1) && (before[step] & ~set) == 0)
            for (const Path &path : front)
              extend(next[set | uint64_t(1) << step], path, set, step);
      paths = std::move(next);
    }
    int64_t best = known;
    for (const auto &[set, front] : paths)
      for (const Path &path : front)
        best = std::min(best, std::max(path.free[0], path.free[1]));
    return best;
  }

private:
  struct Path {
    std::array<int64_t, 2> free;
    std::vector<int64_t> ends; ///< 0 if the end does not matter any more

    bool isNoLater(const Path &other) const {
      for (size_t i = 0; i < ends.size(); ++i)
        if (ends[i] > other.ends[i])
          return false;
      return free[0] <= other.free[0] && free[1] <= other.free[1];
    }
  };

  /// Lower bound of a path: the longest chain of the remaining steps, and each stream's sum plus what follows its last
  /// step.
  int64_t getLeast(const Path &path, uint64_t set) const {
    int64_t least = 0;
    std::array<int64_t, 2> sum = {0, 0}, tail = {bound, bound}, earliest = {bound, bound};
    std::vector<int64_t> begins(steps.size(), 0);
    for (unsigned step = 0; step < steps.size(); ++step) {
      const Step &it = steps[step];
      if (set >> step & 1)
        continue;
      int64_t &begin = begins[step] = path.free[it.stream];
      for (unsigned other : it.before)
        begin = std::max(begin, set >> other & 1 ? path.ends[other] : begins[other] + steps[other].seconds);
      least = std::max(least, begin + it.seconds + tails[step]);
      sum[it.stream] += it.seconds;
      tail[it.stream] = std::min(tail[it.stream], tails[step]);
      earliest[it.stream] = std::min(earliest[it.stream], begin);
    }
    for (int stream : {0, 1})
      if (sum[stream] > 0)
        least = std::max(least, earliest[stream] + sum[stream] + tail[stream]);
    return std::max({least, path.free[0], path.free[1]});
  }

  void extend(std::vector<Path> &front, Path path, uint64_t set, unsigned step) const {
    int64_t &free = path.free[steps[step].stream];
    for (unsigned other : steps[step].before)
      free = std::max(free, path.ends[other]);
    free += steps[step].seconds;
    path.ends[step] = free;
    set |= uint64_t(1) << step;
    // No step begins before the first stream is free.
    int64_t earliest = std::min(path.free[0], path.free[1]);
    for (unsigned it = 0; it < steps.size(); ++it)
      if (path.ends[it] <= earliest || (after[it] & ~set) == 0)
        path.ends[it] = 0;
    if (getLeast(path, set) >= bound)
      return;
    for (const Path &other : front)
      if (other.isNoLater(path))
        return;
    front.erase(std::remove_if(front.begin(), front.end(), [&](const Path &other) { return path.isNoLater(other); }),
                front.end());
    front.push_back(std::move(path));
  }

  const std::vector<Step> &steps;
  std::vector<uint64_t> before, after;
  std::vector<int64_t> tails; ///< seconds of the longest chain behind a step
  int64_t bound = 0;
};

//===----------------------------------------------------------------------===//
// Plans
//===----------------------------------------------------------------------===//

/// An exchanged byte takes one second, and so does a FLOP. Two simultaneous kinds of work run at these speeds.
ClusterProfile makeProfile(double computeSpeed = 1, double communicationSpeed = 1) {
  ClusterProfile profile;
  profile.name = "toy";
  profile.devicesPerNode = 2;
  profile.memoryBytesPerSecond = 1e9;
  profile.rates = {{"f32", 1, {{1}, {1}, {1}, {1}}, {}}};
  profile.algorithms.fill(Algorithm::Pairwise);
  CollectiveFit fit;
  fit.collective = Collective::AllToAll;
  fit.minMembers = fit.minPerNode = 1;
  fit.maxMembers = fit.maxPerNode = 2;
  fit.beta = 1;
  profile.collectives.push_back(fit);
  Interference set;
  set.compute = set.communication = true;
  set.computeSpeed = computeSpeed;
  set.communicationSpeed = communicationSpeed;
  profile.interference.push_back(set);
  return profile;
}

class PlanOrder : public ::testing::Test {
protected:
  PlanOrder() { context.loadDialect<MoeDialect, plan::PlanDialect, func::FuncDialect>(); }

  OwningOpRef<ModuleOp> parse(const std::string &text) {
    OwningOpRef<ModuleOp> module = parseSourceString<ModuleOp>(text, &context);
    EXPECT_TRUE(module) << text;
    return module;
  }

  /// Orders the program and prices it with the real waits. Fails with NaN on an error.
  double getSeconds(const std::string &text, OrderPolicy policy, const CostModel &model, bool verify = false) {
    OwningOpRef<ModuleOp> module = parse(text);
    func::FuncOp program = *module->getOps<func::FuncOp>().begin();
    EXPECT_TRUE(succeeded(orderPlan(program, policy, &model)));
    PassManager passes(&context);
    passes.addNestedPass<func::FuncOp>(plan::createPlanAssignStreams());
    if (verify) {
      passes.addNestedPass<func::FuncOp>(plan::createPlanAssignMemory());
      passes.addPass(plan::createPlanVerify());
    }
    EXPECT_TRUE(succeeded(passes.run(*module)));
    llvm::Expected<std::vector<SimProgram>> programs = makeSimPrograms(*module);
    if (!programs) {
      ADD_FAILURE() << llvm::toString(programs.takeError());
      return std::nan("");
    }
    llvm::Expected<SimResult> result = simulate(std::move(*programs), model, {});
    if (result)
      return result->seconds;
    ADD_FAILURE() << llvm::toString(result.takeError());
    return std::nan("");
  }

  MLIRContext context;
};

std::string describe(const Shape &shape) {
  return std::to_string(shape.chunks) + " chunks, exchange " + std::to_string(shape.exchange) + " s, product " +
         std::to_string(shape.product) + " s, rings " + std::to_string(shape.outer) + " and " +
         std::to_string(shape.inner) + (shape.backward ? ", backward" : ", forward");
}

/// All shapes of the grid: ratios of a chunk's computation to one exchange, forward.
std::vector<Shape> makeGrid(bool backward) {
  std::vector<Shape> shapes;
  for (int chunks : {2, 3, 4})
    for (int64_t product : {2, 4, 8, 16, 32})
      for (auto [outer, inner] : {std::pair(0, 0), {2, 1}, {1, 1}, {2, 2}}) {
        Shape shape;
        shape.chunks = chunks;
        shape.product = product;
        shape.outer = outer;
        shape.inner = inner;
        shape.backward = backward;
        shapes.push_back(shape);
      }
  return shapes;
}

//===----------------------------------------------------------------------===//
// Tests
//===----------------------------------------------------------------------===//

/// Worst and mean ratios over a grid.
struct Ratios {
  double worst = 0, sum = 0;
  int count = 0;

  void add(double ratio) {
    worst = std::max(worst, ratio);
    sum += ratio;
    ++count;
  }
};

std::ostream &operator<<(std::ostream &os, const Ratios &ratios) {
  return os << "mean " << ratios.sum / ratios.count << ", most " << ratios.worst;
}

class PlanOrderGrid : public PlanOrder, public ::testing::WithParamInterface<bool> {};

TEST_P(PlanOrderGrid, NearTheBestOfAllOrders) {
  ClusterProfile profile = makeProfile();
  auto model = llvm::cantFail(CostModel::create(profile, 2, CostForm::ClosedForm));
  Ratios best, mpipemoe, fastermoe, program;
  for (const Shape &shape : makeGrid(GetParam())) {
    SCOPED_TRACE(describe(shape));
    Layers layers(shape);
    double searched = getSeconds(layers.text, OrderPolicy::Search, *model, /*verify=*/true);
    double known = std::numeric_limits<double>::infinity();
    auto expectNotFaster = [&](OrderPolicy policy, Ratios &ratios) {
      double seconds = getSeconds(layers.text, policy, *model);
      EXPECT_LE(searched, seconds * (1 + 1e-12));
      known = std::min(known, seconds);
      ratios.add(seconds / searched);
    };
    expectNotFaster(OrderPolicy::MPipeMoe, mpipemoe);
    expectNotFaster(OrderPolicy::FasterMoe, fastermoe);
    expectNotFaster(OrderPolicy::Program, program);
    // The bound is one more than the known seconds, so that the oracle has to find an order itself. If that takes too
    // long, the oracle only looks for faster orders than the searched one.
    bool findsAll = !shape.backward || shape.chunks < 4;
    auto oracle = static_cast<double>(Oracle(layers.steps).run(std::llround(findsAll ? known + 1 : searched)));
    EXPECT_GE(searched, oracle * (1 - 1e-9));
    EXPECT_LE(searched, oracle * 1.02);
    best.add(searched / oracle);
  }
  std::cout << "searched / best: " << best << "\nmpipemoe / searched: " << mpipemoe
            << "\nfastermoe / searched: " << fastermoe << "\nprogram / searched: " << program << "\n";
}

INSTANTIATE_TEST_SUITE_P(Forward, PlanOrderGrid, ::testing::Values(false));
INSTANTIATE_TEST_SUITE_P(Backward, PlanOrderGrid, ::testing::Values(true));

/// If kinds of work slow each other and launches take time to issue, there is no oracle, but both bars hold.
TEST_F(PlanOrder, NeverSlowerThanThePapers) {
  for (double launchSeconds : {0.0, 1.5}) {
    ClusterProfile profile = makeProfile(0.8, 0.6);
    profile.host.launchSeconds.fill(launchSeconds);
    auto model = llvm::cantFail(CostModel::create(profile, 2, CostForm::ClosedForm));
    for (const Shape &shape : makeGrid(/*backward=*/true)) {
      SCOPED_TRACE(describe(shape));
      Layers layers(shape);
      double searched = getSeconds(layers.text, OrderPolicy::Search, *model);
      EXPECT_LE(searched, getSeconds(layers.text, OrderPolicy::MPipeMoe, *model));
      EXPECT_LE(searched, getSeconds(layers.text, OrderPolicy::FasterMoe, *model));
      EXPECT_LE(searched, getSeconds(layers.text, OrderPolicy::Program, *model));
    }
  }
}

/// Every policy repairs a program whose order its rings do not allow: plan-verify finds no hang, race or stale read,
/// and no ring exceeds its places.
TEST_F(PlanOrder, RingsHoldInEveryPolicy) {
  ClusterProfile profile = makeProfile();
  auto model = llvm::cantFail(CostModel::create(profile, 2, CostForm::ClosedForm));
  for (auto policy : {OrderPolicy::Program, OrderPolicy::MPipeMoe, OrderPolicy::FasterMoe, OrderPolicy::Search})
    for (int chunks : {2, 3, 5, 8})
      for (auto [outer, inner] : {std::pair(2, 1), {1, 1}, {3, 2}}) {
        Shape shape;
        shape.chunks = chunks;
        shape.outer = outer;
        shape.inner = inner;
        shape.backward = shape.byKind = true;
        SCOPED_TRACE(describe(shape));
        double seconds = getSeconds(Layers(shape).text, policy, *model, /*verify=*/true);
        EXPECT_GT(seconds, 0);
      }
}

/// The same program gives the same order, also if it is long and improved layer by layer.
TEST_F(PlanOrder, Deterministic) {
  ClusterProfile profile = makeProfile(0.8, 0.6);
  auto model = llvm::cantFail(CostModel::create(profile, 2, CostForm::ClosedForm));
  Shape shape;
  shape.backward = true;
  shape.layers = 16;
  std::string text = Layers(shape).text;
  auto print = [&] {
    OwningOpRef<ModuleOp> module = parse(text);
    EXPECT_TRUE(succeeded(orderPlan(*module->getOps<func::FuncOp>().begin(), OrderPolicy::Search, model.get())));
    std::string printed;
    llvm::raw_string_ostream(printed) << *module;
    return printed;
  };
  EXPECT_EQ(print(), print());
  double searched = getSeconds(text, OrderPolicy::Search, *model);
  EXPECT_LE(searched, getSeconds(text, OrderPolicy::MPipeMoe, *model));
  EXPECT_LE(searched, getSeconds(text, OrderPolicy::FasterMoe, *model));
}

/// A program, and the data for a search for its order.
struct Searched {
  Searched(func::FuncOp program, const CostModel &model)
      : dependences((plan::assignStreams(program), program)), graph(dependences), papers(dependences),
        sim(llvm::cantFail(makeSimProgram(program, model.getNumRanks()))) {
    std::vector<double> seconds = llvm::cantFail(getPricer(model).getLaunchSeconds());
    for (auto [task, duration, launch] : llvm::zip_equal(graph.tasks, seconds, sim.launches)) {
      task.seconds = duration;
      task.resource = launch.cost.resource;
      task.issueSeconds = model.getProfile().host.launchSeconds[0];
    }
    graph.setSpeeds(model);
  }

  Pricer getPricer(const CostModel &model) const { return {sim, dependences, model, nullptr}; }

  plan::Dependences dependences;
  Graph graph;
  PaperOrders papers;
  SimProgram sim;
};

/// A shape of a few chunks, forward and backward, in which kinds of work slow each other.
Shape getSlowedShape(int chunks, int outer, int inner) {
  Shape shape;
  shape.chunks = chunks;
  shape.outer = outer;
  shape.inner = inner;
  shape.backward = true;
  return shape;
}

/// A move of a task on its stream is timed from the first change on. The time equals that of the whole order to the
/// last bit, unless the move is given up as too slow.
TEST_F(PlanOrder, MovesAreTimedAsWholeOrders) {
  ClusterProfile profile = makeProfile(0.8, 0.6);
  profile.host.launchSeconds.fill(1.5);
  auto model = llvm::cantFail(CostModel::create(profile, 2, CostForm::ClosedForm));
  for (auto [outer, inner] : {std::pair(0, 0), {2, 1}}) {
    OwningOpRef<ModuleOp> module = parse(Layers(getSlowedShape(3, outer, inner)).text);
    Searched searched(*module->getOps<func::FuncOp>().begin(), *model);
    const Graph &graph = searched.graph;
    TimelineRunner runner(graph), whole(graph);
    Sequences sequences =
        getSequences(graph, makePossible(graph, searched.papers.getPreference(OrderPolicy::MPipeMoe)));
    runner.runToChange(sequences);
    for (unsigned stream = 0; stream < sequences.size(); ++stream)
      for (size_t from = 0; from < sequences[stream].size(); ++from)
        for (size_t to = 0; to < sequences[stream].size(); ++to) {
          Sequences moved = sequences;
          unsigned task = moved[stream][from];
          moved[stream].erase(moved[stream].begin() + from);
          moved[stream].insert(moved[stream].begin() + to, task);
          const Timeline &timeline = whole.run(moved);
          auto rerun = [&](double limit) { return runner.rerun(moved, stream, std::min(from, to), limit); };
          Ends ends = rerun(timeline.seconds);
          EXPECT_EQ(ends.seconds, timeline.seconds);
          EXPECT_TRUE(std::isinf(ends.seconds) || ends.sumOfEnds == timeline.sumOfEnds);
          EXPECT_TRUE(std::isinf(ends.seconds) || rerun(0.99 * ends.seconds).seconds > 0.99 * ends.seconds);
        }
  }
}

/// The price of an order does not depend on earlier prices, to the last bit.
TEST_F(PlanOrder, PricesDoNotDependOnOtherOrders) {
  for (double launchSeconds : {0.0, 1.5}) {
    ClusterProfile profile = makeProfile(0.8, 0.6);
    profile.host.launchSeconds.fill(launchSeconds);
    auto model = llvm::cantFail(CostModel::create(profile, 2, CostForm::ClosedForm));
    OwningOpRef<ModuleOp> module = parse(Layers(getSlowedShape(3, 0, 0)).text);
    Searched searched(*module->getOps<func::FuncOp>().begin(), *model);
    Pricer pricer = searched.getPricer(*model);
    Order order = makePossible(searched.graph, searched.papers.getPreference(OrderPolicy::MPipeMoe));
    for (size_t place = 0; place + 1 < order.size(); ++place) {
      if (llvm::is_contained(searched.graph.before[order[place + 1]], order[place]))
        continue;
      // Two launches on one stream change places. On two streams, the host issues them in the other order.
      std::swap(order[place], order[place + 1]);
      double price = llvm::cantFail(pricer.getSeconds(order));
      EXPECT_EQ(price, llvm::cantFail(searched.getPricer(*model).getSeconds(order))) << place;
    }
  }
}

TEST(OrderPolicyNames, AreParsed) {
  EXPECT_EQ(parseOrderPolicy("mpipemoe"), OrderPolicy::MPipeMoe);
  EXPECT_EQ(parseOrderPolicy("fastermoe"), OrderPolicy::FasterMoe);
  EXPECT_EQ(parseOrderPolicy("program"), OrderPolicy::Program);
  EXPECT_EQ(parseOrderPolicy("search"), OrderPolicy::Search);
  EXPECT_EQ(parseOrderPolicy("best"), std::nullopt);
}

} // namespace
