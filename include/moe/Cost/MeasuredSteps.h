//===- MeasuredSteps.h - how far predicted steps were off -------*- C++ -*-===//
//
// Whole steps take longer or shorter than the sum of what is known of their kernels and exchanges. Only measured steps
// say by how much. benchmarks/steps.py compares predictions with them, by class, and writes the result into the
// description of a framework.
//
//===----------------------------------------------------------------------===//
#ifndef MOE_COST_MEASUREDSTEPS_H
#define MOE_COST_MEASUREDSTEPS_H

#include <cstdint>
#include <optional>
#include <vector>

namespace mlir::moe {

/// Facts of a simulated step that decide its class.
struct StepFacts {
  int64_t tokens = 0;         ///< tokens of a rank in a micro-batch
  bool isInsideNode = true;   ///< whether tokens stay inside a node on their way to experts
  bool hasEvenRouting = true; ///< whether each expert gets as many tokens
};

/// Measured steps that are alike. Absent facts are any.
struct StepClass {
  std::optional<int64_t> minTokens = std::nullopt, belowTokens = std::nullopt;
  std::optional<bool> isInsideNode = std::nullopt, hasEvenRouting = std::nullopt;
  /// The middle two thirds of them took `low` to `high` times as long as predicted.
  double low = 0, high = 0;
  int64_t steps = 0, sources = 0;
  bool isOwn = false; ///< whether they are those of the user's runs, in which the profile is anchored

  bool contains(const StepFacts &facts) const {
    return facts.tokens >= minTokens.value_or(0) && (!belowTokens || facts.tokens < *belowTokens) &&
           isInsideNode.value_or(facts.isInsideNode) == facts.isInsideNode &&
           hasEvenRouting.value_or(facts.hasEvenRouting) == facts.hasEvenRouting;
  }
};

struct MeasuredSteps {
  std::vector<StepClass> classes; ///< the last one that contains a step is its class
  /// Two thirds of pairs that differ in one thing have a ratio within this distance of the predicted one, in
  /// logarithms. 0 if no pairs are known.
  double pairError = 0;

  /// Null if there is none.
  const StepClass *find(const StepFacts &facts) const {
    const StepClass *found = nullptr;
    for (const StepClass &one : classes)
      found = one.contains(facts) ? &one : found;
    return found;
  }
};

} // namespace mlir::moe

#endif // MOE_COST_MEASUREDSTEPS_H
