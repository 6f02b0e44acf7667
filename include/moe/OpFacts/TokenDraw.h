//===- TokenDraw.h - how tokens draw their experts --------------*- C++ -*-===//
#ifndef MOE_OPFACTS_TOKENDRAW_H
#define MOE_OPFACTS_TOKENDRAW_H

#include "llvm/ADT/ArrayRef.h"

#include <cstdint>

namespace mlir::moe {

/// A token chooses `topK` different ones of `experts` experts, all from `topGroups` of `groups` equal groups of them.
/// It draws any groups alike.
struct TokenDraw {
  int64_t experts = 1, topK = 1, groups = 1, topGroups = 1;

  /// How probable it is that a token chooses some of the neighbouring experts from `first` on, each of which it chooses
  /// with its probability of `chances`. Exact for equal chances of as many experts of each group; else about right.
  double getChanceOfSome(int64_t first, llvm::ArrayRef<double> chances) const;
  /// Of one expert, where all are chosen alike.
  double getEvenChance() const { return static_cast<double>(topK) / static_cast<double>(experts); }
};

} // namespace mlir::moe

#endif // MOE_OPFACTS_TOKENDRAW_H
