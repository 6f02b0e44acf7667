//===- RouteTest.cpp - choosing experts on CUDA ---------------------------===//
//
// The host's scores and the device's may differ in the last bit. The logits are such that this changes no choice: those
// of a token are far apart, or make the same few scores on both.
//
//===----------------------------------------------------------------------===//
#include "CudaKernelsTest.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <random>

namespace moert::cuda {
namespace {

using Views = std::vector<View>;

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

/// Operands of a route, in the order of its arguments. The last one has the forced choices.
std::vector<Operand> routeOperands(const Operand &logits, const Operand &bias, int64_t choices, int64_t chunks) {
  const int64_t tokens = logits.dims[0], experts = logits.dims[1];
  const int32_t dtype = logits.dtype;
  return {logits,
          bias,
          filledOperand(dtype, {tokens, experts}, 9),
          filledOperand(MOERT_I32, {tokens, choices}, 9),
          filledOperand(MOERT_I32, {tokens, choices}, 9),
          filledOperand(dtype, {tokens, choices}, 9),
          filledOperand(MOERT_I32, {chunks, experts}, 9),
          filledOperand(dtype, {}, 9),
          absent()};
}

KernelCall routeCall(const RouteOptions &options) {
  return [=](Kernels &k, const Views &v) {
    return k.route(v[0], v[1], v[2], v[3], v[4], v[5], v[6], v[7], options, v[8]);
  };
}

/// Each token's logits are different multiples of 1/32.
Operand distinctLogits(int32_t dtype, int64_t tokens, int64_t experts, int seed) {
  Operand logits = filledOperand(dtype, {tokens, experts}, 0);
  std::mt19937_64 engine(static_cast<uint64_t>(seed));
  std::vector<int> row(static_cast<size_t>(experts));
  std::iota(row.begin(), row.end(), -static_cast<int>(experts) / 2);
  for (size_t s = 0; s < static_cast<size_t>(tokens); ++s) {
    std::shuffle(row.begin(), row.end(), engine);
    for (size_t e = 0; e < row.size(); ++e)
      logits.values[s * row.size() + e] = row[e] / 32.0;
  }
  return logits;
}

/// Logits for which both kinds of scores give exact results.
Operand tiedLogits(int32_t dtype, int64_t tokens, int64_t experts, int seed) {
  Operand logits = filledOperand(dtype, {tokens, experts}, 0);
  std::mt19937_64 engine(static_cast<uint64_t>(seed));
  for (double &value : logits.values)
    value = engine() % 3 ? 0 : 100;
  return logits;
}

Operand tiedBias(int32_t dtype, int64_t experts) {
  Operand bias = filledOperand(dtype, {experts}, 0);
  for (size_t e = 0; e < bias.values.size(); ++e)
    bias.values[e] = static_cast<double>(e * 7 % 3) / 4;
  return bias;
}

/// A way to score tokens and to divide their rows.
struct Form {
  int64_t score, groups, capacity, chunks;
  bool hasBias, renormalize;
};

constexpr Form kForms[] = {{MOERT_SOFTMAX, 1, 0, 1, true, false},       {MOERT_SIGMOID_SCORE, 3, 0, 5, true, true},
                           {MOERT_SOFTMAX, 3, 1, 1, false, true},       {MOERT_SIGMOID_SCORE, 1, 5, 5, true, false},
                           {MOERT_SIGMOID_SCORE, 3, 2, 4, false, true}, {MOERT_SOFTMAX, 3, 5, 3, true, true}};

/// Runs both forms with several divisions, with and without bias.
void expectRoutes(const Operand &logits, int64_t choices, RouteOptions options, bool mayHaveBias = true) {
  const int64_t tokens = logits.dims[0], experts = logits.dims[1];
  for (const Form &form : kForms) {
    options.score = form.score;
    options.groups = tokens % form.groups == 0 ? form.groups : 1;
    options.capacity = form.capacity;
    options.chunks = form.chunks;
    // Rows of each expert with a capacity, and of all experts without one.
    const int64_t items = form.capacity ? form.capacity * options.groups : tokens, each = form.capacity ? 1 : choices;
    const bool isPadded = form.capacity ? items % form.chunks != 0 : form.chunks > 1;
    options.chunkRows = isPadded ? each * ((items + form.chunks - 1) / form.chunks) + 3 : 0;
    options.renormalize = form.renormalize;
    options.routingScale = form.renormalize ? 2.5 : 1;
    const Operand bias = form.hasBias && mayHaveBias ? tiedBias(logits.dtype, experts) : absent();
    expectAlike(Kind::Route, routeOperands(logits, bias, choices, options.chunks), routeCall(options), 4);
    if (::testing::Test::HasFatalFailure())
      return;
  }
}

TEST(CudaRouteTest, AllSizes) {
  for (int64_t tokens : {0, 1, 69})
    for (auto [experts, choices] : {std::pair<int64_t, int64_t>{1, 1}, {7, 2}, {64, 8}, {100, 3}, {256, 8}})
      expectRoutes(distinctLogits(MOERT_F32, tokens, experts, 1), choices, {});
}

TEST(CudaRouteTest, ManyExperts) {
  for (int64_t experts : {512, 520, 1000})
    expectRoutes(distinctLogits(MOERT_F32, 21, experts, 1), 6, {});
}

TEST(CudaRouteTest, AllTypes) {
  for (int32_t dtype : kFloatingTypes) {
    expectRoutes(distinctLogits(dtype, 45, 48, 2), 4, {});
    expectRoutes(distinctLogits(dtype, 9, 513, 2), 3, {});
  }
}

TEST(CudaRouteTest, AllExpertsChosen) {
  for (int64_t experts : {1, 5, 70})
    expectRoutes(distinctLogits(MOERT_F32, 12, experts, 3), experts, {});
}

TEST(CudaRouteTest, Ties) {
  for (int32_t dtype : {MOERT_F32, MOERT_F64, MOERT_BF16}) {
    expectRoutes(tiedLogits(dtype, 66, 13, 4), 4, {});
    expectRoutes(tiedLogits(dtype, 30, 130, 5), 9, {});
    expectRoutes(filledOperand(dtype, {40, 24}, 0), 5, {});
  }
}

TEST(CudaRouteTest, AllTokensToOneExpert) {
  Operand logits = distinctLogits(MOERT_F32, 300, 16, 6);
  for (size_t s = 0; s < 300; ++s)
    logits.values[s * 16 + 11] = 12;
  expectRoutes(logits, 1, {});
  expectRoutes(logits, 2, {});
}

TEST(CudaRouteTest, NoChoices) {
  RouteOptions options;
  options.groups = 3;
  expectAlike(Kind::Route, routeOperands(distinctLogits(MOERT_F32, 6, 4, 1), absent(), 0, 1), routeCall(options));
}

TEST(CudaRouteTest, ManyTokensAndGroups) {
  RouteOptions options;
  for (auto [groups, capacity] : {std::pair<int64_t, int64_t>{1, 0}, {1, 2}, {250, 2}, {200, 0}}) {
    options.groups = groups;
    options.capacity = capacity;
    options.chunks = capacity ? 2 : 4;
    options.chunkRows = capacity ? 0 : 2000;
    expectAlike(Kind::Route, routeOperands(distinctLogits(MOERT_F32, 1000, 16, 7), absent(), 2, options.chunks),
                routeCall(options), 4);
  }
}

TEST(CudaRouteTest, NotNumbers) {
  for (int32_t dtype : {MOERT_F32, MOERT_F64}) {
    Operand logits = distinctLogits(dtype, 24, 20, 8);
    logits.values[3] = logits.values[45] = logits.values[46] = kNan;
    std::fill_n(logits.values.begin() + 60, 20, kNan);
    std::fill_n(logits.values.begin() + 80, 20, -std::numeric_limits<double>::infinity());
    std::fill_n(logits.values.begin() + 100, 17, -std::numeric_limits<double>::infinity());
    logits.values[125] = std::numeric_limits<double>::infinity();
    expectRoutes(logits, 5, {});
  }
}

TEST(CudaRouteTest, GroupsOfExperts) {
  RouteOptions options;
  for (int64_t score : {MOERT_GROUP_MAX, MOERT_GROUP_TOP2})
    for (auto [groups, top] : {std::pair<int64_t, int64_t>{4, 2}, {8, 3}, {24, 9}, {3, 3}}) {
      options.groupScore = score;
      options.expertGroups = groups;
      options.topGroups = top;
      expectRoutes(distinctLogits(MOERT_F32, 6, 72, 9), 6, options);
      expectRoutes(tiedLogits(MOERT_F64, 6, 24, 10), 5, options);
    }
  expectRoutes(distinctLogits(MOERT_F32, 6, 576, 11), 7, options);
  options.topGroups = 2;
  for (int32_t dtype : kFloatingTypes)
    expectRoutes(distinctLogits(dtype, 6, 72, 9), 6, options);
  Operand logits = distinctLogits(MOERT_F32, 9, 24, 12);
  for (size_t i = 0; i < logits.values.size(); i += 5)
    logits.values[i] = kNan;
  expectRoutes(logits, 4, options);
}

/// The gate compares scores of different tokens, which must also be far apart or equal.
TEST(CudaRouteTest, TopologyAwareGate) {
  RouteOptions options;
  options.homes = 4;
  options.homeSpan = 2;
  options.rank = 3;
  for (int64_t leave : {0, 1, 6, 22, 100}) {
    options.leave = leave;
    expectRoutes(randomOperand(MOERT_F32, {39, 32}, 13, 2), 4, options, false);
    expectRoutes(tiedLogits(MOERT_F64, 36, 16, 15), 3, options);
  }
  options.leave = 150;
  expectRoutes(randomOperand(MOERT_F32, {270, 16}, 14, 2), 2, options, false);
  options.leave = 5;
  for (int32_t dtype : kFloatingTypes)
    expectRoutes(randomOperand(dtype, {33, 16}, 17, 2), 2, options, false);
  Operand logits = randomOperand(MOERT_F32, {30, 16}, 16, 2);
  for (size_t i = 0; i < logits.values.size(); i += 7)
    logits.values[i] = kNan;
  expectRoutes(logits, 3, options, false);
}

// --- Choices of the host -----------------------------------------------------

Operand forcedExperts(int64_t tokens, int64_t choices, int64_t experts) {
  std::vector<int> values;
  for (int s = 0; s < tokens; ++s)
    for (int j = 0; j < choices; ++j)
      values.push_back(static_cast<int>((s * 5 + j * 3) % experts));
  return indices({tokens, choices}, values);
}

TEST(CudaRouteTest, ForcedChoices) {
  for (int32_t dtype : kFloatingTypes)
    for (int64_t leave : {-1, 1})
      for (int64_t capacity : {0, 2}) {
        RouteOptions options;
        options.capacity = capacity;
        options.leave = leave;
        options.homes = 2;
        options.renormalize = true;
        std::vector<Operand> operands = routeOperands(distinctLogits(dtype, 40, 14, 1), absent(), 4, 1);
        operands[8] = forcedExperts(40, 4, 14);
        expectAlike(Kind::Route, operands, routeCall(options), 4);
      }
}

TEST(CudaRouteTest, ForcedChoicesThatAreNone) {
  std::vector<Operand> operands = routeOperands(distinctLogits(MOERT_F32, 40, 14, 1), absent(), 4, 1);
  operands[8] = forcedExperts(40, 4, 14);
  for (int expert : {-1, 14, 1 << 30}) {
    operands[8].values[6] = expert;
    expectSameError(Kind::Route, operands, routeCall({}),
                    "expected forced experts from 0 to 13 but got " + std::to_string(expert));
  }
  operands[8].values[6] = operands[8].values[4];
  expectSameError(Kind::Route, operands, routeCall({}), "expected different forced experts of token 1 but got 5 twice");
}

/// Two routes of one stream get forced choices, and are recorded.
TEST(CudaRouteTest, PagesOfTheHost) {
  std::vector<RoutingPage> pages(2);
  std::vector<Operand> operands = routeOperands(distinctLogits(MOERT_F32, 40, 14, 1), absent(), 4, 1);
  const Operand forced = forcedExperts(40, 4, 14);
  pages[1].forced.assign(forced.values.begin(), forced.values.end());
  operands.push_back(operands[3]);
  expectAlike(Kind::Route, operands, [&](Kernels &k, const Views &v) {
    for (size_t i = 0; i < 2; ++i) {
      const View experts = v[i ? 9 : 3];
      View choices;
      if (!pages[i].forced.empty())
        if (Status status = k.forcedChoices(pages[i], experts, choices); !status.ok())
          return status;
      if (Status status = k.route(v[0], v[1], v[2], experts, v[4], v[5], v[6], v[7], {}, choices); !status.ok())
        return status;
      if (Status status = k.recordChoices(experts, pages[i]); !status.ok())
        return status;
    }
    return Status();
  });
  EXPECT_EQ(pages[1].chosen, pages[1].forced);
  EXPECT_EQ(pages[0].chosen.size(), 160u);
  EXPECT_TRUE(std::all_of(pages[0].chosen.begin(), pages[0].chosen.end(), [](int e) { return e >= 0 && e < 14; }));
  EXPECT_NE(pages[0].chosen, pages[0].forced);
}

// --- Gradients ---------------------------------------------------------------

/// Operands: scores that sum to 1 in each row, different experts for each token, gradients of weights and aux, a
/// result.
std::vector<Operand> gradOperands(int32_t dtype, int64_t tokens, int64_t experts, int64_t choices) {
  Operand scores = randomOperand(dtype, {tokens, experts}, 1);
  for (size_t i = 0; i < scores.values.size(); ++i)
    scores.values[i] = 0.25 + 0.5 / (1 + std::exp(scores.values[i]));
  std::vector<int> chosen;
  std::mt19937_64 engine(2);
  std::vector<int> row(static_cast<size_t>(experts));
  std::iota(row.begin(), row.end(), 0);
  for (int64_t s = 0; s < tokens; ++s) {
    std::shuffle(row.begin(), row.end(), engine);
    chosen.insert(chosen.end(), row.begin(), row.begin() + choices);
  }
  return {scores, indices({tokens, choices}, chosen), randomOperand(dtype, {tokens, choices}, 3),
          randomOperand(dtype, {}, 4), filledOperand(dtype, {tokens, experts}, 9)};
}

TEST(CudaRouteTest, Gradients) {
  for (int32_t dtype : kFloatingTypes)
    for (auto [experts, choices] : {std::pair<int64_t, int64_t>{1, 1}, {5, 2}, {100, 7}, {300, 40}, {600, 3}})
      for (int64_t tokens : {0, 1, 20}) {
        const std::vector<Operand> operands = gradOperands(dtype, tokens, experts, choices);
        for (int64_t score : {MOERT_SOFTMAX, MOERT_SIGMOID_SCORE})
          for (int64_t groups : tokens == 20 ? std::vector<int64_t>{1, 4} : std::vector<int64_t>{1})
            for (int mask = 0; mask < 4; ++mask)
              expectAlike(
                  Kind::RouteGrad, operands,
                  [=](Kernels &k, const Views &v) {
                    return k.routeGrad(v[0], v[1], mask & 1 ? v[2] : View(), mask & 2 ? v[3] : View(), v[4], score,
                                       groups == 1, groups, 1.5);
                  },
                  20);
      }
}

TEST(CudaRouteTest, GradientsOfExpertsThatAreNone) {
  std::vector<Operand> operands = gradOperands(MOERT_F32, 5, 8, 2);
  for (int expert : {-1, 8, 1 << 30})
    for (int mask : {1, 2, 3}) {
      operands[1].values[7] = expert;
      expectSameError(
          Kind::RouteGrad, operands,
          [=](Kernels &k, const Views &v) {
            return k.routeGrad(v[0], v[1], mask & 1 ? v[2] : View(), mask & 2 ? v[3] : View(), v[4], MOERT_SOFTMAX,
                               true, 1, 1);
          },
          "expected 'experts' from 0 to 7 but got " + std::to_string(expert));
    }
}

} // namespace
} // namespace moert::cuda
