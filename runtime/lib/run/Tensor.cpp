//===- Tensor.cpp - a global value in the caller's memory -----------------===//

#include "run/Tensor.h"

#include <cmath>
#include <cstdlib>
#include <cstring>

namespace moert::run {

void FreeDeleter::operator()(char *data) const { std::free(data); }

Status Tensor::allocate(const Value &value, Tensor &tensor) {
  tensor.dtype = value.dtype;
  tensor.shape = value.shape;
  // Allocates at least one byte, so that an empty tensor has an address.
  tensor.data.reset(static_cast<char *>(std::malloc(static_cast<size_t>(value.bytes()) + 1)));
  if (tensor.data)
    return {};
  return Status::error(MOERT_ERROR_OUT_OF_MEMORY, "cannot allocate " + std::to_string(value.bytes()) +
                                                      " bytes for the whole of '" + value.name + "'");
}

int64_t Tensor::elements() const {
  int64_t count = 1;
  for (int64_t dim : shape)
    count *= dim;
  return count;
}

Status widen(Tensor &tensor) {
  if (!isFloating(tensor.dtype) || tensor.dtype == MOERT_F64)
    return {};
  Tensor wide;
  if (Status status = Tensor::allocate({"a value in f64", "", MOERT_F64, tensor.shape, {}, {}}, wide); !status.ok())
    return status;
  for (int64_t i = 0, e = tensor.elements(); i < e; ++i)
    wide.as<double>()[i] = elementAt(tensor.as<char>(), tensor.dtype, i);
  tensor = std::move(wide);
  return {};
}

void copyElements(const Tensor &tensor, int64_t first, int64_t count, char *to) {
  auto width = static_cast<int64_t>(dtypeSize(tensor.dtype));
  std::memcpy(to, tensor.as<char>() + first * width, static_cast<size_t>(count * width));
}

void setElement(void *data, int32_t dtype, int64_t index, double value) {
  withAnyFloating(dtype, [&](auto zero) {
    using T = decltype(zero);
    static_cast<T *>(data)[index] = convert<T>(value);
  });
}

std::string firstNotFinite(const Tensor &tensor) {
  for (int64_t i = 0, e = tensor.dtype == MOERT_I32 ? 0 : tensor.elements(); i < e; ++i) {
    double value = elementAt(tensor.as<char>(), tensor.dtype, i);
    if (std::isfinite(value))
      continue;
    std::vector<int64_t> index(tensor.shape.size());
    int64_t rest = i;
    for (size_t dim = tensor.shape.size(); dim-- > 0; rest /= tensor.shape[dim])
      index[dim] = rest % tensor.shape[dim];
    return (std::isnan(value) ? "NaN at " : "Inf at ") + shapeText(index);
  }
  return "";
}

template <class T> static double sumSquares(const T *a, int64_t elements) {
  double sum = 0;
  for (int64_t i = 0; i < elements; ++i)
    sum += double(a[i]) * double(a[i]);
  return sum;
}

template <class T> static double sumDistance(const T *a, const T *b, int64_t elements) {
  double sum = 0;
  for (int64_t i = 0; i < elements; ++i)
    sum += (double(a[i]) - double(b[i])) * (double(a[i]) - double(b[i]));
  return sum;
}

double squaredNorm(const Tensor &a) {
  if (a.dtype == MOERT_F32)
    return sumSquares(a.as<float>(), a.elements());
  if (a.dtype == MOERT_F64)
    return sumSquares(a.as<double>(), a.elements());
  if (a.dtype == kFieldType)
    return static_cast<double>(a.elements());
  double sum = 0;
  for (int64_t i = 0, e = a.elements(); i < e; ++i)
    sum += std::pow(elementAt(a.as<char>(), a.dtype, i), 2);
  return sum;
}

double squaredDistance(const void *a, const void *b, int32_t dtype, int64_t elements) {
  if (dtype == MOERT_F32)
    return sumDistance(static_cast<const float *>(a), static_cast<const float *>(b), elements);
  if (dtype == MOERT_F64)
    return sumDistance(static_cast<const double *>(a), static_cast<const double *>(b), elements);
  double sum = 0;
  if (dtype == kFieldType) {
    for (int64_t i = 0; i < elements; ++i)
      sum += static_cast<const Field *>(a)[i] == static_cast<const Field *>(b)[i] ? 0 : 1;
    return sum;
  }
  for (int64_t i = 0; i < elements; ++i)
    sum += std::pow(elementAt(a, dtype, i) - elementAt(b, dtype, i), 2);
  return sum;
}

} // namespace moert::run
