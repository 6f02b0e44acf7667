//===- TokenTest.cpp - moving and weighting token rows on CUDA ------------===//

#include "CudaKernelsTest.h"

namespace moert::cuda {
namespace {

using Views = std::vector<View>;

TEST(CudaTokenTest, RowsTimesFactors) {
  for (int32_t dtype : kFloatingTypes)
    for (int32_t beside : typesBeside(dtype))
      for (int rows : {0, 1, 83})
        for (auto [columns, groups] : {std::pair(1, 1), {7, 1}, {64, 1}, {320, 1}, {21, 3}, {320, 5}, {320, 320}}) {
          const std::vector<Operand> operands{
              randomOperand(dtype, {rows, columns}, 1), randomOperand(beside, {rows, groups}, 2),
              filledOperand(dtype, {rows, columns}, 9), randomOperand(dtype, {rows, columns}, 3, 0.1)};
          expectAlike(Kind::RowScale, operands,
                      [](Kernels &k, const Views &v) { return k.rowScale(v[0], v[1], v[2]); });
          expectAlike(Kind::RowScale, operands,
                      [](Kernels &k, const Views &v) { return k.rowScale(v[0], v[1], v[0]); });
          expectAlike(Kind::RowDot, operands, [](Kernels &k, const Views &v) { return k.rowDot(v[0], v[3], v[1]); });
        }
}

/// Operands: tokens, rows, slots, weights, a result like tokens, one like rows, one like weights, counts of the used
/// rows.
std::vector<Operand> tokenOperands(int32_t dtype, int32_t beside, int64_t tokens, int64_t choices, int64_t columns,
                                   std::vector<int64_t> rows) {
  const int64_t count = rows.size() == 2 ? rows[0] * rows[1] : rows[0];
  rows.push_back(columns);
  return {randomOperand(dtype, {tokens, columns}, 1),  randomOperand(dtype, rows, 2, 0.1),
          randomSlots(tokens, choices, count, 3),      randomOperand(beside, {tokens, choices}, 4),
          filledOperand(dtype, {tokens, columns}, 9),  filledOperand(dtype, rows, 9),
          filledOperand(beside, {tokens, choices}, 9), indices({1, 1}, {static_cast<int>(count)})};
}

void expectTokens(const std::vector<Operand> &operands) {
  expectAlike(Kind::Dispatch, operands,
              [](Kernels &k, const Views &v) { return k.dispatch(v[0], v[2], v[3], {}, v[5]); });
  expectAlike(Kind::Dispatch, operands,
              [](Kernels &k, const Views &v) { return k.dispatch(v[0], v[2], {}, {}, v[5]); });
  // Rows without a token keep their values.
  expectAlike(Kind::Dispatch, operands,
              [](Kernels &k, const Views &v) { return k.dispatch(v[0], v[2], v[3], v[7], v[5]); });
  expectAlike(Kind::Combine, operands,
              [](Kernels &k, const Views &v) { return k.combine(v[1], v[2], v[3], {}, v[4]); });
  expectAlike(Kind::Combine, operands, [](Kernels &k, const Views &v) { return k.combine(v[1], v[2], {}, {}, v[4]); });
  expectAlike(Kind::SlotDot, operands,
              [](Kernels &k, const Views &v) { return k.slotDot(v[0], v[1], v[2], {}, v[6]); });
}

TEST(CudaTokenTest, DispatchAndCombine) {
  for (int32_t dtype : kFloatingTypes)
    for (int32_t beside : typesBeside(dtype))
      for (int columns : {5, 48}) {
        expectTokens(tokenOperands(dtype, beside, 40, 2, columns, {4, 25}));
        expectTokens(tokenOperands(dtype, beside, 40, 6, columns, {200}));
        expectTokens(tokenOperands(dtype, beside, 1, 1, columns, {1}));
        expectTokens(tokenOperands(dtype, beside, 0, 2, columns, {3}));
      }
}

TEST(CudaTokenTest, ParametersOfNothing) {
  expectTokens(tokenOperands(MOERT_F32, MOERT_F32, 3, 0, 4, {5}));
  expectTokens(tokenOperands(MOERT_F32, MOERT_F32, 3, 2, 4, {0}));
}

TEST(CudaTokenTest, CountsOfParts) {
  for (int index = 0; index < 4; ++index)
    expectAlike(Kind::SliceCounts, {indices({1, 5}, {3, 0, 9, 1, 2}), filledOperand(MOERT_I32, {1, 5}, 9)},
                [=](Kernels &k, const Views &v) { return k.sliceCounts(v[0], v[1], 20, index, 4); });
}

TEST(CudaTokenTest, ManyExperts) {
  Operand counts = filledOperand(MOERT_I32, {1, 700}, 0);
  for (size_t e = 0; e < 700; ++e)
    counts.values[e] = static_cast<double>(e % 5);
  expectAlike(Kind::SliceCounts, {counts, filledOperand(MOERT_I32, {1, 700}, 9)},
              [=](Kernels &k, const Views &v) { return k.sliceCounts(v[0], v[1], 1400, 1, 2); });
}

TEST(CudaTokenTest, SlotsOfAMember) {
  for (int64_t index = 0; index < 4; ++index)
    for (int64_t copies : {1, 2}) {
      const std::vector<Operand> operands{randomSlots(12, 2, 24, 1), indices({1, 8}, {3, 0, 9, 1, 2, 0, 0, 4}),
                                          filledOperand(MOERT_I32, {12, 2}, 9),
                                          filledOperand(MOERT_I32, {1, 2 * copies}, 9)};
      expectAlike(Kind::LocalSlots, operands, [=](Kernels &k, const Views &v) {
        return k.localSlots(v[0], v[1], v[2], v[3], {0, 24, copies, index, 4});
      });
      expectAlike(Kind::LocalSlots, operands, [=](Kernels &k, const Views &v) {
        return k.localSlots(v[0], v[1], v[2], v[3], {3, 0, copies, index, 4});
      });
    }
}

TEST(CudaTokenTest, ChoicesOfAPass) {
  // Three members send rows to two workers of three experts.
  const Operand gathered = indices({3, 6}, {3, 0, 9, 1, 2, 0, 0, 4, 4, 0, 0, 7, 15, 0, 0, 0, 0, 0});
  for (int64_t member = 0; member < 3; ++member)
    for (int64_t before = 0; before < 4; ++before)
      for (int64_t rows : {9, 40}) {
        if (rows == 40 && before > 0)
          continue;
        // The fuller worker has 35 rows: four passes of 9.
        const Operand last = before ? indices({1}, {static_cast<int>(before)}) : absent();
        expectAlike(Kind::Window,
                    {randomSlots(15, 1, 15, 1), gathered, last, filledOperand(MOERT_I32, {1}, 9),
                     filledOperand(MOERT_I32, {15, 1}, 9), filledOperand(MOERT_I32, {1, 6}, 9)},
                    [=](Kernels &k, const Views &v) {
                      return k.window(v[0], v[1], v[2], v[3], v[4], v[5], {2, rows, 0, 1, member, 3});
                    });
      }
}

TEST(CudaTokenTest, MergedChoices) {
  // The member has 8 of 24 experts: in holders of one, two, or all.
  for (int64_t holders : {1, 4, 8})
    for (bool hasUsed : {false, true})
      for (bool hasDropped : {false, true}) {
        Operand experts = filledOperand(MOERT_I32, {500, 4}, 0);
        for (size_t i = 0; i < experts.values.size(); ++i)
          experts.values[i] = i % 4 == 3 ? -1 : static_cast<double>((i / 4 * 7 + i % 4 * (5 + i / 4 % 3)) % 24);
        const Operand used = hasUsed ? indices({2, 2}, {100, 37, 200, 50}) : absent();
        expectAlike(Kind::MergeChoices,
                    {experts, hasDropped ? randomSlots(500, 4, 3000, 1) : absent(), used,
                     filledOperand(MOERT_I32, {500, 4}, 9), filledOperand(MOERT_I32, {1, holders}, 9),
                     filledOperand(MOERT_I32, {2000, 4}, 9)},
                    [=](Kernels &k, const Views &v) {
                      return k.mergeChoices(v[0], v[1], v[2], v[3], v[4], v[5], {24, 2, 3, 6});
                    });
      }
}

TEST(CudaTokenTest, FaultsOfMergedChoices) {
  const Operand experts = indices({3, 2}, {0, 1, 2, 3, 1, 3});
  auto merge = [](Kernels &k, const Views &v) {
    return k.mergeChoices(v[0], v[1], v[2], v[3], v[4], v[5], {4, 1, 0, 1});
  };
  auto expectBad = [&](const Operand &used, int64_t room, const char *text) {
    expectSameError(Kind::MergeChoices,
                    {experts, absent(), used, filledOperand(MOERT_I32, {3, 2}, 9), filledOperand(MOERT_I32, {1, 2}, 9),
                     filledOperand(MOERT_I32, {room, 2}, 9)},
                    merge, text);
  };
  expectBad(absent(), 3, "4 rows of tokens are sent, with room for 3");
  expectBad(indices({2, 1}, {1, 3}), 4, "expected 'counts' of 3 rows in all at most but got 4");
}

TEST(CudaTokenTest, ChoicesOfAPassInChunksAndPhases) {
  // Four members send rows to two workers of two experts in two chunks. The first two members are exchanged in another
  // phase. At most 17 rows arrive in a kind: five passes of 4. A chunk has room for a row more than it gets.
  const Operand gathered =
      indices({8, 4}, {3, 1, 0, 4, 8, 0, 0, 0, 0, 1, 6, 1, 2, 2, 2, 2, 8, 0, 0, 0, 0, 0, 0, 8, 8, 0, 0, 0, 1, 0, 7, 0});
  for (int64_t member = 0; member < 4; ++member)
    for (int64_t before = 0; before < 4; ++before) {
      const Operand last = before ? indices({1}, {static_cast<int>(before)}) : absent();
      expectAlike(Kind::Window,
                  {randomSlots(16, 1, 18, 1), gathered, last, filledOperand(MOERT_I32, {1}, 9),
                   filledOperand(MOERT_I32, {16, 1}, 9), filledOperand(MOERT_I32, {2, 4}, 9)},
                  [=](Kernels &k, const Views &v) {
                    return k.window(v[0], v[1], v[2], v[3], v[4], v[5], {2, 4, 9, 2, member, 4});
                  });
    }
}

} // namespace
} // namespace moert::cuda
