//===- Philox.h - random bits that depend on a place alone -----------------===//
//
// Philox4x32-10 (Salmon, Moraes, Dror and Shaw, "Parallel random numbers: as easy as 1, 2, 3", SC 2011), and the mask
// of dropout made of it. Element (row, column) of a value takes word column mod 4 of the block whose key is the seed
// and whose counter is (column / 4, row's low and high half, step): how a value is cut into parts says nothing.
//
//===----------------------------------------------------------------------===//
#ifndef MOERT_HOST_PHILOX_H
#define MOERT_HOST_PHILOX_H

#include "host/KernelSupport.h"

#include <algorithm>

namespace moert::host {

/// The key of a round; the Weyl constants are added from one to the next.
struct PhiloxKey {
  uint32_t low, high;
  MOERT_INLINE PhiloxKey ofRound(uint32_t round) const {
    return {low + round * 0x9E3779B9u, high + round * 0xBB67AE85u};
  }
};
inline constexpr uint32_t kPhiloxRounds = 10;

MOERT_INLINE void philoxRound(PhiloxKey key, uint32_t &c0, uint32_t &c1, uint32_t &c2, uint32_t &c3) {
  const uint64_t first = uint64_t(0xD2511F53) * c0, second = uint64_t(0xCD9E8D57) * c2;
  c0 = static_cast<uint32_t>(second >> 32) ^ c1 ^ key.low;
  c1 = static_cast<uint32_t>(second);
  c2 = static_cast<uint32_t>(first >> 32) ^ c3 ^ key.high;
  c3 = static_cast<uint32_t>(first);
}

/// Some counters, word by word. Round by round, so that a round's loop over them can be vectorised.
struct PhiloxBlocks {
  static constexpr int64_t kMost = 64;
  uint32_t c0[kMost], c1[kMost], c2[kMost], c3[kMost];

  MOERT_INLINE void encrypt(PhiloxKey key, int64_t count) {
    for (uint32_t round = 0; round < kPhiloxRounds; ++round) {
      const PhiloxKey of = key.ofRound(round);
      MOERT_SIMD
      for (int64_t i = 0; i < count; ++i)
        philoxRound(of, c0[i], c1[i], c2[i], c3[i]);
    }
  }
};

/// Which elements dropout keeps, and what it multiplies them by.
struct DropoutMask {
  PhiloxKey key;
  uint32_t step;
  uint32_t threshold; ///< words below it drop
  double kept;        ///< 1 / (1 - p)

  /// 0 <= p < 1.
  DropoutMask(int64_t seed, int32_t step, double p)
      : key{static_cast<uint32_t>(seed), static_cast<uint32_t>(static_cast<uint64_t>(seed) >> 32)},
        step(static_cast<uint32_t>(step)), threshold(static_cast<uint32_t>(p * 4294967296.0)), kept(1 / (1 - p)) {}
};

/// factors[i] = 0 or mask.kept for columns [begin, begin + count) of `row`.
template <class T> struct DropoutFactors {
  static MOERT_INLINE void run(DropoutMask mask, int64_t row, int64_t begin, int64_t count, T *factors) {
    constexpr int64_t most = PhiloxBlocks::kMost;
    uint32_t words[4 * most];
    const int64_t end = begin + count;
    for (int64_t block = begin / 4; 4 * block < end; block += most) {
      const int64_t blocks = std::min(most, (end + 3) / 4 - block);
      fillWords(mask, row, block, blocks, words);
      const int64_t from = std::max(begin, 4 * block), to = std::min(end, 4 * (block + blocks));
      const uint32_t *word = words + (from - 4 * block);
      T *out = factors + (from - begin);
      const T kept = static_cast<T>(mask.kept);
      MOERT_SIMD
      for (int64_t i = 0; i < to - from; ++i)
        out[i] = word[i] < mask.threshold ? T(0) : kept;
    }
  }

private:
  static MOERT_INLINE void fillWords(DropoutMask mask, int64_t row, int64_t block, int64_t blocks, uint32_t *words) {
    const uint32_t low = static_cast<uint32_t>(row), high = static_cast<uint32_t>(static_cast<uint64_t>(row) >> 32);
    PhiloxBlocks made;
    for (int64_t i = 0; i < blocks; ++i) {
      made.c0[i] = static_cast<uint32_t>(block + i);
      made.c1[i] = low;
      made.c2[i] = high;
      made.c3[i] = mask.step;
    }
    made.encrypt(mask.key, blocks);
    MOERT_SIMD
    for (int64_t i = 0; i < blocks; ++i) {
      words[4 * i] = made.c0[i];
      words[4 * i + 1] = made.c1[i];
      words[4 * i + 2] = made.c2[i];
      words[4 * i + 3] = made.c3[i];
    }
  }
};

} // namespace moert::host

#endif // MOERT_HOST_PHILOX_H
