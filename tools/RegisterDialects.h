//===- RegisterDialects.h - the dialects that the tools know ----*- C++ -*-===//
#ifndef MOE_TOOLS_REGISTERDIALECTS_H
#define MOE_TOOLS_REGISTERDIALECTS_H

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/IR/DialectRegistry.h"

#include "moe/Dialect/Moe/IR/MoeDialect.h"
#include "moe/Dialect/Plan/IR/PlanDialect.h"

namespace mlir::moe {

/// Registers what the compiler uses; registering all of MLIR would triple the tools' build and start-up time.
inline void registerDialects(DialectRegistry &registry) {
  registry.insert<MoeDialect, plan::PlanDialect, func::FuncDialect, arith::ArithDialect, LLVM::LLVMDialect>();
}

} // namespace mlir::moe

#endif // MOE_TOOLS_REGISTERDIALECTS_H
