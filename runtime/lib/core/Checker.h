//===- Checker.h - what the checks of operands share ----------------------===//
#ifndef MOERT_CORE_CHECKER_H
#define MOERT_CORE_CHECKER_H

#include "core/Kernels.h"

#include <algorithm>
#include <initializer_list>
#include <optional>

namespace moert {

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
  explicit Checker(Kind kernel) : kernel(kernel) {}

  bool ok() const { return status.ok(); }
  Status take() { return std::move(status); }
  /// Keeps the error of a step of the kernel.
  Checker &also(Status other) {
    if (ok())
      status = std::move(other);
    return *this;
  }

  /// Fails with "'kernel': message" unless `condition`; the parts make the message.
  template <class... Parts> Checker &that(bool condition, const Parts &...parts) {
    return require(MOERT_ERROR_INVALID_ARGUMENT, condition, parts...);
  }
  template <class... Parts> Checker &require(int32_t code, bool condition, const Parts &...parts) {
    if (ok() && !condition)
      status = Status::error(code, "'", kindName(kernel), "': ", parts...);
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
    that(sane, "expected '", name, "' of rank 0 to 4 with dimensions of 0 or more");
    that(dtypeSize(view.dtype) != 0, "'", name, "' is of an unknown type");
    return that(!sane || view || view.elements() == 0, "'", name, "' is absent");
  }
  /// Accepts 16-bit floats too. A device that does not compute with them refuses them itself.
  Checker &floating(const char *name, View view) {
    return valid(name, view).that(isFloating(view.dtype), "expected '", name, "' to be f32 or f64 but got ", view);
  }
  Checker &rank(const char *name, View view, int64_t least, int64_t most) {
    return that(view.rank >= least && view.rank <= most, "expected '", name, "' of rank ", least,
                most > least ? joined(" to ", most) : "", " but got ", view);
  }
  Checker &shape(const char *name, View view, std::initializer_list<int64_t> dims) {
    View model{nullptr, view.dtype, std::ssize(dims)};
    std::ranges::copy(dims, model.dims.begin());
    return like(name, view, model);
  }
  /// Fails unless `view` has the type and shape of `model`.
  Checker &like(const char *name, View view, View model) {
    valid(name, view);
    const bool same = ok() && view.dtype == model.dtype && view.rank == model.rank &&
                      std::equal(view.dims.begin(), view.dims.begin() + view.rank, model.dims.begin());
    return that(same, "expected '", name, "' to be ", model, " but got ", view);
  }
  /// Fails unless the parts and the stride are 1 or more.
  Checker &part(Part part, const char *parts = "parts", const char *stride = "stride") {
    return that(part.parts >= 1 && part.stride >= 1 && part.rank >= 0, "expected '", parts, "' and '", stride,
                "' of 1 or more but got ", part.parts, " and ", part.stride);
  }

private:
  struct Dimensions;
  void shaped(const KernelInfo::Operand &operand, View view, int32_t dtype, const KernelInfo::Shape &shape,
              Dimensions &known);

  Kind kernel;
  Status status;
};

} // namespace moert

#endif // MOERT_CORE_CHECKER_H
