//===- TorchtitanModels.cpp - models of torchtitan ------------------------===//
//
// Sources are the wheels of torchtitan 0.2.1 and 0.3.0. 0.2.1: torchtitan/models/*/__init__.py and
// infra/parallelize.py, torchtitan/experiments/gpt_oss. 0.3.0: torchtitan/models/*/__init__.py,
// torchtitan/models/common/decoder.py.
//
//===----------------------------------------------------------------------===//
#include "Torchtitan.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringSwitch.h"

using namespace mlir;
using namespace mlir::moe;

//===----------------------------------------------------------------------===//
// Flavors
//===----------------------------------------------------------------------===//

namespace {
/// Sizes by which flavors differ; 0 where a model lacks the part.
struct Sizes {
  int64_t layers = 0, hidden = 0, heads = 0, keyHeads = 0, headDim = 0, vocabulary = 0, dense = 0, denseLayers = 0;
  int64_t experts = 0, topK = 0, expertHidden = 0, sharedHidden = 0, queryRank = 0;
  bool isTied = false;

  bool operator==(const Sizes &) const = default;
};

enum InVersion { kIn2 = 1, kIn3 = 2, kInBoth = kIn2 | kIn3 };

struct Flavor {
  StringLiteral model, name;
  InVersion versions;
  Sizes sizes;
};
} // namespace

/// Latent attention has as many heads of keys as of queries, with 192 columns each.
static constexpr Flavor kFlavors[] = {
    {"llama3", "debugmodel", kInBoth, {6, 256, 16, 16, 16, 2048, 768, 6}},
    {"llama3", "1B", kIn3, {16, 2048, 32, 8, 64, 128256, 8192, 16, 0, 0, 0, 0, 0, true}},
    {"llama3", "3B", kIn3, {28, 3072, 24, 8, 128, 128256, 8192, 28, 0, 0, 0, 0, 0, true}},
    {"llama3", "8B", kInBoth, {32, 4096, 32, 8, 128, 128256, 14336, 32}},
    {"llama3", "70B", kInBoth, {80, 8192, 64, 8, 128, 128256, 28672, 80}},
    {"llama3", "405B", kInBoth, {126, 16384, 128, 8, 128, 128256, 53248, 126}},
    {"llama4", "debugmodel_irope", kIn2, {6, 256, 16, 16, 16, 2048, 768, 3, 8, 1, 512, 512}},
    {"llama4", "17bx16e_irope", kIn2, {48, 5120, 40, 8, 128, 202048, 0, 0, 16, 1, 8192, 8192}},
    {"llama4", "17bx128e_irope", kIn2, {48, 5120, 40, 8, 128, 202048, 16384, 24, 128, 1, 8192, 8192}},
    {"deepseek_v3", "debugmodel", kInBoth, {6, 256, 16, 16, 192, 2048, 1024, 1, 8, 3, 256, 512}},
    {"deepseek_v3", "16B", kInBoth, {27, 2048, 16, 16, 192, 102400, 10944, 1, 64, 6, 1408, 2816}},
    {"deepseek_v3", "236B", kInBoth, {60, 5120, 128, 128, 192, 102400, 12288, 1, 160, 6, 1536, 3072, 1536}},
    {"deepseek_v3", "671B", kInBoth, {61, 7168, 128, 128, 192, 129280, 18432, 3, 256, 8, 2048, 2048, 1536}},
    {"qwen3", "debugmodel", kInBoth, {8, 256, 16, 8, 128, 2048, 3072, 8, 0, 0, 0, 0, 0, true}},
    {"qwen3", "0.6B", kInBoth, {28, 1024, 16, 8, 128, 151936, 3072, 28, 0, 0, 0, 0, 0, true}},
    {"qwen3", "1.7B", kInBoth, {28, 2048, 16, 8, 128, 151936, 6144, 28, 0, 0, 0, 0, 0, true}},
    {"qwen3", "4B", kInBoth, {36, 2560, 32, 8, 128, 151936, 9728, 36, 0, 0, 0, 0, 0, true}},
    {"qwen3", "8B", kInBoth, {36, 4096, 32, 8, 128, 151936, 12288, 36}},
    {"qwen3", "14B", kInBoth, {40, 5120, 40, 8, 128, 151936, 17408, 40}},
    {"qwen3", "32B", kInBoth, {64, 5120, 64, 8, 128, 151936, 25600, 64}},
    {"qwen3", "debugmodel_moe", kInBoth, {8, 256, 16, 8, 128, 2048, 0, 0, 64, 8, 768}},
    {"qwen3", "30B-A3B", kInBoth, {48, 2048, 32, 4, 128, 151936, 0, 0, 128, 8, 768}},
    {"qwen3", "235B-A22B", kInBoth, {94, 4096, 64, 4, 128, 151936, 0, 0, 128, 8, 1536}},
    {"gpt_oss", "debugmodel", kIn2, {4, 256, 64, 8, 64, 201088, 0, 0, 8, 4, 2880}},
    {"gpt_oss", "debugmodel", kIn3, {4, 256, 64, 8, 64, 2048, 0, 0, 8, 4, 2880}},
    {"gpt_oss", "20b", kInBoth, {24, 2880, 64, 8, 64, 201088, 0, 0, 32, 4, 2880}},
    {"gpt_oss", "120b", kInBoth, {36, 2880, 64, 8, 64, 201088, 0, 0, 128, 4, 2880}}};

