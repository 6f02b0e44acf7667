//===- DropoutFactors.h - the factors of dropout for a row -----------------===//
#ifndef MOERT_HOST_DROPOUTFACTORS_H
#define MOERT_HOST_DROPOUTFACTORS_H

#include "core/Philox.h"
#include "host/KernelSupport.h"

namespace moert::host {

/// Some counters, word by word. They advance round by round, so that the loop over them can be vectorised.
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

/// Sets words[4 * i ..] to the words of the counters from `block` on.
MOERT_INLINE void fillWords(DropoutMask mask, int64_t row, int64_t block, int64_t blocks, uint32_t *words) {
  PhiloxBlocks made;
  for (int64_t i = 0; i < blocks; ++i)
    mask.counter(row, block + i, made.c0[i], made.c1[i], made.c2[i], made.c3[i]);
  made.encrypt(mask.key, blocks);
  MOERT_SIMD
  for (int64_t i = 0; i < blocks; ++i) {
    words[4 * i] = made.c0[i];
    words[4 * i + 1] = made.c1[i];
    words[4 * i + 2] = made.c2[i];
    words[4 * i + 3] = made.c3[i];
  }
}

/// Sets factors[i] to the mask's factors of columns [begin, begin + count) of `row`.
template <class T, class Mask>
MOERT_INLINE void dropoutFactors(Mask mask, int64_t row, int64_t begin, int64_t count, T *factors) {
  constexpr int64_t most = PhiloxBlocks::kMost;
  uint32_t words[4 * most];
  const int64_t end = begin + count;
  for (int64_t block = begin / 4; 4 * block < end; block += most) {
    const int64_t blocks = std::min(most, (end + 3) / 4 - block);
    fillWords(mask, row, block, blocks, words);
    const int64_t from = std::max(begin, 4 * block), to = std::min(end, 4 * (block + blocks));
    const uint32_t *word = words + (from - 4 * block);
    T *out = factors + (from - begin);
    MOERT_SIMD
    for (int64_t i = 0; i < to - from; ++i)
      out[i] = mask.template factor<T>(word[i]);
  }
}

} // namespace moert::host

#endif // MOERT_HOST_DROPOUTFACTORS_H
