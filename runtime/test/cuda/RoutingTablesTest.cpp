//===- RoutingTablesTest.cpp - tables that kernels make of a routing ------===//

#include "CudaKernelsTest.h"

#include "cuda/Context.h"
#include "cuda/Ragged.cuh"
#include "cuda/RaggedGroups.h"

namespace moert::cuda {
namespace {

class CudaRoutingTablesTest : public testing::Test {
protected:
  CudaRoutingTablesTest() {
    EXPECT_TRUE(DeviceContext::create({}, device).ok());
    EXPECT_TRUE(createStream(stream).ok());
    EXPECT_TRUE(createStream(other).ok());
    EXPECT_TRUE(allocateDevice(4096, "a test", memory).ok());
    EXPECT_EQ(cudaMemset(memory.get(), 0, 4096), cudaSuccess);
    for (StreamContext *context : {&first, &second}) {
      context->tables = &tables;
      context->groups = &groups;
    }
    first.stream = stream.get();
    second.stream = other.get();
  }

  /// View [1, count] of integers from number `from` on.
  View at(int64_t from, int64_t count) {
    View view;
    view.data = static_cast<int32_t *>(memory.get()) + from;
    view.dtype = MOERT_I32;
    view.rank = 2;
    view.dims = {1, count};
    return view;
  }
  void write(View view, std::vector<int32_t> values) {
    EXPECT_EQ(cudaMemcpy(view.data, values.data(), values.size() * 4, cudaMemcpyDefault), cudaSuccess);
  }
  /// Notes that a call writes `view` on a stream.
  void note(View view, const StreamContext &context) {
    Call writer;
    writer.kind = Kind::Copy;
    writer.viewCount = 2;
    writer.views = {at(512, 4), view};
    EXPECT_TRUE(tables.note(writer, context.stream).ok());
  }
  const int64_t *offsetsOf(StreamContext &context, View counts, int64_t capacity = 100) {
    const int64_t *offsets = nullptr;
    EXPECT_TRUE(expertOffsets({device, context, Kind::GroupedMatmul, 0}, counts, capacity, offsets).ok());
    return offsets;
  }
  std::vector<int64_t> read(const StreamContext &context, const int64_t *data, size_t count) {
    std::vector<int64_t> values(count);
    EXPECT_EQ(cudaMemcpyAsync(values.data(), data, count * 8, cudaMemcpyDefault, context.stream), cudaSuccess);
    EXPECT_EQ(cudaStreamSynchronize(context.stream), cudaSuccess);
    return values;
  }

