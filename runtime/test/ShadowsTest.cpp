//===- ShadowsTest.cpp - the choice of shadows against slow oracles --------===//

#include "moert/shadows.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstring>
#include <limits>
#include <numeric>
#include <random>
#include <thread>
#include <vector>

namespace {

using Flags = std::vector<int32_t>;

/// A case, and the definitions of moert/shadows.h for it, computed from scratch each time.
struct Case {
  int64_t sources, experts;
  std::vector<int32_t> counts;
  moert_shadow_costs costs{};

  Case(int64_t workers, int64_t sources, int64_t experts)
      : sources(sources), experts(experts), counts(static_cast<size_t>(sources * experts)) {
    costs = {sizeof(moert_shadow_costs), MOERT_SHADOWS_PREFIX, workers, workers, experts, 0, 1, 1, 1, 1, 0, 1, 0, 0};
  }

  int32_t &count(int64_t source, int64_t expert) { return counts[static_cast<size_t>(source * experts + expert)]; }
  int32_t count(int64_t source, int64_t expert) const { return counts[static_cast<size_t>(source * experts + expert)]; }
  int64_t ownerOf(int64_t expert) const { return expert / (experts / costs.workers); }
  int64_t workerOf(int64_t source) const { return source / (sources / costs.workers); }

  Flags choose(uint32_t policy) {
    costs.policy = policy;
    Flags shadows(static_cast<size_t>(experts), -1);
    EXPECT_EQ(moert_shadows_choose(&costs, counts.data(), sources, experts, shadows.data()), 0);
    return shadows;
  }
  double seconds(const Flags &shadows) const {
    return moert_shadows_seconds(&costs, counts.data(), sources, experts, shadows.data());
  }

