//===- MoeInterfaces.h - what every op tells the passes ---------*- C++ -*-===//
#ifndef MOE_DIALECT_MOE_IR_MOEINTERFACES_H
#define MOE_DIALECT_MOE_IR_MOEINTERFACES_H

#include "mlir/IR/Builders.h"
#include "mlir/IR/IRMapping.h"
#include "mlir/IR/OpDefinition.h"

#include "moe/Dialect/Moe/IR/ElementTypes.h"
#include "moe/Dialect/Moe/IR/Placement.h"
#include "moe/Dialect/Moe/IR/SpmdAxes.h"
#include "moe/OpFacts/CountsRule.h"
#include "moe/OpFacts/OpCost.h"

namespace mlir::moe {

/// One of `parts` equal parts of a value along dimension 0. Blocks of neighbouring members of `group` have different
/// parts: member m has part (m / (size / parts) + shift) mod parts. Without a group all ranks have part `shift`.
struct RankPart {
  GroupAttr group;
  int64_t shift, parts;
  /// Element of a 1-D value at which a piece of any shape begins. The piece is then part 0 of 1.
  std::optional<int64_t> at = std::nullopt;

  static RankPart piece(int64_t at) { return {GroupAttr(), 0, 1, at}; }
};

/// A chunk of `part` of the `whole` rows that a rank dispatches. Rows that are exchanged are divided in the same ratio.
struct RowChunk {
  int64_t part, whole;

  bool divides(int64_t rows) const { return rows * part % whole == 0; }
  int64_t of(int64_t rows) const { return rows * part / whole; }
};

/// Division of the tokens of a whole model over the ranks.
struct TokenDivision {
  /// Least number of routing groups in the whole model, one for each token shard.
  int64_t groups = 1;
  /// Number of sequences in the whole model, and of their data-parallel shards.
  int64_t sequences = 1, shards = 1;
  /// Cut of each sequence over the ranks, or null if sequences are whole. In the model for one rank it is the cut of
  /// the ranks with which that model is compared.
  CutAttr cut = {};
};

using Layouts = SmallVector<LayoutAttr, 1>;
using Values = SmallVector<Value, 2>;

/// Operands of an op of a model graph on one rank, with their layouts.
struct Shards {
  ParallelAttr parallel;
  const TokenDivision &tokens;
  ArrayRef<LayoutAttr> layouts;
  ValueRange operands;
};

/// Statement of an op of a model graph about sequences.
struct SequenceUse {
  /// Number of sequences in the op's rows, or 0 if the op does not tell it. The largest pieces that any op works on are
  /// the sequences.
  int64_t sequences = 0;
  /// Rows of the operands that have whole sequences.
  SmallVector<int64_t, 2> rows = {};
  /// Whether a later row of a sequence takes more work.
  bool isCausal = true;
};

/// Groups of the rows of experts and of their shadows. The rows of an expert are exchanged over `ep`, or over `ep` and
/// `esp` together. Those of a shadow are exchanged over `esp` only.
struct ShadowScope {
  GroupAttr ep, esp;

  /// Group over which shadows do what experts do over `group`.
  GroupAttr getGroup(GroupAttr group) const;
};

/// Dimension of the rows of experts: 1 of [E, T, M], 0 of [R, M].
unsigned getRowDim(Type rows);
/// Whether the floating-point results of `op` can be divided into such chunks.
bool canScaleRows(Operation *op, RowChunk chunk);
/// Implements MoeChunkableOpInterface::buildOnChunk.
Operation *cloneOnChunk(Operation *op, OpBuilder &builder, IRMapping &mapping, RowChunk chunk);

/// Implements MoeChunkableOpInterface::buildOnShadows.
Operation *cloneOnShadows(Operation *op, OpBuilder &builder, IRMapping &mapping);

/// Implements MoeWideGradientOpInterface::buildWide.
Value cloneWide(Operation *op, OpBuilder &builder);

/// Whether `type` has rows, dimension 0 of two, that can be divided over `group`.
bool hasRowsFor(Type type, GroupAttr group);
/// Implements MoeRowwiseOpInterface::buildOnRowPart.
Value cloneOnRowPart(Operation *op, OpBuilder &builder, ValueRange rows);

/// Implements the defaults of MoePartitionOpInterface.
Layouts inferElementwiseLayouts(Operation *op, MutableArrayRef<LayoutAttr> operands);
Values cloneOnShard(Operation *op, OpBuilder &builder, ValueRange operands);

/// Implements MoeSpmdOpInterface::inferSpmd for an op over `group`, by the states over the group before and after it.
LogicalResult inferVaryingToVarying(Operation *op, GroupAttr group, const SpmdAxes &axes, ArrayRef<AxisSet> operands,
                                    SmallVectorImpl<AxisSet> &required, SmallVectorImpl<AxisSet> &results);
LogicalResult inferVaryingToReplicated(Operation *op, GroupAttr group, const SpmdAxes &axes, ArrayRef<AxisSet> operands,
                                       SmallVectorImpl<AxisSet> &required, SmallVectorImpl<AxisSet> &results);
LogicalResult inferReplicatedToVarying(Operation *op, GroupAttr group, const SpmdAxes &axes, ArrayRef<AxisSet> operands,
                                       SmallVectorImpl<AxisSet> &required, SmallVectorImpl<AxisSet> &results);

/// Number of a result among those of its op, as in CountsRule::output.
inline int64_t getResultNumber(Value result) { return cast<OpResult>(result).getResultNumber(); }
/// Whether a tensor of this type may hold counts of routed rows.
bool isCounts(Type type);

/// Kernel that copies, also between devices and hosts.
inline constexpr StringLiteral kCopyKernel = "copy";
/// Kernel with the name of the op.
template <typename Op> StringRef getKernelNameOf() { return StringRef(Op::getOperationName()).split('.').second; }

class MoeKernelOpInterface;

/// Bytes of a tensor of static shape.
int64_t getByteSize(Type type);
/// Cost of Resource::Memory, if every operand is read once and every result is written once. None where no kernel runs.
OpCost getMemoryCost(Operation *op);
/// Implements MoeKernelOpInterface::getInPlaceInputs.
SmallVector<int64_t> getAddendInput(MoeKernelOpInterface op);
/// Makes `cost`, which holds for all rows of `rows`, depend on the rows that `counts`, an input of the kernel, counts.
/// Without `counts` it returns the cost itself.
OpCost withRows(OpCost cost, Value counts, RankedTensorType rows, MoeKernelOpInterface kernel);

} // namespace mlir::moe

#include "moe/Dialect/Moe/IR/MoeInterfaces.h.inc"

namespace mlir::OpTrait {

/// An op over a group that is the identity if the group has one rank.
template <typename Op> struct IdentityOverOneRank : TraitBase<Op, IdentityOverOneRank> {
  static OpFoldResult foldTrait(Operation *op, ArrayRef<Attribute>) {
    return cast<Op>(op).getGroup().getSize() == 1 ? OpFoldResult(op->getOperand(0)) : OpFoldResult();
  }
};

} // namespace mlir::OpTrait

#endif // MOE_DIALECT_MOE_IR_MOEINTERFACES_H
