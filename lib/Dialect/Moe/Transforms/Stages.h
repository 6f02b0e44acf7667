//===- Stages.h - what stages of a pipeline share ---------------*- C++ -*-===//
#ifndef MOE_LIB_DIALECT_MOE_TRANSFORMS_STAGES_H
#define MOE_LIB_DIALECT_MOE_TRANSFORMS_STAGES_H

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "llvm/ADT/DenseSet.h"
#include "llvm/ADT/StringMap.h"

#include "moe/Dialect/Moe/IR/EvenRows.h"
#include "moe/Dialect/Moe/IR/MoeInterfaces.h"
#include "moe/Scheduling/Pipeline.h"

namespace mlir::moe {

/// Ops of a function that belong to no stage, since each stage that needs their results computes them itself. They
/// depend on arguments alone. Either these are no inputs of the model, as for casts and parts of parameters and
/// constants, or the work is tiny, as for a micro-batch's part of an input or its number of a step.
llvm::DenseSet<Operation *> findPortableOps(func::FuncOp function);

/// Places where a program can be cut.
struct ProgramCuts {
  /// Ops that are not portable, in program order.
  SmallVector<Operation *> ops;
  llvm::DenseMap<Operation *, size_t> numbers; ///< place of each in `ops`
  /// Bytes that all ops before each op pass to it and to later ones, by op, and once more at the end.
  SmallVector<int64_t> crossing;
  /// Ops before which the program can be cut, from the first to the end. The bytes that cross there are no more than
  /// next to it, as between two blocks of a model and between the parts of one.
  SmallVector<size_t> cuts;
};
ProgramCuts findCuts(func::FuncOp function);

/// Resources that each run ops one after the other.
enum class Lane { Computation, InsideNode, BetweenNodes };

/// Times of ops by `moe.seconds` or, without it, by their costs at the rates of `moe.cluster`, if tokens choose experts
/// evenly.
class OpTimer {
public:
  explicit OpTimer(func::FuncOp function);

  /// Seconds of an op. Expects ops in program order, as EvenRows does.
  double getSeconds(Operation *op);
  Lane getLane(Operation *op) const;
  /// Seconds of a transfer to the next stage.
  double getTransferSeconds(int64_t bytes) const { return static_cast<double>(bytes) / rates.outsideBytes; }

private:
  bool isInsideNode(GroupAttr group) const { return group.isInsideNode(rates.nodeRanks, world); }

  ClusterRates rates;
  int64_t world = 0;
  EvenRows rows;
};

/// Arguments of a function, by name.
llvm::StringMap<BlockArgument> getNamedArguments(func::FuncOp function);

/// Unit of a pipeline to which an op belongs, or none. Without stages a micro-batch is one unit.
std::optional<PipelineUnit> getPipelineUnit(Operation *op);

} // namespace mlir::moe

#endif // MOE_LIB_DIALECT_MOE_TRANSFORMS_STAGES_H
