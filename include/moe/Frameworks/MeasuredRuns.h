//===- MeasuredRuns.h - step times of a user's own jobs ---------*- C++ -*-===//
//
// docs/Clusters.md, "Anchored in your own run", documents both forms of the file.
//
//===----------------------------------------------------------------------===//
#ifndef MOE_FRAMEWORKS_MEASUREDRUNS_H
#define MOE_FRAMEWORKS_MEASUREDRUNS_H

#include "moe/Cost/FrameworkProfile.h"
#include "moe/Import/MegatronArguments.h"

namespace mlir::moe {

/// A job, and how long its steps took.
struct MeasuredRun {
  std::string name;            ///< in tables and errors
  MegatronArguments arguments; ///< their places are those of the file
  std::string model;           ///< name of a shared model, or a configuration; empty: that of the arguments
  int64_t ranks = 0;
  FrameworkUse use;
  double seconds = 0; ///< median of the steps
  std::string warmUp; ///< "iterations 11 to 50, without 10 of warm-up"; empty if the file has no iterations
};

/// Reads a log of Megatron-LM, which has its arguments and its iterations, or a JSON list of jobs. Paths in the list
/// are relative to the folder of `fileName`. The text of an error is a complete diagnostic.
llvm::Expected<std::vector<MeasuredRun>> readMeasuredRuns(llvm::StringRef text, llvm::StringRef fileName);

} // namespace mlir::moe

#endif // MOE_FRAMEWORKS_MEASUREDRUNS_H
