//===- main.cpp - moe-compile: a model graph to a plan --------------------===//
#include "mlir/IR/AsmState.h"
#include "mlir/IR/MLIRContext.h"
#include "mlir/Parser/Parser.h"
#include "mlir/Support/FileUtilities.h"
#include "llvm/Support/CommandLine.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/InitLLVM.h"
#include "llvm/Support/SourceMgr.h"
#include "llvm/Support/ToolOutputFile.h"

#include "moe/Compiler/Compiler.h"
#include "moe/Compiler/Report.h"
#include "moe/Import/CommandLine.h"
#include "moe/Target/Object.h"
#include "moe/Target/PlanReport.h"

using namespace mlir;
namespace cl = llvm::cl;

/// Exit status for bad usage or input.
static constexpr int badInput = 2;

namespace {
enum class Emit { L0, Spmd, Plan, LLVM, Object, SharedLibrary };
} // namespace

static cl::OptionCategory category("moe-compile options");

static cl::opt<std::string> input(cl::Positional, cl::Required, cl::desc("<model.mlir | config.json | model name>"),
                                  cl::cat(category));
static cl::opt<std::string> output("o", cl::desc("Output file; - for standard output"), cl::value_desc("file"),
                                   cl::init("-"), cl::cat(category));
static cl::opt<std::string> parallelText("parallel", cl::desc("Group sizes, e.g. dp=4,mp=2,ep=4,esp=2"), cl::init(""),
                                         cl::cat(category));
static cl::opt<std::string> schedule("schedule", cl::desc("Schedules joined by '+'"), cl::init("baseline"),
                                     cl::cat(category));
static cl::opt<std::string> mode("mode", cl::desc("forward, or train for forward and backward"), cl::init("train"),
                                 cl::cat(category));
static cl::opt<Emit> emit(
    "emit", cl::desc("What to write"), cl::init(Emit::SharedLibrary),
    cl::values(clEnumValN(Emit::L0, "l0", "The model graph"), clEnumValN(Emit::Spmd, "spmd", "The per-rank program"),
               clEnumValN(Emit::Plan, "plan", "The plan"), clEnumValN(Emit::LLVM, "llvm", "LLVM IR"),
               clEnumValN(Emit::Object, "obj", "An object file"), clEnumValN(Emit::SharedLibrary, "so", "A plan .so")),
    cl::cat(category));
static cl::opt<int64_t> memoryLimit("memory-limit", cl::desc("Bytes that one rank may use; 0 for no limit"),
                                    cl::init(0), cl::cat(category));
static cl::opt<std::string>
    report("report",
           cl::desc("Write a report of the plan to this file, as JSON if it ends in .json; - for standard output"),
           cl::value_desc("file"), cl::cat(category));

static moe::ImportCommandLine importing(category);

/// Reads the graph: MLIR as it is, or a Hugging Face configuration through moe-import.
static FailureOr<OwningOpRef<ModuleOp>> readGraph(MLIRContext &context, llvm::SourceMgr &sources, const char *argv0,
                                                  int64_t dataParallel) {
  if (!StringRef(input).ends_with(".mlir") && input != "-") {
    llvm::Expected<OwningOpRef<ModuleOp>> module = importing.importFile(context, input, argv0, dataParallel);
    if (module)
      return std::move(*module);
    llvm::errs() << llvm::toString(module.takeError()) << "\n";
    return failure();
  }
  if (StringRef given = importing.getGivenOption(); !given.empty())
    return emitError(UnknownLoc::get(&context))
           << "expected --" << given << " with a configuration only: '" << input << "' is a model graph";
  std::string message;
  std::unique_ptr<llvm::MemoryBuffer> file = openInputFile(input, &message);
  if (!file)
    return emitError(UnknownLoc::get(&context)) << message;
  sources.AddNewSourceBuffer(std::move(file), llvm::SMLoc());
  OwningOpRef<ModuleOp> module = parseSourceFile<ModuleOp>(sources, &context);
  if (!module)
    return failure();
  return module;
}

static LogicalResult writeText(MLIRContext &context, function_ref<LogicalResult(llvm::raw_pwrite_stream &)> write,
                               StringRef path, bool binary = false) {
  std::error_code error;
  llvm::ToolOutputFile file(path, error, binary ? llvm::sys::fs::OF_None : llvm::sys::fs::OF_Text);
  if (error)
    return emitError(UnknownLoc::get(&context)) << "cannot write '" << path << "': " << error.message();
  if (failed(write(file.os())))
    return failure();
  file.keep();
  return success();
}

