//===- ExecutorTest.cpp ---------------------------------------------------===//

#include "core/Executor.h"
#include "core/Attributes.h"

#include <gmock/gmock.h>

#include <numeric>

using namespace moert;
using testing::HasSubstr;
using testing::Not;

namespace {

std::vector<int64_t> allOf(int64_t ranks) {
  std::vector<int64_t> all(static_cast<size_t>(ranks));
  std::iota(all.begin(), all.end(), 0);
  return all;
}

/// Log of the ops of each rank, in the order in which they ran.
class Log : public Executor::Client {
public:
  Status execute(const Executor::Place &, const Call &call) override {
    if (call.ints[0] == kFail)
      return Status::error(MOERT_ERROR_INVALID_ARGUMENT, "broken on purpose");
    if (call.ints[0] == kThrow)
      throw std::runtime_error("thrown on purpose");
    if (call.ints[0] == kSleep)
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
    auto *value = call.views[0].as<int64_t>();
    if (value)
      ++*value;
    std::lock_guard lock(mutex);
    order.push_back(call.op);
    return {};
  }
  int phases(const Call &) const override { return 2; }
  Status pull(const Executor::Gathering &gathering, int64_t member, int phase) override {
    // All members worked on the same value before, and none goes on before all have pulled twice.
    (phase ? second : first) += gathering.calls.size() > 0;
    gathering.received[static_cast<size_t>(member)] += 10 * member + phase;
    return {};
  }

  static constexpr int64_t kFail = 1, kThrow = 2, kSleep = 3;
  std::mutex mutex;
  std::vector<int32_t> order;
  std::atomic<int64_t> first = 0, second = 0;
};

Call kernel(int32_t op, int64_t what = 0, int64_t *value = nullptr) {
  Call call;
  call.kind = Kind::Add;
  call.op = op;
  call.ints[0] = what;
  call.views[0].data = value;
  return call;
}

Call collective(int32_t op, int32_t group = 0, Kind kind = Kind::AllGather) {
  Call call;
  call.kind = kind;
  call.op = op;
  call.group = group;
  return call;
}

Call transfer(int32_t op, Kind kind, int64_t peer, int32_t group = 0) {
  Call call = collective(op, group, kind);
  kind == Kind::Send ? attributes::Send{peer}.set(call) : attributes::Receive{peer}.set(call);
  return call;
}

class ExecutorTest : public testing::Test {
protected:
  ExecutorTest() {
    program.streams = {"compute", "comm"};
    program.events = 4;
    for (const char *label : {"a", "b", "c", "d", "e"}) {
      program.ops.emplace_back();
      program.ops.back().label = label;
    }
    groups = {{"ep", 2, 1}, {"dp", 2, 2}};
  }

  Status run(int64_t ranks, std::function<Status(Executor &, int64_t)> issue, int64_t workers = 2, double timeout = 0) {
    Executor executor({&program, 1}, groups, ranks, allOf(ranks), log, {workers});
    return executor.run([&](int64_t rank) { return issue(executor, rank); }, timeout);
  }

