//===- ExplanationTest.cpp - tables about a choice ------------------------===//
#include "mlir/IR/MLIRContext.h"
#include "llvm/ADT/StringExtras.h"

#include "moe/Dialect/Moe/IR/MoeDialect.h"
#include "moe/Planner/Explanation.h"
#include "moe/Report/Explanations.h"

#include <gtest/gtest.h>

#include <cmath>

using namespace mlir;
using namespace mlir::moe;

namespace {

Candidate makeCandidate(const char *schedule, double seconds, double uncertainty, bool overlaps) {
  Candidate candidate;
  candidate.schedule = candidate.scheduleClass = schedule;
  candidate.verdict = Verdict::Simulated;
  candidate.overlaps = overlaps;
  candidate.estimate.seconds = seconds;
  candidate.estimate.parts = {0.5 * seconds, 0.3 * seconds, 0.2 * seconds, 0};
  candidate.estimate.uncertainty = uncertainty;
  return candidate;
}

/// The explanation as text, after a round trip through an attribute of a module.
template <class Kind> std::string print(const Kind &explanation, MLIRContext &context) {
  OwningOpRef<ModuleOp> module = ModuleOp::create(UnknownLoc::get(&context));
  setExplanation(*module, explanation);
  std::string text;
  llvm::raw_string_ostream os(text);
  printExplanation(getExplanation(*module), os);
  return text;
}

std::string print(const ScheduleExplanation &explanation) {
  MLIRContext context;
  return print(explanation, context);
}

std::string judgeOverlap(double with, double without, double uncertainty) {
  ScheduleExplanation explanation;
  explanation.candidates = {makeCandidate("with", with, uncertainty, true),
                            makeCandidate("without", without, uncertainty, false)};
  std::string text = print(explanation);
  return StringRef(text).split("overlap: ").second.split(':').first.str();
}

TEST(Explanation, OverlapHasThreeAnswers) {
  EXPECT_EQ(judgeOverlap(1, 1.05, 0), "pays");
  EXPECT_EQ(judgeOverlap(1.05, 1, 0), "does not pay");
  EXPECT_EQ(judgeOverlap(1, 1.005, 0), "no measurable difference");
  EXPECT_EQ(judgeOverlap(1.005, 1, 0), "no measurable difference");
  // The profile's error may exceed the difference.
  EXPECT_EQ(judgeOverlap(1, 1.05, 0.1), "no measurable difference");
  EXPECT_EQ(judgeOverlap(1, 1.2, 0.1), "pays");
}

/// Two steps share a kernel with an error of 3 s, which cancels between them. Each has another kernel, with errors of
/// 0.3 s and 0.4 s.
TEST(Explanation, CommonErrorsCancel) {
  ErrorBudget common, a, b;
  common.add(1, 3);
  a.add(common, 1);
  a.add(2, 0.3);
  b.add(common, 1);
  b.add(3, 0.4);
  EXPECT_DOUBLE_EQ(a.getDifference(b), 0.5);
  EXPECT_DOUBLE_EQ(b.getDifference(a), 0.5);
  EXPECT_DOUBLE_EQ(common.getSeconds(), 3);
  EXPECT_EQ(common.getDifference(common), 0);
  // The error counts once for each run.
  b.add(common, 0.5);
  EXPECT_DOUBLE_EQ(a.getDifference(b), std::sqrt(0.09 + 0.16 + 2.25));

  std::optional<Margin> margin = getMargin({"a", 10, a}, {{"far", 10.6, a}, {"near", 10.4, common}});
  ASSERT_TRUE(margin);
  EXPECT_EQ(margin->next, "near");
  EXPECT_NEAR(margin->margin, 0.04, 1e-12);
  EXPECT_NEAR(margin->uncertainty, 0.03, 1e-12);
  EXPECT_TRUE(margin->close.empty());
  margin = getMargin({"a", 10, a}, {{"near", 10.2, common}, {"estimated", 10.4, {}, 0.05}});
  EXPECT_EQ(margin->close, (std::vector<std::string>{"near", "estimated"}));
  EXPECT_FALSE(getMargin({"a", 10, a}, {}));
}

TEST(Explanation, SaysWhatWindowsGainAndLeave) {
  MLIRContext context;
  context.loadDialect<MoeDialect>();
  GroupsExplanation explanation;
  Candidate &one = explanation.candidates.emplace_back(makeCandidate("baseline", 10, 0, /*overlaps=*/true));
  one.parallel = ParallelAttr::get(&context, /*world=*/8, /*pp=*/4, /*dp=*/2, /*mp=*/1, /*ep=*/2, /*esp=*/1);
  one.verdict = Verdict::Chosen;
  one.pipelineOrder = PipelineOrder::DualPipeV;
  one.whole = one.estimate;
  one.whole.parts = {8, 1, 1, 0, /*hiddenCommunication=*/3};
  EXPECT_FALSE(StringRef(print(explanation, context)).contains("overlap:"));
  explanation.timesWithoutOverlap = 1.25;
  std::string text = print(explanation, context);
  EXPECT_TRUE(StringRef(text).contains("overlap: in 1f1b the same step takes 1.25 times as long as in dualpipe-v"))
      << text;
  EXPECT_TRUE(StringRef(text).contains("dualpipe-v hides 75% of the communication. Computation alone takes 8000.0 ms, "
                                       "80.0% of the"))
      << text;
}

TEST(Explanation, TablesFitATerminal) {
  ScheduleExplanation explanation;
  Candidate &one =
      explanation.candidates.emplace_back(makeCandidate("s2+saa+chunks:16+mpipe-s4", 12.3456, 0.05, /*overlaps=*/true));
  one.verdict = Verdict::Chosen;
  one.whole = one.estimate;
  one.whole.bytes = one.estimate.bytes = 79'000'000'000;
  one.estimate.flops = 9e15;
  one.estimate.bytesSent = 1e11;
  one.estimate.limit = "comm.inter 100%";
  one.speed = {487e12, 1234567, 0.4924};
  std::string text = print(explanation);
  // The step and its shares, with the units in the header.
  EXPECT_TRUE(StringRef(text).contains("step ms  tokens/s  TFLOP/s  MFU%  bubble%  exposed%       GB")) << text;
  EXPECT_TRUE(StringRef(text).contains("12346   1234567    487.0  49.2     20.0      30.0   79.000")) << text;
  for (StringRef line : llvm::split(text, '\n'))
    EXPECT_LE(line.size(), 100u) << line.str();
}

} // namespace
