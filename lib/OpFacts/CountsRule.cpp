//===- CountsRule.cpp - how a launch makes counts of routed rows ----------===//
#include "moe/OpFacts/CountsRule.h"

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/Twine.h"
#include "llvm/ADT/bit.h"

#include <algorithm>
#include <cmath>

using namespace mlir::moe;

/// Returns the visitor after it has seen the rule's fields.
template <typename Visitor> static Visitor visitFields(const CountsRule &rule, Visitor visitor = {}) {
  std::visit([&](const auto &how) { counts::visit(how, visitor); }, rule.how);
  return visitor;
}

Members CountsRule::getMembers() const {
  return std::visit([](const auto &rule) { return rule.members; }, how);
}

llvm::StringRef CountsRule::getName() const {
  return std::visit([](const auto &rule) -> llvm::StringRef { return rule.name; }, how);
}

std::optional<counts::Route> CountsRule::getRouted() const {
  if (const auto *route = getIf<counts::Route>())
    return *route;
  if (const auto *route = getIf<counts::RouteInGroups>())
    return counts::Route{route->tokens, route->topK};
  if (const auto *route = getIf<counts::RouteNearHome>())
    return counts::Route{route->tokens, route->topK};
  return std::nullopt;
}

namespace {
struct Collector {
  llvm::SmallVector<int64_t, 2> inputs;
  llvm::hash_code code{0}; ///< hash of all fields

  void input(llvm::StringRef, int64_t value) {
    inputs.push_back(value);
    code = llvm::hash_combine(code, value);
  }
  void integer(llvm::StringRef, int64_t value, int64_t, int64_t) { code = llvm::hash_combine(code, value); }
  void real(llvm::StringRef, double value) { code = llvm::hash_combine(code, llvm::bit_cast<uint64_t>(value)); }
};

struct Checker {
  std::string error;

  void fail(const llvm::Twine &text) {
    if (error.empty())
      error = text.str();
  }
  void input(llvm::StringRef key, int64_t value) { integer(key, value, 0, counts::kMost); }
  void integer(llvm::StringRef key, int64_t value, int64_t least, int64_t most) {
    if (value < least)
      fail("expected " + key + " to be at least " + llvm::Twine(least) + " but got " + llvm::Twine(value));
    else if (value > most)
      fail("expected " + key + " to be at most " + llvm::Twine(most) + " but got " + llvm::Twine(value));
  }
  void real(llvm::StringRef key, double value) {
    if (!std::isfinite(value) || value < 0)
      fail("expected " + key + " to be finite and not negative");
  }
};
} // namespace

llvm::SmallVector<int64_t, 2> CountsRule::getInputs() const { return visitFields<Collector>(*this).inputs; }

std::string CountsRule::getError() const {
  Checker checker;
  checker.integer("output", output, 0, counts::kMost);
  return visitFields(*this, checker).error;
}

/// A rule of each kind, with the defaults of its fields.
static llvm::ArrayRef<CountsRule> getRules() {
  static const CountsRule rules[] = {
#define COUNTS_RULE(Type, key, role) {0, counts::Type()},
#include "moe/OpFacts/CountsRules.def"
  };
  return rules;
}

std::optional<CountsRule> CountsRule::create(llvm::StringRef name) {
  const auto *found = llvm::find_if(getRules(), [&](const CountsRule &rule) { return rule.getName() == name; });
  return found == getRules().end() ? std::nullopt : std::optional(*found);
}

std::string CountsRule::getNames() {
  return llvm::join(llvm::map_range(getRules(), [](const CountsRule &rule) { return rule.getName(); }), ", ");
}

llvm::hash_code mlir::moe::hash_value(const CountsRule &rule) {
  return llvm::hash_combine(rule.output, rule.how.index(), visitFields<Collector>(rule).code);
}

//===----------------------------------------------------------------------===//
// TokenDraw
//===----------------------------------------------------------------------===//

/// Probability that a token chooses none of the given experts. Its choices differ. If it avoids the first experts, all
/// its choices fall on the others, and each of these is more likely by the factor topK / left. For equal chances the
/// result is C(E - n, k) / C(E, k).
static double getChanceOfNone(llvm::ArrayRef<double> chances, int64_t topK) {
  double none = 1, left = static_cast<double>(topK);
  for (double chance : chances) {
    double chosen = chance * static_cast<double>(topK);
    if (chosen >= left)
      return 0;
    none *= 1 - chosen / left;
    left -= chance;
  }
  return none;
}

/// log(n! / (k! (n - k)!))
static double getLogChoices(int64_t n, int64_t k) {
  return std::lgamma(n + 1) - std::lgamma(k + 1) - std::lgamma(n - k + 1);
}

double TokenDraw::getChanceOfSome(int64_t first, llvm::ArrayRef<double> chances) const {
  if (chances.size() == 1)
    return chances.front();
  int64_t perGroup = experts / groups, last = first + static_cast<int64_t>(chances.size()) - 1;
  int64_t its = last / perGroup - first / perGroup + 1;
  // Chances within a group from which the token draws, by the mean of its groups.
  llvm::SmallVector<double> group(perGroup);
  double drawn = static_cast<double>(topGroups) / static_cast<double>(groups);
  for (auto [index, chance] : llvm::enumerate(chances))
    group[(first + static_cast<int64_t>(index)) % perGroup] += chance / (drawn * static_cast<double>(its));
  llvm::erase(group, 0.0);
  // The number of its groups among the drawn ones has a hypergeometric distribution.
  double none = 0;
  llvm::SmallVector<double> hit;
  for (int64_t hits = 0; hits <= std::min(its, topGroups); ++hits, llvm::append_range(hit, group))
    if (topGroups - hits <= groups - its)
      none += std::exp(getLogChoices(its, hits) + getLogChoices(groups - its, topGroups - hits) -
                       getLogChoices(groups, topGroups)) *
              getChanceOfNone(hit, topK);
  return std::clamp(1 - none, 0.0, 1.0);
}
