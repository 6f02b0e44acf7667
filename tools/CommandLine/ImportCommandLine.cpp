//===- ImportCommandLine.cpp - import options of a command line -----------===//
#include "ImportCommandLine.h"

#include "moe/Support/InputFile.h"

#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FormatVariadic.h"

using namespace mlir;
using namespace mlir::moe;
namespace cl = llvm::cl;

ImportCommandLine::ImportCommandLine(cl::OptionCategory &category)
    : batch("batch", cl::CommaSeparated,
            cl::desc("Sequences that a data-parallel rank computes at once (MBS). Example: 2. With\n"
                     "   a list such as 1,4 moe-compile makes one plan for several shapes. Default: 1"),
            cl::value_desc("int,.."), cl::cat(category)),
      seq("seq", cl::CommaSeparated,
          cl::desc("Tokens of a sequence. moe-compile also takes a list, as for --batch.\n"
                   "   Default: 512; in moe-plan 4096"),
          cl::value_desc("int,.."), cl::cat(category)),
      layers("layers",
             cl::desc("Number of MoE layers (default: 1) or, with --whole-model, how many of the\n"
                      "   model's first blocks to use (default: all)"),
             cl::value_desc("int"), cl::cat(category)),
      residual("residual", cl::init(true),
               cl::desc("Add the input of each layer to its output, as a block of a model does. For\n"
                        "   single layers, not for --whole-model. Default: true; --residual=false gives\n"
                        "   the layer alone"),
               cl::Hidden, cl::cat(category)),
      whole("whole-model", cl::desc("Use the whole model, not only its MoE layers. Default: off; in moe-plan on"),
            cl::cat(category)),
      capacityFactor("capacity-factor",
                     cl::desc("Limit the tokens of an expert to this factor times the even share; others\n"
                              "   are dropped. Example: 1.25. Default: as in the model's configuration"),
                     cl::value_desc("number"), cl::cat(category)),
      dropless("dropless", cl::desc("Compute every choice of every token. Default: as in the model's configuration"),
               cl::cat(category)),
      maxLoad("max-load",
              cl::desc("Rows that a rank reserves memory for in a dropless layer, as a multiple of the\n"
                       "   even load; none is the worst case. Further passes serve steps with more.\n"
                       "   Default: 2 on GPUs, which --parallel=auto may lower; otherwise none"),
              cl::cat(category)),
      groups("routing-groups",
             cl::desc("Groups into which the tokens of all data-parallel ranks are divided for\n"
                      "   routing. Each has its own capacity and auxiliary loss. There is at least one\n"
                      "   per data-parallel rank. Default: the model's own, which is one group or one\n"
                      "   per sequence"),
             cl::value_desc("number"), cl::Hidden, cl::cat(category)),
      dtype("dtype", cl::init(ImportType::f32),
            cl::desc("Type of all tensors but routing and losses. Default: f32; in moe-plan bf16"),
            cl::values(clEnumValN(ImportType::f32, "f32", "32-bit floating point"),
                       clEnumValN(ImportType::f64, "f64", "64-bit floating point"),
                       clEnumValN(ImportType::bf16, "bf16", "bfloat16"),
                       clEnumValN(ImportType::f16, "f16", "IEEE 16-bit floating point")),
            cl::cat(category)),
      strict("strict",
             cl::desc("Refuse a configuration or a job that has unknown keys or arguments. Default:\n"
                      "   warn of them"),
             cl::Hidden, cl::cat(category)),
      megatronFile("megatron-args",
                   cl::desc("Take the model and the options of a Megatron-LM job, unless they are given: a\n"
                            "   file of pretrain_gpt.py's arguments, or a shell script with them"),
                   cl::value_desc("file"), cl::init(""), cl::cat(category)),
      vocabulary("vocab-size",
                 cl::desc("Number of tokens of the vocabulary of a --megatron-args job. Default: the job's"),
                 cl::value_desc("int"), cl::Hidden, cl::cat(category)) {}

llvm::StringRef ImportCommandLine::getGivenOption() const {
  std::reference_wrapper<const cl::Option> options[] = {batch,          seq,          layers,    residual, whole,
                                                        capacityFactor, dropless,     maxLoad,   groups,   dtype,
                                                        strict,         megatronFile, vocabulary};
  for (const cl::Option &option : options)
    if (option.getNumOccurrences())
      return option.ArgStr;
  return "";
}

/// The values given, or else `otherwise`; each once.
static llvm::Expected<std::vector<int64_t>> getSizes(const cl::list<int64_t> &list, int64_t otherwise) {
  std::vector<int64_t> sizes(list.begin(), list.end());
  for (auto it = sizes.begin(); it != sizes.end(); ++it)
    if (std::find(sizes.begin(), it, *it) != it)
      return llvm::createStringError("error: '" + list.ArgStr + "': expected each value once but got " +
                                     llvm::Twine(*it) + " twice");
  return sizes.empty() ? std::vector{otherwise} : sizes;
}

