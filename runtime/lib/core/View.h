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

/// Bytes of one element of a dtype; 0 for an unknown one.
inline size_t dtypeSize(int32_t dtype) {
  switch (dtype) {
  case MOERT_F32:
  case MOERT_I32:
    return 4;
  case MOERT_F64:
  case kFieldType:
    return 8;
  case MOERT_BF16:
  case MOERT_F16:
    return 2;
  default:
    return 0;
  }
}

/// "f32", "f64", "bf16", "i32", "f16", as in the metadata; "?" for an unknown one.
inline const char *dtypeName(int32_t dtype) {
  switch (dtype) {
  case MOERT_F32:
    return "f32";
  case MOERT_F64:
    return "f64";
  case MOERT_BF16:
    return "bf16";
  case MOERT_I32:
    return "i32";
  case MOERT_F16:
    return "f16";
  case kFieldType:
    return "field";
  default:
    return "?";
  }
}

/// Whether a moert_dtype is a floating type of 16 bits.
inline bool isNarrow(int32_t dtype) { return dtype == MOERT_BF16 || dtype == MOERT_F16; }
/// Whether a dtype is a floating type or replaces one.
inline bool isFloating(int32_t dtype) {
  return dtype == MOERT_F32 || dtype == MOERT_F64 || dtype == kFieldType || isNarrow(dtype);
}

/// Largest relative error of rounding one number to a type; 0 for exact types.
inline double unitRoundoff(int32_t dtype) {
  switch (dtype) {
  case MOERT_F32:
    return 0x1p-24;
  case MOERT_F64:
    return 0x1p-53;
  case MOERT_BF16:
    return 0x1p-8;
  case MOERT_F16:
    return 0x1p-11;
  default:
    return 0;
  }
}

/// Largest distance, relative to the norm, of two values that differ by rounding alone; 0 for exact types.
inline double roundingTolerance(int32_t dtype) {
  switch (dtype) {
  case MOERT_F32:
    return 1e-5;
  case MOERT_F64:
    return 1e-12;
  case MOERT_BF16:
    return 2e-2;
  case MOERT_F16:
    return 2e-3;
  default:
    return 0;
  }
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
