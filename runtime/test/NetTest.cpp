//===- NetTest.cpp - processes that talk to each other, and lose each other -===//
//
// The processes are threads here, each with a Star of its own.
//
//===----------------------------------------------------------------------===//

#include "NetTest.h"

TEST_F(Processes4, TellEachOther) {
  joinAll();
  std::string large(3 << 20, 'x');
  std::vector<std::future<Status>> others;
  for (size_t i = 1; i < 4; ++i)
    others.push_back(std::async(std::launch::async, [&, i]() -> Status {
      for (const std::string &text : {std::to_string(i), large})
        MOERT_RETURN_IF_ERROR(stars[i]->send(bytesOf(text)));
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

// Only processes that wait for a process miss it after it leaves.
TEST_F(Processes4, Leave) {
  joinAll();
  notes[1].here = {true, {{"op 1 all_gather on group 'mp'", "a", {0, 1}}}, ""};
  stars[3].reset();
  std::this_thread::sleep_for(std::chrono::milliseconds(1200));
  EXPECT_TRUE(stars[1]->failure().ok());
  stars[0]->listen(nullptr);
  notes[0].here = {true, {{"op 5 all_to_all on group 'ep'", "k", {0, 1, 2, 3}}}, ""};
  stars[0]->listen(&notes[0]);
  EXPECT_EQ(failureOf(2).message, "rank 3 has ended, but rank 0 waits for it in op 5 all_to_all on group 'ep'");
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
  for (const Status &status : inAll(stars, [](Star &star, int64_t i) {
         return checkAgree(star, i == 2 ? "same: 1\n--rate: 0.2\n--data: x" : "same: 1\n--rate: 0.1\n--seed: 3");
       }))
    EXPECT_EQ(status.message,
              "rank 2 does not run the same as rank 0; start all ranks with the same plan, options and data:"
              "\n  --rate: expected '0.1' but got '0.2'"
              "\n  --seed: expected '3' but got nothing"
              "\n  --data: expected nothing but got 'x'");
  const std::string isLong(1000, 'x');
  for (const Status &status :
       inAll(stars, [&](Star &star, int64_t i) { return checkAgree(star, i == 1 ? "plan: " + isLong : "plan: a"); }))
    EXPECT_THAT(status.message, HasSubstr("plan: expected 'a' but got 'xxx"));
}

// A text that a process lacks differs from all others.
TEST_F(Processes4, AreDistinct) {
  joinAll();
  for (const auto &[texts, expected] : std::vector<std::pair<std::vector<std::string>, std::string>>{
           {{"a", "b", "c", "d"}, ""}, {{"a", "", "c", ""}, ""}, {{"a", "b", "c", "b"}, "ranks 1 and 3 use one place"}})
    for (const Status &status : inAll(stars, [&](Star &star, int64_t i) {
           return checkDistinct(star, texts[static_cast<size_t>(i)], "use one place");
         }))
      EXPECT_EQ(status.message, expected);
}

// An error of the giver is returned to all, and does not end the job.
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
  EXPECT_THAT(status.message, HasSubstr("for ranks 1 to 3, which did not connect"));
  status = join(1, star);
  EXPECT_THAT(status.message, HasSubstr("rank 1 does not reach rank 0: cannot connect to 127.0.0.1:"));
}

// A process that does not read holds up senders no longer than the patience.
TEST_F(Processes4, NotRead) {
  options.count = 2;
  options.patience = 0.5;
  std::unique_ptr<Star> star;
  std::future<Status> joining = std::async(std::launch::async, [&] { return join(0, star); });
  Socket other;
  ASSERT_TRUE(Socket::connect(options.place, after(10), other).ok());
  std::string hello = helloOf(1, 2, nextOf(other, Message::Type::Challenge).text, options.secret);
  ASSERT_TRUE(say(other, hello));
  ASSERT_EQ(joining.get().message, "");
  Clock::time_point begin = Clock::now();
  std::vector<char> bytes(size_t(64) << 20);
  EXPECT_THAT(star->broadcast(bytes).message, HasSubstr("rank 1 (b) does not answer"));
  EXPECT_LT(Clock::now() - begin, std::chrono::seconds(15));
}

// Waiting for values ends after the patience, with an error that names the missing process. All processes get it.
TEST_F(Processes4, ValuesThatDoNotCome) {
  options.patience = 1;
  joinAll();
  std::vector<std::future<Status>> waiting;
  for (size_t i : {1, 3})
    waiting.push_back(std::async(std::launch::async, [&, i] {
      std::vector<char> bytes;
      return stars[i]->broadcast(bytes);
    }));
  std::vector<char> bytes;
  Status status = stars[0]->receive(2, bytes);
  EXPECT_EQ(status.code, MOERT_ERROR_HANG);
  EXPECT_THAT(status.message, HasSubstr("the time-out of 1 s passed"));
  EXPECT_THAT(status.message, HasSubstr("rank 0 waits in the exchange of values for rank 2"));
  EXPECT_THAT(status.message, HasSubstr("rank 2 (process "));
  for (std::future<Status> &one : waiting)
    EXPECT_EQ(one.get().message, status.message);
  EXPECT_EQ(failureOf(2).message, status.message);
}

// All end together, process 0 first.
TEST_F(Processes4, Finish) {
  options.patience = 5;
  joinAll();
  for (size_t i = 0; i < 4; ++i)
    stars[i]->listen(nullptr);
  std::vector<std::future<Status>> ending;
  for (size_t i = 0; i < 4; ++i)
    ending.push_back(std::async(std::launch::async, [this, i] {
      Status status = stars[i]->finish();
      stars[i].reset();
      return status;
    }));
  for (std::future<Status> &status : ending)
    EXPECT_EQ(status.get().message, "");
}

// At the end, too, no process waits for one that does not answer.
TEST_F(Processes4, FinishWithoutOne) {
  options.count = 2;
  options.patience = 0.5;
  std::unique_ptr<Star> star;
  std::future<Status> joining = std::async(std::launch::async, [&] { return join(0, star); });
  Socket other;
  ASSERT_TRUE(Socket::connect(options.place, after(10), other).ok());
  std::string hello = helloOf(1, 2, nextOf(other, Message::Type::Challenge).text, options.secret);
  ASSERT_TRUE(say(other, hello));
  ASSERT_EQ(joining.get().message, "");
  EXPECT_THAT(star->finish().message, HasSubstr("rank 1 (b) does not answer"));
}
