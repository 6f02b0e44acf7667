//===- LayerPlan.h - one layer's plan on a backend ------------------------===//
#ifndef BENCHMARKS_CUDA_LAYER_LAYERPLAN_H
#define BENCHMARKS_CUDA_LAYER_LAYERPLAN_H

#include "moert/world.h"

#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

/// The expert that each token chose, token by token, the k best first.
using Choices = std::vector<uint8_t>;

/// A plan of one rank with arguments x [T, M], gate [M, E], w1 [E, M, 2 H], w2 [E, H, M] and cotangents. Errors are
/// thrown.
class LayerPlan {
public:
  /// Values are random, but for those of `x` and `gate` that let each token choose what `choices` says, and the same
  /// for plans of all types.
  LayerPlan(const std::string &path, const char *backend, uint64_t seed, const Choices &choices);
  ~LayerPlan();
  LayerPlan(const LayerPlan &) = delete;
  LayerPlan &operator=(const LayerPlan &) = delete;

  /// Seconds of one step.
  double run();
  /// One step; by the name of an op, the seconds that the device spent on all of that name.
  std::map<std::string, double> runTimed();
  /// One step; whether each token chose what it was to choose, in any order.
  bool choosesAsTold();
  /// || mine - theirs || / || theirs || of each result; the reference is in f64.
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
