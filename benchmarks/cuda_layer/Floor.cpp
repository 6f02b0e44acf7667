//===- Floor.cpp - times of products and copies alone ---------------------===//

#include "Floor.h"
#include "Values.h"

#include <cmath>
#include <stdexcept>

void check(cudaError_t error) {
  if (error != cudaSuccess)
    throw std::runtime_error(std::string("CUDA: ") + cudaGetErrorString(error));
}

void check(cublasStatus_t status) {
  if (status != CUBLAS_STATUS_SUCCESS)
    throw std::runtime_error(std::string("cuBLAS: ") + cublasGetStatusString(status));
}

double median(std::vector<double> values) {
  std::nth_element(values.begin(), values.begin() + values.size() / 2, values.end());
  return values[values.size() / 2];
}

Floor::Floor() {
  check(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  check(cudaEventCreate(&begin));
  check(cudaEventCreate(&end));
  check(cublasCreate(&blas));
  check(cublasSetStream(blas, stream));
}

Floor::~Floor() {
  cublasDestroy(blas);
  cudaEventDestroy(begin);
  cudaEventDestroy(end);
  cudaStreamDestroy(stream);
}

std::string Floor::device() const {
  cudaDeviceProp properties;
  check(cudaGetDeviceProperties(&properties, 0));
  return properties.name;
}

Floor::Buffer Floor::allocate(int64_t elements) {
  void *data = nullptr;
  check(cudaMalloc(&data, static_cast<size_t>(elements) * 2));
  return Buffer(data);
}

/// Values are not zeros, because a device's speed depends on the number of bits that change.
Floor::Buffer Floor::allocateNormal(int64_t elements, double deviation) {
  Buffer buffer = allocate(elements);
  const std::vector<uint16_t> values = makeNormal(std::min<int64_t>(elements, 1 << 22), deviation, 1);
  const auto count = static_cast<int64_t>(values.size());
  for (int64_t done = 0; done < elements; done += count)
    check(cudaMemcpy(static_cast<uint16_t *>(buffer.get()) + done, values.data(),
                     static_cast<size_t>(std::min(elements - done, count)) * 2, cudaMemcpyHostToDevice));
  check(cudaDeviceSynchronize()); // A copy from pageable memory may return before it is done.
  return buffer;
}

double Floor::measure(const std::function<void()> &enqueue) {
  check(cudaEventRecord(begin, stream));
  enqueue();
  check(cudaEventRecord(end, stream));
  check(cudaEventSynchronize(end));
  float milliseconds = 0;
  check(cudaEventElapsedTime(&milliseconds, begin, end));
  return milliseconds / 1e3;
}

/// Computes c [m, n] = a [m, k] b [k, n]. cuBLAS is column-major, so it computes c^T = b^T a^T.
void Floor::multiply(int64_t m, int64_t n, int64_t k, Operand a, Operand b, void *c) {
  const float one = 1, zero = 0;
  const auto op = [](Operand operand) { return operand.transposed ? CUBLAS_OP_T : CUBLAS_OP_N; };
  check(cublasGemmEx(blas, op(b), op(a), static_cast<int>(n), static_cast<int>(m), static_cast<int>(k), &one, b.data,
                     CUDA_R_16BF, static_cast<int>(b.transposed ? k : n), a.data, CUDA_R_16BF,
                     static_cast<int>(a.transposed ? m : k), &zero, c, CUDA_R_16BF, static_cast<int>(n),
                     CUBLAS_COMPUTE_32F, CUBLAS_GEMM_DEFAULT));
}

double Floor::medianOf(int steps, const std::function<void()> &enqueue) {
  for (int warmUp = 0; warmUp < 2; ++warmUp)
    measure(enqueue);
  std::vector<double> seconds(static_cast<size_t>(steps));
  std::generate(seconds.begin(), seconds.end(), [&] { return measure(enqueue); });
  return median(seconds);
}

double Floor::peak(int64_t size, int steps) {
  const Buffer a = allocateNormal(size * size, 1), b = allocateNormal(size * size, 1), c = allocate(size * size);
  const double seconds =
      medianOf(steps, [&] { multiply(size, size, size, {a.get(), false}, {b.get(), false}, c.get()); });
  return 2 * std::pow(static_cast<double>(size), 3) / seconds;
}

double Floor::copyBandwidth(int64_t bytes, int steps) {
  const Buffer from = allocateNormal(bytes / 2, 1), to = allocate(bytes / 2);
  const double seconds = medianOf(steps, [&] {
    check(cudaMemcpyAsync(to.get(), from.get(), static_cast<size_t>(bytes), cudaMemcpyDeviceToDevice, stream));
  });
  return 2 * static_cast<double>(bytes) / seconds;
}

void Floor::prepare(int64_t model, int64_t hidden, int64_t experts, int64_t rows) {
  release();
  this->model = model;
  this->hidden = hidden;
  const int64_t most = std::max(model, 2 * hidden);
  narrow = allocateNormal(rows * model, 1);
  wide = allocateNormal(rows * 2 * hidden, 1);
  weights = allocateNormal(experts * model * 2 * hidden, 1 / std::sqrt(static_cast<double>(model)));
  rowsOut = allocate(rows * most);
  weightsOut = allocate(experts * model * 2 * hidden);
}

void Floor::release() {
  for (Buffer *buffer : {&narrow, &wide, &weights, &rowsOut, &weightsOut})
    buffer->reset();
}

/// Shapes and strides are those of the layer, but operands are shared: x is also the gradient of the output, h also the
/// activation and the gradients of both, and w1 also w2. Products never overwrite their inputs, so values do not grow
/// from step to step.
double Floor::products(const std::vector<int64_t> &counts) {
  const auto at = [](const Buffer &buffer, int64_t element) { return static_cast<uint16_t *>(buffer.get()) + element; };
  return measure([&] {
    int64_t row = 0;
    for (size_t e = 0; e < counts.size(); ++e) {
      const int64_t rows = counts[e], w1Size = model * 2 * hidden, expert = static_cast<int64_t>(e) * w1Size;
      if (rows == 0)
        continue;
      const void *x = at(narrow, row * model), *h = at(wide, row * 2 * hidden), *w = at(weights, expert);
      void *out = at(rowsOut, row * std::max(model, 2 * hidden)), *dw = at(weightsOut, expert);
      multiply(rows, 2 * hidden, model, {x, false}, {w, false}, out);
      multiply(rows, model, hidden, {h, false}, {w, false}, out);
      multiply(rows, hidden, model, {x, false}, {w, true}, out);
      multiply(hidden, model, rows, {h, true}, {x, false}, dw);
      multiply(rows, model, 2 * hidden, {h, false}, {w, true}, out);
      multiply(model, 2 * hidden, rows, {x, true}, {h, false}, dw);
      row += rows;
    }
  });
}
