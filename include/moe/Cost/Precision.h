//===- Precision.h - products in narrow types -------------------*- C++ -*-===//
//
// A framework may compute products in fewer bits than their operands have: it quantises the operands, multiplies them
// faster, and keeps the quantised ones for the backward. A recipe is only numbers here, so that neither the cost model
// nor the simulator knows recipes.
//
//===----------------------------------------------------------------------===//
#ifndef MOE_COST_PRECISION_H
#define MOE_COST_PRECISION_H

#include "moe/OpFacts/OpCost.h"

#include <limits>
#include <optional>
#include <string>
#include <vector>

namespace mlir::moe {

/// Products that compute in a narrow type.
struct NarrowProduct {
  std::vector<std::string> kernels;
  std::string dtype;      ///< type of the operands
  bool ofWeights = false; ///< whether they are gradients of weights, whose result has the sides of the weights
  /// Both sides of the weights of one product are from `leastSide` to `mostSide`.
  int64_t leastSide = 0, mostSide = std::numeric_limits<int64_t>::max();
  double times = 1;           ///< seconds of a product over those in `dtype`
  double fixedSeconds = 0;    ///< added to each launch
  double bytesPerElement = 0; ///< bytes that quantisation reads and writes for an element of the rows
  std::optional<double> relativeError = std::nullopt; ///< mean error of the time of a product over that in `dtype`

  /// Whether it is for a launch of `kernel`, whose operands have the type `dtype`.
  bool contains(llvm::StringRef kernel, llvm::StringRef dtype, const OpCost &cost) const;
};

/// An argument of a framework.
struct FrameworkArgument {
  std::string flag;  ///< without dashes
  std::string value; ///< empty for a switch
  std::string needs; ///< flag without which this one is left out; may be empty
};

/// A framework's choice of narrow types. The default has none.
struct Precision {
  std::string name;                    ///< empty for none
  std::vector<NarrowProduct> products; ///< the last one that contains a launch holds
  /// Bytes of the rows of a product, while they wait for the gradient of its weights, over those in their own type.
  double keptShare = 1;
  std::vector<FrameworkArgument> arguments = {}; ///< arguments of the framework that run it
  std::string mixedPrecision = {};               ///< the same as the name of a configuration of Megatron-Bridge

  /// Null if the launch computes in the type of its operands.
  const NarrowProduct *find(llvm::StringRef kernel, llvm::StringRef dtype, const OpCost &cost) const;
};

} // namespace mlir::moe

#endif // MOE_COST_PRECISION_H