  DeviceContext device;
  Stream stream, other;
  DeviceMemory memory;
  RoutingTables tables;
  RaggedGroups groups;
  StreamContext first, second;
};

TEST_F(CudaRoutingTablesTest, AreMadeOnceForAllStreams) {
  const View counts = at(0, 3);
  write(counts, {2, 0, 5});
  const int64_t *offsets = offsetsOf(first, counts);
  EXPECT_EQ(offsetsOf(second, counts), offsets);
  EXPECT_EQ(read(second, offsets, 4), (std::vector<int64_t>{0, 2, 2, 7}));
  EXPECT_NE(offsetsOf(first, counts, 50), offsets);
}

TEST_F(CudaRoutingTablesTest, AreForgottenWhenTheirValueIsWritten) {
  const View counts = at(0, 3);
  write(counts, {2, 0, 5});
  const int64_t *old = offsetsOf(first, counts);
  EXPECT_EQ(read(first, old, 4).back(), 7);
  note(at(3, 2), first);
  EXPECT_EQ(offsetsOf(first, counts), old);
  note(at(2, 1), first);
  write(counts, {1, 1, 1});
  // The memory is used again, also by another stream.
  EXPECT_EQ(offsetsOf(second, counts), old);
  EXPECT_EQ(read(second, old, 4), (std::vector<int64_t>{0, 1, 2, 3}));
}

TEST_F(CudaRoutingTablesTest, ProductsOfALayerAreFilledTogether) {
  const View counts = at(0, 2);
  write(counts, {3, 0});
  const Target target{device, first, Kind::GroupedMatmul, 0};
  std::vector<RaggedProduct> products;
  auto *matrices = static_cast<char *>(memory.get());
  for (int64_t i = 0; i < 3; ++i) {
    RaggedProduct product{i == 2 ? RaggedProduct::Pass::WeightGradient : RaggedProduct::Pass::Forward,
                          MOERT_BF16,
                          2,
                          16,
                          8,
                          16 * (i + 1)};
    product.a = matrices + 256 * i;
    product.b = matrices + 1024 + 256 * i;
    product.c = matrices + 2048 + 256 * i;
    products.push_back(product);
  }
  auto arraysOf = [&](size_t i) {
    GroupArrays arrays;
    EXPECT_TRUE(groups.arraysOf(target, products[i], counts, arrays).ok());
    return arrays;
  };
  // All arrays are new in the first step.
  for (size_t i = 0; i < products.size(); ++i)
    arraysOf(i);
  EXPECT_EQ(cudaStreamSynchronize(first.stream), cudaSuccess);
  tables.clear();
  // They lie beside each other in the next step.
  std::vector<GroupArrays> arrays;
  for (size_t i = 0; i < products.size(); ++i)
    arrays.push_back(arraysOf(i));
  const auto distance =
      reinterpret_cast<const char *>(arrays[1].shapes) - reinterpret_cast<const char *>(arrays[0].shapes);
  EXPECT_EQ(reinterpret_cast<const char *>(arrays[2].shapes) - reinterpret_cast<const char *>(arrays[1].shapes),
            distance);
  EXPECT_EQ(cudaStreamSynchronize(first.stream), cudaSuccess);
  std::vector<int32_t> shapes(6);
  EXPECT_EQ(cudaMemcpy(shapes.data(), arrays[1].shapes, 24, cudaMemcpyDefault), cudaSuccess);
  EXPECT_EQ(shapes, (std::vector<int32_t>{3, 8, 32, 0, 8, 32}));
  // Without rows, the gradient of weights is a product of zeros.
  EXPECT_EQ(cudaMemcpy(shapes.data(), arrays[2].shapes, 24, cudaMemcpyDefault), cudaSuccess);
  EXPECT_EQ(shapes, (std::vector<int32_t>{48, 8, 3, 48, 8, static_cast<int32_t>(kZeroRows)}));
  const void *a[2];
  EXPECT_EQ(cudaMemcpy(a, arrays[2].a, sizeof(a), cudaMemcpyDefault), cudaSuccess);
  EXPECT_EQ(a[0], products[2].a);
  EXPECT_NE(a[1], products[2].a);
}

// With more products than are remembered, each call still reads the arrays of its own product.
TEST_F(CudaRoutingTablesTest, EveryOneOfManyProductsHasItsArrays) {
  const View counts = at(0, 2);
  write(counts, {3, 0});
  const Target target{device, first, Kind::GroupedMatmul, 0};
  for (int step = 0; step < 2; ++step) {
    for (int64_t i = 0; i < 40; ++i) {
      RaggedProduct product{RaggedProduct::Pass::Forward, MOERT_BF16, 2, 16, 8, 16 * (i + 1)};
      product.a = static_cast<char *>(memory.get()) + 64 * i;
      GroupArrays arrays;
      ASSERT_TRUE(groups.arraysOf(target, product, counts, arrays).ok());
      EXPECT_EQ(cudaStreamSynchronize(first.stream), cudaSuccess);
      const void *a = nullptr;
      EXPECT_EQ(cudaMemcpy(&a, arrays.a, sizeof(a), cudaMemcpyDefault), cudaSuccess);
      EXPECT_EQ(a, product.a) << "product " << i << " of step " << step;
      int64_t leading = 0;
      EXPECT_EQ(cudaMemcpy(&leading, arrays.leadingA, sizeof(leading), cudaMemcpyDefault), cudaSuccess);
      EXPECT_EQ(leading, product.k);
    }
    tables.clear();
  }
}

} // namespace
} // namespace moert::cuda