int64_t mlir::moe::countDenseBlocks(const ModelSpec &model) {
  return llvm::count_if(model.blocks, [](const BlockSpec &block) { return !block.isMoe; });
}

static Sizes getSizes(const ModelConfig &config) {
  const ModelSpec &model = *config.model;
  const AttentionSpec &attention = model.attention;
  const LayerSpec &layer = config.layer;
  Sizes sizes;
  sizes.layers = static_cast<int64_t>(model.blocks.size());
  sizes.hidden = layer.hidden;
  sizes.heads = attention.heads;
  sizes.keyHeads = attention.latent ? attention.heads : attention.keyHeads;
  sizes.headDim = attention.latent ? attention.latent->plainDim + attention.latent->rotaryDim : attention.headDim;
  sizes.queryRank = attention.latent ? attention.latent->queryRank : 0;
  sizes.vocabulary = model.vocabulary;
  sizes.isTied = model.tiedHead;
  sizes.denseLayers = countDenseBlocks(model);
  if (sizes.denseLayers > 0)
    sizes.dense = model.denseHidden;
  if (layer.experts > 0) {
    sizes.experts = layer.experts;
    sizes.topK = layer.topK;
    sizes.expertHidden = layer.expertHidden;
    sizes.sharedHidden = layer.sharedHidden;
  }
  return sizes;
}

static StringRef findFlavor(StringRef model, const ModelConfig &config, bool isPython) {
  const Sizes sizes = getSizes(config);
  const InVersion version = isPython ? kIn3 : kIn2;
  for (const Flavor &flavor : kFlavors)
    if (flavor.model == model && (flavor.versions & version) && flavor.sizes == sizes)
      return flavor.name;
  return "";
}

/// Name of the model with this architecture. Mixtral is Llama 4 without its norms, chunks and shared experts, or Qwen3
/// without norms of queries and keys. In 0.2 only the first of them has a pipeline.
static StringRef getModelName(StringRef architecture, bool isPython) {
  return llvm::StringSwitch<StringRef>(architecture)
      .Cases("LlamaForCausalLM", "MistralForCausalLM", "llama3")
      .Cases("DeepseekV2ForCausalLM", "DeepseekV3ForCausalLM", "deepseek_v3")
      .Cases("Qwen3ForCausalLM", "Qwen3MoeForCausalLM", "qwen3")
      .Case("MixtralForCausalLM", isPython ? "qwen3" : "llama4")
      .Case("GptOssForCausalLM", "gpt_oss")
      .StartsWith("Llama4", isPython ? "" : "llama4")
      .Default("");
}

