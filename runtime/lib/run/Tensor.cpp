//===- Tensor.cpp - a global value in the caller's memory -----------------===//

#include "run/Tensor.h"

#include <cmath>
#include <cstring>
#include <new>

namespace moert::run {

Status Tensor::allocate(const Value &value, Tensor &tensor) {
  tensor.dtype = value.dtype;
  tensor.shape = value.shape;
  // Allocates at least one byte, so that an empty tensor has an address.
  tensor.data.reset(new (std::nothrow) char[static_cast<size_t>(value.bytes()) + 1]);
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

Status copyTensor(const std::string &name, const Tensor &from, Tensor &to) {
  MOERT_RETURN_IF_ERROR(Tensor::allocate(name, from.dtype, from.shape, to));
  copyElements(from, 0, from.elements(), to.as<char>());
  return {};
}

Status widen(Tensor &tensor) {
  if (!isFloating(tensor.dtype) || tensor.dtype == MOERT_F64)
    return {};
  Tensor wide;
  MOERT_RETURN_IF_ERROR(Tensor::allocate("a value in f64", MOERT_F64, tensor.shape, wide));
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

std::optional<int64_t> findNotFinite(const char *data, int32_t dtype, int64_t count) {
  for (int64_t i = 0, e = isFloating(dtype) ? count : 0; i < e; ++i)
    if (!std::isfinite(elementAt(data, dtype, i)))
      return i;
  return std::nullopt;
}

std::string firstNotFinite(const Tensor &tensor) {
  const std::optional<int64_t> first = findNotFinite(tensor.as<char>(), tensor.dtype, tensor.elements());
  if (!first)
    return "";
  std::vector<int64_t> index(tensor.shape.size());
  int64_t rest = *first;
  for (size_t dim = tensor.shape.size(); dim-- > 0; rest /= tensor.shape[dim])
    index[dim] = rest % tensor.shape[dim];
  return (std::isnan(elementAt(tensor.as<char>(), tensor.dtype, *first)) ? "NaN at " : "Inf at ") + shapeText(index);
}

/// Calls visit(T{}) with the element type T of a dtype.
template <class Visit> static void withElement(int32_t dtype, Visit visit) {
  dtype == MOERT_I32 ? visit(int32_t{}) : withAnyFloating(dtype, visit);
}

static double numberOf(Field) { return 1; }
static double numberOf(int32_t element) { return element; }
template <class T> static double numberOf(T element) { return convert<double>(element); }
static double differenceOf(Field a, Field b) { return a != b; }
template <class T> static double differenceOf(T a, T b) { return numberOf(a) - numberOf(b); }

double squaredNorm(const Tensor &a) {
  double sum = 0;
  withElement(a.dtype, [&]<class T>(T) {
    for (int64_t i = 0, e = a.elements(); i < e; ++i) {
      const double number = numberOf(a.as<T>()[i]);
      sum += number * number;
    }
  });
  return sum;
}

double squaredDistance(const void *a, const void *b, int32_t dtype, int64_t elements) {
  double sum = 0;
  withElement(dtype, [&]<class T>(T) {
    const auto *x = static_cast<const T *>(a), *y = static_cast<const T *>(b);
    for (int64_t i = 0; i < elements; ++i) {
      const double difference = differenceOf(x[i], y[i]);
      sum += difference * difference;
    }
  });
  return sum;
}

} // namespace moert::run
