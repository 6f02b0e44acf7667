//===- PipelineProblemTest.cpp - the order of a pipeline's units ----------===//
#include "moe/Scheduling/Pipeline.h"

#include "llvm/ADT/STLExtras.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

using namespace mlir;
using namespace mlir::moe;

namespace {

PipelineSchedule solve(const PipelineShape &shape) { return getPipelineSchedule(PipelineProblem(shape)); }
PipelineSchedule solve(const PipelineShape &shape, const StageTimes &times, const StageMemory &memory = {}) {
  return getPipelineSchedule({shape, times, memory});
}

constexpr StageWork F = StageWork::forward, B = StageWork::backward, W = StageWork::weights;

/// One device does forward and backward of one micro-batch after the other.
TEST(PipelineProblem, OneDevice) {
  SmallVector<PipelineUnit> order = solve({/*devices=*/1, /*stages=*/2, /*microBatches=*/2}).getUnits();
  SmallVector<PipelineUnit> expected = {{0, 0, F}, {0, 1, F}, {0, 1, B, true}, {0, 0, B, true},
                                        {1, 0, F}, {1, 1, F}, {1, 1, B, true}, {1, 0, B, true}};
  EXPECT_EQ(order, expected);
}

/// In 1F1B the first of two stages does two forwards before the first backward arrives.
TEST(PipelineProblem, TwoDevices) {
  SmallVector<PipelineUnit> first;
  for (const PipelineUnit &unit : solve({2, 2, 3}).getUnits())
    if (unit.stage == 0)
      first.push_back(unit);
  SmallVector<PipelineUnit> expected = {{0, 0, F}, {1, 0, F},       {0, 0, B, true},
                                        {2, 0, F}, {1, 0, B, true}, {2, 0, B, true}};
  EXPECT_EQ(first, expected);
}

void expectLegal(const PipelineShape &shape, const PipelineSchedule &schedule) {
  EXPECT_EQ(PipelineProblem(shape).verify(schedule), "");
}

/// Largest number of a stage's micro-batches that a device keeps.
int64_t getMostAlive(const PipelineShape &shape, const PipelineSchedule &schedule) {
  std::vector<int64_t> alive(shape.devices, 0);
  int64_t most = 0;
  for (const PipelineUnit &unit : schedule.getUnits()) {
    int64_t &its = alive[schedule.devices[unit.stage]];
    its += unit.work == F ? 1 : unit.work == W || unit.isWhole ? -1 : 0;
    most = std::max(most, its);
  }
  return most;
}

StageTimes getTimes(int64_t stages, double forward, double backward, double weights) {
  auto fill = [&](double seconds) { return SmallVector<double>(stages, seconds); };
  return {fill(forward), fill(backward), fill(weights), fill(backward + weights), 0, {}};
}

/// As in the paper: (p - 1)(T_F + T_B - T_W), where 1F1B has (p - 1)(T_F + T_B + T_W), and no more is alive.
TEST(PipelineProblem, ZbH1) {
  for (auto [forward, backward, weights] : {std::tuple(1.0, 1.0, 1.0), {10.0, 12.0, 9.0}, {2.0, 3.0, 2.0}})
    for (int64_t devices : {2, 4, 8}) {
      PipelineShape shape{devices, devices, 3 * devices}, split = shape;
      split.order = PipelineOrder::ZbH1;
      StageTimes times = getTimes(devices, forward, backward, weights);
      PipelineSchedule usual = solve(shape, times), better = solve(split, times);
      expectLegal(split, better);
      double all = forward + backward + weights, work = all * static_cast<double>(shape.microBatches),
             others = static_cast<double>(devices - 1);
      EXPECT_DOUBLE_EQ(usual.seconds - work, others * all);
      EXPECT_DOUBLE_EQ(better.seconds - work, others * (forward + backward - weights));
      EXPECT_EQ(getMostAlive(split, better), getMostAlive(shape, usual));
    }
}

/// The last device waits for the first micro-batch to pass the others, and no other time is lost. As much is alive as
/// in 1F1B, whose stages are twice as large.
TEST(PipelineProblem, ZbV) {
  for (int64_t devices : {2, 4, 8}) {
    PipelineShape shape{devices, 2 * devices, 2 * devices, true, PipelineOrder::ZbV};
    PipelineSchedule schedule = solve(shape);
    expectLegal(shape, schedule);
    EXPECT_EQ(schedule.devices[2 * devices - 1], 0);
    EXPECT_DOUBLE_EQ(schedule.seconds, static_cast<double>(6 * shape.microBatches + devices - 1));
    EXPECT_LE(getMostAlive(shape, schedule), 2 * devices);
  }
}

/// A window ends as a whole, so that each hop of the first micro-batch costs one more unit than in a V of single units.
TEST(PipelineProblem, DualPipeV) {
  for (int64_t devices : {2, 3, 4, 8})
    for (int64_t microBatches : {2 * devices, 5 * devices + 1}) {
      PipelineShape shape{devices, 2 * devices, microBatches, true, PipelineOrder::DualPipeV};
      PipelineSchedule schedule = solve(shape);
      expectLegal(shape, schedule);
      EXPECT_EQ(getMostAlive(shape, schedule), 2 * devices + 1);
      EXPECT_DOUBLE_EQ(schedule.seconds, static_cast<double>(6 * microBatches + 2 * (devices - 1)));
    }
}

/// Once the pipeline is full, a device does windows alone, and none waits.
TEST(PipelineProblem, Overlapped1F1B) {
  for (int64_t devices : {1, 2, 3, 8})
    for (int64_t chunks : {1, 2, 4}) {
      PipelineShape shape{devices, devices * chunks, 4 * devices, true, PipelineOrder::Overlapped1F1B}, longer = shape;
      longer.microBatches += 2 * devices;
      StageTimes times = getTimes(shape.stages, 2, 2, 1);
      times.together = [](const PipelineWindow &window) {
        const PipelineUnit &first = window.front(), &backward = window.back();
        EXPECT_EQ(backward.work, B);
        if (window.size() == 3)
          EXPECT_TRUE(first.work == W && window[1].work == F && !backward.isWhole);
        else
          EXPECT_TRUE(first.work == F || (first.work == W && backward.isWhole));
        return 3.5;
      };
      PipelineSchedule schedule = solve(shape, times);
      expectLegal(shape, schedule);
      EXPECT_EQ(getMostAlive(shape, schedule), 2 * devices + (chunks - 1) * devices);
      auto more = static_cast<double>((longer.microBatches - shape.microBatches) * chunks);
      EXPECT_DOUBLE_EQ(solve(longer, times).seconds - schedule.seconds, 3.5 * more);
    }
}

/// Gradients of weights move into the next window where this is shorter. One more micro-batch of a stage waits for
/// them.
TEST(PipelineProblem, WeightsInTheNextWindow) {
  for (PipelineOrder order : {PipelineOrder::Overlapped1F1B, PipelineOrder::DualPipeV})
    for (int64_t devices : {2, 3, 8}) {
      PipelineShape shape{devices, 2 * devices, 4 * devices, true, order}, longer = shape;
      longer.microBatches += 2 * devices;
      StageTimes times = getTimes(shape.stages, 2, 2, 1);
      times.together = [](const PipelineWindow &window) {
        return window.size() == 3 ? 4 : static_cast<double>(2 * window.size());
      };
      double usual = solve(shape, times).seconds;
      int64_t most = getMostAlive(shape, solve(shape, times));
      times.together = [](const PipelineWindow &window) { return window.size() == 2 && window.back().isWhole ? 4 : 3; };
      PipelineSchedule schedule = solve(shape, times);
      expectLegal(shape, schedule);
      EXPECT_LT(schedule.seconds, usual);
      EXPECT_LE(getMostAlive(shape, schedule), most + 1);
      EXPECT_NEAR(solve(longer, times).seconds - schedule.seconds,
                  3.0 * static_cast<double>(2 * (longer.microBatches - shape.microBatches)), 1e-9);
    }
}

/// There is nothing beside which it could run.
TEST(PipelineProblem, Overlapped1F1BOfOneMicroBatch) {
  PipelineShape shape{1, 1, 1, true, PipelineOrder::Overlapped1F1B};
  EXPECT_EQ(solve(shape).getUnits(), (SmallVector<PipelineUnit>{{0, 0, F}, {0, 0, B, true}}));
}

struct RandomCase {
  PipelineShape shape;
  StageTimes times;
};

double draw(std::mt19937 &random) { return 0.5 + static_cast<double>(random() % 1000) / 1000; }

/// A case whose stages take random times.
RandomCase drawCase(std::mt19937 &random) {
  int64_t devices = 2 + static_cast<int64_t>(random() % 5), chunks = 1 + static_cast<int64_t>(random() % 3);
  PipelineShape shape{devices, devices * chunks, devices * (1 + static_cast<int64_t>(random() % 5)), true,
                      PipelineOrder::Search};
  StageTimes times = getTimes(shape.stages, 0, 0, 0);
  for (auto *seconds : {&times.forward, &times.backward, &times.weights})
    std::generate(seconds->begin(), seconds->end(), [&] { return draw(random); });
  for (auto [whole, backward, weights] : llvm::zip_equal(times.wholeBackward, times.backward, times.weights))
    whole = (backward + weights) * (1 - draw(random) / 4);
  times.transfer = draw(random) / 10;
  return {shape, times};
}

/// Orders that a search compares by name, as far as the shape allows.
SmallVector<PipelineShape> getNamed(const PipelineShape &shape) {
  SmallVector<PipelineShape> shapes;
  for (PipelineOrder order : {PipelineOrder::OneForwardOneBackward, PipelineOrder::Overlapped1F1B, PipelineOrder::ZbH1,
                              PipelineOrder::ZbV, PipelineOrder::DualPipeV}) {
    PipelineShape named = shape;
    named.order = order;
    if (named.check().empty())
      shapes.push_back(named);
  }
  return shapes;
}

TEST(PipelineProblem, SearchIsNeverSlower) {
  std::mt19937 random(0);
  for (int64_t number = 0; number < 120; ++number) {
    auto [shape, times] = drawCase(random);
    PipelineSchedule found = solve(shape, times);
    expectLegal(shape, found);
    for (const PipelineShape &named : getNamed(shape))
      EXPECT_LE(found.seconds, solve(named, times).seconds * (1 + 1e-9)) << getName(named.order).str();
  }
}

/// Whatever room there is for more than one micro-batch on each device: the search keeps to it, and is not slower than
/// named orders that keep to it, too.
TEST(PipelineProblem, SearchKeepsToTheMemory) {
  std::mt19937 random(1);
  int64_t slower = 0;
  for (int64_t number = 0; number < 120; ++number) {
    auto [shape, times] = drawCase(random);
    StageMemory memory;
    for (int64_t stage = 0; stage < shape.stages; ++stage) {
      memory.kept.push_back(1 + static_cast<int64_t>(random() % 100));
      memory.waiting.push_back(1 + static_cast<int64_t>(random() % 100));
    }
    PipelineSchedule free = solve(shape, times);
    SmallVector<int64_t> least(shape.devices, 0);
    for (int64_t stage = 0; stage < shape.stages; ++stage)
      least[stage % shape.devices] += std::max(memory.kept[stage], memory.waiting[stage]);
    int64_t lowest = *llvm::max_element(least), highest = getMostKept(free, memory);
    memory.most =
        lowest + static_cast<int64_t>(random() % static_cast<uint32_t>(std::max<int64_t>(1, highest - lowest)));
    PipelineSchedule found = solve(shape, times, memory);
    expectLegal(shape, found);
    EXPECT_LE(getMostKept(found, memory), memory.most);
    EXPECT_GE(found.seconds, free.seconds * (1 - 1e-9));
    slower += found.seconds > free.seconds;
    for (const PipelineShape &named : getNamed(shape)) {
      PipelineSchedule its = solve(named, times);
      EXPECT_TRUE(getMostKept(its, memory) > memory.most || found.seconds <= its.seconds * (1 + 1e-9))
          << getName(named.order).str();
    }
  }
  // Without this, the limits have no effect.
  EXPECT_GT(slower, 60);
}

/// The search returns the order that keeps least if none keeps to the limit.
TEST(PipelineProblem, TooLittleMemory) {
  PipelineShape shape{2, 2, 4, true, PipelineOrder::Search};
  StageTimes times = StageTimes::getEqual(2);
  StageMemory memory{{10, 3}, {12, 3}, 9};
  EXPECT_GE(getMostKept(solve(shape, times), memory), 20);
  EXPECT_EQ(getMostKept(solve(shape, times, memory), memory), 10);
}

TEST(PipelineProblem, Mistakes) {
  auto describe = [](const PipelineShape &shape) { return shape.check(); };
  EXPECT_EQ(describe({2, 3, 2}), "expected stages to be a multiple of 2 devices but got 3 stages");
  EXPECT_EQ(describe({2, 4, 3}), "expected micro-batches to be a multiple of 2 devices, where these have several "
                                 "stages, but got 3");
  EXPECT_EQ(describe({2, 4, 4, true, PipelineOrder::ZbH1}),
            "expected 1 stage on each device for the pipeline order zb-h1 but got 2");
  EXPECT_EQ(describe({2, 4, 3, true, PipelineOrder::DualPipeV}),
            "expected at least 4 micro-batches for the pipeline order dualpipe-v on 2 devices but got 3");
  EXPECT_EQ(describe({2, 4, 4, false, PipelineOrder::ZbV}),
            "expected a backward for the pipeline order zb-v; forwards alone are in the order 1f1b");
  EXPECT_EQ(describe({2, 4, 3, true, PipelineOrder::Search}), "");
}

/// Schedules that lack a unit, do one twice, break a dependence, or keep too much.
TEST(PipelineProblem, WrongSchedules) {
  PipelineProblem problem({2, 2, 1});
  auto verify = [&](SmallVector<PipelineWindow> windows, SmallVector<int64_t> devices = {0, 1}) {
    return problem.verify({std::move(windows), std::move(devices), 0});
  };
  PipelineUnit f0{0, 0, F}, f1{0, 1, F}, b0{0, 0, B, true}, b1{0, 1, B, true};
  EXPECT_EQ(verify({{f0}, {f1}, {b1}, {b0}}), "");
  EXPECT_EQ(verify({{f0}, {f1}, {b1}, {b0}}, {0}), "expected a device for each of 2 stages but got 1");
  EXPECT_EQ(verify({{f0}, {f1}, {b1}}), "expected 6 units but got 4");
  EXPECT_EQ(verify({{f0}, {f0}}), "expected the forward of micro-batch 0 in stage 0 once");
  EXPECT_EQ(verify({{f0}, {f1, b1}, {b0}, {{0, 1, W}}}),
            "expected the gradients of weights of micro-batch 0 in stage 1 once");
  EXPECT_EQ(verify({{f1}}), "expected the forward of micro-batch 0 in stage 0 before the forward of micro-batch 0 in "
                            "stage 1");
  EXPECT_EQ(verify({{f0}, {f1}, {b0}}), "expected the backward of micro-batch 0 in stage 1 before the backward of "
                                        "micro-batch 0 in stage 0");
  EXPECT_EQ(verify({{f0, f1}}), "expected a window of one device but got the forward of micro-batch 0 in stage 0 and "
                                "the forward of micro-batch 0 in stage 1");
  problem.memory = {{5, 4}, {0, 0}, 4};
  EXPECT_EQ(verify({{f0}, {f1}, {b1}, {b0}}),
            "expected a device to keep at most 4 bytes for gradients but in the order 1f1b it keeps 5");
}

TEST(PipelineProblem, WrongProblems) {
  PipelineProblem problem({2, 2, 2});
  EXPECT_EQ(problem.check(), "");
  problem.times = StageTimes::getEqual(3);
  EXPECT_EQ(problem.check(), "expected times of 2 stages");
  problem.times = StageTimes::getEqual(2);
  problem.memory = {{1}, {1}, 1};
  EXPECT_EQ(problem.check(), "expected the memory of 2 stages");
}

} // namespace
