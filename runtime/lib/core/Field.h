//===- Field.h - numbers without rounding ----------------------------------===//
//
// The integers modulo the prime 2^61 - 1. Sums and products are exact, so that any order of sums gives the same
// element, and a division by n is a product with the inverse of n. Two programs that compute the same polynomials
// agree. Programs that do not agree at a random place with a probability of at most degree / 2^61 (Schwartz, Zippel).
// Other functions have stand-ins. A stand-in is not numerically near the function. It behaves as if its values were
// drawn at random, and keeps the algebra that schedules rely on (docs/Verification.md).
//
//===----------------------------------------------------------------------===//
#ifndef MOERT_CORE_FIELD_H
#define MOERT_CORE_FIELD_H

#include "core/Inline.h"

#include <bit>
#include <compare>
#include <cstdint>
#include <limits>
#include <type_traits>

namespace moert {

class Field {
public:
  static constexpr uint64_t kPrime = (uint64_t(1) << 61) - 1;

  Field() = default;
  constexpr Field(std::integral auto number) : bits(fromInteger(static_cast<int64_t>(number))) {}
  /// The fraction of small numbers that rounds to `number`, such as 1/3, if there is one. Otherwise `number` itself, an
  /// integer times a power of two. Infinite numbers are above or below all elements, and only for comparisons.
  constexpr Field(std::floating_point auto number) : bits(fromReal(static_cast<double>(number))) {}

  /// The element congruent to an integer.
  static constexpr Field of(uint64_t integer) { return Field(reduced(integer), Raw{}); }
  static constexpr Field infinity() { return Field(kHighest, Raw{}); }

  constexpr Field operator+(Field other) const { return Field(once(bits + other.bits), Raw{}); }
  constexpr Field operator-(Field other) const { return Field(once(bits + kPrime - other.bits), Raw{}); }
  constexpr Field operator*(Field other) const { return Field(product(bits, other.bits), Raw{}); }
  /// A quotient by 0 is 0.
  constexpr Field operator/(Field other) const { return *this * other.inverse(); }
  constexpr Field operator-() const {
    if (bits >= kPrime)
      return Field(bits == kHighest ? kLowest : kHighest, Raw{});
    return Field(bits ? kPrime - bits : 0, Raw{});
  }
  constexpr Field &operator+=(Field other) { return *this = *this + other; }
  constexpr Field &operator-=(Field other) { return *this = *this - other; }
  constexpr Field &operator*=(Field other) { return *this = *this * other; }
  constexpr Field &operator/=(Field other) { return *this = *this / other; }
  constexpr bool operator==(const Field &) const = default;
  /// The order of the integers from -2^60 + 1 to 2^60 - 1. Arithmetic does not keep it. It makes choices equal wherever
  /// values are equal.
  constexpr std::strong_ordering operator<=>(const Field &other) const { return place() <=> other.place(); }

  /// Sum of `count` products a[i * strideA] b[i * strideB].
  static constexpr Field dot(const Field *a, int64_t strideA, const Field *b, int64_t strideB, int64_t count);
  constexpr Field inverse() const {
    return Field(std::is_constant_evaluated() ? inverted(bits) : remembered(bits, inverted), Raw{});
  }
  /// A number below 2^61 that identifies the element.
  constexpr uint64_t index() const { return bits; }
  constexpr bool isInfinite() const { return bits == kHighest || bits == kLowest; }
  /// A number in (-16, 16) to compare with a constant such as a limit. Elements are as likely on either side of it as
  /// such numbers are.
  constexpr double size() const { return static_cast<double>(place()) * 0x1p-56; }

private:
  struct Raw {};
  static constexpr uint64_t kLowest = uint64_t(1) << 62, kHighest = kLowest + 1;

