//===- Routing.h - which rank sends how much to which expert ----*- C++ -*-===//
//
// The simulator's input where routing is uneven: counts of a real training run, or made up with the same statistics.
//
//===----------------------------------------------------------------------===//
#ifndef MOE_SIMULATOR_ROUTING_H
#define MOE_SIMULATOR_ROUTING_H

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/StringRef.h"
#include "llvm/Support/Error.h"
#include "llvm/Support/raw_ostream.h"

#include <cstdint>
#include <limits>
#include <map>
#include <optional>
#include <vector>

namespace mlir::moe {

/// Counts by rank, layer and iteration; the same numbers of ranks and experts everywhere. The file format is JSON
/// lines, one object for each iteration and layer, docs/CostModel.md:
///   {"iteration": 0, "layer": 0, "counts": [[rank 0's assignments to expert 0, 1, ..], [rank 1's ..], ..]}
/// `layer` counts the MoE layers of the model from 0. What moe-run records has "choices" too: which experts each token
/// chose. They take less memory than they do in the file.
class RoutingTrace {
public:
  /// An expert in choices.
  using Choice = uint16_t;
  /// No expert.
  static constexpr Choice kNoChoice = std::numeric_limits<Choice>::max();

  /// An error is a complete diagnostic, `file:line: error: ..`.
  static llvm::Expected<RoutingTrace> parse(llvm::StringRef text, llvm::StringRef fileName);
  static llvm::Expected<RoutingTrace> load(llvm::StringRef path);
  void write(llvm::raw_ostream &os) const;

  /// In rising order.
  std::vector<int64_t> getIterations() const;
  /// One more than the last layer that any iteration has.
  int64_t getNumLayers() const;
  int64_t getNumRanks() const { return ranks; }
  int64_t getNumExperts() const { return experts; }
  /// [ranks * experts], null where the trace does not have it.
  const std::vector<int32_t> *getCounts(int64_t iteration, int64_t layer) const;
  /// `counts` is [ranks * experts]; `ranks` and `experts` are those of the counts set before, if any.
  void setCounts(int64_t iteration, int64_t layer, int64_t ranks, int64_t experts, std::vector<int32_t> counts);
  /// What the tokens of a rank choose, token by token; empty where the trace does not have it.
  llvm::ArrayRef<Choice> getChoices(int64_t iteration, int64_t layer, int64_t rank) const;
  /// Of all ranks one after the other, each as many. They are those that the counts count.
  void setChoices(int64_t iteration, int64_t layer, std::vector<Choice> choices);

private:
  int64_t ranks = 0, experts = 0;
  std::map<std::pair<int64_t, int64_t>, std::vector<int32_t>> counts;
  std::map<std::pair<int64_t, int64_t>, std::vector<Choice>> choices;
};

/// How unevenly the experts of a layer are chosen. docs/CostModel.md says where each constant comes from.
struct RoutingPreset {
  llvm::StringLiteral name;
  /// Standard deviation of log p that late iterations tend to; 0 is even routing. Absent: that of `groups`.
  std::optional<double> skew;
  double groups;       ///< of alike tokens, as many as would choose independently of each other
  double fastFraction; ///< of the skew, that changes within a few iterations; the rest stays for hundreds
  bool grows;          ///< near uniform at iteration 0, skewed within ten; else the same at all iterations

  /// Where each token chooses `topK` of `experts` experts.
  double getSkew(int64_t experts, int64_t topK) const;
};

/// FasterMoE's traces: nothing balances the experts.
inline constexpr RoutingPreset kUnbalancedRouting{"unbalanced", 2.7, 0, 0.022, true};
/// A loss balances the experts: 0.3 for 6 of 64 experts, of which 0.24 stays.
inline constexpr RoutingPreset kAuxLossRouting{"aux-loss", std::nullopt, 107, 0.6, false};
/// A bias in the selection does: 0.23 for 8 of 256 experts. Hardly more stays than 0.017.
inline constexpr RoutingPreset kAuxFreeRouting{"aux-free", std::nullopt, 586, 0.991, false};

/// --synthetic-routing=KEY=VALUE,..: a trace with the statistics of real training: p = softmax(z), z a two-time-scale
/// AR(1) process, a multinomial for each rank, no expert above 1 / k of the choices. docs/CostModel.md compares it with
/// published figures.
struct SyntheticRouting {
  uint64_t seed = 0;
  int64_t iterations = 1; ///< how many
  int64_t first = 0;      ///< the first one: without balancing, early ones are near uniform
  RoutingPreset preset = kAuxLossRouting;

  /// Reads `preset=NAME,seed=N,iterations=N,first=N,skew=X`, each optional; the error names the key. A skew without a
  /// preset is that of unbalanced routing.
  static llvm::Expected<SyntheticRouting> parse(llvm::StringRef text);
  /// `tokens` of each rank, each choosing `topK` different experts, of which there are as many at least. The same for
  /// the same seed, whatever the number of layers.
  RoutingTrace generate(int64_t ranks, int64_t layers, int64_t experts, int64_t tokens, int64_t topK) const;
};

/// Every rank's assignments spread as evenly as whole numbers allow, different ranks' remainders on different experts:
/// neither in a row nor in a column do two counts differ by more than one. [ranks * experts].
std::vector<int32_t> makeEvenCounts(int64_t ranks, int64_t experts, int64_t assignments);

} // namespace mlir::moe

#endif // MOE_SIMULATOR_ROUTING_H