llvm::Expected<llvm::SmallVector<ImportShape>> ImportCommandLine::getShapes() const {
  ImportOptions defaults;
  llvm::Expected<std::vector<int64_t>> batches = getSizes(batch, defaults.batch);
  if (!batches)
    return batches.takeError();
  llvm::Expected<std::vector<int64_t>> seqs = getSizes(seq, defaults.seq);
  if (!seqs)
    return seqs.takeError();
  llvm::SmallVector<ImportShape> shapes;
  for (int64_t sequences : *batches)
    for (int64_t tokens : *seqs)
      shapes.push_back({sequences, tokens});
  return shapes;
}

ImportOptions ImportCommandLine::getOptions(ImportShape shape) const {
  ImportOptions options;
  options.batch = shape.batch;
  options.seq = shape.seq;
  options.whole = whole;
  options.residual = residual;
  options.dtype = dtype;
  options.dropless = dropless;
  if (groups.getNumOccurrences())
    options.groups = groups;
  if (layers.getNumOccurrences())
    options.layers = layers;
  if (capacityFactor.getNumOccurrences())
    options.capacityFactor = capacityFactor;
  if (!maxLoad.getNumOccurrences())
    options.defaultMaxLoad = defaultMaxLoad;
  else if (std::isfinite(maxLoad.number))
    options.maxLoad = maxLoad.number;
  return options;
}

llvm::Expected<const MegatronArguments *> ImportCommandLine::getMegatron() const {
  if (megatron)
    return &*megatron;
  llvm::Expected<std::unique_ptr<llvm::MemoryBuffer>> file = readInputFile(megatronFile);
  if (!file)
    return file.takeError();
  llvm::Expected<MegatronArguments> arguments = parseMegatronArguments((*file)->getBuffer(), megatronFile);
  if (!arguments)
    return arguments.takeError();
  for (const ConfigRemark &remark : arguments->remarks)
    if (llvm::Error error = report(megatronFile, remark))
      return error;
  megatron = std::move(*arguments);
  return &*megatron;
}

llvm::Expected<ModelConfig> ImportCommandLine::parse(llvm::StringRef input) const {
  std::scoped_lock lock(mutex);
  if (parsed)
    return *parsed;
  llvm::Expected<ModelConfig> config = parseFile(input);
  if (!config)
    return config;
  if (config->otherKeys)
    if (llvm::Error error = report(config->fileName, *config->otherKeys, "; --strict makes this an error"))
      return error;
  parsed = *config;
  return config;
}

int64_t ImportCommandLine::countBlocks(const ModelConfig &config) const {
  auto count = static_cast<int64_t>(config.model->blocks.size());
  return layers.getNumOccurrences() ? std::min<int64_t>(count, layers) : count;
}

llvm::Expected<ModelConfig> ImportCommandLine::parseFile(llvm::StringRef input) const {
  if (!megatronFile.empty()) {
    llvm::Expected<const MegatronArguments *> arguments = getMegatron();
    std::optional<int64_t> given;
    if (vocabulary.getNumOccurrences())
      given = vocabulary;
    return arguments ? readMegatronModel(**arguments, whole, given) : arguments.takeError();
  }
  if (vocabulary.getNumOccurrences())
    return llvm::createStringError("error: --vocab-size needs --megatron-args: a configuration has its own");
  std::string path = input.str();
  if (path != "-") {
    llvm::Expected<std::string> found = findShareFile("models", input);
    if (!found)
      return found.takeError();
    path = *found;
  }
  llvm::Expected<std::unique_ptr<llvm::MemoryBuffer>> file = readInputFile(path);
  if (!file)
    return file.takeError();
  return parseModelConfig((*file)->getBuffer(), path == "-" ? "<stdin>" : path, whole);
}

llvm::Error ImportCommandLine::report(llvm::StringRef file, const ConfigRemark &remark, llvm::StringRef hint) const {
  std::string place = llvm::formatv("{0}:{1}:{2}", file, remark.place.line, remark.place.column);
  if (strict)
    return llvm::createStringError(place + ": error: " + remark.text);
  llvm::errs() << place << ": warning: " << remark.text << hint << "\n";
  return llvm::Error::success();
}

