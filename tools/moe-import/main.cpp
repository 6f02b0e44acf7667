//===- main.cpp - moe-import: a model's description as an L0 graph ---------===//

#include "mlir/IR/AsmState.h"

#include "ImportCommandLine.h"
#include "Session.h"
#include "moe/Support/UsageError.h"

using namespace mlir;
using namespace mlir::moe;
namespace cl = llvm::cl;

static cl::OptionCategory category("moe-import options");
static cl::opt<std::string> input(cl::Positional, cl::desc("<config.json | model name>"), cl::cat(category));
static cl::opt<std::string> output("o", cl::init("-"), cl::value_desc("file"),
                                   cl::desc("Output file; - means standard output. Default: -"), cl::cat(category));
static cl::opt<bool> loss("loss", cl::desc("With --whole-model, compute the loss instead of the logits. Default: off"),
                          cl::cat(category));
static ImportCommandLine importing(category);

static LogicalResult run(Session &session) {
  if (input.empty() == importing.getMegatronFile().empty())
    return emitUsageError(session.context)
           << "expected a configuration, a model's name or --megatron-args, and one of them";
  llvm::Expected<OwningOpRef<ModuleOp>> module = importing.importFile(session.context, input, ModelForm(), loss);
  if (!module)
    return printError(module.takeError());
  return writeFile(session.context, output, [&](llvm::raw_pwrite_stream &os) { (*module)->print(os); });
}

int main(int argc, char **argv) {
  registerAsmPrinterCLOptions();
  cl::HideUnrelatedOptions(category);
  return runTool(argc, argv, "moe-import",
                 "Makes a model graph from a Hugging Face config.json, or from the arguments of a "
                 "Megatron-LM job. Example:\n\n  moe-import "
                 "mixtral-8x7b --whole-model -o model.mlir\n",
                 /*compiling=*/nullptr, run);
}
