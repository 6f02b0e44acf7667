//===- Positions.h - the formulas of positions in sequences ---------------===//
#ifndef MOERT_CORE_POSITIONS_H
#define MOERT_CORE_POSITIONS_H

#include "core/Inline.h"
#include "core/Kernels.h"

#include <cmath>

namespace moert {

/// Positions of the `rows` rows that a rank has of a sequence: consecutive from `first` on, where those after the first
/// `before` rows lie `jump` later. Later rows have later positions.
struct RowPlaces {
  int64_t rows = 0, first = 0, before = 0, jump = 0;

  RowPlaces() = default;
  MOERT_INLINE RowPlaces(int64_t count, int64_t parts, int64_t part, bool zigzag)
      : rows(count), first(part * count), before(count) {
    if (!zigzag || parts == 1)
      return;
    before = count / 2;
    first = part * before;
    jump = 2 * (parts - 1 - part) * before;
  }
  /// Positions of the rank, or of the rank that is `shift` parts behind it.
  RowPlaces(int64_t count, const SequenceCut &cut, int64_t shift = 0)
      : RowPlaces(count, cut.parts, (cut.index() + shift) % cut.parts, cut.zigzag) {}

  MOERT_INLINE int64_t at(int64_t row) const { return first + row + (row < before ? 0 : jump); }
  /// Number of rows before position `place`.
  MOERT_INLINE int64_t countBefore(int64_t place) const {
    return within(place - first, before) + within(place - first - jump - before, rows - before);
  }

private:
  static MOERT_INLINE int64_t within(int64_t count, int64_t most) {
    return count < 0 ? 0 : count > most ? most : count;
  }
};

/// Place among whole sequences of row `row` of all parts one after the other.
MOERT_INLINE int64_t wholeRow(const SequenceOrder &order, int64_t row) {
  const int64_t part = order.sequences * order.length, set = row / (part * order.parts), own = row % part;
  const RowPlaces places(order.length, order.parts, row / part % order.parts, order.zigzag);
  const int64_t sequence = set * order.sequences + own / order.length;
  return sequence * order.length * order.parts + places.at(own % order.length);
}

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

/// Bucket of `offset` = j - i in T5's scheme.
MOERT_INLINE int64_t relativeBucket(int64_t offset, int64_t buckets, bool bidirectional, int64_t maxDistance) {
  const int64_t count = bidirectional ? buckets / 2 : buckets, exact = count / 2;
  const int64_t before = offset < 0 ? -offset : 0, distance = bidirectional && offset > 0 ? offset : before;
  const int64_t first = bidirectional && offset > 0 ? count : 0;
  if (distance < exact)
    return first + distance;
  const double ratio = std::log(static_cast<double>(distance) / static_cast<double>(exact)) /
                       std::log(static_cast<double>(maxDistance) / static_cast<double>(exact));
  // If the exact value is a whole number, rounding may fall short of it.
  const double steps = ratio * static_cast<double>(count - exact) * (1 + 1e-12);
  // The limit comes before the cast, so that the value fits i64.
  const int64_t place = exact + static_cast<int64_t>(steps < static_cast<double>(count) ? steps : count);
  return first + (place < count ? place : count - 1);
}

} // namespace moert

#endif // MOERT_CORE_POSITIONS_H
