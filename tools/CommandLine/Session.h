//===- Session.h - one run of a tool ----------------------------*- C++ -*-===//
#ifndef MOE_TOOLS_COMMANDLINE_SESSION_H
#define MOE_TOOLS_COMMANDLINE_SESSION_H

#include "mlir/IR/Diagnostics.h"
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

/// Runs a tool: parses the command line, and calls `run` on the threads that `compiling` asks for; one if it is null.
/// Returns the exit status, 2 for bad usage or input.
int runTool(int argc, char **argv, const char *tool, StringRef overview, const CompileCommandLine *compiling,
            function_ref<LogicalResult(Session &)> run);

/// Prints an error that says its own place.
LogicalResult printError(llvm::Error error);
/// Reports `error`, which is a complete text, at an unknown place.
LogicalResult reportError(MLIRContext &context, llvm::Error error);

/// Writes a file, or standard output if `path` is -. Removes a file that could not be written.
LogicalResult writeFile(MLIRContext &context, StringRef path,
                        function_ref<LogicalResult(llvm::raw_pwrite_stream &)> write, bool isBinary = false);
/// The same for a `write` that cannot fail.
template <class Write>
  requires std::is_void_v<std::invoke_result_t<Write, llvm::raw_pwrite_stream &>>
LogicalResult writeFile(MLIRContext &context, StringRef path, Write write, bool isBinary = false) {
  auto writeAll = [&](llvm::raw_pwrite_stream &os) {
    write(os);
    return success();
  };
  return writeFile(context, path, function_ref<LogicalResult(llvm::raw_pwrite_stream &)>(writeAll), isBinary);
}

} // namespace mlir::moe

#endif // MOE_TOOLS_COMMANDLINE_SESSION_H
