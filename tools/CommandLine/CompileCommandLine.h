//===- CompileCommandLine.h - what tools that compile have in common -*- C++ -*-===//
#ifndef MOE_TOOLS_COMMANDLINE_COMPILECOMMANDLINE_H
#define MOE_TOOLS_COMMANDLINE_COMPILECOMMANDLINE_H

#include "llvm/Support/SourceMgr.h"
#include "llvm/Support/ThreadPool.h"

#include "ImportCommandLine.h"
#include "StepCommandLine.h"
#include "moe/Cost/ClusterProfile.h"
#include "moe/Planner/Planner.h"

namespace mlir::moe {

/// The input and the options from which a plan is made: the model, its import, --parallel, --schedule, --mode,
/// --cluster,
/// --memory-limit. With --parallel=auto the groups are chosen. Errors are reported through the context, without a place
/// where they are about the command line.
class CompileCommandLine {
public:
  explicit CompileCommandLine(llvm::cl::OptionCategory &category);

  llvm::StringRef getInput() const { return input; }
  /// Options of compile(), which refer to the cluster.
  FailureOr<CompileOptions> getOptions(MLIRContext &context, const ClusterProfile &cluster) const;
  /// Those of --num-threads, for a context that they outlive; null for one thread.
  std::unique_ptr<llvm::ThreadPoolInterface> makeThreads() const;
  /// Whether --parallel=auto leaves the groups open.
  bool isOpen() const { return parallel == "auto"; }
  /// The plan of the best groups; `options` are getOptions()'.
  FailureOr<OwningOpRef<ModuleOp>> compileAuto(MLIRContext &context, llvm::SourceMgr &sources, const char *argv0,
                                               const CompileOptions &options) const;
  /// The file that --cluster names, or the shared one of that name; empty where there is none.
  std::string findCluster(const char *argv0) const;
  /// The profile in it.
  FailureOr<ClusterProfile> loadCluster(MLIRContext &context, const char *argv0) const;
  /// The batch shapes that --batch and --seq ask for, one unless they are lists.
  FailureOr<SmallVector<ImportShape>> getShapes() const;
  /// The module of an MLIR file as it is, or the graph of a Hugging Face configuration for `dataParallel` shards of
  /// tokens. Without a `shape` the options must give one.
  FailureOr<OwningOpRef<ModuleOp>> readModule(MLIRContext &context, llvm::SourceMgr &sources, const char *argv0,
                                              int64_t dataParallel,
                                              std::optional<ImportShape> shape = std::nullopt) const;

private:
  FailureOr<std::optional<GlobalBatch>> getGlobalBatch(MLIRContext &context) const;
  bool isGraph() const { return llvm::StringRef(input).ends_with(".mlir") || input == "-"; }

  llvm::cl::opt<std::string> input, parallel, schedule, mode, order, cluster, objective;
  llvm::cl::opt<int64_t> memoryLimit, world, globalBatch;
  llvm::cl::opt<unsigned> threads;
  llvm::cl::opt<bool> reference, exhaustive;
  ImportCommandLine importing;
  StepCommandLine step;
};

/// The command line as a shell takes it, with the program's name alone.
std::string getCommand(int argc, char **argv);

/// Warns of what `options` have for experts where `graph`, a model, has none.
void warnOfNoExperts(ModuleOp graph, const CompileOptions &options);

/// Warns where a module at the plan stage needs more memory than the cluster's devices have.
void warnOfMemory(ModuleOp plan, const ClusterProfile &cluster);
/// Fails there, with an error that has the memory table; where ranks share a host's memory it warns.
LogicalResult checkMemory(ModuleOp plan, const ClusterProfile &cluster);

/// Prints diagnostics as tools do: with their place, or as `tool: error: ..` where they have none.
class ToolDiagnostics {
public:
  ToolDiagnostics(MLIRContext &context, llvm::StringRef tool);
  llvm::SourceMgr &getSources() { return sources; }

private:
  llvm::SourceMgr sources;
  SourceMgrDiagnosticHandler inFiles;
  ScopedDiagnosticHandler withoutPlace;
};

/// Reports `error`, which is a complete text, at an unknown place.
LogicalResult reportError(MLIRContext &context, llvm::Error error);

/// Writes a file, or standard output where `path` is -; nothing is left of a file that could not be written.
LogicalResult writeFile(MLIRContext &context, llvm::StringRef path,
                        llvm::function_ref<LogicalResult(llvm::raw_pwrite_stream &)> write, bool isBinary = false);

} // namespace mlir::moe

#endif // MOE_TOOLS_COMMANDLINE_COMPILECOMMANDLINE_H
