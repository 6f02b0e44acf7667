//===- LanesTest.cpp - the streams of ranks on one device -----------------===//

#include "cuda/Lanes.h"

#include "core/Attributes.h"
#include "cuda/Backends.h"
#include "emulation/Emulation.h"

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

/// A call whose operands are in new memory of the device, without values.
Call callOn(Device &device, Kind kind, std::vector<std::pair<int32_t, std::vector<int64_t>>> operands) {
  Call call;
  call.kind = kind;
  for (const auto &[dtype, dims] : operands) {
    View &view = call.views[static_cast<size_t>(call.viewCount++)];
    view.dtype = dtype;
    view.rank = static_cast<int64_t>(dims.size());
    std::ranges::copy(dims, view.dims.begin());
    EXPECT_TRUE(device.allocate(0, MOERT_SPACE_DEVICE, view.bytes(), "a test", view.data).ok());
    const std::vector<char> zeros(static_cast<size_t>(view.bytes()));
    EXPECT_TRUE(device.write(view.data, zeros.data(), view.bytes()).ok());
  }
  return call;
}

/// Pinned bytes that the first step of a call allocates, after the device has seen the call.
int64_t pinnedInStep(const std::function<Call(Device &)> &make, RoutingPage *page = nullptr) {
  Program program;
  program.numRanks = 1;
  program.streams = {"main"};
  program.ops.emplace_back();
  const std::vector<Group> groups;
  Backend backend;
  Status status = createDirect({&program, 1}, groups, 1, {}, backend);
  EXPECT_TRUE(status.ok()) << status.message;
  backend.device->timeOps(false);
  Call call = make(*backend.device);
  EXPECT_TRUE(backend.device->wantsCalls());
  status = backend.device->prepare(call);
  EXPECT_TRUE(status.ok()) << status.message;
  call.routing = page;
  const size_t before = emulation::pinnedBytes();
  status = backend.device->runStep([&](int64_t rank) { return backend.device->launch(rank, 0, call); }, 60);
  EXPECT_TRUE(status.ok()) << status.message;
  return static_cast<int64_t>(emulation::pinnedBytes()) - static_cast<int64_t>(before);
}

// CUDA may wait for all streams when pinned memory is allocated.
TEST(LanesTest, RecordedRoutesAllocateNothing) {
  RoutingPage page;
  page.isRecorded = true;
  const int64_t tokens = 2560, experts = 16, choices = 8;
  EXPECT_EQ(pinnedInStep(
                [&](Device &device) {
                  Call call = callOn(device, Kind::Route,
                                     {{MOERT_F32, {tokens, experts}},
                                      {MOERT_F32, {experts}},
                                      {MOERT_F32, {tokens, experts}},
                                      {MOERT_I32, {tokens, choices}},
                                      {MOERT_I32, {tokens, choices}},
                                      {MOERT_F32, {tokens, choices}},
                                      {MOERT_I32, {1, experts}},
                                      {MOERT_F32, {}}});
                  attributes::Route{.renormalize = 1,
                                    .expertGroups = 1,
                                    .topGroups = 1,
                                    .groups = 1,
                                    .chunks = 1,
                                    .chunkRows = tokens * choices,
                                    .leave = -1,
                                    .homes = 1,
                                    .homeStride = 1,
                                    .homeSpan = 1,
                                    .routingScale = 1}
                      .set(call);
                  return call;
                },
                &page),
            0);
  EXPECT_EQ(page.chosen.size(), static_cast<size_t>(tokens * choices));
}

TEST(LanesTest, ChoicesOfShadowsAllocateNothing) {
  const int64_t sources = 128, experts = 256;
  EXPECT_EQ(
      pinnedInStep([&](Device &device) {
        Call call = callOn(device, Kind::ChooseShadows, {{MOERT_I32, {sources, experts}}, {MOERT_I32, {1, experts}}});
        attributes::ChooseShadows{.workers = 128, .nodeWorkers = 8, .most = 4, .room = 8, .phases = 1, .expertS = 1}
            .set(call);
        return call;
      }),
      0);
}

} // namespace
} // namespace moert::cuda
