//===- HostCountsTest.cpp - counts that the host has read -----------------===//

#include "cuda/HostCounts.h"

#include "CudaKernelsTest.h"

namespace moert::cuda {
namespace {

class CudaHostCountsTest : public testing::Test {
protected:
  CudaHostCountsTest() {
    EXPECT_TRUE(createStream(stream).ok());
    EXPECT_TRUE(allocateDevice(64 * 4, "a test", memory).ok());
    EXPECT_EQ(cudaMemset(memory.get(), 0, 64 * 4), cudaSuccess);
  }

  /// View of `count` values from number `first` on.
  View at(int64_t first, int64_t count) {
    View view;
    view.data = static_cast<int32_t *>(memory.get()) + first;
    view.dtype = MOERT_I32;
    view.rank = 1;
    view.dims[0] = count;
    return view;
  }
  std::vector<int32_t> read(const View &view) {
    HostCounts::Values values;
    EXPECT_TRUE(known.read(stream.get(), view, values).ok());
    return *values;
  }
  void write(int64_t index, int32_t value) {
    EXPECT_EQ(cudaMemcpy(at(index, 1).data, &value, sizeof value, cudaMemcpyDefault), cudaSuccess);
  }

  Stream stream;
  DeviceMemory memory;
  HostCounts known;
};

TEST_F(CudaHostCountsTest, WaitsOnce) {
  write(1, 7);
  EXPECT_EQ(read(at(0, 4)), (std::vector<int32_t>{0, 7, 0, 0}));
  EXPECT_EQ(read(at(0, 4)), (std::vector<int32_t>{0, 7, 0, 0}));
  EXPECT_EQ(known.waits(), 1);
  EXPECT_EQ(read(at(0, 2)), (std::vector<int32_t>{0, 7}));
  EXPECT_EQ(known.waits(), 2);
  EXPECT_TRUE(known.beginStep().ok());
  read(at(0, 4));
  EXPECT_EQ(known.waits(), 1);
}

// A call may write memory unless it is the call's counts.
TEST_F(CudaHostCountsTest, ForgetsWhatMayChange) {
  Call product;
  product.kind = Kind::GroupedMatmul;
  product.viewCount = 4;
  product.views = {at(32, 8), at(40, 8), at(0, 4), at(48, 8)};
  product.countsView = 2;
  read(at(0, 4));
  read(at(16, 4));
  EXPECT_TRUE(known.note(product, stream.get()).ok());
  write(2, 9);
  EXPECT_EQ(read(at(0, 4))[2], 0);
  Call writer = product;
  writer.countsView = -1;
  writer.views = {at(32, 8), at(40, 8), at(48, 8), at(3, 2)};
  EXPECT_TRUE(known.note(writer, stream.get()).ok());
  EXPECT_EQ(read(at(0, 4))[2], 9);
  EXPECT_EQ(known.waits(), 3);
  read(at(16, 4));
  EXPECT_EQ(known.waits(), 3);
}

// Values that one step has read are copied early in the next step. Later overwrites do not change the copies.
TEST_F(CudaHostCountsTest, CopiesEarlyWhatWasRead) {
  Call writer;
  writer.kind = Kind::Copy;
  writer.viewCount = 2;
  writer.views = {at(32, 4), at(0, 4)};
  read(at(0, 4));
  EXPECT_TRUE(known.beginStep().ok());
  auto run = [&](int32_t value) {
    EXPECT_TRUE(known.note(writer, stream.get()).ok());
    EXPECT_EQ(cudaMemsetAsync(writer.views[1].data, value, 16, stream.get()), cudaSuccess);
    EXPECT_TRUE(known.noteEnqueued(writer, stream.get()).ok());
  };
  run(0);
  EXPECT_EQ(read(at(0, 4)), std::vector<int32_t>(4, 0));
  EXPECT_EQ(known.waits(), 1);
  run(-1);
  run(0);
  EXPECT_EQ(read(at(0, 4)), std::vector<int32_t>(4, 0));
  EXPECT_EQ(known.waits(), 2);
}

// A step may copy more than there is memory for. Allocating more would wait for all streams, so the readers wait for
// theirs, and the next step has the memory.
TEST_F(CudaHostCountsTest, AllocatesBetweenSteps) {
  constexpr int64_t kCopies = 3, kCount = 8192; // 32 KiB each
  DeviceMemory large;
  ASSERT_TRUE(allocateDevice(kCopies * kCount * 4, "a test", large).ok());
  ASSERT_EQ(cudaMemsetAsync(large.get(), 0, kCopies * kCount * 4, stream.get()), cudaSuccess);
  auto viewAt = [&](int64_t i) {
    View view = at(0, kCount);
    view.data = static_cast<int32_t *>(large.get()) + i * kCount;
    return view;
  };
  for (int step = 0; step < 3; ++step) {
    EXPECT_TRUE(known.beginStep().ok());
    for (int64_t i = 0; i < kCopies; ++i) {
      Call writer;
      writer.kind = Kind::Copy;
      writer.viewCount = 2;
      writer.views = {at(32, 4), viewAt(i)};
      EXPECT_TRUE(known.note(writer, stream.get()).ok());
      EXPECT_EQ(cudaMemsetAsync(writer.views[1].data, step, kCount * 4, stream.get()), cudaSuccess);
      EXPECT_TRUE(known.noteEnqueued(writer, stream.get()).ok());
    }
    for (int64_t i = 0; i < kCopies; ++i)
      EXPECT_EQ(read(viewAt(i)), std::vector<int32_t>(kCount, step * 0x01010101)) << step;
    EXPECT_EQ(known.waits(), kCopies);
  }
}

// Calls that follow a step may overwrite its memory.
TEST_F(CudaHostCountsTest, OthersWaitForCopies) {
  Call writer;
  writer.kind = Kind::Copy;
  writer.viewCount = 2;
  writer.views = {at(32, 4), at(0, 4)};
  read(at(0, 4));
  Stream later;
  ASSERT_TRUE(createStream(later).ok());
  for (int i = 0; i < 8; ++i) {
    EXPECT_TRUE(known.beginStep().ok());
    EXPECT_EQ(cudaMemsetAsync(writer.views[1].data, 0, 16, stream.get()), cudaSuccess);
    EXPECT_TRUE(known.noteEnqueued(writer, stream.get()).ok());
    EXPECT_TRUE(known.joinTo(later.get()).ok());
    EXPECT_EQ(cudaMemsetAsync(writer.views[1].data, -1, 16, later.get()), cudaSuccess);
    EXPECT_EQ(cudaStreamSynchronize(later.get()), cudaSuccess);
    EXPECT_EQ(read(at(0, 4)), std::vector<int32_t>(4, 0));
  }
}

} // namespace
} // namespace moert::cuda
