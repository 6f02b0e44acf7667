//===- MoeComm.h - parts that ops share -------------------------*- C++ -*-===//
#ifndef MOE_LIB_DIALECT_MOE_IR_MOECOMM_H
#define MOE_LIB_DIALECT_MOE_IR_MOECOMM_H

#include "moe/Dialect/Moe/IR/MoeOps.h"

namespace mlir::moe {

/// Verifies that `part` is `whole` with dimension `dim` divided by the group's size.
LogicalResult verifyPart(Operation *op, GroupAttr group, int64_t dim, RankedTensorType whole, RankedTensorType part);
/// Whether `op` may choose `k` of `experts` experts from the `topGroups` best of `expertGroups` groups.
LogicalResult verifyExpertGroups(Operation *op, int64_t experts, int64_t k, int64_t expertGroups, int64_t topGroups,
                                 GroupScore groupScore);
/// Cost of a product.
OpCost getProductCost(Operation *op, GemmShape shape);
/// Cost of an exchange of `payload`, which `collective` defines.
OpCost getExchangeCost(Operation *op, Collective collective, Value payload);
/// Cost of an exchange that adds up, with one operation for each element of the payload.
OpCost getReductionCost(Operation *op, Collective collective, Value payload);
/// Parameters of a kernel as i64 attributes.
SmallVector<Attribute> getIntParams(MLIRContext *context, ArrayRef<int64_t> values);

} // namespace mlir::moe

#endif // MOE_LIB_DIALECT_MOE_IR_MOECOMM_H