TorchtitanModel mlir::moe::findTorchtitanModel(const ModelConfig &config, const llvm::VersionTuple &version) {
  const bool isPython = version >= kTorchtitanInPython;
  TorchtitanModel model;
  model.name = getModelName(config.architecture, isPython);
  if (model.name.empty())
    return model;
  model.flavor = findFlavor(model.name, config, isPython);
  const bool hasExperts = config.layer.experts > 0;
  if (isPython) {
    model.hasDeepEp = hasExperts;
    if (config.model->tiedHead)
      model.noPipeline = "torchtitan 0.3 has no pipeline for a head that shares the embedding's weights";
    return model;
  }
  const std::string owner = "torchtitan 0.2.1's " + model.name.str();
  model.hasDeepEp = model.name == "deepseek_v3";
  if (model.name == "qwen3" || model.name == "gpt_oss")
    model.noPipeline = owner + " has no pipelining_fn";
  if (hasExperts && (model.name == "qwen3" || model.name == "llama4"))
    model.noExpertsAlone = "torchtitan 0.2.1 divides experts of this model only beside tensor parallelism; 0.2.2 has "
                           "no such limit";
  if (model.name == "gpt_oss") {
    model.noTensor = owner + " asks for a mesh ep_etp, which its ParallelDims does not have";
    model.noExperts = model.noTensor;
    model.noContext = owner + " has no context parallelism";
  }
  if (model.name == "llama4" && config.model->blocks.front().chunk > 0)
    model.noContext = owner + " computes attention inside chunks by FlexAttention, which has no context parallelism";
  return model;
}

bool mlir::moe::usesFlexAttention(const TorchtitanModel &model) {
  return model.name == "deepseek_v3" && !model.flavor.empty() && model.flavor != "debugmodel";
}

std::vector<std::string> mlir::moe::findTorchtitanGaps(const TorchtitanModel &model, const ModelConfig &config,
                                                       const llvm::VersionTuple &version) {
  if (model.name.empty())
    return {"torchtitan " + version.getAsString() + " has no model like " + config.architecture};
  const bool isPython = version >= kTorchtitanInPython, isOss = model.name == "gpt_oss";
  std::vector<std::string> gaps;
  if (!isPython && isOss)
    gaps.emplace_back("a bias of the router");
  // The sizes of a flavor need no arguments.
  if (!model.flavor.empty())
    return gaps;
  const ModelSpec &spec = *config.model;
  const AttentionSpec &attention = spec.attention;
  const LayerSpec &layer = config.layer;
  const int64_t dense = countDenseBlocks(spec), layers = static_cast<int64_t>(spec.blocks.size());
  const bool isQwen = model.name == "qwen3", isLlama = model.name == "llama3";
  const bool isDeepSeek = model.name == "deepseek_v3";
  const bool hasDenseFirst =
      llvm::all_of(ArrayRef(spec.blocks).take_front(dense), [](const BlockSpec &block) { return !block.isMoe; });
  const bool hasWindow = llvm::any_of(spec.blocks, [](const BlockSpec &block) { return block.window > 0; });
  const std::pair<bool, const char *> known[] = {
      {!isOss && hasWindow, "attention inside a window"},
      {spec.tiedHead && (isPython ? !isLlama && !(isQwen && layer.experts == 0) : !isQwen),
       "a head that shares the embedding's weights"},
      {isQwen && dense > 0 && dense < layers, "blocks without experts between blocks with experts"},
      {isDeepSeek && !hasDenseFirst, "blocks without experts behind blocks with experts"},
      {isDeepSeek && layer.experts > 0 && layer.sharedHidden == 0, "experts without shared experts"},
      {!isOss && (attention.inputBiases || attention.outputBias), "biases of attention"},
      {(isLlama || model.name == "llama4") && attention.headDim * attention.heads != layer.hidden,
       "heads whose columns are not the model's together"},
      {isPython && isOss && (attention.heads != 64 || attention.keyHeads != 8 || attention.headDim != 64),
       "other heads than 64 of queries and 8 of keys, with 64 columns"}};
  for (auto [isGap, text] : known)
    if (isGap)
      gaps.emplace_back(text);
  return gaps;
}
