//===- main.cpp - mlir-reduce for MoePlan ---------------------------===//
#include "mlir/Tools/mlir-reduce/MlirReduceMain.h"

#include "../BeginTool.h"
#include "../Register.h"

int main(int argc, char **argv) {
  mlir::moe::beginTool("moe-reduce");
  mlir::DialectRegistry registry;
  mlir::moe::registerToolDialects(registry);
  mlir::moe::registerToolPasses();
  mlir::MLIRContext context(registry);
  return mlir::failed(mlir::mlirReduceMain(argc, argv, context));
}
