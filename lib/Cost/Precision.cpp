//===- Precision.cpp - products in narrow types ---------------------------===//
#include "moe/Cost/Precision.h"

#include "llvm/ADT/STLExtras.h"

#include <algorithm>

using namespace mlir::moe;
using llvm::StringRef;

bool NarrowProduct::contains(StringRef kernel, StringRef type, const OpCost &cost) const {
  const GemmShape &gemm = cost.gemm;
  auto [least, most] = std::minmax(gemm.columns, ofWeights ? gemm.rows : gemm.depth);
  return type == dtype && llvm::is_contained(kernels, kernel) && least >= leastSide && most <= mostSide;
}

const NarrowProduct *Precision::find(StringRef kernel, StringRef dtype, const OpCost &cost) const {
  for (const NarrowProduct &product : llvm::reverse(products))
    if (product.contains(kernel, dtype, cost))
      return &product;
  return nullptr;
}
