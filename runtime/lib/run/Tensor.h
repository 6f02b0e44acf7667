//===- Tensor.h - a global value in the caller's memory -------------------===//
#ifndef MOERT_RUN_TENSOR_H
#define MOERT_RUN_TENSOR_H

#include "core/Convert.h"
#include "core/Metadata.h"

#include <map>
#include <memory>
#include <optional>

namespace moert::run {

struct Tensor {
  int32_t dtype = MOERT_F32;
  std::vector<int64_t> shape;
  std::unique_ptr<char[]> data;

  /// Allocates the whole of `value`; its contents are not set.
  static Status allocate(const Value &value, Tensor &tensor);
  /// Does the same for a value of this name and shape.
  static Status allocate(const std::string &name, int32_t dtype, const std::vector<int64_t> &shape, Tensor &tensor) {
    return allocate({name, "", dtype, shape, {}, {}}, tensor);
  }

  int64_t elements() const;
  int64_t bytes() const { return elements() * static_cast<int64_t>(dtypeSize(dtype)); }
  template <class T> T *as() const { return reinterpret_cast<T *>(data.get()); }
};

/// Copies a tensor. `name` is for the error if there is no memory.
Status copyTensor(const std::string &name, const Tensor &from, Tensor &to);
/// Converts floating-point numbers to f64.
Status widen(Tensor &tensor);

using Tensors = std::map<std::string, Tensor>;

/// Copies `count` elements, which begin at element `first`.
void copyElements(const Tensor &tensor, int64_t first, int64_t count, char *to);

/// Rounds `value` to `dtype` (not i32) and stores it.
void setElement(void *data, int32_t dtype, int64_t index, double value);

/// Number of the first element of `data` that is NaN or infinite.
std::optional<int64_t> findNotFinite(const char *data, int32_t dtype, int64_t count);
/// Text for the first element that is NaN or infinite, "NaN at [3, 17]"; empty if there is none.
std::string firstNotFinite(const Tensor &tensor);

/// Sums of squares of the elements of a, and of the differences a - b, in double. Elements of a field have no size: for
/// them, the number of elements, and of differing ones.
double squaredNorm(const Tensor &a);
double squaredDistance(const void *a, const void *b, int32_t dtype, int64_t elements);

} // namespace moert::run

#endif // MOERT_RUN_TENSOR_H
