//===- ImportTest.cpp - reading Hugging Face configs ----------------------===//
//
// MOE_SHARE_DIR is the source tree's share/.
//
//===----------------------------------------------------------------------===//

#include "moe/Import/ModelConfig.h"
#include "moe/Support/InputFile.h"

#include "llvm/ADT/SmallString.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/MemoryBuffer.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <ostream>

using namespace mlir::moe;

namespace {

std::string readShared(const std::string &name) {
  auto file = llvm::MemoryBuffer::getFile(std::string(MOE_SHARE_DIR) + "/models/" + name + ".json");
  if (!file) {
    ADD_FAILURE() << name << ": " << file.getError().message();
    return "";
  }
  return (*file)->getBuffer().str();
}

/// The diagnostic for `text`, or "" if it parses.
std::string errorOf(llvm::StringRef text, bool whole = false) {
  llvm::Expected<ModelConfig> config = parseModelConfig(text, "c.json", whole);
  return config ? "" : llvm::toString(config.takeError());
}

/// `text` with its only line that holds `key` replaced by `line`, indented by two. An empty `line` removes it.
std::string replaceLine(const std::string &text, const std::string &key, const std::string &line) {
  std::string out;
  int replaced = 0;
  for (llvm::StringRef old : llvm::split(llvm::StringRef(text).rtrim('\n'), '\n')) {
    if (!old.starts_with("  \"" + key + "\":")) {
      out += old.str() + "\n";
      continue;
    }
    ++replaced;
    if (!line.empty())
      out += "  " + line + (old.ends_with(",") ? ",\n" : "\n");
  }
  EXPECT_EQ(replaced, 1) << key;
  return out;
}

/// The one-based line of `key` in `text`.
std::string lineOf(const std::string &text, const std::string &key) {
  size_t at = text.find("\"" + key + "\"");
  EXPECT_NE(at, std::string::npos) << key;
  return std::to_string(std::count(text.begin(), text.begin() + at, '\n') + 1);
}

struct SharedModel {
  const char *name;
  const char *architecture;
  LayerSpec layer;
};

void PrintTo(const SharedModel &model, std::ostream *os) { *os << model.name; }

class SharedConfig : public testing::TestWithParam<SharedModel> {};

const SharedModel sharedModels[] = {
    {"switch-base-8",
     "SwitchTransformersForConditionalGeneration",
     {.hidden = 768,
      .expertHidden = 3072,
      .experts = 8,
      .topK = 1,
      .activation = Activation::relu,
      .expertCapacity = 64,
      .sequenceGroups = true}},
    {"mixtral-8x7b",
     "MixtralForCausalLM",
     {.hidden = 4096, .expertHidden = 14336, .experts = 8, .topK = 2, .renormalize = true}},
    {"mixtral-8x22b",
     "MixtralForCausalLM",
     {.hidden = 6144, .expertHidden = 16384, .experts = 8, .topK = 2, .renormalize = true}},
    {"qwen1.5-moe-a2.7b",
     "Qwen2MoeForCausalLM",
     {.hidden = 2048, .expertHidden = 1408, .experts = 60, .topK = 4, .sharedHidden = 5632, .sharedGate = true}},
    {"qwen3-30b-a3b",
     "Qwen3MoeForCausalLM",
     {.hidden = 2048, .expertHidden = 768, .experts = 128, .topK = 8, .renormalize = true}},
    {"qwen3-235b-a22b",
     "Qwen3MoeForCausalLM",
     {.hidden = 4096, .expertHidden = 1536, .experts = 128, .topK = 8, .renormalize = true}},
    {"olmoe-1b-7b", "OlmoeForCausalLM", {.hidden = 2048, .expertHidden = 1024, .experts = 64, .topK = 8}},
    {"deepseek-v2",
     "DeepseekV2ForCausalLM",
     {.hidden = 5120,
      .expertHidden = 1536,
      .experts = 160,
      .topK = 6,
      .routingScale = 16.0,
      .expertGroups = 8,
      .topGroups = 3,
      .sharedHidden = 3072}},
    {"deepseek-v2-lite",
     "DeepseekV2ForCausalLM",
     {.hidden = 2048, .expertHidden = 1408, .experts = 64, .topK = 6, .sharedHidden = 2816}},
    {"deepseek-v3",
     "DeepseekV3ForCausalLM",
     {.hidden = 7168,
      .expertHidden = 2048,
      .experts = 256,
      .topK = 8,
      .score = Score::sigmoid,
      .renormalize = true,
      .routingScale = 2.5,
      .expertGroups = 8,
      .topGroups = 4,
      .groupScore = GroupScore::top2,
      .selectionBias = true,
      .sharedHidden = 2048}},
    {"gpt-oss-20b",
     "GptOssForCausalLM",
     {.hidden = 2880,
      .expertHidden = 2880,
      .experts = 32,
      .topK = 4,
      .activation = Activation::swiglu_clamped,
      .renormalize = true,
      .gateBias = true,
      .expertBiases = true}},
    {"gpt-oss-120b",
     "GptOssForCausalLM",
     {.hidden = 2880,
      .expertHidden = 2880,
      .experts = 128,
      .topK = 4,
      .activation = Activation::swiglu_clamped,
      .renormalize = true,
      .gateBias = true,
      .expertBiases = true}},
    {"gpt2-moe",
     "GPT2MoEForCausalLM",
     {.hidden = 768,
      .expertHidden = 3072,
      .experts = 64,
      .topK = 1,
      .activation = Activation::gelu_tanh,
      .expertBiases = true,
      .capacityFactor = 1.25}},
    {"gpt3-6.7b-moe",
     "GPT2MoEForCausalLM",
     {.hidden = 4096,
      .expertHidden = 16384,
      .experts = 64,
      .topK = 1,
      .activation = Activation::gelu_tanh,
      .expertBiases = true,
      .capacityFactor = 1.25}},
    {"kimi-k2",
     "DeepseekV3ForCausalLM",
     {.hidden = 7168,
      .expertHidden = 2048,
      .experts = 384,
      .topK = 8,
      .score = Score::sigmoid,
      .renormalize = true,
      .routingScale = 2.827,
      .selectionBias = true,
      .sharedHidden = 2048}},
    {"moonlight-16b-a3b",
     "DeepseekV3ForCausalLM",
     {.hidden = 2048,
      .expertHidden = 1408,
      .experts = 64,
      .topK = 6,
      .score = Score::sigmoid,
      .renormalize = true,
      .routingScale = 2.446,
      .selectionBias = true,
      .sharedHidden = 2816}},
    {"glm-4.5-air",
     "Glm4MoeForCausalLM",
     {.hidden = 4096,
      .expertHidden = 1408,
      .experts = 128,
      .topK = 8,
      .score = Score::sigmoid,
      .renormalize = true,
      .selectionBias = true,
      .sharedHidden = 1408}},
    {"glm-4.5",
     "Glm4MoeForCausalLM",
     {.hidden = 5120,
      .expertHidden = 1536,
      .experts = 160,
      .topK = 8,
      .score = Score::sigmoid,
      .renormalize = true,
      .routingScale = 2.5,
      .selectionBias = true,
      .sharedHidden = 1536}},
    {"dots.llm1",
     "Dots1ForCausalLM",
     {.hidden = 4096,
      .expertHidden = 1408,
      .experts = 128,
      .topK = 6,
      .score = Score::sigmoid,
      .renormalize = true,
      .routingScale = 2.5,
      .selectionBias = true,
      .sharedHidden = 2816}},
    {"minimax-m2",
     "MiniMaxM2ForCausalLM",
     {.hidden = 3072,
      .expertHidden = 1536,
      .experts = 256,
      .topK = 8,
      .score = Score::sigmoid,
      .renormalize = true,
      .selectionBias = true}},
    {"ernie-4.5-21b-a3b",
     "Ernie4_5_MoeForCausalLM",
     {.hidden = 2560,
      .expertHidden = 1536,
      .experts = 64,
      .topK = 6,
      .renormalize = true,
      .selectionBias = true,
      .sharedHidden = 3072}},
    {"hunyuan-a13b",
     "HunYuanMoEV1ForCausalLM",
     {.hidden = 4096, .expertHidden = 3072, .experts = 64, .topK = 8, .renormalize = true, .sharedHidden = 3072}},
    {"granite-3.0-3b-a800m",
     "GraniteMoeForCausalLM",
     {.hidden = 1536, .expertHidden = 512, .experts = 40, .topK = 8, .renormalize = true}},
    {"llama-4-scout",
     "Llama4ForConditionalGeneration",
     {.hidden = 5120,
      .expertHidden = 8192,
      .experts = 16,
      .topK = 1,
      .score = Score::sigmoid,
      .weighInputs = true,
      .sharedHidden = 8192}},
    {"llama-4-maverick",
     "Llama4ForConditionalGeneration",
     {.hidden = 5120,
      .expertHidden = 8192,
      .experts = 128,
      .topK = 1,
      .score = Score::sigmoid,
      .weighInputs = true,
      .sharedHidden = 8192}},
    {"qwen3-vl-30b-a3b",
     "Qwen3VLMoeForConditionalGeneration",
     {.hidden = 2048, .expertHidden = 768, .experts = 128, .topK = 8, .renormalize = true}},
    {"qwen3-next-80b-a3b",
     "Qwen3NextForCausalLM",
     {.hidden = 2048,
      .expertHidden = 512,
      .experts = 512,
      .topK = 10,
      .renormalize = true,
      .sharedHidden = 512,
      .sharedGate = true}},
    {"dbrx", "DbrxForCausalLM", {.hidden = 6144, .expertHidden = 10752, .experts = 16, .topK = 4, .renormalize = true}},
    {"bert-base-moe",
     "BertMoEForMaskedLM",
     {.hidden = 768,
      .expertHidden = 3072,
      .experts = 64,
      .topK = 1,
      .activation = Activation::gelu,
      .expertBiases = true,
      .capacityFactor = 1.25}},
};

// Each shared config is the layer that its model's paper and code describe.
TEST_P(SharedConfig, IsTheLayerOfItsModel) {
  std::string text = readShared(GetParam().name);
  llvm::Expected<ModelConfig> config = parseModelConfig(text, "c.json");
  ASSERT_TRUE(static_cast<bool>(config)) << llvm::toString(config.takeError());
  EXPECT_EQ(config->architecture, GetParam().architecture);
  EXPECT_EQ(config->fileName, "c.json");
  const LayerSpec &got = config->layer, &want = GetParam().layer;
  EXPECT_EQ(got.hidden, want.hidden);
  EXPECT_EQ(got.expertHidden, want.expertHidden);
  EXPECT_EQ(got.experts, want.experts);
  EXPECT_EQ(got.topK, want.topK);
  EXPECT_EQ(got.activation, want.activation);
  EXPECT_EQ(got.score, want.score);
  EXPECT_EQ(got.renormalize, want.renormalize);
  EXPECT_EQ(got.routingScale, want.routingScale);
  EXPECT_EQ(got.expertGroups, want.expertGroups);
  EXPECT_EQ(got.topGroups, want.topGroups);
  EXPECT_EQ(got.groupScore, want.groupScore);
  EXPECT_EQ(got.gateBias, want.gateBias);
  EXPECT_EQ(got.selectionBias, want.selectionBias);
  EXPECT_EQ(got.expertBiases, want.expertBiases);
  EXPECT_EQ(got.sharedHidden, want.sharedHidden);
  EXPECT_EQ(got.sharedGate, want.sharedGate);
  EXPECT_EQ(got.capacityFactor, want.capacityFactor);
  EXPECT_EQ(got.expertCapacity, want.expertCapacity);
  EXPECT_EQ(got.sequenceGroups, want.sequenceGroups);
}

// A file that is truncated anywhere is refused with a place in it.
TEST_P(SharedConfig, CutAnywhereIsAnError) {
  std::string text = llvm::StringRef(readShared(GetParam().name)).rtrim().str();
  for (size_t length = 0; length < text.size(); ++length) {
    std::string error = errorOf(llvm::StringRef(text).take_front(length), /*whole=*/true);
    ASSERT_TRUE(llvm::StringRef(error).starts_with("c.json:")) << length << ": " << error;
  }
}

// A file with any one byte overwritten is accepted or refused.
TEST_P(SharedConfig, AnyByteOverwrittenIsHandled) {
  std::string text = readShared(GetParam().name);
  for (char byte : {'"', '{', ']', '\\', '-', '9', '\xff', '\0'})
    for (size_t i = 0; i < text.size(); i += 3) {
      std::string changed = text;
      changed[i] = byte;
      std::string error = errorOf(changed, /*whole=*/true);
      ASSERT_TRUE(error.empty() || llvm::StringRef(error).starts_with("c.json:")) << i << ": " << error;
    }
}

INSTANTIATE_TEST_SUITE_P(Share, SharedConfig, testing::ValuesIn(sharedModels), [](const auto &info) {
  std::string name = info.param.name;
  for (char &c : name)
    c = llvm::isAlnum(c) ? c : '_';
  return name;
});

struct BadLine {
  const char *model;
  const char *key;
  const char *line; ///< replaces the line of `key`
  const char *error;
  const char *errorKey = nullptr; ///< key in the error, if it is another one
};

void PrintTo(const BadLine &bad, std::ostream *os) { *os << bad.model << ": " << bad.line; }

class BadConfig : public testing::TestWithParam<BadLine> {};

// Each error names the key, its line and column, the expected value and the given one.
TEST_P(BadConfig, IsRefusedWithItsPlace) {
  std::string text = replaceLine(readShared(GetParam().model), GetParam().key, GetParam().line);
  const char *key = GetParam().errorKey ? GetParam().errorKey : GetParam().key;
  EXPECT_EQ(errorOf(text), "c.json:" + lineOf(text, key) + ":3: error: '" + key + "': " + GetParam().error);
}

INSTANTIATE_TEST_SUITE_P(
    Lines, BadConfig,
    testing::Values(
        BadLine{"mixtral-8x7b", "hidden_size", R"("hidden_size": "big")",
                R"(expected an integer from 1 to 1048576 but got "big")"},
        BadLine{"mixtral-8x7b", "hidden_size", R"("hidden_size": -1)",
                "expected an integer from 1 to 1048576 but got -1"},
        BadLine{"mixtral-8x7b", "hidden_size", R"("hidden_size": 1.5)",
                "expected an integer from 1 to 1048576 but got 1.5"},
        BadLine{"mixtral-8x7b", "hidden_size", R"("hidden_size": null)",
                "expected an integer from 1 to 1048576 but got null"},
        BadLine{"mixtral-8x7b", "hidden_size", R"("hidden_size": 99999999999999999999)",
                "expected an integer from 1 to 1048576 but got 1e+20"},
        BadLine{"mixtral-8x7b", "num_local_experts", R"("num_local_experts": 0)",
                "expected an integer from 1 to 65536 but got 0"},
        BadLine{"mixtral-8x7b", "num_experts_per_tok", R"("num_experts_per_tok": 9)",
                "expected an integer from 1 to 8 but got 9"},
        BadLine{"mixtral-8x7b", "hidden_act", R"("hidden_act": "gelu")",
                R"(expected one of "silu", "swish" but got "gelu")"},
        BadLine{"qwen3-30b-a3b", "num_experts_per_tok", R"("num_experts_per_tok": 33)",
                "expected at most 32, MoePlan's limit, but got 33"},
        BadLine{"qwen3-30b-a3b", "norm_topk_prob", R"("norm_topk_prob": 1)", "expected true or false but got 1"},
        BadLine{"switch-base-8", "dense_act_fn", R"("dense_act_fn": "tanh")",
                R"(expected one of "gelu", "gelu_new", "gelu_pytorch_tanh", "relu", "silu" but got "tanh")"},
        BadLine{"switch-base-8", "dense_act_fn", R"("dense_act_fn": "gelu")",
                R"(expected the value of 'dense_act_fn', "gelu", but got "relu")", "feed_forward_proj"},
        BadLine{"switch-base-8", "is_gated_act", R"("is_gated_act": true)", "expected false but got true"},
        BadLine{"switch-base-8", "expert_capacity", R"("expert_capacity": 0)",
                "expected an integer from 1 to 1048576 but got 0"},
        BadLine{"deepseek-v2", "scoring_func", R"("scoring_func": "sigmoid")",
                R"(expected "softmax" but got "sigmoid")"},
        BadLine{"deepseek-v2", "topk_method", R"("topk_method": "noaux_tc")",
                R"(expected one of "greedy", "group_limited_greedy" but got "noaux_tc")"},
        BadLine{"deepseek-v2", "n_group", R"("n_group": 7)",
                "expected a divisor of 'n_routed_experts', 160, but got 7"},
        BadLine{"deepseek-v2", "topk_group", R"("topk_group": 9)", "expected an integer from 1 to 8 but got 9"},
        BadLine{"deepseek-v2", "routed_scaling_factor", R"("routed_scaling_factor": 0)",
                "expected a number greater than 0 but got 0"},
        BadLine{"deepseek-v2", "routed_scaling_factor", R"("routed_scaling_factor": 1e999)",
                "expected a number greater than 0 but got inf"},
        BadLine{"deepseek-v3", "scoring_func", R"("scoring_func": "softmax")",
                R"(expected "sigmoid" but got "softmax")"},
        BadLine{"deepseek-v3", "n_group", R"("n_group": 256)",
                "expected groups of at least 2 of 256 experts but got 256"},
        BadLine{"deepseek-v2", "n_group", R"("n_group": 160)",
                "expected groups of 1 experts that hold 'num_experts_per_tok', 6, together but got 3", "topk_group"},
        // transformers ignores a key that DeepSeek's own code does not ignore.
        BadLine{"deepseek-v2", "norm_topk_prob", R"("norm_topk_prob": true)", "expected false but got true"},
        BadLine{"switch-base-8", "num_selected_experts", R"("num_selected_experts": 2)", "expected 1 but got 2"},
        BadLine{"gpt-oss-20b", "swiglu_limit", R"("swiglu_limit": 0)", "expected a number greater than 0 but got 0"}));

// A missing key without a default is reported at the object's brace.
TEST(ModelConfig, MissingKeys) {
  std::string mixtral = readShared("mixtral-8x7b");
  // These keys have the defaults of transformers' class, which must also fit.
  EXPECT_EQ(errorOf(replaceLine(mixtral, "num_experts_per_tok", "")), "");
  std::string small = replaceLine(mixtral, "num_local_experts", "\"num_local_experts\": 1");
  EXPECT_EQ(errorOf("\n " + replaceLine(small, "num_experts_per_tok", "")),
            "c.json:2:2: error: 'num_experts_per_tok': expected 1 but got 2, the default of a missing key");
  EXPECT_EQ(errorOf("\n " + replaceLine(readShared("gpt2-moe"), "num_experts", "")),
            "c.json:2:2: error: 'num_experts': expected an integer from 1 to 65536 but the key is missing");
  EXPECT_TRUE(llvm::StringRef(errorOf("{}")).starts_with("c.json:1:1: error: 'architectures': expected a name that"));
  EXPECT_TRUE(llvm::StringRef(errorOf("{}")).ends_with("but the key is missing"));
}

// A missing optional key means what the model's code does.
TEST(ModelConfig, Defaults) {
  auto parse = [](const std::string &text) { return llvm::cantFail(parseModelConfig(text, "c.json")).layer; };
  EXPECT_FALSE(parse(replaceLine(readShared("qwen3-30b-a3b"), "norm_topk_prob", "")).renormalize);
  EXPECT_EQ(parse(replaceLine(readShared("switch-base-8"), "num_selected_experts", "")).topK, 1);
  EXPECT_EQ(
      parse(replaceLine(readShared("deepseek-v3"), "n_shared_experts", "\"n_shared_experts\": null")).sharedHidden, 0);
  EXPECT_EQ(parse(replaceLine(readShared("deepseek-v3"), "topk_method", "")).topGroups, 4);
  EXPECT_EQ(parse(replaceLine(readShared("deepseek-v3"), "n_shared_experts", "")).sharedHidden, 2048);
  EXPECT_EQ(parse(replaceLine(readShared("deepseek-v2"), "n_shared_experts", "")).sharedHidden, 2 * 1536);
  // DeepSeek-V3 renormalises even a single choice, as transformers does.
  EXPECT_TRUE(
      parse(replaceLine(readShared("deepseek-v3"), "num_experts_per_tok", "\"num_experts_per_tok\": 1")).renormalize);
  // gpt-oss' activation has a slope and a bound.
  EXPECT_EQ(parse(readShared("gpt-oss-20b")).activationAlpha, 1.702);
  LayerSpec clamped =
      parse(replaceLine(readShared("gpt-oss-20b"), "swiglu_limit", "\"swiglu_limit\": 5, \"swiglu_alpha\": 2"));
  EXPECT_EQ(clamped.activationAlpha, 2);
  EXPECT_EQ(clamped.activationLimit, 5);
  // One group has no effect.
  LayerSpec ungrouped = parse(replaceLine(replaceLine(readShared("deepseek-v3"), "n_group", "\"n_group\": 1"),
                                          "topk_group", "\"topk_group\": 1"));
  EXPECT_EQ(ungrouped.expertGroups, 1);
  EXPECT_EQ(ungrouped.groupScore, GroupScore::max);
}

// An unknown model is refused with the list of known ones. `model_type` is used if there are no architectures.
TEST(ModelConfig, Architectures) {
  std::string mixtral = readShared("mixtral-8x7b");
  EXPECT_EQ(errorOf("{\n\"architectures\": [\"Qwen3MoEForCausalLM\"], \"model_type\": \"mixtral\"}"),
            "c.json:2:1: error: 'architectures': expected a name that docs/Models.md lists, of which "
            "\"Qwen3MoeForCausalLM\" is the most similar, but got [\"Qwen3MoEForCausalLM\"]");
  EXPECT_EQ(errorOf(R"({"architectures": "MixtralForCausalLM"})"),
            R"(c.json:1:2: error: 'architectures': expected a list of strings but got "MixtralForCausalLM")");
  std::string unnamed = replaceLine(mixtral, "model_type", "\"model_type\": \"mixtral\"");
  size_t begin = unnamed.find("  \"architectures\""), end = unnamed.find("],", begin) + 3;
  unnamed.erase(begin, end - begin);
  EXPECT_EQ(errorOf(unnamed), "");
  EXPECT_EQ(errorOf(R"({"model_type": "mixtrall"})"),
            "c.json:1:2: error: 'model_type': expected a name that docs/Models.md lists, of which \"mixtral\" is "
            "the most similar, but got \"mixtrall\"");
}

// The page in the error lists every architecture.
TEST(ModelConfig, PageListsAll) {
  auto page = llvm::MemoryBuffer::getFile(std::string(MOE_SHARE_DIR) + "/../docs/Models.md");
  ASSERT_TRUE(static_cast<bool>(page));
  for (llvm::StringRef name : getKnownArchitectures())
    EXPECT_TRUE((*page)->getBuffer().contains("`" + name.str() + "`")) << name.str();
}

// Features of a family that MoePlan lacks are refused by name.
TEST(ModelConfig, Missing) {
  auto expectError = [](const std::string &error, llvm::StringRef begin) {
    EXPECT_TRUE(llvm::StringRef(error).starts_with(begin)) << error;
  };
  std::string next = readShared("qwen3-next-80b-a3b");
  EXPECT_EQ(errorOf(next), "");
  expectError(
      errorOf(next, /*whole=*/true),
      "c.json:2:3: error: 'architectures': expected to be used for MoE layers only, without --whole-model, since "
      "MoePlan does not have linear attention");
  expectError(
      errorOf(R"({"architectures": ["PhiMoEForCausalLM"]})"),
      "c.json:1:2: error: 'architectures': expected another model, since MoePlan does not have the routing of Phi");
  expectError(
      errorOf(readShared("llama-3.1-8b")),
      "c.json:2:3: error: 'architectures': expected a model with experts, or --whole-model for one without, but");
}

// A list with the same number for each block is accepted as one number.
TEST(ModelConfig, UniformLists) {
  std::string text = R"({"architectures": ["HunYuanMoEV1ForCausalLM"], "moe_topk": [2, LAST], "num_experts": 8,
                         "hidden_size": 8, "intermediate_size": 4})";
  auto with = [&](const char *last) {
    return text.substr(0, text.find("LAST")) + last + text.substr(text.find("LAST") + 4);
  };
  EXPECT_EQ(llvm::cantFail(parseModelConfig(with("2"), "c.json")).layer.topK, 2);
  EXPECT_NE(errorOf(with("3")).find("'moe_topk': expected the same number for all blocks"), std::string::npos);
}

