//===- main.cpp - mlir-reduce for MoePlan ---------------------------===//
#include "mlir/IR/MLIRContext.h"
#include "mlir/Tools/mlir-reduce/MlirReduceMain.h"

#include "../Register.h"
#include "../StandardOutput.h"
#include "../Version.h"

int main(int argc, char **argv) {
  mlir::moe::keepStandardOutputClosed();
  mlir::moe::setVersion("moe-reduce");
  mlir::DialectRegistry registry;
  mlir::moe::registerToolDialects(registry);
  mlir::moe::registerToolPasses();
  mlir::MLIRContext context(registry);
  return mlir::failed(mlir::mlirReduceMain(argc, argv, context));
}