  /// Rows that each worker computes.
  std::vector<double> computed(const Flags &shadows) const {
    std::vector<double> rows(static_cast<size_t>(costs.workers));
    for (int64_t s = 0; s < sources; ++s)
      for (int64_t e = 0; e < experts; ++e)
        rows[static_cast<size_t>(shadows[static_cast<size_t>(e)] ? workerOf(s) : ownerOf(e))] += count(s, e);
    return rows;
  }
  /// Eq. 8, or Eq. 7 without shadows.
  double paperSeconds(const Flags &shadows) const {
    auto used = static_cast<double>(std::accumulate(shadows.begin(), shadows.end(), 0));
    double worst = 0;
    for (double rows : computed(shadows))
      worst = std::max(worst, 3 * costs.row_compute * rows + (used > 0 ? 0 : 4 * costs.row_send * rows));
    return worst + 2 * used * costs.expert;
  }
  /// Largest number of rows that a unit of `span` workers sends or receives.
  double most(const Flags &shadows, int64_t span) const {
    double result = 0;
    for (int64_t unit = 0; unit < costs.workers / span; ++unit) {
      double sent = 0, received = 0;
      for (int64_t s = 0; s < sources; ++s)
        for (int64_t e = 0; e < experts; ++e) {
          const int64_t from = workerOf(s) / span, to = ownerOf(e) / span;
          if (shadows[static_cast<size_t>(e)] || from == to)
            continue;
          sent += from == unit ? count(s, e) : 0;
          received += to == unit ? count(s, e) : 0;
        }
      result = std::max({result, sent, received});
    }
    return result;
  }
  double slowSeconds(const Flags &shadows) const {
    auto rows = computed(shadows);
    const double p = costs.row_compute * *std::max_element(rows.begin(), rows.end());
    const double x =
        costs.start + std::max(costs.row_local * most(shadows, 1), costs.row_node * most(shadows, costs.node_workers));
    const double copies = 2 * std::accumulate(shadows.begin(), shadows.end(), 0) * costs.expert;
    if (costs.phases == 1)
      return 4 * x + 3 * p + copies;
    const auto n = static_cast<double>(costs.phases);
    return std::max(2 * x, p + 2 * x / n) + std::max(2 * x, 2 * p + 2 * x / n) + copies;
  }
};

/// Cases of FasterMoE, Eq. 7 and 8: 4 workers of one expert, H = 1024, alpha = 2, P = 11.5e12, W = 6.25e9, f32.
Case paperCase(std::vector<int32_t> row) {
  Case one(4, 4, 4);
  one.costs.row_compute = 4 * 2 * 1024.0 * 1024 / 11.5e12;
  one.costs.row_send = 1024 * 4 / 6.25e9;
  one.costs.expert = 2 * 2 * 1024.0 * 1024 * 4 / 6.25e9;
  for (int64_t s = 0; s < 4; ++s)
    std::copy(row.begin(), row.end(), one.counts.begin() + s * 4);
  return one;
}

/// Skewed counts, and costs of the same order of magnitude. Some cases have nodes and phases.
Case randomCase(std::mt19937_64 &engine, int64_t workers, int64_t experts, int64_t span = 1) {
  Case one(workers, workers * span, experts);
  std::normal_distribution<double> normal;
  std::uniform_real_distribution<double> uniform;
  const double skew = 2.5 * uniform(engine), tokens = 300 * std::pow(100.0, uniform(engine));
  std::vector<double> weight(static_cast<size_t>(experts));
  for (double &value : weight)
    value = std::exp(skew * normal(engine));
  const double sum = std::accumulate(weight.begin(), weight.end(), 0.0);
  for (int64_t s = 0; s < one.sources; ++s)
    for (int64_t e = 0; e < experts; ++e)
      one.count(s, e) =
          static_cast<int32_t>(tokens * weight[static_cast<size_t>(e)] / sum * std::exp(0.2 * normal(engine)));
  one.costs.node_workers = workers % 2 == 0 && uniform(engine) < 0.5 ? workers / 2 : workers;
  one.costs.phases = uniform(engine) < 0.5 ? 1 : workers;
  one.costs.row_compute = 7e-7 * std::pow(4.0, uniform(engine) - 0.5);
  one.costs.row_send = 6e-7 * std::pow(4.0, uniform(engine) - 0.5);
  one.costs.row_local = one.costs.row_send / 3;
  one.costs.row_node = one.costs.row_send / 2;
  one.costs.expert = 2e-3 * std::pow(4.0, uniform(engine) - 0.5);
  one.costs.start = 2e-5;
  return one;
}

/// Least time with at most `most` shadows.
double exhaustive(const Case &one) {
  double best = std::numeric_limits<double>::infinity();
  Flags shadows(static_cast<size_t>(one.experts));
  for (uint32_t set = 0; set < 1u << one.experts; ++set) {
    if (__builtin_popcount(set) > one.costs.most)
      continue;
    for (size_t e = 0; e < shadows.size(); ++e)
      shadows[e] = set >> e & 1;
    best = std::min(best, one.seconds(shadows));
  }
  return best;
}

} // namespace

// The published numbers, and their consequences.
TEST(Shadows, Paper) {
  struct {
    std::vector<int32_t> row;
    double none, one, two;
    Flags want;
  } vectors[] = {{{800, 100, 50, 50}, 15.391, 7.995, 13.145, {1, 0, 0, 0}},
                 {{6000, 1000, 500, 500}, 115.435, 27.252, 30.432, {1, 0, 0, 0}}};
  for (const auto &vector : vectors) {
    Case one = paperCase(vector.row);
    EXPECT_NEAR(one.paperSeconds({0, 0, 0, 0}), vector.none * 1e-3, 5e-7);
    EXPECT_NEAR(one.paperSeconds({1, 0, 0, 0}), vector.one * 1e-3, 5e-7);
    EXPECT_NEAR(one.paperSeconds({1, 1, 0, 0}), vector.two * 1e-3, 5e-7);
    for (uint32_t policy : {MOERT_SHADOWS_ALGORITHM1, MOERT_SHADOWS_PREFIX})
      EXPECT_EQ(one.choose(policy), vector.want);
  }
  Case diagonal = paperCase({100, 100, 100, 100});
  for (int64_t i = 0; i < 4; ++i)
    diagonal.count(i, i) = 700;
  EXPECT_NEAR(diagonal.paperSeconds({0, 0, 0, 0}), 4.810e-3, 5e-7);
  EXPECT_NEAR(diagonal.paperSeconds({1, 0, 0, 0}), 7.776e-3, 5e-7);
  for (uint32_t policy : {MOERT_SHADOWS_ALGORITHM1, MOERT_SHADOWS_PREFIX})
    EXPECT_EQ(diagonal.choose(policy), (Flags{0, 0, 0, 0}));
}

