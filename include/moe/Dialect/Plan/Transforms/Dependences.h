//===- Dependences.h - what has to come before what -------------*- C++ -*-===//
//
// The order that the memory of a rank program asks for, before there are streams, waits and offsets: who reads bytes
// comes after who wrote them, who writes bytes comes after who used them, and who writes a buffer of a ring comes after
// all that use the buffer whose place it takes.
//
//===----------------------------------------------------------------------===//
#ifndef MOE_DIALECT_PLAN_TRANSFORMS_DEPENDENCES_H
#define MOE_DIALECT_PLAN_TRANSFORMS_DEPENDENCES_H

#include "mlir/Dialect/Func/IR/FuncOps.h"

#include "moe/Dialect/Plan/IR/RankProgram.h"

namespace mlir::plan {

/// The buffers of one ring.
struct Ring {
  StringRef name;
  int64_t depth;
  /// For each buffer, in the ring's order: the launches that use it, in program order, each once, and the first of them
  /// that writes it, by which buffers are ordered. Buffers that nobody writes are left out.
  struct Turn {
    SmallVector<unsigned> users;
    unsigned firstWriter;
  };
  SmallVector<Turn> turns;
};

/// Launches are numbered in the order of issue, with getRepresentative() iterations of each loop. Every buffer and
/// argument is memory of its own. Parts that are the same on all ranks are their bytes; a part that depends on the rank
/// counts as all that it is part of, so that the dependences hold on every rank. Takes time linear in the uses, where
/// memories are not written in many parts.
class Dependences {
public:
  /// `program` passes verifyRankProgram.
  explicit Dependences(func::FuncOp program);

  ArrayRef<LaunchOp> getLaunches() const { return launches; }
  int64_t getIteration(unsigned launch) const { return iterationOf[launch]; }
  /// The launches that `launch` has to come after, rising, each once; of those that follow from others some are left
  /// out. All are earlier where the program is in an order that its rings allow.
  ArrayRef<unsigned> get(unsigned launch) const { return before[launch]; }
  ArrayRef<Ring> getRings() const { return rings; }

  /// Fails after an error where a launch comes before one that it has to come after, which only rings can ask for.
  LogicalResult verifyProgramOrder() const;

private:
  void addRings(func::FuncOp program);
  void addTurns(const Ring &ring);

  std::vector<LaunchOp> launches;
  std::vector<int64_t> iterationOf;
  std::vector<SmallVector<unsigned, 4>> before;
  std::vector<Ring> rings;
};

} // namespace mlir::plan

#endif // MOE_DIALECT_PLAN_TRANSFORMS_DEPENDENCES_H
