//===- RoutingCommandLine.h - what tokens choose, by options ----*- C++ -*-===//
#ifndef MOE_TOOLS_COMMANDLINE_ROUTINGCOMMANDLINE_H
#define MOE_TOOLS_COMMANDLINE_ROUTINGCOMMANDLINE_H

#include "mlir/IR/MLIRContext.h"
#include "llvm/Support/CommandLine.h"

#include "moe/Simulator/Prediction.h"

namespace mlir::moe {

/// --routing and --synthetic-routing.
class RoutingCommandLine {
public:
  explicit RoutingCommandLine(llvm::cl::OptionCategory &category);

  /// None for even routing. Errors are reported at an unknown place.
  FailureOr<std::optional<RoutingSource>> getSource(MLIRContext &context) const;
  bool isSynthetic() const { return synthetic.getNumOccurrences() > 0; }
  /// "even", "synthetic preset=aux-loss,seed=1", or the file. After getSource, which reports wrong options.
  std::string describe() const;

private:
  llvm::cl::opt<std::string> file, synthetic;
};

} // namespace mlir::moe

#endif // MOE_TOOLS_COMMANDLINE_ROUTINGCOMMANDLINE_H