  constexpr Field(uint64_t bits, Raw) : bits(bits) {}
  static constexpr uint64_t once(uint64_t sum) { return sum >= kPrime ? sum - kPrime : sum; }
  static constexpr uint64_t reduced(uint64_t x) { return once((x & kPrime) + (x >> 61)); }
  static constexpr uint64_t product(uint64_t a, uint64_t b) {
    __extension__ const auto whole = static_cast<unsigned __int128>(a) * b;
    return once((static_cast<uint64_t>(whole) & kPrime) + static_cast<uint64_t>(whole >> 61));
  }
  static constexpr uint64_t fromInteger(int64_t number) {
    const uint64_t size = reduced(number < 0 ? -static_cast<uint64_t>(number) : static_cast<uint64_t>(number));
    return number < 0 && size ? kPrime - size : size;
  }
  static constexpr uint64_t fromReal(double number) {
    return std::is_constant_evaluated()
               ? nearest(number)
               : remembered(std::bit_cast<uint64_t>(number), [number](uint64_t) { return nearest(number); });
  }
  static constexpr uint64_t nearest(double number);
  static constexpr uint64_t inverted(uint64_t bits);
  /// Returns compute(key), which must be 0 for 0. A thread keeps some results, because kernels divide by the same
  /// numbers again and again.
  template <class Compute> static uint64_t remembered(uint64_t key, Compute compute) {
    struct Slot {
      uint64_t key, value;
    };
    thread_local Slot slots[64];
    Slot &slot = slots[key * 0x9e3779b97f4a7c15 >> 58];
    if (slot.key != key)
      slot = {key, compute(key)};
    return slot.value;
  }
  constexpr int64_t place() const {
    if (bits == kHighest)
      return std::numeric_limits<int64_t>::max();
    if (bits >= kPrime)
      return std::numeric_limits<int64_t>::min();
    return static_cast<int64_t>(bits > kPrime / 2 ? bits - kPrime : bits);
  }

