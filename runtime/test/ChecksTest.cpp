//===- ChecksTest.cpp - operand checks that read no operand ---------------===//

#include "core/Checks.h"

#include <gtest/gtest.h>

#include <vector>

namespace moert {
namespace {

/// Address of operands on a device: an access there is a fault.
void *const kNowhere = reinterpret_cast<void *>(64);

View makeView(int32_t dtype, std::initializer_list<int64_t> dims) {
  View view{kNowhere, dtype, static_cast<int64_t>(dims.size())};
  std::copy(dims.begin(), dims.end(), view.dims.begin());
  return view;
}
View integers(std::initializer_list<int64_t> dims) { return makeView(MOERT_I32, dims); }

/// Good operands of every kernel, of one floating type.
class ChecksTest : public testing::TestWithParam<int32_t> {
protected:
  View floats(std::initializer_list<int64_t> dims) const { return makeView(GetParam(), dims); }
  View scalar() const { return floats({}); }
  /// A tensor that may be f32 beside 16-bit floats.
  View accumulators(std::initializer_list<int64_t> dims) const {
    return makeView(isNarrow(GetParam()) ? MOERT_F32 : GetParam(), dims);
  }

  static void pass(const Status &status) { EXPECT_TRUE(status.ok()) << status.message; }
  static void fail(const Status &status, const std::string &message) {
    EXPECT_EQ(status.code, MOERT_ERROR_INVALID_ARGUMENT);
    EXPECT_EQ(status.message, message);
  }
  std::string type() const { return dtypeName(GetParam()); }
};

INSTANTIATE_TEST_SUITE_P(Types, ChecksTest, testing::Values(MOERT_F32, MOERT_F64, MOERT_BF16, MOERT_F16),
                         [](const auto &info) { return std::string(dtypeName(info.param)); });

TEST_P(ChecksTest, Dense) {
  View x = floats({4, 6});
  pass(checkMatmul(floats({4, 6}), floats({8, 6}), floats({4, 8}), false, true));
  pass(checkAdd(x, x, x));
  pass(checkScale(x, x, 2));
  pass(checkCopy(x, floats({24})));
  pass(checkRowScale(x, floats({4, 1}), x));
  pass(checkRowDot(x, x, floats({4, 1})));
  pass(checkRowScale(x, floats({4, 2}), x));
  pass(checkRowDot(x, x, floats({4, 2})));
  pass(checkSlice(x, floats({4, 2}), 1, 2, 3));
  pass(checkDump(x, floats({4, 18}), 1, 2));
  pass(checkLocalReduce(floats({4, 18}), x, 1, 2));
}

TEST_P(ChecksTest, Experts) {
  View rows = floats({2, 5, 4}), ragged = floats({10, 4}), counts = integers({3, 2});
  View weights = floats({2, 4, 6}), bias = floats({2, 4});
  pass(checkGroupedMatmul(rows, weights, {}, floats({2, 5, 6}), false));
  pass(checkGroupedMatmul(ragged, weights, counts, floats({10, 6}), false));
  pass(checkGroupedMatmulWgrad(rows, floats({2, 5, 6}), {}, {}, weights));
  pass(checkGroupedMatmulWgrad(ragged, floats({10, 6}), counts, weights, weights));
  pass(checkBiasAdd(ragged, floats({4}), {}, ragged, 1));
  pass(checkBiasAdd(rows, bias, {}, rows, 1));
  pass(checkBiasAdd(ragged, bias, counts, ragged, 1));
  pass(checkBiasGrad(ragged, counts, bias, bias, 1));
  pass(checkActivation(ragged, counts, floats({10, 2}), MOERT_SWIGLU));
  pass(checkActivationGrad(rows, rows, {}, rows, MOERT_GELU));
}

TEST_P(ChecksTest, Routing) {
  View scores = floats({6, 8}), choices = integers({6, 2}), weights = floats({6, 2}), counts = integers({1, 8});
  View tokens = floats({6, 4}), rows = floats({12, 4}), packed = floats({8, 3, 4});
  pass(checkRoute(scores, floats({8}), scores, choices, choices, weights, counts, scalar(), {}, choices));
  pass(checkRouteGrad(scores, choices, weights, scalar(), scores, MOERT_SOFTMAX, true, 1, 1));
  pass(checkDispatch(tokens, choices, weights, {}, rows));
  pass(checkDispatch(tokens, choices, {}, {}, packed));
  pass(checkCombine(rows, choices, {}, {}, tokens));
  pass(checkSlotDot(tokens, packed, choices, {}, weights));
  pass(checkSliceCounts(counts, counts, 12, 1, 2));
  pass(checkLocalSlots(choices, counts, choices, integers({1, 4}), {0, 12, 1, 1, 2}));
  pass(checkWindow(choices, integers({3, 8}), integers({1}), integers({1}), choices, counts, {4, 9, 0, 1, 2, 3}));
  pass(
      checkMergeChoices(choices, choices, integers({3, 1}), choices, integers({1, 2}), integers({9, 2}), {8, 1, 1, 2}));
  moert_shadow_costs costs{};
  costs.workers = costs.node_workers = costs.phases = 2;
  pass(checkChooseShadows(integers({2, 8}), counts, MOERT_SHADOWS_ALGORITHM1, costs));
  pass(checkDivideChoices(choices, counts, choices, counts, choices, integers({1, 2}), 1, 0));
}

TEST_P(ChecksTest, Tokens) {
  View ids = integers({6}), table = floats({9, 4}), rows = floats({6, 4}), column = floats({6, 1});
  pass(checkPositions(ids, 3, {}));
  pass(checkIndexAffine(ids, ids, 2, 1));
  pass(checkFill(rows, 0.5));
  for (int32_t to : {MOERT_F32, MOERT_F64, MOERT_BF16, MOERT_F16})
    pass(checkCast(rows, makeView(to, {6, 4})));
  pass(checkEmbedding(ids, table, rows, {2, 1, 1}));
  pass(checkEmbeddingGrad(ids, rows, table, table, {2, 1, 1}, 17));
  pass(checkRowLogsumexp(rows, column));
  pass(checkRowLogsumexpGrad(rows, column, column, rows));
  pass(checkPick(rows, ids, column, {}));
  pass(checkPickGrad(ids, column, rows, rows, {}));
  pass(checkLabelSum(column, ids, scalar()));
  pass(checkLabelCount(ids, scalar()));
  pass(checkRouterMeans(rows, floats({2, 4}), floats({2, 4}), floats({2, 1}), 4, {}));
  pass(checkRouterMeansGrad(rows, floats({2, 4}), floats({2, 1}), rows));
  pass(checkLabelSumGrad(ids, scalar(), column));
}

TEST_P(ChecksTest, Norms) {
  View x = floats({6, 8}), gamma = floats({4});
  pass(checkNorm(x, gamma, gamma, x, MOERT_LAYER_NORM, 1e-5));
  pass(checkNormGrad(x, gamma, x, x, MOERT_RMS_NORM, 1e-5));
  pass(checkNormWgrad(x, x, gamma, gamma, MOERT_NO_NORM, 0));
  pass(checkInverseRoot(x, x, 1, 1));
  pass(checkInverseRootGrad(x, x, x, 1));
  pass(checkClamp(x, x, 1));
  pass(checkClampGrad(x, x, x, 1));
}

TEST_P(ChecksTest, Heads) {
  View q = floats({6, 8}), k = floats({10, 8}), v = floats({10, 12}), out = floats({6, 12}), lse = floats({6, 2});
  View bias = floats({2, 3, 5}), sinks = floats({2}), step = integers({}), table = floats({8, 2});
  AttentionInputs inputs{q, k, v, bias, sinks, step};
  AttentionOptions options;
  options.qLength = 3;
  options.kLength = 5;
  options.heads = options.kHeads = 2;
  options.dropout = 0.5;
  RotaryOptions rotary;
  rotary.headDim = rotary.rotaryDim = 4;
  pass(checkRotary(q, q, rotary));
  pass(checkAppendToHeads(q, floats({6, 3}), floats({6, 14})));
  pass(checkAppendToHeadsGrad(floats({6, 14}), q, floats({6, 3})));
  pass(checkAttention(inputs, out, lse, options));
  pass(checkAttentionGrad(inputs, out, lse, out, q, k, v, options));
  pass(checkAttentionBiasGrad(inputs, out, lse, out, bias, options));
  pass(checkAttentionSinksGrad(sinks, lse, out, out, sinks));
  pass(checkRelativeBias(table, bias, true, 20));
  pass(checkRelativeBiasGrad(bias, table, table, true, 20));
  pass(checkDropout(q, step, q, 1, {}, {}, 0.5, {}));
}

TEST_P(ChecksTest, Optimizers) {
  View x = floats({3, 4});
  pass(checkDivide(scalar(), scalar(), scalar()));
  pass(checkSumSquares(x, scalar()));
  pass(checkClipFactor(scalar(), scalar(), 1));
  pass(checkSquareRoot(scalar(), scalar()));
  pass(checkSgd(x, x, x, scalar(), scalar(), x, x, 0.9, 0.1));
  pass(checkAdam(x, x, x, x, scalar(), integers({}), {}, x, x, x, {}));
}

// Beside rows of 16 bits, sums over rows and factors of rows may be f32. Beside other rows they have the rows' type.
TEST_P(ChecksTest, Accumulators) {
  View rows = floats({6, 8}), packed = floats({12, 8}), choices = integers({6, 2}), labels = integers({6});
  View column = accumulators({6, 1}), weights = accumulators({6, 2}), lse = accumulators({6, 2}), sinks = floats({2});
  pass(checkRowScale(rows, column, rows));
  pass(checkRowDot(rows, rows, column));
  pass(checkDispatch(rows, choices, weights, {}, packed));
  pass(checkCombine(packed, choices, weights, {}, rows));
  pass(checkSlotDot(rows, packed, choices, {}, weights));
  pass(checkRowLogsumexp(rows, column));
  pass(checkRowLogsumexpGrad(rows, column, column, rows));
  pass(checkPick(rows, labels, column, {}));
  pass(checkPickGrad(labels, column, rows, rows, {}));
  AttentionInputs inputs{rows, rows, rows, {}, sinks, {}};
  AttentionOptions options;
  options.qLength = options.kLength = 3;
  options.heads = options.kHeads = 2;
  pass(checkAttention(inputs, rows, lse, options));
  pass(checkAttentionGrad(inputs, rows, lse, rows, rows, rows, rows, options));
  pass(checkAttentionSinksGrad(sinks, lse, rows, rows, sinks));
}

// No other operand may be f32 there, and no operand may have another type.
TEST_P(ChecksTest, WrongAccumulators) {
  const int32_t other = GetParam() == MOERT_F64 ? MOERT_F32 : MOERT_F64;
  const std::string otherType = dtypeName(other), type32 = isNarrow(GetParam()) ? "f32" : type();
  View rows = floats({6, 8}), packed = floats({12, 8}), choices = integers({6, 2});
  fail(checkRowScale(rows, makeView(other, {6, 1}), rows),
       "'row_scale': expected 'factors' to be " + type32 + "[6,1] but got " + otherType + "[6,1]");
  fail(checkCombine(packed, choices, makeView(other, {6, 2}), {}, rows),
       "'combine': expected 'weights' to be " + type32 + "[6,2] but got " + otherType + "[6,2]");
  fail(checkSlotDot(rows, packed, choices, {}, makeView(other, {6, 2})),
       "'slot_dot': expected 'out' to be " + type32 + "[6,2] but got " + otherType + "[6,2]");
  fail(checkPickGrad(integers({6}), makeView(other, {6, 1}), {}, rows, {}),
       "'pick_grad': expected 'grads' to be " + type32 + "[6,1] but got " + otherType + "[6,1]");
  fail(checkMatmul(rows, floats({8, 4}), makeView(other, {6, 4}), false, false),
       "'matmul': expected 'c' to be " + type() + "[6,4] but got " + otherType + "[6,4]");
}

// Errors, too, are found without an access to the operands.
TEST_P(ChecksTest, Wrong) {
  View x = floats({4, 6}), counts = integers({1, 2}), absent = x;
  absent.data = nullptr;
  fail(checkAdd(x, floats({6, 4}), x), "'add': expected 'b' to be " + type() + "[4,6] but got " + type() + "[6,4]");
  fail(checkAdd(x, integers({4, 6}), x), "'add': expected 'b' to be " + type() + "[4,6] but got i32[4,6]");
  fail(checkAdd(absent, x, x), "'add': 'a' is absent");
  fail(checkScale(counts, counts, 1), "'scale': expected 'in' to be f32 or f64 but got i32[1,2]");
  fail(checkBiasAdd(x, floats({2, 6}), floats({1, 2}), x, 1),
       "'bias_add': expected 'counts' to be i32[1,2] but got " + type() + "[1,2]");
  fail(checkPick(x, integers({4}), floats({4, 1}), {0, 1, 0}),
       "'pick': expected 'parts' and 'stride' of 1 or more but got 0 and 1");
}

// Dimensions of one name are equal, including those that `..` stands for. A flag, an optional operand or the rank
// decides between two shapes.
TEST_P(ChecksTest, Shapes) {
  const std::string t = type();
  View x = floats({4, 6}), counts = integers({3, 2}), slots = integers({4, 2});
  fail(checkMatmul(x, floats({6, 8}), floats({4, 7}), false, false),
       "'matmul': expected 'c' to be " + t + "[4,8] but got " + t + "[4,7]");
  fail(checkMatmul(x, floats({6, 8}), floats({6, 8}), true, false),
       "'matmul': expected 'b' to be " + t + "[4,8] but got " + t + "[6,8]");
  fail(checkMatmul(x, floats({6}), x, false, false),
       "'matmul': expected 'b' to be " + t + "[6,n] but got " + t + "[6]");
  fail(checkScale(x, floats({4, 6, 1}), 1), "'scale': expected 'out' to be " + t + "[4,6] but got " + t + "[4,6,1]");
  fail(checkGroupedMatmul(x, floats({2, 6, 5}), {}, floats({4, 5}), false),
       "'grouped_matmul': expected 'rows' to be " + t + "[e,c,k] but got " + t + "[4,6]");
  fail(checkGroupedMatmul(x, floats({3, 6, 5}), counts, floats({4, 5}), false),
       "'grouped_matmul': expected 'counts' to be i32[3,3] but got i32[3,2]");
  fail(checkDispatch(x, slots, {}, {}, floats({8, 5})),
       "'dispatch': expected 'out' to be " + t + "[8,6] but got " + t + "[8,5]");
  fail(checkRowScale(x, floats({4, 4}), x),
       "'row_scale': expected 'factors' with a number of columns that divides those "
       "of 'rows' but got " +
           t + "[4,4] and " + t + "[4,6]");
  fail(checkRowDot(x, x, floats({4, 0})),
       "'row_dot': expected 'out' with a number of columns that divides those of 'a' "
       "but got " +
           t + "[4,0] and " + t + "[4,6]");
  fail(checkLocalSlots(slots, integers({2, 2}), slots, integers({1, 1}), {0, 3, 1, 0, 2}),
       "'local_slots': expected 'counts' to be i32[1,2] but got i32[2,2]");
}

// An optimizer's gradient may have 16 bits beside parameters of f32. No other operand may then.
TEST(ChecksTest, GradientsOf16Bits) {
  auto view = [](int32_t dtype) { return makeView(dtype, {4}); };
  auto message = [&](View param, View grad, View velocity, int32_t rate) {
    return checkSgd(param, grad, velocity, makeView(rate, {}), {}, param, velocity, 0, 0).message;
  };
  const View wide = view(MOERT_F32), narrow = view(MOERT_BF16);
  EXPECT_EQ(message(wide, narrow, wide, MOERT_F32), "");
  EXPECT_EQ(message(wide, narrow, narrow, MOERT_F32), "'sgd': expected 'velocity' to be f32[4] but got bf16[4]");
  EXPECT_EQ(message(wide, narrow, wide, MOERT_BF16), "'sgd': expected 'rate' to be f32[] but got bf16[]");
  EXPECT_EQ(message(narrow, wide, wide, MOERT_F32), "'sgd': expected 'grad' to be bf16[4] but got f32[4]");
  EXPECT_EQ(checkSgd(wide, wide, wide, makeView(MOERT_F32, {}), {}, wide, narrow, 0, 0).message,
            "'sgd': expected 'velocity_out' to be f32[4] but got bf16[4]");
}

// One of two parts has no equal share of three key heads.
TEST_P(ChecksTest, KeyHeadsOfParts) {
  AttentionOptions options;
  options.qLength = options.kLength = 3;
  options.heads = 3;
  options.kHeads = 3;
  options.part = {2, 1, 0};
  AttentionInputs inputs{floats({3, 6}), floats({3, 3}), floats({3, 3}), {}, {}, {}};
  fail(checkAttention(inputs, floats({3, 3}), floats({3, 3}), options),
       "'attention': expected 'k' to be " + type() + "[3,6] but got " + type() + "[3,3]");
  options.kHeads = 1;
  inputs.k = floats({3, 1});
  fail(checkAttention(inputs, floats({3, 3}), floats({3, 3}), options),
       "'attention': expected 'k' to be " + type() + "[3,2] but got " + type() + "[3,1]");
}

// f32 may stand beside 16-bit types. No other combination is allowed.
TEST_P(ChecksTest, Beside) {
  View tokens = floats({6, 4}), rows = floats({12, 4}), choices = integers({6, 2}), x = floats({6});
  auto beside = [](std::initializer_list<int64_t> dims) { return makeView(MOERT_F32, dims); };
  View state = beside({6}), rate = beside({}), heads = floats({2});
  AttentionOptions options;
  options.qLength = options.kLength = 6;
  options.heads = options.kHeads = 2;
  const AttentionInputs inputs{tokens, tokens, tokens, {}, {}, {}};
  const bool isAllowed = isNarrow(GetParam()) || GetParam() == MOERT_F32;
  for (const Status &status :
       {checkCombine(rows, choices, beside({6, 2}), {}, tokens),
        checkDispatch(tokens, choices, beside({6, 2}), {}, rows),
        checkSlotDot(tokens, rows, choices, {}, beside({6, 2})), checkRowScale(tokens, beside({6, 1}), tokens),
        checkRowDot(tokens, tokens, beside({6, 1})), checkBiasAdd(tokens, beside({4}), {}, tokens, 1),
        checkBiasGrad(tokens, {}, {}, beside({4}), 1), checkSumSquares(tokens, rate),
        checkSgd(x, x, state, rate, rate, x, state, 0, 0), checkSgd(state, x, state, rate, {}, state, state, 0, 0),
        checkAttention(inputs, tokens, beside({6, 2}), options),
        checkAttentionGrad(inputs, tokens, beside({6, 2}), tokens, tokens, tokens, tokens, options),
        checkAttentionSinksGrad(heads, beside({6, 2}), tokens, tokens, heads),
        checkAdam(x, x, state, state, rate, integers({}), rate, x, state, state, {})})
    EXPECT_EQ(status.ok(), isAllowed) << status.message;
  for (int32_t other : {MOERT_F64, MOERT_BF16, MOERT_F16})
    EXPECT_EQ(checkCombine(rows, choices, makeView(other, {6, 2}), {}, tokens).ok(), other == GetParam());
}

} // namespace
} // namespace moert
