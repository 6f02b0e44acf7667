//===- CountsRule.h - how a launch makes counts of routed rows --*- C++ -*-===//
//
// In a dropless layer the routing decides how many rows each rank sends and computes. These counts are data: [sources,
// experts] i32. A rule states how one output of a launch follows from the launch's inputs. Ops state it through
// MoeCountsOpInterface, plans carry it as #plan.counts, and the simulator executes it.
//
//===----------------------------------------------------------------------===//
#ifndef MOE_OPFACTS_COUNTSRULE_H
#define MOE_OPFACTS_COUNTSRULE_H

#include "moe/OpFacts/TokenDraw.h"

#include "llvm/ADT/Hashing.h"
#include "llvm/ADT/SmallVector.h"
#include "llvm/ADT/StringRef.h"

#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <variant>

namespace mlir::moe {

/// What the members of the launch's group have to do with a rule.
enum class Members : uint8_t {
  None,    ///< nothing: it needs no group
  OwnPart, ///< each takes its own part of what it has
  Meet,    ///< they exchange counts
};

// Each rule has a name, says what a group's members do, and shows its fields to a visitor in the order of #plan.counts:
// `input` for the number of one of the call's inputs, `integer` for a number with bounds, `real` for a time in seconds.
namespace counts {

inline constexpr int64_t kMost = std::numeric_limits<int64_t>::max();

/// The choices of the rank's tokens, `topK` each, in as many parts as the output has rows.
struct Route {
  int64_t tokens = 1, topK = 1;

  static constexpr llvm::StringLiteral name = "route";
  static constexpr Members members = Members::None;
  template <typename Self, typename Visitor> static void visit(Self &self, Visitor &&visitor) {
    visitor.integer("tokens", self.tokens, 1, kMost);
    visitor.integer("top_k", self.topK, 1, kMost);
  }
  bool operator==(const Route &) const = default;
};

/// The same where a token draws its choices from `topGroups` of `groups` equal groups of experts.
struct RouteInGroups {
  int64_t tokens = 1, topK = 1, groups = 1, topGroups = 1;

  static constexpr llvm::StringLiteral name = "route_in_groups";
  static constexpr Members members = Members::None;
  template <typename Self, typename Visitor> static void visit(Self &self, Visitor &&visitor) {
    visitor.integer("tokens", self.tokens, 1, kMost);
    visitor.integer("top_k", self.topK, 1, kMost);
    visitor.integer("groups", self.groups, 1, kMost);
    visitor.integer("top_groups", self.topGroups, 1, kMost);
  }
  bool operator==(const RouteInGroups &) const = default;
};

/// The same through FasterMoE's topology-aware gate. The experts are `homes` equal blocks. Routing group g of rank r is
/// at home in block (r / homeStride + g / homeSpan) mod homes. Of a group's choices at most topK * leave leave home.
struct RouteNearHome {
  int64_t tokens = 1, topK = 1, groups = 1, leave = 0, homes = 1, homeStride = 1, homeSpan = 1;

  static constexpr llvm::StringLiteral name = "route_near_home";
  static constexpr Members members = Members::None;
  template <typename Self, typename Visitor> static void visit(Self &self, Visitor &&visitor) {
    visitor.integer("tokens", self.tokens, 1, kMost);
    visitor.integer("top_k", self.topK, 1, kMost);
    visitor.integer("groups", self.groups, 1, kMost);
    visitor.integer("leave", self.leave, 0, kMost);
    visitor.integer("homes", self.homes, 1, kMost);
    visitor.integer("home_stride", self.homeStride, 1, kMost);
    visitor.integer("home_span", self.homeSpan, 1, kMost);
  }
  bool operator==(const RouteNearHome &) const = default;
};

/// The members' inputs one after the other along `dim`.
struct Gather {
  int64_t input = 0, dim = 0;

  static constexpr llvm::StringLiteral name = "gather";
  static constexpr Members members = Members::Meet;
  template <typename Self, typename Visitor> static void visit(Self &self, Visitor &&visitor) {
    visitor.input("input", self.input);
    visitor.integer("dim", self.dim, 0, 1);
  }
  bool operator==(const Gather &) const = default;
};

/// Each member's parts along `splitDim`, one for each `copies` neighbouring members, which become parts along
/// `concatDim` there.
struct Exchange {
  int64_t input = 0, splitDim = 0, concatDim = 0, copies = 1;

