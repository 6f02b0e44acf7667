//===- KernelsRouteTest.cpp - routing against a slow oracle ----------------===//

#include "RoutingTest.h"

#include <set>

namespace moert::host {
namespace {

template <class T> class KernelsRouteTest : public ::testing::Test {};
TYPED_TEST_SUITE(KernelsRouteTest, FloatingTypes);

std::vector<double> slowScores(std::vector<double> row, int64_t kind) {
  const double largest = *std::max_element(row.begin(), row.end());
  double sum = 0;
  for (double &x : row)
    sum += x = kind == MOERT_SOFTMAX ? std::exp(x - largest) : 1 / (1 + std::exp(-x));
  for (double &x : row)
    x /= kind == MOERT_SOFTMAX ? sum : 1.0;
  return row;
}

template <class T> void checkScores(Routing<T> &routing, const RouteOptions &options) {
  const int64_t e = routing.logits.dims[1];
  for (int64_t t = 0; t < routing.logits.dims[0]; ++t) {
    auto first = routing.logits.data.begin() + t * e;
    std::vector<double> expected = slowScores({first, first + e}, options.score);
    for (int64_t i = 0; i < e; ++i)
      ASSERT_NEAR(routing.scores[t * e + i], expected[i], (std::is_same_v<T, double> ? 1e-14 : 1e-6));
  }
}

/// Experts that group-limited routing may choose, from the selection values of one token.
template <class T> std::vector<int> allowedExperts(const std::vector<T> &keys, const RouteOptions &options) {
  const int64_t size = int64_t(keys.size()) / options.expertGroups;
  std::vector<T> groupKeys;
  for (int64_t g = 0; g < options.expertGroups; ++g) {
    std::vector<T> mine(keys.begin() + g * size, keys.begin() + (g + 1) * size);
    std::sort(mine.rbegin(), mine.rend());
    groupKeys.push_back(options.groupScore == MOERT_GROUP_TOP2 && size > 1 ? mine[0] + mine[1] : mine[0]);
  }
  std::vector<int> order(options.expertGroups), experts;
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](int a, int b) { return groupKeys[a] > groupKeys[b]; });
  order.resize(options.topGroups);
  std::sort(order.begin(), order.end());
  for (int g : order)
    for (int64_t e = g * size; e < (g + 1) * size; ++e)
      experts.push_back(int(e));
  return experts;
}

/// Choices and weights follow from the kernel's own scores.
template <class T> void checkChoices(Routing<T> &routing, const RouteOptions &options, bool withBias) {
  const int64_t s = routing.logits.dims[0], e = routing.logits.dims[1], k = routing.experts.dims[1];
  for (int64_t t = 0; t < s; ++t) {
    std::vector<T> keys(routing.scores.data.begin() + t * e, routing.scores.data.begin() + (t + 1) * e);
    for (int64_t i = 0; i < e && withBias; ++i)
      keys[i] += routing.bias[i];
    std::vector<int> order = allowedExperts(keys, options);
    std::stable_sort(order.begin(), order.end(), [&](int a, int b) { return keys[a] > keys[b]; });
    double sum = 0;
    for (int64_t j = 0; j < k; ++j) {
      ASSERT_EQ(routing.experts[t * k + j], order[j]) << "token " << t << " choice " << j;
      sum += double(routing.scores[t * e + order[j]]);
    }
    for (int64_t j = 0; j < k; ++j) {
      double weight = double(routing.scores[t * e + order[j]]) * options.routingScale;
      ASSERT_NEAR(routing.weights[t * k + j], options.renormalize ? weight / (sum + 1e-20) : weight, tolerance<T>());
    }
  }
}

template <class T> void checkRouting(Routing<T> &routing, const RouteOptions &options, bool withBias) {
  SCOPED_TRACE(testing::Message() << "E " << routing.logits.dims[1] << " k " << routing.experts.dims[1] << " score "
                                  << options.score << " capacity " << options.capacity << " groups " << options.groups
                                  << " expert groups " << options.expertGroups << " bias " << withBias);
  Status status = routing.run(options, withBias);
  ASSERT_TRUE(status.ok()) << status.message;
  checkScores(routing, options);
  checkChoices(routing, options, withBias);
  checkSlotsAndLoss(routing, options);
}

