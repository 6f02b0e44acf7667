//===- main.cpp - mlir-reduce for MoePlan ---------------------------===//
#include "mlir/IR/MLIRContext.h"
#include "mlir/Tools/mlir-reduce/MlirReduceMain.h"
#include "mlir/Transforms/Passes.h"

#include "../RegisterDialects.h"
#include "moe/Conversion/Passes.h"
#include "moe/Dialect/Moe/Transforms/Passes.h"
#include "moe/Dialect/Plan/Transforms/Passes.h"

int main(int argc, char **argv) {
  mlir::DialectRegistry registry;
  mlir::moe::registerDialects(registry);
  mlir::registerTransformsPasses();
  mlir::moe::registerMoePasses();
  mlir::moe::registerMoeConversionPasses();
  mlir::plan::registerPlanPasses();
  mlir::MLIRContext context(registry);
  return mlir::failed(mlir::mlirReduceMain(argc, argv, context));
}