  uint64_t bits; ///< below the prime, except for infinities
};

constexpr Field Field::dot(const Field *a, int64_t strideA, const Field *b, int64_t strideB, int64_t count) {
  // The sum of 64 products of 122 bits fits 128 bits.
  constexpr int64_t kMost = 64;
  Field sum = 0;
  for (int64_t begin = 0; begin < count; begin += kMost) {
    __extension__ unsigned __int128 part = 0;
    const int64_t end = begin + kMost < count ? begin + kMost : count;
    for (int64_t i = begin; i < end; ++i)
      part += static_cast<unsigned __int128>(a[i * strideA].bits) * b[i * strideB].bits;
    sum += of((static_cast<uint64_t>(part) & kPrime) + (static_cast<uint64_t>(part >> 61) & kPrime)) +
           of(static_cast<uint64_t>(part >> 122));
  }
  return sum;
}

/// Inverts by Fermat: the power p - 2.
constexpr uint64_t Field::inverted(uint64_t bits) {
  // p - 2 is 2^61 - 3: 59 ones, then 01.
  auto squared = [](Field x, int times) {
    for (int i = 0; i < times; ++i)
      x *= x;
    return x;
  };
  const Field x1(bits, Raw{}), x2 = squared(x1, 1) * x1, x3 = squared(x2, 1) * x1, x6 = squared(x3, 3) * x3;
  const Field x7 = squared(x6, 1) * x1, x14 = squared(x7, 7) * x7, x28 = squared(x14, 14) * x14;
  const Field x29 = squared(x28, 1) * x1, x58 = squared(x29, 29) * x29, x59 = squared(x58, 1) * x1;
  return (squared(x59, 2) * x1).bits;
}

constexpr uint64_t Field::nearest(double number) {
  if (number != number)
    return kLowest;
  const double size = number < 0 ? -number : number;
  if (size > std::numeric_limits<double>::max())
    return number < 0 ? kLowest : kHighest;
  // Continued fractions give the fractions nearest to a number.
  constexpr double kMostDenominator = 1 << 20, kMostNumerator = 0x1p52;
  double rest = size, top = 1, topBefore = 0, bottom = 0, bottomBefore = 1;
  for (int i = 0; i < 32 && rest < kMostNumerator; ++i) {
    const auto whole = static_cast<double>(static_cast<int64_t>(rest));
    const double nextTop = whole * top + topBefore, nextBottom = whole * bottom + bottomBefore;
    if (nextTop > kMostNumerator || nextBottom > kMostDenominator)
      break;
    topBefore = top, top = nextTop, bottomBefore = bottom, bottom = nextBottom;
    if (top / bottom == size) {
      const Field value = Field(static_cast<int64_t>(top)) / Field(static_cast<int64_t>(bottom));
      return (number < 0 ? -value : value).bits;
    }
    if (rest == whole)
      break;
    rest = 1 / (rest - whole);
  }
  const auto pattern = std::bit_cast<uint64_t>(size);
  const int exponent = static_cast<int>(pattern >> 52);
  const uint64_t mantissa = (pattern & ((uint64_t(1) << 52) - 1)) | (exponent ? uint64_t(1) << 52 : 0);
  // Powers of two repeat after 61.
  const int power = ((exponent ? exponent : 1) - 1075) % 61 + 61;
  const Field value = of(mantissa) * Field(uint64_t(1) << (power % 61), Raw{});
  return (number < 0 ? -value : value).bits;
}

template <class T>
concept Number = std::is_arithmetic_v<T>;
constexpr Field operator+(Number auto a, Field b) { return Field(a) + b; }
constexpr Field operator-(Number auto a, Field b) { return Field(a) - b; }
constexpr Field operator*(Number auto a, Field b) { return Field(a) * b; }
constexpr Field operator/(Number auto a, Field b) { return Field(a) / b; }

// --- Stand-ins for functions ----------------------------------------------------

enum class Oracle : uint64_t { Logistic = 1, Erfc, SquareRoot, Softplus };

/// A good hash of 64 bits (splitmix64).
constexpr uint64_t hashOf(uint64_t x) {
  x += 0x9e3779b97f4a7c15;
  x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9;
  x = (x ^ x >> 27) * 0x94d049bb133111eb;
  return x ^ x >> 31;
}

constexpr Field standIn(Oracle function, Field x) {
  return Field::of(hashOf(x.index() ^ hashOf(static_cast<uint64_t>(function))));
}

/// Stands in for the exponential. It maps elements one to one, so that it has an inverse, the logarithm. The rule exp(x
/// - y) = exp(x) / exp(y), which sums of powers need, is in expOfDifference.
constexpr Field fieldExp(Field x);
constexpr Field fieldLog(Field x);

namespace detail {
/// Steps of a permutation of 61 bits. A shift by half of the bits or more is its own inverse, and odd factors have
/// inverses.
inline constexpr uint64_t kFactors[] = {0x9e3779b97f4a7c15, 0xbf58476d1ce4e5b9, 0x94d049bb133111eb};
inline constexpr int kShifts[] = {31, 33, 32};
constexpr uint64_t oddInverse(uint64_t odd) {
  uint64_t x = odd;
  for (int i = 0; i < 5; ++i)
    x *= 2 - odd * x;
  return x;
}
constexpr uint64_t scrambled(uint64_t x) {
  for (int i = 0; i < 3; ++i) {
    x ^= x >> kShifts[i];
    x = (x * kFactors[i] + 0x2545f4914f6cdd1d) & Field::kPrime;
  }
  return x ^ x >> 31;
}
constexpr uint64_t unscrambled(uint64_t x) {
  x ^= x >> 31;
  for (int i = 2; i >= 0; --i) {
    x = ((x - 0x2545f4914f6cdd1d) * oddInverse(kFactors[i])) & Field::kPrime;
    x ^= x >> kShifts[i];
  }
  return x;
}
} // namespace detail

// 61 bits have one more number than the field has elements. If the permutation gives that number, it is applied again.
constexpr Field fieldExp(Field x) {
  uint64_t bits = x.index();
  do
    bits = detail::scrambled(bits);
  while (bits == Field::kPrime);
  return Field::of(bits);
}
constexpr Field fieldLog(Field x) {
  uint64_t bits = x.index();
  do
    bits = detail::unscrambled(bits);
  while (bits == Field::kPrime);
  return Field::of(bits);
}

#pragma omp declare reduction(+ : moert::Field : omp_out += omp_in) initializer(omp_priv = 0)

} // namespace moert

template <> struct std::numeric_limits<moert::Field> {
  static constexpr bool is_specialized = true;
  static constexpr moert::Field infinity() { return moert::Field::infinity(); }
};

#endif // MOERT_CORE_FIELD_H
