//===- CudaKernelsTest.h - CUDA's kernels against the host's --------------===//
//
// A case is a list of operands and a call. It runs on the host, with 16-bit operands widened to f32, and several times
// on an emulated device: with aligned and unaligned operands, and in several orders of threads. The order must not
// change a bit.
//
//===----------------------------------------------------------------------===//
#ifndef MOERT_TEST_CUDA_CUDAKERNELSTEST_H
#define MOERT_TEST_CUDA_CUDAKERNELSTEST_H

#include "core/Kernels.h"
#include "cuda/Context.h"

#include <functional>
#include <gtest/gtest.h>
#include <vector>

namespace moert::cuda {

DeviceOptions testOptions();

/// Values of a tensor before and after a call, as doubles that its type can hold.
struct Operand {
  int32_t dtype = MOERT_F32;
  std::vector<int64_t> dims;
  std::vector<double> values;
  bool isThere = true;
};

/// Normally distributed values, rounded to the type.
Operand randomOperand(int32_t dtype, std::vector<int64_t> dims, int seed, double deviation = 1);
Operand filledOperand(int32_t dtype, std::vector<int64_t> dims, double value);
Operand indices(std::vector<int64_t> dims, const std::vector<int> &values);
Operand absent();
/// Slots with `choices` different rows of `rows` for each token. About a fifth of the choices are dropped.
Operand randomSlots(int64_t tokens, int64_t choices, int64_t rows, int seed);

using KernelCall = std::function<Status(Kernels &, const std::vector<View> &)>;

/// Makes the call on the host.
void onHost(Kind kind, std::vector<Operand> &operands, const KernelCall &call);
/// Makes the call on the device, with aligned operands.
void onDevice(Kind kind, std::vector<Operand> &operands, const KernelCall &call);
/// Expects the same values from both: to 1e-5 in f32, 1e-12 in f64, and to the rounding of 16-bit types, times `slack`.
void expectAlike(Kind kind, const std::vector<Operand> &operands, const KernelCall &call, double slack = 1);
/// Expects a device's values to be near the host's, with the tolerance of expectAlike.
void expectNear(const std::vector<Operand> &got, const std::vector<Operand> &expected, double slack);
/// Expects both to fail with the same code and text, which contains `text`.
void expectSameError(Kind kind, const std::vector<Operand> &operands, const KernelCall &call, const std::string &text);

inline const int32_t kFloatingTypes[] = {MOERT_F32, MOERT_F64, MOERT_BF16, MOERT_F16};
/// Types that may stand beside `dtype`: itself, and f32 beside 16-bit types.
std::vector<int32_t> typesBeside(int32_t dtype);

} // namespace moert::cuda

#endif // MOERT_TEST_CUDA_CUDAKERNELSTEST_H