// Syntax errors have the place that the JSON parser found.
TEST(ModelConfig, Syntax) {
  EXPECT_EQ(errorOf("").substr(0, 34), "c.json:1:1: error: expected JSON: ");
  EXPECT_EQ(errorOf("{\n  \"a\" 1}").substr(0, 34), "c.json:2:7: error: expected JSON: ");
  EXPECT_EQ(errorOf(" [1]"), "c.json:1:2: error: expected a JSON object but got [1]");
  EXPECT_EQ(errorOf(std::string(1000000, '[')), "c.json:1:1: error: expected JSON nested at most 64 deep");
}

// Keys inside other values, in strings, and written with escapes do not affect the places.
TEST(ModelConfig, Places) {
  std::string text = "{\"note\": \"\\\"hidden_size\\\": {\", \"vision_config\": {\"hidden_size\": 4},\n"
                     " \"list\": [\"hidden_size\", {}], \"architectures\": [\"MixtralForCausalLM\"],\n"
                     "\t\"hidden\\u005fsize\": 0}";
  EXPECT_EQ(errorOf(text), "c.json:3:2: error: 'hidden_size': expected an integer from 1 to 1048576 but got 0");
}

// A model of any family may be the text model of a multimodal configuration.
TEST(ModelConfig, NestedText) {
  std::string text = "{\"architectures\": [\"MixtralForCausalLM\"], \"hidden_size\": 8, \"text_config\": " +
                     readShared("mixtral-8x7b") + "}";
  EXPECT_EQ(llvm::cantFail(parseModelConfig(text, "c.json", /*whole=*/false)).layer.hidden, 4096);
}

