//===- MoeInterfaces.h - what every op tells the passes ---------*- C++ -*-===//
#ifndef MOE_DIALECT_MOE_IR_MOEINTERFACES_H
#define MOE_DIALECT_MOE_IR_MOEINTERFACES_H

#include "mlir/IR/Builders.h"
#include "mlir/IR/IRMapping.h"
#include "mlir/IR/OpDefinition.h"

#include "moe/Dialect/Moe/IR/Placement.h"
#include "moe/Dialect/Moe/IR/SpmdAxes.h"
#include "moe/OpFacts/CountsRule.h"
#include "moe/OpFacts/OpCost.h"

namespace mlir::moe {

/// One of `parts` equal parts of a value along dimension 0, another one on each block of neighbouring members of
/// `group`: member m has part (m / (size / parts) + shift) mod parts. Without a group it is part `shift` on all ranks.
struct RankPart {
  GroupAttr group;
  int64_t shift, parts;
  /// The element of a 1-D value at which a piece of any shape begins; then it is part 0 of 1.
  std::optional<int64_t> at = std::nullopt;

  static RankPart piece(int64_t at) { return {GroupAttr(), 0, 1, at}; }
};

/// `part` of `whole` rows that a rank dispatches; where they are exchanged, the same part of others.
struct RowChunk {
  int64_t part, whole;

  bool divides(int64_t rows) const { return rows * part % whole == 0; }
  int64_t of(int64_t rows) const { return rows * part / whole; }
};

/// How the tokens of a whole model are divided over the ranks.
struct TokenDivision {
  /// The least number of routing groups in the whole model: one for each token shard.
  int64_t groups = 1;
  /// Sequences in the whole model, and data-parallel shards of them.
  int64_t sequences = 1, shards = 1;
  /// How the ranks divide each sequence; null where they do not. Of the model for one rank: how the ranks that it is
  /// compared with do.
  CutAttr cut = {};
};

/// What an op of a model graph says about sequences.
struct SequenceUse {
  /// How many its rows are; 0 where the op does not say it. The largest pieces that any op works on are the sequences.
  int64_t sequences = 0;
  /// Rows of its operands: of whole sequences.
  SmallVector<int64_t, 2> rows = {};
  /// Whether a later row of a sequence takes more work.
  bool isCausal = true;
};

/// Where the rows of experts and those of their shadows differ: an expert's are exchanged over `ep`, or over it and
/// `esp` together, a shadow's only over `esp`.
struct ShadowScope {
  GroupAttr ep, esp;

  /// The group over which what is done over `group` for experts is done for shadows.
  GroupAttr getGroup(GroupAttr group) const;
};

/// The dimension of experts' rows: 1 of [E, T, M], 0 of [R, M].
unsigned getRowDim(Type rows);
/// Whether the floating-point results of `op` can be cut so.
bool canScaleRows(Operation *op, RowChunk chunk);
/// As MoeChunkableOpInterface::buildOnChunk says.
Operation *cloneOnChunk(Operation *op, OpBuilder &builder, IRMapping &mapping, RowChunk chunk);

/// As MoeChunkableOpInterface::buildOnShadows says.
Operation *cloneOnShadows(Operation *op, OpBuilder &builder, IRMapping &mapping);

/// As MoeWideGradientOpInterface::buildWide says.
Value cloneWide(Operation *op, OpBuilder &builder);

/// Whether `type` has rows, dimension 0 of two, that can be divided over `group`.
bool hasRowsFor(Type type, GroupAttr group);
/// As MoeRowwiseOpInterface::buildOnRowPart says.
Value cloneOnRowPart(Operation *op, OpBuilder &builder, ValueRange rows);

/// As the defaults of MoePartitionOpInterface say.
void inferElementwiseLayouts(Operation *op, MutableArrayRef<LayoutAttr> operands, SmallVectorImpl<LayoutAttr> &results);
Value cloneOnShard(Operation *op, OpBuilder &builder, ValueRange operands);

/// The number of a result among those of its op, as in CountsRule::output.
inline int64_t getResultNumber(Value result) { return cast<OpResult>(result).getResultNumber(); }
/// Whether a tensor of this type may hold counts of routed rows.
bool isCounts(Type type);

/// The kernel that copies, between devices and hosts too.
inline constexpr StringLiteral kCopyKernel = "copy";
/// The kernel of an op that has its name.
template <typename Op> StringRef getKernelNameOf() { return StringRef(Op::getOperationName()).split('.').second; }

class MoeKernelOpInterface;

/// Bytes of a tensor of static shape.
int64_t getByteSize(Type type);
/// Of Resource::Memory: every operand read once, every result written once.
OpCost getMemoryCost(Operation *op);
/// `cost`, whose figures hold for all rows of `rows`; with `counts`, an input of the kernel, as many are used as they
/// count.
OpCost withRows(OpCost cost, Value counts, RankedTensorType rows, MoeKernelOpInterface kernel);

} // namespace mlir::moe

#include "moe/Dialect/Moe/IR/MoeInterfaces.h.inc"

#endif // MOE_DIALECT_MOE_IR_MOEINTERFACES_H
