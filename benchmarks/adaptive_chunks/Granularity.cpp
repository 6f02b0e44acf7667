//===- Granularity.cpp - into how many chunks to cut a step ---------------===//

#include "Granularity.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <string>

namespace moert {
namespace {

/// Steps from one trial to the next.
constexpr int64_t kStepsOfTrial = 8;
/// Differences below this share of a step are not worth a trial.
constexpr double kTie = 0.01;

/// By how much a normal variable of this mean and deviation lies below 0 on average, counting nothing above 0.
double expectedGain(double mean, double deviation) {
  if (deviation <= 0)
    return std::max(0.0, -mean);
  double z = mean / deviation;
  double density = std::exp(-z * z / 2) / std::sqrt(2 * std::numbers::pi);
  double below = 0.5 * std::erfc(z / std::sqrt(2.0));
  return deviation * density - mean * below;
}

size_t fastest(const StepEstimate &estimate, size_t low, size_t high) {
  auto first = estimate.mean.begin();
  return static_cast<size_t>(
      std::min_element(first + static_cast<int64_t>(low), first + static_cast<int64_t>(high) + 1) - first);
}

} // namespace

Status Granularity::create(std::vector<int64_t> chunks, std::optional<Granularity> &policy) {
  if (chunks.empty())
    return invalid("expected at least one chunk count but got none");
  for (size_t i = 0; i < chunks.size(); ++i)
    if (chunks[i] < 1 || (i > 0 && chunks[i] <= chunks[i - 1]))
      return invalid("expected chunk counts of 1 or more that rise strictly, but number " + std::to_string(i) + " is " +
                     std::to_string(chunks[i]));
  policy = Granularity(std::move(chunks));
  return {};
}

/// Three measurements of each count tell constant, slope and noise; more than that must come from steps that are run
/// anyway.
int64_t Granularity::trialBudget() const {
  constexpr int64_t kTrialsOfCount = 3;
  return kTrialsOfCount * static_cast<int64_t>(chunks.size());
}

/// One trial for each count at once; the others spread out, so that steps that are run anyway come between.
bool Granularity::isTrialDue() const {
  auto counts = static_cast<int64_t>(chunks.size());
  return trialCount < counts || model.measurements() >= kStepsOfTrial * (trialCount - counts);
}

std::optional<size_t> Granularity::findRange(int64_t batch) const {
  for (const auto &[index, bounds] : rangeOf)
    if (bounds.lower <= batch && batch <= bounds.upper)
      return index;
  return std::nullopt;
}

/// The least and the greatest count that the ranges on both sides allow, the optimum rising with the batch.
std::pair<size_t, size_t> Granularity::neighbours(int64_t batch) const {
  size_t low = 0, high = chunks.size() - 1;
  for (const auto &[index, bounds] : rangeOf) {
    if (bounds.upper < batch)
      low = std::max(low, index);
    if (bounds.lower > batch)
      high = std::min(high, index);
  }
  return {low, high};
}

/// From the best outwards on both sides to the turning point, a count that is surely slower: the count that is most
/// worth measuring, or none.
std::optional<size_t> Granularity::nextTrial(const StepEstimate &estimate, size_t best, size_t low, size_t high) const {
  std::optional<size_t> trial;
  // The later, the more a trial must promise: steps that are run anyway may tell as much.
  double spent = static_cast<double>(trialCount) / static_cast<double>(trialBudget());
  double most = kTie * (0.2 + spent) * estimate.mean[best];
  for (int64_t step : {-1, 1})
    for (auto k = static_cast<int64_t>(best) + step; k >= static_cast<int64_t>(low) && k <= static_cast<int64_t>(high);
         k += step) {
      auto other = static_cast<size_t>(k);
      double behind = estimate.mean[other] - estimate.mean[best], deviation = estimate.deviation(other, best);
      if (double gain = expectedGain(behind, deviation); gain > most) {
        most = gain;
        trial = other;
      }
      constexpr double kSurely = 2;
      if (behind > std::max(kSurely * deviation, kTie * estimate.mean[best]))
        break;
    }
  return trial;
}

/// Gives the batch size to a count: the count's range is inserted or widened, and what stands against the order of the
/// ranges is withdrawn.
void Granularity::assign(int64_t batch, Known &known, size_t index) {
  known.index = index;
  known.decided = true;
  known.measurements = model.measurements();
  for (auto it = rangeOf.begin(); it != rangeOf.end();) {
    Bounds &bounds = it->second;
    if (it->first < index)
      bounds.upper = std::min(bounds.upper, batch - 1);
    if (it->first > index)
      bounds.lower = std::max(bounds.lower, batch + 1);
    it = bounds.lower > bounds.upper ? rangeOf.erase(it) : std::next(it);
  }
  for (auto &[other, entry] : table)
    if ((other > batch && entry.index < index) || (other < batch && entry.index > index))
      entry.decided = false;
  auto [it, isNew] = rangeOf.try_emplace(index, Bounds{batch, batch});
  it->second.lower = std::min(it->second.lower, batch);
  it->second.upper = std::max(it->second.upper, batch);
}

/// Rarely looks again at what was decided: each time when there are half as many measurements again.
bool Granularity::isStale(const Known &known) const { return 2 * model.measurements() > 3 * known.measurements + 4; }

/// Steps that were run anyway may show that another count is faster.
void Granularity::reconsider(int64_t batch, Known &known) {
  known.measurements = model.measurements();
  StepEstimate estimate = model.estimate(batch, known.predicted);
  size_t best = fastest(estimate, 0, chunks.size() - 1);
  double gain = estimate.mean[known.index] - estimate.mean[best];
  // An estimate that is wrong the other way is corrected likewise, and soon, by the steps that it then costs.
  if (gain > estimate.deviation(known.index, best) / 2 && gain > kTie / 4 * estimate.mean[best])
    assign(batch, known, best);
}

size_t Granularity::search(int64_t batch, Known &known, bool &trial) {
  auto [low, high] = neighbours(batch);
  trial = false;
  if (low >= high || model.measurements() == 0) {
    // Before the first measurement there is only what is predicted to believe.
    size_t index = low;
    if (low < high && known.predicted.empty()) {
      trial = true;
      index = low + (high - low) / 2;
    } else if (low < high) {
      auto first = known.predicted.begin();
      return static_cast<size_t>(std::min_element(first, known.predicted.end()) - first);
    }
    if (!trial)
      assign(batch, known, index);
    return index;
  }
  StepEstimate estimate = model.estimate(batch, known.predicted);
  size_t best = fastest(estimate, low, high);
  std::optional<size_t> other = nextTrial(estimate, best, low, high);
  if (trialCount >= trialBudget() || !other)
    assign(batch, known, best);
  else
    trial = isTrialDue();
  return trial ? *other : best;
}

Status Granularity::choose(int64_t batch, const std::vector<double> &predicted, int64_t &chunkCount, bool &trial) {
  if (batch < 1)
    return invalid("expected a batch of 1 token or more but got " + std::to_string(batch));
  if (!predicted.empty() && predicted.size() != chunks.size())
    return invalid("expected predicted seconds for " + std::to_string(chunks.size()) + " chunk counts but got " +
                   std::to_string(predicted.size()));
  for (double seconds : predicted)
    if (!(seconds > 0) || !std::isfinite(seconds))
      return invalid("expected predicted seconds above 0 but got " + std::to_string(seconds));
  Known &known = table[batch];
  known.predicted = predicted;
  trial = false;
  if (known.decided && isStale(known))
    reconsider(batch, known);
  if (!known.decided) {
    if (std::optional<size_t> index = findRange(batch)) {
      known.index = *index;
      known.decided = true;
      known.measurements = 0;
    } else {
      known.index = search(batch, known, trial);
    }
  }
  trialCount += trial;
  chunkCount = chunks[known.index];
  return {};
}

Status Granularity::report(int64_t batch, int64_t chunkCount, double seconds) {
  if (batch < 1)
    return invalid("expected a batch of 1 token or more but got " + std::to_string(batch));
  if (!(seconds > 0) || !std::isfinite(seconds))
    return invalid("expected seconds above 0 but got " + std::to_string(seconds));
  auto found = std::find(chunks.begin(), chunks.end(), chunkCount);
  if (found == chunks.end())
    return invalid("expected one of the chunk counts of the policy but got " + std::to_string(chunkCount));
  auto known = table.find(batch);
  static const std::vector<double> none;
  model.add(batch, static_cast<size_t>(found - chunks.begin()), seconds,
            known == table.end() ? none : known->second.predicted);
  return {};
}

std::vector<Granularity::Range> Granularity::ranges() const {
  std::vector<Range> result;
  for (const auto &[index, bounds] : rangeOf)
    result.push_back({chunks[index], bounds.lower, bounds.upper});
  return result;
}

} // namespace moert
