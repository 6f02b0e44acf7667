//===- IssueTest.cpp - what the ABI refuses -------------------------------===//

#include "core/World.h"
#include "host/HostMemory.h"

#include <gmock/gmock.h>

using namespace moert;
using testing::HasSubstr;

/// Under a sanitizer too, an allocation that is too large is null.
extern "C" const char *__asan_default_options() { return "allocator_may_return_null=1"; }
extern "C" const char *__tsan_default_options() { return "allocator_may_return_null=1"; }

namespace {

std::function<int32_t(moert_rank_t)> body;

Program makeProgram() {
  Program program;
  program.streams = {"compute", "comm"};
  program.events = 2;
  program.arenaBytes[MOERT_SPACE_DEVICE] = 256;
  program.arguments.push_back({"x", "input", MOERT_F32, {4, 2}, {4, 2}, {{}, {}}});
  for (int64_t stream : {0, 1})
    program.ops.push_back({stream ? "all_gather" : "add", "layer0", stream, stream ? 0 : -1, 0, 0, 0, 0});
  return program;
}

const Program program = makeProgram();
const std::vector<Group> groups{{"ep", 2, 1}};

/// The error of a step whose ranks do `what`.
std::string errorOf(std::function<int32_t(moert_rank_t)> what) {
  body = std::move(what);
  std::unique_ptr<World> world;
  Status status = World::create(program, groups, 2, [](moert_rank_t rank) { return body(rank); }, {}, world);
  EXPECT_TRUE(status.ok()) << status.message;
  double seconds;
  return world->run(seconds).message;
}

moert_buffer device(int64_t offset, int64_t rows, int32_t dtype = MOERT_F32) {
  return {MOERT_SPACE_DEVICE, dtype, offset, 2, {rows, 2}};
}

std::string errorOfOperand(moert_buffer buffer) {
  return errorOf([buffer](moert_rank_t rank) {
    moert_buffer good = device(0, 4);
    return moert_add(rank, 0, &good, &good, &buffer, 0);
  });
}

const moert_group kEp = {"ep", 2, 1};

} // namespace

TEST(Issue, Good) { EXPECT_EQ(errorOfOperand(device(32, 4)), ""); }

TEST(Issue, Operands) {
  EXPECT_THAT(errorOfOperand(device(232, 4)),
              HasSubstr("op 0 add 'layer0': operand 'out': bytes 232 to 264 lie outside the arena of 256 bytes"));
  EXPECT_THAT(errorOfOperand(device(-8, 4)), HasSubstr("outside the arena"));
  EXPECT_THAT(errorOfOperand(device(2, 4)), HasSubstr("offset 2 is not aligned for f32"));
  EXPECT_THAT(errorOfOperand(device(0, 4, 9)), HasSubstr("unknown dtype 9"));
  EXPECT_THAT(errorOfOperand(device(0, -1)), HasSubstr("negative"));
  EXPECT_THAT(errorOfOperand(device(0, INT64_MAX)), HasSubstr("too large"));
  EXPECT_THAT(errorOfOperand({7, MOERT_F32, 0, 2, {4, 2}}), HasSubstr("unknown memory space 7"));
  EXPECT_THAT(errorOfOperand({MOERT_SPACE_DEVICE, MOERT_F32, 0, 5, {}}), HasSubstr("expected a rank from 0 to 4"));
  EXPECT_THAT(errorOfOperand({MOERT_SPACE_HOST_PINNED, MOERT_F32, 0, 2, {4, 2}}), HasSubstr("arena of 0 bytes"));
  EXPECT_THAT(errorOfOperand({MOERT_SPACE_ARGUMENT, MOERT_F32, 1, 2, {4, 2}}), HasSubstr("the index of an argument"));
  EXPECT_THAT(errorOfOperand({MOERT_SPACE_ARGUMENT, MOERT_F64, 0, 2, {4, 2}}),
              HasSubstr("expected 'x' to be used as [4, 2] f32 but got 8 elements of f64"));
  EXPECT_THAT(errorOf([](moert_rank_t rank) { return moert_add(rank, 0, nullptr, nullptr, nullptr, 0); }),
              HasSubstr("operand 'a': expected a buffer but got null"));
}

