//===- ModelSpecTest.cpp - reading whole models from configs --------------===//
//
// MOE_SHARE_DIR is the source tree's share/.
//
//===----------------------------------------------------------------------===//

#include "moe/Import/ModelConfig.h"

#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/JSON.h"
#include "llvm/Support/MemoryBuffer.h"

#include <gtest/gtest.h>

#include <cmath>

using namespace mlir::moe;
namespace json = llvm::json;

namespace {

json::Object readShared(const std::string &name) {
  std::string path = std::string(MOE_SHARE_DIR) + "/models/" + name + ".json";
  return *llvm::cantFail(json::parse((*llvm::MemoryBuffer::getFile(path))->getBuffer())).getAsObject();
}

/// Built anew: copies of an object that something was erased from are broken in LLVM 19.
json::Object readWithout(const std::string &name, std::initializer_list<llvm::StringRef> keys) {
  json::Object config;
  for (const auto &[key, value] : readShared(name))
    if (!llvm::is_contained(keys, llvm::StringRef(key)))
      config[key] = value;
  return config;
}

std::string print(const json::Object &config) { return llvm::formatv("{0}", json::Value(json::Object(config))).str(); }

ModelSpec parse(const json::Object &config) {
  return *llvm::cantFail(parseModelConfig(print(config), "c.json", /*whole=*/true)).model;
}

/// The error for a shared config with `key` set to `value`, null for none, without its place.
std::string errorWith(const std::string &name, const char *key, json::Value value) {
  json::Object config = readShared(name);
  config[key] = std::move(value);
  auto parsed = parseModelConfig(print(config), "c.json", /*whole=*/true);
  if (parsed)
    return "";
  std::string error = llvm::toString(parsed.takeError());
  return error.substr(error.find("error: ") + 7);
}

size_t countMoe(const ModelSpec &model) {
  return llvm::count_if(model.blocks, [](const BlockSpec &block) { return block.isMoe; });
}

// Llama's block with grouped key heads and nothing else.
TEST(ModelSpec, Mixtral) {
  ModelSpec model = parse(readShared("mixtral-8x7b"));
  EXPECT_EQ(model.vocabulary, 32000);
  EXPECT_EQ(model.blocks.size(), 32u);
  EXPECT_EQ(countMoe(model), 32u);
  EXPECT_EQ(model.blocks[0].window, 0);
  EXPECT_EQ(model.norm, Norm::rms);
  EXPECT_EQ(model.eps, 1e-5);
  EXPECT_FALSE(model.tiedHead || model.postNorm || model.embeddingNorm || model.headBias || model.headTransform);
  EXPECT_EQ(model.learnedPositions, 0);
  EXPECT_EQ(model.auxCoefficient, 0.02);
  const AttentionSpec &attention = model.attention;
  EXPECT_EQ(attention.heads, 32);
  EXPECT_EQ(attention.keyHeads, 8);
  EXPECT_EQ(attention.headDim, 128);
  EXPECT_TRUE(attention.causal);
  EXPECT_FALSE(attention.inputBiases || attention.outputBias || attention.sinks);
  EXPECT_EQ(attention.headNorm, HeadNorm::none);
  EXPECT_EQ(attention.rotary->base, 1e6);
  EXPECT_EQ(attention.rotary->factor, 1);

  json::Object config = readShared("mixtral-8x7b");
  config["sliding_window"] = 4096;
  config["attention_dropout"] = 0.25;
  ModelSpec other = parse(config);
  EXPECT_EQ(other.blocks[31].window, 4096);
  EXPECT_EQ(other.dropout.attention, 0.25);
}

// Heads larger than their share of the hidden columns, a norm for each, and dense blocks by two keys.
TEST(ModelSpec, Qwen) {
  ModelSpec qwen3 = parse(readShared("qwen3-30b-a3b"));
  EXPECT_EQ(qwen3.attention.headDim, 128);
  EXPECT_EQ(qwen3.attention.heads, 32);
  EXPECT_EQ(qwen3.attention.keyHeads, 4);
  EXPECT_EQ(qwen3.attention.headNorm, HeadNorm::head);
  EXPECT_FALSE(qwen3.attention.inputBiases);
  EXPECT_EQ(countMoe(qwen3), 48u);

  json::Object config = readShared("qwen3-30b-a3b");
  config["decoder_sparse_step"] = 2;
  config["mlp_only_layers"] = json::Array{1};
  ModelSpec sparse = parse(config);
  EXPECT_FALSE(sparse.blocks[0].isMoe || sparse.blocks[1].isMoe || sparse.blocks[2].isMoe);
  EXPECT_TRUE(sparse.blocks[3].isMoe);
  EXPECT_EQ(countMoe(sparse), 23u);
  EXPECT_EQ(sparse.denseHidden, 6144);
  EXPECT_EQ(sparse.denseActivation, Activation::swiglu);

  ModelSpec qwen2 = parse(readShared("qwen1.5-moe-a2.7b"));
  EXPECT_TRUE(qwen2.attention.inputBiases);
  EXPECT_FALSE(qwen2.attention.outputBias);
  EXPECT_EQ(qwen2.attention.headNorm, HeadNorm::none);
}

// One norm over all queries; the newer place of the base of rotary positions.
TEST(ModelSpec, Olmoe) {
  json::Object config = readShared("olmoe-1b-7b");
  EXPECT_EQ(parse(config).attention.headNorm, HeadNorm::projection);
  EXPECT_EQ(parse(config).attention.rotary->base, 1e4);
  config["rope_parameters"] = json::Object{{"rope_type", "default"}, {"rope_theta", 5e5}};
  EXPECT_EQ(parse(config).attention.rotary->base, 5e5);
}

// transformers 5 writes a name of its own for the number of experts.
TEST(ModelSpec, NewerName) {
  json::Object config = readShared("qwen3-30b-a3b");
  config["num_local_experts"] = *config.getInteger("num_experts");
  config["num_experts"] = nullptr;
  EXPECT_EQ(countMoe(parse(config)), 48u);
}

// Sinks, biases, alternate windows, and YaRN's bounds computed by hand.
TEST(ModelSpec, GptOss) {
  ModelSpec model = parse(readShared("gpt-oss-20b"));
  const AttentionSpec &attention = model.attention;
  EXPECT_TRUE(attention.sinks && attention.inputBiases && attention.outputBias);
  EXPECT_EQ(model.blocks[0].window, 128);
  EXPECT_EQ(model.blocks[1].window, 0);
  EXPECT_EQ(model.blocks[22].window, 128);
  EXPECT_EQ(attention.rotary->base, 150000);
  EXPECT_EQ(attention.rotary->factor, 32);
  // 64 ln(4096 / (2 pi 32)) / (2 ln 150000), and with one rotation in place of 32.
  EXPECT_NEAR(attention.rotary->low, 8.0927791, 1e-6);
  EXPECT_NEAR(attention.rotary->high, 17.3980245, 1e-6);
  EXPECT_NEAR(attention.rotary->scale, 1 + 0.1 * std::log(32.0), 1e-12);

  // Without the list of types the first block slides; with `truncate` bounds are whole.
  json::Object config = readShared("gpt-oss-20b");
  config["layer_types"] = nullptr;
  (*config["rope_scaling"].getAsObject())["truncate"] = nullptr;
  ModelSpec other = parse(config);
  EXPECT_EQ(other.blocks[0].window, 128);
  EXPECT_EQ(other.blocks[1].window, 0);
  EXPECT_EQ(other.attention.rotary->low, 8);
  EXPECT_EQ(other.attention.rotary->high, 18);
}

TEST(ModelSpec, Gpt2) {
  ModelSpec model = parse(readShared("gpt3-medium-moe"));
  EXPECT_EQ(model.blocks.size(), 24u);
  EXPECT_EQ(countMoe(model), 12u);
  EXPECT_FALSE(model.blocks[0].isMoe);
  EXPECT_TRUE(model.blocks[1].isMoe);
  EXPECT_EQ(model.vocabulary, 51200);
  EXPECT_EQ(model.learnedPositions, 2048);
  EXPECT_EQ(model.tokenTypes, 0);
  EXPECT_EQ(model.norm, Norm::layer);
  EXPECT_TRUE(model.tiedHead && model.denseBiases && model.attention.inputBiases && model.attention.outputBias);
  EXPECT_FALSE(model.attention.rotary || model.postNorm);
  EXPECT_EQ(model.denseHidden, 4096);
  EXPECT_EQ(model.denseActivation, Activation::gelu_tanh);
  EXPECT_EQ(model.attention.headDim, 64);
  EXPECT_EQ(model.dropout.embedding, 0.1);
  EXPECT_EQ(model.dropout.residual, 0.1);
}

TEST(ModelSpec, Bert) {
  ModelSpec model = parse(readShared("bert-base-moe"));
  EXPECT_EQ(countMoe(model), 6u);
  EXPECT_TRUE(model.postNorm && model.embeddingNorm && model.headTransform && model.headBias && model.tiedHead);
  EXPECT_FALSE(model.attention.causal);
  EXPECT_EQ(model.tokenTypes, 2);
  EXPECT_EQ(model.learnedPositions, 512);
  EXPECT_EQ(model.denseActivation, Activation::gelu);
  EXPECT_EQ(model.eps, 1e-12);
}

// Latent attention, YaRN's scale of products, dense blocks before and between MoE ones.
TEST(ModelSpec, Deepseek) {
  ModelSpec model = parse(readShared("deepseek-v3"));
  const AttentionSpec &attention = model.attention;
  EXPECT_EQ(attention.heads, 128);
  EXPECT_EQ(attention.keyHeads, 128);
  EXPECT_EQ(attention.headDim, 192);
  EXPECT_EQ(attention.latent->queryRank, 1536);
  EXPECT_EQ(attention.latent->rank, 512);
  EXPECT_EQ(attention.latent->plainDim, 128);
  EXPECT_EQ(attention.latent->rotaryDim, 64);
  EXPECT_EQ(attention.latent->valueDim, 128);
  EXPECT_EQ(attention.latent->eps, 1e-6);
  EXPECT_TRUE(attention.latent->interleaved);
  EXPECT_FALSE(attention.inputBiases || attention.outputBias || model.tiedHead);
  // 64 ln(4096 / (2 pi 32)) / (2 ln 10000), and with one rotation in place of 32.
  EXPECT_EQ(attention.rotary->low, 10);
  EXPECT_EQ(attention.rotary->high, 23);
  EXPECT_EQ(attention.rotary->scale, 1);
  EXPECT_NEAR(attention.scale, std::pow(1 + 0.1 * std::log(40.0), 2) / std::sqrt(192.0), 1e-15);
  EXPECT_EQ(countMoe(model), 58u);
  EXPECT_FALSE(model.blocks[2].isMoe);
  EXPECT_EQ(model.denseHidden, 18432);
  EXPECT_EQ(model.auxCoefficient, 0);

  ModelSpec lite = parse(readShared("deepseek-v2-lite"));
  EXPECT_EQ(lite.attention.latent->queryRank, 0);
  EXPECT_NEAR(lite.attention.scale, std::pow(1 + 0.0707 * std::log(40.0), 2) / std::sqrt(192.0), 1e-15);
  EXPECT_EQ(lite.auxCoefficient, 0.001);
  EXPECT_EQ(countMoe(lite), 26u);

  // Without the keys; a config that transformers 5 has written.
  json::Object config = readWithout("deepseek-v3", {"q_lora_rank", "kv_lora_rank", "qk_rope_head_dim", "v_head_dim",
                                                    "first_k_dense_replace", "num_key_value_heads", "rope_scaling"});
  config["moe_layer_freq"] = 2;
  config["rope_interleave"] = false;
  config["attention_bias"] = true;
  config["rope_parameters"] = json::Object{
      {"rope_type", "yarn"}, {"rope_theta", 5e5}, {"factor", 40}, {"mscale", 1.0}, {"mscale_all_dim", 0.5}};
  ModelSpec other = parse(config);
  EXPECT_EQ(other.attention.latent->queryRank, 1536);
  EXPECT_EQ(other.attention.rotary->base, 5e5);
  EXPECT_NEAR(other.attention.rotary->scale, (1 + 0.1 * std::log(40.0)) / (1 + 0.05 * std::log(40.0)), 1e-15);
  EXPECT_NEAR(other.attention.scale, std::pow(1 + 0.05 * std::log(40.0), 2) / std::sqrt(192.0), 1e-15);
  EXPECT_FALSE(other.attention.latent->interleaved);
  EXPECT_TRUE(other.attention.inputBiases && other.attention.outputBias);
  EXPECT_FALSE(other.blocks[2].isMoe || other.blocks[3].isMoe || other.blocks[5].isMoe);
  EXPECT_TRUE(other.blocks[4].isMoe);
}

// Two stacks, of which every other block is MoE.
TEST(ModelSpec, Switch) {
  ModelSpec model = parse(readShared("switch-base-8"));
  EXPECT_EQ(model.blocks.size(), 12u);
  EXPECT_EQ(model.decoder.size(), 12u);
  EXPECT_EQ(countMoe(model), 6u);
  EXPECT_FALSE(model.decoder[0].isMoe);
  EXPECT_TRUE(model.decoder[1].isMoe);
  EXPECT_EQ(model.attention.scale, 1);
  EXPECT_EQ(model.attention.relativeBuckets, 32);
  EXPECT_EQ(model.attention.maxDistance, 128);
  EXPECT_EQ(model.attention.headDim, 64);
  EXPECT_NEAR(model.headScale, 1 / std::sqrt(768.0), 1e-15);
}

// Without being asked for it, what is around the layers is neither read nor needed.
TEST(ModelSpec, OnlyWhereAsked) {
  json::Object config = readWithout("mixtral-8x7b", {"vocab_size"});
  ModelConfig layer = llvm::cantFail(parseModelConfig(print(config), "c.json"));
  EXPECT_FALSE(layer.model.has_value());
  EXPECT_EQ(errorWith("mixtral-8x7b", "vocab_size", nullptr),
            "'vocab_size': expected an integer from 1 to 16777216 but got null");
}

// Each error names the key, what was expected and what is there.
TEST(ModelSpec, Errors) {
  EXPECT_EQ(errorWith("olmoe-1b-7b", "clip_qkv", 8.0), "'clip_qkv': expected null but got 8");
  EXPECT_EQ(errorWith("mixtral-8x7b", "num_key_value_heads", 5),
            "'num_key_value_heads': expected a divisor of 'num_attention_heads', 32, but got 5");
  EXPECT_EQ(errorWith("mixtral-8x7b", "num_attention_heads", 24),
            "'num_attention_heads': expected a divisor of the hidden size, 4096, but got 24");
  EXPECT_EQ(errorWith("mixtral-8x7b", "attention_dropout", 1.0),
            "'attention_dropout': expected a number of at least 0 and below 1 but got 1");
  EXPECT_EQ(errorWith("qwen3-30b-a3b", "head_dim", 3),
            "'head_dim': expected an even size of heads, as rotary positions need it, 3 being odd, but got 3");
  EXPECT_EQ(errorWith("qwen3-30b-a3b", "use_sliding_window", true),
            "'use_sliding_window': expected false but got true");
  EXPECT_EQ(errorWith("qwen3-30b-a3b", "rope_scaling", json::Object{{"rope_type", "linear"}, {"factor", 2}}),
            "'rope_scaling.rope_type': expected one of \"default\", \"yarn\" but got \"linear\"");
  EXPECT_EQ(errorWith("qwen3-30b-a3b", "rope_scaling", json::Object{{"type", "yarn"}}),
            "'rope_scaling.factor': expected a number greater than 0 but the key is missing");
  EXPECT_EQ(errorWith("gpt-oss-20b", "layer_types", json::Array{"full_attention"}).substr(0, 61),
            "'layer_types': expected a type for each of the 24 blocks but ");
  EXPECT_EQ(errorWith("gpt2-moe", "moe_every", 0), "'moe_every': expected an integer from 1 to 10000 but got 0");
  EXPECT_EQ(errorWith("gpt2-moe", "activation_function", "tanh"),
            "'activation_function': expected one of \"gelu\", \"gelu_new\", \"gelu_pytorch_tanh\", \"relu\", \"silu\" "
            "but got \"tanh\"");
  EXPECT_EQ(errorWith("bert-base-moe", "expert_capacity_factor", 0),
            "'expert_capacity_factor': expected a number greater than 0 but got 0");
  EXPECT_EQ(errorWith("switch-base-8", "num_sparse_encoder_layers", 13),
            "'num_sparse_encoder_layers': expected an integer from 0 to 12 but got 13");
  EXPECT_EQ(errorWith("deepseek-v3", "num_key_value_heads", 16),
            "'num_key_value_heads': expected 'num_attention_heads', 128, since every head has keys and values of its "
            "own, but got 16");
  EXPECT_EQ(
      errorWith("deepseek-v3", "qk_rope_head_dim", 63),
      "'qk_rope_head_dim': expected an even size of heads, as rotary positions need it, 63 being odd, but got 63");
  EXPECT_EQ(errorWith("deepseek-v3", "q_lora_rank", 0),
            "'q_lora_rank': expected an integer from 1 to 1048576 but got 0");
  EXPECT_EQ(errorWith("deepseek-v2", "mlp_bias", true), "'mlp_bias': expected false but got true");
  EXPECT_EQ(errorWith("deepseek-v2", "rope_scaling", json::Object{{"type", "dynamic"}, {"factor", 2}}),
            "'rope_scaling.type': expected one of \"default\", \"yarn\" but got \"dynamic\"");
  EXPECT_EQ(errorWith("deepseek-v2", "intermediate_size", nullptr),
            "'intermediate_size': expected an integer from 1 to 1048576 but got null");
}

} // namespace