// Chunks divide the rows of the capacity form evenly, and those of the dropless form by tokens.
TYPED_TEST(KernelsRouteTest, Chunks) {
  using T = TypeParam;
  const int64_t e = 5, k = 3;
  for (int64_t chunks : {1, 2, 3, 4, 7, 30})
    for (int64_t s : {24, 6, 1}) {
      Routing<T> routing(s, e, k, chunks);
      routing.logits = randomTensor<T>({s, e}, int(s + chunks));
      RouteOptions options;
      options.chunks = chunks;
      const int64_t most = (s + chunks - 1) / chunks * k;
      for (int64_t rows : {most, most + 2}) {
        options.chunkRows = rows;
        checkRouting(routing, options, false);
      }
      for (int64_t groups : {1, 2}) {
        if (s % groups)
          continue;
        options.chunkRows = 0;
        options.groups = groups;
        // Few rows, so that some are dropped, and enough rows for all.
        for (int64_t capacity : {chunks, chunks * s}) {
          options.capacity = capacity;
          checkRouting(routing, options, false);
        }
        // The least number of rows that hold a capacity which chunks do not divide, and more: the same choices are
        // dropped.
        options.capacity = 5;
        for (int64_t more : {0, 1, 4}) {
          options.chunkRows = (groups * options.capacity + chunks - 1) / chunks + more;
          checkRouting(routing, options, false);
        }
        options.capacity = 0;
        options.groups = 1;
      }
    }
}

TYPED_TEST(KernelsRouteTest, BadChunks) {
  using T = TypeParam;
  auto error = [](int64_t chunks, int64_t rows, int64_t capacity, const char *text) {
    Routing<T> routing(10, 4, 2, std::max<int64_t>(chunks, 1));
    RouteOptions options;
    options.chunks = chunks;
    options.chunkRows = rows;
    options.capacity = capacity;
    expectError(routing.run(options), MOERT_ERROR_INVALID_ARGUMENT, text);
  };
  error(0, 0, 0, "expected 'chunks' of 1 or more but got 0");
  error(-1, 0, 4, "expected 'chunks' of 1 or more but got -1");
  error(3, 0, 4, "expected 'chunks' to divide 1 groups times a capacity of 4 without 'chunk_rows' but got 3");
  error(2, 1, 4, "expected 2 times 'chunk_rows' to hold 1 groups times a capacity of 4 but got 1");
  error(2, -5, 4, "expected 2 times 'chunk_rows' to hold 1 groups times a capacity of 4 but got -5");
  error(2, 2000000000, 4, "at most 2^31 - 1 rows");
  error(3, 7, 0, "expected 'chunk_rows' of 8 or more, the most choices of one of 3 chunks, but got 7");
  error(2, 0, 0, "expected 'chunk_rows' of 10 or more");
  error(1, 19, 0, "expected 'chunk_rows' of 20 or more");
  error(2, 2000000000, 0, "at most 2^31 - 1 rows");
  Routing<T> routing(10, 4, 2);
  RouteOptions options;
  options.chunks = 2;
  options.chunkRows = 10;
  expectError(routing.run(options), MOERT_ERROR_INVALID_ARGUMENT, "expected 'counts' to be i32[2,4]");
}

// Covers one to eight choices, few and many experts, both scores, capacity (with and without drops) and dropless, one
// and several routing groups, with and without selection bias and renormalisation.
TYPED_TEST(KernelsRouteTest, AgreesWithOracle) {
  using T = TypeParam;
  for (int64_t e : {1, 2, 8, 17, 64, 100, 512})
    for (int64_t k = 1; k <= std::min<int64_t>(e, 8); ++k)
      for (int variant = 0; variant < 16; ++variant) {
        const int64_t s = 24;
        Routing<T> routing(s, e, k);
        routing.logits = randomTensor<T>({s, e}, int(e + k), 2.0);
        routing.bias = randomTensor<T>({e}, 3, 0.3);
        RouteOptions options;
        options.score = variant & 1;
        options.renormalize = variant & 2;
        options.capacity = variant & 4 ? std::max<int64_t>(1, k * s / e / 3) : 0;
        options.groups = variant & 8 ? 3 : 1;
        options.routingScale = 2.5;
        checkRouting(routing, options, (variant ^ k) & 1);
        if (this->HasFatalFailure())
          return;
      }
}

