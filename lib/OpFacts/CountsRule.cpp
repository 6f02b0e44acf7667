//===- CountsRule.cpp - how a launch makes counts of routed rows ----------===//
#include "moe/OpFacts/CountsRule.h"

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/Twine.h"
#include "llvm/ADT/bit.h"

#include <cmath>

using namespace mlir::moe;

template <typename Visitor> static void visitFields(const CountsRule &rule, Visitor &&visitor) {
  std::visit([&](const auto &how) { counts::visit(how, visitor); }, rule.how);
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

std::optional<int64_t> CountsRule::getNumChoices() const {
  std::optional<counts::Route> routed = getRouted();
  return routed ? std::optional(routed->tokens * routed->topK) : std::nullopt;
}

namespace {
struct InputCollector {
  llvm::SmallVector<int64_t, 2> inputs;

  void input(llvm::StringRef, int64_t value) { inputs.push_back(value); }
  void integer(llvm::StringRef, int64_t, int64_t, int64_t) {}
  void real(llvm::StringRef, double) {}
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

struct Hasher {
  llvm::hash_code code;

  void input(llvm::StringRef, int64_t value) { code = llvm::hash_combine(code, value); }
  void integer(llvm::StringRef, int64_t value, int64_t, int64_t) { code = llvm::hash_combine(code, value); }
  void real(llvm::StringRef, double value) { code = llvm::hash_combine(code, llvm::bit_cast<uint64_t>(value)); }
};
} // namespace

llvm::SmallVector<int64_t, 2> CountsRule::getInputs() const {
  InputCollector collector;
  visitFields(*this, collector);
  return collector.inputs;
}

std::string CountsRule::getError() const {
  Checker checker;
  checker.integer("output", output, 0, counts::kMost);
  visitFields(*this, checker);
  return checker.error;
}

template <size_t index = 0> static std::optional<CountsRule> createFrom(llvm::StringRef name) {
  if constexpr (index < std::variant_size_v<CountsRule::Variant>) {
    using Rule = std::variant_alternative_t<index, CountsRule::Variant>;
    return name == Rule::name ? CountsRule{0, Rule()} : createFrom<index + 1>(name);
  } else {
    return std::nullopt;
  }
}
std::optional<CountsRule> CountsRule::create(llvm::StringRef name) { return createFrom(name); }

template <size_t... index> static std::string joinNames(std::index_sequence<index...>) {
  llvm::StringRef names[] = {std::variant_alternative_t<index, CountsRule::Variant>::name...};
  return llvm::join(llvm::ArrayRef(names), ", ");
}
std::string CountsRule::getNames() {
  return joinNames(std::make_index_sequence<std::variant_size_v<CountsRule::Variant>>());
}

llvm::hash_code mlir::moe::hash_value(const CountsRule &rule) {
  Hasher hasher{llvm::hash_combine(rule.output, rule.how.index())};
  visitFields(rule, hasher);
  return hasher.code;
}
