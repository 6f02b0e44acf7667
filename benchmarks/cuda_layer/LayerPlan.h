//===- LayerPlan.h - one layer's plan on a backend ------------------------===//
#ifndef BENCHMARKS_CUDA_LAYER_LAYERPLAN_H
#define BENCHMARKS_CUDA_LAYER_LAYERPLAN_H

#include "moert/world.h"

#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

/// Experts that each token chose, token by token, the k best first.
using Choices = std::vector<uint8_t>;

/// A plan of one rank with arguments x [T, M], gate [M, E], w1 [E, M, 2 H], w2 [E, H, M] and cotangents. Errors are
/// thrown.
class LayerPlan {
public:
  /// Creates random values, equal for plans of all types. `x` and `gate` are such that each token makes the given
  /// choices. `graphs` says whether steps become CUDA graphs.
  LayerPlan(const std::string &path, const char *backend, uint64_t seed, const Choices &choices, bool graphs = false);
  ~LayerPlan();
  LayerPlan(const LayerPlan &) = delete;
  LayerPlan &operator=(const LayerPlan &) = delete;

  /// Runs one step. Returns its seconds by events of the device, or by the host's clock if it has none.
  double run();
  /// Runs one step. Returns the device's seconds by the name of ops.
  std::map<std::string, double> runTimed();
  /// Runs one step, after which no step becomes a graph. Returns whether each token made the given choices, in any
  /// order.
  bool choosesAsExpected();
  /// Number of steps so far that were launches of a CUDA graph.
  int64_t graphSteps();
  /// || mine - theirs || / || theirs || of each result. The reference is in f64.
  std::map<std::string, double> errorsAgainst(LayerPlan &reference);

  int64_t model() const { return w1Shape[1]; }
  int64_t hidden() const { return w1Shape[2] / 2; }
  int64_t experts() const { return w1Shape[0]; }
  std::vector<int64_t> counts() const;

private:
  void fill(int64_t index, const nlohmann::json &argument, uint64_t seed);
  std::vector<uint16_t> valuesOf(const nlohmann::json &argument, uint64_t seed) const;
  void write(int64_t index, const std::string &dtype, const std::vector<uint16_t> &values);
  std::vector<char> readResult(size_t result);

  Choices choices;
  moert_plan_t plan = nullptr;
  moert_world_t world = nullptr;
  nlohmann::json program;
  std::vector<int64_t> w1Shape;
  int64_t choicesOfToken = 0;
};

#endif // BENCHMARKS_CUDA_LAYER_LAYERPLAN_H
