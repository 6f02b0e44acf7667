//===- Counts.h - counts of rows of ragged launches -------------*- C++ -*-===//
//
// The counts of rows are data: a routing launch writes them, exchanges move them, and ragged launches read them. Counts
// follows them back from the ragged launches to the routing, only for the ranks that are asked for.
//
//===----------------------------------------------------------------------===//
#ifndef MOE_LIB_SIMULATOR_COUNTS_H
#define MOE_LIB_SIMULATOR_COUNTS_H

#include "moe/Simulator/SimWorld.h"

#include "moe/Simulator/Routing.h"

#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/StringMap.h"

#include <deque>
#include <map>
#include <memory>
#include <tuple>

namespace mlir::moe {

class Counts {
public:
  using Choices = llvm::ArrayRef<RoutingTrace::Choice>;

  /// The content of a buffer of counts on a rank.
  struct Value {
    int64_t rows = 0, columns = 0;
    std::vector<int32_t> data;      ///< [rows, columns]
    std::vector<int64_t> perExpert; ///< sums over the rows
    int64_t total = 0;
    /// Number of tokens on each source rank if the value counts choices that tokens take along; 0 if it counts rows.
    /// Such a value has one row for each source rank.
    double tokens = 0;
    /// Choices of the tokens of each source rank, token by token, if a trace has them. Empty if only the counts are
    /// known.
    std::vector<Choices> chosen;
  };

  /// Routing is even if `trace` is null. `world` and `trace` must outlive the result. Fails if the trace does not fit
  /// the programs, or if a choice of shadows cannot be followed.
  static llvm::Expected<Counts> create(const SimWorld &world, const RoutingTrace *trace, int64_t iteration);

  /// Whether all members of a group have the same counts. Needs that there is no trace, that no launch takes its
  /// member's part of rows sorted by expert, that no gate keeps choices at home, and that no expert becomes a shadow.
  bool isEven() const { return even; }
  /// Counts of a ragged launch, valid as long as this object. Fails if they cannot be followed, or if they exceed the
  /// rows of the launch.
  llvm::Expected<const Value *> get(int64_t rank, uint32_t launch);
  /// Choices of a rank's tokens in a routing launch, [experts]. A trace must be of that launch, as it is in programs
  /// with ragged launches.
  llvm::ArrayRef<int32_t> getChosen(int64_t rank, uint32_t launch);
  /// The same, token by token. Empty if only the counts are known, which is so without a trace of choices and with a
  /// gate that keeps choices at home.
  Choices getTokenChoices(int64_t rank, uint32_t launch) const;
  /// Number of times that a launch runs its subprogram, for the passes after the first one. Fails if it cannot be
  /// followed.
  llvm::Expected<int64_t> getFurtherPasses(int64_t rank, uint32_t launch);
  /// Rows that a ragged launch with these counts uses on a rank. For an exchange, the rows that the rank sends, with
  /// all copies.
  int64_t getRows(const Value &counts, int64_t rank, uint32_t launch) const;
  /// For a ragged all_to_all: the number of parts of its counts, and the rows that member `from` of `members` sends to
  /// member `to`.
  static int64_t getNumParts(const OpCost &cost, int64_t members);
  static int64_t getRowsFor(const Value &counts, const OpCost &cost, int64_t members, int64_t from, int64_t to);

private:
  using SharedValue = std::shared_ptr<const Value>;
  /// A launch on a rank, and the number of values that were followed back to it.
  struct Place {
    int64_t rank;
    uint32_t launch;
    unsigned depth;
  };
  /// Input of a launch that divides choices: the launch that made them, the choices of each expert, and the experts
  /// that are shadows.
  struct Division {
    uint32_t router;
    llvm::ArrayRef<int32_t> chosen;
    const Value *shadows;
  };

  /// Choices of a routing launch on a rank.
  struct TokenChoices {
    Choices all; ///< may be empty
    counts::Route routed;

    /// First choice of part `part` of `parts`, as in moert_route.
    int64_t getBegin(int64_t part, int64_t parts) const {
      return (part * routed.tokens + parts - 1) / parts * routed.topK;
    }
  };

  Counts(const SimWorld &world, const RoutingTrace *trace, int64_t iteration);