  static constexpr llvm::StringLiteral name = "exchange";
  static constexpr Members members = Members::Meet;
  template <typename Self, typename Visitor> static void visit(Self &self, Visitor &&visitor) {
    visitor.input("input", self.input);
    visitor.integer("split", self.splitDim, 0, 1);
    visitor.integer("concat", self.concatDim, 0, 1);
    visitor.integer("copies", self.copies, 1, kMost);
  }
  bool operator==(const Exchange &) const = default;
};

/// `rows` rows are sorted by expert and cut into equal parts, one for each member: the counts of the member's own part.
struct SliceRows {
  int64_t input = 0, rows = 0;

  static constexpr llvm::StringLiteral name = "slice_rows";
  static constexpr Members members = Members::OwnPart;
  template <typename Self, typename Visitor> static void visit(Self &self, Visitor &&visitor) {
    visitor.input("input", self.input);
    visitor.integer("rows", self.rows, 0, kMost);
  }
  bool operator==(const SliceRows &) const = default;
};

/// The counts of the experts that the member holds. `holders` neighbouring members hold the same ones.
struct OwnExperts {
  int64_t input = 0, holders = 1;

  static constexpr llvm::StringLiteral name = "own_experts";
  static constexpr Members members = Members::OwnPart;
  template <typename Self, typename Visitor> static void visit(Self &self, Visitor &&visitor) {
    visitor.input("input", self.input);
    visitor.integer("holders", self.holders, 1, kMost);
  }
  bool operator==(const OwnExperts &) const = default;
};

/// Gathered counts [members chunks, experts] give the counts that the first pass serves of the member's own, [chunks,
/// experts]. Each of `workers` workers has as many of the experts. It serves the first `rows` rows of each chunk of
/// each of `phases` equal blocks of members, by expert and then by member.
struct Window {
  int64_t input = 0, workers = 1, rows = 1, phases = 1;

  static constexpr llvm::StringLiteral name = "window";
  static constexpr Members members = Members::OwnPart;
  template <typename Self, typename Visitor> static void visit(Self &self, Visitor &&visitor) {
    visitor.input("input", self.input);
    visitor.integer("workers", self.workers, 1, kMost);
    visitor.integer("rows", self.rows, 1, kMost);
    visitor.integer("phases", self.phases, 1, kMost);
  }
  bool operator==(const Window &) const = default;
};

/// The input is `blocks` equal parts along `dim`. Each is repeated as often as the output has room.
struct Repeat {
  int64_t input = 0, dim = 0, blocks = 1;

  static constexpr llvm::StringLiteral name = "repeat";
  static constexpr Members members = Members::None;
  template <typename Self, typename Visitor> static void visit(Self &self, Visitor &&visitor) {
    visitor.input("input", self.input);
    visitor.integer("dim", self.dim, 0, 1);
    visitor.integer("blocks", self.blocks, 1, kMost);
  }
  bool operator==(const Repeat &) const = default;
};

/// FasterMoE's choice of shadows from gathered counts: 1 for an expert that becomes one, else 0. moert/shadows.h says
/// what the figures mean; times are in seconds.
struct ChooseShadows {
  int64_t input = 0, policy = 0, workers = 1, nodeWorkers = 1, most = 1, room = 0, phases = 1;
  double rowCompute = 0, rowSend = 0, rowLocal = 0, rowNode = 0, expert = 0, start = 0;

  static constexpr llvm::StringLiteral name = "choose_shadows";
  static constexpr Members members = Members::None;
  template <typename Self, typename Visitor> static void visit(Self &self, Visitor &&visitor) {
    visitor.input("input", self.input);
    visitor.integer("policy", self.policy, 0, std::numeric_limits<uint32_t>::max());
    visitor.integer("workers", self.workers, 1, kMost);
    visitor.integer("node_workers", self.nodeWorkers, 1, kMost);
    visitor.integer("most", self.most, 1, kMost);
    visitor.integer("room", self.room, 0, kMost);
    visitor.integer("phases", self.phases, 1, kMost);
    visitor.real("row_compute", self.rowCompute);
    visitor.real("row_send", self.rowSend);
    visitor.real("row_local", self.rowLocal);
    visitor.real("row_node", self.rowNode);
    visitor.real("expert", self.expert);
    visitor.real("start", self.start);
  }
  bool operator==(const ChooseShadows &) const = default;
};

/// What a routing launch counted, without the choices of shadows. `choices` is the input that holds its choices,
/// `shadows` the one that says which experts are shadows.
struct KeptChoices {
  int64_t choices = 0, shadows = 1;

