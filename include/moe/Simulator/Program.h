//===- Program.h - a rank program in the simulator's form -------*- C++ -*-===//
//
// Flat arrays, made once from a func.func of the plan dialect and shared by all ranks. This header does not use MLIR.
//
//===----------------------------------------------------------------------===//
#ifndef MOE_SIMULATOR_PROGRAM_H
#define MOE_SIMULATOR_PROGRAM_H

#include "moe/OpFacts/CountsRule.h"
#include "moe/OpFacts/OpCost.h"

#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/STLExtras.h"
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

/// Rank r is member (r / stride) mod size. A channel has two members, the sender and the receiver: each of the `span`
/// ranks from `first` on sends to the rank `stride` after it, or before it if `stride` is negative.
struct SimGroup {
  std::string name;
  int64_t size = 1, stride = 1;
  int64_t first = 0, span = 0; ///< for a channel; else 0

  bool isChannel() const { return span > 0; }
  bool isSender(int64_t rank) const { return rank >= first && rank < first + span; }
  bool contains(int64_t rank) const {
    return !isChannel() || isSender(rank) || (rank >= first + stride && rank < first + stride + span);
  }
  int64_t getMember(int64_t rank) const { return isChannel() ? !isSender(rank) : rank / stride % size; }
  /// All ranks of an instance have the same number.
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

/// A place in the program's memory, an argument, or a view of one of them.
struct SimBuffer {
  int64_t bytes = 0;
  int64_t offset = -1; ///< in the arena; -1 if it is not there
  /// Buffer that a view is part of; -1 if this is no view. The base is no view itself. A view has no bytes of its
  /// own, and launches that touch it touch its base.
  int32_t base = -1;
  /// First row of a view in its base, along dimension 0; -1 if this is no view, or an empty one.
  int64_t firstRow = -1;
  /// Group of a view whose part depends on the rank; -1 if the part is the same on all ranks. From `firstRow` on,
  /// the base has `parts` equal parts. Member m has part (m / (size / parts) + shift) mod parts.
  int32_t partGroup = -1;
  int64_t parts = 1, shift = 0;
  bool isArgument = false;
  bool isHost = false; ///< host-pinned
  std::string dtype;
  llvm::SmallVector<int64_t, 4> shape;
  /// First and last launch that touch the buffer; -1 if none does.
  int32_t firstLaunch = -1, lastLaunch = -1;
};

struct SimLaunch {
  std::string kernel, label;
  std::string dtype;                    ///< first floating-point type among its buffers
  llvm::SmallVector<int64_t, 4> params; ///< integer parameters, in order
  OpCost cost;
  llvm::SmallVector<CountsRule, 0> counts; ///< rules for outputs that hold counts of routed rows; few launches have any
  /// Seconds of a transfer alone, on the cluster for which the plan was made; 0 if the plan does not say.
  double transferSeconds = 0;
  uint32_t stream = 0;
  /// Number in the ops table of the plan's metadata. All iterations of a loop have the same number.
  uint32_t op = 0;
  /// Unit of a pipeline that the launch belongs to: micro-batch, stage and direction; -1 if it belongs to none. A
  /// backward launch that computes weight gradients may be marked.
  int32_t microBatch = -1, stage = -1;
  bool isBackward = false, isOfWeights = false;
  int64_t pass = 0;       ///< pass that the launch chooses rows for, in a dropless layer with passes
  int32_t group = -1;     ///< group that meets in the launch; -1 if it is no collective
  int32_t partGroup = -1; ///< group that does not meet, but of which the launch does a member's part; else -1
  llvm::SmallVector<int32_t, 4> inputs, outputs; ///< buffers in the order of the call; -1 for an absent optional one

  /// The rule of a routing launch; null for other launches.
  const CountsRule *getRouting() const;
};

struct SimOp {
  enum class Kind : uint8_t { Launch, Record, Wait } kind;
  uint32_t stream;
  uint32_t index; ///< number of the launch or of the event
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
  /// Layers of the routing launches, each once and in order: the MoE layers of these ranks.
  std::vector<std::string> routedLayers;
  /// The plan's loop if it has exactly one: `length` launches in each of `count` iterations, from launch `first` on.
  struct Loop {
    uint32_t first = 0, length = 0;
    int64_t count = 0;        ///< 0 if there is no loop
    int64_t all = 0;          ///< iterations in the plan; some may be left out here
    int64_t microBatches = 1; ///< in an iteration
    int64_t reach = 0;        ///< most iterations between a launch and one that it depends on
  } loop;

  /// Whether the routing decides how many rows some launches have.
  bool isRagged() const {
    return llvm::any_of(launches, [](const SimLaunch &launch) { return launch.cost.raggedRows > 0; });
  }
  /// First routing launch of a layer in `routedLayers`.
  const SimLaunch &getRouter(llvm::StringRef layer) const;
  /// First row of view `buffer` in its base on rank `rank`, along dimension 0; -1 if `buffer` is no view.
  int64_t getFirstRow(int32_t buffer, int64_t rank) const;
};

/// Numbers of the launches of a rank program in the ops table of the plan's metadata. A launch that runs a subprogram
/// has the number of the subprogram's first launch.
llvm::DenseMap<Operation *, uint32_t> numberOps(func::FuncOp program);

/// Copies of a loop's body: as many as it has iterations, or one.
enum class LoopForm { Unrolled, Once };

/// Requires that `program` passes plan::verifyRankProgram. `world` is the number of ranks of the module. Leaves the
/// iterations of `leftOut` micro-batches out of each loop. Fails if a launch has no cost.
llvm::Expected<SimProgram> makeSimProgram(func::FuncOp program, int64_t world, LoopForm loops = LoopForm::Unrolled,
                                          int64_t leftOut = 0);

/// Fails if the programs do not cover each of `ranks` ranks once, in order.
llvm::Error checkRanks(llvm::ArrayRef<SimProgram> programs, int64_t ranks);

/// The rank programs of a module at the plan stage, without the one-rank reference. Fails if there is none, or if they
/// do not cover each rank of the module's `moe.parallel` once.
llvm::Expected<std::vector<SimProgram>> makeSimPrograms(ModuleOp plan, LoopForm loops = LoopForm::Unrolled,
                                                        int64_t leftOut = 0);

/// Names of the MoE layers of all programs, in the order of the model: the layers of a routing trace.
std::vector<std::string> listRoutedLayers(llvm::ArrayRef<SimProgram> programs);

/// Input of a program's routing launches; all zero if there are none.
struct RoutedShape {
  int64_t tokens = 0, topK = 0, experts = 0;
};
/// Shape for one launch, whose rule is `routing`.
RoutedShape getRoutedShape(const SimProgram &program, const SimLaunch &launch, const CountsRule &routing);
/// Shape for all layers of programs; fails if they differ.
llvm::Expected<RoutedShape> getRoutedShape(llvm::ArrayRef<SimProgram> programs);

} // namespace mlir::moe

#endif // MOE_SIMULATOR_PROGRAM_H
