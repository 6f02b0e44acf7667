//===- KernelsAttention.cpp - attention and its gradients ------------------===//
//
// Computes one block of queries of one head of one sequence at a time. A matrix product gives its scores, and their
// softmax by rows is the left operand of the next product. Products skip keys that no query of the block sees.
// Gradients compute the probabilities again from the stored log-sum-exp (FlashAttention, Dao et al., 2022). Only these
// loops are compiled for three instruction sets: AVX-512 makes a training step with much attention 9 % faster. Other
// kernels that would gain much take less than 3 % of a step.
//
//===----------------------------------------------------------------------===//
#include "host/DropoutFactors.h"
#include "host/KernelSupport.h"

namespace moert::host {
namespace {

// --- Instruction sets --------------------------------------------------------

#ifdef MOERT_X86
enum class CpuLevel { Baseline, Avx2, Avx512 };

CpuLevel cpuLevel() {
  static const CpuLevel level = [] {
    __builtin_cpu_init();
    if (!__builtin_cpu_supports("avx2") || !__builtin_cpu_supports("fma"))
      return CpuLevel::Baseline;
    bool wide = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq") &&
                __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl");
    return wide ? CpuLevel::Avx512 : CpuLevel::Avx2;
  }();
  return level;
}

template <auto Loop, class... Args> __attribute__((target("avx2,fma"))) auto runAvx2(Args... args) {
  return Loop(args...);
}
template <auto Loop, class... Args>
__attribute__((target("avx512f,avx512dq,avx512bw,avx512vl,avx2,fma"))) auto runAvx512(Args... args) {
  return Loop(args...);
}
#endif

/// Runs Loop(args...), compiled for the best instruction set of this machine. Loop and all that it calls must be
/// MOERT_INLINE. target_clones does not work: its resolvers run before a sanitizer is ready, and it takes no templates.
template <auto Loop, class... Args> auto runVectorised(Args... args) {
#ifdef MOERT_X86
  if (cpuLevel() == CpuLevel::Avx512)
    return runAvx512<Loop>(args...);
  if (cpuLevel() == CpuLevel::Avx2)
    return runAvx2<Loop>(args...);
#endif
  return Loop(args...);
}

// --- Blocks of queries -------------------------------------------------------

using Shape = AttentionShape;

/// Queries [first, first + queries) of a head of a sequence, and the keys that any of them sees.
struct QueryBlock {
  int64_t sequence, head, first, queries, firstKey, keys;
};

QueryBlock blockAt(const Shape &shape, int64_t sequence, int64_t head, int64_t first, int64_t most) {
  const int64_t queries = std::min(most, shape.queries - first), firstKey = shape.firstKey(first);
  return {sequence, head, first, queries, firstKey, shape.endKey(first + queries - 1) - firstKey};
}

/// Number of queries of a block: two blocks of scores should stay in the second-level cache, and many rows make the
/// products efficient.
int64_t blockQueries(const Shape &shape, size_t elementSize) {
  constexpr int64_t bytes = 128 * 1024, least = 32, most = 128;
  const int64_t seen = shape.window > 0 ? std::min(shape.keys, shape.window + least) : shape.keys;
  const int64_t fitting = bytes / (std::max<int64_t>(seen, 1) * static_cast<int64_t>(elementSize));
  return std::min(std::clamp(fitting / least * least, least, most), shape.queries);
}

// --- Rows of scores ----------------------------------------------------------

/// A block of scores [queries, keys], and further data of its rows.
template <class T> struct Rows {
  Shape shape;
  QueryBlock block;
  const T *bias; ///< bias of the head, or null
  bool drops;    ///< whether `mask` is used
  DropoutMask mask;
  int64_t maskRow; ///< row of the mask of position 0
  T *factors;      ///< scratch for the dropout of a row

  /// First key that row r sees, relative to the block's first key.
  MOERT_INLINE int64_t begin(int64_t r) const { return shape.firstKey(block.first + r) - block.firstKey; }
  MOERT_INLINE int64_t end(int64_t r) const { return shape.endKey(block.first + r) - block.firstKey; }
  MOERT_INLINE const T *biasOf(int64_t r) const {
    return bias ? bias + position(r) * shape.keys + block.firstKey : nullptr;
  }
  MOERT_INLINE int64_t position(int64_t r) const { return shape.places.at(block.first + r); }

  /// Sets row r to 0 at keys that it does not see.
  MOERT_INLINE void clearUnseen(T *row, int64_t r) const {
    std::fill_n(row, begin(r), T(0));
    std::fill_n(row + end(r), block.keys - end(r), T(0));
  }
  /// Sets factors[begin(r), end(r)) to dropout's factors of the probabilities of row r.
  MOERT_INLINE void dropRow(int64_t r) const {
    dropoutFactors(mask, maskRow + position(r), block.firstKey + begin(r), end(r) - begin(r), factors + begin(r));
  }
};

template <class T> MOERT_INLINE void addRow(T *row, const T *bias, int64_t count) {
  MOERT_SIMD
  for (int64_t j = 0; j < count; ++j)
    row[j] += bias[j];
}

template <class T> MOERT_INLINE void multiplyRow(T *row, const T *factors, int64_t count) {
  MOERT_SIMD
  for (int64_t j = 0; j < count; ++j)
    row[j] *= factors[j];
}

/// Sets row to exp(row - reference), and returns the sum.
template <class T> MOERT_INLINE Wide<T> expRow(T *row, int64_t count, T reference, T limit) {
  Wide<T> result = 0;
  for (int64_t begin = 0; begin < count; begin += kSumPart)
    result +=
        static_cast<Wide<T>>(expPart(row + begin, row + begin, std::min(kSumPart, count - begin), reference, limit));
  return result;
}

/// Turns scores into exp(score - reference), with dropout. The product with the values times `inverse` is that of the
/// probabilities. Writes lse[r * heads].
template <class T> MOERT_INLINE void softmaxBlock(Rows<T> rows, T *scores, T sink, T *lse, T *inverse) {
  const T limit = opaque(expLimit<T>), lowest = -std::numeric_limits<T>::infinity();
  for (int64_t r = 0; r < rows.block.queries; ++r) {
    T *row = scores + r * rows.block.keys, *seen = row + rows.begin(r);
    const int64_t count = rows.end(r) - rows.begin(r);
    rows.clearUnseen(row, r);
    if (rows.bias)
      addRow(seen, rows.biasOf(r) + rows.begin(r), count);
    const T largest = std::max(maximum(seen, count), sink);
    const T reference = largest == lowest ? T(0) : largest;
    Wide<T> sum = expRow(seen, count, reference, limit);
    if (sink != lowest)
      sum += expOfDifference(static_cast<Wide<T>>(sink), static_cast<Wide<T>>(reference));
    lse[r * rows.shape.heads] = sum == 0 ? lowest : static_cast<T>(logOfSum(static_cast<Wide<T>>(reference), sum));
    inverse[r] = sum == 0 ? T(0) : static_cast<T>(1 / sum);
    if (rows.drops) {
      rows.dropRow(r);
      multiplyRow(seen, rows.factors + rows.begin(r), count);
    }
  }
}

template <class T>
MOERT_INLINE void scaleBlock(T *out, const T *factors, int64_t rows, int64_t columns, int64_t stride) {
  for (int64_t r = 0; r < rows; ++r) {
    T *row = out + r * stride;
    const T factor = factors[r];
    MOERT_SIMD
    for (int64_t j = 0; j < columns; ++j)
      row[j] *= factor;
  }
}

/// `factors` are those of dropout, if it Drops.
template <bool Drops, class T>
MOERT_INLINE void gradRow(T *row, T *grad, const T *factors, int64_t count, T below, T sum, T limit) {
  MOERT_SIMD
  for (int64_t j = 0; j < count; ++j) {
    const T p = expOfDifference(row[j], below, limit), factor = Drops ? factors[j] : T(1);
    row[j] = p * factor;
    grad[j] = p * (factor * grad[j] - sum);
  }
}

/// Turns scores into the probabilities with dropout, and `grads`, the gradients of those, into gradients of the scores.
/// `attended` and `outGrads` are the block's rows of the result and of its gradient.
template <class T>
MOERT_INLINE void gradBlock(Rows<T> rows, T *scores, T *grads, const T *lse, const T *attended, const T *outGrads) {
  const T limit = opaque(expLimit<T>);
  const int64_t columns = rows.shape.valueWidth, stride = rows.shape.heads * columns;
  for (int64_t r = 0; r < rows.block.queries; ++r) {
    T *row = scores + r * rows.block.keys, *grad = grads + r * rows.block.keys;
    const int64_t begin = rows.begin(r), count = rows.end(r) - begin;
    const T below = lse[r * rows.shape.heads];
    rows.clearUnseen(row, r);
    rows.clearUnseen(grad, r);
    if (below == -std::numeric_limits<T>::infinity()) {
      std::fill_n(row + begin, count, T(0));
      std::fill_n(grad + begin, count, T(0));
      continue;
    }
    if (rows.bias)
      addRow(row + begin, rows.biasOf(r) + begin, count);
    const T sum = dotProduct(attended + r * stride, outGrads + r * stride, columns);
    if (rows.drops) {
      rows.dropRow(r);
      gradRow<true>(row + begin, grad + begin, rows.factors + begin, count, below, sum, limit);
    } else {
      gradRow<false>(row + begin, grad + begin, rows.factors, count, below, sum, limit);
    }
  }
}

// --- Blocks ------------------------------------------------------------------

/// Operands of one call, and its scratch memory.
template <class T> class Attention {
public:
  Attention(const AttentionInputs &inputs, const AttentionOptions &options)
      : shape(inputs, options), scale(options.scale), q(inputs.q.as<const T>()), k(inputs.k.as<const T>()),
        v(inputs.v.as<const T>()), bias(inputs.bias.as<const T>()), sinks(inputs.sinks.as<const T>()),
        drops(options.dropout > 0), mask(options.seed, drops ? *inputs.step.as<const int32_t>() : 0, options.dropout),
        firstSequence(shape.sequences * options.rows.index()), most(blockQueries(shape, sizeof(T))) {
    struct Scores;
    struct Grads;
    struct Inverse;
    struct Factors;
    scores = scratch<Scores, T>(most * shape.keys);
    scoreGrads = scratch<Grads, T>(most * shape.keys);
    inverse = scratch<Inverse, T>(most);
    factors = scratch<Factors, T>(shape.keys);
  }

  /// Calls body(block) for all blocks, sequence by sequence, until one fails.
  template <class Body> Status forEachBlock(Body body) const {
    for (int64_t b = 0; b < shape.sequences; ++b)
      for (int64_t h = 0; h < shape.heads; ++h)
        for (int64_t first = 0; first < shape.queries; first += most)
          MOERT_RETURN_IF_ERROR(body(blockAt(shape, b, h, first, most)));
    return {};
  }

  /// Rows of a block in q, in the result, in their gradients, and in lse.
  template <class U> U *queriesOf(U *all, const QueryBlock &block) const {
    return all + (row(block) * shape.heads + block.head) * shape.width;
  }
  template <class U> U *resultsOf(U *all, const QueryBlock &block) const {
    return all + (row(block) * shape.heads + block.head) * shape.valueWidth;
  }
  template <class U> U *sumsOf(U *all, const QueryBlock &block) const {
    return all + row(block) * shape.heads + block.head;
  }
  /// Rows of a block in k, in v or in their gradients, with `width` columns per head.
  template <class U> U *keysOf(U *all, const QueryBlock &block, int64_t width) const {
    const int64_t key = block.sequence * shape.keys + block.firstKey;
    return all + (key * shape.keyHeads + shape.keyHead(block.head)) * width;
  }

  Status forward(const QueryBlock &block, T *out, T *lse);
  /// Sets scores to the probabilities with dropout, and scoreGrads to the gradients of the scores.
  Status gradScores(const QueryBlock &block, const T *attended, const T *lse, const T *grads);
  Status backward(const QueryBlock &block, const T *grads, T *gradQ, T *gradK, T *gradV);

  const Shape shape;
  T *scores, *scoreGrads;

  int64_t mostQueries() const { return most; }

private:
  int64_t row(const QueryBlock &block) const { return block.sequence * shape.queries + block.first; }
  int64_t queryStride() const { return shape.heads * shape.width; }
  int64_t resultStride() const { return shape.heads * shape.valueWidth; }
  int64_t keyStride() const { return shape.keyHeads * shape.width; }
  int64_t valueStride() const { return shape.keyHeads * shape.valueWidth; }

  /// Sets scores to scale * queries keys^T.
  Status multiplyKeys(const QueryBlock &block);
  Rows<T> rowsOf(const QueryBlock &block) const;

  const double scale;
  const T *q, *k, *v, *bias, *sinks;
  const bool drops;
  const DropoutMask mask;
  const int64_t firstSequence, most;
  T *inverse, *factors;
};

template <class T> Status Attention<T>::multiplyKeys(const QueryBlock &block) {
  return gemm({block.queries, block.keys, shape.width, false, true, false, scale, queryStride(), keyStride()},
              queriesOf(q, block), keysOf(k, block, shape.width), scores);
}

template <class T> Rows<T> Attention<T>::rowsOf(const QueryBlock &block) const {
  const T *ofHead = bias ? bias + block.head * shape.allQueries * shape.keys : nullptr;
  const int64_t sequence = firstSequence + block.sequence, head = shape.firstHead + block.head;
  const int64_t maskRow = (sequence * shape.modelHeads + head) * shape.allQueries;
  return {shape, block, ofHead, drops, mask, maskRow, factors};
}

template <class T> Status Attention<T>::forward(const QueryBlock &block, T *out, T *lse) {
  MOERT_RETURN_IF_ERROR(multiplyKeys(block));
  const T sink = sinks ? sinks[block.head] : -std::numeric_limits<T>::infinity();
  runVectorised<softmaxBlock<T>>(rowsOf(block), scores, sink, sumsOf(lse, block), inverse);
  T *result = resultsOf(out, block);
  Status status =
      gemm({block.queries, shape.valueWidth, block.keys, false, false, false, 1.0, 0, valueStride(), resultStride()},
           static_cast<const T *>(scores), keysOf(v, block, shape.valueWidth), result);
  runVectorised<scaleBlock<T>>(result, inverse, block.queries, shape.valueWidth, resultStride());
  return status;
}

template <class T>
Status Attention<T>::gradScores(const QueryBlock &block, const T *attended, const T *lse, const T *grads) {
  MOERT_RETURN_IF_ERROR(multiplyKeys(block));
  const T *outGrads = resultsOf(grads, block);
  MOERT_RETURN_IF_ERROR(
      gemm({block.queries, block.keys, shape.valueWidth, false, true, false, 1.0, resultStride(), valueStride()},
           outGrads, keysOf(v, block, shape.valueWidth), scoreGrads));
  runVectorised<gradBlock<T>>(rowsOf(block), scores, scoreGrads, sumsOf(lse, block), resultsOf(attended, block),
                              outGrads);
  return {};
}

/// Adds up the gradients after gradScores. Those of queries belong to one block. Those of keys and values are sums over
/// blocks and over the query heads of a key head.
template <class T>
Status Attention<T>::backward(const QueryBlock &block, const T *grads, T *gradQ, T *gradK, T *gradV) {
  const T *p = scores, *ds = scoreGrads;
  MOERT_RETURN_IF_ERROR(
      gemm({block.keys, shape.valueWidth, block.queries, true, false, true, 1.0, 0, resultStride(), valueStride()}, p,
           resultsOf(grads, block), keysOf(gradV, block, shape.valueWidth)));
  MOERT_RETURN_IF_ERROR(
      gemm({block.queries, shape.width, block.keys, false, false, false, scale, 0, keyStride(), queryStride()}, ds,
           keysOf(k, block, shape.width), queriesOf(gradQ, block)));
  return gemm({block.keys, shape.width, block.queries, true, false, true, scale, 0, queryStride(), keyStride()}, ds,
              queriesOf(q, block), keysOf(gradK, block, shape.width));
}

template <class T> Status sumBiasGrads(Attention<T> &problem, const T *attended, const T *lse, const T *grads, T *out) {
  struct Tag;
  const Shape &shape = problem.shape;
  // Other ranks compute the part of their queries.
  if (shape.allQueries > shape.queries)
    std::fill_n(out, shape.heads * shape.allQueries * shape.keys, T(0));
  auto *sums = scratch<Tag, Wide<T>>(problem.mostQueries() * shape.keys);
  for (int64_t h = 0; h < shape.heads; ++h)
    for (int64_t first = 0; first < shape.queries; first += problem.mostQueries()) {
      // All sequences have the same blocks.
      const QueryBlock block = blockAt(shape, 0, h, first, problem.mostQueries());
      std::fill_n(sums, block.queries * block.keys, Wide<T>(0));
      for (int64_t b = 0; b < shape.sequences; ++b) {
        MOERT_RETURN_IF_ERROR(problem.gradScores(blockAt(shape, b, h, first, block.queries), attended, lse, grads));
        runVectorised<addTo<T>>(sums, problem.scoreGrads, block.queries * block.keys);
      }
      for (int64_t r = 0; r < block.queries; ++r) {
        T *row = out + (h * shape.allQueries + shape.places.at(first + r)) * shape.keys;
        std::fill_n(row, shape.keys, T(0));
        for (int64_t j = 0; j < block.keys; ++j)
          row[block.firstKey + j] = static_cast<T>(sums[r * block.keys + j]);
      }
    }
  return {};
}

template <class T>
MOERT_INLINE Wide<T> sinksGrad(const T *lse, const T *attended, const T *grads, int64_t rows, int64_t heads,
                               int64_t width, Wide<T> sink) {
  Wide<T> sum = 0;
  for (int64_t s = 0; s < rows; ++s) {
    const T dot = dotProduct(attended + s * heads * width, grads + s * heads * width, width);
    sum -= expOfDifference(sink, static_cast<Wide<T>>(lse[s * heads])) * static_cast<Wide<T>>(dot);
  }
  return sum;
}

/// Merges one head of a row: `to` becomes the weighted sum of a and b. Returns its lse.
template <class T> T mergeHead(const T *a, T lseA, const T *b, T lseB, T *to, int64_t width) {
  const T largest = std::max(lseA, lseB);
  if (largest == -std::numeric_limits<T>::infinity()) {
    std::fill_n(to, width, T(0));
    return largest;
  }
  const T limit = expLimit<T>, ofA = expOfDifference(lseA, largest, limit);
  const T ofB = expOfDifference(lseB, largest, limit), sum = ofA + ofB;
  MOERT_SIMD
  for (int64_t j = 0; j < width; ++j)
    to[j] = (ofA * a[j] + ofB * b[j]) / sum;
  return logOfSum(largest, sum);
}

} // namespace

void mergeAttention(Checker &, View a, View lseA, View b, View lseB, View out, View lse) {
  withFloating(a.dtype, [&]<class T>(T) {
    const int64_t heads = lse.elements(), width = heads > 0 ? a.elements() / heads : 0;
    for (int64_t h = 0; h < heads; ++h)
      lse.as<T>()[h] = mergeHead(a.as<const T>() + h * width, lseA.as<const T>()[h], b.as<const T>() + h * width,
                                 lseB.as<const T>()[h], out.as<T>() + h * width, width);
  });
}

void attention(Checker &check, const AttentionInputs &inputs, View out, View lse, const AttentionOptions &options) {
  check.also(withFloating(inputs.q.dtype, [&]<class T>(T) {
    Attention<T> problem(inputs, options);
    return problem.forEachBlock(
        [&](const QueryBlock &block) { return problem.forward(block, out.as<T>(), lse.as<T>()); });
  }));
}

void attentionGrad(Checker &check, const AttentionInputs &inputs, View attended, View lse, View grads, View gradQ,
                   View gradK, View gradV, const AttentionOptions &options) {
  startFrom({}, gradK);
  startFrom({}, gradV);
  check.also(withFloating(inputs.q.dtype, [&]<class T>(T) {
    Attention<T> problem(inputs, options);
    return problem.forEachBlock([&](const QueryBlock &block) -> Status {
      MOERT_RETURN_IF_ERROR(problem.gradScores(block, attended.as<const T>(), lse.as<const T>(), grads.as<const T>()));
      return problem.backward(block, grads.as<const T>(), gradQ.as<T>(), gradK.as<T>(), gradV.as<T>());
    });
  }));
}

void attentionBiasGrad(Checker &check, const AttentionInputs &inputs, View attended, View lse, View grads, View out,
                       const AttentionOptions &options) {
  check.also(withFloating(inputs.q.dtype, [&]<class T>(T) {
    Attention<T> problem(inputs, options);
    return sumBiasGrads<T>(problem, attended.as<const T>(), lse.as<const T>(), grads.as<const T>(), out.as<T>());
  }));
}

void attentionSinksGrad(Checker &, View sinks, View lse, View attended, View grads, View out) {
  withFloating(sinks.dtype, [&]<class T>(T) {
    const int64_t heads = sinks.dims[0], rows = lse.dims[0], width = attended.dims[1] / heads;
    for (int64_t h = 0; h < heads; ++h) {
      const T sink = sinks.as<const T>()[h];
      // A sink of minus infinity counts as none.
      const bool isNone = sink == -std::numeric_limits<T>::infinity();
      out.as<T>()[h] = isNone ? T(0)
                              : static_cast<T>(runVectorised<sinksGrad<T>>(
                                    lse.as<const T>() + h, attended.as<const T>() + h * width,
                                    grads.as<const T>() + h * width, rows, heads, width, static_cast<Wide<T>>(sink)));
    }
  });
}

} // namespace moert::host
