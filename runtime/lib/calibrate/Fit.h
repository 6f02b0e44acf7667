//===- Fit.h - least squares of measured times ----------------------------===//
#ifndef MOERT_CALIBRATE_FIT_H
#define MOERT_CALIBRATE_FIT_H

#include <cstddef>
#include <vector>

namespace moert::calibrate {

/// Measurement: a call that moves `bytes` takes `seconds`.
struct Sample {
  double bytes = 0;
  double seconds = 0;
};

/// Line of seconds = latency + perByte * bytes.
struct Fit {
  double latency = 0;
  double perByte = 0;
  double r2 = 1;            ///< share of the variance of log(seconds) that the fit explains
  double relativeError = 0; ///< mean of |predicted - measured| / measured

  double at(double bytes) const { return latency + perByte * bytes; }
};

/// Fits a line by least squares of the relative errors: a microsecond counts for more in a call of ten than in one of a
/// thousand. Neither coefficient is negative. Samples must have positive bytes and seconds.
Fit fitLine(const std::vector<Sample> &samples);

/// Mean distance of a curve's values from the interpolation of their two neighbours, as a fraction of them. The
/// interpolation is linear in logarithms, along an axis whose points are `stride` values apart. 0 if no point has two
/// neighbours.
double neighbourError(const std::vector<double> &axis, const std::vector<double> &values, std::size_t stride);

} // namespace moert::calibrate

#endif // MOERT_CALIBRATE_FIT_H
