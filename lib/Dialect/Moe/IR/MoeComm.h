//===- MoeComm.h - parts that collectives share -----------------*- C++ -*-===//
#ifndef MOE_LIB_DIALECT_MOE_IR_MOECOMM_H
#define MOE_LIB_DIALECT_MOE_IR_MOECOMM_H

#include "moe/Dialect/Moe/IR/MoeOps.h"

namespace mlir::moe {

/// States of an op over `group` whose operands vary over the group. The first result varies too (`varies`), or it is
/// replicated.
LogicalResult inferGroupSpmd(Operation *op, GroupAttr group, const SpmdAxes &axes, ArrayRef<AxisSet> operands,
                             bool varies, SmallVectorImpl<AxisSet> &required, SmallVectorImpl<AxisSet> &results);
/// States of an op over `group` whose operands are replicated over the group, and whose results vary over it.
LogicalResult inferReplicatedSpmd(Operation *op, GroupAttr group, const SpmdAxes &axes, ArrayRef<AxisSet> operands,
                                  SmallVectorImpl<AxisSet> &required, SmallVectorImpl<AxisSet> &results);
/// Verifies that `part` is `whole` with dimension `dim` divided by the group's size.
LogicalResult verifyPart(Operation *op, GroupAttr group, int64_t dim, RankedTensorType whole, RankedTensorType part);
/// Cost of an exchange of `payload`, which `collective` defines.
OpCost getExchangeCost(Operation *op, Collective collective, Value payload);
/// Cost of an exchange that adds up, with one operation for each element of the payload.
OpCost getReductionCost(Operation *op, Collective collective, Value payload);
/// Parameters of a kernel as i64 attributes.
SmallVector<Attribute> getIntParams(MLIRContext *context, ArrayRef<int64_t> values);
/// Folds to the input over one rank, for which every collective is the identity.
OpFoldResult foldSingle(GroupAttr group, Value input);

} // namespace mlir::moe

#endif // MOE_LIB_DIALECT_MOE_IR_MOECOMM_H
