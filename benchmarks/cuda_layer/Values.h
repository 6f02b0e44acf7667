//===- Values.h - random values in bf16 -----------------------------------===//
#ifndef BENCHMARKS_CUDA_LAYER_VALUES_H
#define BENCHMARKS_CUDA_LAYER_VALUES_H

#include <algorithm>
#include <bit>
#include <cstdint>
#include <random>
#include <vector>

/// Rounds to nearest, ties to even. The value must be finite.
inline uint16_t toBf16(float value) {
  const auto bits = std::bit_cast<uint32_t>(value);
  return static_cast<uint16_t>((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}
inline float fromBf16(uint16_t bits) { return std::bit_cast<float>(uint32_t(bits) << 16); }

/// Normal values. They repeat with a prime period, so that no two rows or experts are equal. Layers have more than 10^9
/// values, and drawing all of them would take longer than using them.
inline std::vector<uint16_t> makeNormal(int64_t elements, double deviation, uint64_t seed) {
  constexpr int64_t kPeriod = 1048573;
  std::mt19937_64 engine(seed);
  std::normal_distribution<float> normal(0, static_cast<float>(deviation));
  std::vector<uint16_t> values(static_cast<size_t>(elements));
  std::generate_n(values.begin(), std::min(elements, kPeriod), [&] { return toBf16(normal(engine)); });
  for (int64_t done = kPeriod; done < elements; done += kPeriod)
    std::copy_n(values.begin(), std::min(elements - done, kPeriod), values.begin() + done);
  return values;
}

#endif // BENCHMARKS_CUDA_LAYER_VALUES_H
