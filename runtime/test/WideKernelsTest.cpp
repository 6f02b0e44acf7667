//===- WideKernelsTest.cpp - bf16 operands of host kernels -----------------===//

#include "host/HostBackend.h"

#include <gtest/gtest.h>

#include <bit>
#include <vector>

namespace moert::host {
namespace {

using Bits = std::vector<uint16_t>;

/// Of values that bf16 holds.
Bits toBits(const std::vector<float> &values) {
  Bits bits;
  for (float value : values)
    bits.push_back(static_cast<uint16_t>(std::bit_cast<uint32_t>(value) >> 16));
  return bits;
}

View makeView(const Bits &bits, std::initializer_list<int64_t> dims) {
  View view{const_cast<uint16_t *>(bits.data()), MOERT_BF16, static_cast<int64_t>(dims.size())};
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

/// [1, 2; 3, 4] times the identity's double. What is read stays where it was.
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

/// Sums are rounded once, ties to even: 256 + 1 is 256 and 256 + 3 is 260; in the memory of an operand, too.
TEST(WideKernels, RoundedInPlace) {
  Bits a = toBits({256, 256, 1});
  const Bits b = toBits({1, 3, 0.5});
  ASSERT_TRUE(launchWide(makeCall(Kind::Add, {makeView(a, {3}), makeView(b, {3}), makeView(a, {3})})).ok());
  EXPECT_EQ(a, toBits({256, 260, 1.5}));
}

/// Operands without elements, which have an address all the same, are none to copy.
TEST(WideKernels, Empty) {
  const Bits a = toBits({1});
  Status status = launchWide(makeCall(Kind::Add, {makeView(a, {0, 3}), makeView(a, {0, 3}), makeView(a, {0, 3})}));
  EXPECT_TRUE(status.ok()) << status.message;
  EXPECT_EQ(a, toBits({1}));
}

/// What is not bf16, and casts, which know it, stay as they are; an error is the kernel's.
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
