//===- JobLadderTest.cpp - what each change of a job gains ----------------===//
#include "mlir/IR/MLIRContext.h"

#include "moe/Dialect/Moe/IR/MoeDialect.h"
#include "moe/Report/PlanAnswer.h"

#include <gtest/gtest.h>

#include <cmath>

using namespace mlir;
using namespace mlir::moe;

namespace {

class JobLadderTest : public ::testing::Test {
protected:
  JobLadderTest() { context.loadDialect<MoeDialect>(); }

  ParallelAttr getGroups(int64_t pp, int64_t dp, int64_t mp, int64_t ep) {
    return ParallelAttr::get(&context, pp * dp * mp, pp, dp, mp, ep, /*esp=*/1, /*cp=*/1);
  }
  /// A plan of 64 sequences on 16 ranks.
  Candidate makePlan(double seconds, int64_t batch = 1) {
    Candidate plan;
    plan.parallel = getGroups(2, 8, 1, 8);
    plan.schedule = "baseline";
    plan.batch = batch;
    plan.microBatches = 8 / batch;
    plan.whole.seconds = seconds;
    plan.whole.bytes = 40'000'000'000;
    return plan;
  }

  MLIRContext context;
};

TEST_F(JobLadderTest, GainsHaveTheErrorOfPairs) {
  JobLadder ladder;
  ladder.job = makePlan(2);
  JobGain unknown = ladder.getGain(makePlan(1.6));
  EXPECT_DOUBLE_EQ(unknown.times, 1.25);
  EXPECT_EQ(unknown.high, 0);

  ladder.pairError = std::log(1.1);
  JobGain gain = ladder.getGain(makePlan(1.6));
  EXPECT_NEAR(gain.low, 1.25 / 1.1, 1e-12);
  EXPECT_NEAR(gain.high, 1.25 * 1.1, 1e-12);
  EXPECT_TRUE(gain.isClear);
  EXPECT_FALSE(ladder.getGain(makePlan(1.9)).isClear);
  EXPECT_TRUE(ladder.getGain(makePlan(2.5)).isClear);

  // Four changes have twice the error of one.
  JobGain four = ladder.getGain(makePlan(1.6), 4);
  EXPECT_NEAR(four.low, 1.25 / 1.21, 1e-12);
  EXPECT_NEAR(four.high, 1.25 * 1.21, 1e-12);
}

TEST_F(JobLadderTest, AGainIsThatOfTheJobsSequences) {
  JobLadder ladder;
  ladder.job = makePlan(2);
  Candidate twice = makePlan(3);
  twice.microBatches *= 2;
  EXPECT_DOUBLE_EQ(ladder.getGain(twice).seconds, 1.5);
  EXPECT_NEAR(ladder.getGain(twice).times, 4.0 / 3, 1e-12);
}

TEST_F(JobLadderTest, DifferencesLeaveOutWhatFollows) {
  Candidate job = makePlan(2), plan = makePlan(2, /*batch=*/2);
  plan.parallel = getGroups(1, 8, 2, 8);
  plan.sequenceParallel = true;
  plan.zero = 1;
  EXPECT_EQ(listDifferences(job, plan),
            (SmallVector<std::string>{"TP2", "PP1", "MBS 2", "ZeRO-1", "sequence parallel"}));
  EXPECT_EQ(listDifferences(plan, job),
            (SmallVector<std::string>{"TP1", "PP2", "MBS 1", "ZeRO-0", "no sequence parallel"}));
  EXPECT_TRUE(listDifferences(job, job).empty());
}

TEST_F(JobLadderTest, ChangesThatDoNotFitAreLast) {
  JobLadder ladder;
  ladder.job = makePlan(2);
  ladder.memoryLimit = 79e9;
  ladder.pairError = std::log(1.1);
  ladder.changes = {{"ZeRO-0", makePlan(1)}, {"MBS 2", makePlan(1.9, 2)}, {"VPP 2", makePlan(1.6)}};
  ladder.changes.front().plan.whole.bytes = 80'000'000'000;
  ladder.sort();
  ladder.best = makePlan(1.25);
  ladder.bestChanges = 4;
  PlanQuestion question;
  question.memoryLimit = 79e9;
  std::string text;
  llvm::raw_string_ostream os(text);
  AnswerParts parts;
  parts.ladder = &ladder;
  printAnswer(question, ladder.best, parts, os);
  EXPECT_NE(text.find("        1600.0     -400.0   1.25 (1.14 to 1.38)    40.0  VPP 2\n"
                      "           1900.0     -100.0   1.05 (0.96 to 1.16)~   40.0  MBS 2\n"
                      "           1000.0    -1000.0   2.00 (1.82 to 2.20)    80.0  ZeRO-0: does not fit\n"
                      "           1250.0     -750.0   1.60 (1.32 to 1.94)    40.0  the plan above, with 4 changes\n"),
            std::string::npos)
      << text;
}

TEST_F(JobLadderTest, OptionsAreJoinedByAShell) {
  Candidate plan = makePlan(1);
  plan.stageBoundaries = {0, 57, 113};
  plan.recompute = Recompute::Selective;
  std::string text;
  llvm::raw_string_ostream os(text);
  printAnswer(PlanQuestion(), plan, AnswerParts(), os);
  EXPECT_NE(text.find("        --parallel=pp=2,dp=8,mp=1,ep=8,esp=1 --batch=1 --micro-batches=8 \\\n"
                      "        --stage-boundaries=0,57,113 --recompute=selective\n"),
            std::string::npos)
      << text;
}

TEST(RoutedMemoryTest, RowsTakeTheSameBytesEach) {
  EXPECT_EQ(getBytesOnLine({1, 1000}, {1.5, 1100}, 1.25), 1050);
  EXPECT_EQ(getBytesOnLine({1, 1000}, {1.5, 1100}, 8), 2400);
}

TEST(RoutedMemoryTest, AnAnswerHasThreeRoutings) {
  PlanQuestion question;
  question.memoryLimit = 79e9;
  Candidate plan;
  MLIRContext context;
  context.loadDialect<MoeDialect>();
  plan.parallel = ParallelAttr::get(&context, 8, 1, 8, 1, 8, 1, 1);
  plan.whole.seconds = 1;
  AnswerParts parts;
  parts.memory = RoutedMemory{{1, 40'000'000'000}, {1.25, 42'500'000'000}, {8, 110'000'000'000}};
  std::string text;
  llvm::raw_string_ostream os(text);
  printAnswer(question, plan, parts, os);
  EXPECT_NE(text.find("          40.0 GB with even routing, as the framework keeps the rows that arrive\n"
                      "          42.5 GB with the expected routing: the busiest rank has 1.25 times the even load\n"
                      "         110.0 GB with the worst routing: the busiest rank has 8.00 times the even load; does "
                      "not fit\n"),
            std::string::npos)
      << text;
}

} // namespace
