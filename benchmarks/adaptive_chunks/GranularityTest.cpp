//===- GranularityTest.cpp - the policy on modelled steps -----------------===//

#include "Granularity.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <cmath>
#include <random>

using namespace moert;
using testing::HasSubstr;

namespace {

const std::vector<int64_t> kChunks = {1, 2, 4, 8};

/// A pipeline of computing and exchanging chunks of b tokens. Small chunks compute less efficiently.
struct Pipeline {
  const char *name;
  double computeLaunch, exchangeLaunch; ///< seconds of a chunk
  double compute, exchange;             ///< seconds of a token
  double loss;                          ///< tokens of a chunk at which computing takes 30 % longer

  double seconds(int64_t chunks, int64_t batch) const {
    double b = static_cast<double>(batch) / static_cast<double>(chunks);
    double c = computeLaunch + compute * b * (1 + 0.3 * std::pow(loss / b, 0.6)), m = exchangeLaunch + exchange * b;
    return c + m + static_cast<double>(chunks - 1) * std::max(c, m);
  }
};

const Pipeline kPipelines[] = {
    {"even", 2e-4, 1e-4, 1e-6, 1e-6, 0},          {"compute", 3e-4, 2e-4, 2e-6, 1e-6, 0},
    {"exchange", 1e-4, 4e-4, 1e-6, 2e-6, 0},      {"crossing", 2e-4, 6e-4, 1.2e-6, 1e-6, 0},
    {"inefficient", 1e-4, 1e-4, 1e-6, 1e-6, 2e3}, {"quick", 5e-5, 5e-5, 1e-6, 0.8e-6, 1e3},
    {"slow", 2e-3, 1e-3, 1e-6, 1e-6, 0},          {"little", 6e-4, 2e-4, 1e-6, 0.4e-6, 500},
};

enum class Predictions { None, Tilted, Biased };

struct Score {
  /// shares of the steps after the first 100 that have the best count, or take at most 1 % longer
  double strict = 0, near = 0;
  int64_t trials = 0;
};

Score play(const Pipeline &pipeline, int seed, Predictions predictions, int steps = 2000) {
  std::mt19937_64 random(static_cast<uint64_t>(seed) * 77 + 5);
  std::uniform_real_distribution<double> uniform(0, 1);
  std::normal_distribution<double> noise(1, 0.01);
  std::vector<int64_t> sizes;
  for (int i = 0; i < 32; ++i)
    sizes.push_back(seed % 2 ? std::llround(1024 * std::pow(64, uniform(random)))
                             : std::llround(1024 + 64512 * uniform(random)));
  double factor = std::exp(2 * uniform(random) - 1), tilt = 0.4 * uniform(random) - 0.2;
  std::optional<Granularity> policy;
  EXPECT_TRUE(Granularity::create(kChunks, policy).ok());
  Score score;
  int counted = 0, strict = 0, near = 0;
  for (int step = 0; step < steps; ++step) {
    int64_t batch = sizes[random() % sizes.size()], chosen = 0;
    std::vector<double> truth, predicted;
    for (int64_t n : kChunks) {
      truth.push_back(pipeline.seconds(n, batch));
      double bias = predictions == Predictions::Biased ? std::pow(static_cast<double>(n), 0.05) : 1;
      predicted.push_back(truth.back() * factor * std::pow(static_cast<double>(batch) / 8192, tilt) * bias);
    }
    bool trial = false;
    Status status =
        policy->choose(batch, predictions == Predictions::None ? std::vector<double>() : predicted, chosen, trial);
    EXPECT_TRUE(status.ok()) << status.message;
    score.trials += trial;
    double mine = pipeline.seconds(chosen, batch), best = *std::min_element(truth.begin(), truth.end());
    if (step >= 100) {
      ++counted;
      strict += mine == best;
      near += mine <= 1.01 * best;
    }
    EXPECT_TRUE(policy->report(batch, chosen, mine * noise(random)).ok());
  }
  EXPECT_EQ(policy->trials(), score.trials);
  score.strict = double(strict) / counted;
  score.near = double(near) / counted;
  return score;
}

void checkOrdered(const Granularity &policy) {
  std::vector<Granularity::Range> ranges = policy.ranges();
  for (size_t i = 0; i < ranges.size(); ++i) {
    EXPECT_LE(ranges[i].lower, ranges[i].upper);
    if (i > 0) {
      EXPECT_LT(ranges[i - 1].upper, ranges[i].lower);
      EXPECT_LT(ranges[i - 1].chunks, ranges[i].chunks);
    }
  }
}

std::string nameOf(const testing::TestParamInfo<Predictions> &info) {
  return info.param == Predictions::None ? "None" : info.param == Predictions::Tilted ? "Tilted" : "Biased";
}

class GranularityStreams : public testing::TestWithParam<Predictions> {};

} // namespace

