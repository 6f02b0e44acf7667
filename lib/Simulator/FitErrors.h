//===- FitErrors.h - how sure the times are ---------------------*- C++ -*-===//
#ifndef MOE_LIB_SIMULATOR_FITERRORS_H
#define MOE_LIB_SIMULATOR_FITERRORS_H

#include "Engine.h"

namespace mlir::moe {

/// By program and launch: the mean relative error of the fit that its time rests on; none where it rests on something
/// else, or on a fit whose error the profile does not state.
llvm::Expected<std::vector<std::vector<std::optional<double>>>> findFitErrors(const Execution &execution);

} // namespace mlir::moe

#endif // MOE_LIB_SIMULATOR_FITERRORS_H
