//===- ExpertGroups.h - checks of group-limited routing ---------*- C++ -*-===//
#ifndef MOE_LIB_DIALECT_MOE_IR_EXPERTGROUPS_H
#define MOE_LIB_DIALECT_MOE_IR_EXPERTGROUPS_H

#include "moe/Dialect/Moe/IR/MoeAttrs.h"

namespace mlir::moe {

/// Whether `op` may choose `k` of `experts` experts from the `topGroups` best of `expertGroups` groups.
LogicalResult verifyExpertGroups(Operation *op, int64_t experts, int64_t k, int64_t expertGroups, int64_t topGroups,
                                 GroupScore groupScore);

} // namespace mlir::moe

#endif // MOE_LIB_DIALECT_MOE_IR_EXPERTGROUPS_H