// Expert groups limit the choice to experts of the best groups, for both scores of a group.
TYPED_TEST(KernelsRouteTest, GroupLimited) {
  using T = TypeParam;
  for (int64_t parts : {2, 4, 8, 32})
    for (int64_t top : {1, 2, 4})
      for (int64_t k : {1, 2, 6}) {
        if (top > parts || top * (32 / parts) < k)
          continue;
        for (int64_t groupScore : {MOERT_GROUP_MAX, MOERT_GROUP_TOP2}) {
          Routing<T> routing(30, 32, k);
          routing.logits = randomTensor<T>({30, 32}, int(parts * 10 + top));
          routing.bias = randomTensor<T>({32}, 3, 0.5);
          RouteOptions options;
          options.score = MOERT_SIGMOID_SCORE;
          options.expertGroups = parts;
          options.topGroups = top;
          options.groupScore = groupScore;
          checkRouting(routing, options, true);
          if (this->HasFatalFailure())
            return;
        }
      }
}

// Equal selection values go to the lower index, in one block of experts and across blocks and groups.
TYPED_TEST(KernelsRouteTest, TiesGoToTheLowerIndex) {
  using T = TypeParam;
  for (int64_t e : {4, 40, 96})
    for (int64_t parts : {1, 4}) {
      Routing<T> routing(3, e, 2);
      RouteOptions options;
      options.expertGroups = parts;
      options.topGroups = std::max<int64_t>(1, parts / 2);
      EXPECT_OK(routing.run(options));
      EXPECT_EQ(routing.experts.data, (std::vector<int32_t>{0, 1, 0, 1, 0, 1}));
      for (int64_t t = 0; t < 3; ++t)
        routing.logits[t * e + e - 2] = routing.logits[t * e + e - 1] = T(5);
      EXPECT_OK(routing.run(options));
      EXPECT_EQ(routing.experts[0], e - 2);
      EXPECT_EQ(routing.experts[1], e - 1);
    }
}

// If all tokens choose one expert, the first `capacity` first choices get in, in the order of tokens.
TYPED_TEST(KernelsRouteTest, AllTokensToOneExpert) {
  using T = TypeParam;
  Routing<T> routing(6, 4, 2);
  for (int64_t t = 0; t < 6; ++t)
    routing.logits[t * 4 + 2] = T(9), routing.logits[t * 4 + 1] = T(3);
  RouteOptions options;
  options.capacity = 4;
  EXPECT_OK(routing.run(options));
  EXPECT_EQ(routing.slots.data, (std::vector<int32_t>{8, 4, 9, 5, 10, 6, 11, 7, -1, -1, -1, -1}));
  EXPECT_EQ(routing.counts.data, (std::vector<int32_t>{0, 4, 4, 0}));
  options.capacity = 0;
  EXPECT_OK(routing.run(options));
  EXPECT_EQ(routing.slots.data, (std::vector<int32_t>{6, 0, 7, 1, 8, 2, 9, 3, 10, 4, 11, 5}));
  EXPECT_EQ(routing.counts.data, (std::vector<int32_t>{0, 6, 6, 0}));
}

