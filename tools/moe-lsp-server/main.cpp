//===- main.cpp - the MLIR language server for MoePlan ----------===//
#include "mlir/Tools/mlir-lsp-server/MlirLspServerMain.h"

#include "../RegisterDialects.h"

int main(int argc, char **argv) {
  mlir::DialectRegistry registry;
  mlir::moe::registerDialects(registry);
  return mlir::failed(mlir::MlirLspServerMain(argc, argv, registry));
}
