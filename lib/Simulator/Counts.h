//===- Counts.h - how many rows each ragged launch uses ---------*- C++ -*-===//
//
// The counts of rows are data: a routing launch writes them, exchanges move them, ragged launches read them. They are
// followed here from the latter back to the former, for the ranks that somebody asks for and no others.
//
//===----------------------------------------------------------------------===//
#ifndef MOE_LIB_SIMULATOR_COUNTS_H
#define MOE_LIB_SIMULATOR_COUNTS_H

#include "Gate.h"
#include "moe/Simulator/SimWorld.h"

#include "moe/Simulator/Routing.h"

#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/MapVector.h"

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
    /// Of choices that tokens take along, and not of rows: how many tokens there are on each of the ranks that they
    /// come from, of each of which there is a row. Else 0.
    double tokens = 0;
    /// Of such choices, where a trace has them: what the tokens of each of these ranks choose, token by token. Empty
    /// where only the counts are known.
    std::vector<Choices> chosen;
  };

  /// `trace` null: even routing. Both must outlive this. Fails where the trace is not of these programs, and where a
  /// choice of shadows cannot be followed.
  static llvm::Expected<Counts> create(const SimWorld &world, const RoutingTrace *trace, int64_t iteration);

  /// Whether all members of a group have alike counts: without a trace, and where no launch takes its member's part of
  /// the rows, which are sorted by expert, no gate keeps choices at home, and no expert becomes a shadow.
  bool isEven() const { return even; }
  /// Counts of a ragged launch. Fails where they cannot be followed, and where they are more than the launch has room
  /// for. Valid as long as this lives.
  llvm::Expected<const Value *> get(int64_t rank, uint32_t launch);
  /// What a rank's tokens choose by a routing launch, [experts]. A trace has to be one of that launch: it is where the
  /// program has ragged launches.
  llvm::ArrayRef<int32_t> getChosen(int64_t rank, uint32_t launch);
  /// The same token by token; empty where only the counts are known: without a trace that has it, and where a gate
  /// keeps choices at home.
  Choices getTokenChoices(int64_t rank, uint32_t launch) const;
  /// How often a launch runs its subprogram, for the passes behind the first one. Fails where that cannot be followed.
  llvm::Expected<int64_t> getFurtherPasses(int64_t rank, uint32_t launch);
  /// Rows that a ragged launch with these counts uses on a rank; of an exchange, that it sends, all copies counted.
  int64_t getRows(const Value &counts, int64_t rank, uint32_t launch) const;
  /// Of a ragged all_to_all: the parts of its counts, and how many of member `from`'s rows are for member `to` of
  /// `members`.
  static int64_t getNumParts(const OpCost &cost, int64_t members);
  static int64_t getRowsFor(const Value &counts, const OpCost &cost, int64_t members, int64_t from, int64_t to);

