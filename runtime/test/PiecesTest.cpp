//===- PiecesTest.cpp - MPI messages of more than an int can count ---------===//

#include "mpi/Transfer.h"

#include <gtest/gtest.h>

#include <sys/mman.h>

namespace moert::mpi {
namespace {

constexpr int64_t kGiB = int64_t(1) << 30;

/// MPI of this process alone.
class MpiAlone : public testing::Test {
protected:
  static void SetUpTestSuite() { MPI_Init(nullptr, nullptr); }
  static void TearDownTestSuite() { MPI_Finalize(); }
};

} // namespace

TEST_F(MpiAlone, CountsManyGiB) {
  PiecesType type({{0, 5 * kGiB}, {7 * kGiB, 3 * kGiB + 1}, {20 * kGiB, 4}});
  EXPECT_EQ(type.bytes(), 8 * kGiB + 5);
  MPI_Count size = 0, bound = 0, extent = 0;
  MPI_Type_size_x(type.get(), &size);
  MPI_Type_get_extent_x(type.get(), &bound, &extent);
  EXPECT_EQ(size, 8 * kGiB + 5);
  EXPECT_EQ(extent, 20 * kGiB + 4);
}

// Untouched memory takes no pages.
TEST_F(MpiAlone, MovesWhatLiesFarApart) {
  constexpr int64_t room = 6 * kGiB;
  auto map = [] {
    return static_cast<char *>(
        mmap(nullptr, room, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0));
  };
  char *from = map(), *to = map();
  ASSERT_NE(from, MAP_FAILED);
  ASSERT_NE(to, MAP_FAILED);
  from[3 * kGiB] = 1;
  from[room - 1] = 2;
  PiecesType leaving({{3 * kGiB, 2}, {room - 2, 2}}), arriving({{0, 2}, {room - 4, 2}});
  MPI_Sendrecv(from, 1, leaving.get(), 0, 0, to, 1, arriving.get(), 0, 0, MPI_COMM_SELF, MPI_STATUS_IGNORE);
  EXPECT_EQ(to[0], 1);
  EXPECT_EQ(to[room - 3], 2);
  munmap(from, room);
  munmap(to, room);
}

TEST(Parts, OfManyThings) {
  int64_t next = 0;
  Status status = forParts(5 * kGiB + 3, [&](int64_t first, int count) -> Status {
    EXPECT_EQ(first, next);
    EXPECT_GT(count, 0);
    next += count;
    return {};
  });
  EXPECT_TRUE(status.ok());
  EXPECT_EQ(next, 5 * kGiB + 3);
}

} // namespace moert::mpi
