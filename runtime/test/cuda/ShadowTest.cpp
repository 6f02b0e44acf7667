//===- ShadowTest.cpp - shadows of experts on CUDA ------------------------===//

#include "CudaKernelsTest.h"

#include <random>

namespace moert::cuda {
namespace {

using Views = std::vector<View>;

Operand randomIndices(std::vector<int64_t> dims, int64_t end, int seed) {
  Operand result = filledOperand(MOERT_I32, std::move(dims), 0);
  std::mt19937_64 engine(static_cast<uint64_t>(seed));
  for (double &value : result.values)
    value = static_cast<double>(engine() % static_cast<uint64_t>(end));
  return result;
}

moert_shadow_costs someCosts(int64_t workers) {
  moert_shadow_costs costs{};
  costs.workers = workers;
  costs.node_workers = 2;
  costs.most = 4;
  costs.room = 900;
  costs.phases = 2;
  costs.row_compute = 1e-6;
  costs.row_send = costs.row_local = 2e-6;
  costs.row_node = 3e-6;
  costs.expert = 1e-4;
  costs.start = 1e-5;
  return costs;
}

TEST(CudaShadowTest, WhichExperts) {
  for (int64_t policy : {MOERT_SHADOWS_ALGORITHM1, MOERT_SHADOWS_PREFIX, MOERT_SHADOWS_SIMULATE})
    for (int seed = 0; seed < 5; ++seed) {
      Operand counts = randomIndices({4, 16}, 100, seed);
      counts.values[static_cast<size_t>(seed) * 3] = 2000;
      expectAlike(Kind::ChooseShadows, {counts, filledOperand(MOERT_I32, {1, 16}, 9)},
                  [=](Kernels &k, const Views &v) { return k.chooseShadows(v[0], v[1], policy, someCosts(4)); });
    }
  expectAlike(Kind::ChooseShadows, {indices({0, 4}, {}), filledOperand(MOERT_I32, {1, 4}, 9)},
              [=](Kernels &k, const Views &v) { return k.chooseShadows(v[0], v[1], 0, someCosts(2)); });
}

TEST(CudaShadowTest, OneDecisionAfterTheOther) {
  const std::vector<Operand> operands{randomIndices({4, 16}, 3000, 1), randomIndices({4, 8}, 3000, 2),
                                      filledOperand(MOERT_I32, {1, 16}, 9), filledOperand(MOERT_I32, {1, 8}, 9)};
  expectAlike(Kind::ChooseShadows, operands, [](Kernels &k, const Views &v) {
    Status status = k.chooseShadows(v[0], v[2], MOERT_SHADOWS_SIMULATE, someCosts(4));
    return status.ok() ? k.chooseShadows(v[1], v[3], MOERT_SHADOWS_SIMULATE, someCosts(4)) : status;
  });
}

TEST(CudaShadowTest, CountsBelowZero) {
  Operand counts = randomIndices({4, 16}, 100, 1);
  counts.values[37] = -3;
  expectSameError(
      Kind::ChooseShadows, {counts, filledOperand(MOERT_I32, {1, 16}, 9)},
      [=](Kernels &k, const Views &v) { return k.chooseShadows(v[0], v[1], 0, someCosts(4)); },
      "expected 'counts' of 0 or more but got -3");
}

// --- Whose choices -----------------------------------------------------------

/// Operands: experts, shadows, slots, counts, shadow slots, shadow counts.
std::vector<Operand> divideOperands(const Operand &experts, const Operand &shadows, int64_t chunks, int64_t room) {
  return {experts,
          shadows,
          filledOperand(MOERT_I32, experts.dims, 9),
          filledOperand(MOERT_I32, {chunks, shadows.dims[1]}, 9),
          filledOperand(MOERT_I32, experts.dims, 9),
          filledOperand(MOERT_I32, {1, room}, 9)};
}

KernelCall divideCall(int64_t chunks, int64_t chunkRows) {
  return [=](Kernels &k, const Views &v) {
    return k.divideChoices(v[0], v[1], v[2], v[3], v[4], v[5], chunks, chunkRows);
  };
}

TEST(CudaShadowTest, WhoseChoices) {
  for (int64_t tokens : {0, 1, 37, 400})
    for (int64_t experts : {1, 9, 300})
      for (int64_t chunks : {1, 3}) {
        const int64_t chunkRows = chunks > 1 ? 2 * (tokens + 2) : 0;
        for (int64_t end : {1, 2}) {
          const Operand shadows = randomIndices({1, experts}, end, 5), chosen = randomIndices({tokens, 2}, experts, 6);
          expectAlike(Kind::DivideChoices, divideOperands(chosen, shadows, chunks, experts),
                      divideCall(chunks, chunkRows));
        }
      }
}

TEST(CudaShadowTest, NoPlaces) {
  expectAlike(Kind::DivideChoices,
              divideOperands(randomIndices({10, 2}, 4, 1), filledOperand(MOERT_I32, {1, 4}, 0), 1, 0),
              divideCall(1, 0));
}

TEST(CudaShadowTest, FaultsOfShadows) {
  const Operand chosen = randomIndices({10, 2}, 4, 1);
  Operand wrong = chosen;
  wrong.values[13] = 4;
  expectSameError(Kind::DivideChoices, divideOperands(wrong, indices({1, 4}, {0, 1, 0, 0}), 1, 2), divideCall(1, 0),
                  "expected 'experts' from 0 to 3 but got 4");
  expectSameError(Kind::DivideChoices, divideOperands(chosen, indices({1, 4}, {0, 1, 2, 0}), 1, 2), divideCall(1, 0),
                  "expected 'shadows' of 0 or 1 but expert 2 has 2");
  expectSameError(Kind::DivideChoices, divideOperands(chosen, indices({1, 4}, {1, 1, 1, 0}), 1, 2), divideCall(1, 0),
                  "expected at most 2 shadows, one for each place, but got 3");
}

} // namespace
} // namespace moert::cuda
