//===- Jumps.cpp - arguments near a jump of a derivative ------------------===//

#include "verify/Jumps.h"
#include "core/Attributes.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

namespace moert::verify {
namespace {

/// Largest distance of an argument from a jump, in units of roundoff of the arguments of its row. If terms are added
/// one by one, a sum of K rounds by 0.4 sqrt(K) units of the root mean square of such sums (one standard deviation).
/// One of 10 million differences of two such sums has six deviations: 220 units for 4096 terms.
constexpr double kNearUnits = 256;

/// Jumps of the derivative by the arguments of even and of odd columns.
struct Jumps {
  std::vector<double> even, odd;
};

Jumps jumpsOf(const Call &call) {
  if (call.kind == Kind::ClampGrad) {
    const double limit = attributes::ClampGrad::of(call).limit;
    return {{-limit, limit}, {-limit, limit}};
  }
  if (call.kind != Kind::ActivationGrad)
    return {};
  const auto form = attributes::ActivationGrad::of(call);
  if (form.kind == MOERT_RELU)
    return {{0}, {0}};
  if (form.kind == MOERT_SWIGLU_CLAMPED)
    return {{form.limit}, {-form.limit, form.limit}};
  return {};
}

/// The other side of `jump` from `x`, as far from it as `x` if possible.
template <class T> T acrossFrom(T x, T jump) {
  if (x != jump)
    return 2 * jump - x;
  return jump == 0 ? std::numeric_limits<T>::min() : std::nextafter(jump, std::numeric_limits<T>::infinity());
}

template <class T>
void decideRows(View in, int64_t rows, const Jumps &jumps, moert_near &near, const VerifyModes &modes) {
  const int64_t columns = in.dims[in.rank - 1];
  for (int64_t r = 0; r < rows; ++r) {
    T *row = in.as<T>() + r * columns;
    double square = 0;
    for (int64_t n = 0; n < columns; ++n)
      square += double(row[n]) * double(row[n]);
    const double size = std::sqrt(square / static_cast<double>(columns));
    for (int64_t n = 0; n < columns; ++n)
      for (double jump : n % 2 ? jumps.odd : jumps.even) {
        const double unit = unitRoundoff(in.dtype) * std::max(size, std::abs(jump));
        if (!(std::abs(double(row[n]) - jump) < kNearUnits * unit))
          continue;
        near.element = r * columns + n;
        near.is_above = row[n] > T(jump);
        if ((modes.decide(modes.decideContext, &near) != 0) != (near.is_above != 0))
          row[n] = acrossFrom(row[n], T(jump));
      }
  }
}

} // namespace

void decideJumps(const Call &call, int64_t earlier, const VerifyModes &modes) {
  const Jumps jumps = jumpsOf(call);
  const View &in =
      call.kind == Kind::ClampGrad ? call.views[operands::ClampGrad::in] : call.views[operands::ActivationGrad::in];
  if (jumps.even.empty() || in.rank == 0)
    return;
  const int64_t used = usedRows(call);
  const int64_t rows = used >= 0 ? used : in.elements() / std::max<int64_t>(in.dims[in.rank - 1], 1);
  moert_near near{call.rank, call.op, earlier, 0, 0};
  if (in.dtype == MOERT_F32)
    decideRows<float>(in, rows, jumps, near, modes);
  else if (in.dtype == MOERT_F64)
    decideRows<double>(in, rows, jumps, near, modes);
}

} // namespace moert::verify
