//===- WideKernelsTest.cpp - 16-bit operands of host kernels --------------===//

#include "core/Convert.h"
#include "host/HostBackend.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

namespace moert::host {
namespace {

using Bits = std::vector<uint16_t>;

/// Bits of values that bf16, or f16, can hold.
template <class T = Bf16> Bits toBits(const std::vector<float> &values) {
  Bits bits;
  for (float value : values)
    bits.push_back(convert<T>(value).bits);
  return bits;
}

View makeView(const Bits &bits, std::initializer_list<int64_t> dims, int32_t dtype = MOERT_BF16) {
  View view{const_cast<uint16_t *>(bits.data()), dtype, static_cast<int64_t>(dims.size())};
  std::copy(dims.begin(), dims.end(), view.dims.begin());
  return view;
}

Call makeCall(Kind kind, std::initializer_list<View> views) {
  Call call;
  call.kind = kind;
  for (View view : views)
    call.views[static_cast<size_t>(call.viewCount++)] = view;
  return call;
}

Status launchWide(const Call &call) {
  HostKernels kernels;
  return launchWideKernel(kernels, call);
}

/// [1, 2; 3, 4] times the double identity. Inputs keep their values.
TEST(WideKernels, Product) {
  const Bits a = toBits({1, 2, 3, 4}), b = toBits({2, 0, 0, 2});
  Bits out(4);
  Call call = makeCall(Kind::Matmul, {makeView(a, {2, 2}), makeView(b, {2, 2}), makeView(out, {2, 2})});
  ASSERT_TRUE(needsWideKernel(call));
  Status status = launchWide(call);
  ASSERT_TRUE(status.ok()) << status.message;
  EXPECT_EQ(out, toBits({2, 4, 6, 8}));
  EXPECT_EQ(a, toBits({1, 2, 3, 4}));
}

/// A gradient of f32 is not rounded: 256 + 1 x 1 stays 257, which bf16 does not hold.
TEST(WideKernels, WideGradients) {
  const Bits one = toBits({1});
  std::vector<float> sum = {256};
  View wide{sum.data(), MOERT_F32, 2};
  wide.dims = {1, 1};
  const View narrow = makeView(one, {1, 1});
  Status status = launchWide(makeCall(Kind::MatmulWgrad, {narrow, narrow, wide, wide}));
  ASSERT_TRUE(status.ok()) << status.message;
  EXPECT_EQ(sum, std::vector<float>{257});
  View ofExpert = wide, rows = narrow;
  for (View *view : {&ofExpert, &rows}) {
    view->rank = 3;
    view->dims = {1, 1, 1};
  }
  status = launchWide(makeCall(Kind::GroupedMatmulWgrad, {rows, rows, View(), ofExpert, ofExpert}));
  ASSERT_TRUE(status.ok()) << status.message;
  EXPECT_EQ(sum, std::vector<float>{258});
}

/// Sums are rounded once, ties to even: 256 + 1 is 256 and 256 + 3 is 260, also in the memory of an operand.
TEST(WideKernels, RoundedInPlace) {
  Bits a = toBits({256, 256, 1});
  const Bits b = toBits({1, 3, 0.5});
  ASSERT_TRUE(launchWide(makeCall(Kind::Add, {makeView(a, {3}), makeView(b, {3}), makeView(a, {3})})).ok());
  EXPECT_EQ(a, toBits({256, 260, 1.5}));
}

/// f32 beside bf16 is not rounded: 1 + 1/256 as a factor, and 256 + 1 as a sum, are no bf16.
TEST(WideKernels, Accumulators) {
  const Bits rows = toBits({3, 1}), ones = toBits({1, 1}), large = toBits({256, 1});
  float factor = 1 + 1.0f / 256, sum = 0;
  Bits out(2);
  View factors{&factor, MOERT_F32, 2, {1, 1}}, sums{&sum, MOERT_F32, 2, {1, 1}};
  Status scaled = launchWide(makeCall(Kind::RowScale, {makeView(rows, {1, 2}), factors, makeView(out, {1, 2})}));
  ASSERT_TRUE(scaled.ok()) << scaled.message;
  EXPECT_EQ(out, toBits({3 + 1.0f / 64, 1}));
  Status summed = launchWide(makeCall(Kind::RowDot, {makeView(large, {1, 2}), makeView(ones, {1, 2}), sums}));
  ASSERT_TRUE(summed.ok()) << summed.message;
  EXPECT_EQ(sum, 257);
}

/// f16 holds 2048 + 2 but not 2048 + 1, and 2^16 is infinite.
TEST(WideKernels, F16) {
  Bits a = toBits<Half>({2048, 2048, 65504, 1});
  const Bits b = toBits<Half>({1, 3, 65504, 0.5});
  Call call =
      makeCall(Kind::Add, {makeView(a, {4}, MOERT_F16), makeView(b, {4}, MOERT_F16), makeView(a, {4}, MOERT_F16)});
  ASSERT_TRUE(needsWideKernel(call));
  Status status = launchWide(call);
  ASSERT_TRUE(status.ok()) << status.message;
  EXPECT_EQ(a, toBits<Half>({2048, 2052, INFINITY, 1.5}));
}

/// Operands without elements have an address, but are not copied.
TEST(WideKernels, Empty) {
  const Bits a = toBits({1});
  Status status = launchWide(makeCall(Kind::Add, {makeView(a, {0, 3}), makeView(a, {0, 3}), makeView(a, {0, 3})}));
  EXPECT_TRUE(status.ok()) << status.message;
  EXPECT_EQ(a, toBits({1}));
}

/// Operands of other sizes, and casts, which handle them, are not converted. Errors are those of the kernel.
TEST(WideKernels, WhichCalls) {
  float value = 1;
  View f32{&value, MOERT_F32, 1, {1}};
  const Bits one = toBits({1}), two = toBits({1, 2});
  EXPECT_FALSE(needsWideKernel(makeCall(Kind::Add, {f32, f32, f32})));
  EXPECT_FALSE(needsWideKernel(makeCall(Kind::Cast, {makeView(one, {1}), f32})));
  Status status = launchWide(makeCall(Kind::Add, {makeView(one, {1}), makeView(two, {2}), makeView(one, {1})}));
  EXPECT_EQ(status.code, MOERT_ERROR_INVALID_ARGUMENT);
}

} // namespace
} // namespace moert::host
