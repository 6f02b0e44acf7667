//===- SchedulePasses.h - passes that make schedules of the baseline -*- C++ -*-===//
#ifndef MOE_DIALECT_MOE_TRANSFORMS_SCHEDULEPASSES_H
#define MOE_DIALECT_MOE_TRANSFORMS_SCHEDULEPASSES_H

#include <memory>

#include "mlir/IR/BuiltinOps.h"
#include "mlir/Pass/Pass.h"

#include "moe/Dialect/Moe/IR/MoeAttrs.h"
#include "moe/Dialect/Moe/Transforms/ScheduleOptions.h"

namespace mlir::func {
class FuncOp;
} // namespace mlir::func

namespace mlir::moe {

#define GEN_PASS_DECL
#include "moe/Dialect/Moe/Transforms/SchedulePasses.h.inc"

#define GEN_PASS_REGISTRATION
#include "moe/Dialect/Moe/Transforms/SchedulePasses.h.inc"

} // namespace mlir::moe

#endif // MOE_DIALECT_MOE_TRANSFORMS_SCHEDULEPASSES_H
