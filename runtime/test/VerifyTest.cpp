//===- VerifyTest.cpp -----------------------------------------------------===//

#include "run/Verify.h"
#include "run/Jumps.h"

#include <gmock/gmock.h>

#include <cmath>

using namespace moert;
using namespace moert::run;
using testing::ElementsAre;
using testing::HasSubstr;

namespace {

Tensor tensor(std::vector<float> values) {
  auto count = static_cast<int64_t>(values.size());
  Tensor made;
  EXPECT_TRUE(Tensor::allocate({"t", "output", MOERT_F32, {count / 2, 2}, {count / 2, 2}, {{}, {}}}, made).ok());
  std::copy(values.begin(), values.end(), made.as<float>());
  return made;
}

RunResult resultOf(std::vector<float> values, double replicas = 0) {
  RunResult result;
  result.results["y"] = tensor(values);
  result.replicaGap["y"] = replicas;
  return result;
}

/// Failures if rounding moves `y` by `noise`.
std::vector<std::string> failures(const RunResult &plan, const RunResult &reference, double noise = 0,
                                  int32_t dtype = MOERT_F32, bool tf32 = false) {
  Comparisons comparisons(plan, reference, dtype, tf32);
  comparisons.addNoise({{"y", noise}});
  Verification verification;
  comparisons.report(verification);
  EXPECT_EQ(verification.failures.empty(), comparisons.isExplained() && comparisons.isFinite());
  return verification.failures;
}

double relativeError(std::vector<float> plan, std::vector<float> reference) {
  Verification verification;
  Comparisons(resultOf(plan), resultOf(reference), MOERT_F32, false).report(verification);
  return verification.values.at(0).relativeError;
}

} // namespace

TEST(Verify, RelativeError) {
  EXPECT_EQ(relativeError({3, 4}, {3, 4}), 0);
  EXPECT_EQ(relativeError({0, 0}, {3, 4}), 1);
  EXPECT_EQ(relativeError({3, 4}, {0, 0}), 1);
  EXPECT_EQ(relativeError({0, 0}, {0, 0}), 0);
  EXPECT_TRUE(std::isnan(relativeError({NAN, 4}, {3, 4})));
  EXPECT_TRUE(std::isnan(relativeError({3, 4}, {3, NAN})));
}

TEST(Verify, Failures) {
  EXPECT_TRUE(failures(resultOf({1, 2, 3, 4}), resultOf({1, 2, 3, 4.000001f})).empty());
  EXPECT_THAT(failures(resultOf({1, 2, 3, 4}), resultOf({1, 2, 3, 5})),
              ElementsAre(HasSubstr("result 'y' differs from the reference by 0.16")));
  EXPECT_THAT(failures(resultOf({3, 4}, 0.5), resultOf({3, 4})),
              ElementsAre(HasSubstr("result 'y': ranks that should hold equal parts differ by 0.1")));
  // A zero result hides no error.
  EXPECT_THAT(failures(resultOf({0, 0}, 0.5), resultOf({0, 0})),
              ElementsAre(HasSubstr("result 'y': ranks that should hold equal parts differ by 0.5")));
  EXPECT_THAT(failures(resultOf({1, 2, 3, 4}, NAN), resultOf({1, 2, 3, 4})), ElementsAre(HasSubstr("differ by nan")));
}

// A result that is only rounding may have an error of its full size. A result that rounding does not move may not.
TEST(Verify, Noise) {
  EXPECT_TRUE(failures(resultOf({1e-9f, 0}), resultOf({0, 2e-9f}), 1e-9).empty());
  EXPECT_THAT(failures(resultOf({1e-9f, 0}), resultOf({0, 2e-9f}), 1e-10),
              ElementsAre("result 'y' differs from the reference by 1.12 (rounding explains 0.2)"));
  EXPECT_TRUE(failures(resultOf({1e-9f, 0}), resultOf({0, 0}), 1e-9).empty());
  EXPECT_THAT(failures(resultOf({1e-9f, 0}), resultOf({0, 0})), ElementsAre(HasSubstr("by 1 (rounding explains")));
  // Differences between replicas are judged in the same way. Noise that is no number explains nothing.
  EXPECT_TRUE(failures(resultOf({3, 4}, 1e-3), resultOf({3, 4}), 2e-3).empty());
  EXPECT_THAT(failures(resultOf({3, 4}, 1e-3), resultOf({3, 4}), NAN), ElementsAre(HasSubstr("equal parts differ")));
}

// Results that rounding explains are distinguished from tested ones, and a bound is a number even if all values are
// zero.
TEST(Verify, MostlyRounding) {
  auto verified = [](const RunResult &plan, const RunResult &reference, double noise) {
    Comparisons comparisons(plan, reference, MOERT_F32, false);
    comparisons.addNoise({{"y", noise}});
    Verification verification;
    comparisons.report(verification);
    return verification;
  };
  Verification noise = verified(resultOf({1e-9f, 0}), resultOf({0, 2e-9f}), 1e-9);
  EXPECT_TRUE(noise.values[0].isRounding());
  EXPECT_EQ(noise.maxError(), 0);
  // A failing result counts.
  EXPECT_GT(verified(resultOf({1, 0}), resultOf({0, 2}), 0.1).maxError(), 1);
  Verification tested = verified(resultOf({1, 1}), resultOf({1, 1.000001f}), 1e-5);
  EXPECT_FALSE(tested.values[0].isRounding());
  EXPECT_GT(tested.maxError(), 0);
  EXPECT_DOUBLE_EQ(verified(resultOf({0, 0}), resultOf({0, 0}), 1e-9).values[0].bound, 4e-9);
}

