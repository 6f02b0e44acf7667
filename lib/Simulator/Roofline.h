//===- Roofline.h - the bounds of a step, and its bytes ---------*- C++ -*-===//
#ifndef MOE_LIB_SIMULATOR_ROOFLINE_H
#define MOE_LIB_SIMULATOR_ROOFLINE_H

#include "Engine.h"

namespace mlir::moe {

llvm::Expected<SimResult::Roofline> computeRoofline(const Execution &execution);
llvm::Expected<SimResult::Sent> computeSent(const Execution &execution);

} // namespace mlir::moe

#endif // MOE_LIB_SIMULATOR_ROOFLINE_H
