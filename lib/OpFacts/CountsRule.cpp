//===- CountsRule.cpp - how a launch makes counts of routed rows ----------===//
#include "moe/OpFacts/CountsRule.h"

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/Twine.h"
#include "llvm/ADT/bit.h"

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
