//===- ExecutorPolicyTest.cpp ---------------------------------------------===//

#include "moert/ExecutorPolicy.h"

#include <gmock/gmock.h>

using namespace moert;
using testing::ElementsAre;

namespace {

using Policy = ExecutorPolicy<int64_t, PolicyMeeting>;

/// Three ranks with two streams each.
class ExecutorPolicyTest : public testing::Test {
protected:
  void addRanks(Policy &policy) {
    for (const IssuedQueues &program : programs)
      policy.addRank(program);
  }
  void submit(int64_t stream) { programs[static_cast<size_t>(stream / 2)].submit(stream % 2, 0); }
  void issue(Policy &policy) {
    for (int64_t rank = 0; rank < 3; ++rank)
      policy.start(rank);
    for (int64_t rank = 0; rank < 3; ++rank)
      policy.endIssue(policy.take().index);
  }
  /// Owners of the jobs that are ready, in their order.
  std::vector<int64_t> takeAll(Policy &policy) {
    std::vector<int64_t> taken;
    while (policy.hasReady())
      taken.push_back(policy.take().index);
    return taken;
  }

  std::vector<IssuedQueues> programs = std::vector(3, IssuedQueues(2));
};

} // namespace

// Streams without work are not ready, and the others are ready in order. A stream that ends is finished.
TEST_F(ExecutorPolicyTest, IssueMakesStreamsReady) {
  Policy policy(false);
  addRanks(policy);
  for (int64_t stream : {5, 0, 3})
    submit(stream);
  issue(policy);
  EXPECT_THAT(takeAll(policy), ElementsAre(0, 3, 5));
  for (int64_t stream : {0, 3, 5}) {
    EXPECT_FALSE(policy.isFinished());
    EXPECT_FALSE(policy.pass(stream));
    policy.leave(stream);
  }
  EXPECT_TRUE(policy.isFinished());
}

// A stream goes on after a call unless links are emulated. After an event it always does.
TEST_F(ExecutorPolicyTest, GivesWay) {
  programs[0].record(0, 7);
  for (int64_t stream : {0, 0, 2})
    submit(stream);
  for (bool emulate : {false, true}) {
    Policy policy(emulate);
    addRanks(policy);
    issue(policy);
    EXPECT_EQ(policy.take().index, 0);
    EXPECT_TRUE(policy.pass(0));
    EXPECT_EQ(policy.pass(0), !emulate);
    policy.leave(0);
    EXPECT_THAT(takeAll(policy), ElementsAre(2, 0));
  }
}

// Streams that wait for an event become ready in the order in which they came, and execute the wait again.
TEST_F(ExecutorPolicyTest, EventsWakeInOrder) {
  Policy policy(false);
  IssuedQueues program(4);
  EXPECT_FALSE(program.wait(1, 4));
  program.record(0, 4);
  for (int64_t stream : {1, 2, 3})
    EXPECT_TRUE(program.wait(stream, 4));
  policy.addRank(program);
  policy.start(0);
  policy.endIssue(policy.take().index);
  EXPECT_THAT(takeAll(policy), ElementsAre(0, 1, 2, 3));
  for (int64_t stream : {2, 1, 3})
    EXPECT_TRUE(policy.mustWait(stream, *policy.head(stream)));
  EXPECT_EQ(policy.setDone(0, *policy.head(0)), 3);
  EXPECT_THAT(takeAll(policy), ElementsAre(2, 1, 3));
  EXPECT_FALSE(policy.mustWait(1, *policy.head(1)));
}

// Each phase has a share of each member. Without phases there is a single share.
TEST_F(ExecutorPolicyTest, MeetingsHavePhases) {
  Policy policy(false);
  addRanks(policy);
  for (int phases : {0, 1, 2}) {
    PolicyMeeting meeting{{-1, -1, -1}};
    EXPECT_FALSE(policy.arrive(meeting, 2, 5));
    EXPECT_FALSE(policy.arrive(meeting, 0, 1));
    EXPECT_TRUE(policy.arrive(meeting, 1, 2));
    int64_t shares = 0;
    while (policy.startPhase(meeting, phases))
      for (int64_t member : takeAll(policy)) {
        EXPECT_EQ(member, shares++ % 3);
        EXPECT_EQ(policy.endShare(meeting), member == 2 || phases == 0);
      }
    EXPECT_EQ(shares, phases == 0 ? 1 : 3 * phases);
  }
}

// The last end of the meeting calls counts. Equal ends keep the order in which they were done.
TEST_F(ExecutorPolicyTest, TransfersEndInOrder) {
  Policy policy(true);
  addRanks(policy);
  auto endOf = [](int64_t stream) { return stream < 4 ? 10 : 2 * stream; };
  for (std::vector<int64_t> done : {std::vector<int64_t>{3}, {0, 5}, {1}, {4}})
    EXPECT_EQ(policy.delay(done, 8, endOf), done[0] != 4);
  EXPECT_EQ(policy.nextEnd(), 10);
  EXPECT_THAT(policy.takeTransfer(), ElementsAre(3));
  EXPECT_THAT(policy.takeTransfer(), ElementsAre(0, 5));
  EXPECT_THAT(policy.takeTransfer(), ElementsAre(1));
  EXPECT_FALSE(policy.delay(std::vector<int64_t>{3}, 10, endOf));
  // No stream becomes ready after stop() until the policy is reset.
  policy.stop();
  EXPECT_FALSE(policy.delay(std::vector<int64_t>{3}, 8, endOf));
  policy.start(0);
  EXPECT_FALSE(policy.hasReady());
  policy.reset();
  policy.start(0);
  EXPECT_TRUE(policy.hasReady());
}
