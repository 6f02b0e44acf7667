//===- Dependences.h - what has to come before what -------------*- C++ -*-===//
//
// The order that the memory of a rank program demands, before there are streams, waits and offsets. Readers of bytes
// come after their writer, writers come after earlier users, and the writer of a buffer of a ring comes after all users
// of the buffer whose place it takes.
//
//===----------------------------------------------------------------------===//
#ifndef MOE_DIALECT_PLAN_TRANSFORMS_DEPENDENCES_H
#define MOE_DIALECT_PLAN_TRANSFORMS_DEPENDENCES_H

#include "mlir/Dialect/Func/IR/FuncOps.h"

#include "moe/Dialect/Plan/IR/RankProgram.h"

namespace mlir::plan {

/// The buffers of one ring.
struct Ring {
  int64_t depth;
  /// Launches that use one buffer of the ring, in program order, each once, and the first launch that writes it. Turns
  /// are sorted by this first writer. Buffers without a writer have no turn.
  struct Turn {
    SmallVector<unsigned> users;
    unsigned firstWriter;
  };
  SmallVector<Turn> turns = {};
};

/// Numbers launches in the order of issue, with getRepresentative() iterations of each loop. Every buffer and argument
/// is memory of its own. A part that is the same on all ranks counts as its bytes. A part that depends on the rank
/// counts as all of its source, so that the dependences hold on every rank. The time is linear in the uses, unless
/// memories are written in many parts.
class Dependences {
public:
  /// Expects a program that passes verifyRankProgram.
  explicit Dependences(func::FuncOp program);

  ArrayRef<LaunchOp> getLaunches() const { return launches; }
  int64_t getIteration(unsigned launch) const { return iterationOf[launch]; }
  /// Launches that must precede `launch`, in ascending order, each once. Some that follow from others are left out. All
  /// have lower numbers if the program is in an order that its rings allow.
  ArrayRef<unsigned> get(unsigned launch) const { return before[launch]; }
  ArrayRef<Ring> getRings() const { return rings; }

  /// Fails after an error if a launch precedes one that must come first. Only rings can demand that.
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
