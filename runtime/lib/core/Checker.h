//===- Checker.h - what the checks of operands share ----------------------===//
#ifndef MOERT_CORE_CHECKER_H
#define MOERT_CORE_CHECKER_H

#include "core/Kernels.h"

#include <initializer_list>
#include <optional>
#include <string>
#include <type_traits>

namespace moert {

/// Joins the texts of all parts, strings and numbers.
template <class... Parts> std::string joined(const Parts &...parts) {
  std::string result;
  auto append = [&](const auto &part) {
    if constexpr (std::is_arithmetic_v<std::decay_t<decltype(part)>>)
      result += std::to_string(part);
    else
      result += part;
  };
  (append(parts), ...);
  return result;
}

/// "f32[4,8]".
inline std::string shapeText(int32_t dtype, const int64_t *dims, int64_t rank) {
  std::string result = joined(dtypeName(dtype), "[");
  for (int64_t i = 0; i < rank; ++i)
    result += joined(i ? "," : "", dims[i]);
  return result += "]";
}
inline std::string shapeText(View view) { return shapeText(view.dtype, view.dims.data(), view.rank); }

/// Product of dimensions [begin, end) of `view`.
inline int64_t product(View view, int64_t begin, int64_t end) {
  int64_t result = 1;
  for (int64_t i = begin; i < end; ++i)
    result *= view.dims[i];
  return result;
}
/// Number of rows of `view` [.., N]; 1 for rank 0.
inline int64_t rowsOf(View view) { return product(view, 0, view.rank - 1); }
inline int64_t columnsOf(View view) { return view.rank ? view.dims[view.rank - 1] : 1; }

/// Keeps the first error of the operands of one kernel; later checks then do nothing. Its own checks read no operand's
/// values.
class Checker {
public:
  explicit Checker(Kind kernel, Status status = {}) : kernel(kernel), status(std::move(status)) {}

  bool ok() const { return status.ok(); }
  Status take() { return std::move(status); }

  /// Fails with "'kernel': message" unless `condition`; `message` is a function, called only then.
  template <class Message> Checker &that(bool condition, Message message, int32_t code = MOERT_ERROR_INVALID_ARGUMENT) {
    if (ok() && !condition)
      status = Status::error(code, joined("'", kindName(kernel), "': ", message()));
    return *this;
  }
  /// Fails unless all operands of the kernel have the types and shapes of kernels.def. `views` are in the order of the
  /// call, and `flags` are those on which shapes depend.
  Checker &operands(std::initializer_list<View> views, std::initializer_list<bool> flags) {
    return operands(views.begin(), flags.begin());
  }
  Checker &operands(const View *views, const bool *flags);
  /// Fails unless `view` is there, has a known type, rank 0 to 4 and no negative dimension.
  Checker &valid(const char *name, View view) {
    bool sane = view.rank >= 0 && view.rank <= 4;
    for (int64_t i = 0; sane && i < view.rank; ++i)
      sane = view.dims[i] >= 0;
    that(sane, [&] { return joined("expected '", name, "' of rank 0 to 4 with dimensions of 0 or more"); });
    that(dtypeSize(view.dtype) != 0, [&] { return joined("'", name, "' is of an unknown type"); });
    return that(!sane || view || view.elements() == 0, [&] { return joined("'", name, "' is absent"); });
  }
  /// Accepts 16-bit floats too. A device that does not compute with them refuses them itself.
  Checker &floating(const char *name, View view) {
    return valid(name, view).that(isFloating(view.dtype), [&] {
      return joined("expected '", name, "' to be f32 or f64 but got ", shapeText(view));
    });
  }
  Checker &rank(const char *name, View view, int64_t least, int64_t most) {
    return that(view.rank >= least && view.rank <= most, [&] {
      return joined("expected '", name, "' of rank ", least, most > least ? joined(" to ", most) : "", " but got ",
                    shapeText(view));
    });
  }
  Checker &shape(const char *name, View view, std::initializer_list<int64_t> dims) {
    return exactly(name, view, view.dtype, dims.begin(), static_cast<int64_t>(dims.size()));
  }
  /// Fails unless `view` has the type and shape of `model`.
  Checker &like(const char *name, View view, View model) {
    return exactly(name, view, model.dtype, model.dims.data(), model.rank);
  }
  /// Fails unless the parts and the stride are 1 or more.
  Checker &part(Part part, const char *parts = "parts", const char *stride = "stride") {
    return that(part.parts >= 1 && part.stride >= 1 && part.rank >= 0, [&] {
      return joined("expected '", parts, "' and '", stride, "' of 1 or more but got ", part.parts, " and ",
                    part.stride);
    });
  }

private:
  struct Dimensions;
  void shaped(const KernelInfo::Operand &operand, View view, int32_t dtype, const KernelInfo::Shape &shape,
              Dimensions &known);
  Checker &exactly(const char *name, View view, int32_t dtype, const int64_t *dims, int64_t rank) {
    valid(name, view);
    if (!ok())
      return *this;
    bool same = view.dtype == dtype && view.rank == rank;
    for (int64_t i = 0; same && i < rank; ++i)
      same = view.dims[i] == dims[i];
    return that(same, [&] {
      return joined("expected '", name, "' to be ", shapeText(dtype, dims, rank), " but got ", shapeText(view));
    });
  }

  Kind kernel;
  Status status;
};

} // namespace moert

#endif // MOERT_CORE_CHECKER_H