// The choice changes where Eq. 8 crosses Eq. 7, and where two shadows cross one.
TEST(Shadows, TurnsWhereTheEquationsCross) {
  for (double side : {-1.0, 1.0})
    for (uint32_t policy : {MOERT_SHADOWS_ALGORITHM1, MOERT_SHADOWS_PREFIX}) {
      Case one = paperCase({800, 100, 50, 50});
      one.costs.expert = 0;
      const double none = one.paperSeconds({0, 0, 0, 0}), first = one.paperSeconds({1, 0, 0, 0});
      const double second = one.paperSeconds({1, 1, 0, 0});
      one.costs.expert = (none - first) / 2 * (1 + side * 1e-9);
      EXPECT_EQ(one.choose(policy), (side < 0 ? Flags{1, 0, 0, 0} : Flags{0, 0, 0, 0}));
      one.costs.expert = (first - second) / 2 * (1 + side * 1e-9);
      EXPECT_EQ(one.choose(policy)[1], side < 0);
    }
}

// Two workers are equally busy: one shadow gains nothing, two do.
TEST(Shadows, Algorithm1StopsWherePrefixGoesOn) {
  Case one(4, 4, 4);
  for (int64_t s = 0; s < 4; ++s)
    for (int64_t e = 0; e < 4; ++e)
      one.count(s, e) = e < 2 ? 1000 : 10;
  one.costs.row_send = 0;
  one.costs.expert = 100;
  EXPECT_EQ(one.choose(MOERT_SHADOWS_ALGORITHM1), (Flags{0, 0, 0, 0}));
  EXPECT_EQ(one.choose(MOERT_SHADOWS_PREFIX), (Flags{1, 1, 0, 0}));
  one.costs.most = 1;
  EXPECT_EQ(one.choose(MOERT_SHADOWS_PREFIX), (Flags{0, 0, 0, 0}));
}

// Workers have several rows of counts and several experts. A worker's own rows stay with it.
TEST(Shadows, SeveralExpertsAWorker) {
  Case one(2, 4, 6);
  const int32_t rows[4][6] = {{10, 0, 90, 1, 2, 3}, {0, 0, 80, 3, 2, 1}, {0, 5, 70, 1, 1, 1}, {5, 0, 60, 0, 0, 0}};
  for (int64_t s = 0; s < 4; ++s)
    std::copy_n(rows[s], 6, one.counts.begin() + s * 6);
  one.costs.expert = 100;
  EXPECT_EQ(one.computed({0, 0, 1, 0, 0, 0}), (std::vector<double>{190, 145}));
  for (uint32_t policy : {MOERT_SHADOWS_ALGORITHM1, MOERT_SHADOWS_PREFIX, MOERT_SHADOWS_SIMULATE})
    EXPECT_EQ(one.choose(policy), (Flags{0, 0, 1, 0, 0, 0}));
  // Worker 0 sends 12 rows, worker 1 ten.
  EXPECT_EQ(one.seconds({0, 0, 1, 0, 0, 0}), 4 * 12 + 3 * 190 + 2 * 100);
}

