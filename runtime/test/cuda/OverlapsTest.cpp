//===- OverlapsTest.cpp - calls that run beside transfers -----------------===//

#include "cuda/Overlaps.h"

#include <gtest/gtest.h>

namespace moert::cuda {
namespace {

constexpr int64_t kCompute = 0, kExchange = 1;

// Calls of the same stream, and calls before and after the transfer by events, have the device for themselves.
TEST(OverlapsTest, OrderedCalls) {
  Overlaps overlaps(2, 2);
  for (int step = 0; step < 2; ++step) {
    overlaps.beginStep();
    EXPECT_FALSE(overlaps.noteCall(0, kCompute));
    overlaps.record(0, kCompute);
    overlaps.wait(0, kExchange);
    overlaps.noteTransfer(kExchange);
    EXPECT_FALSE(overlaps.noteCall(1, kExchange));
    overlaps.record(1, kExchange);
    overlaps.wait(1, kCompute);
    EXPECT_FALSE(overlaps.noteCall(2, kCompute));
  }
}

// A product between the start of a transfer and the wait for it runs beside it.
TEST(OverlapsTest, PendingTransfer) {
  Overlaps overlaps(2, 1);
  overlaps.noteTransfer(kExchange);
  overlaps.record(0, kExchange);
  EXPECT_TRUE(overlaps.noteCall(0, kCompute));
  overlaps.wait(0, kCompute);
  EXPECT_FALSE(overlaps.noteCall(1, kCompute));
}

// A transfer of a later chunk is issued after the product, and does not wait for it. The next step knows.
TEST(OverlapsTest, LaterTransfer) {
  Overlaps overlaps(2, 1);
  for (bool isKnown : {false, true, true}) {
    overlaps.beginStep();
    EXPECT_FALSE(overlaps.noteCall(0, kCompute));
    overlaps.record(0, kCompute);
    EXPECT_EQ(overlaps.noteCall(1, kCompute), isKnown);
    overlaps.wait(0, kExchange);
    overlaps.noteTransfer(kExchange);
  }
}

// Waits pass on what the other stream waited for.
TEST(OverlapsTest, OrderThroughAThirdStream) {
  Overlaps overlaps(3, 2);
  overlaps.noteTransfer(kExchange);
  overlaps.record(0, kExchange);
  overlaps.wait(0, 2);
  EXPECT_FALSE(overlaps.noteCall(0, 2));
  overlaps.record(1, 2);
  overlaps.wait(1, kCompute);
  EXPECT_FALSE(overlaps.noteCall(1, kCompute));
}

TEST(OverlapsTest, StepsBeginAnew) {
  Overlaps overlaps(2, 1);
  overlaps.noteTransfer(kExchange);
  overlaps.beginStep();
  EXPECT_FALSE(overlaps.noteCall(0, kCompute));
}

} // namespace
} // namespace moert::cuda
