//===- main.cpp - the MLIR language server for MoePlan ----------===//
#include "mlir/Tools/mlir-lsp-server/MlirLspServerMain.h"

#include "../BeginTool.h"
#include "../Register.h"

int main(int argc, char **argv) {
  mlir::moe::beginTool("moe-lsp-server");
  mlir::DialectRegistry registry;
  mlir::moe::registerToolDialects(registry);
  return mlir::failed(mlir::MlirLspServerMain(argc, argv, registry));
}
