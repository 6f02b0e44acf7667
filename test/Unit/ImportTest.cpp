//===- ImportTest.cpp - reading Hugging Face configs ----------------------===//
//
// MOE_SHARE_DIR is the source tree's share/.
//
//===----------------------------------------------------------------------===//

#include "moe/Import/ModelConfig.h"
#include "moe/Import/ShareDir.h"

#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/MemoryBuffer.h"

#include <gtest/gtest.h>

#include <algorithm>
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

/// `text` with its one line that holds `key` replaced by `line`, which is indented by two; an empty `line` removes it.
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
      .capacityFactor = 1.0}},
    {"mixtral-8x7b",
     "MixtralForCausalLM",
     {.hidden = 4096, .expertHidden = 14336, .experts = 8, .topK = 2, .renormalize = true}},
    {"qwen1.5-moe-a2.7b",
     "Qwen2MoeForCausalLM",
     {.hidden = 2048, .expertHidden = 1408, .experts = 60, .topK = 4, .sharedHidden = 5632, .sharedGate = true}},
    {"qwen3-30b-a3b",
     "Qwen3MoeForCausalLM",
     {.hidden = 2048, .expertHidden = 768, .experts = 128, .topK = 8, .renormalize = true}},
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
}

// A file cut anywhere is refused with a place in it, and nothing worse.
TEST_P(SharedConfig, CutAnywhereIsAnError) {
  std::string text = llvm::StringRef(readShared(GetParam().name)).rtrim().str();
  for (size_t length = 0; length < text.size(); ++length) {
    std::string error = errorOf(llvm::StringRef(text).take_front(length), /*whole=*/true);
    ASSERT_TRUE(llvm::StringRef(error).starts_with("c.json:")) << length << ": " << error;
  }
}

// Any one byte overwritten is accepted or refused, and nothing worse.
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
  const char *errorKey = nullptr; ///< the key that the error is about, if another
};

void PrintTo(const BadLine &bad, std::ostream *os) { *os << bad.model << ": " << bad.line; }

class BadConfig : public testing::TestWithParam<BadLine> {};

// Each error names the key, its line and column, what was expected and what is there.
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
        BadLine{"qwen3-30b-a3b", "norm_topk_prob", R"("norm_topk_prob": 1)", "expected true or false but got 1"},
        BadLine{"switch-base-8", "dense_act_fn", R"("dense_act_fn": "gelu_new")",
                R"(expected one of "relu", "gelu", "silu" but got "gelu_new")"},
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
        BadLine{"gpt-oss-20b", "swiglu_limit", R"("swiglu_limit": 6.0)", "expected 7.0 but got 6"}));

// A key that is needed and missing is reported at the object's brace.
TEST(ModelConfig, MissingKeys) {
  std::string mixtral = readShared("mixtral-8x7b");
  for (std::string key : {"hidden_size", "intermediate_size", "num_experts_per_tok"})
    EXPECT_EQ(errorOf("\n " + replaceLine(mixtral, key, "")).substr(0, 60),
              ("c.json:2:2: error: '" + key + "': expected an integer from 1 to ").substr(0, 60));
  EXPECT_TRUE(llvm::StringRef(errorOf("{}")).starts_with("c.json:1:1: error: 'architectures': expected one of Switch"));
  EXPECT_TRUE(llvm::StringRef(errorOf("{}")).ends_with("but the key is missing"));
}

// What an optional key's absence means is what the model's code does.
TEST(ModelConfig, Defaults) {
  auto parse = [](const std::string &text) { return llvm::cantFail(parseModelConfig(text, "c.json")).layer; };
  EXPECT_FALSE(parse(replaceLine(readShared("qwen3-30b-a3b"), "norm_topk_prob", "")).renormalize);
  EXPECT_EQ(parse(replaceLine(readShared("switch-base-8"), "num_selected_experts", "")).topK, 1);
  EXPECT_EQ(
      parse(replaceLine(readShared("deepseek-v3"), "n_shared_experts", "\"n_shared_experts\": null")).sharedHidden, 0);
  EXPECT_EQ(parse(replaceLine(readShared("deepseek-v3"), "topk_method", "")).topGroups, 4);
  // DeepSeek-V2 scales or renormalises, never both; V3 does both.
  std::string v2 = replaceLine(readShared("deepseek-v2"), "norm_topk_prob", "\"norm_topk_prob\": true");
  EXPECT_TRUE(parse(v2).renormalize);
  EXPECT_EQ(parse(v2).routingScale, 1.0);
  // One choice alone is not renormalised.
  EXPECT_FALSE(parse(replaceLine(v2, "num_experts_per_tok", "\"num_experts_per_tok\": 1")).renormalize);
  // One group is no groups.
  LayerSpec ungrouped = parse(replaceLine(replaceLine(readShared("deepseek-v3"), "n_group", "\"n_group\": 1"),
                                          "topk_group", "\"topk_group\": 1"));
  EXPECT_EQ(ungrouped.expertGroups, 1);
  EXPECT_EQ(ungrouped.groupScore, GroupScore::max);
}

