//===- Stages.h - what stages of a pipeline share ---------------*- C++ -*-===//
#ifndef MOE_LIB_DIALECT_MOE_TRANSFORMS_STAGES_H
#define MOE_LIB_DIALECT_MOE_TRANSFORMS_STAGES_H

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "llvm/ADT/DenseSet.h"

#include "moe/Dialect/Moe/IR/EvenRows.h"
#include "moe/Dialect/Moe/IR/MoeInterfaces.h"
#include "moe/Scheduling/Pipeline.h"

namespace mlir::moe {

/// The ops of a function that belong to no stage: each stage that needs their results makes them itself. They need
/// arguments alone, and either no inputs of the model (what is cast, cut or made of parameters and constants), or next
/// to nothing is done (a micro-batch's part of an input, its number of a step).
llvm::DenseSet<Operation *> findPortableOps(func::FuncOp function);

/// Where a program can be cut.
struct ProgramCuts {
  /// Those that are not portable, in program order.
  SmallVector<Operation *> ops;
  /// By op, and once more behind the last: the bytes that all before it hand over to it and to later ones.
  SmallVector<int64_t> crossing;
  /// Ops before which the program can be cut, from the first to the one behind the last: where no more is handed over
  /// than next to it, between two blocks of a model and between the parts of one.
  SmallVector<size_t> cuts;
};
ProgramCuts findCuts(func::FuncOp function);

/// What runs ops one after the other.
enum class Lane { Computation, InsideNode, BetweenNodes };

/// What ops take, as `moe.seconds` says; by their costs at the rates of `moe.cluster` where it does not, with tokens
/// that choose experts evenly.
class OpTimer {
public:
  explicit OpTimer(func::FuncOp function);

  /// Seconds. Ops come in program order, as EvenRows says.
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

/// The unit of a pipeline that an op belongs to; without stages a micro-batch is one. None where it belongs to none.
std::optional<PipelineUnit> getPipelineUnit(Operation *op);

} // namespace mlir::moe

#endif // MOE_LIB_DIALECT_MOE_TRANSFORMS_STAGES_H
