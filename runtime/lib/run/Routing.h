//===- Routing.h - forcing and recording what a plan's programs route -------===//
//
// A file of routing is about ranks, in a pipeline those of the stage that has the layer. Consecutive ranks may route
// the same tokens, as model-parallel neighbours do: the tokens are in as many shards as the reference's routing op has
// times the tokens of a rank's, and the ranks of a shard take what the file says of the first of them. The reference
// routes the shards one after the other.
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

/// An MoE layer of a plan: a routing op of its ranks' program and one of the reference.
struct RoutedLayer {
  moert_routing rank{};
  moert_routing reference{}; ///< zero in a plan without a reference
  int64_t shards = 0;        ///< of the tokens; 0 in a plan without a reference
  std::string label = {};    ///< of the rank's op; that of several where there are micro-batches

  /// Whether rank `r` runs the program that has the layer.
  bool isOn(int64_t r) const { return r >= rank.first_rank && r < rank.first_rank + rank.ranks; }
  /// Which shard rank `r`, one of the layer's, routes.
  int64_t shardOf(int64_t r) const { return (r - rank.first_rank) / (rank.ranks / shards); }
};

/// Finds the layers in the order of the reference, or without one of the programs. Where the two do not fit each other:
/// an error.
Status findLayers(const Plan &plan, std::vector<RoutedLayer> &layers);

/// Reads a file of routing; whether it suits a plan is not asked. An error begins with "PATH:LINE: ".
Status readRoutingFile(const std::string &path, std::vector<RoutingLine> &lines);
/// Checks a line of `path` for that layer.
Status checkLine(const RoutingLine &line, const RoutedLayer &layer, const std::string &path);

/// Experts [S, k] with these counts: each expert as often as its count, expert by expert, and entry i of that list is a
/// choice of token i mod S. No count is above S, so that a token's choices differ.
std::vector<int32_t> choicesFromCounts(const std::vector<int32_t> &counts, int64_t tokens, int64_t choices);

/// A token whose experts are compared: step, layer, shard and token of the shard.
using RoutedToken = std::array<int64_t, 4>;

/// What --routing, --record-routing and --verify do to the steps of a plan.
class Routing {
public:
  /// Reads and checks all that is to be forced. Under --verify it keeps what the plan's ranks choose, where the
  /// reference can be told to choose alike.
  static Status open(const Options &options, const Plan &plan, Routing &routing);

  /// For other runs, of the plan or of the reference: they choose what `this` kept or was told, and what they would
  /// choose themselves is kept. Does nothing where nothing was kept or told.
  Routing followed() const;
  /// The same, but they choose themselves unless `this` was told what.
  Routing repeated() const;
  /// Micro-batches of a layer are routed in an order of the plan's own: puts what was kept, and the ops that chose it,
  /// in the order in which it is most like what `reference` kept.
  void orderLike(const Routing &reference);
  /// Whether it was kept what the plan's ranks choose.
  bool hasKept() const { return !kept.empty(); }
  /// How many tokens chose in what was kept.
  int64_t keptTokens() const;
  /// The tokens to which `this` and `other` kept other experts, in whatever order.
  std::set<RoutedToken> differences(const Routing &other) const;
  bool isTold() const { return !iterations.empty(); }
  /// The experts that `this` kept of a token, "3, 5".
  std::string keptExperts(const RoutedToken &token) const;

  /// Before and after step `step` of a program; `ranks` are those of this process.
  Status beginStep(moert_world_t world, std::span<const int64_t> ranks, bool reference, int64_t step) const;
  Status endStep(moert_world_t world, bool reference, int64_t step);
  /// After the last step.
  Status close();

private:
  Status read(const std::string &path);
  Status force(moert_world_t world, int64_t rank, bool reference, size_t layer, const RoutingLine &line) const;
  std::vector<int32_t> shardChoices(const RoutingLine &line, size_t layer, int64_t shard) const;
  std::vector<int32_t> referenceChoices(const RoutingLine &line, size_t layer) const;
  Status readRanks(moert_world_t world, bool reference, const RoutedLayer &layer,
                   std::vector<std::vector<int32_t>> &choices) const;
  Status readStep(moert_world_t world, bool reference, int64_t step, std::vector<RoutingLine> &lines) const;
  std::span<const int32_t> expertsOf(const RoutedToken &token) const;
  template <class Visit> void forEachKept(Visit visit) const;
  int64_t countDifferences(size_t layer, const Routing &other, size_t otherLayer) const;

  int64_t world = 1;
  std::vector<RoutedLayer> layers;
  std::vector<std::vector<RoutingLine>> iterations; ///< in rising order, by layer; none where nothing is forced
  bool keeps = false, keepsAll = false, keepsOwn = false;
  std::vector<std::vector<RoutingLine>> kept; ///< as `iterations`; unless keepsAll the last one only
  bool isRecorded = false;
  bool recordsReference = false;
  std::unique_ptr<OutputFile> recordFile; ///< null where nothing is recorded
};

} // namespace moert::run

#endif // MOERT_RUN_ROUTING_H
