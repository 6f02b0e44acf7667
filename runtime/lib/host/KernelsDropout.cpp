//===- KernelsDropout.cpp - dropout ----------------------------------------===//

#include "core/Positions.h"
#include "host/DropoutFactors.h"
#include "host/KernelSupport.h"

namespace moert::host {
namespace {

/// Applies a mask. x begins at `row` and `column` of the whole value. Rows of cut sequences have the places of `order`.
template <class T, class Mask>
void dropRows(const T *x, T *out, int64_t rows, int64_t columns, Mask mask, int64_t row, int64_t column,
              const SequenceOrder &order) {
  constexpr int64_t most = 256;
  T factors[most];
  for (int64_t s = 0; s < rows; ++s) {
    const int64_t place = order.parts > 1 ? wholeRow(order, row + s) : row + s;
    for (int64_t begin = 0; begin < columns; begin += most) {
      const int64_t count = std::min(most, columns - begin);
      const T *in = x + s * columns + begin;
      T *to = out + s * columns + begin;
      dropoutFactors(mask, place, column + begin, count, factors);
      MOERT_SIMD
      for (int64_t i = 0; i < count; ++i)
        to[i] = factors[i] * in[i];
    }
  }
}

} // namespace

void dropout(Checker &, View x, View step, View out, int64_t seed, Part rows, Part columns, Noise noise,
             SequenceOrder order) {
  auto run = [&](auto mask) {
    withFloating(x.dtype, [&]<class T>(T) {
      dropRows(x.as<const T>(), out.as<T>(), x.dims[0], x.dims[1], mask, rows.index() * x.dims[0],
               columns.index() * x.dims[1], order);
    });
  };
  if (const int32_t at = *step.as<const int32_t>(); noise.jitter)
    run(JitterMask(seed, at, noise.p));
  else
    run(DropoutMask(seed, at, noise.p));
}

} // namespace moert::host
