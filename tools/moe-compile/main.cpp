//===- main.cpp - moe-compile: a model graph to a plan --------------------===//
#include "mlir/IR/AsmState.h"
#include "mlir/IR/MLIRContext.h"
#include "llvm/Support/InitLLVM.h"

#include "moe/Compiler/CommandLine.h"
#include "moe/Compiler/Report.h"
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

static moe::CompileCommandLine compiling(category);
static cl::opt<std::string> output("o", cl::desc("Output file; - for standard output"), cl::value_desc("file"),
                                   cl::init("-"), cl::cat(category));
static cl::opt<Emit> emit(
    "emit", cl::desc("What to write"), cl::init(Emit::SharedLibrary),
    cl::values(clEnumValN(Emit::L0, "l0", "The model graph"), clEnumValN(Emit::Spmd, "spmd", "The per-rank program"),
               clEnumValN(Emit::Plan, "plan", "The plan"), clEnumValN(Emit::LLVM, "llvm", "LLVM IR"),
               clEnumValN(Emit::Object, "obj", "An object file"), clEnumValN(Emit::SharedLibrary, "so", "A plan .so")),
    cl::cat(category));
static cl::opt<std::string>
    report("report",
           cl::desc("Write a report of the plan to this file, as JSON if it ends in .json; - for standard output"),
           cl::value_desc("file"), cl::cat(category));

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
    return moe::writeFile(context, output, print);
  case Emit::LLVM:
    return moe::writeFile(context, output, [&](llvm::raw_pwrite_stream &os) { return moe::emitLLVMIR(module, os); });
  case Emit::Object:
    return moe::writeFile(
        context, output, [&](llvm::raw_pwrite_stream &os) { return moe::emitObject(module, os); }, /*isBinary=*/true);
  case Emit::SharedLibrary:
    return moe::emitSharedLibrary(module, output);
  }
  llvm_unreachable("all kinds of output are handled");
}

/// Tables for people, or JSON where the file's name says so. What the cluster's profile does not know leaves the
/// prediction out, and says why.
static LogicalResult writeReport(ModuleOp plan, const moe::ClusterProfile &cluster) {
  if (emit == Emit::Spmd)
    return plan.emitError() << "expected --report with a plan: --emit=spmd stops before there is one";
  llvm::Expected<moe::Prediction> prediction = moe::predict(plan, compiling.getInput(), cluster);
  std::string reason = prediction ? "" : llvm::toString(prediction.takeError());
  if (!reason.empty())
    emitWarning(UnknownLoc::get(plan.getContext())) << "no prediction: " << reason;
  return moe::writeFile(*plan.getContext(), report, [&](llvm::raw_pwrite_stream &os) -> LogicalResult {
    if (StringRef(report).ends_with(".json")) {
      std::string json;
      llvm::raw_string_ostream text(json);
      if (prediction)
        moe::writeJson(prediction->header, prediction->result, prediction->report, /*comparison=*/nullptr, text);
      moe::writePlanReport(plan, text.str(), os);
      return success();
    }
    if (failed(moe::printReport(plan, os)))
      return failure();
    os << "\n";
    if (prediction)
      moe::printText(prediction->header, prediction->result, prediction->report, os);
    else
      os << "no prediction: " << reason << "\n";
    return success();
  });
}

static LogicalResult run(MLIRContext &context, llvm::SourceMgr &sources, const char *argv0) {
  if (emit == Emit::SharedLibrary && output == "-")
    return emitError(UnknownLoc::get(&context)) << "expected -o FILE for a plan .so";
  FailureOr<moe::ClusterProfile> cluster = compiling.loadCluster(context, argv0);
  if (failed(cluster))
    return failure();
  FailureOr<moe::CompileOptions> options = compiling.getOptions(context, *cluster);
  if (failed(options))
    return failure();
  FailureOr<OwningOpRef<ModuleOp>> graph = compiling.readModule(context, sources, argv0, options->parallel.getDp());
  if (failed(graph))
    return failure();
  if (emit == Emit::L0)
    return writeModule(**graph);
  options->stage = emit == Emit::Spmd ? moe::Stage::Spmd : moe::Stage::Plan;
  FailureOr<OwningOpRef<ModuleOp>> module = moe::compile(**graph, *options);
  if (failed(module))
    return failure();
  if (options->stage == moe::Stage::Plan)
    moe::warnOfMemory(**module, *cluster);
  if (!report.empty() && failed(writeReport(**module, *cluster)))
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
  moe::ToolDiagnostics diagnostics(context, "moe-compile");
  return succeeded(run(context, diagnostics.getSources(), argv[0])) ? 0 : badInput;
}
