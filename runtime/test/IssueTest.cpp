//===- IssueTest.cpp - errors of the ABI ----------------------------------===//

#include "core/World.h"
#include "host/HostMemory.h"
#include "moert/shadows.h"
#include "verify/Guard.h"

#include <gmock/gmock.h>

#include <cmath>
#include <random>

using namespace moert;
using testing::HasSubstr;

/// Makes too large an allocation return null under a sanitizer, too.
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

/// A world all of whose ranks run one program.
Status makeWorld(const Program &program, const std::vector<Group> &groups, int64_t ranks, ProgramEntry entry,
                 const WorldOptions &options, std::unique_ptr<World> &world) {
  return World::create({{&program, 1}, {&entry, 1}}, groups, ranks, options, world);
}

/// Error of a step whose ranks run `what`.
std::string errorOf(std::function<int32_t(moert_rank_t)> what) {
  body = std::move(what);
  std::unique_ptr<World> world;
  Status status = makeWorld(program, groups, 2, [](moert_rank_t rank) { return body(rank); }, {}, world);
  EXPECT_TRUE(status.ok()) << status.message;
  double seconds;
  return world->run(&seconds).message;
}

moert_buffer buffer(int32_t space, int32_t dtype, int64_t offset, std::vector<int64_t> dims, int64_t parts = 0,
                    int64_t shift = 0, int64_t stride = 0, int64_t begin = 0) {
  moert_buffer result{space, dtype, offset, static_cast<int64_t>(dims.size()), {}, parts, shift, stride, begin};
  std::copy_n(dims.begin(), std::min<size_t>(dims.size(), 4), result.dims);
  return result;
}

moert_buffer device(int64_t offset, int64_t rows, int32_t dtype = MOERT_F32) {
  return buffer(MOERT_SPACE_DEVICE, dtype, offset, {rows, 2});
}

std::string errorOfOperand(moert_buffer buffer) {
  return errorOf([buffer](moert_rank_t rank) {
    moert_buffer good = device(0, 4);
    return moert_add(rank, 0, &good, &good, &buffer, 0);
  });
}

const moert_group kEp = {"ep", 2, 1};

int64_t touched(World &world, int64_t rank, int32_t space) {
  int64_t bytes = -1;
  EXPECT_TRUE(world.touchedBytes(rank, space, bytes).ok());
  return bytes;
}

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
  EXPECT_THAT(errorOfOperand(buffer(7, MOERT_F32, 0, {4, 2})), HasSubstr("unknown memory space 7"));
  EXPECT_THAT(errorOfOperand(buffer(MOERT_SPACE_DEVICE, MOERT_F32, 0, {1, 1, 1, 1, 1})),
              HasSubstr("expected a rank from 0 to 4"));
  EXPECT_THAT(errorOfOperand(buffer(MOERT_SPACE_HOST_PINNED, MOERT_F32, 0, {4, 2})), HasSubstr("arena of 0 bytes"));
  EXPECT_THAT(errorOfOperand(buffer(MOERT_SPACE_ARGUMENT, MOERT_F32, 1, {4, 2})),
              HasSubstr("the index of an argument"));
  EXPECT_THAT(errorOfOperand(buffer(MOERT_SPACE_ARGUMENT, MOERT_F64, 0, {4, 2})),
              HasSubstr("expected 'x' to be used as [4, 2] f32 but got 8 elements of f64"));
  EXPECT_THAT(errorOf([](moert_rank_t rank) { return moert_add(rank, 0, nullptr, nullptr, nullptr, 0); }),
              HasSubstr("operand 'a': expected a buffer but got null"));
}

// All parts must exist, not only the rank's own.
TEST(Issue, BadParts) {
  auto part = [](int64_t offset, std::vector<int64_t> dims, int64_t parts, int64_t stride) {
    return errorOfOperand(buffer(MOERT_SPACE_DEVICE, MOERT_F32, offset, dims, parts, 0, stride));
  };
  EXPECT_THAT(part(232, {1, 2}, 4, 1),
              HasSubstr("op 0 add 'layer0': operand 'out': bytes 232 to 264 lie outside the arena of 256 bytes"));
  EXPECT_THAT(part(0, {4, 2}, -1, 1), HasSubstr("expected parts of 0 or more but got -1"));
  EXPECT_THAT(part(0, {4, 2}, 2, 0), HasSubstr("expected a stride of 1 or more for parts but got 0"));
  EXPECT_THAT(part(0, {int64_t(1) << 30, 2}, int64_t(1) << 40, 1), HasSubstr("too large"));
  EXPECT_THAT(part(2, {1, 2}, 4, 1), HasSubstr("offset 2 is not aligned for f32"));
  EXPECT_EQ(part(0, {4, 2}, 8, 1), "");
  EXPECT_EQ(part(0, {4, 2}, 1, 0), "");
  EXPECT_THAT(errorOfOperand(buffer(MOERT_SPACE_ARGUMENT, MOERT_F32, 0, {4, 2}, 2, 0, 1)),
              HasSubstr("expected 'x' to be used as [4, 2] f32 or a piece of it but got 2 parts of 8 elements of "
                        "f32"));
  EXPECT_THAT(errorOfOperand(buffer(MOERT_SPACE_ARGUMENT, MOERT_F32, 0, {2, 2})),
              HasSubstr("expected 'x' to be used as [4, 2] f32 but got 4 elements of f32"));
}

