//===- Cudnn.cpp - attention by cuDNN, emulated ---------------------------===//
//
// Plain loops that know only the facts of the operands that cuDNN is given, to show whether these are right. They read
// and write when the work runs, and overwrite the whole workspace.
//
//===----------------------------------------------------------------------===//

#include "Emulation.h"
#include "cuda/CudnnGraph.h"
#include "cuda/Types.cuh"

#include <atomic>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <cuda_runtime.h>
#include <vector>

namespace moert {
namespace {

std::atomic<int64_t> runs = 0;
std::atomic<bool> isRefusing = false;
std::atomic<int64_t> workspace = 1000;

} // namespace

namespace emulation {
int64_t cudnnRuns() { return runs; }
void setCudnnRefuses(bool refuses) { isRefusing = refuses; }
void setCudnnBytes(int64_t bytes) { workspace = bytes; }
} // namespace emulation

namespace cuda {
namespace {

void checkAligned(std::initializer_list<const void *> operands) {
  for (const void *data : operands)
    if (reinterpret_cast<uintptr_t>(data) % 16 != 0) {
      std::fprintf(stderr, "CUDA emulation: an operand of cuDNN is not aligned to 16 bytes\n");
      std::abort();
    }
}

/// One head of one sequence.
template <class T> struct Head {
  const CudnnShape &shape;
  int64_t sequence, head, keyHead;

  Head(const CudnnShape &shape, int64_t sequence, int64_t head)
      : shape(shape), sequence(sequence), head(head), keyHead(head / (shape.heads / shape.keyHeads)) {}

  int64_t placeQ(int64_t i) const { return row(i, shape.queries, shape.queryStride) + head * shape.width; }
  int64_t placeK(int64_t j) const { return row(j, shape.keys, shape.keyStride) + keyHead * shape.width; }
  int64_t placeV(int64_t j) const { return row(j, shape.keys, shape.valueStride) + keyHead * shape.valueWidth; }
  int64_t placeResult(int64_t i) const { return row(i, shape.queries, shape.resultStride) + head * shape.valueWidth; }
  int64_t placeStats(int64_t i) const { return (sequence * shape.heads + head) * shape.queries + i; }

  bool sees(int64_t i, int64_t j) const {
    const int64_t last = i + shape.keys - shape.queries;
    return !shape.causal || (j <= last && (shape.window == 0 || j > last - shape.window));
  }
  float score(const CudnnOperands &operands, int64_t i, int64_t j) const {
    return static_cast<float>(shape.scale) * dot(static_cast<const T *>(operands.q) + placeQ(i),
                                                 static_cast<const T *>(operands.k) + placeK(j), shape.width);
  }
  static float dot(const T *a, const T *b, int64_t columns) {
    float sum = 0;
    for (int64_t c = 0; c < columns; ++c)
      sum += convert<float>(a[c]) * convert<float>(b[c]);
    return sum;
  }

private:
  int64_t row(int64_t i, int64_t rows, int64_t stride) const { return (sequence * rows + i) * stride; }
};

template <class T> void attend(const Head<T> &head, const CudnnOperands &operands, int64_t i) {
  const CudnnShape &shape = head.shape;
  std::vector<float> scores(static_cast<size_t>(shape.keys), -INFINITY), sums(static_cast<size_t>(shape.valueWidth));
  float largest = shape.hasSinks ? operands.sinks[head.head] : -INFINITY, total = 0;
  for (int64_t j = 0; j < shape.keys; ++j)
    if (head.sees(i, j)) {
      float &score = scores[static_cast<size_t>(j)] = head.score(operands, i, j);
      largest = std::fmax(largest, score);
    }
  if (shape.hasSinks)
    total = std::exp(operands.sinks[head.head] - largest);
  for (int64_t j = 0; j < shape.keys; ++j) {
    const float p = std::exp(scores[static_cast<size_t>(j)] - largest);
    total += p;
    for (int64_t c = 0; c < shape.valueWidth && head.sees(i, j); ++c)
      sums[static_cast<size_t>(c)] += p * convert<float>(static_cast<const T *>(operands.v)[head.placeV(j) + c]);
  }
  operands.stats[head.placeStats(i)] = largest + std::log(total);
  for (int64_t c = 0; c < shape.valueWidth; ++c)
    static_cast<T *>(operands.result)[head.placeResult(i) + c] = convert<T>(sums[static_cast<size_t>(c)] / total);
}

/// Sums of the gradients of all operands, by their places.
struct Sums {
  std::vector<float> q, k, v;
};

template <class T> void addGradients(const Head<T> &head, const CudnnOperands &operands, int64_t i, Sums &sums) {
  const CudnnShape &shape = head.shape;
  auto number = [](const void *data, int64_t at) { return convert<float>(static_cast<const T *>(data)[at]); };
  const T *grads = static_cast<const T *>(operands.grads) + head.placeResult(i);
  const float delta =
      Head<T>::dot(grads, static_cast<const T *>(operands.result) + head.placeResult(i), shape.valueWidth);
  // Blocks of keys add to the gradients of a query in any order.
  const int64_t first = shape.isDeterministic ? 0 : runs % shape.keys;
  for (int64_t at = 0; at < shape.keys; ++at) {
    const int64_t j = (first + at) % shape.keys;
    if (!head.sees(i, j))
      continue;
    const float p = std::exp(head.score(operands, i, j) - operands.stats[head.placeStats(i)]);
    const float toP = Head<T>::dot(grads, static_cast<const T *>(operands.v) + head.placeV(j), shape.valueWidth);
    const float toScore = static_cast<float>(shape.scale) * p * (toP - delta);
    for (int64_t c = 0; c < shape.width; ++c) {
      sums.q[static_cast<size_t>(head.placeQ(i) + c)] += toScore * number(operands.k, head.placeK(j) + c);
      sums.k[static_cast<size_t>(head.placeK(j) + c)] += toScore * number(operands.q, head.placeQ(i) + c);
    }
    for (int64_t c = 0; c < shape.valueWidth; ++c)
      sums.v[static_cast<size_t>(head.placeV(j) + c)] += p * convert<float>(grads[c]);
  }
}

template <class T, class Function> void forQueries(const CudnnShape &shape, Function function) {
  for (int64_t b = 0; b < shape.sequences; ++b)
    for (int64_t h = 0; h < shape.heads; ++h)
      for (int64_t i = 0; i < shape.queries; ++i)
        function(Head<T>(shape, b, h), i);
}

template <class T> void computeGradients(const CudnnShape &shape, const CudnnOperands &operands) {
  Sums sums;
  sums.q.resize(static_cast<size_t>(shape.sequences * shape.queries * shape.queryStride));
  sums.k.resize(static_cast<size_t>(shape.sequences * shape.keys * shape.keyStride));
  sums.v.resize(static_cast<size_t>(shape.sequences * shape.keys * shape.valueStride));
  forQueries<T>(shape, [&](const Head<T> &head, int64_t i) { addGradients(head, operands, i, sums); });
  auto store = [](void *to, const std::vector<float> &from, int64_t at, int64_t columns) {
    for (int64_t c = 0; c < columns; ++c)
      static_cast<T *>(to)[at + c] = convert<T>(from[static_cast<size_t>(at + c)]);
  };
  forQueries<T>(shape,
                [&](const Head<T> &head, int64_t i) { store(operands.gradQ, sums.q, head.placeQ(i), shape.width); });
  for (int64_t b = 0; b < shape.sequences; ++b)
    for (int64_t h = 0; h < shape.heads; ++h)
      for (int64_t j = 0; j < shape.keys; ++j) {
        const Head<T> head(shape, b, h);
        store(operands.gradK, sums.k, head.placeK(j), shape.width);
        store(operands.gradV, sums.v, head.placeV(j), shape.valueWidth);
      }
}

template <class T> void compute(const CudnnShape &shape, const CudnnOperands &operands) {
  if (shape.isGradient)
    computeGradients<T>(shape, operands);
  else
    forQueries<T>(shape, [&](const Head<T> &head, int64_t i) { attend(head, operands, i); });
}

class EmulatedGraph final : public CudnnGraph {
public:
  explicit EmulatedGraph(const CudnnShape &shape) : shape(shape) { bytes = ::moert::workspace; }

  Status run(cudaStream_t stream, const CudnnOperands &operands, void *workspace) override {
    checkAligned({operands.q, operands.k, operands.v, operands.result, operands.grads, operands.gradQ, operands.gradK,
                  operands.gradV, workspace});
    auto work = [shape = shape, operands, workspace, size = static_cast<size_t>(bytes)] {
      ++runs;
      std::memset(workspace, 0xff, size);
      shape.dtype == MOERT_BF16 ? compute<Bf16>(shape, operands) : compute<Half>(shape, operands);
    };
    return check(::moert::emulation::enqueueWork(stream, work), "cannot launch a graph of cuDNN");
  }

private:
  CudnnShape shape;
};

class EmulatedCudnn final : public Cudnn {
public:
  Status build(const CudnnShape &shape, std::unique_ptr<CudnnGraph> &graph) override {
    if (isRefusing)
      return Status::error(MOERT_ERROR_UNSUPPORTED, "cuDNN: the test says so");
    graph = std::make_unique<EmulatedGraph>(shape);
    return {};
  }
};

} // namespace

Status Cudnn::open(std::unique_ptr<Cudnn> &cudnn) {
  cudnn = std::make_unique<EmulatedCudnn>();
  return {};
}

} // namespace cuda
} // namespace moert
