//===- main.cpp - mlir-opt for MoePlan ---------------------------------===//
#include "mlir/Tools/mlir-opt/MlirOptMain.h"

#include "../BeginTool.h"
#include "../Register.h"
#include "../Tools.h"

int mlir::moe::runOpt(int argc, char **argv) {
  mlir::moe::beginTool("moe-opt");
  mlir::DialectRegistry registry;
  mlir::moe::registerToolDialects(registry);
  mlir::moe::registerToolPasses();
  return mlir::asMainReturnCode(
      mlir::MlirOptMain(argc, argv, "Runs passes on a model graph, a rank program or a plan\n", registry));
}