TEST(Issue, OpsAndStreams) {
  moert_buffer buffer = device(0, 4);
  auto add = [&](int64_t op, int64_t stream) {
    return errorOf([=](moert_rank_t rank) { return moert_add(rank, op, &buffer, &buffer, &buffer, stream); });
  };
  EXPECT_THAT(add(2, 0), HasSubstr("expected an op from 0 to 1 but got 2"));
  EXPECT_THAT(add(-1, 0), HasSubstr("expected an op"));
  EXPECT_THAT(add(0, 2), HasSubstr("expected a stream from 0 to 1 but got 2"));
  EXPECT_THAT(add(0, 1), HasSubstr("the metadata has it on stream 'compute', the program issues it on 'comm'"));
  EXPECT_THAT(errorOf([](moert_rank_t rank) { return moert_record(rank, 2, 0); }), HasSubstr("expected an event"));
  EXPECT_THAT(errorOf([](moert_rank_t rank) { return moert_wait(rank, 0, 9); }), HasSubstr("expected a stream"));
  EXPECT_THAT(errorOf([](moert_rank_t rank) { return moert_wait(rank, 0, 1); }), HasSubstr("not recorded before"));
}

TEST(Issue, Groups) {
  moert_buffer in = device(0, 4), out = device(64, 8);
  auto gather = [&](const moert_group *group) {
    moert_group copy = group ? *group : moert_group{};
    bool given = group;
    return errorOf(
        [=](moert_rank_t rank) { return moert_all_gather(rank, 1, &in, &out, 0, given ? &copy : nullptr, 1); });
  };
  moert_group other = {"tp", 2, 1}, wrong = {"ep", 2, 2};
  EXPECT_EQ(gather(&kEp), "");
  EXPECT_THAT(gather(&other), HasSubstr("unknown group 'tp'"));
  EXPECT_THAT(gather(&wrong), HasSubstr("group 'ep' has size 2 and stride 1 in the metadata, but 2 and 2 here"));
  EXPECT_THAT(gather(nullptr), HasSubstr("expected a group but got null"));
}

TEST(Issue, NullRank) {
  EXPECT_EQ(moert_record(nullptr, 0, 0), MOERT_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ(moert_slice(nullptr, 0, nullptr, nullptr, 0, nullptr, 0), MOERT_ERROR_INVALID_ARGUMENT);
  EXPECT_THAT(moert_last_error(), HasSubstr("expected a rank"));
}

// A world that does not fit is refused before any memory is touched.
TEST(World, OutOfMemory) {
  Program big = program;
  big.arenaBytes[MOERT_SPACE_DEVICE] = int64_t(1) << 45;
  std::unique_ptr<World> world;
  for (int64_t ranks : {2, 4096}) {
    Status status = World::create(big, groups, ranks, nullptr, {}, world);
    EXPECT_EQ(status.code, MOERT_ERROR_OUT_OF_MEMORY);
    EXPECT_THAT(status.message, HasSubstr("a world of " + std::to_string(ranks) + " ranks"));
    EXPECT_THAT(status.message, HasSubstr("available"));
  }
  host::Block block;
  EXPECT_THAT(host::allocateBlock(int64_t(1) << 60, "nothing", block).message, HasSubstr("for nothing"));
}

TEST(World, ReadAndWrite) {
  std::unique_ptr<World> world;
  ASSERT_TRUE(World::create(program, groups, 2, nullptr, {}, world).ok());
  float values[8] = {1, 2, 3}, got[8];
  EXPECT_TRUE(world->write(1, 0, values, 32).ok());
  EXPECT_TRUE(world->read(1, 0, got, 32).ok());
  EXPECT_EQ(got[2], 3);
  EXPECT_THAT(world->read(1, 0, got, 16).message, HasSubstr("expected 32 bytes for 'x'"));
  EXPECT_THAT(world->read(2, 0, got, 32).message, HasSubstr("rank 2"));
  EXPECT_THAT(world->read(0, 1, got, 32).message, HasSubstr("index"));
}

TEST(World, Backends) {
  std::unique_ptr<World> world;
  WorldOptions options;
  options.backend = "cuda";
  Status status = World::create(program, groups, 2, nullptr, options, world);
  EXPECT_EQ(status.code, MOERT_ERROR_UNSUPPORTED);
  EXPECT_THAT(status.message, HasSubstr("backend 'cuda' is not built in this runtime; available: host"));
  options.backend = "tpu";
  EXPECT_THAT(World::create(program, groups, 2, nullptr, options, world).message, HasSubstr("unknown backend 'tpu'"));
}
