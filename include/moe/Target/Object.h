//===- Object.h - from LLVM dialect to machine code -------------*- C++ -*-===//
//
// Last step of the compiler: from a module of the LLVM dialect, as convert-plan-to-llvm makes it, to text or to code
// for any CPU of the host's architecture. Errors are emitted at the module.
//
//===----------------------------------------------------------------------===//
#ifndef MOE_TARGET_OBJECT_H
#define MOE_TARGET_OBJECT_H

#include "mlir/IR/BuiltinOps.h"
#include "llvm/Support/raw_ostream.h"

namespace mlir::moe {

/// Writes `module` as LLVM IR text.
LogicalResult emitLLVMIR(ModuleOp module, raw_ostream &os);

/// Writes a position-independent object file. `optLevel` is the level of code generation, 0 to 3. Rank programs only
/// enqueue, so 0, which compiles fastest, is fast enough.
LogicalResult emitObject(ModuleOp module, llvm::raw_pwrite_stream &os, unsigned optLevel = 0);

/// Writes a shared library, which LLD links in this process. The file appears at `path` only when it is complete.
LogicalResult emitSharedLibrary(ModuleOp module, StringRef path, unsigned optLevel = 0);

} // namespace mlir::moe

#endif // MOE_TARGET_OBJECT_H
