//===- main.cpp - moe-import: a Hugging Face config as an L0 graph --------===//

#include "moe/Import/Import.h"
#include "moe/Import/ShareDir.h"

#include "mlir/IR/MLIRContext.h"

#include "llvm/Support/CommandLine.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/ToolOutputFile.h"

using namespace mlir;
using namespace mlir::moe;
namespace cl = llvm::cl;

static constexpr int badInput = 2;

static cl::OptionCategory category("moe-import options");
static cl::opt<std::string> input(cl::Positional, cl::Required,
                                  cl::desc("<config.json, or the name of a shared model>"), cl::cat(category));
static cl::opt<std::string> output("o", cl::init("-"), cl::value_desc("file"), cl::desc("Output file; - is stdout"),
                                   cl::cat(category));
static cl::opt<int64_t> batch("batch", cl::init(1), cl::desc("Sequences"), cl::cat(category));
static cl::opt<int64_t> seq("seq", cl::init(512), cl::desc("Tokens of a sequence"), cl::cat(category));
static cl::opt<int64_t> layers("layers", cl::init(1), cl::desc("MoE layers"), cl::cat(category));
static cl::opt<double> capacityFactor("capacity-factor", cl::desc("Use the capacity form with this factor"),
                                      cl::cat(category));
static cl::opt<bool> dropless("dropless", cl::desc("Use the dropless form"), cl::cat(category));
static cl::opt<double> maxLoad("max-load", cl::desc("Bound of a dropless layer's rows, in multiples of the mean"),
                               cl::cat(category));
static cl::opt<ImportType> dtype("dtype", cl::init(ImportType::f32), cl::desc("Type of all tensors"),
                                 cl::values(clEnumValN(ImportType::f32, "f32", "the default"),
                                            clEnumValN(ImportType::f64, "f64", ""),
                                            clEnumValN(ImportType::bf16, "bf16", "")),
                                 cl::cat(category));

static int fail(llvm::Error error) {
  llvm::errs() << llvm::toString(std::move(error)) << "\n";
  return badInput;
}

int main(int argc, char **argv) {
  cl::HideUnrelatedOptions(category);
  if (!cl::ParseCommandLineOptions(argc, argv, "Hugging Face config.json -> L0 graph of the moe dialect\n",
                                   &llvm::errs()))
    return badInput;

  std::string path = input;
  if (path != "-") {
    llvm::Expected<std::string> found = findShareFile("models", input, argv[0]);
    if (!found)
      return fail(found.takeError());
    path = *found;
  }
  llvm::ErrorOr<std::unique_ptr<llvm::MemoryBuffer>> file = llvm::MemoryBuffer::getFileOrSTDIN(path, /*IsText=*/true);
  if (!file) {
    llvm::errs() << "error: '" << path << "': " << file.getError().message() << "\n";
    return badInput;
  }
  llvm::Expected<ModelConfig> config = parseModelConfig((*file)->getBuffer(), path);
  if (!config)
    return fail(config.takeError());

  ImportOptions options;
  options.batch = batch;
  options.seq = seq;
  options.layers = layers;
  options.dtype = dtype;
  options.dropless = dropless;
  if (capacityFactor.getNumOccurrences())
    options.capacityFactor = capacityFactor;
  if (maxLoad.getNumOccurrences())
    options.maxLoad = maxLoad;
  MLIRContext context(MLIRContext::Threading::DISABLED);
  llvm::Expected<OwningOpRef<ModuleOp>> module = importModel(context, *config, options);
  if (!module)
    return fail(module.takeError());

  std::error_code ec;
  llvm::ToolOutputFile out(output, ec, llvm::sys::fs::OF_Text);
  if (ec) {
    llvm::errs() << "error: '" << output << "': " << ec.message() << "\n";
    return badInput;
  }
  (*module)->print(out.os());
  out.keep();
  return 0;
}