TEST(Shadows, AtMostSoMany) {
  Case one(8, 8, 8);
  for (int64_t s = 0; s < 8; ++s)
    for (int64_t e = 0; e < 8; ++e)
      one.count(s, e) = static_cast<int32_t>(100 * (e + 1));
  one.costs.expert = 0;
  for (uint32_t policy : {MOERT_SHADOWS_ALGORITHM1, MOERT_SHADOWS_PREFIX, MOERT_SHADOWS_SIMULATE})
    for (int64_t most : {0, 1, 3, 20}) {
      one.costs.most = most;
      Flags want(8);
      for (int64_t e = 8 - std::min<int64_t>(most, 8); e < 8; ++e)
        want[static_cast<size_t>(e)] = 1;
      // The lightest expert stays at its place without a change of time.
      Flags got = one.choose(policy);
      EXPECT_TRUE(std::equal(want.begin() + 1, want.end(), got.begin() + 1)) << policy << " " << most;
    }
}

// If rows do not fit, the heaviest experts of their worker become shadows at any cost, while there are any left.
TEST(Shadows, Room) {
  Case one(2, 2, 4);
  for (int64_t s = 0; s < 2; ++s)
    for (int64_t e = 0; e < 4; ++e)
      one.count(s, e) = std::vector<int32_t>{30, 20, 40, 50}[static_cast<size_t>(e)];
  one.costs.expert = 1e9;
  for (uint32_t policy : {MOERT_SHADOWS_ALGORITHM1, MOERT_SHADOWS_PREFIX, MOERT_SHADOWS_SIMULATE}) {
    auto chosen = [&](int64_t room, int64_t most) {
      one.costs.room = room;
      one.costs.most = most;
      return one.choose(policy);
    };
    EXPECT_EQ(chosen(0, 4), (Flags{0, 0, 0, 0}));
    EXPECT_EQ(chosen(180, 4), (Flags{0, 0, 0, 0}));
    EXPECT_EQ(chosen(179, 4), (Flags{0, 0, 0, 1}));
    EXPECT_EQ(chosen(99, 4), (Flags{1, 0, 0, 1}));
    EXPECT_EQ(chosen(79, 4), (Flags{1, 0, 1, 1}));
    EXPECT_EQ(chosen(1, 4), (Flags{1, 1, 1, 1}));
    EXPECT_EQ(chosen(1, 2), (Flags{0, 0, 1, 1}));
    EXPECT_EQ(chosen(99, 0), (Flags{0, 0, 0, 0}));
  }
}

TEST(Shadows, NothingToDo) {
  for (uint32_t policy : {MOERT_SHADOWS_ALGORITHM1, MOERT_SHADOWS_PREFIX, MOERT_SHADOWS_SIMULATE}) {
    Case zeros(4, 8, 8);
    EXPECT_EQ(zeros.choose(policy), Flags(8));
    Case alone(1, 2, 4);
    std::iota(alone.counts.begin(), alone.counts.end(), 1);
    alone.costs.row_send = 0;
    EXPECT_EQ(alone.choose(policy), Flags(4));
    EXPECT_EQ(alone.seconds(Flags(4)), 3.0 * (1 + 8) * 4);
  }
}

