//===- Session.cpp - one run of a tool ------------------------------------===//
#include "Session.h"

#include "llvm/Support/FileSystem.h"
#include "llvm/Support/InitLLVM.h"
#include "llvm/Support/Path.h"
#include "llvm/Support/ToolOutputFile.h"

#include "../BeginTool.h"
#include "CompileCommandLine.h"
#include "moe/Support/UsageError.h"

using namespace mlir;
using namespace mlir::moe;

static std::string getCommand(int argc, char **argv) {
  std::string command = llvm::sys::path::filename(argv[0]).str();
  for (StringRef argument : ArrayRef(argv + 1, static_cast<size_t>(argc - 1)))
    if (argument.find_first_of(" \t\n\"'\\$&|;<>()*?[]#~`!{}") == StringRef::npos && !argument.empty()) {
      command += " " + argument.str();
    } else {
      command += " '";
      for (char c : argument)
        command += c == '\'' ? std::string("'\\''") : std::string(1, c);
      command += "'";
    }
  return command;
}

Session::Session(MLIRContext &context, StringRef tool, std::string command)
    : context(context), command(std::move(command)), inFiles(sources, &context),
      withoutPlace(&context, [tool = tool.str()](Diagnostic &diagnostic) {
        if (!isa<UnknownLoc>(diagnostic.getLocation()))
          return failure();
        StringRef kind = diagnostic.getSeverity() == DiagnosticSeverity::Error     ? "error"
                         : diagnostic.getSeverity() == DiagnosticSeverity::Warning ? "warning"
                                                                                   : "note";
        llvm::errs() << tool << ": " << kind << ": " << diagnostic << "\n";
        for (Diagnostic &note : diagnostic.getNotes())
          llvm::errs() << "note: " << note << "\n";
        return success();
      }) {
  // A whole function after each error would hide the error.
  context.printOpOnDiagnostic(false);
}

int mlir::moe::runTool(int argc, char **argv, const char *tool, StringRef overview, const CompileCommandLine *compiling,
                       function_ref<LogicalResult(Session &)> run) {
  constexpr int badInput = 2;
  beginTool(tool);
  std::string command = getCommand(argc, argv);
  llvm::InitLLVM init(argc, argv);
  if (!llvm::cl::ParseCommandLineOptions(argc, argv, overview, &llvm::errs()))
    return badInput;
  DialectRegistry registry;
  registerDialects(registry);
  std::unique_ptr<llvm::ThreadPoolInterface> threads = compiling ? compiling->makeThreads() : nullptr;
  MLIRContext context(registry, MLIRContext::Threading::DISABLED);
  if (threads)
    context.setThreadPool(*threads);
  Session session(context, tool, std::move(command));
  return succeeded(run(session)) ? 0 : badInput;
}

LogicalResult mlir::moe::printError(llvm::Error error) {
  llvm::errs() << llvm::toString(std::move(error)) << "\n";
  return failure();
}

LogicalResult mlir::moe::reportError(MLIRContext &context, llvm::Error error) {
  return emitUsageError(context) << llvm::toString(std::move(error));
}

LogicalResult mlir::moe::writeFile(MLIRContext &context, StringRef path,
                                   function_ref<LogicalResult(llvm::raw_pwrite_stream &)> write, bool isBinary) {
  std::error_code error;
  llvm::ToolOutputFile file(path, error, isBinary ? llvm::sys::fs::OF_None : llvm::sys::fs::OF_Text);
  if (error)
    return emitUsageError(context) << "cannot write '" << path << "': " << error.message();
  if (failed(write(file.os())))
    return failure();
  file.os().flush();
  if (file.os().has_error()) {
    error = file.os().error();
    file.os().clear_error();
    return emitUsageError(context) << "cannot write '" << path << "': " << error.message();
  }
  file.keep();
  return success();
}
