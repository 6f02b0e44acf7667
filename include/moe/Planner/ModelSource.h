//===- ModelSource.h - the model of which a plan is made --------*- C++ -*-===//
#ifndef MOE_PLANNER_MODELSOURCE_H
#define MOE_PLANNER_MODELSOURCE_H

#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/OwningOpRef.h"

#include <functional>
#include <optional>
#include <vector>

namespace mlir::moe {

/// Differences between the graphs of a model. Absent values are as the user asks for them.
struct ModelForm {
  int64_t dataParallel = 1;
  std::optional<int64_t> batch = {};  ///< sequences of each data-parallel rank in a micro-batch
  std::optional<double> maxLoad = {}; ///< most rows of a dropless layer on a rank, as a multiple of the even load
  bool isBf16 = false;
  SmallVector<int64_t> blocks = {}; ///< blocks of a whole model that are kept, by ModelSource::kinds; empty: all
};

/// Reads the model into a context, on any thread. If no bound of dropless rows is given, the module has it as
/// `moe.default_max_load`. Errors are reported.
using ModelReader = std::function<FailureOr<OwningOpRef<ModuleOp>>(MLIRContext &, const ModelForm &)>;

/// The model of which a plan is made.
struct ModelSource {
  ModelReader read;
  /// For each block of a whole model, the first that is like it; empty if blocks cannot be taken out.
  std::vector<int64_t> kinds;
  /// Whether the graph has the tokens of the whole world for any number of ranks. Then `batch` has no effect.
  bool isFixed = false;
};

} // namespace mlir::moe

#endif // MOE_PLANNER_MODELSOURCE_H