static LogicalResult writeModule(ModuleOp module) {
  MLIRContext &context = *module.getContext();
  auto print = [&](llvm::raw_pwrite_stream &os) {
    module.print(os);
    os << "\n";
    return success();
  };
  switch (emit) {
  case Emit::L0:
  case Emit::Spmd:
  case Emit::Plan:
    return writeText(context, print, output);
  case Emit::LLVM:
    return writeText(context, [&](llvm::raw_pwrite_stream &os) { return moe::emitLLVMIR(module, os); }, output);
  case Emit::Object:
    return writeText(context, [&](llvm::raw_pwrite_stream &os) { return moe::emitObject(module, os); }, output, true);
  case Emit::SharedLibrary:
    return moe::emitSharedLibrary(module, output);
  }
  llvm_unreachable("all kinds of output are handled");
}

/// A table for people, or JSON where the file's name says so.
static LogicalResult writeReport(ModuleOp plan) {
  if (emit == Emit::Spmd)
    return plan.emitError() << "expected --report with a plan: --emit=spmd stops before there is one";
  return writeText(
      *plan.getContext(),
      [&](llvm::raw_pwrite_stream &os) {
        if (!StringRef(report).ends_with(".json"))
          return moe::printReport(plan, os);
        moe::writePlanReport(plan, os);
        return success();
      },
      report);
}

static LogicalResult run(MLIRContext &context, llvm::SourceMgr &sources, const char *argv0) {
  auto error = [&] { return emitError(UnknownLoc::get(&context)); };
  if (mode != "train" && mode != "forward")
    return error() << "expected --mode to be train or forward but got '" << mode << "'";
  if (emit == Emit::SharedLibrary && output == "-")
    return error() << "expected -o FILE for a plan .so";
  if (memoryLimit < 0)
    return error() << "expected --memory-limit to be at least 0 but got " << int64_t(memoryLimit);
  moe::CompileOptions options;
  FailureOr<moe::ParallelAttr> parallel = moe::parseParallel(&context, parallelText);
  if (failed(parallel))
    return failure();
  options.parallel = *parallel;
  options.schedule = schedule;
  options.train = mode == "train";
  options.memoryLimit = memoryLimit;
  FailureOr<OwningOpRef<ModuleOp>> graph = readGraph(context, sources, argv0, parallel->getDp());
  if (failed(graph))
    return failure();
  if (emit == Emit::L0)
    return writeModule(**graph);
  options.stage = emit == Emit::Spmd ? moe::Stage::Spmd : moe::Stage::Plan;
  FailureOr<OwningOpRef<ModuleOp>> module = moe::compile(**graph, options);
  if (failed(module))
    return failure();
  if (!report.empty() && failed(writeReport(**module)))
    return failure();
  if (emit != Emit::Spmd && emit != Emit::Plan && failed(moe::lowerToLLVM(**module)))
    return failure();
  return writeModule(**module);
}

int main(int argc, char **argv) {
  llvm::InitLLVM init(argc, argv);
  cl::HideUnrelatedOptions(category);
  if (!cl::ParseCommandLineOptions(argc, argv, "MoePlan compiler: a model graph to an executable parallel plan\n",
                                   &llvm::errs()))
    return badInput;
  DialectRegistry registry;
  moe::registerDialects(registry);
  MLIRContext context(registry, MLIRContext::Threading::DISABLED);
  // A whole function after each error would hide what it says.
  context.printOpOnDiagnostic(false);
  llvm::SourceMgr sources;
  SourceMgrDiagnosticHandler handler(sources, &context);
  // What has no place in a file is about the command line.
  ScopedDiagnosticHandler commandLine(&context, [](Diagnostic &diagnostic) {
    if (!isa<UnknownLoc>(diagnostic.getLocation()) || diagnostic.getSeverity() != DiagnosticSeverity::Error)
      return failure();
    llvm::errs() << "moe-compile: error: " << diagnostic << "\n";
    for (Diagnostic &note : diagnostic.getNotes())
      llvm::errs() << "note: " << note << "\n";
    return success();
  });
  return succeeded(run(context, sources, argv[0])) ? 0 : badInput;
}
