//===- Routing.h - forcing and recording what a plan's programs route -------===//
//
// A file of routing has the choices of ranks, in a pipeline those of the stage that has the layer. Consecutive ranks,
// such as model-parallel neighbours, may route the same tokens. The tokens are in shards: their number is that of the
// reference's routing op over that of a rank's. All ranks of a shard take the file's choices of the first of them. The
// reference routes the shards one after another.
//
//===----------------------------------------------------------------------===//
#ifndef MOERT_RUN_ROUTING_H
#define MOERT_RUN_ROUTING_H

#include "core/OutputFile.h"
#include "moert/routing_file.h"
#include "run/Options.h"
#include "run/Plan.h"

#include <array>
#include <map>
#include <set>
#include <span>

namespace moert::run {

/// MoE layer of a plan: a routing op of its ranks' program and one of the reference.
struct RoutedLayer {
  moert_routing rank{};
  moert_routing reference{}; ///< routing of the reference; zero without a reference
  std::vector<moert_routing> followers = {}, referenceFollowers = {}; ///< ops that take the choices of these two
  int64_t shards = 0;     ///< number of shards of the tokens; 0 without a reference
  std::string label = {}; ///< label of the rank's op; with micro-batches several have the same

  /// Whether rank `r` runs the program that has the layer.
  bool isOn(int64_t r) const { return r >= rank.first_rank && r < rank.first_rank + rank.ranks; }
  /// Ops of rank `r`, or of the reference, that make or take the layer's choices; empty if the rank lacks the layer.
  std::vector<moert_routing> opsOn(int64_t r, bool isReference) const;
  /// Shard that rank `r` routes in `op`, one of the layer's.
  int64_t shardOf(const moert_routing &op, int64_t r) const { return (r - op.first_rank) / (op.ranks / shards); }
  /// Index among the layer's ranks of the first one of a shard.
  size_t firstOf(int64_t shard) const { return static_cast<size_t>(shard * (rank.ranks / shards)); }
};

/// Finds the layers, in the order of the reference or, without one, of the programs. Fails if the two do not match.
Status findLayers(const Plan &plan, std::vector<RoutedLayer> &layers);

/// Whether steps of these programs change arguments. If so, each step matters, otherwise only the last.
bool changesArguments(std::span<const Program> programs);

/// Reads a file of routing without a check against a plan. An error begins with "PATH:LINE: ".
Status readRoutingFile(const std::string &path, std::vector<RoutingLine> &lines);
/// Checks a line of `path` for that layer.
Status checkLine(const RoutingLine &line, const RoutedLayer &layer, const std::string &path);

/// Makes experts [S, k] with these counts. A list has each expert as often as its count, expert by expert; entry i is a
/// choice of token i mod S. No count is above S, so a token's choices differ.
std::vector<int32_t> choicesFromCounts(const std::vector<int32_t> &counts, int64_t tokens, int64_t choices);

/// Token whose experts are compared: step, layer, shard and token of the shard.
using RoutedToken = std::array<int64_t, 4>;

/// Forces and records the routing of a plan's steps, for --routing, --record-routing and --verify.
class Routing {
public:
  /// Reads and checks the routing to force. Under --verify it keeps the choices of the plan's ranks, if the reference
  /// can be made to choose alike.
  static Status open(const Options &options, const Plan &plan, Routing &routing);

  /// Routing that forces most tokens of a layer to the first experts and those of the next one to the last experts, or
  /// the other way round, so that experts overflow and further passes run. These experts have no shadows, and get one
  /// token less of each shard than of the one before it, so that a count of another shard is a wrong one. Both ends are
  /// needed: exchange phases of the first and the last workers have opposite orders, and a plan may still be right
  /// where it takes too large a count. Forces nothing if the plan has no further passes, or if its layers do not match
  /// those of its reference.
  static Routing concentrated(const Plan &plan, bool onLast);

  /// Routing for another run of the plan or the reference: it chooses what `this` kept or forced, and keeps its own
  /// choices. Does nothing if nothing was kept or forced.
  Routing followed() const;
  /// The same, but the run chooses itself unless the routing of `this` was forced.
  Routing repeated() const;
  /// Reorders kept choices, and the ops that made them, to be most like those that `reference` kept: a plan routes
  /// micro-batches of a layer in an order of its own.
  void orderLike(const Routing &reference);
  /// Whether choices of the plan's ranks were kept.
  bool hasKept() const { return !kept.empty(); }
  /// Number of tokens with kept choices.
  int64_t keptTokens() const;
  /// Tokens for which `this` and `other` kept other experts, in any order.
  std::set<RoutedToken> differences(const Routing &other) const;
  bool isTold() const { return !iterations.empty(); }
  /// Number of routings of a step, of all layers and micro-batches.
  size_t countLayers() const { return layers.size(); }
  /// Whether no expert shall become a shadow.
  bool avoidsShadows() const { return isConcentrated; }
  /// Experts that `this` kept of a token, "3, 5".
  std::string keptExperts(const RoutedToken &token) const;

  /// Begin and end step `step` of a program; `ranks` are those of this process.
  Status beginStep(moert_world_t world, std::span<const int64_t> ranks, bool reference, int64_t step) const;
  Status endStep(moert_world_t world, bool reference, int64_t step);
  /// Writes out the records after the last step.
  Status close();

private:
  Status read(const std::string &path);
  Status force(moert_world_t world, int64_t rank, const moert_routing &op, const RoutedLayer &layer,
               const RoutingLine &line) const;
  Status readStep(moert_world_t world, bool reference, int64_t step, std::vector<RoutingLine> &lines) const;
  std::span<const int32_t> expertsOf(const RoutedToken &token) const;
  template <class Visit> void forEachKept(Visit visit) const;
  int64_t countDifferences(size_t layer, const Routing &other, size_t otherLayer) const;

  std::vector<RoutedLayer> layers;
  std::vector<std::vector<RoutingLine>> iterations; ///< forced lines by layer; empty if nothing is forced
  bool isConcentrated = false;
  bool keeps = false, keepsAll = false, keepsOwn = false;
  std::vector<std::vector<RoutingLine>> kept; ///< kept lines, as `iterations`; only the last iteration unless keepsAll
  bool recordsReference = false;
  std::unique_ptr<OutputFile> recordFile; ///< null if nothing is recorded
};

} // namespace moert::run

#endif // MOERT_RUN_ROUTING_H
