//===- VerifyTest.cpp -----------------------------------------------------===//

#include "run/Verify.h"

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
  result.replicaErrors["y"] = replicas;
  return result;
}

/// With results `y` and `z` of one role and `w` of another.
std::vector<std::string> failures(const RunResult &plan, const RunResult &reference) {
  Program program;
  for (const char *name : {"y", "z", "w"}) {
    Value &value = program.results.emplace_back();
    value.name = name;
    value.role = *name == 'w' ? "other" : "output";
  }
  Verification verification;
  compareResults(program, plan, reference, verification);
  return verification.failures;
}

} // namespace

TEST(Verify, RelativeError) {
  EXPECT_EQ(relativeError(tensor({3, 4}), tensor({3, 4})), 0);
  EXPECT_EQ(relativeError(tensor({0, 0}), tensor({3, 4})), 1);
  EXPECT_EQ(relativeError(tensor({3, 4}), tensor({0, 0})), 1);
  EXPECT_EQ(relativeError(tensor({0, 0}), tensor({0, 0})), 0);
  EXPECT_TRUE(std::isnan(relativeError(tensor({NAN, 4}), tensor({3, 4}))));
  EXPECT_TRUE(std::isnan(relativeError(tensor({3, 4}), tensor({3, NAN}))));
}

TEST(Verify, Failures) {
  EXPECT_TRUE(failures(resultOf({1, 2, 3, 4}), resultOf({1, 2, 3, 4.00001f})).empty());
  EXPECT_THAT(failures(resultOf({1, 2, 3, 4}), resultOf({1, 2, 3, 5})),
              ElementsAre(HasSubstr("result 'y' differs from the reference by 0.16")));
  EXPECT_THAT(failures(resultOf({1, 2, 3, 4}, 0.5), resultOf({1, 2, 3, 4})),
              ElementsAre(HasSubstr("result 'y': ranks that should hold equal parts differ by 0.5")));
  EXPECT_THAT(failures(resultOf({1, 2, 3, 4}, NAN), resultOf({1, 2, 3, 4})), ElementsAre(HasSubstr("differ by nan")));
}

// What is nothing but rounding beside another result of its role may be off; beside those of other roles it may not.
TEST(Verify, ScaleOfRole) {
  auto resultsOf = [](const char *name, float value) {
    RunResult result = resultOf({1, 2, 3, 4});
    result.results[name] = tensor({value, value});
    result.replicaErrors[name] = 0;
    return result;
  };
  EXPECT_TRUE(failures(resultsOf("z", 1e-9f), resultsOf("z", 2e-9f)).empty());
  EXPECT_THAT(failures(resultsOf("z", 1e-6f), resultsOf("z", 2e-6f)),
              ElementsAre(HasSubstr("result 'z' differs from the reference by 0.0003")));
  EXPECT_THAT(failures(resultsOf("w", 1e-9f), resultsOf("w", 2e-9f)),
              ElementsAre(HasSubstr("result 'w' differs from the reference by 0.5")));
}

// NaN and Inf fail even where both sides have them, and are named with their place.
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
  EXPECT_THAT(checkComparable(metadata).message, HasSubstr("the plan has a result 'y' that the reference has not"));
  metadata.reference->results = {y};
  EXPECT_TRUE(checkComparable(metadata).ok());
  metadata.reference->results[0].shape = {3};
  EXPECT_THAT(checkComparable(metadata).message, HasSubstr("'y' is [2] f32 in the plan, but [3] f32"));
}
