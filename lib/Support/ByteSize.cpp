//===- ByteSize.cpp - sizes of memory as people write them ----------------===//
#include "moe/Support/ByteSize.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/Format.h"
#include "llvm/Support/MathExtras.h"
#include "llvm/Support/raw_ostream.h"

#include <cmath>
#include <limits>

using llvm::StringRef;

namespace {
struct Unit {
  StringRef name;
  int64_t bytes;
};
} // namespace

static constexpr int64_t kilo = 1000, kibi = 1024;
static constexpr Unit kUnits[] = {{"B", 1},
                                  {"kB", kilo},
                                  {"MB", kilo *kilo},
                                  {"GB", kilo *kilo *kilo},
                                  {"TB", kilo *kilo *kilo *kilo},
                                  {"KiB", kibi},
                                  {"MiB", kibi *kibi},
                                  {"GiB", kibi *kibi *kibi},
                                  {"TiB", kibi *kibi *kibi *kibi}};

llvm::Expected<int64_t> mlir::moe::parseByteSize(StringRef text) {
  auto fail = [&](StringRef more) {
    return llvm::createStringError("expected bytes, as in 80GB, 74.5GiB or 80000000000, but got '" + text + "'" + more);
  };
  StringRef number = text.take_while([](char c) { return llvm::isDigit(c) || c == '.'; });
  StringRef name = text.drop_front(number.size()).ltrim(' ');
  const Unit *unit = llvm::find_if(kUnits, [&](const Unit &one) { return one.name.equals_insensitive(name); });
  bool hasUnit = unit != std::end(kUnits);
  if (!hasUnit && !name.empty())
    return fail(number.empty() ? "" : "; units are B, kB, MB, GB, TB, KiB, MiB, GiB and TiB");
  int64_t each = hasUnit ? unit->bytes : 1, whole = 0, bytes = 0;
  if (!number.getAsInteger(10, whole) && !llvm::MulOverflow(whole, each, bytes))
    return bytes;
  double real = 0;
  if (!number.contains('.') || number.getAsDouble(real))
    return fail(number.empty() || number.contains('.') ? "" : ", which is too large");
  real *= static_cast<double>(each);
  if (each == 1 && real != std::floor(real))
    return fail("; bytes are a whole number");
  if (real >= static_cast<double>(std::numeric_limits<int64_t>::max()))
    return fail(", which is too large");
  return static_cast<int64_t>(std::llround(real));
}

std::string mlir::moe::formatByteSize(int64_t bytes) {
  std::string text;
  llvm::raw_string_ostream os(text);
  for (const Unit &unit : llvm::reverse(llvm::ArrayRef(kUnits).take_front(5)))
    if (unit.bytes > 1 && bytes >= unit.bytes) {
      os << llvm::format("%.1f ", static_cast<double>(bytes) / static_cast<double>(unit.bytes)) << unit.name;
      return text;
    }
  os << bytes << " bytes";
  return text;
}
