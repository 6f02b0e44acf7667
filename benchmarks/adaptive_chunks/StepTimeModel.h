//===- StepTimeModel.h - what measured steps say about others -------------===//
//
// A Gaussian process over the seconds of a step of B tokens in n chunks. In a pipeline these are nearly affine in B for
// each n, nearly affine in n for the constant part and in 1/n for the rest, and bend where another resource becomes the
// longest: that is the prior. Where predicted seconds are given, the prior is that the truth is a smooth factor times
// them.
//
//===----------------------------------------------------------------------===//
#ifndef BENCHMARKS_ADAPTIVE_CHUNKS_STEPTIMEMODEL_H
#define BENCHMARKS_ADAPTIVE_CHUNKS_STEPTIMEMODEL_H

#include <cstddef>
#include <cstdint>
#include <map>
#include <unordered_map>
#include <utility>
#include <vector>

namespace moert {

/// Estimated seconds of each chunk count at one batch size: a joint normal distribution.
struct StepEstimate {
  std::vector<double> mean;
  std::vector<std::vector<double>> covariance;

  /// The standard deviation of the difference between two chunk counts.
  double deviation(std::size_t a, std::size_t b) const;
};

class StepTimeModel {
public:
  explicit StepTimeModel(std::vector<int64_t> chunks) : chunks(std::move(chunks)) {}

  /// A step of `batch` tokens in chunks[index] chunks took `seconds`. `predicted` is by chunk count, or empty.
  void add(int64_t batch, std::size_t index, double seconds, const std::vector<double> &predicted);
  /// Needs at least one measurement.
  StepEstimate estimate(int64_t batch, const std::vector<double> &predicted) const;

  int64_t measurements() const { return total; }

private:
  /// Measurements of one chunk count at nearly one batch size, averaged.
  struct Bin {
    double count = 0;
    double logBatch = 0, logSeconds = 0, logRatio = 0; ///< means; the ratio is that to the prediction
  };
  /// Repetitions of one chunk count at exactly one batch size.
  struct Repeats {
    double count = 0, mean = 0, squares = 0; ///< statistics of log seconds; `squares` are around the mean
  };
  /// One place of the process: a chunk count at a batch size.
  struct Point {
    std::size_t index;
    double logBatch;
  };
  /// Units in which all values are near 1.
  struct Scale {
    bool predicted;
    double logBatch; ///< size of a typical step
    double logLevel; ///< logarithm of its seconds, or of their ratio to the prediction
  };

  Scale scaleOf(const std::vector<double> &predicted) const;
  /// The logarithm of what the process's value at the point is a multiple of, but for the prediction.
  double logUnit(const Point &point, const Scale &scale) const;
  double prior(const Point &a, const Point &b, const Scale &scale) const;
  double noise() const;

  std::vector<int64_t> chunks;
  std::map<std::pair<std::size_t, int64_t>, Bin> bins; ///< by chunk count and quarter of an octave
  std::unordered_map<int64_t, std::vector<Repeats>> repeats;
  double squares = 0, freedom = 0; ///< sums over all repeats
  int64_t total = 0, unpredicted = 0;
};

} // namespace moert

#endif // BENCHMARKS_ADAPTIVE_CHUNKS_STEPTIMEMODEL_H
