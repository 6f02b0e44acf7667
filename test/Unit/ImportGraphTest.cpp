//===- ImportGraphTest.cpp - L0 graphs of imported models -----------------===//

#include "moe/Dialect/Moe/IR/MoeOps.h"
#include "moe/Import/Import.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/MLIRContext.h"

#include "llvm/Support/MemoryBuffer.h"

#include <gtest/gtest.h>

#include <cmath>

using namespace mlir;
using namespace mlir::moe;

namespace {

ModelConfig readShared(const std::string &name, bool whole = false) {
  std::string path = std::string(MOE_SHARE_DIR) + "/models/" + name + ".json";
  auto file = llvm::MemoryBuffer::getFile(path);
  return llvm::cantFail(parseModelConfig((*file)->getBuffer(), path, whole));
}

std::string print(Type type) {
  std::string text;
  llvm::raw_string_ostream(text) << type;
  return text;
}

/// `name: type` of each argument.
std::vector<std::string> describeArguments(func::FuncOp function) {
  std::vector<std::string> described;
  for (BlockArgument argument : function.getArguments())
    described.push_back(function.getArgAttrOfType<StringAttr>(argument.getArgNumber(), "moe.name").str() + ": " +
                        print(argument.getType()));
  return described;
}

func::FuncOp getModel(ModuleOp module) { return module.lookupSymbol<func::FuncOp>("model"); }

class ImportGraph : public testing::Test {
protected:
  OwningOpRef<ModuleOp> import(const std::string &name, const ImportOptions &options = {}) {
    return llvm::cantFail(importModel(context, readShared(name, options.whole), options));
  }
  std::string errorOf(const std::string &name, const ImportOptions &options) {
    auto module = importModel(context, readShared(name, options.whole), options);
    return module ? "" : llvm::toString(module.takeError());
  }
  MLIRContext context{MLIRContext::Threading::DISABLED};
};

// Every shared model imports to a graph that verifies, in each type.
TEST_F(ImportGraph, EverySharedModel) {
  for (const char *name :
       {"switch-base-8", "mixtral-8x7b", "qwen1.5-moe-a2.7b", "qwen3-30b-a3b", "olmoe-1b-7b", "deepseek-v2",
        "deepseek-v2-lite", "deepseek-v3", "gpt-oss-20b", "gpt-oss-120b", "gpt2-moe", "gpt3-medium-moe",
        "gpt3-6.7b-moe", "bert-base-moe", "mixtral-8x22b", "qwen3-235b-a22b", "kimi-k2", "glm-4.5", "llama-4-maverick"})
    for (ImportType dtype : {ImportType::f32, ImportType::f64, ImportType::bf16, ImportType::f16}) {
      ImportOptions options;
      options.dtype = dtype;
      options.layers = 2;
      EXPECT_TRUE(getModel(*import(name, options))) << name;
    }
}

// Names, shapes, roles and attributes of a plain capacity-form model. Attributes with their default are left out.
TEST_F(ImportGraph, Switch) {
  ImportOptions options;
  options.batch = 2;
  options.seq = 16;
  options.dataParallel = 3;
  OwningOpRef<ModuleOp> module = import("switch-base-8", options);
  func::FuncOp model = getModel(*module);
  EXPECT_EQ(describeArguments(model),
            (std::vector<std::string>{"x: tensor<96x768xf32>", "layer0.gate: tensor<768x8xf32>",
                                      "layer0.w1: tensor<8x768x3072xf32>", "layer0.w2: tensor<8x3072x768xf32>"}));
  EXPECT_EQ(model.getArgAttrOfType<StringAttr>(0, "moe.role").str(), "input");
  EXPECT_EQ(model.getArgAttrOfType<StringAttr>(1, "moe.role").str(), "parameter");
  EXPECT_EQ(model.getResultAttrOfType<StringAttr>(0, "moe.name").str(), "y");
  EXPECT_EQ(model.getResultAttrOfType<StringAttr>(1, "moe.name").str(), "aux");
  EXPECT_EQ(model.getResultAttrOfType<StringAttr>(1, "moe.role").str(), "output");
  EXPECT_EQ(print(model.getResultTypes()[1]), "tensor<f32>");

  LayerOp layer = *model.getOps<LayerOp>().begin();
  EXPECT_EQ(layer.getLayerName(), "layer0");
  EXPECT_EQ(layer.getTopK(), 1);
  EXPECT_EQ(layer.getActivation(), Activation::relu);
  EXPECT_EQ(layer.getScore(), Score::softmax);
  EXPECT_FALSE(layer.getRenormalize());
  // Each of the six sequences is routed by itself. 64 exceeds its tokens, so none is dropped.
  EXPECT_FALSE(layer.getCapacityFactor());
  EXPECT_EQ(layer.getExpertCapacity(), 64);
  EXPECT_EQ(layer.getGroups(), 6);
  EXPECT_EQ(layer.getCapacity(16), 16);
  std::string location;
  llvm::raw_string_ostream(location) << layer.getLoc();
  EXPECT_NE(location.find("switch-base-8.json\":"), std::string::npos) << location;
}

// All operands of a layer in order, and the attributes of the family that sets most of them.
TEST_F(ImportGraph, ParameterOrder) {
  OwningOpRef<ModuleOp> oss = import("gpt-oss-20b");
  EXPECT_EQ(describeArguments(getModel(*oss)),
            (std::vector<std::string>{"x: tensor<512x2880xf32>", "layer0.gate: tensor<2880x32xf32>",
                                      "layer0.gate_bias: tensor<32xf32>", "layer0.w1: tensor<32x2880x5760xf32>",
                                      "layer0.w2: tensor<32x2880x2880xf32>", "layer0.b1: tensor<32x5760xf32>",
                                      "layer0.b2: tensor<32x2880xf32>"}));
  OwningOpRef<ModuleOp> qwen = import("qwen1.5-moe-a2.7b");
  EXPECT_EQ(describeArguments(getModel(*qwen)),
            (std::vector<std::string>{
                "x: tensor<512x2048xf32>", "layer0.gate: tensor<2048x60xf32>", "layer0.w1: tensor<60x2048x2816xf32>",
                "layer0.w2: tensor<60x1408x2048xf32>", "layer0.shared_w1: tensor<2048x11264xf32>",
                "layer0.shared_w2: tensor<5632x2048xf32>", "layer0.shared_gate: tensor<2048x1xf32>"}));
  OwningOpRef<ModuleOp> deepseek = import("deepseek-v3");
  func::FuncOp model = getModel(*deepseek);
  EXPECT_EQ(describeArguments(model)[2], "layer0.selection_bias: tensor<256xf32>");
  LayerOp layer = *model.getOps<LayerOp>().begin();
  EXPECT_TRUE(layer.getSelectionBias());
  EXPECT_FALSE(layer.getGateBias());
  EXPECT_EQ(layer.getScore(), Score::sigmoid);
  EXPECT_TRUE(layer.getRenormalize());
  EXPECT_EQ(layer.getRoutingScale().convertToDouble(), 2.5);
  EXPECT_EQ(layer.getExpertGroups(), 8);
  EXPECT_EQ(layer.getTopGroups(), 4);
  EXPECT_EQ(layer.getGroupScore(), GroupScore::top2);
  EXPECT_TRUE(layer.isDropless());
}

// Layers follow each other with residuals, and their auxiliary losses are added.
TEST_F(ImportGraph, Layers) {
  ImportOptions options;
  options.layers = 3;
  OwningOpRef<ModuleOp> module = import("mixtral-8x7b", options);
  func::FuncOp model = getModel(*module);
  auto layers = llvm::to_vector(model.getOps<LayerOp>());
  ASSERT_EQ(layers.size(), 3u);
  EXPECT_EQ(layers[2].getLayerName(), "layer2");
  EXPECT_EQ(layers[0].getX(), model.getArgument(0));
  for (int i : {0, 1}) {
    auto residual = layers[i + 1].getX().getDefiningOp<AddOp>();
    ASSERT_TRUE(residual);
    EXPECT_EQ(residual.getLhs(), layers[i].getX());
    EXPECT_EQ(residual.getRhs(), layers[i].getY());
  }
  auto result = cast<func::ReturnOp>(model.getBody().front().getTerminator());
  auto sum = result.getOperand(1).getDefiningOp<AddOp>();
  ASSERT_TRUE(sum);
  EXPECT_EQ(sum.getRhs(), layers[2].getAux());
  EXPECT_EQ(describeArguments(model)[6], "layer1.w2: tensor<8x14336x4096xf32>");
}

// An option replaces the config's token form by either of them.
TEST_F(ImportGraph, TokenForm) {
  ImportOptions dropless;
  dropless.dropless = true;
  dropless.maxLoad = 1.5;
  OwningOpRef<ModuleOp> module = import("switch-base-8", dropless);
  LayerOp layer = *getModel(*module).getOps<LayerOp>().begin();
  EXPECT_TRUE(layer.isDropless());
  EXPECT_EQ(layer.getMaxLoad()->convertToDouble(), 1.5);
  ImportOptions capacity;
  capacity.capacityFactor = 2.0;
  module = import("mixtral-8x7b", capacity);
  layer = *getModel(*module).getOps<LayerOp>().begin();
  EXPECT_EQ(layer.getCapacityFactor()->convertToDouble(), 2.0);
}

// Switch's capacity is that of a sequence of any length. The options replace the capacity, or the groups.
TEST_F(ImportGraph, SwitchCapacity) {
  auto check = [&](std::optional<double> factor, std::optional<int64_t> groups, int64_t wantGroups, int64_t wantTaken) {
    ImportOptions options;
    options.batch = 3;
    options.seq = 200;
    options.dataParallel = 2;
    options.capacityFactor = factor;
    options.groups = groups;
    OwningOpRef<ModuleOp> module = import("switch-base-8", options);
    LayerOp layer = *getModel(*module).getOps<LayerOp>().begin();
    EXPECT_EQ(layer.getGroups(), wantGroups);
    EXPECT_EQ(layer.getCapacity(1200 / wantGroups), wantTaken);
  };
  check(std::nullopt, std::nullopt, 6, 64);
  check(1.0, std::nullopt, 6, 25);
  // The capacity is in proportion: 64 of 200 tokens.
  check(std::nullopt, 6, 6, 64);
  check(std::nullopt, 2, 2, 192);
  check(std::nullopt, 12, 12, 32);
  check(1.0, 2, 2, 75);
}

// Impossible options are refused by name and value.
TEST_F(ImportGraph, BadOptions) {
  auto with = [](auto set) {
    ImportOptions options;
    set(options);
    return options;
  };
  for (int64_t value :
       {int64_t(0), int64_t(-1), std::numeric_limits<int64_t>::min(), std::numeric_limits<int64_t>::max()}) {
    std::string got = "but got " + std::to_string(value);
    std::string batch = errorOf("mixtral-8x7b", with([&](ImportOptions &o) { o.batch = value; }));
    EXPECT_TRUE(llvm::StringRef(batch).starts_with("error: 'batch': expected an integer from 1 to ")) << batch;
    EXPECT_TRUE(llvm::StringRef(batch).ends_with(got)) << batch;
    for (const std::string &error : {errorOf("mixtral-8x7b", with([&](ImportOptions &o) { o.seq = value; })),
                                     errorOf("mixtral-8x7b", with([&](ImportOptions &o) { o.layers = value; })),
                                     errorOf("mixtral-8x7b", with([&](ImportOptions &o) { o.dataParallel = value; }))})
      EXPECT_TRUE(llvm::StringRef(error).ends_with(got)) << error;
  }
  for (double value : {0.0, -1.0, std::nan(""), HUGE_VAL}) {
    EXPECT_NE(errorOf("mixtral-8x7b", with([&](ImportOptions &o) { o.capacityFactor = value; })), "");
    EXPECT_NE(errorOf("mixtral-8x7b", with([&](ImportOptions &o) { o.maxLoad = value; })), "");
  }
  EXPECT_NE(errorOf("mixtral-8x7b", with([](ImportOptions &o) { o.maxLoad = 0.99; })), "");
  EXPECT_NE(errorOf("mixtral-8x7b", with([](ImportOptions &o) { o.batch = o.seq = 1 << 20; })), "");
  EXPECT_EQ(errorOf("mixtral-8x7b", with([](ImportOptions &o) { o.dropless = true, o.capacityFactor = 1.0; })),
            "error: 'capacity-factor' and 'dropless': expected one of them but got both");
  EXPECT_EQ(errorOf("switch-base-8", with([](ImportOptions &o) { o.maxLoad = 2.0; })),
            "error: 'max-load': expected a dropless model but got the expert capacity 64; 'dropless' makes the model "
            "dropless");
}

//===----------------------------------------------------------------------===//
// Whole models
//===----------------------------------------------------------------------===//

ImportOptions getWhole(bool loss = false) {
  ImportOptions options;
  options.seq = 32;
  options.whole = true;
  options.loss = loss;
  return options;
}

int64_t countParameters(func::FuncOp model) {
  int64_t count = 0;
  for (BlockArgument argument : model.getArguments())
    if (model.getArgAttrOfType<StringAttr>(argument.getArgNumber(), "moe.role") == "parameter")
      count += cast<RankedTensorType>(argument.getType()).getNumElements();
  return count;
}

// Whole models verify, with a loss and without, and have as many parameters as their authors say.
TEST_F(ImportGraph, ParameterCounts) {
  struct {
    const char *name;
    int64_t parameters;
  } models[] = {{"mixtral-8x7b", 46702792704},      {"qwen3-30b-a3b", 30532122624},    {"olmoe-1b-7b", 6919161856},
                {"qwen1.5-moe-a2.7b", 14315784192}, {"gpt-oss-20b", 20914757184},      {"gpt-oss-120b", 116829156672},
                {"deepseek-v2", 235741434880},      {"deepseek-v2-lite", 15706484224}, {"deepseek-v3", 671026419200},
                {"mixtral-8x22b", 140620634112},    {"qwen3-235b-a22b", 235093634560}, {"kimi-k2", 1026408232448},
                {"glm-4.5", 352797829024},          {"llama-4-maverick", 400711848960}};
  for (const auto &model : models)
    for (bool loss : {false, true})
      EXPECT_EQ(countParameters(getModel(*import(model.name, getWhole(loss)))), model.parameters) << model.name;
  for (const char *name : {"gpt2-moe", "gpt3-medium-moe", "gpt3-6.7b-moe", "bert-base-moe", "switch-base-8"})
    for (bool loss : {false, true})
      EXPECT_TRUE(getModel(*import(name, getWhole(loss)))) << name;
}

// Every parameter has its source in a checkpoint, and every i32 input its upper bound.
TEST_F(ImportGraph, Sources) {
  for (const char *name : {"mixtral-8x7b", "qwen3-30b-a3b", "olmoe-1b-7b", "qwen1.5-moe-a2.7b", "gpt-oss-20b",
                           "deepseek-v2-lite", "deepseek-v3", "gpt2-moe", "bert-base-moe", "switch-base-8"}) {
    OwningOpRef<ModuleOp> module = import(name, getWhole(/*loss=*/true));
    func::FuncOp model = getModel(*module);
    for (unsigned i = 0; i < model.getNumArguments(); ++i) {
      StringRef role = model.getArgAttrOfType<StringAttr>(i, "moe.role");
      EXPECT_EQ(!!model.getArgAttr(i, "moe.source"), role == "parameter") << name << " " << i;
      EXPECT_EQ(!!model.getArgAttr(i, "moe.below"), role == "input") << name << " " << i;
    }
  }
}

// Only dropout needs a step number, and only in training.
TEST_F(ImportGraph, Dropout) {
  auto getStep = [&](const char *name, bool loss) {
    OwningOpRef<ModuleOp> module = import(name, getWhole(loss));
    unsigned index = loss ? 2 : 1;
    return getModel(*module).getArgAttrOfType<StringAttr>(index, "moe.role") == "step";
  };
  EXPECT_TRUE(getStep("gpt2-moe", true));
  EXPECT_FALSE(getStep("gpt2-moe", false));
  EXPECT_FALSE(getStep("mixtral-8x7b", true));
}

// --layers takes the first blocks. Impossible options are refused.
TEST_F(ImportGraph, WholeModelOptions) {
  ImportOptions options = getWhole();
  options.layers = 4;
  OwningOpRef<ModuleOp> module = import("gpt2-moe", options);
  auto layers = llvm::to_vector(getModel(*module).getOps<LayerOp>());
  ASSERT_EQ(layers.size(), 2u);
  EXPECT_EQ(layers[1].getLayerName(), "layer3");
  EXPECT_EQ(
      std::distance(getModel(*module).getOps<AttentionOp>().begin(), getModel(*module).getOps<AttentionOp>().end()), 4);
  options.layers = 13;
  EXPECT_EQ(errorOf("gpt2-moe", options), "error: 'layers': expected at most the model's 12 but got 13");
  // The first one is dense.
  options.layers = 1;
  module = import("gpt2-moe", options);
  EXPECT_TRUE(getModel(*module).getOps<LayerOp>().empty());
  EXPECT_EQ(getModel(*module).getNumResults(), 1u);
  options.layers = 2;
  options.seq = 1025;
  EXPECT_EQ(errorOf("gpt2-moe", options), "error: 'seq': expected at most the model's 1024 positions but got 1025");
}

// Newer families' additions around their MoE layers. Without them the graph does not change.
class ImportedSpec : public ImportGraph {
protected:
  /// Graph of two blocks of a small Mixtral after `change`, with 8 tokens in a sequence.
  std::string print(llvm::function_ref<void(ModelConfig &)> change, int64_t seq = 8) {
    ModelConfig config = readShared("mixtral-8x7b", /*whole=*/true);
    change(config);
    ImportOptions options;
    options.whole = true;
    options.layers = 2;
    options.seq = seq;
    auto module = importModel(context, config, options);
    if (!module)
      return llvm::toString(module.takeError());
    std::string text;
    llvm::raw_string_ostream(text) << **module;
    return text;
  }
  static size_t count(llvm::StringRef text, llvm::StringRef part) { return text.count(part); }
};

TEST_F(ImportedSpec, Positions) {
  std::string part = print([](ModelConfig &config) {
    config.model->attention.rotary->dim = 64;
    config.model->attention.rotary->interleaved = true;
  });
  EXPECT_EQ(count(part, "head_dim = 128 : i64, interleaved, period = 8 : i64, rotary_dim = 64 : i64"), 4u) << part;
  std::string turns = print([](ModelConfig &config) {
    RotarySpec &rotary = *config.model->attention.rotary;
    rotary.factor = 8, rotary.low = 4, rotary.high = 1, rotary.reach = 8192;
  });
  EXPECT_EQ(count(turns, "period = 8 : i64, reach = 8.192000e+03 : f64, rotary_dim = 128 : i64"), 4u) << turns;
}

// Llama 4: norms without weights behind the positions, blocks without positions whose queries have a temperature
// instead, and attention inside pieces of sequences.
TEST_F(ImportedSpec, BlocksWithoutPositions) {
  auto change = [](ModelConfig &config) {
    AttentionSpec &attention = config.model->attention;
    attention.headNorm = HeadNorm::plain;
    attention.normAfterRotary = true;
    attention.temperature = 0.1;
    attention.temperatureSpan = 8192;
    config.model->blocks[0].chunk = 4;
    config.model->blocks[1].rotary = config.model->blocks[1].headNorm = false;
    config.layer.weighInputs = true;
  };
  std::string text = print(change);
  EXPECT_EQ(count(text, "moe.rotary"), 3u) << text;
  EXPECT_EQ(count(text, "span = 8.192000e+03 : f64, temperature = 1.000000e-01 : f64, unrotated"), 1u);
  EXPECT_EQ(count(text, "= moe.fill "), 2u);
  EXPECT_LT(text.find("moe.rotary"), text.find("= moe.fill "));
  EXPECT_EQ(count(text, "q_norm"), 0u);
  EXPECT_EQ(count(text, "k_length = 4 : i64, q_length = 4 : i64"), 1u);
  EXPECT_EQ(count(text, "k_length = 8 : i64, q_length = 8 : i64"), 1u);
  EXPECT_EQ(count(text, "weigh_inputs"), 2u);
  EXPECT_EQ(count(print(change, 3), "k_length = 3 : i64, q_length = 3 : i64"), 2u);
  EXPECT_EQ(print(change, 6), "error: 'seq': expected at most 4, the tokens that attention sees at once, or a "
                              "multiple of them, but got 6");
}

// DBRX clips the projections, OLMoE after the norms.
TEST_F(ImportedSpec, Clips) {
  for (bool afterNorm : {false, true}) {
    std::string text = print([=](ModelConfig &config) {
      config.model->attention.headNorm = HeadNorm::projection;
      config.model->attention.clip = 8;
      config.model->attention.clipAfterNorm = afterNorm;
    });
    EXPECT_EQ(count(text, "moe.clamp %"), 6u) << text;
    // The values' clamp comes first, then the queries' clamp.
    size_t second = text.find("moe.clamp", text.find("moe.clamp") + 1);
    EXPECT_EQ(text.find("moe.norm", second) < text.find("moe.rotary"), !afterNorm) << text;
  }
}

// Granite's multipliers, and layer norms without a beta.
TEST_F(ImportedSpec, ScalesAndNorms) {
  std::string text = print([](ModelConfig &config) {
    config.model->embeddingScale = 12;
    config.model->residualScale = 0.25;
    config.model->norm = Norm::layer;
    config.model->normBias = false;
  });
  EXPECT_EQ(count(text, "moe.scale %"), 5u) << text;
  EXPECT_EQ(count(text, "factor = 1.200000e+01"), 1u);
  EXPECT_EQ(count(text, "factor = 2.500000e-01"), 4u);
  EXPECT_EQ(count(text, ".beta"), 0u);
  EXPECT_EQ(count(text, "kind = #moe<norm layer>"), 5u);
}

// 32 choices for each token, and a bound on tokens that counts them.
TEST_F(ImportedSpec, ManyChoices) {
  auto change = [](ModelConfig &config) { config.layer.experts = 64, config.layer.topK = 32; };
  EXPECT_EQ(count(print(change), "top_k = 32"), 2u);
  EXPECT_EQ(print(change, 1 << 26),
            "error: 'batch' x 'seq' x data parallel size: expected at most 67108863 tokens but got 1 x "
            "67108864 x 1");
}

} // namespace
