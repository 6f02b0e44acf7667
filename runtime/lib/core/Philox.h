//===- Philox.h - random bits that depend on a place alone -----------------===//
//
// Philox4x32-10 (Salmon, Moraes, Dror and Shaw, "Parallel random numbers: as easy as 1, 2, 3", SC 2011), and the mask
// of dropout made from it. Element (row, column) of a value takes word column mod 4 of a block. The block's key is the
// seed, and its counter is (column / 4, row's low and high half, step). So the mask does not depend on how a value is
// cut into parts.
//
//===----------------------------------------------------------------------===//
#ifndef MOERT_CORE_PHILOX_H
#define MOERT_CORE_PHILOX_H

#include "core/Inline.h"

#include <cstdint>

namespace moert {

/// Key of a round. The Weyl constants are added from one round to the next.
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

/// The elements that dropout keeps, and their factor.
struct DropoutMask {
  PhiloxKey key;
  uint32_t step;
  uint32_t threshold; ///< words below it drop the element
  double kept;        ///< 1 / (1 - p)

  /// Requires 0 <= p < 1.
  MOERT_INLINE DropoutMask(int64_t seed, int32_t step, double p)
      : key{static_cast<uint32_t>(seed), static_cast<uint32_t>(static_cast<uint64_t>(seed) >> 32)},
        step(static_cast<uint32_t>(step)), threshold(static_cast<uint32_t>(p * 4294967296.0)), kept(1 / (1 - p)) {}

  /// Counter of columns [4 block, 4 block + 4) of `row`, before the first round.
  MOERT_INLINE void counter(int64_t row, int64_t block, uint32_t &c0, uint32_t &c1, uint32_t &c2, uint32_t &c3) const {
    c0 = static_cast<uint32_t>(block);
    c1 = static_cast<uint32_t>(row);
    c2 = static_cast<uint32_t>(static_cast<uint64_t>(row) >> 32);
    c3 = step;
  }
  /// Factor of the element of `word`.
  template <class T> MOERT_INLINE T factor(uint32_t word) const {
    return word < threshold ? T(0) : static_cast<T>(kept);
  }
};

/// Uniform factors from 1 - p to 1 + p from the same words.
struct JitterMask : DropoutMask {
  double lowest, width;

  MOERT_INLINE JitterMask(int64_t seed, int32_t step, double p)
      : DropoutMask(seed, step, 0), lowest(1 - p), width(2 * p) {}

  template <class T> MOERT_INLINE T factor(uint32_t word) const {
    return static_cast<T>(lowest + width * ((static_cast<double>(word) + 0.5) * 0x1p-32));
  }
};

} // namespace moert

#endif // MOERT_CORE_PHILOX_H
