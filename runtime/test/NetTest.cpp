//===- NetTest.cpp - processes that find each other, and lose each other --===//
//
// The processes are threads here, each with a Star of its own.
//
//===----------------------------------------------------------------------===//

#include "net/Bootstrap.h"
#include "net/Stall.h"
#include "net/Star.h"

#include <gmock/gmock.h>

#include <future>
#include <map>
#include <poll.h>

using namespace moert;
using namespace moert::net;
using testing::HasSubstr;

namespace {

Status place(const std::map<std::string, std::string> &variables, Place &result) {
  return readPlace(
      [&](const char *name) {
        auto it = variables.find(name);
        return it == variables.end() ? nullptr : it->second.c_str();
      },
      result);
}

std::string placeError(const std::map<std::string, std::string> &variables) {
  Place result;
  Status status = place(variables, result);
  EXPECT_EQ(status.code, MOERT_ERROR_INVALID_ARGUMENT);
  return status.message;
}

std::vector<char> bytesOf(const std::string &text) { return {text.begin(), text.end()}; }

struct Notes : Processes::Listener {
  void failed(const Status &status) override { promise.set_value(status); }
  Whereabouts whereabouts() override { return here; }

  Whereabouts here;
  std::promise<Status> promise;
};

/// `count` processes, at a port that the first one found free.
struct Processes4 : testing::Test {
  Processes4() {
    options.count = 4;
    options.address = "127.0.0.1";
    options.timeout = 20;
    options.answer = 0.3;
    options.grace = 0.3;
    EXPECT_TRUE(Socket::listen(options.port, listener).ok());
  }

  Status join(int64_t index, std::unique_ptr<Star> &star) { return join(index, star, options); }
  Status join(int64_t index, std::unique_ptr<Star> &star, Star::Options own) {
    own.index = index;
    return Star::join(own, index == 0 ? std::move(listener) : Socket(), star);
  }

  void joinAll() {
    std::vector<std::future<Status>> joining;
    stars.resize(4);
    for (int64_t i = 0; i < 4; ++i)
      joining.push_back(std::async(std::launch::async, [this, i] { return join(i, stars[static_cast<size_t>(i)]); }));
    for (std::future<Status> &status : joining)
      ASSERT_EQ(status.get().message, "");
    for (size_t i = 0; i < 4; ++i)
      stars[i]->listen(&notes[i]);
  }

  Status failureOf(size_t i) {
    std::future<Status> future = notes[i].promise.get_future();
    if (future.wait_for(std::chrono::seconds(20)) != std::future_status::ready)
      return Status::error(MOERT_ERROR_INTERNAL, "nothing heard");
    return future.get();
  }

  Star::Options options;
  Socket listener;
  Notes notes[4];
  std::vector<std::unique_ptr<Star>> stars;
};

} // namespace

TEST(Bootstrap, Alone) {
  Place result;
  ASSERT_TRUE(place({}, result).ok());
  EXPECT_EQ(result.rank, 0);
  EXPECT_EQ(result.size, 1);
  EXPECT_EQ(result.address, "127.0.0.1");
}

TEST(Bootstrap, Torchrun) {
  std::map<std::string, std::string> variables = {{"RANK", "5"},         {"WORLD_SIZE", "8"},
                                                  {"LOCAL_RANK", "1"},   {"LOCAL_WORLD_SIZE", "4"},
                                                  {"MASTER_ADDR", "n1"}, {"MASTER_PORT", "29400"}};
  Place result;
  ASSERT_TRUE(place(variables, result).ok());
  EXPECT_EQ(result.rank, 5);
  EXPECT_EQ(result.size, 8);
  EXPECT_EQ(result.localRank, 1);
  EXPECT_EQ(result.localSize, 4);
  EXPECT_EQ(result.address, "n1");
  EXPECT_EQ(result.port, 29400);
  // torchrun's own agent listens there then.
  variables["TORCHELASTIC_USE_AGENT_STORE"] = "True";
  ASSERT_TRUE(place(variables, result).ok());
  EXPECT_EQ(result.port, 29401);
}

