//===- Passes.h - passes that choose by the cost model ---------*- C++ -*-===//
#ifndef MOE_COMPILER_PASSES_H
#define MOE_COMPILER_PASSES_H

#include "mlir/Pass/Pass.h"

namespace mlir::moe {

#define GEN_PASS_DECL
#include "moe/Compiler/Passes.h.inc"

} // namespace mlir::moe

#endif // MOE_COMPILER_PASSES_H
