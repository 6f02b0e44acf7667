//===- KernelsShadowTest.cpp - shadows' choices against a slow oracle ------===//

#include "KernelsTest.h"

#include <algorithm>
#include <set>

namespace moert::host {
namespace {

/// Operands of one division.
struct Division {
  Division(int64_t s, int64_t k, int64_t e, int64_t places, int64_t chunks)
      : experts({s, k}), shadows({1, e}), slots({s, k}, -9), counts({chunks, e}, -9), shadowSlots({s, k}, -9),
        shadowCounts({1, places}, -9) {}

  Status run(int64_t chunkRows) {
    return divideChoices(experts.view(), shadows.view(), slots.view(), counts.view(), shadowSlots.view(),
                         shadowCounts.view(), counts.dims[0], chunkRows);
  }

  Tensor<int32_t> experts, shadows, slots, counts, shadowSlots, shadowCounts;
};

/// k different experts for each token, the first experts more often.
Division randomDivision(int64_t s, int64_t k, int64_t e, int64_t places, int64_t chunks, std::mt19937 &engine) {
  Division division(s, k, e, places, chunks);
  for (int64_t t = 0; t < s; ++t) {
    std::set<int32_t> used;
    for (int64_t j = 0; j < k; ++j) {
      int32_t expert;
      do
        expert = static_cast<int32_t>(std::min(engine() % e, engine() % e));
      while (!used.insert(expert).second);
      division.experts[t * k + j] = expert;
    }
  }
  return division;
}

/// Checks row by row: every choice takes the next row of its chunk, or of all chunks for shadows, in the order of
/// experts.
void checkDivision(Division &division, int64_t chunkRows) {
  const int64_t s = division.experts.dims[0], k = division.experts.dims[1], e = division.shadows.dims[1];
  const int64_t chunks = division.counts.dims[0];
  std::vector<int32_t> slots(s * k, -1), shadowSlots = slots, counts(chunks * e), shadowCounts;
  std::vector<int64_t> next(chunks);
  int32_t nextShadow = 0;
  for (int64_t x = 0; x < e; ++x) {
    if (division.shadows[x])
      shadowCounts.push_back(0);
    for (int64_t i = 0; i < s * k; ++i) {
      if (division.experts[i] != x)
        continue;
      const int64_t chunk = i / k * chunks / s;
      if (division.shadows[x]) {
        shadowSlots[i] = nextShadow++;
        ++shadowCounts.back();
      } else {
        slots[i] = static_cast<int32_t>(chunk * chunkRows + next[chunk]++);
        ++counts[chunk * e + x];
      }
    }
  }
  shadowCounts.resize(division.shadowCounts.size());
  EXPECT_OK(division.run(chunkRows));
  EXPECT_EQ(division.slots.data, slots);
  EXPECT_EQ(division.counts.data, counts);
  EXPECT_EQ(division.shadowSlots.data, shadowSlots);
  EXPECT_EQ(division.shadowCounts.data, shadowCounts);
}

} // namespace

// Covers one chunk and several, with as many places as shadows and with more.
TEST(KernelsShadowTest, DivideAgreesWithOracle) {
  std::mt19937 engine(1);
  for (int64_t s : {1, 6, 50})
    for (int64_t k : {1, 3})
      for (int64_t chunks : {1, 2, 4, 7})
        for (int64_t used : {0, 1, 3, 8})
          for (int64_t spare : {0, 2}) {
            Division division = randomDivision(s, k, 8, used + spare, chunks, engine);
            std::fill_n(division.shadows.data.begin(), used, 1);
            std::shuffle(division.shadows.data.begin(), division.shadows.data.end(), engine);
            const int64_t most = (s + chunks - 1) / chunks * k;
            checkDivision(division, most);
            checkDivision(division, most + 3);
          }
}

// Without shadows the slots and counts are those of the routing.
TEST(KernelsShadowTest, WithoutShadowsAsRouted) {
  const int64_t s = 30, e = 6, k = 2, chunks = 4;
  Tensor<double> logits = randomTensor<double>({s, e}, 5), scores({s, e}), weights({s, k}), aux({});
  Division division(s, k, e, 0, chunks);
  Tensor<int32_t> slots({s, k}), counts({chunks, e});
  RouteOptions options;
  options.chunks = chunks;
  options.chunkRows = 17;
  EXPECT_OK(route(logits.view(), View(), scores.view(), division.experts.view(), slots.view(), weights.view(),
                  counts.view(), aux.view(), options, {}));
  EXPECT_OK(division.run(17));
  EXPECT_EQ(division.slots.data, slots.data);
  EXPECT_EQ(division.counts.data, counts.data);
  EXPECT_EQ(division.shadowSlots.data, std::vector<int32_t>(s * k, -1));
}

TEST(KernelsShadowTest, BadDivision) {
  auto error = [](auto change, const char *text, int64_t chunkRows = 4) {
    Division division(6, 2, 4, 2, 3);
    change(division);
    expectError(division.run(chunkRows), MOERT_ERROR_INVALID_ARGUMENT, text);
  };
  auto nothing = [](Division &) {};
  error([](Division &d) { d.experts[3] = 4; }, "'divide_choices': expected 'experts' from 0 to 3 but got 4");
  error([](Division &d) { d.experts[3] = -1; }, "expected 'experts' from 0 to 3 but got -1");
  error([](Division &d) { d.shadows[1] = 2; }, "expected 'shadows' of 0 or 1 but expert 1 has 2");
  error([](Division &d) { d.shadows.data = {1, 1, 0, 1}; },
        "expected at most 2 shadows, one for each place, but got 3");
  error([](Division &d) { d.counts = Tensor<int32_t>({3, 5}); }, "expected 'counts' to be i32[3,4] but got i32[3,5]");
  error([](Division &d) { d.shadowSlots = Tensor<int32_t>({6, 1}); }, "expected 'shadow_slots' to be i32[6,2]");
  error([](Division &d) { d.shadowCounts = Tensor<int32_t>({2}); },
        "expected 'shadow_counts' to be i32[1,r] but got i32[2]");
  error(nothing, "expected 'chunk_rows' of 4 or more, the most choices of one of 3 chunks, but got 3", 3);
  error(nothing, "at most 2^31 - 1 rows", 2000000000);
  error([](Division &d) { d.counts = Tensor<int32_t>({0, 4}); }, "expected 'chunks' of 1 or more but got 0");
}

// ShadowsTest tests the choice itself.
TEST(KernelsShadowTest, Choose) {
  Tensor<int32_t> counts({4, 8}, 1), shadows({1, 8}, -9);
  for (int64_t s = 0; s < 4; ++s)
    counts[s * 8 + 5] = 1000;
  moert_shadow_costs costs{};
  costs.workers = costs.node_workers = 2;
  costs.most = 4;
  costs.phases = 1;
  costs.row_compute = costs.row_send = costs.row_local = 1;
  costs.expert = 10;
  for (int64_t policy : {MOERT_SHADOWS_ALGORITHM1, MOERT_SHADOWS_PREFIX, MOERT_SHADOWS_SIMULATE}) {
    EXPECT_OK(chooseShadows(counts.view(), shadows.view(), policy, costs));
    EXPECT_EQ(shadows.data, (std::vector<int32_t>{0, 0, 0, 0, 0, 1, 0, 0}));
  }
  Tensor<int32_t> none({0, 8});
  EXPECT_OK(chooseShadows(none.view(), shadows.view(), MOERT_SHADOWS_PREFIX, costs));
  EXPECT_EQ(shadows.data, std::vector<int32_t>(8));
}

TEST(KernelsShadowTest, BadChoice) {
  auto error = [](auto change, const char *text, int64_t policy = MOERT_SHADOWS_PREFIX) {
    Tensor<int32_t> counts({4, 8}, 1), shadows({1, 8}, -9);
    moert_shadow_costs costs{};
    costs.workers = costs.node_workers = 2;
    costs.phases = 1;
    change(counts, shadows, costs);
    expectError(chooseShadows(counts.view(), shadows.view(), policy, costs), MOERT_ERROR_INVALID_ARGUMENT, text);
  };
  using Values = Tensor<int32_t> &;
  auto nothing = [](Values, Values, moert_shadow_costs &) {};
  error(nothing, "'choose_shadows': expected 'policy' to be a moert_shadow_policy but got 3", 3);
  error(nothing, "expected 'policy' to be a moert_shadow_policy but got -1", -1);
  auto attribute = [&](int64_t moert_shadow_costs::*member, int64_t value, const char *text) {
    error([&](Values, Values, moert_shadow_costs &costs) { costs.*member = value; }, text);
  };
  attribute(&moert_shadow_costs::workers, 0, "expected 'workers' to divide 4 sources and 8 experts but got 0");
  attribute(&moert_shadow_costs::workers, 8, "expected 'workers' to divide 4 sources and 8 experts but got 8");
  attribute(&moert_shadow_costs::node_workers, 3, "expected 'node_workers' to divide 2 workers but got 3");
  attribute(&moert_shadow_costs::most, -1, "expected 'most' of 0 or more but got -1");
  attribute(&moert_shadow_costs::room, -2, "expected 'room' of 0 or more but got -2");
  attribute(&moert_shadow_costs::phases, 0, "expected 'phases' of 1 or more but got 0");
  error([](Values counts, Values, moert_shadow_costs &) { counts[9] = -5; },
        "expected 'counts' of 0 or more but got -5");
  error([](Values, Values shadows, moert_shadow_costs &) { shadows = Tensor<int32_t>({8}); },
        "expected 'shadows' to be i32[1,8] but got i32[8]");
}

} // namespace moert::host