  void findWriters(const SimProgram &program);
  int32_t getWriter(int64_t rank, int32_t buffer) const;
  llvm::Error checkTrace() const;
  llvm::Error checkRouting(const SimProgram &program, uint32_t launch, const std::vector<int32_t> &counts) const;
  std::vector<int32_t> divideChosen(int64_t rank, uint32_t launch, int64_t parts);
  llvm::Expected<bool> keepsEven(int64_t rank, uint32_t launch);
  llvm::Error checkEven();
  int64_t getLayerNumber(const SimLaunch &launch) const;
  int64_t getTraceRank(int64_t rank) const;
  llvm::ArrayRef<int32_t> getRouted(int64_t rank, uint32_t launch);
  llvm::Expected<const Value *> follow(int64_t rank, int32_t buffer, unsigned depth);
  llvm::Expected<SharedValue> make(int64_t rank, int32_t buffer, unsigned depth);
  llvm::Error fillView(Value &value, int64_t rank, int32_t buffer, unsigned depth);
  llvm::Expected<SharedValue> makeWritten(const CountsRule &rule, Value &&value, const Place &at);
  llvm::Expected<SharedValue *> getCommon(const CountsRule &rule, const Place &at);

  // Each rule fills the value of one rank. The value has its shape and is zero before.
#define COUNTS_RULE(Type, key, role) llvm::Error fill(const counts::Type &rule, Value &value, const Place &at);
#include "moe/OpFacts/CountsRules.def"
  llvm::Error appendChoices(const Value &from, Value &value, const Place &at);
  llvm::Expected<Value> getChoices(int64_t choices, int64_t dropped, const Place &at);
  llvm::Expected<Choices> getServed(const Place &window, const counts::Window &rule, int64_t chunks,
                                    const TokenChoices &choices);
  void takeTokens(Value &value, const Value &made, int64_t rank, int32_t buffer) const;
  llvm::Error takeSent(Value &value, const CountsRule &merges, const Place &sender, int64_t first, int64_t rows);
  template <typename Rule>
  llvm::Error forEachMember(const Place &at, llvm::function_ref<llvm::Error(int64_t member, const Value &input)> visit);
  template <typename Rule> llvm::Error fillExchanged(const counts::Exchange &how, Value &value, const Place &at);
  llvm::Expected<Division> getDivision(int64_t choices, int64_t shadows, const Place &at);

  const SimLaunch &getLaunch(const Place &at) const;
  const SimGroup &getPartGroup(const Place &at) const;
  llvm::Expected<const Value *> followInput(int64_t input, const Place &at);
  llvm::Error fail(const Place &at, const llvm::Twine &text) const;
  llvm::Error failSizes(const Place &at) const;

  const SimWorld &world;
  const RoutingTrace *trace;
  int64_t iteration;
  bool even;
  llvm::StringMap<int64_t> layers; ///< numbers of the layers in the trace
  /// Launch that writes a buffer, by program and buffer. -1 if there is none, if several launches write it, or if one
  /// writes another view of it.
  std::vector<std::vector<int32_t>> writers;
  llvm::DenseMap<std::pair<int64_t, int32_t>, SharedValue> values; ///< by rank and buffer
  /// Values that all members of a group share, by group, instance and number of the meeting that gathers them.
  std::map<std::tuple<uint32_t, uint32_t, uint32_t>, SharedValue> gathered;
  std::map<std::pair<const Value *, const SimLaunch *>, SharedValue> shadows; ///< by counts and choosing launch
  std::map<std::pair<int64_t, int64_t>, std::vector<int32_t>> evenCounts;     ///< by experts and choices
  std::map<std::pair<int64_t, uint32_t>, std::vector<int32_t>> gated;         ///< by rank and routing launch
  std::deque<std::vector<RoutingTrace::Choice>> served; ///< choices of passes and parts, for Value::chosen
};

/// Applies FasterMoE's gate to a rank's choices of each expert. Counts have no scores, so this is an approximation. If
/// more than topK * leave choices of a group leave home, that many stay in their places, in proportion to their counts.
/// The others go to the experts at home, in proportion to the counts there, or evenly if these are zero. No expert gets
/// more choices than the group has tokens.
std::vector<int32_t> applyGate(const counts::RouteNearHome &gate, llvm::ArrayRef<int32_t> choices, int64_t rank);

/// Divides a rank's choices of each expert into `parts` parts of its tokens, as evenly as whole numbers allow in parts
/// and in experts. [parts, experts].
std::vector<int32_t> divideChoices(llvm::ArrayRef<int32_t> choices, int64_t parts);

} // namespace mlir::moe

#endif // MOE_LIB_SIMULATOR_COUNTS_H