// On random streams of 32 batch sizes the best count is found with few trials, for all pipelines and seeds.
TEST_P(GranularityStreams, FindsTheBest) {
  constexpr int kSeeds = 8;
  Score mean, worst{1, 1, 0};
  for (const Pipeline &pipeline : kPipelines)
    for (int seed = 0; seed < kSeeds; ++seed) {
      SCOPED_TRACE(std::string(pipeline.name) + " seed " + std::to_string(seed));
      Score score = play(pipeline, seed, GetParam());
      EXPECT_GE(score.near, 0.95);
      EXPECT_LE(score.trials, 12);
      mean.near += score.near / (kSeeds * std::size(kPipelines));
      mean.strict += score.strict / (kSeeds * std::size(kPipelines));
      worst = {std::min(worst.strict, score.strict), std::min(worst.near, score.near),
               std::max(worst.trials, score.trials)};
    }
  EXPECT_GE(mean.strict, 0.95);
  std::printf("best within 1 %%: mean %.4f, least %.4f; strictly best: mean %.4f, least %.4f; most trials %d\n",
              mean.near, worst.near, mean.strict, worst.strict, int(worst.trials));
}

INSTANTIATE_TEST_SUITE_P(Predictions, GranularityStreams,
                         testing::Values(Predictions::None, Predictions::Tilted, Predictions::Biased), nameOf);

// Two policies with the same inputs choose the same. Ranges stay disjoint and in order.
TEST(Granularity, DeterministicAndOrdered) {
  std::optional<Granularity> a, b;
  ASSERT_TRUE(Granularity::create(kChunks, a).ok());
  ASSERT_TRUE(Granularity::create(kChunks, b).ok());
  std::mt19937_64 random(3);
  std::normal_distribution<double> noise(1, 0.05);
  for (int step = 0; step < 500; ++step) {
    int64_t batch = 1000 + static_cast<int64_t>(random() % 50000), first = 0, second = 0;
    bool trial = false;
    ASSERT_TRUE(a->choose(batch, {}, first, trial).ok());
    ASSERT_TRUE(b->choose(batch, {}, second, trial).ok());
    ASSERT_EQ(first, second);
    double seconds = kPipelines[0].seconds(first, batch) * noise(random);
    ASSERT_TRUE(a->report(batch, first, seconds).ok());
    ASSERT_TRUE(b->report(batch, first, seconds).ok());
    checkOrdered(*a);
  }
  EXPECT_GE(a->ranges().size(), 2u);
}

// With a single batch size, each count is measured a few times, then the best stays.
TEST(Granularity, OneBatchSize) {
  std::optional<Granularity> policy;
  ASSERT_TRUE(Granularity::create(kChunks, policy).ok());
  std::mt19937_64 random(1);
  std::normal_distribution<double> noise(1, 0.01);
  int64_t chunks = 0;
  bool trial = false;
  for (int step = 0; step < 200; ++step) {
    ASSERT_TRUE(policy->choose(16384, {}, chunks, trial).ok());
    ASSERT_TRUE(policy->report(16384, chunks, kPipelines[4].seconds(chunks, 16384) * noise(random)).ok());
  }
  for (int64_t other : kChunks)
    EXPECT_LE(kPipelines[4].seconds(chunks, 16384), 1.01 * kPipelines[4].seconds(other, 16384));
  EXPECT_LE(policy->trials(), 12);
  ASSERT_EQ(policy->ranges().size(), 1u);
  EXPECT_EQ(policy->ranges()[0].lower, 16384);
  EXPECT_EQ(policy->ranges()[0].upper, 16384);
}

// A single count needs no trial.
TEST(Granularity, OneChunkCount) {
  std::optional<Granularity> policy;
  ASSERT_TRUE(Granularity::create({4}, policy).ok());
  for (int64_t batch : {100, 5, 100, 7000}) {
    int64_t chunks = 0;
    bool trial = true;
    ASSERT_TRUE(policy->choose(batch, {}, chunks, trial).ok());
    EXPECT_EQ(chunks, 4);
    EXPECT_FALSE(trial);
    ASSERT_TRUE(policy->report(batch, 4, 1e-3).ok());
  }
  EXPECT_EQ(policy->trials(), 0);
}

// Wrong arguments are errors with a text.
TEST(Granularity, Errors) {
  std::optional<Granularity> policy;
  auto error = [](const Status &status) {
    EXPECT_EQ(status.code, MOERT_ERROR_INVALID_ARGUMENT);
    return status.message;
  };
  EXPECT_THAT(error(Granularity::create({}, policy)), HasSubstr("at least one chunk count"));
  EXPECT_THAT(error(Granularity::create({2, 1}, policy)), HasSubstr("that rise strictly, but number 1 is 1"));
  EXPECT_THAT(error(Granularity::create({0, 1}, policy)), HasSubstr("number 0 is 0"));
  ASSERT_TRUE(Granularity::create(kChunks, policy).ok());

  int64_t chunks = 0;
  bool trial = true;
  EXPECT_THAT(error(policy->choose(0, {}, chunks, trial)), HasSubstr("expected a batch of 1 token or more but got 0"));
  EXPECT_THAT(error(policy->choose(5, {1, 2, 0, 1}, chunks, trial)), HasSubstr("seconds above 0"));
  EXPECT_THAT(error(policy->report(0, 1, 1)), HasSubstr("a batch of 1 token"));
  EXPECT_THAT(error(policy->report(5, 3, 1)), HasSubstr("one of the chunk counts"));
  EXPECT_THAT(error(policy->report(5, 1, 0)), HasSubstr("seconds above 0"));

  // Before anything is measured, predictions are believed.
  EXPECT_TRUE(policy->choose(5, {3, 2, 1, 2}, chunks, trial).ok());
  EXPECT_EQ(chunks, 4);
  EXPECT_FALSE(trial);
  EXPECT_TRUE(policy->ranges().empty());
}