TEST(Shadows, BadArguments) {
  auto refused = [](auto change) {
    Case one(2, 4, 4);
    change(one);
    Flags shadows(4, -1);
    EXPECT_EQ(moert_shadows_choose(&one.costs, one.counts.data(), one.sources, one.experts, shadows.data()), -1);
    EXPECT_TRUE(std::isnan(one.seconds(Flags(4))));
    EXPECT_EQ(shadows, Flags(4, -1));
  };
  refused([](Case &one) { one.costs.workers = 0; });
  refused([](Case &one) { one.costs.workers = 3; });
  refused([](Case &one) { one.costs.node_workers = 0; });
  refused([](Case &one) { one.costs.workers = 4, one.costs.node_workers = 3; });
  refused([](Case &one) { one.costs.most = -1; });
  refused([](Case &one) { one.costs.room = -1; });
  refused([](Case &one) { one.costs.phases = 0; });
  refused([](Case &one) { one.costs.policy = 3; });
  refused([](Case &one) { one.costs.size -= 8; });
  refused([](Case &one) { one.sources = 0; });
  refused([](Case &one) { one.experts = -4; });
  refused([](Case &one) { one.sources = 3; });
  refused([](Case &one) { one.counts[5] = -1; });
  int32_t value = 0;
  const Case good(1, 1, 1);
  EXPECT_EQ(moert_shadows_choose(nullptr, &value, 1, 1, &value), -1);
  EXPECT_EQ(moert_shadows_choose(&good.costs, nullptr, 1, 1, &value), -1);
  EXPECT_EQ(moert_shadows_choose(&good.costs, &value, 1, 1, nullptr), -1);
}

TEST(Shadows, SecondsAgreeWithOracle) {
  std::mt19937_64 engine(1);
  for (int round = 0; round < 400; ++round) {
    const int64_t workers = 1 + static_cast<int64_t>(engine() % 12), own = 1 + static_cast<int64_t>(engine() % 3);
    Case one = randomCase(engine, workers, workers * own, 1 + static_cast<int64_t>(engine() % 3));
    Flags shadows(static_cast<size_t>(one.experts));
    for (int32_t &shadow : shadows)
      shadow = engine() % 3 == 0;
    EXPECT_NEAR(one.seconds(shadows), one.slowSeconds(shadows), 1e-12 * one.slowSeconds(shadows));
  }
}

// The prefix policy finds the best prefix, and simulation never chooses worse than the other two policies.
TEST(Shadows, PoliciesAgreeWithOracle) {
  std::mt19937_64 engine(2);
  for (int round = 0; round < 300; ++round) {
    const int64_t workers = 2 + static_cast<int64_t>(engine() % 7), own = 1 + static_cast<int64_t>(engine() % 3);
    Case one = randomCase(engine, workers, workers * own, 1 + static_cast<int64_t>(engine() % 2));
    one.costs.most = static_cast<int64_t>(engine() % 8);
    std::vector<double> load(static_cast<size_t>(one.experts));
    for (int64_t s = 0; s < one.sources; ++s)
      for (int64_t e = 0; e < one.experts; ++e)
        load[static_cast<size_t>(e)] += one.count(s, e);
    std::vector<size_t> order(load.size());
    std::iota(order.begin(), order.end(), 0);
    std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) { return load[a] > load[b]; });
    Flags shadows(load.size()), first = shadows, best = shadows;
    bool goesOn = true;
    for (size_t i = 0; i < order.size() && i < static_cast<size_t>(one.costs.most); ++i) {
      shadows[order[i]] = 1;
      goesOn &= one.paperSeconds(shadows) < one.paperSeconds(first);
      if (goesOn)
        first = shadows;
      if (one.paperSeconds(shadows) < one.paperSeconds(best))
        best = shadows;
    }
    EXPECT_EQ(one.choose(MOERT_SHADOWS_ALGORITHM1), first);
    EXPECT_EQ(one.choose(MOERT_SHADOWS_PREFIX), best);
    const Flags simulated = one.choose(MOERT_SHADOWS_SIMULATE);
    EXPECT_LE(std::accumulate(simulated.begin(), simulated.end(), 0), one.costs.most);
    EXPECT_LE(one.seconds(simulated), std::min(one.seconds(first), one.seconds(best)));
  }
}

