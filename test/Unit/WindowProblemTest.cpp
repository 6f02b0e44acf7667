// Orders of windows: lists keep their order, ops come behind what they need and follow, and ops that take no time make
// no difference to how long a window takes.
#include "moe/Scheduling/Window.h"

#include "llvm/ADT/STLExtras.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <random>
#include <utility>

using namespace mlir::moe;

namespace {

/// Largest number of exchanges that weight gradients may wait for.
constexpr size_t kMostExchanges = 4;

class Draw {
public:
  explicit Draw(unsigned seed) : random(seed) {}
  size_t below(size_t end) { return random() % end; }
  bool isTrue(double share) { return std::uniform_real_distribution<>(0, 1)(random) < share; }

private:
  std::minstd_rand random;
};

/// A backward with its weight gradients, in the order of one program, and a forward of another micro-batch. A share of
/// `freeShare` of the computing ops takes no time.
std::vector<TimedOp> makeWindow(unsigned seed, double freeShare) {
  Draw draw(seed);
  std::vector<TimedOp> program;
  std::vector<size_t> backward;
  for (size_t number = 0; number < 60; ++number) {
    TimedOp op;
    op.list = draw.isTrue(0.3) ? 1 : 0;
    op.lane = op.list == 0 && draw.isTrue(0.3) ? 1 : 0;
    op.seconds = op.lane == 0 && draw.isTrue(freeShare) ? 0 : 1 + static_cast<double>(draw.below(4));
    for (size_t need : backward)
      if (draw.isTrue(need + 6 > number ? 0.3 : 0.02))
        op.needs.push_back(need);
    if (op.list == 0)
      backward.push_back(number);
    program.push_back(op);
  }
  for (size_t number = 0; number < program.size(); ++number) {
    if (program[number].list != 1)
      continue;
    size_t passed = 0;
    for (size_t later = number + 1; later < program.size(); ++later)
      if (program[later].lane == 1 && ++passed == kMostExchanges) {
        program[later].follows.push_back(number);
        break;
      }
  }
  // Places one list after the other.
  std::vector<uint32_t> place(program.size());
  std::vector<TimedOp> window;
  for (uint32_t list : {0, 1})
    for (auto [number, op] : llvm::enumerate(program))
      if (op.list == list) {
        place[number] = window.size();
        window.push_back(op);
      }
  for (TimedOp &op : window) {
    for (uint32_t &need : op.needs)
      need = place[need];
    for (uint32_t &other : op.follows)
      other = place[other];
  }
  for (int number = 0; number < 30; ++number) {
    TimedOp op;
    op.list = 2;
    op.lane = draw.isTrue(0.3) ? 1 : 0;
    op.seconds = op.lane == 0 && draw.isTrue(freeShare) ? 0 : 1 + static_cast<double>(draw.below(4));
    if (number > 0)
      op.needs.push_back(window.size() - 1);
    window.push_back(op);
  }
  return window;
}

void expectOrder(llvm::ArrayRef<TimedOp> window) {
  WindowProblem problem{window};
  EXPECT_EQ(problem.check(), "");
  EXPECT_EQ(problem.verify(searchWindow(problem)), "");
}

TEST(WindowProblem, OrdersAreLegal) {
  for (double share : {0.0, 0.3, 0.7, 1.0})
    for (unsigned seed = 1; seed <= 20; ++seed)
      expectOrder(makeWindow(seed, share));
}

/// Adds a unit of `blocks`: computation before the experts, exchanges between nodes and inside them, the experts, the
/// exchanges back, and computation after them.
void addBlocks(std::vector<TimedOp> &window, uint32_t list, int blocks, double before, double experts, double after) {
  constexpr uint32_t compute = 0, inter = 1, intra = 2;
  const std::pair<uint32_t, double> block[] = {{compute, before}, {inter, 0.4},       {compute, 0.05},
                                               {intra, 0.4},      {compute, experts}, {intra, 0.4},
                                               {compute, 0.1},    {inter, 0.4},       {compute, after}};
  for (int number = 0; number < blocks; ++number)
    for (auto [lane, seconds] : block) {
      TimedOp &op = window.emplace_back();
      op.list = list;
      op.lane = lane;
      op.seconds = seconds;
      if (window.size() > 1 && window[window.size() - 2].list == list)
        op.needs.push_back(window.size() - 2);
    }
}

/// A forward must not run ahead of the backward beside it, which computes twice as long. Values of both would be kept,
/// and nothing would hide the last exchanges of the backward.
TEST(WindowProblem, UnitsOfManyBlocksEndTogether) {
  constexpr int blocks = 48, opsOfBlock = 9;
  std::vector<TimedOp> window;
  addBlocks(window, 0, blocks, 0.7, 0.4, 0.1);
  addBlocks(window, 1, blocks, 0.1, 0.8, 1.5);
  double computation = 0;
  for (const TimedOp &op : window)
    computation += op.lane == 0 ? op.seconds : 0;
  WindowProblem problem{window};
  std::vector<uint32_t> order = searchWindow(problem);
  EXPECT_LT(problem.getPeriod(order), 1.2 * computation);
  int ahead = 0;
  for (uint32_t op : order) {
    ahead += op < blocks * opsOfBlock ? 1 : -1;
    EXPECT_LE(std::abs(ahead), 2 * opsOfBlock);
  }
}

/// Stages without a block have windows without ops.
TEST(WindowProblem, NoOps) { EXPECT_TRUE(searchWindow({}).empty()); }

TEST(WindowProblem, OpsWithoutTimeCostNone) {
  // Two equal micro-batches: the exchange of each fits beside the computation of the other. Views between them.
  std::vector<TimedOp> window;
  for (uint32_t list : {0, 1})
    for (int number = 0; number < 20; ++number) {
      TimedOp op;
      op.list = list;
      op.lane = number % 4 == 3 ? 1 : 0;
      op.seconds = number % 4 == 0 || number % 4 == 3 ? 1 : 0;
      if (number > 0)
        op.needs.push_back(window.size() - 1);
      window.push_back(op);
    }
  WindowProblem problem{window};
  EXPECT_DOUBLE_EQ(problem.getPeriod(searchWindow(problem)), 11);
}

TEST(WindowProblem, ManyPathsThroughOpsWithoutTime) {
  // Each of them needs the two before it, so that there are millions of paths from the last to the first.
  std::vector<TimedOp> window(100);
  for (uint32_t number = 2; number < window.size(); ++number)
    window[number].needs = {number - 2, number - 1};
  window.front().seconds = 1;
  window.push_back({/*seconds=*/1, /*lane=*/0, /*list=*/1, {}, {}, false, 0});
  expectOrder(window);
}

TEST(WindowProblem, Mistakes) {
  // The second list needs the first.
  std::vector<TimedOp> window(3);
  for (TimedOp &op : window)
    op.seconds = 1;
  window[2].list = 1;
  window[2].needs = {0};
  WindowProblem problem{window};
  EXPECT_EQ(problem.check(), "");
  EXPECT_EQ(problem.verify({0, 2, 1}), "");
  EXPECT_EQ(problem.verify({0, 2}), "expected 3 ops but got 2");
  EXPECT_EQ(problem.verify({0, 2, 2}), "expected each op once but got op 2 at place 2");
  EXPECT_EQ(problem.verify({2, 0, 1}), "expected op 2 after the ops that it needs and follows");
  EXPECT_EQ(problem.verify({1, 0, 2}), "expected op 1 after the ops that it needs and follows");
  window[0].needs = {3};
  EXPECT_EQ(problem.check(), "expected op 0 to need and follow ops of the window");
  window[0].needs = {};
  window[1].list = 2;
  EXPECT_EQ(problem.check(), "expected op 2 in list 2 or a later one");
}

} // namespace