TEST(Bootstrap, Mpirun) {
  std::map<std::string, std::string> variables = {{"OMPI_COMM_WORLD_RANK", "3"},
                                                  {"OMPI_COMM_WORLD_SIZE", "4"},
                                                  {"OMPI_COMM_WORLD_LOCAL_RANK", "1"},
                                                  {"OMPI_COMM_WORLD_LOCAL_SIZE", "2"}};
  EXPECT_THAT(placeError(variables), HasSubstr("set MASTER_ADDR to the host of rank 0"));
  variables["MASTER_ADDR"] = "a";
  Place result;
  ASSERT_TRUE(place(variables, result).ok());
  EXPECT_EQ(result.rank, 3);
  EXPECT_EQ(result.localRank, 1);
  EXPECT_EQ(result.source, "mpirun");
}

TEST(Bootstrap, Slurm) {
  std::map<std::string, std::string> variables = {
      {"SLURM_PROCID", "9"}, {"SLURM_NTASKS", "16"}, {"SLURM_JOB_ID", "4711"}, {"SLURM_JOB_NODELIST", "node[007-010]"}};
  Place result;
  ASSERT_TRUE(place(variables, result).ok());
  EXPECT_EQ(result.address, "node007");
  EXPECT_GE(result.port, 20000);
  Place other;
  variables["SLURM_JOB_ID"] = "4712";
  ASSERT_TRUE(place(variables, other).ok());
  EXPECT_NE(result.port, other.port);
}

TEST(Bootstrap, TasksOfSlurmsNodes) {
  std::map<std::string, std::string> variables = {{"SLURM_PROCID", "5"},
                                                  {"SLURM_NTASKS", "7"},
                                                  {"SLURM_LOCALID", "1"},
                                                  {"SLURM_JOB_NODELIST", "node[1-4]"},
                                                  {"SLURM_STEP_TASKS_PER_NODE", "2(x3),1"}};
  for (auto [node, tasks] : {std::pair("0", 2), {"2", 2}, {"3", 1}}) {
    variables["SLURM_NODEID"] = node;
    variables["SLURM_LOCALID"] = tasks == 1 ? "0" : "1";
    Place result;
    ASSERT_TRUE(place(variables, result).ok());
    EXPECT_EQ(result.localSize, tasks);
    EXPECT_EQ(result.address, "node1");
  }
}

TEST(Bootstrap, FirstHost) {
  EXPECT_EQ(firstHost("node1"), "node1");
  EXPECT_EQ(firstHost("node1,node2"), "node1");
  EXPECT_EQ(firstHost("node[001-004,7],other"), "node001");
  EXPECT_EQ(firstHost("node[3,5]-ib"), "node3-ib");
  EXPECT_EQ(firstHost("node["), "node");
}

TEST(Bootstrap, Errors) {
  EXPECT_EQ(placeError({{"RANK", "0"}}), "RANK is set, but WORLD_SIZE is not");
  EXPECT_EQ(placeError({{"RANK", "4"}, {"WORLD_SIZE", "4"}}), "expected RANK from 0 to 3 but got '4'");
  EXPECT_EQ(placeError({{"RANK", "x"}, {"WORLD_SIZE", "4"}}), "expected RANK from 0 to 3 but got 'x'");
  EXPECT_EQ(placeError({{"RANK", ""}, {"WORLD_SIZE", "4"}}), "expected RANK from 0 to 3 but got ''");
  EXPECT_EQ(placeError({{"RANK", "1"}, {"WORLD_SIZE", "-1"}}), "expected WORLD_SIZE from 1 to 16777216 but got '-1'");
  EXPECT_EQ(placeError({{"RANK", "1"}, {"WORLD_SIZE", "4"}, {"LOCAL_RANK", "9"}}),
            "expected LOCAL_RANK from 0 to 3 but got '9'");
  EXPECT_EQ(placeError({{"RANK", "1"}, {"WORLD_SIZE", "4"}, {"MASTER_PORT", "99999"}}),
            "expected MASTER_PORT from 1 to 65534 but got '99999'");
}

