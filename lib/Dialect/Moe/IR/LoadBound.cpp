//===- LoadBound.cpp - the rows that a plan has room for ------------------===//
#include "moe/Dialect/Moe/IR/LoadBound.h"

#include "llvm/Support/Format.h"
#include "llvm/Support/FormatVariadic.h"

#include "moe/Dialect/Moe/IR/MoeDialect.h"

using namespace mlir;
using namespace mlir::moe;

std::string mlir::moe::describeDefaultMaxLoad(ModuleOp module) {
  auto load = module->getAttrOfType<FloatAttr>(kDefaultMaxLoadAttrName);
  return describeDefaultMaxLoad(load ? std::optional(load.getValueAsDouble()) : std::nullopt,
                                module->getAttrOfType<ParallelAttr>(kParallelAttrName));
}

std::string mlir::moe::describeDefaultMaxLoad(std::optional<double> load, ParallelAttr parallel) {
  if (!load || (parallel && parallel.getEp() == 1))
    return "";
  std::string factor;
  llvm::raw_string_ostream(factor) << llvm::format("%g", *load);
  return llvm::formatv("room for {0} times the even load of a rank, by default (--max-load={0}; a larger one, or none "
                       "for the worst case, takes more memory)",
                       factor);
}