void ImportCommandLine::warnOfNoExperts(const ModelConfig &config) const {
  if (!whole)
    return;
  const ModelSpec &model = *config.model;
  size_t most = layers.getNumOccurrences() ? static_cast<size_t>(layers) : SIZE_MAX;
  for (const auto *blocks : {&model.blocks, &model.decoder})
    if (llvm::any_of(llvm::ArrayRef(*blocks).take_front(most), [](const BlockSpec &block) { return block.isMoe; }))
      return;
  std::reference_wrapper<const cl::Option> options[] = {capacityFactor, dropless, maxLoad, groups};
  llvm::SmallVector<std::string> given;
  for (const cl::Option &option : options)
    if (option.getNumOccurrences())
      given.push_back(("--" + option.ArgStr).str());
  if (!given.empty() && warnedOfNoExperts.insert(config.fileName).second)
    llvm::errs() << config.fileName << ": warning: the model has no MoE layer, so " << llvm::join(given, ", ")
                 << (given.size() > 1 ? " have" : " has") << " no effect\n";
}

llvm::Expected<std::vector<int64_t>> ImportCommandLine::getBlockKinds(llvm::StringRef input) const {
  std::vector<int64_t> kinds;
  if (!whole)
    return kinds;
  llvm::Expected<ModelConfig> config = parse(input);
  if (!config)
    return config.takeError();
  const ModelSpec &model = *config->model;
  if (!model.decoder.empty())
    return kinds;
  int64_t count = countBlocks(*config);
  for (int64_t block = 0; block < count; ++block) {
    int64_t first = 0;
    while (!(model.blocks[first] == model.blocks[block]))
      ++first;
    kinds.push_back(first);
  }
  return kinds;
}

std::vector<MemoryFlag> ImportCommandLine::getMemoryFlags(ImportShape shape, bool hasGlobalBatch,
                                                          const ModelForm &asked) const {
  std::vector<MemoryFlag> flags;
  if (!maxLoad.getNumOccurrences()) {
    // A bound that is there by default can still be smaller.
    bool isBounded = defaultMaxLoad.has_value();
    double load = isBounded ? 1.5 : 2;
    if (!asked.maxLoad || *asked.maxLoad > load)
      flags.push_back(
          {isBounded ? "--max-load=1.5" : "--max-load=2", [=](PlanRequest &request) { request.model.maxLoad = load; }});
  }
  if (!dtype.getNumOccurrences())
    flags.push_back({"--dtype=bf16", [](PlanRequest &request) { request.model.isBf16 = true; }});
  if (whole && shape.batch > 1)
    flags.push_back({"--batch=1", [=](PlanRequest &request) {
                       request.model.batch = 1;
                       if (hasGlobalBatch)
                         request.options.microBatches *= shape.batch;
                     }});
  return flags;
}

llvm::Expected<OwningOpRef<ModuleOp>> ImportCommandLine::importFile(MLIRContext &context, llvm::StringRef input,
                                                                    const ModelForm &form, bool loss,
                                                                    std::optional<ImportShape> shape,
                                                                    const ReducedSizes *reduced) const {
  if (!shape) {
    llvm::Expected<llvm::SmallVector<ImportShape>> shapes = getShapes();
    if (!shapes)
      return shapes.takeError();
    if (shapes->size() > 1)
      return llvm::createStringError("error: 'batch' and 'seq': expected one value of each but got " +
                                     llvm::Twine(shapes->size()) + " shapes; only plans hold several");
    shape = shapes->front();
  }
  llvm::Expected<ModelConfig> config = parse(input);
  if (!config)
    return config.takeError();
  warnOfNoExperts(*config);
  ImportOptions options = getOptions(*shape);
  options.dataParallel = form.dataParallel;
  options.loss = loss;
  if (form.isBf16)
    options.dtype = ImportType::bf16;
  if (form.maxLoad) {
    options.maxLoad.reset();
    options.defaultMaxLoad = form.maxLoad;
  }
  if (form.batch)
    options.batch = *form.batch;
  if (!form.blocks.empty()) {
    llvm::SmallVector<BlockSpec> taken;
    for (int64_t block : form.blocks)
      taken.push_back(config->model->blocks[block]);
    config->model->blocks = taken;
    options.layers.reset();
  }
  if (reduced) {
    *config = reduceModel(*config, options.seq, *reduced);
    options.seq = reduceSequence(options.seq, *reduced);
    const double least = getLeastMaxLoad(config->layer, reduced->parallel);
    for (std::optional<double> *load : {&options.maxLoad, &options.defaultMaxLoad})
      if (*load)
        *load = std::max(**load, least);
  }
  return importModel(context, *config, options);
}

llvm::StringRef ImportCommandLine::getDType() const {
  static constexpr llvm::StringLiteral names[] = {"f32", "f64", "bf16", "f16"};
  return names[static_cast<unsigned>(dtype.getValue())];
}