// A view of an argument lies within it.
TEST(Issue, BadViews) {
  auto view = [](std::vector<int64_t> dims, int64_t parts, int64_t begin, int32_t dtype = MOERT_F32) {
    moert_buffer x = buffer(MOERT_SPACE_ARGUMENT, dtype, 0, dims, parts, 0, 1, begin);
    return errorOf([x, dims](moert_rank_t rank) {
      moert_buffer out = buffer(MOERT_SPACE_DEVICE, MOERT_F32, 0, dims);
      return moert_copy(rank, 0, &x, &out, 0);
    });
  };
  EXPECT_EQ(view({2, 2}, 1, 0), "");
  EXPECT_EQ(view({2, 2}, 1, 16), "");
  EXPECT_EQ(view({2, 2}, 0, 16), "");
  EXPECT_EQ(view({1, 2}, 2, 16), "");
  EXPECT_EQ(view({4, 2}, 0, 0), "");
  EXPECT_EQ(view({4, 2}, 1, 0), "");
  EXPECT_THAT(view({2, 2}, 0, 0), HasSubstr("expected 'x' to be used as [4, 2] f32 but got 4 elements of f32"));
  EXPECT_THAT(view({4, 2}, 1, 16), HasSubstr("or a piece of it but got 8 elements of f32 from byte 16 on"));
  EXPECT_THAT(view({2, 2}, 1, 32), HasSubstr("from byte 32 on"));
  EXPECT_EQ(view({2, 2}, 1, 8), "");
  EXPECT_THAT(view({2, 2}, 1, 20), HasSubstr("from byte 20 on"));
  EXPECT_EQ(view({3, 2}, 1, 0), "");
  EXPECT_THAT(view({3, 2}, 1, 16), HasSubstr("but got 6 elements of f32 from byte 16 on"));
  EXPECT_THAT(view({1, 2}, 4, 16), HasSubstr("but got 4 parts of 2 elements of f32 from byte 16 on"));
  EXPECT_THAT(view({0, 2}, 1, 0), HasSubstr("but got 0 elements"));
  EXPECT_THAT(view({2, 2}, 1, -16), HasSubstr("expected a begin of 0 or more that is aligned for f32 but got -16"));
  EXPECT_THAT(view({2, 2}, 1, 18), HasSubstr("aligned for f32 but got 18"));
  EXPECT_THAT(view({2, 2}, 1, INT64_MAX - 3), HasSubstr("but got"));
  EXPECT_THAT(errorOfOperand(buffer(MOERT_SPACE_DEVICE, MOERT_F32, 0, {4, 2}, 0, 0, 0, 16)),
              HasSubstr("expected a begin of 0 in an arena, where the offset includes it, but got 16"));
}

