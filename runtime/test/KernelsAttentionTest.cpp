//===- KernelsAttentionTest.cpp - attention against loops -----------------===//

#include "KernelsTest.h"

#include "host/DropoutFactors.h"
#include "host/Kernels.h"

#include <array>
#include <limits>

namespace moert::host {
namespace {

template <class T> class KernelsAttentionTest : public ::testing::Test {};
TYPED_TEST_SUITE(KernelsAttentionTest, FloatingTypes);

/// Sizes of a case. `options` has the rest.
struct Case {
  const char *name;
  int64_t sequences, width, valueWidth;
  AttentionOptions options;
  bool bias = false, sinks = false, ownKeys = false;
};

AttentionOptions sizes(int64_t q, int64_t k, int64_t heads, int64_t keyHeads) {
  AttentionOptions options;
  options.qLength = q;
  options.kLength = k;
  options.heads = heads;
  options.kHeads = keyHeads;
  options.scale = 0.7;
  return options;
}

std::vector<Case> cases() {
  std::vector<Case> all;
  all.push_back({"plain", 2, 4, 4, sizes(5, 5, 2, 2)});
  all.push_back({"cross", 2, 3, 5, sizes(4, 9, 2, 2)});
  Case causal{"causal", 2, 4, 4, sizes(6, 6, 2, 2)};
  causal.options.causal = true;
  all.push_back(causal);
  Case longer = causal;
  longer.name = "causal, more keys", longer.options.kLength = 9;
  all.push_back(longer);
  Case shorter = causal;
  shorter.name = "causal, fewer keys, so that queries see none", shorter.options.kLength = 4;
  all.push_back(shorter);
  Case window = causal;
  window.name = "window", window.options.window = 3;
  all.push_back(window);
  Case open{"window without causal", 1, 4, 2, sizes(7, 5, 1, 1)};
  open.options.window = 2;
  all.push_back(open);
  Case grouped{"grouped", 2, 3, 4, sizes(5, 6, 6, 2)};
  all.push_back(grouped);
  for (int64_t part : {0, 1, 2}) {
    Case parts{"parts, all key heads", 2, 3, 4, sizes(5, 6, 2, 3)};
    parts.options.part = {3, 2, 2 * part};
    all.push_back(parts);
    parts.name = "parts, more query heads than a part has", parts.options.kHeads = 2;
    all.push_back(parts);
    parts.name = "parts, own key heads", parts.ownKeys = true, parts.options.kHeads = 6;
    all.push_back(parts);
  }
  Case bias = longer;
  bias.name = "bias", bias.bias = true;
  all.push_back(bias);
  Case sinks = shorter;
  sinks.name = "sinks", sinks.sinks = true;
  all.push_back(sinks);
  Case dropped{"dropout of everything", 2, 3, 4, sizes(5, 7, 4, 2), true, true};
  dropped.options.causal = true;
  dropped.options.window = 4;
  dropped.options.dropout = 0.4;
  dropped.options.seed = 9;
  dropped.options.rows = {2, 1, 1};
  dropped.options.part = {2, 2, 2};
  all.push_back(dropped);
  Case many{"several blocks of queries", 1, 2, 3, sizes(150, 150, 2, 1)};
  many.options.causal = true;
  all.push_back(many);
  Case far{"several blocks, window", 1, 2, 3, sizes(140, 150, 2, 2)};
  far.options.causal = true;
  far.options.window = 20;
  all.push_back(far);
  for (int64_t part : {0, 1, 2}) {
    Case cut{"part of each sequence", 2, 3, 4, sizes(4, 12, 2, 1), true, true};
    cut.options.causal = true;
    cut.options.cut = {3, 2, false, 2 * part};
    all.push_back(cut);
    cut.name = "two parts of each sequence, dropout", cut.options.cut.zigzag = true;
    cut.options.dropout = 0.4;
    cut.options.rows = {2, 2, 2 * part};
    all.push_back(cut);
    cut.name = "two parts of each sequence, window", cut.options.window = 3;
    all.push_back(cut);
    cut.name = "two parts of each sequence, blocks", cut.options.window = 0, cut.options.block = 5;
    all.push_back(cut);
    cut.name = "blocks without causal", cut.options.causal = false;
    all.push_back(cut);
    for (int64_t shift : {0, 1, 2}) {
      Case ring{"keys of one part", 2, 3, 4, sizes(4, 6, 2, 1)};
      ring.options.causal = shift < 2;
      ring.options.window = part * 7;
      ring.options.block = part == 1 ? 4 : 0;
      ring.options.cut = {3, 1, true, part};
      ring.options.keyShift = shift;
      all.push_back(ring);
    }
  }
  Case blocks{"several blocks of queries of two parts", 1, 2, 3, sizes(140, 420, 2, 1)};
  blocks.options.causal = true;
  blocks.options.cut = {3, 1, true, 1};
  all.push_back(blocks);
  return all;
}

/// Operands of a case, with results.
template <class T> struct Operands {
  const Case &of;
  int64_t rows, keyRows, heads, keyHeads;
  Tensor<T> q, k, v, bias, sinks, to, out, lse, gradQ, gradK, gradV, gradBias, gradSinks;
  Tensor<int32_t> step{{}, {21}};

  explicit Operands(const Case &of)
      : of(of), rows(of.sequences * of.options.qLength), keyRows(of.sequences * of.options.kLength),
        heads(of.options.heads), keyHeads(of.options.kHeads / (of.ownKeys ? of.options.part.parts : 1)),
        q(randomTensor<T>({rows, heads * of.width}, 1)), k(randomTensor<T>({keyRows, keyHeads * of.width}, 2)),
        v(randomTensor<T>({keyRows, keyHeads * of.valueWidth}, 3)),
        bias(randomTensor<T>({heads, of.options.cut.parts * of.options.qLength, of.options.kLength}, 4)),
        sinks(randomTensor<T>({heads}, 5)), to(randomTensor<T>({rows, heads * of.valueWidth}, 6)), out(to.dims, T(NAN)),
        lse({rows, heads}, T(NAN)), gradQ(q.dims, T(NAN)), gradK(k.dims, T(NAN)), gradV(v.dims, T(NAN)),
        gradBias(bias.dims, T(NAN)), gradSinks(sinks.dims, T(NAN)) {}

  AttentionInputs inputs() {
    return {q.view(),
            k.view(),
            v.view(),
            of.bias ? bias.view() : View(),
            of.sinks ? sinks.view() : View(),
            of.options.dropout > 0 ? step.view() : View()};
  }
  void forward() { EXPECT_OK(attention(inputs(), out.view(), lse.view(), of.options)); }
  void backward() {
    EXPECT_OK(attentionGrad(inputs(), out.view(), lse.view(), to.view(), gradQ.view(), gradK.view(), gradV.view(),
                            of.options));
    EXPECT_OK(attentionBiasGrad(inputs(), out.view(), lse.view(), to.view(), gradBias.view(), of.options));
    EXPECT_OK(attentionSinksGrad(sinks.view(), lse.view(), out.view(), to.view(), gradSinks.view()));
  }
};

/// p(i) of moert.h, for L rows of the rank `shift` parts behind this one.
int64_t slowPlace(const SequenceCut &cut, int64_t i, int64_t rows, int64_t shift = 0) {
  const int64_t part = (cut.index() + shift) % cut.parts, half = rows / 2;
  if (cut.parts == 1)
    return i;
  if (!cut.zigzag)
    return part * rows + i;
  return i < half ? part * half + i : (2 * cut.parts - 2 - part) * half + i;
}

/// Whether query i sees key j.
bool slowSees(const AttentionOptions &o, int64_t i, int64_t j) {
  const bool isWhole = o.keyShift < 0;
  const int64_t key = isWhole ? j : slowPlace(o.cut, j, o.kLength, o.keyShift);
  const int64_t own =
      slowPlace(o.cut, i, o.qLength) + o.kLength * (isWhole ? 1 : o.cut.parts) - o.qLength * o.cut.parts;
  return (!o.causal || key <= own) && (o.window == 0 || key > own - o.window) &&
         (o.block == 0 || key / o.block == own / o.block);
}

/// keep_ij / (1 - dropout) of moert.h.
double slowKeep(const Case &of, int64_t b, int64_t h, int64_t i, int64_t j, int32_t step) {
  const AttentionOptions &o = of.options;
  if (o.dropout == 0)
    return 1;
  const int64_t modelHeads = o.part.parts * o.heads, sequence = of.sequences * o.rows.index() + b;
  const int64_t row =
      (sequence * modelHeads + o.part.index() * o.heads + h) * o.qLength * o.cut.parts + slowPlace(o.cut, i, o.qLength);
  double factor;
  dropoutFactors(DropoutMask(o.seed, step, o.dropout), row, j, 1, &factor);
  return factor;
}

/// out and lse by the formulas of moert.h in double precision.
template <class T> std::pair<std::vector<double>, std::vector<double>> slowAttention(const Operands<T> &x) {
  const Case &of = x.of;
  const AttentionOptions &o = of.options;
  std::vector<double> out(x.out.size()), lse(x.lse.size());
  const int64_t group = x.heads * o.part.parts / o.kHeads;
  for (int64_t b = 0; b < of.sequences; ++b)
    for (int64_t h = 0; h < x.heads; ++h)
      for (int64_t i = 0; i < o.qLength; ++i) {
        const int64_t whole = (o.part.index() * x.heads + h) / group;
        const int64_t key = of.ownKeys ? whole - o.part.index() * x.keyHeads : whole;
        const int64_t row = b * o.qLength + i;
        std::vector<double> power(o.kLength);
        double sum = of.sinks ? std::exp(double(x.sinks[h])) : 0;
        for (int64_t j = 0; j < o.kLength; ++j) {
          if (!slowSees(o, i, j))
            continue;
          const int64_t place = h * o.qLength * o.cut.parts + slowPlace(o.cut, i, o.qLength);
          double score = of.bias ? double(x.bias[place * o.kLength + j]) : 0;
          for (int64_t c = 0; c < of.width; ++c)
            score += o.scale * double(x.q[(row * x.heads + h) * of.width + c]) *
                     double(x.k[((b * o.kLength + j) * x.keyHeads + key) * of.width + c]);
          sum += power[j] = std::exp(score);
        }
        lse[row * x.heads + h] = std::log(sum);
        for (int64_t j = 0; j < o.kLength && sum > 0; ++j)
          for (int64_t c = 0; c < of.valueWidth; ++c)
            out[(row * x.heads + h) * of.valueWidth + c] +=
                slowKeep(of, b, h, i, j, x.step[0]) * power[j] / sum *
                double(x.v[((b * o.kLength + j) * x.keyHeads + key) * of.valueWidth + c]);
      }
  return {out, lse};
}

// Covers every mask, grouping and addition of the contract.
TYPED_TEST(KernelsAttentionTest, AgreesWithLoops) {
  using T = TypeParam;
  for (const Case &of : cases()) {
    SCOPED_TRACE(of.name);
    Operands<T> x(of);
    x.forward();
    auto [out, lse] = slowAttention(x);
    expectNear(x.out.data, out, tolerance<T>());
    for (size_t i = 0; i < lse.size(); ++i)
      if (std::isinf(lse[i])) {
        ASSERT_EQ(x.lse[i], -std::numeric_limits<T>::infinity());
        x.lse[i] = 0, lse[i] = 0;
      }
    expectNear(x.lse.data, lse, tolerance<T>());
  }
}

// The gradients of all inputs are central differences of the forward, with the same dropout.
TEST(KernelsAttention, Gradients) {
  for (const Case &of : cases()) {
    if (of.options.qLength > 100)
      continue;
    SCOPED_TRACE(of.name);
    Operands<double> x(of);
    x.forward();
    x.backward();
    auto loss = [&] {
      x.forward();
      return inner(x.out.data, x.to.data);
    };
    expectGradient(x.q, x.gradQ.data, loss);
    expectGradient(x.k, x.gradK.data, loss);
    expectGradient(x.v, x.gradV.data, loss);
    if (of.bias)
      expectGradient(x.bias, x.gradBias.data, loss);
    if (of.sinks)
      expectGradient(x.sinks, x.gradSinks.data, loss);
  }
}

/// max |got - expected| relative to max |expected|, if that is more than rounding.
double distance(const std::vector<float> &got, const std::vector<double> &expected) {
  double most = 0, size = 0;
  for (size_t i = 0; i < got.size(); ++i) {
    most = std::max(most, std::abs(double(got[i]) - expected[i]));
    size = std::max(size, std::abs(expected[i]));
  }
  return size > 1e-9 ? most / size : most;
}

// The f32 gradients equal those of f64 up to rounding, also over several blocks of queries.
TEST(KernelsAttention, GradientsOfF32) {
  for (const Case &of : cases()) {
    SCOPED_TRACE(of.name);
    Operands<double> x(of);
    Operands<float> y(of);
    x.forward(), x.backward();
    y.forward(), y.backward();
    EXPECT_LE(distance(y.gradQ.data, x.gradQ.data), 1e-5);
    EXPECT_LE(distance(y.gradK.data, x.gradK.data), 1e-5);
    EXPECT_LE(distance(y.gradV.data, x.gradV.data), 1e-5);
    EXPECT_LE(distance(y.gradBias.data, x.gradBias.data), 1e-5);
    if (of.sinks) {
      EXPECT_LE(distance(y.gradSinks.data, x.gradSinks.data), 1e-5);
    }
  }
}

// Several blocks give the result of the oracle's loops, and finite differences of a few elements agree.
TEST(KernelsAttention, GradientsOfSeveralBlocks) {
  for (const Case &of : cases()) {
    if (of.options.qLength <= 100)
      continue;
    SCOPED_TRACE(of.name);
    Operands<double> x(of);
    x.forward();
    x.backward();
    auto expectSome = [&](Tensor<double> &of, const Tensor<double> &gradient) {
      for (int64_t i = 0; i < of.size(); i += of.size() / 13) {
        const double h = 1e-5, kept = of[i];
        of[i] = kept + h, x.forward();
        const double above = inner(x.out.data, x.to.data);
        of[i] = kept - h, x.forward();
        const double below = inner(x.out.data, x.to.data);
        of[i] = kept;
        ASSERT_NEAR(gradient[i], (above - below) / (2 * h), 1e-6) << i;
      }
    };
    expectSome(x.q, x.gradQ);
    expectSome(x.k, x.gradK);
    expectSome(x.v, x.gradV);
  }
}

// Dropout of parts of heads and sequences equals that of the whole.
TEST(KernelsAttention, DropoutOfParts) {
  Case whole{"whole", 4, 3, 3, sizes(5, 5, 4, 4)};
  whole.options.dropout = 0.5;
  Operands<double> all(whole);
  all.forward();
  for (int64_t rank = 0; rank < 4; ++rank) {
    Case part = whole;
    part.sequences = 2, part.ownKeys = true;
    part.options.heads = 2;
    part.options.part = {2, 1, rank};
    part.options.rows = {2, 2, rank};
    Operands<double> mine(part);
    const int64_t firstRow = part.options.rows.index() * 10, firstColumn = part.options.part.index() * 6;
    for (auto [to, from] : {std::pair{&mine.q, &all.q}, {&mine.k, &all.k}, {&mine.v, &all.v}})
      for (int64_t i = 0; i < 60; ++i)
        (*to)[i] = (*from)[(firstRow + i / 6) * 12 + firstColumn + i % 6];
    mine.forward();
    for (int64_t i = 0; i < 60; ++i)
      ASSERT_NEAR(mine.out[i], all.out[(firstRow + i / 6) * 12 + firstColumn + i % 6], 1e-13);
  }
}

// Attention over the keys of one part after the other equals attention over all of them.
TEST(KernelsAttention, MergesParts) {
  Case ring{"parts", 2, 3, 4, sizes(4, 4, 2, 2)}, whole{"whole", 2, 3, 4, sizes(4, 12, 2, 2)};
  for (Case *of : {&ring, &whole})
    of->options.causal = true, of->options.cut = {3, 1, true, 1};
  Operands<double> all(whole);
  all.forward();
  Tensor<double> out(all.out.dims), lse(all.lse.dims, -INFINITY), next(lse.dims);
  for (int64_t shift : {0, 1, 2}) {
    ring.options.keyShift = shift;
    Operands<double> part(ring);
    part.q.data = all.q.data;
    for (int64_t s = 0; s < 8; ++s)
      for (auto [to, from, width] : {std::tuple{&part.k, &all.k, 6}, {&part.v, &all.v, 8}})
        for (int64_t c = 0; c < width; ++c)
          (*to)[s * width + c] = (*from)[(s / 4 * 12 + slowPlace(ring.options.cut, s % 4, 4, shift)) * width + c];
    part.forward();
    EXPECT_OK(mergeAttention(out.view(), lse.view(), part.out.view(), part.lse.view(), out.view(), next.view()));
    lse.data = next.data;
  }
  expectNear(out.data, all.out.data, 1e-13);
  expectNear(lse.data, all.lse.data, 1e-13);
}

TEST(KernelsAttention, JoinsSequences) {
  // Two ranks have two sequences of 8 rows, rank 0 rows 0, 1, 6 and 7.
  const std::vector<double> rows{0, 1, 6, 7, 8, 9, 14, 15, 2, 3, 4, 5, 10, 11, 12, 13};
  Tensor<double> x({16, 1}), out({16, 1}), back({16, 1});
  x.data = rows;
  EXPECT_OK(joinSequences(x.view(), out.view(), {2, 2, 4, true}, false));
  for (int64_t s = 0; s < 16; ++s)
    EXPECT_EQ(out[s], double(s));
  EXPECT_OK(joinSequences(out.view(), back.view(), {2, 2, 4, true}, true));
  EXPECT_EQ(back.data, rows);
  expectError(joinSequences(x.view(), out.view(), {2, 3, 4, true}, false), MOERT_ERROR_INVALID_ARGUMENT,
              "expected 'x' of a multiple of 2 parts of 3 sequences of 4 rows");
  expectError(joinSequences(x.view(), out.view(), {2, 2, 1, true}, false), MOERT_ERROR_INVALID_ARGUMENT,
              "expected an even number of rows of a sequence with 'zigzag' but got 1");
}

// A bias of minus infinity masks. A query without keys gives zeros and has no gradient.
TYPED_TEST(KernelsAttentionTest, BiasMasks) {
  using T = TypeParam;
  const T inf = INFINITY;
  Case of{"masked", 1, 2, 2, sizes(2, 2, 1, 1), true};
  Operands<T> x(of);
  x.bias.data = {0, -inf, -inf, -inf};
  x.forward();
  x.backward();
  EXPECT_NEAR(x.out[0], x.v[0], 1e-6);
  EXPECT_EQ(x.out[2], T(0));
  EXPECT_EQ(x.lse[1], -inf);
  for (T value : x.gradQ.data)
    EXPECT_NEAR(value, 0, 1e-6);
  EXPECT_EQ(x.gradV[2], T(0));
}

// NaN in any input reaches the result, and an empty batch is no error.
TYPED_TEST(KernelsAttentionTest, Edges) {
  using T = TypeParam;
  Case of{"plain", 1, 2, 2, sizes(3, 3, 1, 1)};
  Operands<T> x(of);
  x.k[2] = T(NAN);
  x.forward();
  for (T value : x.out.data)
    EXPECT_TRUE(std::isnan(value));
  Case none{"none", 0, 2, 2, sizes(3, 3, 1, 1)};
  Operands<T> empty(none);
  empty.forward();
  empty.backward();
  EXPECT_EQ(empty.gradBias.data, std::vector<T>(9, T(0)));
  EXPECT_EQ(empty.gradSinks.data, std::vector<T>(1, T(0)));
}

TYPED_TEST(KernelsAttentionTest, Refuses) {
  using T = TypeParam;
  Case of{"plain", 2, 3, 4, sizes(5, 6, 4, 2)};
  auto error = [&](auto change, const char *text) {
    Case changed = of;
    Operands<T> x(changed);
    AttentionInputs inputs = x.inputs();
    View out = x.out.view(), lse = x.lse.view();
    change(changed.options, inputs, out, lse);
    expectError(attention(inputs, out, lse, changed.options), MOERT_ERROR_INVALID_ARGUMENT, text);
  };
  using O = AttentionOptions &;
  using I = AttentionInputs &;
  error([](O o, I, View &, View &) { o.qLength = 0; }, "'attention': expected 'q_length' of 1 or more but got 0");
  error([](O o, I, View &, View &) { o.qLength = 4; }, "expected 'q' of sequences of 4 rows and of 4 heads but got");
  error([](O o, I, View &, View &) { o.kLength = 5; }, "expected 'k' to be");
  error([](O o, I, View &, View &) { o.kHeads = 3; }, "expected 'k_heads' to divide 4 heads but got 3");
  error([](O o, I, View &, View &) { o.window = -1; }, "'window'");
  error([](O o, I, View &, View &) { o.dropout = 1; }, "expected 'dropout' from 0 to below 1 but got 1");
  error([](O o, I, View &, View &) { o.dropout = 0.5; }, "'step' is absent");
  error([](O o, I, View &, View &) { o.rows.parts = 0; }, "'row_parts' and 'row_stride'");
  error([](O, I i, View &, View &) { i.v.dims[0] = 3; }, "expected 'v' to be");
  error([](O, I i, View &, View &) { i.v.dims[1] = 7; }, "expected 'v' of 2 heads but got");
  error([](O, I i, View &, View &) { i.bias = i.q; }, "expected 'bias'");
  error([](O, I i, View &, View &) { i.sinks = i.q; }, "expected 'sinks'");
  error([](O, I, View &out, View &) { out.dims[1] = 8; }, "expected 'out'");
  error([](O, I, View &, View &lse) { lse.dims[1] = 3; }, "expected 'lse'");
}

// --- Heads with shared columns -----------------------------------------------

// Values follow the definition, for one head and many. The gradients of a sum of products use the same calls.
TYPED_TEST(KernelsAttentionTest, AppendToHeads) {
  using T = TypeParam;
  const int64_t rows = 5;
  for (auto [heads, own, common] : {std::tuple<int64_t, int64_t, int64_t>{1, 1, 1}, {3, 4, 2}, {16, 5, 70}}) {
    const int64_t columns = own + common;
    auto x = randomTensor<T>({rows, heads * own}, 1), shared = randomTensor<T>({rows, common}, 2),
         to = randomTensor<T>({rows, heads * columns}, 3);
    Tensor<T> out({rows, heads * columns}, T(NAN)), gradX({rows, heads * own}, T(NAN)), sum({rows, common}, T(NAN));
    EXPECT_OK(appendToHeads(x.view(), shared.view(), out.view()));
    EXPECT_OK(appendToHeadsGrad(to.view(), gradX.view(), sum.view()));
    std::vector<double> sums(rows * common);
    for (int64_t s = 0; s < rows; ++s)
      for (int64_t h = 0; h < heads; ++h)
        for (int64_t i = 0; i < columns; ++i) {
          const int64_t at = (s * heads + h) * columns + i, ofX = (s * heads + h) * own + i,
                        ofShared = s * common + i - own;
          ASSERT_EQ(out[at], i < own ? x[ofX] : shared[ofShared]) << s << " " << h << " " << i;
          if (i < own)
            ASSERT_EQ(gradX[ofX], to[at]);
          else
            sums[ofShared] += double(to[at]);
        }
    expectNear(sum.data, sums, tolerance<T>());
  }
  Tensor<T> none({0, 6}), noShared({0, 2}), noOut({0, 12});
  EXPECT_OK(appendToHeads(none.view(), noShared.view(), noOut.view()));
  EXPECT_OK(appendToHeadsGrad(noOut.view(), none.view(), noShared.view()));
}

TEST(KernelsAttention, AppendToHeadsRefuses) {
  Tensor<float> x({3, 6}), shared({3, 2}), out({3, 12}), few({2, 2}), empty({3, 0});
  Tensor<double> wide({3, 12});
  auto error = [](const Status &status, const char *text) { expectError(status, MOERT_ERROR_INVALID_ARGUMENT, text); };
  error(appendToHeads(x.view(), few.view(), out.view()), "'append_to_heads': expected 'shared' to be f32[3,2]");
  error(appendToHeads(x.view(), shared.view(), wide.view()), "expected 'out' to be f32[3,12] but got f64[3,12]");
  // Errors: a head too many, no head, no own columns, no shared columns.
  error(appendToHeads(x.view(), shared.view(), shared.view()),
        "expected 'out' of heads with columns of 'x' f32[3,6] and with all of 'shared' f32[3,2] but got f32[3,2]");
  error(appendToHeads(x.view(), shared.view(), x.view()), "but got f32[3,6]");
  error(appendToHeads(empty.view(), shared.view(), out.view()), "'x' f32[3,0]");
  error(appendToHeads(x.view(), empty.view(), out.view()), "'shared' f32[3,0]");
  error(appendToHeadsGrad(out.view(), out.view(), shared.view()), "'append_to_heads_grad': expected 'grads' of heads");
}

// --- Relative biases ---------------------------------------------------------

int64_t slowBucket(int64_t offset, int64_t buckets, bool bidirectional, int64_t most) {
  const int64_t n = bidirectional ? buckets / 2 : buckets,
                d = bidirectional ? std::abs(offset) : std::max<int64_t>(0, -offset);
  const int64_t more = bidirectional && offset > 0 ? n : 0;
  if (d < n / 2)
    return more + d;
  // Largest step s with (d / (n/2))^(n - n/2) >= (most / (n/2))^s, in long double, with a tolerance for its rounding.
  const long double half = n / 2, left = std::log((long double)d / half) * (n - half);
  int64_t s = 0;
  while (s < n && left - (s + 1) * std::log((long double)most / half) > -1e-12L)
    ++s;
  return more + std::min(n - 1, n / 2 + s);
}

// T5's buckets, in both directions and in one, and the gradient of the table.
TYPED_TEST(KernelsAttentionTest, RelativeBias) {
  using T = TypeParam;
  for (bool bidirectional : {false, true})
    for (auto [queries, keys, buckets] :
         {std::array<int64_t, 3>{9, 9, 32}, {3, 300, 32}, {200, 40, 32}, {30, 30, 9}, {30, 30, 11}}) {
      const int64_t heads = 2, most = 128;
      auto table = randomTensor<T>({buckets, heads}, 1), to = randomTensor<T>({heads, queries, keys}, 2),
           addend = randomTensor<T>({buckets, heads}, 3);
      Tensor<T> out({heads, queries, keys}, T(NAN)), grad({buckets, heads}, T(NAN)), same = addend;
      EXPECT_OK(relativeBias(table.view(), out.view(), bidirectional, most));
      EXPECT_OK(relativeBiasGrad(to.view(), {}, grad.view(), bidirectional, most));
      EXPECT_OK(relativeBiasGrad(to.view(), same.view(), same.view(), bidirectional, most));
      std::vector<double> expected(buckets * heads);
      for (int64_t h = 0; h < heads; ++h)
        for (int64_t i = 0; i < queries; ++i)
          for (int64_t j = 0; j < keys; ++j) {
            const int64_t at = (h * queries + i) * keys + j;
            const int64_t place = slowBucket(j - i, buckets, bidirectional, most) * heads + h;
            ASSERT_EQ(out[at], table[place]) << i << " " << j;
            expected[place] += double(to[at]);
          }
      expectNear(grad.data, expected, tolerance<T>());
      for (size_t i = 0; i < expected.size(); ++i)
        expected[i] += double(addend[i]);
      expectNear(same.data, expected, tolerance<T>());
    }
}

TEST(KernelsAttention, RelativeBiasRefuses) {
  Tensor<float> table({32, 2}), few({2, 2}), out({2, 3, 4}), wrong({3, 3, 4});
  auto error = [](const Status &status, const char *text) { expectError(status, MOERT_ERROR_INVALID_ARGUMENT, text); };
  error(relativeBias(table.view(), wrong.view(), true, 128), "'relative_bias': expected 'out' to be f32[2,3,4]");
  error(relativeBias(few.view(), out.view(), true, 128), "expected 'table' of 4 or more rows");
  error(relativeBias(table.view(), out.view(), true, 8), "expected 'max_distance' above 8 but got 8");
  error(relativeBiasGrad(out.view(), few.view(), table.view(), true, 128), "expected 'addend'");
}

} // namespace
} // namespace moert::host