// NaN and infinite logits still give k different experts, slots within the rows, and NaN in the loss.
TYPED_TEST(KernelsRouteTest, NotANumber) {
  using T = TypeParam;
  const T infinity = std::numeric_limits<T>::infinity();
  for (int64_t score : {MOERT_SOFTMAX, MOERT_SIGMOID_SCORE})
    for (int64_t parts : {1, 4})
      for (T value : {T(NAN), infinity, -infinity}) {
        const int64_t s = 10, e = 24, k = 5;
        Routing<T> routing(s, e, k);
        routing.logits = randomTensor<T>({s, e}, 1);
        for (int64_t i = 0; i < s * e; ++i)
          if (i % 3 == 0 || i / e < 2)
            routing.logits[i] = value;
        RouteOptions options;
        options.score = score;
        options.capacity = 3;
        options.expertGroups = parts;
        options.topGroups = std::min<int64_t>(parts, 2);
        EXPECT_OK(routing.run(options));
        for (int64_t t = 0; t < s; ++t) {
          std::set<int32_t> chosen(&routing.experts[t * k], &routing.experts[t * k] + k);
          EXPECT_EQ(int64_t(chosen.size()), k);
          EXPECT_GE(*chosen.begin(), 0);
          EXPECT_LT(*chosen.rbegin(), e);
        }
        for (int32_t slot : routing.slots.data)
          EXPECT_TRUE(slot >= -1 && slot < e * 3);
        EXPECT_TRUE(!std::isnan(value) || std::isnan(routing.aux[0]));
      }
}

// A logit of -inf masks its expert: its score is exactly zero, and it is never chosen.
TYPED_TEST(KernelsRouteTest, MinusInfinityMasks) {
  using T = TypeParam;
  Routing<T> routing(4, 20, 3);
  routing.logits = randomTensor<T>({4, 20}, 1);
  for (int64_t t = 0; t < 4; ++t)
    routing.logits[t * 20 + 5] = -std::numeric_limits<T>::infinity();
  EXPECT_OK(routing.run({}));
  for (int64_t t = 0; t < 4; ++t)
    EXPECT_EQ(routing.scores[t * 20 + 5], T(0));
  EXPECT_EQ(std::count(routing.experts.data.begin(), routing.experts.data.end(), 5), 0);
}

// A token's scores have the same bits alone, first or last in a batch, and at any alignment.
TYPED_TEST(KernelsRouteTest, TokensAreIndependent) {
  using T = TypeParam;
  for (int64_t score : {MOERT_SOFTMAX, MOERT_SIGMOID_SCORE})
    for (int64_t e : {3, 8, 20, 61, 64}) {
      Routing<T> one(1, e, 2), many(9, e, 2);
      one.logits = randomTensor<T>({1, e}, int(e));
      for (int64_t i = 0; i < 9 * e; ++i)
        many.logits[i] = one.logits[i % e];
      RouteOptions options;
      options.score = score;
      EXPECT_OK(one.run(options));
      EXPECT_OK(many.run(options));
      for (int64_t i = 0; i < 9 * e; ++i)
        ASSERT_EQ(many.scores[i], one.scores[i % e]);
      for (int64_t i = 0; i < 18; ++i)
        ASSERT_EQ(many.weights[i], one.weights[i % 2]);
    }
}

// Without tokens there are no slots, zero counts and no loss.
TYPED_TEST(KernelsRouteTest, NoTokens) {
  using T = TypeParam;
  for (int64_t capacity : {0, 4}) {
    Routing<T> routing(0, 3, 2);
    RouteOptions options;
    options.capacity = capacity;
    EXPECT_OK(routing.run(options));
    EXPECT_EQ(routing.counts.data, (std::vector<int32_t>{0, 0, 0}));
    EXPECT_EQ(routing.aux[0], T(0));
    Tensor<T> scores({0, 3}), grads({0, 3}), one({}, T(1));
    EXPECT_OK(
        routeGrad(scores.view(), routing.experts.view(), {}, one.view(), grads.view(), MOERT_SOFTMAX, false, 1, 1));
  }
}