  Program program;
  std::vector<Group> groups;
  Log log;
};

/// Seconds that `body` takes.
double secondsOf(const std::function<void()> &body) {
  auto begin = std::chrono::steady_clock::now();
  body();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

} // namespace

// Calls of one stream run in the order in which they were issued.
TEST_F(ExecutorTest, StreamIsFifo) {
  Status status = run(1, [](Executor &executor, int64_t rank) {
    for (int32_t op = 0; op < 5; ++op)
      executor.submit(rank, 0, kernel(op));
    return Status{};
  });
  EXPECT_TRUE(status.ok()) << status.message;
  EXPECT_EQ(log.order, (std::vector<int32_t>{0, 1, 2, 3, 4}));
}

TEST_F(ExecutorTest, NothingToDo) {
  EXPECT_TRUE(run(3, [](Executor &, int64_t) { return Status{}; }).ok());
}

// A stream that waits goes on only after the event. An event that is recorded again is a new one.
TEST_F(ExecutorTest, EventsOrderStreams) {
  for (int repeat = 0; repeat < 200; ++repeat) {
    log.order.clear();
    Status status = run(1, [](Executor &executor, int64_t rank) {
      executor.submit(rank, 0, kernel(0));
      (void)executor.record(rank, 1, 0);
      Status waited = executor.wait(rank, 1, 1);
      executor.submit(rank, 1, kernel(1));
      (void)executor.record(rank, 1, 1);
      (void)executor.wait(rank, 1, 0);
      executor.submit(rank, 0, kernel(2));
      return waited;
    });
    ASSERT_TRUE(status.ok()) << status.message;
    ASSERT_EQ(log.order, (std::vector<int32_t>{0, 1, 2}));
  }
}

TEST_F(ExecutorTest, WaitWithoutRecord) {
  Status status = run(1, [](Executor &executor, int64_t rank) { return executor.wait(rank, 3, 1); });
  EXPECT_EQ(status.code, MOERT_ERROR_INVALID_ARGUMENT);
  EXPECT_THAT(status.message, HasSubstr("waits for event 3"));
}

// Every member pulls in every phase, also with more ranks than workers.
TEST_F(ExecutorTest, ManyRanks) {
  groups = {{"ep", 8, 1}, {"dp", 8, 8}};
  std::vector<int64_t> values(64);
  for (int64_t workers : {1, 2, 7}) {
    log.first = log.second = 0;
    std::fill(values.begin(), values.end(), 0);
    Status status = run(
        64,
        [&](Executor &executor, int64_t rank) {
          for (int32_t step = 0; step < 50; ++step) {
            executor.submit(rank, 0, kernel(0, 0, &values[static_cast<size_t>(rank)]));
            (void)executor.record(rank, 0, 0);
            (void)executor.wait(rank, 0, 1);
            executor.submit(rank, 1, collective(1, step % 2));
          }
          return Status{};
        },
        workers);
    EXPECT_TRUE(status.ok()) << status.message;
    EXPECT_EQ(values, std::vector<int64_t>(64, 50));
    EXPECT_EQ(log.first, 64 * 50);
    EXPECT_EQ(log.second, 64 * 50);
  }
}

// One rank issues for all of its program, and each rank gets its own operands.
TEST_F(ExecutorTest, AlikeRanks) {
  std::vector<int64_t> values(5);
  std::vector<int32_t> times = {0, 2, 1, 2, 0};
  std::atomic<int64_t> issued = 0;
  moert_buffer place{}, loop{};
  Executor::Options options{/*workers=*/1};
  options.issuesOnce = true;
  options.bind = [&](int64_t rank, Call &call) {
    call.rank = rank;
    call.views[0].data = call.buffers[0] ? &values[static_cast<size_t>(rank)] : nullptr;
    call.repetition.times.data = call.repetition.times ? &times[static_cast<size_t>(rank)] : nullptr;
    return Status{};
  };
  Executor executor({&program, 1}, groups, 5, allOf(5), log, options);
  for (int step = 1; step <= 2; ++step) {
    Status status = executor.run(
        [&](int64_t rank) {
          ++issued;
          Call call = kernel(0, 0, &values[static_cast<size_t>(rank)]);
          call.viewCount = 1;
          call.buffers[0] = &place;
          executor.submit(rank, 0, call);
          call.repetition = {{&times[static_cast<size_t>(rank)], MOERT_I32}, /*most=*/2, /*iteration=*/0, &loop};
          for (; call.repetition.iteration < 2; ++call.repetition.iteration)
            executor.submit(rank, 0, call);
          return Status{};
        },
        0);
    EXPECT_TRUE(status.ok()) << status.message;
    EXPECT_EQ(issued, step);
    for (size_t rank = 0; rank < 5; ++rank)
      EXPECT_EQ(values[rank], step * (1 + times[rank])) << rank;
  }
}

// A collective that one member never issues is found at once. The message says which rank waits for which.
TEST_F(ExecutorTest, HangOnMissingMember) {
  Status status = run(4, [](Executor &executor, int64_t rank) {
    if (rank != 3)
      executor.submit(rank, 1, collective(2));
    return Status{};
  });
  EXPECT_EQ(status.code, MOERT_ERROR_HANG);
  EXPECT_THAT(status.message, HasSubstr("hang: 1 of 8 streams"));
  EXPECT_THAT(status.message, HasSubstr("rank 2: op 2 all_gather 'c' on stream 'comm' on group 'ep' of ranks 2, 3 "
                                        "waits for ranks 3 (at its end)"));
}

// Two groups meet in opposite orders, so each waits for the other. The message also names the streams behind an event.
TEST_F(ExecutorTest, HangOnCrossedGroups) {
  Status status = run(4, [](Executor &executor, int64_t rank) {
    bool flip = rank == 0 || rank == 3;
    executor.submit(rank, 1, collective(flip ? 1 : 0, flip));
    executor.submit(rank, 1, collective(flip ? 0 : 1, !flip));
    (void)executor.record(rank, 2, 1);
    return executor.wait(rank, 2, 0);
  });
  EXPECT_EQ(status.code, MOERT_ERROR_HANG);
  EXPECT_THAT(status.message, HasSubstr("rank 0: op 1 all_gather 'b' on stream 'comm' on group 'dp' of ranks 0, 2"));
  EXPECT_THAT(status.message, HasSubstr("rank 1: op 0 all_gather 'a' on stream 'comm' on group 'ep' of ranks 0, 1 "
                                        "waits for ranks 0\n"));
  EXPECT_THAT(status.message, HasSubstr("rank 0: stream 'compute' waits for event 2 of stream 'comm'"));
}

// A long list of stuck ranks is shortened.
TEST_F(ExecutorTest, HangTextIsShort) {
  groups = {{"all", 64, 1}};
  Status status = run(64, [](Executor &executor, int64_t rank) {
    if (rank < 40)
      executor.submit(rank, 0, collective(0));
    return Status{};
  });
  EXPECT_EQ(status.code, MOERT_ERROR_HANG);
  EXPECT_THAT(status.message, HasSubstr("and 32 more"));
  EXPECT_LT(status.message.size(), 4000u);
}

TEST_F(ExecutorTest, MismatchNamesBoth) {
  Status status = run(2, [](Executor &executor, int64_t rank) {
    executor.submit(rank, 1, rank ? collective(3, 0, Kind::AllReduce) : collective(1));
    return Status{};
  });
  EXPECT_EQ(status.code, MOERT_ERROR_INVALID_ARGUMENT);
  EXPECT_THAT(status.message, HasSubstr("group 'ep'"));
  EXPECT_THAT(status.message, HasSubstr("rank 0 is at op 1 all_gather 'b'"));
  EXPECT_THAT(status.message, HasSubstr("rank 1 is at op 3 all_reduce 'd'"));
}

TEST_F(ExecutorTest, MismatchOfSizes) {
  Status status = run(2, [](Executor &executor, int64_t rank) {
    Call call = collective(1);
    call.viewCount = 1;
    call.views[0] = {&call, MOERT_F32, 1, {rank + 5}};
    executor.submit(rank, 1, call);
    return Status{};
  });
  EXPECT_THAT(status.message, HasSubstr("[5] f32"));
  EXPECT_THAT(status.message, HasSubstr("[6] f32"));
}

// The first error ends the step on all ranks, and the executor can be used again.
TEST_F(ExecutorTest, ErrorsEndTheStep) {
  Executor executor({&program, 1}, groups, 4, allOf(4), log, {2});
  for (int64_t what : {Log::kFail, Log::kThrow}) {
    Status status = executor.run(
        [&](int64_t rank) {
          executor.submit(rank, 0, kernel(4, rank == 2 ? what : 0));
          executor.submit(rank, 0, collective(1));
          return Status{};
        },
        0);
    EXPECT_FALSE(status.ok());
    EXPECT_THAT(status.message, HasSubstr("on purpose"));
    if (what == Log::kFail) {
      EXPECT_THAT(status.message, HasSubstr("rank 2, op 4 add 'e' on stream 'compute'"));
    }
  }
  EXPECT_TRUE(executor
                  .run(
                      [&](int64_t rank) {
                        executor.submit(rank, 0, collective(1));
                        return Status{};
                      },
                      0)
                  .ok());
  EXPECT_EQ(executor.timeline(3, 0).size(), 1u);
  EXPECT_GE(executor.timeline(3, 0)[0].end, executor.timeline(3, 0)[0].begin);
}

// The received bytes of a member are the sum over the phases. Calls that are no collective have -1.
TEST_F(ExecutorTest, CountsWhatIsReceived) {
  Executor executor({&program, 1}, groups, 4, allOf(4), log, {2});
  auto issue = [&](int64_t rank) {
    executor.submit(rank, 0, kernel(0));
    executor.submit(rank, 0, collective(1));
    executor.submit(rank, 0, collective(1, 1));
    return Status{};
  };
  for (int repeat = 0; repeat < 2; ++repeat) {
    ASSERT_TRUE(executor.run(issue, 0).ok());
    for (int64_t rank = 0; rank < 4; ++rank) {
      const std::vector<OpTime> &times = executor.timeline(rank, 0);
      ASSERT_EQ(times.size(), 3u);
      EXPECT_EQ(times[0].received, -1);
      EXPECT_EQ(times[1].received, 20 * (rank % 2) + 1);
      EXPECT_EQ(times[2].received, 20 * (rank / 2) + 1);
    }
  }
}

TEST_F(ExecutorTest, ErrorOfIssue) {
  Status status = run(4, [](Executor &, int64_t rank) {
    return rank == 1 ? Status::error(MOERT_ERROR_OVERFLOW, "not today") : Status{};
  });
  EXPECT_EQ(status.code, MOERT_ERROR_OVERFLOW);
  EXPECT_EQ(status.message, "not today");
}

TEST_F(ExecutorTest, TimeOut) {
  Status status = run(
      1,
      [](Executor &executor, int64_t rank) {
        for (int i = 0; i < 100; ++i)
          executor.submit(rank, 0, kernel(1, Log::kSleep));
        return Status{};
      },
      1, 0.1);
  EXPECT_EQ(status.code, MOERT_ERROR_HANG);
  EXPECT_THAT(status.message, HasSubstr("time-out of 0.1"));
  EXPECT_THAT(status.message, HasSubstr("rank 0: op 1 add 'b' on stream 'compute'"));
  EXPECT_LT(log.order.size(), 50u);
}

// Emulated transfers of different streams, collective or not, take their time side by side and without a worker. Those
// of one stream follow each other, each from the arrival of its last member.
TEST_F(ExecutorTest, EmulatesTransfers) {
  constexpr double kSeconds = 0.25;
  program.ops[1].seconds = program.ops[2].seconds = kSeconds;
  for (int64_t workers : {1, 2, 5}) {
    Executor executor({&program, 1}, groups, 4, allOf(4), log, {workers, true});
    double seconds = secondsOf([&] {
      Status status = executor.run(
          [&](int64_t rank) {
            executor.submit(rank, 0, collective(1));
            executor.submit(rank, 0, collective(1));
            executor.submit(rank, 1, kernel(2));
            executor.submit(rank, 1, kernel(2));
            executor.submit(rank, 1, kernel(3));
            return Status{};
          },
          60);
      ASSERT_TRUE(status.ok()) << status.message;
    });
    EXPECT_GE(seconds, 2 * kSeconds);
    // The sum over the streams of one rank would be 4.
    EXPECT_LT(seconds, 3.5 * kSeconds);
    for (int64_t rank = 0; rank < 4; ++rank)
      for (int64_t stream : {0, 1}) {
        const std::vector<OpTime> &times = executor.timeline(rank, stream);
        ASSERT_EQ(times.size(), stream ? 3u : 2u);
        for (size_t i : {0, 1})
          EXPECT_GE(times[i].end - times[i].begin, int64_t(kSeconds * 1e9));
        EXPECT_GE(times[1].begin, times[0].end);
        EXPECT_EQ(times[0].received, stream ? -1 : 20 * (rank % 2) + 1);
      }
  }
}

// Without emulation the seconds have no effect.
TEST_F(ExecutorTest, SecondsAloneAreNoDelay) {
  program.ops[1].seconds = 3600;
  EXPECT_TRUE(run(2, [](Executor &executor, int64_t rank) {
                executor.submit(rank, 0, collective(1));
                executor.submit(rank, 0, kernel(1));
                return Status{};
              }).ok());
}

// A step that waits only for an emulated transfer does not hang. A stuck stream is found after the last transfer has
// ended, and a time-out does not wait for it.
TEST_F(ExecutorTest, EmulationAndHangs) {
  program.ops[1].seconds = 0.05;
  program.ops[2].seconds = 3600;
  Executor executor({&program, 1}, groups, 2, allOf(2), log, {2, true});
  auto step = [&](int32_t op, bool missing, double timeout) {
    return executor.run(
        [&, op, missing](int64_t rank) {
          executor.submit(rank, 0, kernel(op));
          if (!missing || rank == 0)
            executor.submit(rank, 1, collective(0));
          (void)executor.record(rank, 0, 1);
          return executor.wait(rank, 0, 0);
        },
        timeout);
  };
  EXPECT_TRUE(step(1, false, 60).ok());
  Status status = step(1, true, 60);
  EXPECT_EQ(status.code, MOERT_ERROR_HANG);
  EXPECT_THAT(status.message, HasSubstr("waits for ranks 1"));
  EXPECT_LT(secondsOf([&] { status = step(2, false, 0.2); }), 60);
  EXPECT_EQ(status.code, MOERT_ERROR_HANG);
  EXPECT_THAT(status.message, HasSubstr("time-out of 0.2"));
  EXPECT_THAT(status.message, HasSubstr("op 2 add 'c' on stream 'compute' is not done"));
  EXPECT_TRUE(step(1, false, 60).ok());
}

// Programs have their own streams, events and ops. The collectives of their ranks meet nevertheless.
TEST_F(ExecutorTest, ProgramsDiffer) {
  std::vector<Program> programs(2, program);
  programs[0].numRanks = programs[1].firstRank = 1;
  programs[1].numRanks = 3;
  programs[1].streams = {"a", "b", "c", "d"};
  programs[1].events = 9;
  Executor executor(programs, groups, 4, allOf(4), log, {2});
  for (int repeat = 0; repeat < 20; ++repeat) {
    Status status = executor.run(
        [&](int64_t rank) {
          executor.submit(rank, 0, kernel(0));
          (void)executor.record(rank, rank ? 8 : 3, 0);
          Status waited = executor.wait(rank, rank ? 8 : 3, rank ? 3 : 1);
          executor.submit(rank, rank ? 3 : 1, collective(rank ? 4 : 1));
          executor.submit(rank, rank ? 3 : 1, collective(2, 1));
          return waited;
        },
        60);
    ASSERT_TRUE(status.ok()) << status.message;
    EXPECT_EQ(executor.timeline(0, 1).size(), 2u);
    for (int64_t rank : {1, 2, 3})
      EXPECT_EQ(executor.timeline(rank, 3).size(), 2u);
  }
  // Ranks of the same program have the same op.
  Status status = executor.run(
      [&](int64_t rank) {
        executor.submit(rank, 0, collective(rank ? static_cast<int32_t>(rank) : 1));
        return Status{};
      },
      60);
  EXPECT_THAT(status.message, HasSubstr("rank 2 is at op 2 all_gather 'c' on stream 'a' (), but rank 3 is at op 3 "));
}

// The k-th send meets the k-th receive of the same pair, independent of the group's other calls and of the order of the
// pairs.
TEST_F(ExecutorTest, PairsMeetAlone) {
  groups = {{"pp", 4, 1}};
  for (int repeat = 0; repeat < 50; ++repeat) {
    log.first = log.second = 0;
    Status status = run(
        4,
        [](Executor &executor, int64_t rank) {
          int64_t next = (rank + 1) % 4, last = (rank + 3) % 4;
          for (int step = 0; step < 3; ++step)
            executor.submit(rank, 0, transfer(0, Kind::Send, next));
          executor.submit(rank, 1, collective(1));
          for (int step = 0; step < 3; ++step)
            executor.submit(rank, 1, transfer(2, Kind::Receive, last));
          // A further pair.
          if (rank == 2)
            executor.submit(rank, 1, transfer(3, Kind::Send, 0));
          if (rank == 0)
            executor.submit(rank, 1, transfer(3, Kind::Receive, 2));
          return Status{};
        },
        2, 60);
    ASSERT_TRUE(status.ok()) << status.message;
    // Thirteen pairs, and a collective of four.
    EXPECT_EQ(log.first, 13 * 2 + 4);
  }
}

TEST_F(ExecutorTest, HangOfPairs) {
  Status status = run(4, [](Executor &executor, int64_t rank) {
    if (rank < 2)
      executor.submit(rank, 0, transfer(0, rank ? Kind::Receive : Kind::Send, 1 - rank));
    if (rank == 1)
      executor.submit(rank, 0, transfer(1, Kind::Receive, 0));
    if (rank == 3)
      executor.submit(rank, 1, transfer(2, Kind::Send, 0, 1));
    return Status{};
  });
  EXPECT_EQ(status.code, MOERT_ERROR_HANG);
  EXPECT_THAT(status.message, HasSubstr("hang: 2 of 8 streams"));
  EXPECT_THAT(status.message, HasSubstr("rank 1: op 1 receive 'b' on stream 'compute' on group 'ep' from rank 0 to "
                                        "rank 1 waits for ranks 0 (at its end)"));
  EXPECT_THAT(status.message, HasSubstr("rank 3: op 2 send 'c' on stream 'comm' on group 'dp' from rank 3 to rank 1 "
                                        "waits for ranks 1"));
}

// Two members that both send first wait for each other.
TEST_F(ExecutorTest, HangOfCrossedPairs) {
  Status status = run(2, [](Executor &executor, int64_t rank) {
    executor.submit(rank, 0, transfer(0, Kind::Send, 1 - rank));
    executor.submit(rank, 0, transfer(1, Kind::Receive, 1 - rank));
    return Status{};
  });
  EXPECT_EQ(status.code, MOERT_ERROR_HANG);
  EXPECT_THAT(status.message, HasSubstr("rank 0: op 0 send 'a' on stream 'compute' on group 'ep' from rank 0 to rank 1 "
                                        "waits for ranks 1"));
  EXPECT_THAT(status.message, HasSubstr("from rank 1 to rank 0 waits for ranks 0"));
}
