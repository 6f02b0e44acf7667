//===- main.cpp - moe-import: a model's description as an L0 graph ---------===//

#include "mlir/IR/AsmState.h"

#include "../Tools.h"
#include "ImportCommandLine.h"
#include "Session.h"
#include "moe/Support/UsageError.h"

using namespace mlir;
using namespace mlir::moe;
namespace cl = llvm::cl;

namespace {
/// The options. They exist only while this tool runs, since one program has several tools.
struct Options {
  cl::OptionCategory category{"moe-import options"};
  cl::opt<std::string> input{cl::Positional, cl::desc("<config.json | model name>"), cl::cat(category)};
  cl::opt<std::string> output{"o", cl::init("-"), cl::value_desc("file"),
                              cl::desc("Output file; - means standard output. Default: -"), cl::cat(category)};
  cl::opt<bool> loss{"loss", cl::desc("With --whole-model, compute the loss instead of the logits. Default: off"),
                     cl::cat(category)};
  ImportCommandLine importing{category};
};
} // namespace

static Options *given = nullptr;

static LogicalResult run(Session &session) {
  if (given->input.empty() == given->importing.getMegatronFile().empty())
    return emitUsageError(session.context)
           << "expected a configuration, a model's name or --megatron-args, and one of them";
  llvm::Expected<OwningOpRef<ModuleOp>> module =
      given->importing.importFile(session.context, given->input, ModelForm(), given->loss);
  if (!module)
    return printError(module.takeError());
  return writeFile(session.context, given->output, [&](llvm::raw_pwrite_stream &os) { (*module)->print(os); });
}

int mlir::moe::runImport(int argc, char **argv) {
  Options options;
  given = &options;
  registerAsmPrinterCLOptions();
  cl::HideUnrelatedOptions(given->category);
  return runTool(argc, argv, "moe-import",
                 "Makes a model graph from a Hugging Face config.json, or from the arguments of a "
                 "Megatron-LM job. Example:\n\n  moe-import "
                 "mixtral-8x7b --whole-model -o model.mlir\n",
                 /*compiling=*/nullptr, run);
}
