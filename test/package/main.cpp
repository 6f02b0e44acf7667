//===- main.cpp - a program that uses the compiler's libraries ------------===//
#include "mlir/IR/MLIRContext.h"
#include "mlir/IR/Verifier.h"
#include "llvm/Support/MemoryBuffer.h"

#include "moe/Compiler/Compiler.h"
#include "moe/Import/Import.h"

/// Imports a configuration and counts its MoE layers.
int main(int argc, char **argv) {
  if (argc != 2) {
    llvm::errs() << "usage: consumer CONFIG\n";
    return 2;
  }
  auto file = llvm::MemoryBuffer::getFile(argv[1]);
  if (!file) {
    llvm::errs() << "error: " << argv[1] << ": " << file.getError().message() << "\n";
    return 1;
  }
  mlir::DialectRegistry registry;
  mlir::moe::registerDialects(registry);
  mlir::MLIRContext context(registry, mlir::MLIRContext::Threading::DISABLED);
  llvm::ExitOnError exitOnError("error: ");
  mlir::moe::ModelConfig config = exitOnError(mlir::moe::parseModelConfig((*file)->getBuffer(), argv[1]));
  mlir::OwningOpRef<mlir::ModuleOp> module = exitOnError(mlir::moe::importModel(context, config, {.layers = 2}));
  int layers = 0;
  module->walk([&](mlir::Operation *op) { layers += op->getName().getStringRef() == "moe.layer"; });
  if (failed(mlir::verify(*module)))
    return 1;
  llvm::outs() << "imported " << layers << " layers\n";
  return 0;
}