TEST(Stall, Ranks) {
  EXPECT_EQ(ranksText({3}), "3");
  EXPECT_EQ(ranksText({0, 1}), "0, 1");
  EXPECT_EQ(ranksText({0, 1, 2, 5, 7, 8, 9}), "0 to 2, 5, 7 to 9");
}

TEST(Stall, SaysWhoHoldsUpWhom) {
  Wait first{"op 5 all_to_all 'a' on group 'ep'", "0/0/5", {0, 1, 2, 3}},
      other{"op 6 all_gather on group 'mp'", "1/0/2", {1, 2}};
  std::vector<std::optional<Whereabouts>> answers(4);
  answers[0] = answers[3] = Whereabouts{true, {first}, ""};
  answers[1] = Whereabouts{true, {other}, ""};
  EXPECT_EQ(stallText(answers, {"a", "b", "c", "d"}),
            "\n  ranks 0, 3 wait in op 5 all_to_all 'a' on group 'ep' of ranks 0 to 3 for ranks 1, 2"
            "\n  rank 1 waits in op 6 all_gather on group 'mp' of ranks 1, 2 for rank 2"
            "\n  rank 1 (b) waits elsewhere: op 6 all_gather on group 'mp'"
            "\n  rank 2 (c) does not answer");
  answers[1] = Whereabouts{true, {}, "rank 1: op 4 matmul on stream 'compute'"};
  answers[2] = Whereabouts{};
  EXPECT_EQ(stallText(answers, {"a", "b", "c", "d"}),
            "\n  ranks 0, 3 wait in op 5 all_to_all 'a' on group 'ep' of ranks 0 to 3 for ranks 1, 2"
            "\n  rank 1 (b) still runs rank 1: op 4 matmul on stream 'compute'"
            "\n  rank 2 (c) runs no step");
}

TEST(Stall, Encoding) {
  Whereabouts here{true, {{"op 'x\xff\n'", "k", {1, 2}}}, "running"};
  std::optional<Whereabouts> there = decode(encode(here));
  ASSERT_TRUE(there);
  EXPECT_TRUE(there->inStep);
  EXPECT_EQ(there->running, "running");
  ASSERT_EQ(there->waits.size(), 1u);
  EXPECT_EQ(there->waits[0].ranks, (std::vector<int64_t>{1, 2}));
  EXPECT_FALSE(decode("{"));
  EXPECT_FALSE(decode("[]"));
}

TEST_F(Processes4, TellEachOther) {
  joinAll();
  std::string large(3 << 20, 'x');
  std::vector<std::future<Status>> others;
  for (size_t i = 1; i < 4; ++i)
    others.push_back(std::async(std::launch::async, [&, i]() -> Status {
      for (const std::string &text : {std::to_string(i), large})
        if (Status status = stars[i]->send(bytesOf(text)); !status.ok())
          return status;
      std::vector<char> bytes;
      Status status = stars[i]->broadcast(bytes);
      return status.ok() && bytes != bytesOf(large) ? Status::error(MOERT_ERROR_INTERNAL, "other bytes") : status;
    }));
  for (int64_t i = 3; i > 0; --i)
    for (const std::string &text : {std::to_string(i), large}) {
      std::vector<char> bytes;
      ASSERT_TRUE(stars[0]->receive(i, bytes).ok());
      EXPECT_EQ(bytes, bytesOf(text));
    }
  std::vector<char> bytes = bytesOf(large);
  EXPECT_TRUE(stars[0]->broadcast(bytes).ok());
  for (std::future<Status> &status : others)
    EXPECT_EQ(status.get().message, "");
}

