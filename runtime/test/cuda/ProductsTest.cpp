//===- ProductsTest.cpp - matrix products on CUDA -------------------------===//

#include "CudaKernelsTest.h"

#include "cuda/CudaKernels.h"
#include "cuda/RaggedProducts.h"

#ifdef MOERT_CUDA_EMULATION
#include "emulation/Emulation.h"
#endif

namespace moert::cuda {
namespace {

using Views = std::vector<View>;

/// Deviation that keeps sums in another order within the tolerance of elements.
constexpr double kDeviation = 0.2;

TEST(CudaProductsTest, Dense) {
  for (int32_t dtype : kFloatingTypes)
    for (int m : {0, 1, 13})
      for (int k : {0, 1, 40})
        for (bool transposeA : {false, true})
          for (bool transposeB : {false, true}) {
            const int n = 6;
            const std::vector<int64_t> a = transposeA ? std::vector<int64_t>{k, m} : std::vector<int64_t>{m, k};
            const std::vector<int64_t> b = transposeB ? std::vector<int64_t>{n, k} : std::vector<int64_t>{k, n};
            expectAlike(Kind::Matmul,
                        {randomOperand(dtype, a, 1, kDeviation), randomOperand(dtype, b, 2, kDeviation),
                         filledOperand(dtype, {m, n}, 9)},
                        [=](Kernels &kernels, const Views &v) {
                          return kernels.matmul(v[0], v[1], v[2], transposeA, transposeB);
                        });
          }
}

TEST(CudaProductsTest, GradientOfAMatrix) {
  for (int32_t dtype : kFloatingTypes)
    for (int32_t sum : typesBeside(dtype))
      for (int64_t rows : {0, 1, 40})
        for (auto [k, n] : {std::pair(16, 8), std::pair(5, 7)}) {
          const std::vector<Operand> operands{randomOperand(dtype, {rows, k}, 1, kDeviation),
                                              randomOperand(dtype, {rows, n}, 2, kDeviation),
                                              randomOperand(sum, {k, n}, 3), filledOperand(sum, {k, n}, 9)};
          for (auto [addend, out] : {std::pair(-1, 3), std::pair(2, 3), std::pair(2, 2)})
            expectAlike(Kind::MatmulWgrad, operands, [addend = addend, out = out](Kernels &kernels, const Views &v) {
              return kernels.matmulWgrad(v[0], v[1], addend < 0 ? View() : v[static_cast<size_t>(addend)],
                                         v[static_cast<size_t>(out)]);
            });
        }
}

/// Expects grouped products of rows with `k` and `n` columns. The number of experts is that of `counts`, or the first
/// of `shape`.
void expectGrouped(std::vector<int64_t> shape, int64_t experts, const Operand &counts) {
  for (int32_t dtype : kFloatingTypes)
    // cuBLAS multiplies only groups of aligned matrices.
    for (auto [k, n] : {std::pair(1, 7), std::pair(12, 7), std::pair(16, 8)})
      for (bool transpose : {false, true}) {
        std::vector<int64_t> in = shape, out = shape;
        in.push_back(k);
        out.push_back(n);
        const std::vector<int64_t> weights =
            transpose ? std::vector<int64_t>{experts, n, k} : std::vector<int64_t>{experts, k, n};
        const std::vector<Operand> operands{randomOperand(dtype, in, 1, kDeviation),
                                            randomOperand(dtype, weights, 2, kDeviation),
                                            counts,
                                            randomOperand(dtype, out, 3, kDeviation),
                                            randomOperand(dtype, {experts, k, n}, 4),
                                            filledOperand(dtype, {experts, k, n}, 9)};
        expectAlike(Kind::GroupedMatmul, operands, [transpose](Kernels &kernels, const Views &v) {
          return kernels.groupedMatmul(v[0], v[1], v[2], v[3], transpose);
        });
        expectAlike(Kind::GroupedMatmulWgrad, operands, [](Kernels &kernels, const Views &v) {
          return kernels.groupedMatmulWgrad(v[0], v[3], v[2], v[4], v[5]);
        });
        expectAlike(Kind::GroupedMatmulWgrad, operands, [](Kernels &kernels, const Views &v) {
          return kernels.groupedMatmulWgrad(v[0], v[3], v[2], v[4], v[4]);
        });
        expectAlike(Kind::GroupedMatmulWgrad, operands, [](Kernels &kernels, const Views &v) {
          return kernels.groupedMatmulWgrad(v[0], v[3], v[2], {}, v[5]);
        });
        if (typesBeside(dtype).size() == 1)
          continue;
        std::vector<Operand> wide = operands;
        wide[4] = randomOperand(MOERT_F32, {experts, k, n}, 4);
        expectAlike(Kind::GroupedMatmulWgrad, wide, [](Kernels &kernels, const Views &v) {
          return kernels.groupedMatmulWgrad(v[0], v[3], v[2], v[4], v[4]);
        });
      }
}

/// Sets the emulated device's compute capability during the life of this object.
class Capability {
public:
  Capability(DeviceContext &device, int capability) : device(device), before(device.capability) {
    device.capability = capability ? capability : before;
  }
  ~Capability() { device.capability = before; }

private:
  DeviceContext &device;
  const int before;
};

/// Multiplies by the method, or by the usual one if the method cannot, on a device of the compute capability, or the
/// default device with 0.
Status multiplyIfPossible(const Target &target, int capability, RaggedMethod method, const RaggedProduct &product,
                          View counts) {
  const Capability other(target.device, capability);
  return canCompute(method, target, product) ? multiplyRagged(target, method, product, counts)
                                             : multiplyRagged(target, product, counts);
}

/// Expects every possible method to compute the products of experts with these counts.
void expectByAllMethods(int64_t rows, int64_t experts, const Operand &counts,
                        const std::vector<std::pair<int64_t, int64_t>> &sizes, int capability = 0) {
  for (int32_t dtype : kFloatingTypes)
    for (auto [k, n] : sizes)
      for (RaggedMethod method : kRaggedMethods)
        for (bool transpose : {false, true}) {
          const std::vector<Operand> operands{
              randomOperand(dtype, {rows, k}, 1, kDeviation),
              randomOperand(dtype,
                            transpose ? std::vector<int64_t>{experts, n, k} : std::vector<int64_t>{experts, k, n}, 2,
                            kDeviation),
              counts, filledOperand(dtype, {rows, n}, 9)};
          expectAlike(Kind::GroupedMatmul, operands, [=](Kernels &kernels, const Views &v) {
            auto *device = dynamic_cast<CudaKernels *>(&kernels);
            if (!device)
              return kernels.groupedMatmul(v[0], v[1], v[2], v[3], transpose);
            RaggedProduct product{RaggedProduct::Pass::Forward, dtype, experts, rows, n, k, transpose};
            product.a = v[0].data;
            product.b = v[1].data;
            product.c = v[3].data;
            return multiplyIfPossible(device->where(), capability, method, product, v[2]);
          });
          for (int32_t sum : typesBeside(dtype)) {
            const std::vector<Operand> weights{randomOperand(dtype, {rows, k}, 1, kDeviation),
                                               randomOperand(dtype, {rows, n}, 2, kDeviation), counts,
                                               randomOperand(sum, {experts, k, n}, 3)};
            expectAlike(Kind::GroupedMatmulWgrad, weights, [=](Kernels &kernels, const Views &v) {
              auto *device = dynamic_cast<CudaKernels *>(&kernels);
              const View addend = transpose ? v[3] : View();
              if (!device)
                return kernels.groupedMatmulWgrad(v[0], v[1], v[2], addend, v[3]);
              RaggedProduct product{RaggedProduct::Pass::WeightGradient, dtype, experts, rows, n, k};
              product.accumulate = transpose;
              product.isWide = sum != dtype;
              product.a = v[0].data;
              product.b = v[1].data;
              product.c = v[3].data;
              return multiplyIfPossible(device->where(), capability, method, product, v[2]);
            });
          }
        }
}

TEST(CudaProductsTest, EveryMethod) {
  expectByAllMethods(30, 4, indices({2, 4}, {3, 0, 5, 1, 4, 0, 11, 0}), {{16, 8}, {40, 24}, {13, 7}});
  // There are several tiles in each direction.
  expectByAllMethods(140, 3, indices({1, 3}, {132, 0, 8}), {{136, 136}});
}

#ifdef MOERT_CUDA_EMULATION

// CUTLASS's kernels each run on one kind of device. Other devices use other methods.
TEST(CudaProductsTest, EveryMethodOnOtherDevices) {
  for (int capability : {80, 100, 103, 120})
    expectByAllMethods(30, 4, indices({2, 4}, {3, 0, 5, 1, 4, 0, 11, 0}), {{16, 8}, {13, 7}}, capability);
}

// CUTLASS has kernels for 9.0, and for the family of 10.0. Other devices, such as 12.0, use own tiles.
TEST(CudaProductsTest, CutlassIsOfTwoFamilies) {
  DeviceContext device;
  StreamContext stream;
  RaggedProduct product{RaggedProduct::Pass::Forward, MOERT_BF16, 4, 30, 8, 16};
  for (auto [capability, isOfCutlass] : {std::pair(80, false), {90, true}, {100, true}, {103, true}, {120, false}}) {
    device.capability = capability;
    for (Tile tile : kTiles)
      EXPECT_EQ(canCompute(methodOf(tile), {device, stream, Kind::GroupedMatmul, 0}, product), isOfCutlass)
          << capability;
  }
}

// A kernel that stays on all multiprocessors would keep a transfer from starting.
TEST(CudaProductsTest, GroupedKernelsLeaveRoomForTransfers) {
  for (bool isBeside : {false, true}) {
    const std::vector<Operand> operands{randomOperand(MOERT_BF16, {30, 16}, 1, kDeviation),
                                        randomOperand(MOERT_BF16, {2, 16, 8}, 2, kDeviation), indices({1, 2}, {13, 17}),
                                        filledOperand(MOERT_BF16, {30, 8}, 9)};
    expectAlike(Kind::GroupedMatmul, operands, [=](Kernels &kernels, const Views &v) {
      if (auto *device = dynamic_cast<CudaKernels *>(&kernels))
        device->where().stream.leftProcessors = isBeside;
      return kernels.groupedMatmul(v[0], v[1], v[2], v[3], false);
    });
    // The emulated device has two multiprocessors.
    EXPECT_EQ(emulation::lastGroupedProcessors(), isBeside ? 1 : 2);
  }
}

TEST(CudaProductsTest, DenseProductsLeaveRoomForTransfers) {
  for (bool isBeside : {false, true}) {
    const std::vector<Operand> operands{randomOperand(MOERT_BF16, {32, 16}, 1, kDeviation),
                                        randomOperand(MOERT_BF16, {16, 8}, 2, kDeviation),
                                        filledOperand(MOERT_BF16, {32, 8}, 9)};
    expectAlike(Kind::Matmul, operands, [=](Kernels &kernels, const Views &v) {
      if (auto *device = dynamic_cast<CudaKernels *>(&kernels))
        device->where().stream.leftProcessors = isBeside;
      return kernels.matmul(v[0], v[1], v[2], false, false);
    });
    EXPECT_EQ(emulation::lastLtProcessors(), isBeside ? 1 : 0);
  }
}

TEST(CudaProductsTest, MultiprocessorsForTransfers) {
  DeviceOptions options = testOptions();
  DeviceContext device;
  for (auto [text, count] : {std::pair("", 1), {"0", 0}}) {
    options.transferProcessors = text;
    ASSERT_TRUE(DeviceContext::create(options, device).ok());
    EXPECT_EQ(device.transferProcessors, count) << text;
  }
  for (const char *text : {"7", "-2", "24", "many", "4 "}) {
    options.transferProcessors = text;
    EXPECT_EQ(DeviceContext::create(options, device).message,
              std::string("MOERT_TRANSFER_SMS: expected an even number of multiprocessors from 0 to 1, half of the "
                          "device's, but got '") +
                  text + "'");
  }
}

TEST(CudaProductsTest, OwnKernelsSayWhy) {
  DeviceContext device;
  for (int capability : {90, 100, 103}) {
    device.capability = capability;
    EXPECT_EQ(describeOwnKernels(device), "");
  }
  device.capability = 120;
  EXPECT_EQ(describeOwnKernels(device),
            "MoePlan's own kernels compute the experts' products and attention, because this build has no CUTLASS and "
            "no cuDNN for compute capability 12.0");
}

#endif

TEST(CudaProductsTest, MethodsHaveNames) {
  for (RaggedMethod method : kRaggedMethods)
    EXPECT_EQ(findMethod(methodName(method)), method);
  EXPECT_FALSE(findMethod("none"));
}

/// Values are numbers that the shorter type holds.
TEST(CudaProductsTest, TensorCoresForF32AreAnOption) {
  DeviceOptions options = testOptions();
  options.tf32 = true;
  DeviceContext device;
  ASSERT_TRUE(DeviceContext::create(options, device).ok());
  StreamContext context;
  PinnedMemory memory;
  ASSERT_TRUE(allocatePinned(3 * 256, "a test", memory).ok());
  auto *values = static_cast<float *>(memory.get());
  values[0] = 2;
  values[64] = 3;
  const ProductShape shape{MOERT_F32, 1, 1, 1};
  EXPECT_TRUE(device.products.multiply(context, shape, values, values + 64, values + 128).ok());
  ASSERT_EQ(cudaDeviceSynchronize(), cudaSuccess);
  EXPECT_EQ(values[128], 6);
}

TEST(CudaProductsTest, OfExperts) {
  for (int capacity : {0, 1, 9})
    expectGrouped({3, capacity}, 3, absent());
}

TEST(CudaProductsTest, OfRaggedExperts) {
  expectGrouped({30}, 4, indices({2, 4}, {3, 0, 5, 1, 4, 0, 11, 0}));
  expectGrouped({8}, 3, indices({1, 3}, {0, 8, 0}));
  expectGrouped({8}, 2, indices({1, 2}, {0, 0}));
  expectGrouped({0}, 2, indices({1, 2}, {0, 0}));
}

} // namespace
} // namespace moert::cuda
