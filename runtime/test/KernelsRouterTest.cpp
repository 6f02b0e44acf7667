//===- KernelsRouterTest.cpp - terms of the losses of routers -------------===//

#include "KernelsTest.h"

#include "host/Kernels.h"

namespace moert::host {
namespace {

template <class T> class KernelsRouterTest : public ::testing::Test {};
TYPED_TEST_SUITE(KernelsRouterTest, FloatingTypes);

/// Means of a group, by the formulas of moert.h.
struct PlainMeans {
  std::vector<double> loads, shares;
  double square = 0;

  PlainMeans(const double *logits, int64_t tokens, int64_t experts, int64_t topK)
      : loads(static_cast<size_t>(experts)), shares(loads) {
    const double count = static_cast<double>(tokens);
    for (int64_t s = 0; s < tokens; ++s, logits += experts) {
      double sum = 0;
      for (int64_t e = 0; e < experts; ++e)
        sum += std::exp(logits[e]);
      square += std::log(sum) * std::log(sum) / count;
      for (int64_t e = 0; e < experts; ++e) {
        shares[static_cast<size_t>(e)] += std::exp(logits[e]) / sum / count;
        int64_t before = 0;
        for (int64_t o = 0; o < experts; ++o)
          before += logits[o] > logits[e] || (logits[o] == logits[e] && o < e);
        loads[static_cast<size_t>(e)] += before < topK ? 1 / count : 0;
      }
    }
  }
};

// Groups are independent, and ties go to the lower expert.
TYPED_TEST(KernelsRouterTest, AgreesWithTheFormulas) {
  using T = TypeParam;
  const int64_t groups = 2, perGroup = 9, experts = 5;
  auto logits = randomTensor<T>({groups * perGroup, experts}, 1, 2.0);
  std::fill_n(logits.data.begin(), experts, T(0.5));
  std::vector<double> exact(logits.data.begin(), logits.data.end());
  for (int64_t topK : {1, 3, 5}) {
    Tensor<T> loads({groups, experts}), shares({groups, experts}), squares({groups, 1});
    EXPECT_OK(routerMeans(logits.view(), loads.view(), shares.view(), squares.view(), topK, {}));
    std::vector<double> plainLoads, plainShares, plainSquares;
    for (int64_t g = 0; g < groups; ++g) {
      PlainMeans plain(exact.data() + g * perGroup * experts, perGroup, experts, topK);
      plainLoads.insert(plainLoads.end(), plain.loads.begin(), plain.loads.end());
      plainShares.insert(plainShares.end(), plain.shares.begin(), plain.shares.end());
      plainSquares.push_back(plain.square);
    }
    expectNear(loads.data, plainLoads, tolerance<T>());
    expectNear(shares.data, plainShares, tolerance<T>());
    expectNear(squares.data, plainSquares, tolerance<T>());
  }
}

// Loads count forced choices, and shares do not depend on them.
TYPED_TEST(KernelsRouterTest, ForcedChoices) {
  using T = TypeParam;
  auto logits = randomTensor<T>({4, 3}, 1, 2.0);
  Tensor<int32_t> forced({4, 2});
  forced.data = {0, 1, 2, 0, 0, 1, 1, 2};
  Tensor<T> loads({2, 3}), shares({2, 3}), squares({2, 1}), free({2, 3}), own({2, 3});
  EXPECT_OK(routerMeans(logits.view(), free.view(), own.view(), squares.view(), 2, {}));
  EXPECT_OK(routerMeans(logits.view(), loads.view(), shares.view(), squares.view(), 2, forced.view()));
  EXPECT_EQ(loads.data, (std::vector<T>{1, T(0.5), T(0.5), T(0.5), 1, T(0.5)}));
  EXPECT_EQ(shares.data, own.data);
  forced.data[5] = 3;
  expectError(routerMeans(logits.view(), loads.view(), shares.view(), squares.view(), 2, forced.view()),
              MOERT_ERROR_INVALID_ARGUMENT, "expected forced experts from 0 to 2 but got 3");
}

// Gradient of shares and squares together, and of each alone.
TEST(KernelsRouter, GradAgreesWithFiniteDifferences) {
  auto logits = randomTensor<double>({8, 4}, 2), toShares = randomTensor<double>({2, 4}, 3);
  auto toSquares = randomTensor<double>({2, 1}, 4);
  Tensor<double> loads({2, 4}), shares({2, 4}), squares({2, 1}), out({8, 4});
  for (auto [hasShares, hasSquares] : {std::pair(true, true), {true, false}, {false, true}, {false, false}}) {
    EXPECT_OK(routerMeansGrad(logits.view(), hasShares ? toShares.view() : View(),
                              hasSquares ? toSquares.view() : View(), out.view()));
    expectGradient(logits, out.data, [&, hasShares = hasShares, hasSquares = hasSquares] {
      EXPECT_OK(routerMeans(logits.view(), loads.view(), shares.view(), squares.view(), 2, {}));
      return (hasShares ? inner(shares.data, toShares.data) : 0) +
             (hasSquares ? inner(squares.data, toSquares.data) : 0);
    });
  }
}

TEST(KernelsRouter, Refuses) {
  Tensor<float> logits({6, 4}), means({2, 4}), squares({2, 1}), odd({4, 4}), four({4, 1});
  auto error = [&](View loads, View shares, View square, int64_t topK, const char *text) {
    expectError(routerMeans(logits.view(), loads, shares, square, topK, {}), MOERT_ERROR_INVALID_ARGUMENT, text);
  };
  error(means.view(), means.view(), squares.view(), 5, "'router_means': expected 'top_k' from 1 to 4 but got 5");
  error(odd.view(), odd.view(), four.view(), 1, "expected 'loads' of groups that divide 6 tokens but got");
  error(means.view(), odd.view(), squares.view(), 1, "expected 'shares'");
  error(means.view(), means.view(), means.view(), 1, "expected 'squares'");
}

} // namespace
} // namespace moert::host
