//===- View.h - a dense value in memory, and the outcome of an operation --===//
//
// Devices and communicators work on views, once the buffers of a plan have addresses.
//
//===----------------------------------------------------------------------===//
#ifndef MOERT_CORE_VIEW_H
#define MOERT_CORE_VIEW_H

#include "moert/moert.h"

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <type_traits>
#include <utility>

namespace moert {

/// A dtype besides those of moert_dtype, with Fields (core/Field.h) as elements. No plan has such values. They replace
/// floating-point values in exact arithmetic.
inline constexpr int32_t kFieldType = 0x100;

/// Properties of a dtype. Exact types have no errors of rounding.
struct DtypeFacts {
  int32_t dtype;
  const char *name;             ///< as in the metadata; "?" for an unknown one
  size_t size;                  ///< bytes of one element; 0 for an unknown one
  double unitRoundoff = 0;      ///< largest relative error of rounding one number
  double roundingTolerance = 0; ///< largest distance, relative to the norm, of values that differ by rounding alone
};
inline constexpr DtypeFacts kDtypes[] = {{MOERT_F32, "f32", 4, 0x1p-24, 1e-5},  {MOERT_F64, "f64", 8, 0x1p-53, 1e-12},
                                         {MOERT_BF16, "bf16", 2, 0x1p-8, 2e-2}, {MOERT_I32, "i32", 4},
                                         {MOERT_F16, "f16", 2, 0x1p-11, 2e-3},  {kFieldType, "field", 8}};

inline DtypeFacts factsOf(int32_t dtype) {
  for (const DtypeFacts &facts : kDtypes)
    if (facts.dtype == dtype)
      return facts;
  return {dtype, "?", 0};
}
inline size_t dtypeSize(int32_t dtype) { return factsOf(dtype).size; }
inline const char *dtypeName(int32_t dtype) { return factsOf(dtype).name; }
inline double unitRoundoff(int32_t dtype) { return factsOf(dtype).unitRoundoff; }
inline double roundingTolerance(int32_t dtype) { return factsOf(dtype).roundingTolerance; }

/// Whether a moert_dtype is a floating type of 16 bits.
inline bool isNarrow(int32_t dtype) { return dtype == MOERT_BF16 || dtype == MOERT_F16; }
/// Whether a dtype is a floating type or replaces one.
inline bool isFloating(int32_t dtype) {
  return dtype == MOERT_F32 || dtype == MOERT_F64 || dtype == kFieldType || isNarrow(dtype);
}

/// A dense row-major value. An absent optional operand has no data. The memory is not owned.
struct View {
  void *data = nullptr;
  int32_t dtype = 0; ///< moert_dtype
  int64_t rank = 0;
  std::array<int64_t, 4> dims{};

  int64_t elements() const {
    int64_t count = 1;
    for (int64_t i = 0; i < rank; ++i)
      count *= dims[i];
    return count;
  }
  int64_t bytes() const { return elements() * static_cast<int64_t>(dtypeSize(dtype)); }
  /// Dimensions beyond the rank are 0.
  bool hasShapeOf(const View &other) const { return rank == other.rank && dims == other.dims; }
  template <class T> T *as() const { return static_cast<T *>(data); }
  explicit operator bool() const { return data != nullptr; }
};

/// Joins the texts of all parts: strings, numbers, and views as "f32[4,8]".
template <class... Parts> std::string joined(const Parts &...parts) {
  std::string result;
  auto append = [&]<class Part>(const Part &part) {
    if constexpr (std::is_arithmetic_v<Part>)
      result += std::to_string(part);
    else if constexpr (std::is_same_v<Part, View>) {
      result += joined(dtypeName(part.dtype), "[");
      for (int64_t i = 0; i < part.rank; ++i)
        result += joined(i ? "," : "", part.dims[i]);
      result += "]";
    } else
      result += part;
  };
  (append(parts), ...);
  return result;
}

/// A moert_status with the text that explains it.
struct Status {
  int32_t code = MOERT_OK;
  std::string message;

  bool ok() const { return code == MOERT_OK; }
  template <class... Parts> static Status error(int32_t code, const Parts &...parts) {
    return {code, joined(parts...)};
  }
};

/// Makes the error of an argument that is not valid.
template <class... Parts> Status invalid(const Parts &...parts) {
  return Status::error(MOERT_ERROR_INVALID_ARGUMENT, parts...);
}
template <class... Parts> Status invalidUnless(bool condition, const Parts &...parts) {
  return condition ? Status{} : invalid(parts...);
}

} // namespace moert

// Returns the error from the calling function if the expression is one.
#define MOERT_RETURN_IF_ERROR(expression)                                                                              \
  do {                                                                                                                 \
    if (::moert::Status moertStatus = (expression); !moertStatus.ok())                                                 \
      return moertStatus;                                                                                              \
  } while (false)

#endif // MOERT_CORE_VIEW_H