// A result counts as rounded to the coarser of its type and the plan's.
TEST(Verify, Roundoff) {
  const RunResult plan = resultOf({1, 2, 3, 4.001f}), reference = resultOf({1, 2, 3, 4});
  EXPECT_FALSE(failures(plan, reference).empty());
  EXPECT_TRUE(failures(plan, reference, 0, MOERT_BF16).empty());
  EXPECT_TRUE(failures(plan, reference, 0, MOERT_F32, true).empty());
}

// NaN and Inf fail even if both sides have them, and are named with their place.
TEST(Verify, NotFinite) {
  EXPECT_THAT(failures(resultOf({1, 2, 3, NAN}), resultOf({1, 2, 3, 4})),
              ElementsAre("result 'y' of the plan holds NaN at [1, 1]"));
  EXPECT_THAT(
      failures(resultOf({1, 2, INFINITY, 4}), resultOf({1, 2, INFINITY, 4})),
      ElementsAre("result 'y' of the plan holds Inf at [1, 0]", "result 'y' of the reference holds Inf at [1, 0]"));
  Verification verification;
  Tensors inputs;
  inputs["x"] = tensor({1, NAN});
  checkInputs(inputs, verification);
  EXPECT_THAT(verification.failures, ElementsAre("argument 'x' holds NaN at [0, 1]"));
  EXPECT_FALSE(verification.ok());
}

TEST(Verify, Comparable) {
  Metadata metadata;
  EXPECT_THAT(checkComparable(metadata).message, HasSubstr("no reference"));
  Value y{"y", "output", MOERT_F32, {2}, {1}, {{}}};
  metadata.programs.emplace_back().results = {y};
  metadata.reference.emplace();
  EXPECT_THAT(checkComparable(metadata).message,
              HasSubstr("the plan has a result 'y' that the reference does not have"));
  metadata.reference->results = {y};
  EXPECT_TRUE(checkComparable(metadata).ok());
  metadata.reference->results[0].shape = {3};
  EXPECT_THAT(checkComparable(metadata).message, HasSubstr("'y' is [2] f32 in the plan, but [3] f32"));
}

constexpr int64_t kSmallJump = 90;

/// Results of a reference in which each argument near a jump changes two elements of the result, and `crossed` are on
/// the other side. One argument changes them by a twentieth of the others' mean.
static RunResult acrossJumps(std::span<const NearJump> crossed) {
  std::vector<float> values(2000, 1);
  for (const NearJump &jump : crossed)
    for (int64_t i : {3 * jump[2], 3 * jump[2] + 500})
      values[static_cast<size_t>(i)] += jump[2] == kSmallJump ? 0.0015f : 0.01f * static_cast<float>(1 + jump[2] % 5);
  return resultOf(values);
}

TEST(Verify, FindsSidesOfJumps) {
  std::vector<NearJump> near, found;
  for (int64_t i = 0; i < 300; ++i)
    near.push_back({4, i % 2, i});
  const std::vector<NearJump> taken = {near[3], near[170], near[171]};
  RunResult plan = acrossJumps(taken);
  for (int64_t i = 0; i < 2000; ++i)
    plan.results["y"].as<float>()[i] *= 1 + 1e-6f * static_cast<float>(i % 7 - 3);
  int runs = 0;
  bool isComplete = false;
  auto run = [&](std::span<const NearJump> crossed, RunResult &again) -> Status {
    ++runs;
    again = acrossJumps(crossed);
    return {};
  };
  ASSERT_TRUE(findCrossed(plan, acrossJumps({}), near, {{"y", 1e-4}}, run, found, isComplete).ok());
  EXPECT_EQ(found, taken);
  EXPECT_LE(runs, 60);
  EXPECT_TRUE(isComplete);
  // A small change is found, too.
  found.clear();
  const std::vector<NearJump> small = {near[kSmallJump]};
  ASSERT_TRUE(findCrossed(acrossJumps(small), acrossJumps({}), near, {{"y", 2e-5}}, run, found, isComplete).ok());
  EXPECT_EQ(found, small);
  // All arguments on the other side are too many to find.
  found.clear();
  ASSERT_TRUE(findCrossed(acrossJumps(near), acrossJumps({}), near, {{"y", 1e-4}}, run, found, isComplete).ok());
  EXPECT_FALSE(isComplete);
  // A fault is no sum of such changes.
  found.clear();
  plan.results["y"].as<float>()[1800] += 0.05f;
  ASSERT_TRUE(findCrossed(plan, acrossJumps({}), near, {{"y", 1e-4}}, run, found, isComplete).ok());
  EXPECT_EQ(found, taken);
}
