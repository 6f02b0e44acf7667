//===- Floor.h - times of products and copies alone -----------------------===//
#ifndef BENCHMARKS_CUDA_LAYER_FLOOR_H
#define BENCHMARKS_CUDA_LAYER_FLOOR_H

#include <cstdint>
#include <cublas_v2.h>
#include <cuda_runtime.h>
#include <functional>
#include <memory>
#include <string>
#include <vector>

void check(cudaError_t error);
void check(cublasStatus_t status);

/// Matrices [rows, columns], row-major. Transposed ones are stored as [columns, rows].
struct Operand {
  const void *data;
  bool transposed;
};

/// cuBLAS and copies in bf16 on the first device, measured by events. Errors are thrown.
class Floor {
public:
  Floor();
  ~Floor();
  std::string device() const;

  /// FLOP/s of the product of two square matrices, as the median of `steps`.
  double peak(int64_t size, int steps);
  /// Bytes per second of a copy within the device, counting reads and writes, as the median of `steps`.
  double copyBandwidth(int64_t bytes, int steps);

  /// Allocates memory for products(): experts of w1 [M, 2 H] and w2 [H, M], and `rows` rows in total.
  void prepare(int64_t model, int64_t hidden, int64_t experts, int64_t rows);
  void release();
  /// Seconds of one cublasGemmEx for each product of each expert that has rows: two forward, two for the gradients of
  /// rows, two for the gradients of weights.
  double products(const std::vector<int64_t> &counts);

private:
  struct Free {
    void operator()(void *data) const { cudaFree(data); }
  };
  using Buffer = std::unique_ptr<void, Free>;
  static Buffer allocate(int64_t elements);
  static Buffer allocateNormal(int64_t elements, double deviation);

  double measure(const std::function<void()> &enqueue);
  double medianOf(int steps, const std::function<void()> &enqueue);
  void multiply(int64_t m, int64_t n, int64_t k, Operand a, Operand b, void *c);

  cublasHandle_t blas = nullptr;
  cudaStream_t stream = nullptr;
  cudaEvent_t begin = nullptr, end = nullptr;
  int64_t model = 0, hidden = 0;
  Buffer narrow, wide, weights, rowsOut, weightsOut;
};

double median(std::vector<double> values);

#endif // BENCHMARKS_CUDA_LAYER_FLOOR_H