// The simulated choice takes on average at most 0.02 % longer than the best subset with one expert for each worker, and
// 0.3 % with several.
TEST(Shadows, SimulationIsNearlyExhaustive) {
  std::mt19937_64 engine(3);
  struct {
    int64_t workers, experts, most;
    int rounds;
    double regret;
  } sizes[] = {{8, 8, 8, 100, 2e-4},  {8, 8, 3, 100, 2e-4}, {12, 12, 5, 10, 2e-4},
               {12, 12, 12, 5, 2e-4}, {3, 9, 5, 100, 3e-3}, {4, 8, 8, 100, 3e-3}};
  for (const auto &size : sizes) {
    double sum = 0;
    for (int round = 0; round < size.rounds; ++round) {
      Case one = randomCase(engine, size.workers, size.experts);
      one.costs.most = size.most;
      const double best = exhaustive(one), got = one.seconds(one.choose(MOERT_SHADOWS_SIMULATE));
      EXPECT_GE(got, best);
      sum += got / best - 1;
    }
    EXPECT_LE(sum / size.rounds, size.regret) << size.workers << " workers, " << size.experts << " experts";
  }
}

namespace {

/// Small counts, with a policy.
Case cheapCase(std::mt19937_64 &engine, int64_t round) {
  const bool large = round % 400 == 399;
  const int64_t workers = large ? 64 : 4;
  Case one(workers, workers, workers * (large ? 1 : 1 + round % 2));
  std::vector<uint32_t> shift(static_cast<size_t>(one.experts));
  for (uint32_t &bits : shift)
    bits = static_cast<uint32_t>(engine() % 10);
  for (int64_t s = 0; s < one.sources; ++s)
    for (int64_t e = 0; e < one.experts; ++e)
      one.count(s, e) = static_cast<int32_t>((engine() & 0xffff) >> shift[static_cast<size_t>(e)]);
  one.costs.policy = static_cast<uint32_t>(round % 3);
  one.costs.node_workers = workers / 2;
  one.costs.most = large ? 16 : 4;
  one.costs.room = round % 7 ? 0 : 200000;
  one.costs.phases = round % 5 ? 1 : workers;
  one.costs.row_compute = 1.1e-6, one.costs.row_send = 0.7e-6, one.costs.row_local = 0.3e-6,
  one.costs.row_node = 0.9e-6;
  one.costs.expert = 3.3e-3 * static_cast<double>(1 + engine() % 10);
  one.costs.start = 1e-5;
  return one;
}

} // namespace

// 64 ranks on several threads, each with its own counts, decide alike in 10000 steps.
TEST(Shadows, RanksDecideAlike) {
  std::mt19937_64 engine(4);
  std::vector<Case> steps;
  std::vector<Flags> decisions;
  for (int64_t round = 0; round < 10000; ++round) {
    steps.push_back(cheapCase(engine, round));
    decisions.push_back(steps.back().choose(steps.back().costs.policy));
  }
  std::atomic<int64_t> agreed = 0;
  auto decide = [&](int64_t thread) {
    std::vector<int32_t> memory(64 * 64 + 8);
    for (int64_t rank = thread; rank < 64; rank += 4)
      for (size_t i = 0; i < steps.size(); ++i) {
        int32_t *counts = memory.data() + rank % 8;
        std::copy(steps[i].counts.begin(), steps[i].counts.end(), counts);
        moert_shadow_costs costs = steps[i].costs;
        Flags shadows(decisions[i].size());
        const int32_t code = moert_shadows_choose(&costs, counts, steps[i].sources, steps[i].experts, shadows.data());
        agreed += code == 0 && shadows == decisions[i];
      }
  };
  std::vector<std::thread> threads;
  for (int64_t thread = 0; thread < 4; ++thread)
    threads.emplace_back(decide, thread);
  for (std::thread &thread : threads)
    thread.join();
  EXPECT_EQ(agreed, 64 * 10000);
  EXPECT_GT(std::count_if(decisions.begin(), decisions.end(),
                          [](const Flags &flags) { return std::count(flags.begin(), flags.end(), 1) > 0; }),
            5000);
}
