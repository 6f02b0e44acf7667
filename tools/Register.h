//===- Register.h - the dialects and passes that the tools know -*- C++ -*-===//
#ifndef MOE_TOOLS_REGISTER_H
#define MOE_TOOLS_REGISTER_H

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Transforms/Passes.h"

#include "moe/Compiler/Passes.h"
#include "moe/Conversion/Passes.h"
#include "moe/Dialect/Moe/Transforms/Passes.h"
#include "moe/Dialect/Plan/IR/PlanDialect.h"
#include "moe/Dialect/Plan/Transforms/Passes.h"
#include "moe/LaunchOrder/Passes.h"
#include "moe/Planner/Passes.h"

namespace mlir::plan {
#define GEN_PASS_REGISTRATION
#include "moe/Dialect/Plan/Transforms/Passes.h.inc"
} // namespace mlir::plan

namespace mlir::moe {
#define GEN_PASS_REGISTRATION
#include "moe/Conversion/Passes.h.inc"
#define GEN_PASS_REGISTRATION
#include "moe/Dialect/Moe/Transforms/Passes.h.inc"
#define GEN_PASS_REGISTRATION
#include "moe/LaunchOrder/Passes.h.inc"
#define GEN_PASS_REGISTRATION
#include "moe/Compiler/Passes.h.inc"
#define GEN_PASS_REGISTRATION
#include "moe/Planner/Passes.h.inc"

/// Registers the compiler's dialects alone: all of MLIR would triple the tools' build and start-up time.
inline void registerToolDialects(DialectRegistry &registry) {
  registry.insert<MoeDialect, plan::PlanDialect, func::FuncDialect, arith::ArithDialect, LLVM::LLVMDialect>();
}

inline void registerToolPasses() {
  registerTransformsPasses();
  registerMoePasses();
  registerMoeConversionPasses();
  plan::registerPlanPasses();
  registerMoeLaunchOrderPasses();
  registerMoeCompilerPasses();
  registerMoePlannerPasses();
}

} // namespace mlir::moe

#endif // MOE_TOOLS_REGISTER_H
