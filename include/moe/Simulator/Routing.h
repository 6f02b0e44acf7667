//===- Routing.h - choices of experts by rank -------------------*- C++ -*-===//
//
// Input of the simulator for uneven routing: counts of a real training run, or synthetic ones with the same statistics.
//
//===----------------------------------------------------------------------===//
#ifndef MOE_SIMULATOR_ROUTING_H
#define MOE_SIMULATOR_ROUTING_H

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/StringRef.h"
#include "llvm/Support/Error.h"

#include <cstdint>
#include <limits>
#include <map>
#include <optional>
#include <vector>

namespace mlir::moe {

/// Counts by rank, layer and iteration. All layers and iterations have the same ranks and experts. A file has one JSON
/// object in each line, for an iteration and a layer (docs/Routing.md):
/// {"iteration": 0, "layer": 0, "counts": [[rank 0's assignments to expert 0, 1, ..], [rank 1's ..], ..]}
/// `layer` counts the MoE layers of the model from 0. Files of moe-run also have "choices", the experts that each token
/// chose.
class RoutingTrace {
public:
  /// An expert in choices.
  using Choice = uint16_t;
  /// Stands for no expert.
  static constexpr Choice kNoChoice = std::numeric_limits<Choice>::max();

  /// An error is a complete diagnostic, `file:line: error: ..`.
  static llvm::Expected<RoutingTrace> parse(llvm::StringRef text, llvm::StringRef fileName);
  static llvm::Expected<RoutingTrace> load(llvm::StringRef path);
  void write(llvm::raw_ostream &os) const;

  /// Sorted.
  std::vector<int64_t> getIterations() const;
  /// One more than the last layer of any iteration.
  int64_t getNumLayers() const;
  int64_t getNumRanks() const { return ranks; }
  int64_t getNumExperts() const { return experts; }
  /// [ranks * experts]; null if the trace does not have it.
  const std::vector<int32_t> *getCounts(int64_t iteration, int64_t layer) const;
  /// `counts` is [ranks * experts]. `ranks` and `experts` must be those of earlier calls.
  void setCounts(int64_t iteration, int64_t layer, int64_t ranks, int64_t experts, std::vector<int32_t> counts);
  /// Choices of the tokens of a rank, token by token; empty if the trace does not have them.
  llvm::ArrayRef<Choice> getChoices(int64_t iteration, int64_t layer, int64_t rank) const;
  /// Sets the choices of all ranks, one rank after the other with the same number each. The counts must be those of
  /// these choices.
  void setChoices(int64_t iteration, int64_t layer, std::vector<Choice> choices);

private:
  int64_t ranks = 0, experts = 0;
  std::map<std::pair<int64_t, int64_t>, std::vector<int32_t>> counts;
  std::map<std::pair<int64_t, int64_t>, std::vector<Choice>> choices;
};

/// Skew of the choices of a layer's experts. docs/Routing.md has the source of each constant.
struct RoutingPreset {
  llvm::StringLiteral name;
  /// Standard deviation of log p in late iterations, with the probability p of an expert. 0 is even routing. If absent,
  /// it follows from `groups`.
  std::optional<double> skew;
  double groups;       ///< number of groups of similar tokens that choose independently of each other
  double fastFraction; ///< part of the skew that changes within a few iterations; the rest stays for hundreds
  bool grows;          ///< whether routing is near uniform at iteration 0 and skewed within ten
  int64_t first = 0;   ///< iteration that the preset stands for; 0 if all have the same statistics

  /// Skew if each token chooses `topK` of `experts` experts.
  double getSkew(int64_t experts, int64_t topK) const;
};

/// FasterMoE's traces, in which nothing balances the experts, after the first hundreds of iterations.
inline constexpr RoutingPreset kUnbalancedRouting{"unbalanced", 2.7, 0, 0.022, true, 500};
/// A loss balances the experts: a skew of 0.3 for 6 of 64 experts, of which 0.24 stays.
inline constexpr RoutingPreset kAuxLossRouting{"aux-loss", std::nullopt, 107, 0.6, false};
/// A loss balances the experts over a batch of many devices, and micro-batches may be less even: a skew of 0.65 for 8
/// of 128 experts.
inline constexpr RoutingPreset kGlobalLossRouting{"global-loss", std::nullopt, 36, 0.6, false};
/// A bias in the selection balances the experts: a skew of 0.23 for 8 of 256 experts, of which 0.017 stays.
inline constexpr RoutingPreset kAuxFreeRouting{"aux-free", std::nullopt, 586, 0.991, false};

/// --synthetic-routing=KEY=VALUE,..: a trace with the statistics of real training. p = softmax(z), z is a
/// two-time-scale AR(1) process, each rank draws from a multinomial distribution, and no expert gets more than 1 / k of
/// the choices. docs/Routing.md compares it with published figures.
struct SyntheticRouting {
  uint64_t seed = 0;
  int64_t iterations = 1; ///< number of iterations
  int64_t first = 0; ///< first iteration; without balancing, early ones are near uniform. parse() sets the preset's
  RoutingPreset preset = kAuxLossRouting;

  /// Reads `preset=NAME,seed=N,iterations=N,first=N,skew=X`, each optional. An error names the key. A skew without a
  /// preset is one of unbalanced routing.
  static llvm::Expected<SyntheticRouting> parse(llvm::StringRef text);
  /// Each of the `tokens` tokens of a rank chooses `topK` different ones of at least as many experts. Layers do not
  /// depend on the number of layers, only on the seed.
  RoutingTrace generate(int64_t ranks, int64_t layers, int64_t experts, int64_t tokens, int64_t topK) const;
};

/// Spreads every rank's assignments as evenly as whole numbers allow, with the remainders of different ranks on
/// different experts. Two counts of a row or a column differ by at most one. [ranks * experts].
std::vector<int32_t> makeEvenCounts(int64_t ranks, int64_t experts, int64_t assignments);

/// Loads of ranks in layers with synthetic routing (docs/Routing.md). Each token chooses `topK` of `experts` experts.
class RankLoads {
public:
  RankLoads(const RoutingPreset &preset, int64_t experts, int64_t topK);

  /// Share of layers in which one of `ranks` ranks gets more than `load` times the mean load. Each rank has the same
  /// number of experts; 0 if that is impossible.
  double getShareAbove(double load, int64_t ranks) const;
  /// Mean over the layers of the load of the busiest of `ranks` ranks, relative to the mean load; 0 if ranks cannot
  /// have equally many experts.
  double getMeanLoad(int64_t ranks) const;

private:
  /// The load of the busiest rank in each layer, relative to the mean load.
  std::vector<double> getLoads(int64_t ranks) const;

  RoutingTrace trace;
};

} // namespace mlir::moe

#endif // MOE_SIMULATOR_ROUTING_H
