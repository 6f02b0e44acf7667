//===- Program.h - a rank program in the simulator's form -------*- C++ -*-===//
//
// Flat arrays, made once from a func.func of the plan dialect; all ranks share them. Nothing here is MLIR.
//
//===----------------------------------------------------------------------===//
#ifndef MOE_SIMULATOR_PROGRAM_H
#define MOE_SIMULATOR_PROGRAM_H

#include "moe/OpFacts/CountsRule.h"
#include "moe/OpFacts/OpCost.h"

#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/SmallVector.h"
#include "llvm/Support/Error.h"

#include <string>
#include <vector>

namespace mlir {
class ModuleOp;
class Operation;
namespace func {
class FuncOp;
} // namespace func
} // namespace mlir

namespace mlir::moe {

/// Rank r is member (r / stride) mod size. A channel has two members, the sender and the receiver: the `span` ranks
/// from `first` on send, each to the one `stride` behind it (or before it, where that is negative).
struct SimGroup {
  std::string name;
  int64_t size = 1, stride = 1;
  int64_t first = 0, span = 0; ///< of a channel; else 0

  bool isChannel() const { return span > 0; }
  bool isSender(int64_t rank) const { return rank >= first && rank < first + span; }
  bool contains(int64_t rank) const {
    return !isChannel() || isSender(rank) || (rank >= first + stride && rank < first + stride + span);
  }
  int64_t getMember(int64_t rank) const { return isChannel() ? !isSender(rank) : rank / stride % size; }
  /// Ranks of one instance have one number.
  int64_t getInstance(int64_t rank) const {
    if (isChannel())
      return rank - first - getMember(rank) * stride;
    return rank / (stride * size) * stride + rank % stride;
  }
  int64_t getRank(int64_t instance, int64_t member) const {
    if (isChannel())
      return first + instance + member * stride;
    return instance / stride * (stride * size) + member * stride + instance % stride;
  }
  int64_t getNumInstances(int64_t ranks) const { return isChannel() ? span : ranks / size; }
};

/// A place of the program's memory, an argument, or a view of one of them.
struct SimBuffer {
  int64_t bytes = 0;
  int64_t offset = -1; ///< into the arena; -1 where it has no place there
  /// Of a view: the buffer that it is part of, which is no view itself. A view has no bytes and no launches of its own.
  int32_t base = -1;
  /// Of a view: where in the base, along dimension 0, what it is a part of begins; -1 where it is no view, or of
  /// nothing.
  int64_t firstRow = -1;
  /// Of a view that is another one of `parts` equal parts on each block of neighbouring members of a group: on the one
  /// with member m part (m / (size / parts) + shift) mod parts. Else -1: the same part on all ranks, at `firstRow`.
  int32_t partGroup = -1;
  int64_t parts = 1, shift = 0;
  bool isArgument = false;
  bool isHost = false; ///< host-pinned
  std::string dtype;
  llvm::SmallVector<int64_t, 4> shape;
  /// First and last launch that touch it; -1 where none does.
  int32_t firstLaunch = -1, lastLaunch = -1;
};

struct SimLaunch {
  std::string kernel, label;
  std::string dtype;                    ///< of the first floating-point buffer that it touches
  llvm::SmallVector<int64_t, 4> params; ///< integer ones, in order
  OpCost cost;
  llvm::SmallVector<CountsRule, 0> counts; ///< of the outputs that hold counts of routed rows; few launches have any
  /// Of a transfer: seconds alone on the cluster for which the plan was made, where it says so; else 0.
  double transferSeconds = 0;
  uint32_t stream = 0;
  /// Its number in the ops table of the plan's metadata. In a loop, all iterations have the same.
  uint32_t op = 0;
  /// Which unit of a pipeline it belongs to: micro-batch, stage and direction; -1 where it belongs to none. Of the
  /// backward, what computes gradients of weights may be marked.
  int32_t microBatch = -1, stage = -1;
  bool isBackward = false, isOfWeights = false;
  int64_t pass = 0;       ///< of a launch that chooses what a pass of a dropless layer serves: which pass
  int32_t group = -1;     ///< of a collective
  int32_t partGroup = -1; ///< of a launch that meets nobody but does its member's part of something
  llvm::SmallVector<int32_t, 4> inputs, outputs; ///< buffers, in the call's order; -1 where an optional one is absent

  /// The rule for what the launch routes; null where it does not.
  const CountsRule *getRouting() const;
};

struct SimOp {
  enum class Kind : uint8_t { Launch, Record, Wait } kind;
  uint32_t stream;
  uint32_t index; ///< of the launch, or of the event
};

struct SimProgram {
  std::string name;
  int64_t firstRank = 0, numRanks = 0;
  std::vector<std::string> streams;
  std::vector<SimGroup> groups;
  std::vector<SimBuffer> buffers;
  std::vector<SimLaunch> launches; ///< in the order of issue
  std::vector<SimOp> ops;          ///< in the order of issue
  uint32_t numEvents = 0;
  /// Labels of the routing launches, each once, in order: the MoE layers.
  std::vector<std::string> routedLayers;
  /// The plan's loop, if it has exactly one: `length` launches in each of `count` iterations, from launch `first` on.
  struct Loop {
    uint32_t first = 0, length = 0;
    int64_t count = 0;        ///< 0: there is no loop
    int64_t all = 0;          ///< iterations in the plan, some of which may be left out here
    int64_t microBatches = 1; ///< of an iteration
    int64_t reach = 0;        ///< by how many iterations a launch is later than one that it depends on, at most
  } loop;

  /// Where view `buffer` begins in its base on rank `rank`, along dimension 0; -1 where `buffer` is no view.
  int64_t getFirstRow(int32_t buffer, int64_t rank) const;
};

/// By launch of a rank program its number in the ops table of the plan's metadata. A launch that runs a subprogram has
/// that of the subprogram's first launch.
llvm::DenseMap<Operation *, uint32_t> numberOps(func::FuncOp program);

/// How often the body of a loop is written out: as often as it runs, or once.
enum class LoopForm { Unrolled, Once };

/// `program` passes plan::verifyRankProgram; `world` is the number of ranks of the module. Of each loop, the
/// iterations of `leftOut` micro-batches are left out. Fails where a launch has no cost.
llvm::Expected<SimProgram> makeSimProgram(func::FuncOp program, int64_t world, LoopForm loops = LoopForm::Unrolled,
                                          int64_t leftOut = 0);

/// The rank programs of a module at the plan stage, without the one-rank reference. Fails where it has none, or where
/// they do not cover the ranks of the module's `moe.parallel` once each.
llvm::Expected<std::vector<SimProgram>> makeSimPrograms(ModuleOp plan, LoopForm loops = LoopForm::Unrolled,
                                                        int64_t leftOut = 0);

/// What a program's routing launches decide on; all zero where there are none.
struct RoutedShape {
  int64_t tokens = 0, topK = 0, experts = 0;
};
/// By `routing`, the rule of a launch that routes.
RoutedShape getRoutedShape(const SimProgram &program, const SimLaunch &launch, const CountsRule &routing);
/// Of a program whose layers all have one shape; fails where they differ.
llvm::Expected<RoutedShape> getRoutedShape(const SimProgram &program);

} // namespace mlir::moe

#endif // MOE_SIMULATOR_PROGRAM_H
