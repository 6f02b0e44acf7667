//===- ByteSize.h - sizes of memory as people write them --------*- C++ -*-===//
#ifndef MOERT_BYTESIZE_H
#define MOERT_BYTESIZE_H

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdint>
#include <string>
#include <string_view>

namespace moert {

/// The units of byte sizes: powers of 1000 and of 1024.
struct ByteUnit {
  std::string_view name;
  int64_t bytes;
};
inline constexpr ByteUnit kByteUnits[] = {
    {"B", 1},           {"kB", 1'000},      {"MB", 1'000'000},  {"GB", 1'000'000'000}, {"TB", 1'000'000'000'000},
    {"KiB", 1ll << 10}, {"MiB", 1ll << 20}, {"GiB", 1ll << 30}, {"TiB", 1ll << 40}};

/// Reads a whole number, or a number and a unit in upper or lower case, as in 80GB, 74.5GiB or 512 MB. Returns the text
/// of the error, which is empty if there is none.
inline std::string parseByteSize(std::string_view text, int64_t &bytes) {
  auto fail = [&](const char *more) {
    return "expected bytes, as in 80GB, 74.5GiB or 80000000000, but got '" + std::string(text) + "'" + more;
  };
  const std::string_view number = text.substr(0, std::min(text.find_first_not_of("0123456789."), text.size()));
  std::string_view name = text.substr(number.size());
  name.remove_prefix(std::min(name.find_first_not_of(' '), name.size()));
  auto lower = [](char c) { return 'A' <= c && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; };
  const ByteUnit *unit = std::ranges::find_if(
      kByteUnits, [&](const ByteUnit &one) { return std::ranges::equal(one.name, name, {}, lower, lower); });
  if (unit == std::end(kByteUnits) && !name.empty())
    return fail(number.empty() ? "" : "; units are B, kB, MB, GB, TB, KiB, MiB, GiB and TiB");
  const int64_t each = name.empty() ? 1 : unit->bytes;
  const char *end = number.data() + number.size();
  int64_t whole = 0;
  if (auto read = std::from_chars(number.data(), end, whole);
      read.ec == std::errc() && read.ptr == end && !__builtin_mul_overflow(whole, each, &bytes))
    return "";
  const bool isReal = number.find('.') != number.npos;
  double real = 0;
  auto read = std::from_chars(number.data(), end, real);
  if (!isReal || read.ec != std::errc() || read.ptr != end)
    return fail(number.empty() || isReal ? "" : ", which is too large");
  real *= static_cast<double>(each);
  if (each == 1 && real != std::floor(real))
    return fail("; bytes are a whole number");
  if (real >= 0x1p63)
    return fail(", which is too large");
  bytes = std::llround(real);
  return "";
}

} // namespace moert

#endif // MOERT_BYTESIZE_H
