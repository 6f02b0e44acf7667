// Orders of windows: lists keep their order, ops come behind what they need and follow, and ops that take no time make
// no difference to how long a window takes.
#include "../../lib/Dialect/Moe/Transforms/WindowSearch.h"

#include "llvm/ADT/STLExtras.h"

#include <gtest/gtest.h>

#include <random>

using namespace mlir::moe;

namespace {

/// Gradients of weights may wait for so many exchanges.
constexpr size_t kMostExchanges = 4;

class Draw {
public:
  explicit Draw(unsigned seed) : random(seed) {}
  size_t below(size_t end) { return random() % end; }
  bool isTrue(double share) { return std::uniform_real_distribution<>(0, 1)(random) < share; }

private:
  std::minstd_rand random;
};

/// A backward and its gradients of weights, as one program has them, and a forward of another micro-batch. So many of
/// the ops of computation take no time.
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
  // One list after the other.
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

void expectOrder(llvm::ArrayRef<TimedOp> window, llvm::ArrayRef<uint32_t> order) {
  std::vector<size_t> position(window.size(), order.size());
  ASSERT_EQ(order.size(), window.size());
  for (auto [at, op] : llvm::enumerate(order))
    position[op] = at;
  for (uint32_t op = 0; op < window.size(); ++op) {
    ASSERT_LT(position[op], order.size()) << op;
    if (op > 0 && window[op - 1].list == window[op].list)
      EXPECT_LT(position[op - 1], position[op]);
    for (uint32_t need : window[op].needs)
      EXPECT_LT(position[need], position[op]) << need << " before " << op;
    // Ops without time hold nothing back.
    for (uint32_t other : window[op].follows)
      if (window[other].seconds > 0)
        EXPECT_LT(position[other], position[op]) << other << " before " << op;
  }
}

TEST(WindowSearch, OrdersAreLegal) {
  for (double share : {0.0, 0.3, 0.7, 1.0})
    for (unsigned seed = 1; seed <= 20; ++seed) {
      std::vector<TimedOp> window = makeWindow(seed, share);
      expectOrder(window, searchWindow(window));
    }
}

TEST(WindowSearch, OpsWithoutTimeCostNone) {
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
  EXPECT_DOUBLE_EQ(getPeriod(window, searchWindow(window)), 11);
}

TEST(WindowSearch, ManyWaysThroughOpsWithoutTime) {
  // Each of them needs the two before it, so that there are millions of ways from the last to the first.
  std::vector<TimedOp> window(100);
  for (uint32_t number = 2; number < window.size(); ++number)
    window[number].needs = {number - 2, number - 1};
  window.front().seconds = 1;
  window.push_back({/*seconds=*/1, /*lane=*/0, /*list=*/1, {}, {}, false, 0});
  expectOrder(window, searchWindow(window));
}

} // namespace
