//===- WholeModel.h - what a whole model costs in a schedule ----*- C++ -*-===//
#ifndef MOE_LIB_COMPILER_WHOLEMODEL_H
#define MOE_LIB_COMPILER_WHOLEMODEL_H

#include "moe/Compiler/Compiler.h"

namespace mlir::moe {

/// As many micro-batches as fill the pipeline: from there on each takes as long as the one before, and no more memory.
struct FewMicroBatches {
  explicit FewMicroBatches(const CompileOptions &options);

  int64_t count;
  double part; ///< a step of all micro-batches takes so many times as long
};

/// A step of the model, from one of few micro-batches.
struct WholeModel {
  std::string error; ///< why there is no plan, or no time; else empty
  double seconds = 0;
  int64_t memory = 0; ///< bytes of the rank that needs the most
  std::string peak;   ///< what holds that rank's memory where it is more than the limit
};

/// Compiles `graph`, which is text, in options.schedule and simulates the plan, in a context of its own: a context
/// keeps every attribute that ever was.
WholeModel measureModel(StringRef graph, const CompileOptions &options);

/// `options` in another context.
CompileOptions moveOptions(const CompileOptions &options, MLIRContext &context);

/// "5.1 GB alive at matmul layer0, 2 GB of .." of a rank program's largest moment.
std::string describePeak(func::FuncOp program);

} // namespace mlir::moe

#endif // MOE_LIB_COMPILER_WHOLEMODEL_H
