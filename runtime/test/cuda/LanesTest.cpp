//===- LanesTest.cpp - the streams of ranks on one device -----------------===//

#include "cuda/Lanes.h"

#include <gtest/gtest.h>

namespace moert::cuda {
namespace {

/// Priorities of the streams of a program with a product on its first stream, and these ops.
std::vector<int> prioritiesOf(std::vector<Op> ops, int64_t groupSize) {
  Program program;
  program.numRanks = 2;
  program.streams = {"first", "second"};
  Op product;
  product.name = "matmul";
  product.flops = 1;
  ops.push_back(product);
  program.ops = std::move(ops);
  Group group;
  group.name = "all";
  group.size = groupSize;
  Lanes lanes;
  const std::vector<Group> groups{group};
  const Status status = Lanes::create({&program, 1}, groups, {0}, 2, {}, lanes);
  EXPECT_TRUE(status.ok()) << status.message;
  std::vector<int> priorities;
  for (Lane &lane : lanes.lanes())
    EXPECT_EQ(cudaStreamGetPriority(lane.context.stream, &priorities.emplace_back()), cudaSuccess);
  return priorities;
}

Op opOn(int64_t stream, int64_t group, double flops = 0) {
  Op op;
  op.name = group < 0 ? "copy" : "all_reduce";
  op.stream = stream;
  op.group = group;
  op.flops = flops;
  return op;
}

// The kernels of a transfer would otherwise wait behind the blocks of products. Copies beside them change nothing.
TEST(LanesTest, StreamsOfTransfersAreUrgent) {
  int usual = 0, urgent = 0;
  ASSERT_EQ(cudaDeviceGetStreamPriorityRange(&usual, &urgent), cudaSuccess);
  EXPECT_LT(urgent, usual);
  EXPECT_EQ(prioritiesOf({opOn(1, 0), opOn(1, -1)}, 2), (std::vector<int>{usual, urgent}));
}

// A stream that also computes has no priority over another, and neither has one without transfers.
TEST(LanesTest, OtherStreamsAreNot) {
  int usual = 0, urgent = 0;
  ASSERT_EQ(cudaDeviceGetStreamPriorityRange(&usual, &urgent), cudaSuccess);
  const std::vector<int> none{usual, usual};
  EXPECT_EQ(prioritiesOf({opOn(0, 0)}, 2), none);
  EXPECT_EQ(prioritiesOf({opOn(1, 0), opOn(1, -1, 8)}, 2), none);
  EXPECT_EQ(prioritiesOf({opOn(1, -1)}, 2), none);
  EXPECT_EQ(prioritiesOf({opOn(1, 0)}, 1), none);
}

} // namespace
} // namespace moert::cuda
