//===- Fit.h - least squares of measured times ----------------------------===//
#ifndef MOERT_CALIBRATE_FIT_H
#define MOERT_CALIBRATE_FIT_H

#include <cstddef>
#include <vector>

namespace moert::calibrate {

/// What was measured: a call that moves `bytes` takes `seconds`.
struct Sample {
  double bytes = 0;
  double seconds = 0;
};

/// seconds = latency + perByte * bytes.
struct Fit {
  double latency = 0;
  double perByte = 0;
  double r2 = 1;            ///< share of the variance of log(seconds) that the fit explains
  double relativeError = 0; ///< mean of |predicted - measured| / measured

  double at(double bytes) const { return latency + perByte * bytes; }
};

/// Least squares of the relative errors: a microsecond counts for more where the call takes ten than where it takes a
/// thousand. Neither coefficient is negative. Samples must have positive bytes and seconds.
Fit fitLine(const std::vector<Sample> &samples);

/// How far the values of a curve are from what their two neighbours say, as a fraction of them, in the mean: linear in
/// logarithms, along an axis whose points are `stride` values apart. 0 where no point has two neighbours.
double neighbourError(const std::vector<double> &axis, const std::vector<double> &values, std::size_t stride);

} // namespace moert::calibrate

#endif // MOERT_CALIBRATE_FIT_H