// Impossible options are refused with the reason.
TYPED_TEST(KernelsRouteTest, BadOptions) {
  using T = TypeParam;
  Routing<T> routing(6, 8, 3);
  auto fails = [&](const RouteOptions &options, const char *text) {
    expectError(routing.run(options), MOERT_ERROR_INVALID_ARGUMENT, text);
  };
  RouteOptions options;
  options.groups = 4;
  fails(options, "'groups' to divide the 6 tokens but got 4");
  options = {};
  options.expertGroups = 3;
  fails(options, "'expert_groups' to divide the 8 experts but got 3");
  options.expertGroups = 4;
  fails(options, "expected the 1 best groups of 2 experts to hold the 3 choices");
  options.topGroups = 5;
  fails(options, "'top_groups' from 1 to 4 but got 5");
  options = {};
  options.score = 7;
  fails(options, "'score'");
  options = {};
  options.capacity = -1;
  fails(options, "'capacity' of 0 or more but got -1");
  options.capacity = int64_t(1) << 30;
  fails(options, "rows of dispatched tokens");
  Routing<T> greedy(6, 2, 3);
  expectError(greedy.run({}), MOERT_ERROR_INVALID_ARGUMENT, "2 choices at most but got 3");
}

// Experts outside the range are refused by the gradient.
TYPED_TEST(KernelsRouteTest, BadExperts) {
  using T = TypeParam;
  Tensor<T> scores({2, 4}), grads({2, 4}), weights({2, 1});
  Tensor<int32_t> experts({2, 1}, {0, 4});
  expectError(routeGrad(scores.view(), experts.view(), weights.view(), {}, grads.view(), MOERT_SOFTMAX, false, 1, 1),
              MOERT_ERROR_INVALID_ARGUMENT, "'experts' from 0 to 3 but got 4");
}

// The gradient of the logits is the finite difference of weights and aux: softmax and sigmoid, renormalised or not, one
// and several groups, with either gradient absent.
TEST(KernelsRouteGradientTest, AgreesWithFiniteDifferences) {
  for (int64_t e : {4, 19})
    for (int64_t k : {1, 3})
      for (int variant = 0; variant < 8; ++variant)
        for (int given = 0; given < 4; ++given) {
          RouteOptions options;
          options.score = variant & 1;
          options.renormalize = variant & 2;
          options.groups = variant & 4 ? 2 : 1;
          options.routingScale = 1.5;
          Routing<double> routing(6, e, k);
          routing.logits = randomTensor<double>({6, e}, int(e + k));
          auto gradWeights = randomTensor<double>({6, k}, 2);
          Tensor<double> gradAux({}, 0.7), grads({6, e}, NAN);
          EXPECT_OK(routing.run(options));
          Tensor<int32_t> experts = routing.experts;
          EXPECT_OK(routeGrad(routing.scores.view(), experts.view(), given & 1 ? gradWeights.view() : View(),
                              given & 2 ? gradAux.view() : View(), grads.view(), options.score, options.renormalize,
                              options.groups, options.routingScale));
          expectGradient(routing.logits, grads.data, [&] {
            return fixedLoss(routing, options, experts, given & 1 ? &gradWeights : nullptr, given & 2 ? 0.7 : 0.0);
          });
        }
}

// f32 gives the f64 gradient up to rounding.
TEST(KernelsRouteGradientTest, SingleAgreesWithDouble) {
  for (int64_t score : {MOERT_SOFTMAX, MOERT_SIGMOID_SCORE}) {
    Routing<float> routing(12, 64, 8);
    routing.logits = randomTensor<float>({12, 64}, 1);
    RouteOptions options;
    options.score = score;
    EXPECT_OK(routing.run(options));
    auto gradWeights = randomTensor<float>({12, 8}, 2);
    Tensor<float> gradAux({}, 0.5f), grads({12, 64});
    Tensor<double> scores64({12, 64}, {routing.scores.data.begin(), routing.scores.data.end()});
    Tensor<double> weights64({12, 8}, {gradWeights.data.begin(), gradWeights.data.end()});
    Tensor<double> aux64({}, 0.5), grads64({12, 64});
    EXPECT_OK(routeGrad(routing.scores.view(), routing.experts.view(), gradWeights.view(), gradAux.view(), grads.view(),
                        score, true, 2, 1));
    EXPECT_OK(routeGrad(scores64.view(), routing.experts.view(), weights64.view(), aux64.view(), grads64.view(), score,
                        true, 2, 1));
    expectNear(grads.data, grads64.data, 1e-6);
  }
}

} // namespace
} // namespace moert::host
