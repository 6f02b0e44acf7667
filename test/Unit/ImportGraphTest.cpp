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

ModelConfig readShared(const std::string &name) {
  std::string path = std::string(MOE_SHARE_DIR) + "/models/" + name + ".json";
  auto file = llvm::MemoryBuffer::getFile(path);
  return llvm::cantFail(parseModelConfig((*file)->getBuffer(), path));
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
    return llvm::cantFail(importModel(context, readShared(name), options));
  }
  std::string errorOf(const std::string &name, const ImportOptions &options) {
    auto module = importModel(context, readShared(name), options);
    return module ? "" : llvm::toString(module.takeError());
  }
  MLIRContext context{MLIRContext::Threading::DISABLED};
};

// Every shared model imports to a graph that verifies, in each type.
TEST_F(ImportGraph, EverySharedModel) {
  for (const char *name : {"switch-base-8", "mixtral-8x7b", "qwen1.5-moe-a2.7b", "qwen3-30b-a3b", "olmoe-1b-7b",
                           "deepseek-v2", "deepseek-v2-lite", "deepseek-v3", "gpt-oss-20b", "gpt-oss-120b"})
    for (ImportType dtype : {ImportType::f32, ImportType::f64, ImportType::bf16}) {
      ImportOptions options;
      options.dtype = dtype;
      options.layers = 2;
      EXPECT_TRUE(getModel(*import(name, options))) << name;
    }
}

// Names, shapes, roles and attributes of a plain capacity-form model; attributes that hold their defaults are left out.
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
  EXPECT_EQ(layer.getCapacityFactor()->convertToDouble(), 1.0);
  EXPECT_EQ(layer.getGroups(), 1);
  std::string location;
  llvm::raw_string_ostream(location) << layer.getLoc();
  EXPECT_NE(location.find("switch-base-8.json\":"), std::string::npos) << location;
}

// Every operand that a layer can have, in order, and the attributes of the family that sets most of them.
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

// The token form of the config can be replaced either way.
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

// Options that make no model are refused by name and value.
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
  EXPECT_EQ(errorOf("switch-base-8", with([](ImportOptions &o) { o.maxLoad = 2.0; })).substr(0, 52),
            "error: 'max-load': expected a dropless model but got");
}

} // namespace
