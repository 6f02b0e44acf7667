//===- Fit.cpp - least squares of measured times --------------------------===//

#include "calibrate/Profile.h"

#include <cmath>

namespace moert::calibrate {
namespace {

/// Minimises the sum of (latency u + perByte v - 1)^2 with u = 1 / seconds, v = bytes / seconds.
Fit solve(const std::vector<Sample> &samples) {
  double uu = 0, uv = 0, vv = 0, u = 0, v = 0;
  for (const Sample &sample : samples) {
    double a = 1 / sample.seconds, b = sample.bytes / sample.seconds;
    uu += a * a;
    uv += a * b;
    vv += b * b;
    u += a;
    v += b;
  }
  double determinant = uu * vv - uv * uv;
  Fit fit;
  // Samples of only one size cannot separate latency from rate. Then all of the time is rate.
  if (determinant > 1e-12 * uu * vv) {
    fit.latency = (u * vv - v * uv) / determinant;
    fit.perByte = (v * uu - u * uv) / determinant;
  } else {
    fit.perByte = v / vv;
  }
  // If the free optimum has a negative coefficient, the best one lies on the edge.
  if (fit.latency < 0) {
    fit.latency = 0;
    fit.perByte = v / vv;
  } else if (fit.perByte < 0) {
    fit.latency = u / uu;
    fit.perByte = 0;
  }
  return fit;
}

} // namespace

Fit fitLine(const std::vector<Sample> &samples) {
  if (samples.empty())
    return {};
  Fit fit = solve(samples);
  auto count = static_cast<double>(samples.size());
  double mean = 0, residual = 0, total = 0;
  for (const Sample &sample : samples)
    mean += std::log(sample.seconds) / count;
  for (const Sample &sample : samples) {
    double measured = std::log(sample.seconds), predicted = std::log(fit.at(sample.bytes));
    residual += (predicted - measured) * (predicted - measured);
    total += (measured - mean) * (measured - mean);
    fit.relativeError += std::abs(fit.at(sample.bytes) / sample.seconds - 1) / count;
  }
  fit.r2 = total > 0 ? 1 - residual / total : 1;
  return fit;
}

double neighbourError(const std::vector<double> &axis, const std::vector<double> &values, size_t stride) {
  double sum = 0;
  size_t count = 0;
  for (size_t at = 0; at < values.size(); ++at) {
    const size_t point = at / stride % axis.size();
    if (point == 0 || point + 1 == axis.size())
      continue;
    const double weight = std::log(axis[point] / axis[point - 1]) / std::log(axis[point + 1] / axis[point - 1]);
    const double low = values[at - stride], high = values[at + stride];
    sum += std::abs(low * std::pow(high / low, weight) / values[at] - 1);
    ++count;
  }
  return count > 0 ? sum / static_cast<double>(count) : 0;
}

} // namespace moert::calibrate