// A shared file is found by its name alone. The error for another path lists all names.
TEST(ShareDir, FindsByName) {
  std::string path = std::string(MOE_SHARE_DIR) + "/models/switch-base-8.json";
  for (const char *name : {"switch-base-8", "Switch-Base-8", "switch-base-8.json", path.c_str()})
    EXPECT_EQ(llvm::cantFail(findShareFile("models", name)), path) << name;
  for (const char *name :
       {"", "/", "no-such-model", ".", "google/switch-base-8", "/nonexistent/switch-base-8.json", MOE_SHARE_DIR}) {
    llvm::Expected<std::string> found = findShareFile("models", name);
    ASSERT_FALSE(static_cast<bool>(found)) << name;
    EXPECT_NE(llvm::toString(found.takeError()).find("mixtral-8x7b"), std::string::npos);
  }
  EXPECT_FALSE(llvm::expectedToOptional(findShareFile("clusters", "mine/hgx-h100.json")));
}

// A folder with a config.json, as transformers saves one, is a model even if a shared model has its name.
TEST(ShareDir, ReadsFolders) {
  llvm::SmallString<128> folder;
  ASSERT_FALSE(llvm::sys::fs::createUniqueDirectory("moeplan", folder));
  std::string model = (folder + "/switch-base-8").str(), config = model + "/config.json";
  ASSERT_FALSE(llvm::sys::fs::create_directory(model));
  EXPECT_FALSE(llvm::expectedToOptional(findShareFile("models", model)));
  std::ofstream(config) << "{}";
  EXPECT_EQ(llvm::cantFail(findShareFile("models", model)), config);
  EXPECT_FALSE(llvm::expectedToOptional(findShareFile("clusters", model)));
  llvm::sys::fs::remove_directories(folder);
}

} // namespace