  static constexpr llvm::StringLiteral name = "kept_choices";
  static constexpr Members members = Members::None;
  template <typename Self, typename Visitor> static void visit(Self &self, Visitor &&visitor) {
    visitor.input("choices", self.choices);
    visitor.input("shadows", self.shadows);
  }
  bool operator==(const KeptChoices &) const = default;
};

/// The choices of shadows alone, one place for each shadow.
struct ShadowChoices {
  int64_t choices = 0, shadows = 1;

  static constexpr llvm::StringLiteral name = "shadow_choices";
  static constexpr Members members = Members::None;
  template <typename Self, typename Visitor> static void visit(Self &self, Visitor &&visitor) {
    visitor.input("choices", self.choices);
    visitor.input("shadows", self.shadows);
  }
  bool operator==(const ShadowChoices &) const = default;
};

/// One row for all choices that a token has of a holder, counted by holder. Input `choices` holds a routing's choices,
/// or those that arrived from others. Of them, those are left out that the slots of input `dropped` leave out; -1:
/// none. `holders` neighbouring members have the same equal part of the `experts` experts, and the holders have equal
/// parts of that. Where only the number of choices of each expert is known, it is as many rows as are expected of
/// tokens that draw `topK` experts each, from `topGroups` of `groups` equal groups of them.
struct MergedRows {
  int64_t choices = 0, dropped = -1, experts = 1, holders = 1, topK = 1, groups = 1, topGroups = 1;

  TokenDraw getDraw() const { return {experts, topK, groups, topGroups}; }

  static constexpr llvm::StringLiteral name = "merged_rows";
  static constexpr Members members = Members::OwnPart;
  template <typename Self, typename Visitor> static void visit(Self &self, Visitor &&visitor) {
    visitor.input("choices", self.choices);
    visitor.integer("dropped", self.dropped, -1, kMost);
    visitor.integer("experts", self.experts, 1, kMost);
    visitor.integer("holders", self.holders, 1, kMost);
    visitor.integer("top_k", self.topK, 1, kMost);
    visitor.integer("groups", self.groups, 1, kMost);
    visitor.integer("top_groups", self.topGroups, 1, kMost);
  }
  bool operator==(const MergedRows &) const = default;
};

/// The choices themselves, which go to the holders.
struct SentChoices {
  int64_t choices = 0, dropped = -1;

  static constexpr llvm::StringLiteral name = "sent_choices";
  static constexpr Members members = Members::None;
  template <typename Self, typename Visitor> static void visit(Self &self, Visitor &&visitor) {
    visitor.input("choices", self.choices);
    visitor.integer("dropped", self.dropped, -1, kMost);
  }
  bool operator==(const SentChoices &) const = default;
};

/// Choices that all members sent.
struct ArrivedChoices {
  int64_t input = 0;

  static constexpr llvm::StringLiteral name = "arrived_choices";
  static constexpr Members members = Members::Meet;
  template <typename Self, typename Visitor> static void visit(Self &self, Visitor &&visitor) {
    visitor.input("input", self.input);
  }
  bool operator==(const ArrivedChoices &) const = default;
};

} // namespace counts

/// How output number `output` of a launch is made.
struct CountsRule {
  using Variant = std::variant<counts::Route, counts::RouteInGroups, counts::RouteNearHome, counts::Gather,
                               counts::Exchange, counts::SliceRows, counts::OwnExperts, counts::Window, counts::Repeat,
                               counts::ChooseShadows, counts::KeptChoices, counts::ShadowChoices, counts::MergedRows,
                               counts::SentChoices, counts::ArrivedChoices>;
  int64_t output = 0;
  Variant how;

  bool operator==(const CountsRule &) const = default;

  template <typename Rule> const Rule *getIf() const { return std::get_if<Rule>(&how); }
  /// Of a rule for what a rank's tokens choose: the tokens and the choices of each. None for other rules.
  std::optional<counts::Route> getRouted() const;
  /// How many choices these are.
  std::optional<int64_t> getNumChoices() const;
  Members getMembers() const;
  llvm::StringRef getName() const;
  /// The numbers of the call's inputs that the rule reads.
  llvm::SmallVector<int64_t, 2> getInputs() const;
  /// The first field out of its bounds, as "expected .. but got .."; empty where there is none.
  std::string getError() const;
  /// The rule of that name, its fields as by default; none where there is no such rule.
  static std::optional<CountsRule> create(llvm::StringRef name);
  /// All names, with commas between.
  static std::string getNames();
};

llvm::hash_code hash_value(const CountsRule &rule);

} // namespace mlir::moe

#endif // MOE_OPFACTS_COUNTSRULE_H