TEST_F(Processes4, FailTogether) {
  joinAll();
  stars[2]->fail(Status::error(MOERT_ERROR_OVERFLOW, "too many rows"));
  for (size_t i = 0; i < 4; ++i) {
    Status status = failureOf(i);
    EXPECT_EQ(status.code, MOERT_ERROR_OVERFLOW);
    EXPECT_EQ(status.message, "too many rows");
  }
  std::vector<char> bytes;
  EXPECT_EQ(stars[0]->receive(1, bytes).message, "too many rows");
  EXPECT_EQ(stars[1]->send(bytes).message, "too many rows");
}

TEST_F(Processes4, Explain) {
  joinAll();
  Wait wait{"op 5 all_to_all on group 'ep'", "k", {0, 1, 2, 3}};
  for (size_t i : {0, 1, 3})
    notes[i].here = {true, {wait}, ""};
  notes[2].here = {true, {}, "rank 2: op 4 matmul"};
  Status status = stars[3]->explain("rank 3: the time-out of 1 s passed");
  EXPECT_EQ(status.code, MOERT_ERROR_HANG);
  EXPECT_THAT(status.message, HasSubstr("rank 3: the time-out of 1 s passed:\n  ranks 0, 1, 3 wait in op 5 all_to_all "
                                        "on group 'ep' of ranks 0 to 3 for rank 2\n  rank 2 ("));
  EXPECT_THAT(status.message, HasSubstr("still runs rank 2: op 4 matmul"));
  EXPECT_EQ(failureOf(0).message, status.message);
  EXPECT_EQ(failureOf(2).message, status.message);
}

// Who leaves is missed only by those who wait for it.
TEST_F(Processes4, Leave) {
  joinAll();
  notes[1].here = {true, {{"op 1 all_gather on group 'mp'", "a", {0, 1}}}, ""};
  stars[3].reset();
  std::this_thread::sleep_for(std::chrono::milliseconds(1200));
  EXPECT_TRUE(stars[1]->failure().ok());
  notes[0].here = {true, {{"op 5 all_to_all on group 'ep'", "k", {0, 1, 2, 3}}}, ""};
  EXPECT_EQ(failureOf(2).message, "rank 3 has ended, but rank 0 waits for it in op 5 all_to_all on group 'ep'");
}

TEST_F(Processes4, RefuseOthers) {
  std::vector<std::future<Status>> joining;
  stars.resize(4);
  options.timeout = 2;
  Star::Options other = options;
  other.count = 5;
  joining.push_back(std::async(std::launch::async, [&] { return join(0, stars[0]); }));
  joining.push_back(std::async(std::launch::async, [&] { return join(1, stars[1]); }));
  joining.push_back(std::async(std::launch::async, [&] { return join(2, stars[2], other); }));
  EXPECT_THAT(joining[2].get().message, HasSubstr("expects 5 processes, rank 0 4"));
  EXPECT_THAT(joining[0].get().message, HasSubstr("rank 2 (process "));
  // Where it came first, it hears of it; else nobody is there any more.
  EXPECT_NE(joining[1].get().message, "");
}

/// Calls `body` in all processes at once.
static std::vector<Status> inAll(const std::vector<std::unique_ptr<Star>> &stars,
                                 const std::function<Status(Star &, int64_t)> &body) {
  std::vector<std::future<Status>> running;
  for (size_t i = 0; i < stars.size(); ++i)
    running.push_back(std::async(std::launch::async, [&, i] { return body(*stars[i], static_cast<int64_t>(i)); }));
  std::vector<Status> results;
  for (std::future<Status> &one : running)
    results.push_back(one.get());
  return results;
}