private:
  using SharedValue = std::shared_ptr<const Value>;
  /// A launch on a rank, and how many values were followed back to get there.
  struct Place {
    int64_t rank;
    uint32_t launch;
    unsigned depth;
  };
  /// Of a launch that divides choices: who made them, those of each expert, and which experts are shadows.
  struct Division {
    uint32_t router;
    llvm::ArrayRef<int32_t> chosen;
    const Value *shadows;
  };

  /// Of a routing launch on a rank.
  struct TokenChoices {
    Choices all; ///< may be empty
    counts::Route routed;

    /// Where part `part` of `parts` begins, as in moert_route.
    int64_t getBegin(int64_t part, int64_t parts) const {
      return (part * routed.tokens + parts - 1) / parts * routed.topK;
    }
  };

  Counts(const SimWorld &world, const RoutingTrace *trace, int64_t iteration);

  void findWriters(const SimProgram &program);
  int32_t getWriter(int64_t rank, int32_t buffer) const;
  llvm::Error checkTrace() const;
  llvm::Error checkRouting(const SimProgram &program, uint32_t launch, const std::vector<int32_t> &counts,
                           int64_t firstRank, int64_t numRanks) const;
  std::vector<int32_t> divideChosen(int64_t rank, uint32_t launch, int64_t parts);
  llvm::Expected<bool> keepsEven(int64_t rank, uint32_t launch);
  llvm::Error checkEven();
  const std::vector<int32_t> &getRouted(const SimProgram &program, uint32_t launch);
  llvm::Expected<const Value *> follow(int64_t rank, int32_t buffer, unsigned depth);
  llvm::Expected<SharedValue> make(int64_t rank, int32_t buffer, unsigned depth);
  llvm::Error fillView(Value &value, int64_t rank, int32_t buffer, unsigned depth);
  llvm::Expected<SharedValue> makeWritten(const CountsRule &rule, Value &&value, const Place &at);
  llvm::Expected<SharedValue *> getCommon(const CountsRule &rule, const Place &at);

  // Each rule, on one rank: fills the value, which has its shape and zeros.
  llvm::Error fill(const counts::Route &rule, Value &value, const Place &at);
  llvm::Error fill(const counts::RouteInGroups &rule, Value &value, const Place &at);
  llvm::Error fill(const counts::RouteNearHome &rule, Value &value, const Place &at);
  llvm::Error fill(const counts::Gather &rule, Value &value, const Place &at);
  llvm::Error fill(const counts::Exchange &rule, Value &value, const Place &at);
  llvm::Error fill(const counts::SliceRows &rule, Value &value, const Place &at);
  llvm::Error fill(const counts::OwnExperts &rule, Value &value, const Place &at);
  llvm::Error fill(const counts::Window &rule, Value &value, const Place &at);
  llvm::Error fill(const counts::Repeat &rule, Value &value, const Place &at);
  llvm::Error fill(const counts::ChooseShadows &rule, Value &value, const Place &at);
  llvm::Error fill(const counts::KeptChoices &rule, Value &value, const Place &at);
  llvm::Error fill(const counts::ShadowChoices &rule, Value &value, const Place &at);
  llvm::Error fill(const counts::MergedRows &rule, Value &value, const Place &at);
  llvm::Error fill(const counts::SentChoices &rule, Value &value, const Place &at);
  llvm::Error fill(const counts::ArrivedChoices &rule, Value &value, const Place &at);
  llvm::Error appendChoices(const Value &from, Value &value, const Place &at);
  llvm::Expected<Value> getChoices(int64_t choices, int64_t dropped, const Place &at);
  llvm::Expected<Choices> getServed(const Place &window, const counts::Window &rule, int64_t chunks,
                                    const TokenChoices &choices);
  void takeTokens(Value &value, const Value &made, int64_t rank, int32_t buffer) const;
  llvm::Error takeSent(Value &value, const CountsRule &merges, const Place &sender, int64_t first, int64_t rows);
  template <typename Rule> llvm::Error fillExchanged(const Rule &rule, Value &value, const Place &at);
  llvm::Error fillLocal(int64_t input, const Place &at, llvm::function_ref<bool(const Value &)> make);
  llvm::Expected<Division> getDivision(int64_t choices, int64_t shadows, const Place &at);

  const SimLaunch &getLaunch(const Place &at) const;
  const SimGroup &getPartGroup(const Place &at) const;
  llvm::Expected<const Value *> followInput(int64_t input, const Place &at);
  llvm::Error fail(const Place &at, const llvm::Twine &text) const;

  const SimWorld &world;
  const RoutingTrace *trace;
  int64_t iteration;
  bool even;
  llvm::MapVector<llvm::StringRef, int64_t> layers; ///< of all programs
  /// By program and buffer: the launch that writes it, -1 where none does, several do, or another view of it is
  /// written.
  std::vector<std::vector<int32_t>> writers;
  llvm::DenseMap<std::pair<int64_t, int32_t>, SharedValue> values; ///< by rank and buffer
  /// What all members have alike is there once: by group, instance and number of the meeting that gathers it.
  std::map<std::tuple<uint32_t, uint32_t, uint32_t>, SharedValue> gathered;
  std::map<std::pair<const Value *, const SimLaunch *>, SharedValue> shadows; ///< by the counts and who chose
  std::map<std::pair<int64_t, int64_t>, std::vector<int32_t>> evenCounts;     ///< by experts and choices
  std::map<std::pair<int64_t, uint32_t>, std::vector<int32_t>> gated;         ///< by rank and routing launch
  std::deque<std::vector<RoutingTrace::Choice>> served; ///< of passes and parts: see Value::chosen
};

} // namespace mlir::moe

#endif // MOE_LIB_SIMULATOR_COUNTS_H
