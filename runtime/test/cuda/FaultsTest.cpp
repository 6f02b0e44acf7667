//===- FaultsTest.cpp - errors that only the data show --------------------===//

#include "CudaKernelsTest.h"

#include "cuda/Cuda.h"

#ifdef MOERT_CUDA_EMULATION
#include "emulation/Emulation.h"
#endif

namespace moert::cuda {
namespace {

using Views = std::vector<View>;

Operand floats(std::vector<int64_t> dims) { return randomOperand(MOERT_F32, std::move(dims), 1); }

TEST(CudaFaultsTest, CountsOverCapacity) {
  for (const Operand &counts : {indices({1, 2}, {5, 6}), indices({2, 2}, {5, -1, 1, 1})}) {
    const std::string text = counts.dims[0] == 1 ? "of 10 rows in all at most but got 11" : "of 0 or more";
    const std::vector<Operand> operands{floats({10, 4}),   counts,
                                        floats({10, 4}),   floats({2, 4}),
                                        floats({2, 4, 4}), filledOperand(MOERT_I32, {1, 2}, 0)};
    expectSameError(
        Kind::Activation, operands,
        [](Kernels &k, const Views &v) { return k.activation(v[0], v[1], v[2], MOERT_SILU); }, text);
    expectSameError(
        Kind::BiasAdd, operands, [](Kernels &k, const Views &v) { return k.biasAdd(v[0], v[3], v[1], v[2], 1); }, text);
    expectSameError(
        Kind::BiasGrad, operands, [](Kernels &k, const Views &v) { return k.biasGrad(v[0], v[1], {}, v[3], 1); }, text);
    expectSameError(
        Kind::GroupedMatmul, operands,
        [](Kernels &k, const Views &v) { return k.groupedMatmul(v[0], v[4], v[1], v[2], false); }, text);
    expectSameError(
        Kind::GroupedMatmulWgrad, operands,
        [](Kernels &k, const Views &v) { return k.groupedMatmulWgrad(v[0], v[2], v[1], {}, v[4]); }, text);
    if (counts.dims[0] == 1)
      expectSameError(
          Kind::SliceCounts, operands, [](Kernels &k, const Views &v) { return k.sliceCounts(v[1], v[5], 10, 0, 2); },
          text);
  }
}

TEST(CudaFaultsTest, CountsOfABufferWithoutRows) {
  expectSameError(
      Kind::Activation, {floats({0, 4}), indices({1, 1}, {3}), floats({0, 4})},
      [](Kernels &k, const Views &v) { return k.activation(v[0], v[1], v[2], MOERT_RELU); }, "of 0 rows in all");
}

TEST(CudaFaultsTest, SlotsOutOfRange) {
  for (int slot : {-2, 6, 1 << 30}) {
    const std::vector<Operand> operands{floats({3, 4}), indices({3, 1}, {2, slot, -1}), floats({6, 4}), floats({3, 1})};
    const std::string text = "expected 'slots' from -1 to 5 but got " + std::to_string(slot);
    expectSameError(
        Kind::Dispatch, operands, [](Kernels &k, const Views &v) { return k.dispatch(v[0], v[1], {}, {}, v[2]); },
        text);
    expectSameError(
        Kind::Combine, operands, [](Kernels &k, const Views &v) { return k.combine(v[2], v[1], {}, {}, v[0]); }, text);
    expectSameError(
        Kind::SlotDot, operands, [](Kernels &k, const Views &v) { return k.slotDot(v[0], v[2], v[1], {}, v[3]); },
        text);
  }
}

TEST(CudaFaultsTest, TwoChoicesOfOneRow) {
  expectSameError(
      Kind::Dispatch, {floats({3, 4}), indices({3, 1}, {2, 1, 2}), floats({6, 4})},
      [](Kernels &k, const Views &v) { return k.dispatch(v[0], v[1], {}, {}, v[2]); }, "row 2 again");
}

TEST(CudaFaultsTest, NoRoomForAMember) {
  expectSameError(
      Kind::LocalSlots,
      {indices({4, 1}, {0, 1, 2, 3}), indices({1, 2}, {1, 3}), filledOperand(MOERT_I32, {4, 1}, 0),
       filledOperand(MOERT_I32, {1, 1}, 0)},
      [](Kernels &k, const Views &v) { return k.localSlots(v[0], v[1], v[2], v[3], {0, 2, 1, 1, 2}); },
      "3 rows are for the experts of member 1, whose buffer has room for 2");
}

TEST(CudaFaultsTest, IndicesBeyondTheirType) {
  for (int64_t factor : {int64_t(1) << 20, INT64_MAX, INT64_MIN})
    expectSameError(
        Kind::IndexAffine, {indices({3}, {0, 4000, 0}), filledOperand(MOERT_I32, {3}, 0)},
        [=](Kernels &k, const Views &v) { return k.indexAffine(v[0], v[1], factor, 3); },
        "the result of 4000 at 1 does not fit in i32");
}

TEST(CudaFaultsTest, StepsBeforeTheFirst) {
  expectSameError(
      Kind::Adam,
      {floats({3}), floats({3}), floats({3}), filledOperand(MOERT_F32, {3}, 1), floats({}), indices({}, {-1})},
      [](Kernels &k, const Views &v) { return k.adam(v[0], v[1], v[2], v[3], v[4], v[5], {}, v[0], v[2], v[3], {}); },
      "expected 'step' of 0 or more but got -1");
}

#ifdef MOERT_CUDA_EMULATION
TEST(CudaFaultsTest, ErrorsOfCudaSayWhatToDo) {
  DeviceMemory memory;
  emulation::failNext(cudaErrorInsufficientDriver);
  Status status = allocateArena(10, "a test", memory);
  EXPECT_EQ(status.code, MOERT_ERROR_UNSUPPORTED);
  EXPECT_EQ(status.message, "cannot allocate 10 bytes for a test: CUDA driver version is insufficient for CUDA runtime "
                            "version (cudaErrorInsufficientDriver); the driver is for CUDA 13.0, this program needs "
                            "one for 13.0");
  emulation::failNext(cudaErrorNoDevice);
  EXPECT_NE(allocateArena(10, "a test", memory).message.find("expected an NVIDIA GPU"), std::string::npos);
  EXPECT_EQ(allocateArena(int64_t(1) << 50, "a test", memory).code, MOERT_ERROR_OUT_OF_MEMORY);
  EXPECT_EQ(cudaGetLastError(), cudaSuccess);
}
#endif

} // namespace
} // namespace moert::cuda
