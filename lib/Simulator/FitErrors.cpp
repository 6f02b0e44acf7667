//===- FitErrors.cpp - how sure the times are -----------------------------===//
#include "FitErrors.h"

#include "llvm/ADT/STLExtras.h"

using namespace mlir::moe;

static llvm::Expected<std::optional<double>> findExchangeError(const Execution &execution, const SimProgram &program,
                                                               uint32_t index) {
  // Flows do not use fits.
  if (execution.model.hasContention())
    return std::nullopt;
  const SimLaunch &launch = program.launches[index];
  llvm::ArrayRef<int64_t> members = execution.exchanges.getMembers(program.firstRank, index);
  if (members.size() == 1)
    return std::nullopt;
  auto fit = execution.model.getAlphaBeta(launch.cost.collective, members, launch.dtype, launch.cost.payload);
  if (!fit)
    return fit.takeError();
  return fit->relativeError;
}

llvm::Expected<std::vector<std::vector<std::optional<double>>>> mlir::moe::findFitErrors(const Execution &execution) {
  std::vector<std::vector<std::optional<double>>> result;
  for (const SimProgram &program : execution.world.programs) {
    std::vector<std::optional<double>> &errors = result.emplace_back();
    for (auto [index, launch] : llvm::enumerate(program.launches)) {
      if (launch.cost.resource != Resource::Network) {
        errors.push_back(
            execution.model.getConfidence(Work{launch.kernel, launch.params, launch.dtype, &launch.cost, {}})
                .relativeError);
        continue;
      }
      llvm::Expected<std::optional<double>> error = findExchangeError(execution, program, index);
      if (!error)
        return error.takeError();
      errors.push_back(*error);
    }
  }
  return result;
}
