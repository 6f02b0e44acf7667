//===- main.cpp - mlir-opt for MoePlan ---------------------------------===//
#include "mlir/Tools/mlir-opt/MlirOptMain.h"
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
  return mlir::asMainReturnCode(mlir::MlirOptMain(argc, argv, "MoePlan optimizer driver\n", registry));
}
