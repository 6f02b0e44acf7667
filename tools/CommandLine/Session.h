//===- Session.h - one run of a tool ----------------------------*- C++ -*-===//
#ifndef MOE_TOOLS_COMMANDLINE_SESSION_H
#define MOE_TOOLS_COMMANDLINE_SESSION_H

#include "mlir/IR/Diagnostics.h"
#include "mlir/IR/MLIRContext.h"
#include "llvm/Support/SourceMgr.h"

#include <string>

namespace mlir::moe {

class CompileCommandLine;

/// One run of a tool. Prints diagnostics as tools do: with their place, or as `tool: error: ..` without one.
class Session {
public:
  Session(MLIRContext &context, StringRef tool, std::string command);

  MLIRContext &context;
  llvm::SourceMgr sources;   ///< files that diagnostics show
  const std::string command; ///< the command line as a shell takes it, with the program's name alone

private:
  SourceMgrDiagnosticHandler inFiles;
  ScopedDiagnosticHandler withoutPlace;
};

/// Runs a tool with the options of `compiling`: parses the command line, and calls `run`. Returns the exit status, 2
/// for bad usage or input.
int runTool(int argc, char **argv, const char *tool, StringRef overview, const CompileCommandLine &compiling,
            function_ref<LogicalResult(Session &)> run);

/// Reports `error`, which is a complete text, at an unknown place.
LogicalResult reportError(MLIRContext &context, llvm::Error error);

/// Writes a file, or standard output if `path` is -. Removes a file that could not be written.
LogicalResult writeFile(MLIRContext &context, StringRef path,
                        function_ref<LogicalResult(llvm::raw_pwrite_stream &)> write, bool isBinary = false);

} // namespace mlir::moe

#endif // MOE_TOOLS_COMMANDLINE_SESSION_H
