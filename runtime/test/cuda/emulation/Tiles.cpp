//===- Tiles.cpp - tensor cores and asynchronous copies -------------------===//

#include "include/cuda_pipeline.h"
#include "include/cuda_runtime.h"

#include <array>
#include <cstdio>
#include <cstdlib>
#include <deque>
#include <vector>

namespace moert::emulation {
namespace {

constexpr unsigned kMostThreads = 1024;

unsigned threadNumber() { return (threadIdx.z * blockDim.y + threadIdx.y) * blockDim.x + threadIdx.x; }

// --- Asynchronous copies -----------------------------------------------------

struct Copy {
  void *to;
  const void *from;
  size_t bytes, zeros;

  void make() const {
    std::memcpy(to, from, bytes - zeros);
    std::memset(static_cast<char *>(to) + bytes - zeros, 0, zeros);
  }
};

/// Copies of each thread of the running block: the uncommitted ones, and the committed ones.
struct Copies {
  std::vector<Copy> open;
  std::deque<std::vector<Copy>> committed;
};
std::array<Copies, kMostThreads> copies;

// --- Tensor cores ------------------------------------------------------------

/// Values that a lane gives. They are kept until the lane gives values for the next time but one. All others have read
/// them by then.
struct Given {
  float left[4][2], right[4][2];
};
struct Turns {
  std::array<Given, 2> given;
  unsigned next = 0;
};
std::array<Turns, kMostThreads> turns;

void widenPairs(float (&to)[4][2], const uint32_t (&from)[4], float (*widen)(uint16_t)) {
  for (int i = 0; i < 4; ++i) {
    to[i][0] = widen(static_cast<uint16_t>(from[i]));
    to[i][1] = widen(static_cast<uint16_t>(from[i] >> 16));
  }
}

/// Adds a lane's part of the products of the 16 x 16 left and the two 16 x 8 right operands that the lanes give: two
/// columns of two rows. These are copies, so sanitizers would find no error of a kernel.
[[gnu::no_sanitize("address", "thread", "undefined")]] void addProducts(float (&first)[4], float (&second)[4],
                                                                        const uint64_t *given, unsigned lane) {
  // Elements of the lane's two rows, and of its two columns of both right operands.
  float rows[2][16], columns[2][2][16];
  const unsigned g = lane / 4, t = lane % 4;
  for (unsigned k = 0; k < 16; ++k) {
    const unsigned pair = k % 8 / 2, high = k / 8;
    const auto *left = reinterpret_cast<const Given *>(given[g * 4 + pair]);
    for (unsigned i = 0; i < 2; ++i) {
      const auto *right = reinterpret_cast<const Given *>(given[(2 * t + i) * 4 + pair]);
      rows[i][k] = left->left[i + 2 * high][k % 2];
      columns[0][i][k] = right->right[high][k % 2];
      columns[1][i][k] = right->right[2 + high][k % 2];
    }
  }
  for (unsigned e = 0; e < 4; ++e) {
    float sums[2] = {0, 0};
    for (unsigned k = 0; k < 16; ++k) {
      sums[0] += rows[e / 2][k] * columns[0][e % 2][k];
      sums[1] += rows[e / 2][k] * columns[1][e % 2][k];
    }
    first[e] += sums[0];
    second[e] += sums[1];
  }
}

} // namespace

void loadMatrices(uint32_t (&to)[4], const void *row, bool isTransposed, Where where) {
  if (reinterpret_cast<uintptr_t>(row) % 16 != 0) {
    std::fprintf(stderr, "CUDA emulation: ldmatrix of a row that is not aligned to 16 bytes\n");
    std::abort();
  }
  const uint64_t *rows = exchangeInWarp({"ldmatrix", where}, 0xffffffff, reinterpret_cast<uintptr_t>(row));
  const unsigned g = laneIndex() / 4, t = laneIndex() % 4;
  auto element = [&](unsigned matrix, unsigned r, unsigned c) {
    return uint32_t(reinterpret_cast<const uint16_t *>(rows[8 * matrix + r])[c]);
  };
  for (unsigned i = 0; i < 4; ++i)
    to[i] = isTransposed ? element(i, 2 * t, g) | element(i, 2 * t + 1, g) << 16
                         : element(i, g, 2 * t) | element(i, g, 2 * t + 1) << 16;
}

void multiplyTiles(float (&first)[4], float (&second)[4], const uint32_t (&left)[4], const uint32_t (&right)[4],
                   float (*widen)(uint16_t), Where where) {
  Turns &own = turns[threadNumber()];
  Given &mine = own.given[own.next++ % 2];
  widenPairs(mine.left, left, widen);
  widenPairs(mine.right, right, widen);
  const uint64_t *given = exchangeInWarp({"mma", where}, 0xffffffff, reinterpret_cast<uintptr_t>(&mine));
  addProducts(first, second, given, laneIndex());
}

} // namespace moert::emulation

using moert::emulation::copies;
using moert::emulation::threadNumber;

void __pipeline_memcpy_async(void *to, const void *from, size_t bytes, size_t zeros) {
  if ((reinterpret_cast<uintptr_t>(to) | reinterpret_cast<uintptr_t>(from)) % bytes != 0) {
    std::fprintf(stderr, "CUDA emulation: an asynchronous copy that is not aligned\n");
    std::abort();
  }
  copies[threadNumber()].open.push_back({to, from, bytes, zeros});
}

void __pipeline_commit() {
  auto &own = copies[threadNumber()];
  own.committed.push_back(std::move(own.open));
  own.open.clear();
}

void __pipeline_wait_prior(size_t prior) {
  auto &committed = copies[threadNumber()].committed;
  for (; committed.size() > prior; committed.pop_front())
    for (const auto &copy : committed.front())
      copy.make();
}
