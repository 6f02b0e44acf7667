//===- CommandLine.cpp - import options of a command line -----------------===//
#include "moe/Import/CommandLine.h"

#include "moe/Import/ShareDir.h"

#include "llvm/Support/MemoryBuffer.h"

using namespace mlir;
using namespace mlir::moe;
namespace cl = llvm::cl;

ImportCommandLine::ImportCommandLine(cl::OptionCategory &category)
    : batch("batch", cl::init(1), cl::desc("Sequences of a data-parallel rank"), cl::cat(category)),
      seq("seq", cl::init(512), cl::desc("Tokens of a sequence"), cl::cat(category)),
      layers("layers", cl::init(1), cl::desc("MoE layers"), cl::cat(category)),
      capacityFactor("capacity-factor", cl::desc("Use the capacity form with this factor"), cl::cat(category)),
      dropless("dropless", cl::desc("Use the dropless form"), cl::cat(category)),
      maxLoad("max-load", cl::desc("Bound of a dropless layer's rows, in multiples of the mean"), cl::cat(category)),
      dtype("dtype", cl::init(ImportType::f32), cl::desc("Type of all tensors"),
            cl::values(clEnumValN(ImportType::f32, "f32", "the default"), clEnumValN(ImportType::f64, "f64", ""),
                       clEnumValN(ImportType::bf16, "bf16", "")),
            cl::cat(category)) {}

llvm::StringRef ImportCommandLine::getGivenOption() const {
  for (const cl::Option *option :
       std::initializer_list<const cl::Option *>{&batch, &seq, &layers, &capacityFactor, &dropless, &maxLoad, &dtype})
    if (option->getNumOccurrences())
      return option->ArgStr;
  return "";
}

ImportOptions ImportCommandLine::getOptions() const {
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
  return options;
}

llvm::Expected<OwningOpRef<ModuleOp>> ImportCommandLine::importFile(MLIRContext &context, llvm::StringRef input,
                                                                    const char *argv0, int64_t dataParallel) const {
  std::string path = input.str();
  if (path != "-") {
    llvm::Expected<std::string> found = findShareFile("models", input, argv0);
    if (!found)
      return found.takeError();
    path = *found;
  }
  llvm::ErrorOr<std::unique_ptr<llvm::MemoryBuffer>> file = llvm::MemoryBuffer::getFileOrSTDIN(path, /*IsText=*/true);
  if (!file)
    return llvm::createStringError(file.getError(), "error: '" + path + "': " + file.getError().message());
  llvm::Expected<ModelConfig> config = parseModelConfig((*file)->getBuffer(), path == "-" ? "<stdin>" : path);
  if (!config)
    return config.takeError();
  ImportOptions options = getOptions();
  options.dataParallel = dataParallel;
  return importModel(context, *config, options);
}
