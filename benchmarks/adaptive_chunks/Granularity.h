//===- Granularity.h - into how many chunks to cut a step -----------------===//
//
// MPipeMoE's Algorithm 1: ranges of batch sizes in the order of their chunk counts, a table of batch sizes seen, and a
// search between the neighbouring ranges' counts where a batch size lies in no range. Training steps are the trials.
// Every step's time is a measurement, from which StepTimeModel estimates the times of other batch sizes and counts: a
// step is spent on a trial only where the estimates do not tell which count is best.
//
//===----------------------------------------------------------------------===//
#ifndef BENCHMARKS_ADAPTIVE_CHUNKS_GRANULARITY_H
#define BENCHMARKS_ADAPTIVE_CHUNKS_GRANULARITY_H

#include "StepTimeModel.h"
#include "core/View.h"

#include <optional>

namespace moert {

class Granularity {
public:
  /// Batch sizes from `lower` to `upper` are best cut into `chunks`.
  struct Range {
    int64_t chunks, lower, upper;
  };

  /// `chunks` must rise strictly and be positive.
  static Status create(std::vector<int64_t> chunks, std::optional<Granularity> &policy);

  /// The chunk count for a step of `batch` tokens; `predicted` seconds by chunk count, or empty. `trial`: the count is
  /// not the one believed best.
  Status choose(int64_t batch, const std::vector<double> &predicted, int64_t &chunkCount, bool &trial);
  /// How long a step took.
  Status report(int64_t batch, int64_t chunkCount, double seconds);

  const std::vector<int64_t> &chunkCounts() const { return chunks; }
  int64_t trials() const { return trialCount; }
  /// Disjoint, in the order of batch sizes and of chunk counts.
  std::vector<Range> ranges() const;

private:
  explicit Granularity(std::vector<int64_t> counts) : chunks(counts), model(std::move(counts)) {}

  /// A batch size that was seen.
  struct Known {
    size_t index = 0;
    int64_t measurements = 0; ///< that there were when `index` was looked at last
    bool decided = false;
    std::vector<double> predicted;
  };
  struct Bounds {
    int64_t lower, upper;
  };

  int64_t trialBudget() const;
  bool isTrialDue() const;
  std::pair<size_t, size_t> neighbours(int64_t batch) const;
  std::optional<size_t> findRange(int64_t batch) const;
  std::optional<size_t> nextTrial(const StepEstimate &estimate, size_t best, size_t low, size_t high) const;
  bool isStale(const Known &known) const;
  void reconsider(int64_t batch, Known &known);
  void assign(int64_t batch, Known &known, size_t index);
  size_t search(int64_t batch, Known &known, bool &trial);

  std::vector<int64_t> chunks;
  StepTimeModel model;
  std::map<size_t, Bounds> rangeOf;         ///< by index of the chunk count
  std::unordered_map<int64_t, Known> table; ///< by batch size
  int64_t trialCount = 0;
};

} // namespace moert

#endif // BENCHMARKS_ADAPTIVE_CHUNKS_GRANULARITY_H
