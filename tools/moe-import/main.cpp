//===- main.cpp - moe-import: a model's description as an L0 graph ---------===//

#include "ImportCommandLine.h"

#include "mlir/IR/AsmState.h"
#include "mlir/IR/MLIRContext.h"

#include "llvm/Support/CommandLine.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/ToolOutputFile.h"

#include "../StandardOutput.h"
#include "../Version.h"

using namespace mlir;
using namespace mlir::moe;
namespace cl = llvm::cl;

static constexpr int badInput = 2;

static cl::OptionCategory category("moe-import options");
static cl::opt<std::string> input(cl::Positional, cl::desc("<config.json | model name>"), cl::cat(category));
static cl::opt<std::string> output("o", cl::init("-"), cl::value_desc("file"),
                                   cl::desc("Output file; - means standard output. Default: -"), cl::cat(category));
static cl::opt<bool> loss("loss", cl::desc("With --whole-model, compute the loss instead of the logits. Default: off"),
                          cl::cat(category));
static ImportCommandLine importing(category);

static int fail(llvm::Error error) {
  llvm::errs() << llvm::toString(std::move(error)) << "\n";
  return badInput;
}

int main(int argc, char **argv) {
  keepStandardOutputClosed();
  setVersion("moe-import");
  registerAsmPrinterCLOptions();
  cl::HideUnrelatedOptions(category);
  if (!cl::ParseCommandLineOptions(argc, argv,
                                   "Makes a model graph from a Hugging Face config.json, or from the arguments of a "
                                   "Megatron-LM job. Example:\n\n  moe-import "
                                   "mixtral-8x7b --whole-model -o model.mlir\n",
                                   &llvm::errs()))
    return badInput;

  if (input.empty() == importing.getMegatronFile().empty())
    return fail(llvm::createStringError(
        "moe-import: error: expected a configuration, a model's name or --megatron-args, and one of them"));
  MLIRContext context(MLIRContext::Threading::DISABLED);
  llvm::Expected<OwningOpRef<ModuleOp>> module = importing.importFile(context, input, ModelForm(), loss);
  if (!module)
    return fail(module.takeError());

  std::error_code ec;
  llvm::ToolOutputFile out(output, ec, llvm::sys::fs::OF_Text);
  if (!ec) {
    (*module)->print(out.os());
    out.os().flush();
    ec = out.os().error();
    out.os().clear_error();
  }
  if (ec) {
    llvm::errs() << "error: cannot write '" << output << "': " << ec.message() << "\n";
    return badInput;
  }
  out.keep();
  return 0;
}