// The capacity factor of Switch is that of its own sequence length, 512.
TEST(ModelConfig, SwitchCapacity) {
  std::string text = replaceLine(readShared("switch-base-8"), "expert_capacity", "\"expert_capacity\": 80");
  EXPECT_EQ(llvm::cantFail(parseModelConfig(text, "c.json")).layer.capacityFactor, 1.25);
}

// A model that is not known is refused with those that are; `model_type` serves where there are no architectures.
TEST(ModelConfig, Architectures) {
  std::string mixtral = readShared("mixtral-8x7b");
  std::string error = errorOf("{\n\"architectures\": [\"LlamaForCausalLM\"], \"model_type\": \"mixtral\"}");
  EXPECT_TRUE(llvm::StringRef(error).starts_with("c.json:2:1: error: 'architectures': expected one of ")) << error;
  EXPECT_TRUE(llvm::StringRef(error).ends_with("but got [\"LlamaForCausalLM\"]")) << error;
  for (llvm::StringRef name : getKnownArchitectures())
    EXPECT_NE(error.find(name.str()), std::string::npos) << name.str();
  EXPECT_EQ(errorOf(R"({"architectures": "MixtralForCausalLM"})"),
            R"(c.json:1:2: error: 'architectures': expected a list of strings but got "MixtralForCausalLM")");
  std::string unnamed = replaceLine(mixtral, "model_type", "\"model_type\": \"mixtral\"");
  size_t begin = unnamed.find("  \"architectures\""), end = unnamed.find("],", begin) + 3;
  unnamed.erase(begin, end - begin);
  EXPECT_EQ(errorOf(unnamed), "");
  EXPECT_EQ(errorOf(R"({"model_type": "llama"})").substr(0, 61),
            "c.json:1:2: error: 'model_type': expected one of switch_trans");
}

// Syntax errors have the place that the JSON parser found.
TEST(ModelConfig, Syntax) {
  EXPECT_EQ(errorOf("").substr(0, 34), "c.json:1:1: error: expected JSON: ");
  EXPECT_EQ(errorOf("{\n  \"a\" 1}").substr(0, 34), "c.json:2:7: error: expected JSON: ");
  EXPECT_EQ(errorOf(" [1]"), "c.json:1:2: error: expected a JSON object but got [1]");
  EXPECT_EQ(errorOf(std::string(1000000, '[')), "c.json:1:1: error: expected JSON nested at most 64 deep");
}

// Keys inside other values, in strings, and written with escapes do not mislead the places.
TEST(ModelConfig, Places) {
  std::string text = "{\"note\": \"\\\"hidden_size\\\": {\", \"text_config\": {\"hidden_size\": 4},\n"
                     " \"list\": [\"hidden_size\", {}], \"architectures\": [\"MixtralForCausalLM\"],\n"
                     "\t\"hidden\\u005fsize\": 0}";
  EXPECT_EQ(errorOf(text), "c.json:3:2: error: 'hidden_size': expected an integer from 1 to 1048576 but got 0");
}

// A shared file is found by its name, with or without its owner, and an unknown name lists what there is.
TEST(ShareDir, FindsByName) {
  std::string path = std::string(MOE_SHARE_DIR) + "/models/switch-base-8.json";
  for (const char *name :
       {"switch-base-8", "google/switch-base-8", "Switch-Base-8", "switch-base-8.json", path.c_str()})
    EXPECT_EQ(llvm::cantFail(findShareFile("models", name, "")), path) << name;
  for (const char *name : {"", "/", "no-such-model", "."}) {
    llvm::Expected<std::string> found = findShareFile("models", name, "");
    ASSERT_FALSE(static_cast<bool>(found)) << name;
    EXPECT_NE(llvm::toString(found.takeError()).find("mixtral-8x7b"), std::string::npos);
  }
}

} // namespace
