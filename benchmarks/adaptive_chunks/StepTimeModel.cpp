//===- StepTimeModel.cpp - what measured steps say about others -----------===//

#include "StepTimeModel.h"

#include <algorithm>
#include <cmath>

namespace moert {
namespace {

using Matrix = std::vector<std::vector<double>>;

double squared(double x) { return x * x; }

/// The lower Cholesky factor of a symmetric positive definite matrix, in place.
void factorise(Matrix &a) {
  for (size_t i = 0; i < a.size(); ++i)
    for (size_t j = 0; j <= i; ++j) {
      double sum = a[i][j];
      for (size_t k = 0; k < j; ++k)
        sum -= a[i][k] * a[j][k];
      // Noise on the diagonal keeps it positive but for rounding.
      a[i][j] = i == j ? std::sqrt(std::max(sum, 1e-12)) : sum / a[j][j];
    }
}

/// x with factor x = b, in place.
void solveLower(const Matrix &factor, std::vector<double> &b) {
  for (size_t i = 0; i < b.size(); ++i) {
    for (size_t k = 0; k < i; ++k)
      b[i] -= factor[i][k] * b[k];
    b[i] /= factor[i][i];
  }
}

double dot(const std::vector<double> &a, const std::vector<double> &b) {
  double sum = 0;
  for (size_t i = 0; i < a.size(); ++i)
    sum += a[i] * b[i];
  return sum;
}

} // namespace

double StepEstimate::deviation(size_t a, size_t b) const {
  return std::sqrt(std::max(0.0, covariance[a][a] + covariance[b][b] - 2 * covariance[a][b]));
}

void StepTimeModel::add(int64_t batch, size_t index, double seconds, const std::vector<double> &predicted) {
  double logBatch = std::log(static_cast<double>(batch)), logSeconds = std::log(seconds);
  double logRatio = predicted.empty() ? 0 : logSeconds - std::log(predicted[index]);
  constexpr double kBinsOfOctave = 4;
  Bin &bin = bins[{index, std::llround(std::log2(static_cast<double>(batch)) * kBinsOfOctave)}];
  bin.count += 1;
  bin.logBatch += (logBatch - bin.logBatch) / bin.count;
  bin.logSeconds += (logSeconds - bin.logSeconds) / bin.count;
  bin.logRatio += (logRatio - bin.logRatio) / bin.count;

  std::vector<Repeats> &all = repeats[batch];
  all.resize(chunks.size());
  Repeats &same = all[index];
  same.count += 1;
  double before = logSeconds - same.mean;
  same.mean += before / same.count;
  squares += before * (logSeconds - same.mean);
  freedom += same.count > 1;
  ++total;
  unpredicted += predicted.empty();
}

/// The relative standard deviation of one measurement: what repetitions show, and at first what is usual.
double StepTimeModel::noise() const {
  constexpr double kUsual = 0.01, kWeight = 4;
  return std::sqrt((squares + kWeight * squared(kUsual)) / (freedom + kWeight));
}

StepTimeModel::Scale StepTimeModel::scaleOf(const std::vector<double> &predicted) const {
  Scale scale{!predicted.empty() && unpredicted == 0, 0, 0};
  double count = 0;
  for (const auto &[key, bin] : bins) {
    scale.logBatch += bin.logBatch;
    scale.logLevel += scale.predicted ? bin.logRatio : bin.logSeconds;
    count += 1;
  }
  scale.logBatch /= count;
  scale.logLevel /= count;
  return scale;
}

double StepTimeModel::logUnit(const Point &point, const Scale &scale) const {
  if (scale.predicted)
    return scale.logLevel;
  // Between constant and proportional to the batch.
  return scale.logLevel + std::log(0.5 + 0.5 * std::exp(point.logBatch - scale.logBatch));
}

double StepTimeModel::prior(const Point &a, const Point &b, const Scale &scale) const {
  double x = a.logBatch - scale.logBatch, y = b.logBatch - scale.logBatch, same = a.index == b.index;
  constexpr double kBend = 0.03, kLength = 0.8;
  double bend = same * squared(kBend) * std::exp(-squared((x - y) / kLength) / 2);
  if (scale.predicted) {
    constexpr double kTilt = 0.3, kOwn = 0.1, kOwnTilt = 0.03;
    return 1 + squared(kTilt) * x * y + same * (squared(kOwn) + squared(kOwnTilt) * x * y) + bend;
  }
  // The shares of the constant and of the proportional part.
  double p = 1 / (1 + std::exp(x)), q = 1 / (1 + std::exp(y));
  auto n = static_cast<double>(chunks[a.index]), m = static_cast<double>(chunks[b.index]);
  auto most = static_cast<double>(chunks.back());
  constexpr double kShared = 2, kByCount = 1, kOwn = 0.1;
  double own = same * squared(kOwn);
  double constant = squared(kShared) + squared(kByCount) * n * m / squared(most) + own;
  double proportional = squared(kShared) + squared(kByCount) / (n * m) + own;
  return p * q * constant + (1 - p) * (1 - q) * proportional + bend;
}

StepEstimate StepTimeModel::estimate(int64_t batch, const std::vector<double> &predicted) const {
  Scale scale = scaleOf(predicted);
  std::vector<Point> places;
  std::vector<double> residuals, noises;
  for (const auto &[key, bin] : bins) {
    places.push_back({key.first, bin.logBatch});
    double value = std::exp((scale.predicted ? bin.logRatio : bin.logSeconds) - logUnit(places.back(), scale));
    // The prior's mean is 1 everywhere.
    residuals.push_back(value - 1);
    noises.push_back(squared(value * noise()) / bin.count);
  }
  Matrix factor(places.size(), std::vector<double>(places.size()));
  for (size_t i = 0; i < places.size(); ++i)
    for (size_t j = 0; j <= i; ++j)
      factor[i][j] = prior(places[i], places[j], scale) + (i == j ? noises[i] : 0);
  factorise(factor);
  solveLower(factor, residuals);

  StepEstimate result;
  std::vector<std::vector<double>> rows;
  std::vector<double> units;
  double logBatch = std::log(static_cast<double>(batch));
  for (size_t k = 0; k < chunks.size(); ++k) {
    Point here{k, logBatch};
    std::vector<double> &row = rows.emplace_back();
    for (const Point &place : places)
      row.push_back(prior(here, place, scale));
    solveLower(factor, row);
    units.push_back(std::exp(logUnit(here, scale)) * (scale.predicted ? predicted[k] : 1));
    result.mean.push_back(units[k] * (1 + dot(row, residuals)));
  }
  for (size_t a = 0; a < chunks.size(); ++a) {
    result.covariance.emplace_back();
    for (size_t b = 0; b < chunks.size(); ++b)
      result.covariance[a].push_back(units[a] * units[b] *
                                     (prior({a, logBatch}, {b, logBatch}, scale) - dot(rows[a], rows[b])));
  }
  return result;
}

} // namespace moert