TEST(Issue, OpsAndStreams) {
  moert_buffer buffer = device(0, 4);
  auto add = [&](int64_t op, int64_t stream) {
    return errorOf([=](moert_rank_t rank) { return moert_add(rank, op, &buffer, &buffer, &buffer, stream); });
  };
  EXPECT_THAT(add(2, 0), HasSubstr("expected an op from 0 to 1 but got 2"));
  EXPECT_THAT(add(-1, 0), HasSubstr("expected an op"));
  EXPECT_THAT(add(0, 2), HasSubstr("expected a stream from 0 to 1 but got 2"));
  EXPECT_THAT(
      add(0, 1),
      HasSubstr("expected stream 'compute', which the metadata has for this op, but the program issues it on 'comm'"));
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
  EXPECT_EQ(moert_slice_counts(nullptr, 0, nullptr, nullptr, 0, nullptr, 0), MOERT_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ(moert_local_slots(nullptr, 0, nullptr, nullptr, nullptr, nullptr, 0, 0, 1, nullptr, 0),
            MOERT_ERROR_INVALID_ARGUMENT);
  EXPECT_THAT(moert_last_error(), HasSubstr("expected a rank"));
}

namespace {

/// Runs `what` on `ranks` ranks whose argument k has the values inputs[k], of f32 or i32. Returns values as double.
using Values = std::vector<double>;
struct Argument {
  int32_t dtype;
  std::vector<int64_t> dims;
  std::function<Values(int64_t rank)> values;
};

std::vector<Values> runOnArguments(int64_t ranks, Group group, const std::vector<Argument> &arguments, size_t wanted,
                                   std::function<int32_t(moert_rank_t)> what) {
  Program program = makeProgram();
  program.arenaBytes[MOERT_SPACE_HOST_PINNED] = 64;
  program.arguments.clear();
  for (const Argument &argument : arguments)
    program.arguments.push_back({"x", "input", argument.dtype, argument.dims, argument.dims, {}});
  std::vector<Group> groups{group};
  body = std::move(what);
  std::unique_ptr<World> world;
  Status status = makeWorld(program, groups, ranks, [](moert_rank_t rank) { return body(rank); }, {}, world);
  EXPECT_TRUE(status.ok()) << status.message;
  std::vector<float> floats;
  std::vector<int32_t> integers;
  for (int64_t rank = 0; rank < ranks; ++rank)
    for (size_t k = 0; k < arguments.size(); ++k) {
      Values values = arguments[k].values(rank);
      floats.assign(values.begin(), values.end());
      integers.assign(values.begin(), values.end());
      const void *data = arguments[k].dtype == MOERT_I32 ? static_cast<const void *>(integers.data()) : floats.data();
      EXPECT_TRUE(world->write(rank, static_cast<int64_t>(k), data, static_cast<int64_t>(values.size()) * 4).ok());
    }
  double seconds;
  status = world->run(&seconds);
  EXPECT_TRUE(status.ok()) << status.message;
  std::vector<Values> results;
  for (int64_t rank = 0; rank < ranks; ++rank) {
    size_t count = arguments[wanted].values(rank).size();
    floats.resize(count), integers.resize(count);
    bool integer = arguments[wanted].dtype == MOERT_I32;
    void *data = integer ? static_cast<void *>(integers.data()) : floats.data();
    EXPECT_TRUE(world->read(rank, static_cast<int64_t>(wanted), data, static_cast<int64_t>(count) * 4).ok());
    results.push_back(integer ? Values(integers.begin(), integers.end()) : Values(floats.begin(), floats.end()));
  }
  return results;
}

moert_buffer argument(int64_t index, std::vector<int64_t> dims, int32_t dtype = MOERT_F32) {
  return buffer(MOERT_SPACE_ARGUMENT, dtype, index, std::move(dims));
}

Values constant(size_t count, double value) { return Values(count, value); }

} // namespace

// Each rank moves a part of an argument to a part of the arena, and from there back to a part of an argument.
TEST(Issue, Parts) {
  auto mod4 = [](__int128 value) { return static_cast<size_t>((value % 4 + 4) % 4); };
  for (int64_t stride : {1, 2, 5})
    for (int64_t shift : {int64_t(0), int64_t(1), int64_t(-1), int64_t(6), int64_t(-7), INT64_MAX, INT64_MIN}) {
      auto part = [&](int32_t space, int64_t offset, int64_t by) {
        return buffer(space, MOERT_F32, offset, {1, 2}, 4, by, stride);
      };
      std::vector<Values> got = runOnArguments(
          6, {"ep", 2, 1},
          {{MOERT_F32, {4, 2}, [](int64_t rank) { return Values{0, 1, 2, 3, 4, 5, 6, 7.0 + 8 * double(rank)}; }},
           {MOERT_F32, {4, 2}, [](int64_t) { return constant(8, -1); }}},
          1, [&](moert_rank_t rank) {
            moert_buffer x = part(MOERT_SPACE_ARGUMENT, 0, shift), kept = part(MOERT_SPACE_DEVICE, 64, -2);
            moert_buffer y = part(MOERT_SPACE_ARGUMENT, 1, 3);
            if (int32_t code = moert_copy(rank, 0, &x, &kept, 0))
              return code;
            return moert_copy(rank, 0, &kept, &y, 0);
          });
      for (int64_t rank = 0; rank < 6; ++rank) {
        Values want = constant(8, -1);
        size_t from = mod4(__int128(rank / stride) + shift), to = mod4(rank / stride + 3);
        for (size_t i = 0; i < 2; ++i)
          want[2 * to + i] = 2 * from + i == 7 ? 7.0 + 8 * double(rank) : double(2 * from + i);
        EXPECT_EQ(got[static_cast<size_t>(rank)], want) << rank << " " << stride << " " << shift;
      }
    }
}

/// Ranks add 1 to an argument as often as another argument says, at most `most` times. Members of pairs sum in each
/// iteration.
static int32_t addRepeatedly(moert_rank_t rank, int64_t most) {
  static const moert_group pair = {"ep", 2, 1};
  moert_buffer times = argument(0, {1}, MOERT_I32), one = argument(1, {1}), sum = argument(2, {1});
  int64_t count = -1;
  if (int32_t code = moert_repeat(rank, &times, most, 0, &count))
    return code;
  for (int64_t iteration = 0; iteration < count; ++iteration) {
    if (int32_t code = moert_iteration(rank, iteration))
      return code;
    auto follow = [&](int64_t from, int64_t to) {
      int32_t code = moert_record(rank, from, from);
      return code ? code : moert_wait(rank, from, to);
    };
    if (int32_t code = moert_add(rank, 0, &sum, &one, &sum, 0))
      return code;
    if (int32_t code = follow(0, 1))
      return code;
    if (int32_t code = moert_all_reduce(rank, 1, &sum, nullptr, &sum, &pair, 1))
      return code;
    if (int32_t code = follow(1, 0))
      return code;
  }
  if (int32_t code = moert_iteration(rank, -1))
    return code;
  return moert_scale(rank, 0, &sum, &sum, 10, 0);
}

// Pairs may run a loop for different numbers of iterations, and calls behind the loop run once.
TEST(Issue, Repetitions) {
  std::vector<Values> got = runOnArguments(4, {"ep", 2, 1},
                                           {{MOERT_I32, {1}, [](int64_t rank) { return Values{rank < 2 ? 2.0 : 0.0}; }},
                                            {MOERT_F32, {1}, [](int64_t) { return Values{1}; }},
                                            {MOERT_F32, {1}, [](int64_t) { return Values{0}; }}},
                                           2, [](moert_rank_t rank) { return addRepeatedly(rank, 3); });
  EXPECT_EQ(got, (std::vector<Values>{{60}, {60}, {0}, {0}}));
}

// A view of an argument, whole or in parts, moves to the host's memory and back to a view of another argument.
TEST(Issue, ViewsAndHostMemory) {
  std::vector<Values> got =
      runOnArguments(2, {"ep", 2, 1},
                     {{MOERT_F32, {4, 2}, [](int64_t) { return Values{0, 1, 2, 3, 4, 5, 6, 7}; }},
                      {MOERT_F32, {4, 2}, [](int64_t) { return constant(8, -1); }}},
                     1, [](moert_rank_t rank) {
                       // Row 2 on rank 0 and row 3 on rank 1 move through both arenas to row 1.
                       moert_buffer x = buffer(MOERT_SPACE_ARGUMENT, MOERT_F32, 0, {1, 2}, 2, 0, 1, 16);
                       moert_buffer y = buffer(MOERT_SPACE_ARGUMENT, MOERT_F32, 1, {1, 2}, 1, 0, 1, 8);
                       moert_buffer host = buffer(MOERT_SPACE_HOST_PINNED, MOERT_F32, 32, {1, 2});
                       moert_buffer kept = buffer(MOERT_SPACE_DEVICE, MOERT_F32, 8, {1, 2});
                       for (auto [from, to] : {std::pair{&x, &kept}, {&kept, &host}, {&host, &kept}, {&kept, &y}})
                         if (int32_t code = moert_copy(rank, 0, from, to, 0))
                           return code;
                       return int32_t(MOERT_OK);
                     });
  EXPECT_EQ(got, (std::vector<Values>{{-1, -1, 4, 5, -1, -1, -1, -1}, {-1, -1, 6, 7, -1, -1, -1, -1}}));
}

// The measured bytes of an arena end with the last buffer that any call used on that rank.
TEST(World, TouchedBytes) {
  Program roomy = program;
  roomy.arenaBytes[MOERT_SPACE_HOST_PINNED] = 128;
  body = [](moert_rank_t rank) {
    moert_buffer low = device(0, 1), part = buffer(MOERT_SPACE_DEVICE, MOERT_F32, 64, {1, 2}, 2, 0, 1);
    moert_buffer none = device(256, 0), host = buffer(MOERT_SPACE_HOST_PINNED, MOERT_F32, 24, {1, 2});
    for (auto [from, to] : {std::pair{&low, &part}, {&none, &none}, {&low, &host}})
      if (int32_t code = moert_copy(rank, 0, from, to, 0))
        return code;
    return int32_t(MOERT_OK);
  };
  std::unique_ptr<World> world;
  ASSERT_TRUE(makeWorld(roomy, groups, 2, [](moert_rank_t rank) { return body(rank); }, {}, world).ok());
  EXPECT_EQ(touched(*world, 0, MOERT_SPACE_DEVICE), 0);
  double seconds;
  for (int step = 0; step < 2; ++step) {
    Status status = world->run(&seconds);
    ASSERT_TRUE(status.ok()) << status.message;
    EXPECT_EQ(touched(*world, 0, MOERT_SPACE_DEVICE), 72);
    EXPECT_EQ(touched(*world, 1, MOERT_SPACE_DEVICE), 80);
    EXPECT_EQ(touched(*world, 1, MOERT_SPACE_HOST_PINNED), 32);
  }
}

// Attributes arrive in their order. Each case differs from every other order.
TEST(Issue, Attributes) {
  Group all{"all", 4, 1};
  static const moert_group kAll = {"all", 4, 1};
  auto rankly = [](size_t count) {
    return [count](int64_t rank) {
      Values values;
      for (size_t i = 0; i < count; ++i)
        values.push_back(double(10 * rank) + double(i));
      return values;
    };
  };
  auto blank = [](size_t count) { return [count](int64_t) { return constant(count, -1); }; };

  std::vector<Values> got = runOnArguments(1, {"one", 1, 1}, {{MOERT_F32, {4}, rankly(4)}, {MOERT_F32, {8}, blank(8)}},
                                           1, [](moert_rank_t rank) {
                                             moert_buffer in = argument(0, {1, 4}), out = argument(1, {1, 8});
                                             return moert_dump(rank, 0, &in, &out, 1, 2, 0);
                                           });
  EXPECT_EQ(got[0], (Values{0, 1, 0, 1, 2, 3, 2, 3}));
  got = runOnArguments(1, {"one", 1, 1}, {{MOERT_F32, {8}, rankly(8)}, {MOERT_F32, {4}, blank(4)}}, 1,
                       [](moert_rank_t rank) {
                         moert_buffer in = argument(0, {1, 8}), out = argument(1, {1, 4});
                         return moert_local_reduce(rank, 0, &in, &out, 1, 2, 0);
                       });
  EXPECT_EQ(got[0], (Values{0 + 2, 1 + 3, 4 + 6, 5 + 7}));

  // Two tokens have one choice each, in two chunks of two rows: expert 1, then expert 0.
  got =
      runOnArguments(1, {"one", 1, 1},
                     {{MOERT_F32, {2, 2}, [](int64_t) { return Values{0, 1, 1, 0}; }},
                      {MOERT_F32, {2, 2}, blank(4)},
                      {MOERT_I32, {2, 1}, blank(2)},
                      {MOERT_I32, {2, 1}, blank(2)},
                      {MOERT_F32, {2, 1}, blank(2)},
                      {MOERT_I32, {2, 2}, blank(4)},
                      {MOERT_F32, {1}, blank(1)}},
                     3, [](moert_rank_t rank) {
                       moert_buffer logits = argument(0, {2, 2}), scores = argument(1, {2, 2});
                       moert_buffer experts = argument(2, {2, 1}, MOERT_I32), slots = argument(3, {2, 1}, MOERT_I32);
                       moert_buffer weights = argument(4, {2, 1}), counts = argument(5, {2, 2}, MOERT_I32);
                       moert_buffer aux = argument(6, {});
                       return moert_route(rank, 0, &logits, nullptr, &scores, &experts, &slots, &weights, &counts, &aux,
                                          MOERT_SOFTMAX, 1, 1, 1, MOERT_GROUP_MAX, 0, 1, 2, 3, -1, 1, 1, 1, 1.0, 0);
                     });
  EXPECT_EQ(got[0], (Values{0, 3}));

  // No choice may leave home, which is (rank / 2 + token / 3) mod 2 of two homes of one expert.
  got =
      runOnArguments(4, all,
                     {{MOERT_F32, {6, 2}, [](int64_t) { return Values{0, 9, 9, 0, 0, 9, 9, 0, 0, 9, 9, 0}; }},
                      {MOERT_F32, {6, 2}, blank(12)},
                      {MOERT_I32, {6, 1}, blank(6)},
                      {MOERT_I32, {6, 1}, blank(6)},
                      {MOERT_F32, {6, 1}, blank(6)},
                      {MOERT_I32, {1, 2}, blank(2)},
                      {MOERT_F32, {1}, blank(1)}},
                     2, [](moert_rank_t rank) {
                       moert_buffer logits = argument(0, {6, 2}), scores = argument(1, {6, 2});
                       moert_buffer experts = argument(2, {6, 1}, MOERT_I32), slots = argument(3, {6, 1}, MOERT_I32);
                       moert_buffer weights = argument(4, {6, 1}), counts = argument(5, {1, 2}, MOERT_I32);
                       moert_buffer aux = argument(6, {});
                       return moert_route(rank, 0, &logits, nullptr, &scores, &experts, &slots, &weights, &counts, &aux,
                                          MOERT_SOFTMAX, 0, 1, 1, MOERT_GROUP_MAX, 0, 6, 1, 0, 0, 2, 2, 3, 1.0, 0);
                     });
  for (int64_t rank = 0; rank < 4; ++rank)
    EXPECT_EQ(got[static_cast<size_t>(rank)], rank < 2 ? (Values{0, 0, 0, 1, 1, 1}) : (Values{1, 1, 1, 0, 0, 0}));

  // out = addend + 1 row of one expert. The bias is also scaled.
  auto gradient = [&](bool bias) {
    return runOnArguments(1, {"one", 1, 1},
                          {{MOERT_F32, {1, 1, 1}, [](int64_t) { return Values{3}; }},
                           {MOERT_F32, {1, 1, 1}, [](int64_t) { return Values{5}; }},
                           {MOERT_F32, {1, 1, 1}, [](int64_t) { return Values{100}; }},
                           {MOERT_F32, {1, 1, 1}, blank(1)}},
                          3, [bias](moert_rank_t rank) {
                            moert_buffer rows = argument(0, {1, 1, 1}), grads = argument(1, {1, 1, 1});
                            moert_buffer addend = argument(2, {1, 1, 1}), out = argument(3, {1, 1, 1});
                            moert_buffer flatAddend = argument(2, {1, 1}), flatOut = argument(3, {1, 1});
                            if (bias)
                              return moert_bias_grad(rank, 0, &grads, nullptr, &flatAddend, &flatOut, 2.0, 0);
                            return moert_grouped_matmul_wgrad(rank, 0, &rows, &grads, nullptr, &addend, &out, 0);
                          });
  };
  EXPECT_EQ(gradient(false)[0], (Values{115}));
  EXPECT_EQ(gradient(true)[0], (Values{110}));

  // Block 0 is ranks 0 and 1, block 1 ranks 2 and 3. Each gets rows from the other block.
  got =
      runOnArguments(4, all, {{MOERT_F32, {2, 1}, rankly(2)}, {MOERT_F32, {1, 2}, blank(2)}}, 1, [](moert_rank_t rank) {
        moert_buffer in = argument(0, {2, 1}), out = argument(1, {1, 2});
        return moert_all_to_all(rank, 1, &in, &out, 0, 1, 2, 1, 2, &kAll, 1);
      });
  EXPECT_EQ(got, (std::vector<Values>{{20, 30}, {20, 30}, {1, 11}, {1, 11}}));

  // Two experts are each on two members. The second member gets the second copy.
  got = runOnArguments(4, all,
                       {{MOERT_F32, {4, 1}, rankly(4)},
                        {MOERT_I32, {1, 2}, [](int64_t) { return constant(2, 1); }},
                        {MOERT_I32, {4, 1}, [](int64_t) { return constant(4, 1); }},
                        {MOERT_F32, {4, 1}, blank(4)}},
                       3, [](moert_rank_t rank) {
                         moert_buffer rows = argument(0, {4, 1}), blocks = argument(1, {1, 2}, MOERT_I32);
                         moert_buffer experts = argument(2, {4, 1}, MOERT_I32), out = argument(3, {4, 1});
                         return moert_all_to_all_v(rank, 1, &rows, &blocks, &experts, nullptr, &out, MOERT_TO_EXPERTS,
                                                   2, 2, 0, 1, &kAll, 1);
                       });
  EXPECT_EQ(got, (std::vector<Values>{{0, 10, 20, 30}, {2, 12, 22, 32}, {1, 11, 21, 31}, {3, 13, 23, 33}}));

  // Experts on one member each send back the rows of the other half. The rest is the addend.
  got = runOnArguments(4, all,
                       {{MOERT_F32, {2, 1}, rankly(2)},
                        {MOERT_I32, {1, 4}, [](int64_t) { return constant(4, 1); }},
                        {MOERT_I32, {2, 1}, [](int64_t) { return constant(2, 1); }},
                        {MOERT_F32, {4, 1}, [](int64_t) { return constant(4, 7); }},
                        {MOERT_F32, {4, 1}, blank(4)}},
                       4, [](moert_rank_t rank) {
                         moert_buffer rows = argument(0, {2, 1}), blocks = argument(1, {1, 4}, MOERT_I32);
                         moert_buffer experts = argument(2, {2, 1}, MOERT_I32), addend = argument(3, {4, 1});
                         moert_buffer out = argument(4, {4, 1});
                         return moert_all_to_all_v(rank, 1, &rows, &blocks, &experts, &addend, &out, MOERT_FROM_EXPERTS,
                                                   1, 1, 1, 2, &kAll, 1);
                       });
  EXPECT_EQ(got, (std::vector<Values>{{7, 7, 20, 30}, {7, 7, 21, 31}, {0, 10, 7, 7}, {1, 11, 7, 7}}));

  // The groups are ranks 0 and 2, and 1 and 3: rows 0 to 3 and 4 to 7.
  got = runOnArguments(4, {"far", 2, 2},
                       {{MOERT_I32, {1, 3}, [](int64_t) { return Values{1, 4, 2}; }}, {MOERT_I32, {1, 3}, blank(3)}}, 1,
                       [](moert_rank_t rank) {
                         static const moert_group far = {"far", 2, 2};
                         moert_buffer counts = argument(0, {1, 3}, MOERT_I32), out = argument(1, {1, 3}, MOERT_I32);
                         return moert_slice_counts(rank, 0, &counts, &out, 8, &far, 0);
                       });
  EXPECT_EQ(got, (std::vector<Values>{{1, 3, 0}, {1, 3, 0}, {0, 1, 2}, {0, 1, 2}}));

  // Ranks 0 and 1 hold expert 0, ranks 2 and 3 expert 1, of 2 rows each. The choices are rows 0, 2 and 3.
  for (auto [capacity, room] : {std::pair<int64_t, int64_t>{2, 0}, {0, 2}}) {
    got = runOnArguments(4, {"all", 4, 1},
                         {{MOERT_I32, {3, 1}, [](int64_t) { return Values{0, 2, 3}; }},
                          {MOERT_I32, {1, 2}, [](int64_t) { return Values{2, 1}; }},
                          {MOERT_I32, {3, 1}, blank(3)},
                          {MOERT_I32, {1, 1}, blank(1)}},
                         2, [capacity = capacity, room = room](moert_rank_t rank) {
                           static const moert_group all = {"all", 4, 1};
                           moert_buffer slots = argument(0, {3, 1}, MOERT_I32), counts = argument(1, {1, 2}, MOERT_I32);
                           moert_buffer out = argument(2, {3, 1}, MOERT_I32), own = argument(3, {1, 1}, MOERT_I32);
                           return moert_local_slots(rank, 0, &slots, &counts, &out, &own, capacity, room, 2, &all, 0);
                         });
    // In the packed form, the second expert has only row 2.
    double third = capacity ? 1 : -1;
    EXPECT_EQ(got, (std::vector<Values>{{0, -1, -1}, {0, -1, -1}, {-1, 0, third}, {-1, 0, third}}));
  }
}

// The decision is that of moert_shadows_choose, and every attribute is in its place.
TEST(Issue, ChooseShadows) {
  std::mt19937_64 engine(1);
  auto between = [&](double low, double high) { return std::uniform_real_distribution<double>(low, high)(engine); };
  for (int round = 0; round < 30; ++round) {
    Values counts(64);
    for (size_t i = 0; i < 64; ++i)
      counts[i] = std::floor(1000 * std::pow(between(0, 1), 1 + double(i % 8)));
    moert_shadow_costs costs{
        sizeof(moert_shadow_costs), uint32_t(round % 3), 8, 4, 1 + round % 5, 2500, 2, 0, 0, 0, 0, 0, 0, 0};
    costs.row_compute = between(1, 4), costs.row_send = between(0, 2), costs.row_local = between(0, 3);
    costs.row_node = between(0, 1), costs.expert = between(100, 900), costs.start = between(0, 100);
    std::vector<Values> got = runOnArguments(
        1, {"one", 1, 1},
        {{MOERT_I32, {8, 8}, [&](int64_t) { return counts; }}, {MOERT_I32, {1, 8}, [](int64_t) { return Values(8); }}},
        1, [costs](moert_rank_t rank) {
          moert_buffer in = argument(0, {8, 8}, MOERT_I32), out = argument(1, {1, 8}, MOERT_I32);
          return moert_choose_shadows(rank, 0, &in, &out, costs.policy, costs.workers, costs.node_workers, costs.most,
                                      costs.room, costs.phases, costs.row_compute, costs.row_send, costs.row_local,
                                      costs.row_node, costs.expert, costs.start, 0);
        });
    std::vector<int32_t> integers(counts.begin(), counts.end()), want(8);
    EXPECT_EQ(moert_shadows_choose(&costs, integers.data(), 8, 8, want.data()), 0);
    EXPECT_EQ(got[0], Values(want.begin(), want.end()));
  }
}

// Operands of shadows arrive in their order. Expert 1 of two is a shadow.
TEST(Issue, Shadows) {
  Group all{"all", 2, 1};
  static const moert_group kAll = {"all", 2, 1};
  auto blank = [](size_t count) { return [count](int64_t) { return constant(count, -1); }; };
  std::vector<Argument> operands = {{MOERT_F32, {1, 1}, [](int64_t rank) { return Values{5 + double(rank)}; }},
                                    {MOERT_I32, {1, 2}, [](int64_t) { return Values{0, 1}; }},
                                    {MOERT_F32, {1, 1}, [](int64_t rank) { return Values{100 + double(rank)}; }},
                                    {MOERT_F32, {1, 1}, blank(1)}};
  auto got = [&](auto what) { return runOnArguments(2, all, operands, 3, what); };
  moert_buffer in = argument(0, {1, 1}), shadows = argument(1, {1, 2}, MOERT_I32), addend = argument(2, {1, 1});
  moert_buffer out = argument(3, {1, 1});
  EXPECT_EQ(got([&](moert_rank_t rank) { return moert_broadcast_experts(rank, 1, &in, &shadows, &out, &kAll, 1); }),
            (std::vector<Values>{{6}, {6}}));
  EXPECT_EQ(
      got([&](moert_rank_t rank) { return moert_reduce_experts(rank, 1, &in, &shadows, &addend, &out, &kAll, 1); }),
      (std::vector<Values>{{100}, {101 + 5 + 6}}));

  // Two tokens of one choice, in two chunks of three rows: expert 1, which is the shadow, and expert 0.
  auto divided = [&](size_t wanted) {
    return runOnArguments(1, {"one", 1, 1},
                          {{MOERT_I32, {2, 1}, [](int64_t) { return Values{1, 0}; }},
                           {MOERT_I32, {1, 2}, [](int64_t) { return Values{0, 1}; }},
                           {MOERT_I32, {2, 1}, blank(2)},
                           {MOERT_I32, {2, 2}, blank(4)},
                           {MOERT_I32, {2, 1}, blank(2)},
                           {MOERT_I32, {1, 1}, blank(1)}},
                          wanted, [](moert_rank_t rank) {
                            moert_buffer experts = argument(0, {2, 1}, MOERT_I32),
                                         shadows = argument(1, {1, 2}, MOERT_I32);
                            moert_buffer slots = argument(2, {2, 1}, MOERT_I32),
                                         counts = argument(3, {2, 2}, MOERT_I32);
                            moert_buffer shadowSlots = argument(4, {2, 1}, MOERT_I32);
                            moert_buffer shadowCounts = argument(5, {1, 1}, MOERT_I32);
                            return moert_divide_choices(rank, 0, &experts, &shadows, &slots, &counts, &shadowSlots,
                                                        &shadowCounts, 2, 3, 0);
                          })[0];
  };
  EXPECT_EQ(divided(2), (Values{-1, 3}));
  EXPECT_EQ(divided(3), (Values{0, 0, 1, 0}));
  EXPECT_EQ(divided(4), (Values{0, -1}));
  EXPECT_EQ(divided(5), (Values{1}));
}

// A phase's rows to the experts are a part of the block side, and so are the rows by which it is timed.
TEST(World, UsedRows) {
  Program ragged = program;
  ragged.arguments = {{"rows", "input", MOERT_F32, {6, 1}, {6, 1}, {{}, {}}},
                      {"blocks", "input", MOERT_I32, {1, 2}, {1, 2}, {{}, {}}},
                      {"experts", "input", MOERT_I32, {1, 1}, {1, 1}, {{}, {}}},
                      {"out", "input", MOERT_F32, {9, 1}, {9, 1}, {{}, {}}}};
  body = [](moert_rank_t rank) {
    moert_buffer rows = buffer(MOERT_SPACE_ARGUMENT, MOERT_F32, 0, {6, 1}), out = rows;
    moert_buffer blocks = buffer(MOERT_SPACE_ARGUMENT, MOERT_I32, 1, {1, 2}), experts = blocks;
    out.offset = 3, out.dims[0] = 9;
    experts.offset = 2, experts.dims[1] = 1;
    return moert_all_to_all_v(rank, 1, &rows, &blocks, &experts, nullptr, &out, MOERT_TO_EXPERTS, 1, 1, 1, 2, &kEp, 1);
  };
  std::unique_ptr<World> world;
  ASSERT_TRUE(makeWorld(ragged, groups, 2, [](moert_rank_t rank) { return body(rank); }, {}, world).ok());
  const int32_t blocks[2][2] = {{1, 2}, {3, 3}};
  for (int64_t rank : {0, 1}) {
    ASSERT_TRUE(world->write(rank, 1, blocks[rank], 8).ok());
    ASSERT_TRUE(world->write(rank, 2, &blocks[1 - rank][rank], 4).ok());
  }
  double seconds;
  Status status = world->run(&seconds);
  ASSERT_TRUE(status.ok()) << status.message;
  for (int64_t rank : {0, 1}) {
    std::vector<moert_op_time> times;
    ASSERT_TRUE(world->timeline(rank, times).ok());
    auto exchange =
        std::find_if(times.begin(), times.end(), [](const moert_op_time &time) { return time.stream == 1; });
    ASSERT_NE(exchange, times.end());
    EXPECT_EQ(exchange->rows, 2 + rank);
  }
}

// A world that does not fit is refused before any memory is touched.
TEST(World, OutOfMemory) {
  Program big = program;
  big.arenaBytes[MOERT_SPACE_DEVICE] = int64_t(1) << 45;
  std::unique_ptr<World> world;
  for (int64_t ranks : {2, 4096}) {
    Status status = makeWorld(big, groups, ranks, nullptr, {}, world);
    EXPECT_EQ(status.code, MOERT_ERROR_OUT_OF_MEMORY);
    EXPECT_THAT(status.message, HasSubstr("a world of " + std::to_string(ranks) + " ranks"));
    EXPECT_THAT(status.message, HasSubstr("available"));
  }
  host::Block block;
  EXPECT_THAT(host::allocateBlock(int64_t(1) << 60, "nothing", block).message, HasSubstr("for nothing"));
}

TEST(World, ReadAndWrite) {
  std::unique_ptr<World> world;
  ASSERT_TRUE(makeWorld(program, groups, 2, nullptr, {}, world).ok());
  float values[8] = {1, 2, 3}, got[8];
  EXPECT_TRUE(world->write(1, 0, values, 32).ok());
  EXPECT_TRUE(world->read(1, 0, got, 32).ok());
  EXPECT_EQ(got[2], 3);
  EXPECT_THAT(world->read(1, 0, got, 16).message, HasSubstr("expected 32 bytes for 'x'"));
  EXPECT_THAT(world->read(2, 0, got, 32).message, HasSubstr("expected a rank below 2 but got 2"));
  EXPECT_THAT(world->read(0, 1, got, 32).message, HasSubstr("index"));
}

TEST(World, Backends) {
  std::unique_ptr<World> world;
  WorldOptions options;
  options.backend = "cuda";
  Status status = makeWorld(program, groups, 2, nullptr, options, world);
  EXPECT_EQ(status.code, MOERT_ERROR_UNSUPPORTED);
  EXPECT_THAT(status.message, HasSubstr("CUDA"));
  options.backend = "tpu";
  EXPECT_THAT(makeWorld(program, groups, 2, nullptr, options, world).message, HasSubstr("unknown backend 'tpu'"));
}

namespace {

/// Sets MOERT_GUARD during the life of this object.
struct GuardVariable {
  explicit GuardVariable(const char *text) { ::setenv("MOERT_GUARD", text, 1); }
  ~GuardVariable() { ::unsetenv("MOERT_GUARD"); }
};

/// Error of a step that adds bytes 0 to 32 of the arena to themselves, into bytes 32 to 64, and writes a byte at
/// `offset` from the sum.
std::string errorOfWriteAt(int64_t offset) {
  body = [offset](moert_rank_t rank) {
    const moert_buffer in = device(0, 4), out = device(32, 4);
    if (View sum{nullptr, MOERT_F32, 1, {8}}; rank->instrument && rank->instrument->place(*rank, out, 32, sum).ok())
      sum.as<char>()[offset] = 7;
    return moert_add(rank, 0, &in, &in, &out, 0);
  };
  std::unique_ptr<World> world;
  Status status = makeWorld(program, groups, 2, [](moert_rank_t rank) { return body(rank); }, {}, world);
  return status.ok() ? world->run(nullptr).message : status.message;
}

} // namespace

TEST(World, GuardFindsWhatIsWrittenOutsideBuffers) {
  const GuardVariable guard("64");
  EXPECT_EQ(errorOfWriteAt(0), "");
  EXPECT_THAT(errorOfWriteAt(32),
              HasSubstr("rank 0: a call wrote outside its buffers: 1 of the 64 bytes after a buffer "
                        "changed, the first 0 bytes after it; the buffer is bytes 32 to 64 of the "
                        "device arena, used by op 0 add 'layer0' of rank 0"));
  // The buffer begins at a multiple of 256, so that it is aligned as in the arena.
  EXPECT_THAT(errorOfWriteAt(-2), HasSubstr("1 of the 288 bytes before a buffer changed, the first 2 bytes before it"));
}

TEST(World, GuardOfNoBytesOnlyPutsBuffersApart) {
  const GuardVariable guard("0");
  EXPECT_EQ(errorOfWriteAt(0), "");
}

TEST(World, GuardIsANumber) {
  for (const char *text : {"x", "-1", "64k", "99999999999999999999"}) {
    const GuardVariable guard(text);
    EXPECT_EQ(errorOfWriteAt(0),
              "expected MOERT_GUARD to be a number of bytes from 0 to 2^30 but got '" + std::string(text) + "'");
  }
  const GuardVariable guard("");
  EXPECT_EQ(errorOfWriteAt(0), "");
}

TEST(World, GuardKeepsBuffersThatOverlapTogether) {
  auto entry = [](moert_rank_t rank) -> int32_t {
    // The second half of the first buffer, and a buffer next to it.
    const moert_buffer whole = device(0, 8), half = device(32, 4), next = device(64, 4);
    if (int32_t code = moert_add(rank, 0, &half, &half, &next, 0))
      return code;
    return moert_scale(rank, 0, &whole, &whole, 2, 0);
  };
  std::array<std::vector<verify::ArenaPiece>, 2> pieces;
  ASSERT_TRUE(verify::listPieces(program, groups, entry, 1, pieces).ok());
  ASSERT_EQ(pieces[MOERT_SPACE_DEVICE].size(), 2u);
  EXPECT_EQ(pieces[MOERT_SPACE_DEVICE][0].end, 64);
  EXPECT_EQ(pieces[MOERT_SPACE_DEVICE][1].begin, 64);
  EXPECT_TRUE(pieces[MOERT_SPACE_HOST_PINNED].empty());
  EXPECT_EQ(verify::findPiece(pieces[0], 60, 68), nullptr);
}
