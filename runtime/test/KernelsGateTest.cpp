//===- KernelsGateTest.cpp - the topology-aware gate, and forced choices ---===//

#include "RoutingTest.h"

#include <optional>
#include <set>

namespace moert::host {
namespace {

template <class T> class KernelsGateTest : public ::testing::Test {};
TYPED_TEST_SUITE(KernelsGateTest, FloatingTypes);

// --- The oracle: moert.h's words, one after the other -------------------------

/// Empty if the value is NaN, which ranks below every number.
using Value = std::optional<double>;

/// Expert of the largest value in [begin, end) that `taken` does not have. Ties go to the lowest.
int32_t bestExpert(const std::vector<Value> &values, int64_t begin, int64_t end, const std::set<int32_t> &taken) {
  int32_t best = -1;
  for (int64_t e = begin; e < end; ++e)
    if (!taken.count(int32_t(e)) && (best < 0 || values[e] > values[best]))
      best = int32_t(e);
  return best;
}

/// Choices [tokens, k] of a routing group, from the selection values of its tokens.
std::vector<int32_t> slowGate(const std::vector<std::vector<Value>> &values, int64_t k, int64_t leave, int64_t begin,
                              int64_t end) {
  const int64_t tokens = int64_t(values.size());
  std::vector<int32_t> experts(tokens * k);
  std::vector<std::set<int32_t>> taken(tokens);
  for (int64_t j = 0; j < k; ++j) {
    std::vector<int64_t> away;
    for (int64_t t = 0; t < tokens; ++t) {
      int32_t &expert = experts[t * k + j];
      expert = bestExpert(values[t], 0, int64_t(values[t].size()), taken[t]);
      if (expert < begin || expert >= end)
        away.push_back(t);
    }
    std::stable_sort(away.begin(), away.end(), [&](int64_t a, int64_t b) {
      return values[a][experts[a * k + j]] > values[b][experts[b * k + j]];
    });
    for (int64_t i = leave; i < int64_t(away.size()); ++i)
      experts[away[i] * k + j] = bestExpert(values[away[i]], begin, end, taken[away[i]]);
    for (int64_t t = 0; t < tokens; ++t)
      taken[t].insert(experts[t * k + j]);
  }
  return experts;
}

/// Selection values of token t, from the kernel's own scores.
template <class T> std::vector<Value> selectionValues(Routing<T> &routing, int64_t t, bool withBias) {
  std::vector<Value> values;
  for (int64_t e = 0; e < routing.logits.dims[1]; ++e) {
    T value = routing.scores[t * routing.logits.dims[1] + e];
    if (withBias)
      value += routing.bias[e];
    // Scores and biases are never -inf here, so only NaN ranks lowest.
    values.push_back(std::isnan(value) ? Value() : Value(value));
  }
  return values;
}

template <class T> std::vector<int32_t> expectedChoices(Routing<T> &routing, const RouteOptions &options, bool bias) {
  const int64_t span = routing.logits.dims[0] / options.groups, size = routing.logits.dims[1] / options.homes;
  std::vector<int32_t> expected;
  for (int64_t g = 0; g < options.groups; ++g) {
    std::vector<std::vector<Value>> values;
    for (int64_t t = g * span; t < (g + 1) * span; ++t)
      values.push_back(selectionValues(routing, t, bias));
    const int64_t home = (options.rank / options.homeStride + g / options.homeSpan) % options.homes;
    std::vector<int32_t> mine =
        slowGate(values, routing.experts.dims[1], options.leave, home * size, (home + 1) * size);
    expected.insert(expected.end(), mine.begin(), mine.end());
  }
  return expected;
}

/// Weights, slots, counts and the loss follow from the choices as without the gate.
template <class T> void checkRest(Routing<T> &routing, const RouteOptions &options) {
  const int64_t k = routing.experts.dims[1], e = routing.logits.dims[1];
  std::vector<double> weights;
  for (int64_t i = 0; i < routing.experts.size(); ++i) {
    double sum = 0;
    for (int64_t j = i / k * k; j < (i / k + 1) * k; ++j)
      sum += double(routing.scores[i / k * e + routing.experts[j]]);
    const double weight = double(routing.scores[i / k * e + routing.experts[i]]) * options.routingScale;
    weights.push_back(options.renormalize ? weight / (sum + 1e-20) : weight);
  }
  expectNear(routing.weights.data, weights, tolerance<T>());
  checkSlotsAndLoss(routing, options);
}

// --- The gate ------------------------------------------------------------------

/// Parameters of a random case.
struct Sizes {
  int64_t tokens, experts, choices, chunks;
  RouteOptions options;
  bool bias, ties, notNumbers;
};

Sizes randomSizes(std::mt19937 &engine) {
  auto draw = [&](int64_t most) { return int64_t(engine() % uint64_t(most + 1)); };
  Sizes sizes{};
  RouteOptions &options = sizes.options;
  options.homes = int64_t(1) << draw(2);
  sizes.choices = 1 + draw(3);
  sizes.experts = options.homes * (sizes.choices + draw(draw(1) ? 3 : 30));
  options.groups = 1 + draw(2);
  const int64_t span = draw(draw(1) ? 4 : 40);
  sizes.tokens = options.groups * span;
  options.leave = draw(span);
  options.rank = draw(9);
  options.homeStride = 1 + draw(2);
  options.homeSpan = 1 + draw(2);
  options.score = draw(1);
  options.renormalize = draw(1);
  options.routingScale = 1.5;
  sizes.chunks = options.chunks = 1 + draw(2);
  if (draw(1))
    options.capacity = options.chunks * (1 + draw(4));
  else
    options.chunkRows = (sizes.tokens + options.chunks - 1) / options.chunks * sizes.choices;
  sizes.bias = draw(1);
  sizes.ties = draw(2) == 0;
  sizes.notNumbers = draw(4) == 0;
  return sizes;
}

template <class T> void fillLogits(Routing<T> &routing, const Sizes &sizes, int seed) {
  routing.logits = randomTensor<T>(routing.logits.dims, seed, 2.0);
  routing.bias = randomTensor<T>(routing.bias.dims, seed + 1, 0.2);
  std::mt19937 engine(seed);
  for (T &logit : routing.logits.data) {
    if (sizes.ties)
      logit = T(engine() % 3);
    if (sizes.notNumbers && engine() % 50 == 0)
      logit = T(NAN);
  }
  for (T &bias : routing.bias.data)
    bias = sizes.ties ? T(engine() % 2) : bias;
}

// For all sizes, the choices follow the definition in moert.h.
TYPED_TEST(KernelsGateTest, AgreesWithOracle) {
  std::mt19937 engine(7);
  for (int i = 0; i < 4000; ++i) {
    const Sizes sizes = randomSizes(engine);
    SCOPED_TRACE(testing::Message() << "case " << i << ": S " << sizes.tokens << " E " << sizes.experts << " k "
                                    << sizes.choices << " leave " << sizes.options.leave << " homes "
                                    << sizes.options.homes << " groups " << sizes.options.groups);
    Routing<TypeParam> routing(sizes.tokens, sizes.experts, sizes.choices, sizes.chunks);
    fillLogits(routing, sizes, i);
    Status status = routing.run(sizes.options, sizes.bias);
    ASSERT_TRUE(status.ok()) << status.message;
    ASSERT_EQ(routing.experts.data, expectedChoices(routing, sizes.options, sizes.bias));
    checkRest(routing, sizes.options);
    if (this->HasFatalFailure())
      return;
  }
}

// If all choices of a group may leave, or all experts are at home, the result equals that of the plain gate.
TYPED_TEST(KernelsGateTest, PlainWhereNothingStays) {
  const int64_t s = 24, e = 16, k = 3;
  for (int64_t groups : {1, 3})
    for (auto [leave, homes] : std::vector<std::pair<int64_t, int64_t>>{{s / groups, 4}, {s, 2}, {0, 1}, {-1, 4}}) {
      Routing<TypeParam> plain(s, e, k), gate(s, e, k);
      plain.logits = gate.logits = randomTensor<TypeParam>({s, e}, 5);
      RouteOptions options;
      options.groups = groups;
      options.capacity = 2;
      EXPECT_OK(plain.run(options));
      options.leave = leave;
      options.homes = homes;
      EXPECT_OK(gate.run(options));
      EXPECT_EQ(gate.experts.data, plain.experts.data);
      EXPECT_EQ(gate.slots.data, plain.slots.data);
      EXPECT_EQ(gate.weights.data, plain.weights.data);
      EXPECT_EQ(gate.counts.data, plain.counts.data);
      EXPECT_EQ(gate.aux[0], plain.aux[0]);
    }
}

// A plan's ranks and its one-rank reference, whose groups follow each other, choose alike.
TYPED_TEST(KernelsGateTest, RanksAgreeWithReference) {
  const int64_t span = 12, e = 8, k = 2, ranks = 4, copies = 2;
  Routing<TypeParam> reference(ranks / copies * span, e, k);
  reference.logits = randomTensor<TypeParam>({ranks / copies * span, e}, 3);
  RouteOptions options;
  options.leave = 3;
  options.homes = options.groups = ranks / copies;
  EXPECT_OK(reference.run(options));
  options.groups = 1;
  options.homeStride = copies;
  for (options.rank = 0; options.rank < ranks; ++options.rank) {
    Routing<TypeParam> mine(span, e, k);
    const int64_t first = options.rank / copies * span;
    std::copy_n(&reference.logits.data[first * e], span * e, mine.logits.data.begin());
    EXPECT_OK(mine.run(options));
    EXPECT_TRUE(std::equal(mine.experts.data.begin(), mine.experts.data.end(), &reference.experts.data[first * k]));
  }
}

// One token of four may leave for the second block of experts: the one with the highest score, and the first one among
// equals.
TYPED_TEST(KernelsGateTest, TheBestLeave) {
  Routing<TypeParam> routing(4, 4, 1);
  for (int64_t t = 0; t < 4; ++t)
    routing.logits[t * 4 + 1] = TypeParam(1), routing.logits[t * 4 + 2] = TypeParam(t == 2 ? 5 : 3);
  RouteOptions options;
  options.leave = 1;
  options.homes = 2;
  EXPECT_OK(routing.run(options));
  EXPECT_EQ(routing.experts.data, (std::vector<int32_t>{1, 1, 2, 1}));
  EXPECT_EQ(routing.counts.data, (std::vector<int32_t>{0, 3, 1, 0}));
  options.leave = 2;
  EXPECT_OK(routing.run(options));
  EXPECT_EQ(routing.experts.data, (std::vector<int32_t>{2, 1, 2, 1}));
  options.rank = 1;
  EXPECT_OK(routing.run(options));
  EXPECT_EQ(routing.experts.data, (std::vector<int32_t>{2, 2, 2, 2}));
}

TYPED_TEST(KernelsGateTest, BadHomes) {
  Routing<TypeParam> routing(6, 8, 3);
  auto fails = [&](int64_t leave, int64_t homes, const char *text, int64_t stride = 1, int64_t span = 1) {
    RouteOptions options;
    options.leave = leave;
    options.homes = homes;
    options.homeStride = stride;
    options.homeSpan = span;
    expectError(routing.run(options), MOERT_ERROR_INVALID_ARGUMENT, text);
  };
  fails(-1, 3, "expected 'homes' to divide the 8 experts but got 3");
  fails(2, 0, "expected 'homes' to divide the 8 experts but got 0");
  fails(-1, -2, "expected 'homes' to divide the 8 experts but got -2");
  fails(2, 2, "expected a 'home_stride' of 1 or more but got 0", 0);
  fails(2, 2, "expected a 'home_span' of 1 or more but got -1", 1, -1);
  fails(2, 4, "expected the 2 experts at home to hold the 3 choices of a token");
  RouteOptions options;
  options.leave = 0;
  options.expertGroups = options.topGroups = 2;
  expectError(routing.run(options), MOERT_ERROR_INVALID_ARGUMENT,
              "expected 'expert_groups' of 1 with a 'leave' of 0 or more but got 2");
}

// --- Forced choices --------------------------------------------------------------

// Any experts can be forced. All other results follow from them, without the gate.
TYPED_TEST(KernelsGateTest, Forced) {
  const int64_t s = 12, e = 8, k = 3;
  for (int64_t capacity : {0, 4})
    for (int64_t leave : {-1, 0})
      for (int64_t chunks : {1, 2}) {
        Routing<TypeParam> routing(s, e, k, chunks);
        routing.logits = randomTensor<TypeParam>({s, e}, 4);
        Tensor<int32_t> forced({s, k});
        for (int64_t i = 0; i < s * k; ++i)
          forced[i] = int32_t((i % k * 3 + i / 5 / k) % e);
        RouteOptions options;
        options.capacity = capacity;
        options.chunks = chunks;
        options.chunkRows = capacity ? 0 : s * k;
        options.leave = leave;
        options.homes = 2;
        options.renormalize = true;
        EXPECT_OK(routing.run(options, false, forced.view()));
        EXPECT_EQ(routing.experts.data, forced.data);
        checkRest(routing, options);
      }
}

TYPED_TEST(KernelsGateTest, BadForced) {
  Routing<TypeParam> routing(2, 4, 2);
  auto fails = [&](std::vector<int32_t> experts, const char *text) {
    Tensor<int32_t> forced({int64_t(experts.size()) / 2, 2}, experts);
    expectError(routing.run({}, false, forced.view()), MOERT_ERROR_INVALID_ARGUMENT, text);
  };
  fails({0, 1, 2, 4}, "expected forced experts from 0 to 3 but got 4");
  fails({0, 1, -1, 3}, "expected forced experts from 0 to 3 but got -1");
  fails({0, 1, 2, 2}, "expected different forced experts of token 1 but got 2 twice");
  fails({0, 1}, "expected 'the forced experts' to be i32[2,2] but got i32[1,2]");
}

// --- Gradients ---------------------------------------------------------------------

// The gradient takes the choice as a constant, made by the gate or forced.
TEST(KernelsGateGradientTest, AgreesWithFiniteDifferences) {
  for (int variant = 0; variant < 8; ++variant) {
    RouteOptions options;
    options.score = variant & 1;
    options.renormalize = variant & 2;
    options.groups = variant & 4 ? 2 : 1;
    options.routingScale = 1.5;
    options.leave = 1;
    options.homes = 3;
    options.rank = variant;
    Routing<double> routing(8, 12, 3);
    routing.logits = randomTensor<double>({8, 12}, variant);
    auto gradWeights = randomTensor<double>({8, 3}, 2);
    Tensor<double> gradAux({}, 0.7), grads({8, 12}, NAN);
    EXPECT_OK(routing.run(options));
    Tensor<int32_t> experts = routing.experts;
    EXPECT_OK(routeGrad(routing.scores.view(), experts.view(), gradWeights.view(), gradAux.view(), grads.view(),
                        options.score, options.renormalize, options.groups, options.routingScale));
    expectGradient(routing.logits, grads.data, [&] { return fixedLoss(routing, options, experts, &gradWeights, 0.7); });
    expectGradient(routing.logits, grads.data, [&] {
      EXPECT_OK(routing.run(options, false, experts.view()));
      return inner(routing.weights.data, gradWeights.data) + 0.7 * routing.aux[0];
    });
  }
}

} // namespace
} // namespace moert::host
