//===- TokenDraw.h - how tokens draw their experts --------------*- C++ -*-===//
#ifndef MOE_OPFACTS_TOKENDRAW_H
#define MOE_OPFACTS_TOKENDRAW_H

#include "llvm/ADT/ArrayRef.h"

#include <cstdint>

namespace mlir::moe {

/// A random choice of experts: a token chooses `topK` different experts of `experts`, all from `topGroups` of `groups`
/// equal groups. All groups are equally likely.
struct TokenDraw {
  int64_t experts = 1, topK = 1, groups = 1, topGroups = 1;

  /// Probability that a token chooses some of the neighbouring experts from `first` on, each of which it chooses with
  /// its probability of `chances`. It is exact if all chances are equal and each group has the same number of these
  /// experts, and approximate otherwise.
  double getChanceOfSome(int64_t first, llvm::ArrayRef<double> chances) const;
  /// Probability of one expert if all are equally likely.
  double getEvenChance() const { return static_cast<double>(topK) / static_cast<double>(experts); }
};

} // namespace mlir::moe

#endif // MOE_OPFACTS_TOKENDRAW_H
