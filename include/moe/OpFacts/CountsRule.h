//===- CountsRule.h - how a launch makes counts of routed rows --*- C++ -*-===//
//
// In a dropless layer the routing decides how many rows each rank sends and computes. These counts are data: [sources,
// experts] i32. A rule states how one output of a launch follows from the launch's inputs. Ops state it through
// MoeCountsOpInterface, plans carry it as #plan.counts, and the simulator executes it.
//
//===----------------------------------------------------------------------===//
#ifndef MOE_OPFACTS_COUNTSRULE_H
#define MOE_OPFACTS_COUNTSRULE_H

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/Hashing.h"
#include "llvm/ADT/SmallVector.h"
#include "llvm/ADT/StringRef.h"

#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <type_traits>
#include <variant>

namespace mlir::moe {

/// A random choice of experts: a token chooses `topK` different experts of `experts`, all from `topGroups` of `groups`
/// equal groups. All groups are equally likely.
struct TokenDraw {
  int64_t experts = 1, topK = 1, groups = 1, topGroups = 1;

  /// Probability that a token chooses at least one of the consecutive experts from `first` on. `chances` has the
  /// probability of each of them. It is exact if all chances are equal and each group has the same number of these
  /// experts, and approximate otherwise.
  double getChanceOfSome(int64_t first, llvm::ArrayRef<double> chances) const;
  /// Probability of one expert if all are equally likely.
  double getEvenChance() const { return static_cast<double>(topK) / static_cast<double>(experts); }
};

/// Role of the members of the launch's group in a rule.
enum class Members : uint8_t {
  None,    ///< the rule needs no group
  OwnPart, ///< each member takes its own part of its input
  Meet,    ///< members exchange counts
};

// A rule has a name, a role of the group's members, and fields, which visit() shows to a visitor.
namespace counts {

inline constexpr int64_t kMost = std::numeric_limits<int64_t>::max();

#define COUNTS_RULE(Type, key, role)                                                                                   \
  struct Type {                                                                                                        \
    static constexpr llvm::StringLiteral name = key;                                                                   \
    static constexpr Members members = Members::role;                                                                  \
    bool operator==(const Type &) const = default;
#define INPUT(field, key, value) int64_t field = value;
#define INTEGER(field, key, value, least, most) int64_t field = value;
#define REAL(field, key) double field = 0;
#define END_RULE                                                                                                       \
  }                                                                                                                    \
  ;
#include "moe/OpFacts/CountsRules.def"

#define COUNTS_RULE(Type, key, role)                                                                                   \
  template <typename Rule, typename Visitor>                                                                           \
    requires std::is_same_v<std::remove_const_t<Rule>, Type>                                                           \
  void visit(Rule &rule, Visitor &visitor) {
#define INPUT(field, key, value) visitor.input(key, rule.field);
#define INTEGER(field, key, value, least, most) visitor.integer(key, rule.field, least, most);
#define REAL(field, key) visitor.real(key, rule.field);
#define END_RULE }
#include "moe/OpFacts/CountsRules.def"

inline TokenDraw getDraw(const MergedRows &rule) { return {rule.experts, rule.topK, rule.groups, rule.topGroups}; }

/// Builds the variant of all rules. Each rule follows a comma, so the first parameter is an unused placeholder.
template <typename, typename... Rules> struct MakeVariant {
  using Type = std::variant<Rules...>;
};
using Variant = MakeVariant<void
#define COUNTS_RULE(Type, key, role) , Type
#include "moe/OpFacts/CountsRules.def"
                            >::Type;

} // namespace counts

/// Rule that computes output number `output` of a launch.
struct CountsRule {
  using Variant = counts::Variant;
  int64_t output = 0;
  Variant how;

  bool operator==(const CountsRule &) const = default;

  template <typename Rule> const Rule *getIf() const { return std::get_if<Rule>(&how); }
  /// Number of a rank's tokens and of choices per token, for a rule of routing. None for other rules.
  std::optional<counts::Route> getRouted() const;
  Members getMembers() const;
  llvm::StringRef getName() const;
  /// The numbers of the call's inputs that the rule reads.
  llvm::SmallVector<int64_t, 2> getInputs() const;
  /// The first field out of its bounds, as "expected .. but got ..", or an empty string.
  std::string getError() const;
  /// The rule of that name with the default of each field, or none if there is no such rule.
  static std::optional<CountsRule> create(llvm::StringRef name);
  /// All names, with commas between.
  static std::string getNames();
};

llvm::hash_code hash_value(const CountsRule &rule);

} // namespace mlir::moe

#endif // MOE_OPFACTS_COUNTSRULE_H