TEST_F(Processes4, Agree) {
  joinAll();
  for (int64_t bad : {0, 1, 3})
    for (const Status &status : inAll(stars, [&](Star &star, int64_t i) {
           return checkAgree(star, "a", i == bad ? Status::error(MOERT_ERROR_OUT_OF_MEMORY, "no room") : Status{});
         })) {
      EXPECT_EQ(status.code, MOERT_ERROR_OUT_OF_MEMORY);
      EXPECT_EQ(status.message, "rank " + std::to_string(bad) + ": no room");
    }
  for (int64_t bad : {-1, 0, 2})
    for (const Status &status : inAll(stars, [&](Star &star, int64_t i) {
           bool all = i != bad;
           Status status = agreeOnAll(star, all);
           EXPECT_EQ(all, bad < 0);
           return status;
         }))
      EXPECT_EQ(status.message, "");
  for (const Status &status : inAll(stars, [](Star &star, int64_t) { return checkAgree(star, "a plan"); }))
    EXPECT_EQ(status.message, "");
  for (const Status &status :
       inAll(stars, [](Star &star, int64_t i) { return checkAgree(star, i == 2 ? "same\nb" : "same\na plan"); }))
    EXPECT_EQ(status.message, "rank 2 runs another plan than rank 0, or with other options: 'b' rather than 'a plan'");
  const std::string isLong(1000, 'x');
  for (const Status &status :
       inAll(stars, [&](Star &star, int64_t i) { return checkAgree(star, i == 1 ? isLong : "a"); }))
    EXPECT_EQ(status.message, "rank 1 runs another plan than rank 0, or with other options");
}

// An error of the one who gives is everybody's, and no end.
TEST_F(Processes4, Share) {
  joinAll();
  for (int64_t from : {0, 3}) {
    std::vector<std::vector<char>> bytes(4);
    auto shareWith = [&](const Status &given) {
      return [&, given](Star &star, int64_t i) {
        return share(
            star, from,
            [&](std::vector<char> &mine) {
              mine = {'x', static_cast<char>('0' + from)};
              return given;
            },
            bytes[static_cast<size_t>(i)]);
      };
    };
    for (const Status &status : inAll(stars, shareWith(Status::error(MOERT_ERROR_OVERFLOW, "too much of it")))) {
      EXPECT_EQ(status.code, MOERT_ERROR_OVERFLOW);
      EXPECT_EQ(status.message, "too much of it");
    }
    for (const Status &status : inAll(stars, shareWith({})))
      EXPECT_TRUE(status.ok());
    for (const std::vector<char> &given : bytes)
      EXPECT_EQ(std::string(given.begin(), given.end()), "x" + std::to_string(from));
  }
}

TEST_F(Processes4, WaitInVain) {
  options.timeout = 0.5;
  std::unique_ptr<Star> star;
  Status status = join(0, star);
  EXPECT_THAT(status.message, HasSubstr("for ranks 1 to 3, which did not come"));
  status = join(1, star);
  EXPECT_THAT(status.message, HasSubstr("rank 1 does not reach rank 0: cannot connect to 127.0.0.1:"));
}

// Strangers that say something else, or half of a message, are not let in; what comes byte by byte is a message.
TEST_F(Processes4, ShortWrites) {
  Clock::time_point deadline = Clock::now() + std::chrono::seconds(20);
  std::unique_ptr<Star> star;
  options.count = 2;
  std::future<Status> joining = std::async(std::launch::async, [&] { return join(0, star); });
  for (const char *text : {"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n", "moer"}) {
    Socket stranger;
    ASSERT_TRUE(Socket::connect("127.0.0.1", options.port, deadline, stranger).ok());
    ASSERT_TRUE(stranger.write(text, strlen(text), deadline).ok());
  }
  std::string hello("reom\0\0\0\0\1\0\0\0\0\0\0\0\3\0\0\0\0\0\0\0"
                    "2 b",
                    27);
  Socket late;
  ASSERT_TRUE(Socket::connect("127.0.0.1", options.port, deadline, late).ok());
  for (char byte : hello) {
    ASSERT_TRUE(late.write(&byte, 1, deadline).ok());
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
  ASSERT_EQ(joining.get().message, "");
  notes[0].here = {};
  star->listen(&notes[0]);
  // Half of a message, then the end.
  ASSERT_TRUE(late.write(hello.data(), 10, deadline).ok());
  {
    Socket closed = std::move(late);
  }
  EXPECT_EQ(failureOf(0).message, "rank 1 (b) died: its connection closed");
}
