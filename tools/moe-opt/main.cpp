//===- main.cpp - mlir-opt for MoePlan ---------------------------------===//
#include "mlir/Tools/mlir-opt/MlirOptMain.h"

#include "../Register.h"
#include "../StandardOutput.h"
#include "../Version.h"

int main(int argc, char **argv) {
  mlir::moe::keepStandardOutputClosed();
  mlir::moe::setVersion("moe-opt");
  mlir::DialectRegistry registry;
  mlir::moe::registerToolDialects(registry);
  mlir::moe::registerToolPasses();
  return mlir::asMainReturnCode(mlir::MlirOptMain(argc, argv, "MoePlan optimizer driver\n", registry));
}
