//===- Object.h - from LLVM dialect to machine code -------------*- C++ -*-===//
//
// Last step of the compiler: from a module of the LLVM dialect, as convert-plan-to-llvm makes it, to text or to code
// for any CPU of the host's architecture, or for one that LLVM's name gives. Errors are emitted at the module.
//
//===----------------------------------------------------------------------===//
#ifndef MOE_TARGET_OBJECT_H
#define MOE_TARGET_OBJECT_H

#include "mlir/IR/BuiltinOps.h"
#include "llvm/Support/raw_ostream.h"

namespace mlir::moe {

/// Writes `module` as LLVM IR text.
LogicalResult emitLLVMIR(ModuleOp module, raw_ostream &os);

/// Checks that `cpu` is one of x86-64 or AArch64 as LLVM names it, such as "grace", or empty.
LogicalResult checkCpu(StringRef cpu, function_ref<InFlightDiagnostic()> emitError);

/// Writes a position-independent object file. Without a `cpu` it is for any CPU of this machine's
/// architecture.
LogicalResult emitObject(ModuleOp module, llvm::raw_pwrite_stream &os, StringRef cpu = "");

/// Writes a shared library, which LLD links in this process. The file appears at `path` only when it is complete.
LogicalResult emitSharedLibrary(ModuleOp module, StringRef path, StringRef cpu = "");

} // namespace mlir::moe

#endif // MOE_TARGET_OBJECT_H
