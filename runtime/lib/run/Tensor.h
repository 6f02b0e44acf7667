//===- Tensor.h - a global value in the caller's memory -------------------===//
#ifndef MOERT_RUN_TENSOR_H
#define MOERT_RUN_TENSOR_H

#include "core/Convert.h"
#include "core/Metadata.h"

#include <map>
#include <memory>

namespace moert::run {

struct FreeDeleter {
  void operator()(char *data) const;
};

struct Tensor {
  int32_t dtype = MOERT_F32;
  std::vector<int64_t> shape;
  std::unique_ptr<char, FreeDeleter> data;

  /// Room for `value` as a whole; its contents are not set.
  static Status allocate(const Value &value, Tensor &tensor);

  int64_t elements() const;
  int64_t bytes() const { return elements() * static_cast<int64_t>(dtypeSize(dtype)); }
  template <class T> T *as() const { return reinterpret_cast<T *>(data.get()); }
};

/// The same numbers in f64; integers stay what they are.
Status widen(Tensor &tensor);

using Tensors = std::map<std::string, Tensor>;

/// Copies `count` elements from element `first` on.
void copyElements(const Tensor &tensor, int64_t first, int64_t count, char *to);

/// `value` rounded to `dtype` (not i32) and stored.
void setElement(void *data, int32_t dtype, int64_t index, double value);

/// "NaN at [3, 17]" for the first element that is NaN or infinite; empty where there is none.
std::string firstNotFinite(const Tensor &tensor);

/// The sum of squares of the elements of a, and of the differences a - b, in double. Elements of a field have no size:
/// how many there are, and how many differ.
double squaredNorm(const Tensor &a);
double squaredDistance(const void *a, const void *b, int32_t dtype, int64_t elements);

} // namespace moert::run

#endif // MOERT_RUN_TENSOR_H
