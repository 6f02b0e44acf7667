//===- Positions.h - the formulas of positions in sequences ---------------===//
#ifndef MOERT_CORE_POSITIONS_H
#define MOERT_CORE_POSITIONS_H

#include "core/Inline.h"
#include "core/Kernels.h"

#include <cmath>

namespace moert {

/// f_i of moert_rotary, for pair i.
MOERT_INLINE double rotaryFrequency(const RotaryOptions &options, int64_t i) {
  const double power = std::pow(options.base, -2.0 * static_cast<double>(i) / static_cast<double>(options.rotaryDim));
  if (options.factor == 1)
    return power;
  constexpr double turn = 6.283185307179586476925286766559;
  const double place = options.reach > 0 ? options.reach * power / turn : static_cast<double>(i);
  const double ramp = (place - options.low) / (options.high - options.low);
  const double held = ramp < 0 ? 0.0 : ramp > 1 ? 1.0 : ramp;
  return (1 - held + held / options.factor) * power;
}

/// scale_p of moert_rotary, for position p.
MOERT_INLINE double rotaryScale(const RotaryOptions &options, int64_t position) {
  if (options.temperature == 0)
    return options.scale;
  const double spans = std::floor(static_cast<double>(position + 1) / options.span);
  return options.scale * (1 + options.temperature * std::log1p(spans));
}

/// The bucket of `offset` = j - i in T5's scheme.
MOERT_INLINE int64_t relativeBucket(int64_t offset, int64_t buckets, bool bidirectional, int64_t maxDistance) {
  const int64_t count = bidirectional ? buckets / 2 : buckets, exact = count / 2;
  const int64_t before = offset < 0 ? -offset : 0, distance = bidirectional && offset > 0 ? offset : before;
  const int64_t first = bidirectional && offset > 0 ? count : 0;
  if (distance < exact)
    return first + distance;
  const double ratio = std::log(static_cast<double>(distance) / static_cast<double>(exact)) /
                       std::log(static_cast<double>(maxDistance) / static_cast<double>(exact));
  // Where the exact value is a whole number, rounding may fall short of it.
  const double steps = ratio * static_cast<double>(count - exact) * (1 + 1e-12);
  // Not beyond i64 before it is held.
  const int64_t place = exact + static_cast<int64_t>(steps < static_cast<double>(count) ? steps : count);
  return first + (place < count ? place : count - 1);
}

} // namespace moert

#endif // MOERT_CORE_POSITIONS_H
