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

/// Builds a new object, because in LLVM 19 copies of an object are broken after an erase.
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

/// Error, without its place, for a shared config with `key` set to `value` or removed by null.
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

// Mixtral is Llama's block with grouped key heads.
TEST(ModelSpec, Mixtral) {
  ModelSpec model = parse(readShared("mixtral-8x7b"));
  EXPECT_EQ(model.vocabulary, 32000);
  EXPECT_EQ(model.blocks.size(), 32u);
  EXPECT_EQ(countMoe(model), 32u);
  EXPECT_EQ(model.blocks[0].window, 0);
  EXPECT_EQ(model.norm, Norm::rms);
  EXPECT_EQ(model.eps, 1e-5);
  EXPECT_EQ(model.normPlace, NormPlace::input);
  EXPECT_FALSE(model.tiedHead || model.embeddingNorm || model.headBias || model.headTransform);
  EXPECT_EQ(model.learnedPositions, 0);
  EXPECT_EQ(model.routerLoss.balance, 0.02);
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

// Heads are larger than their share of the hidden columns, each has a norm, and two keys give dense blocks.
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

// One norm covers all queries, and bounds follow it. The base of rotary positions is in the newer place.
TEST(ModelSpec, Olmoe) {
  json::Object config = readShared("olmoe-1b-7b");
  EXPECT_EQ(parse(config).attention.clip, 0);
  config["clip_qkv"] = 8;
  EXPECT_EQ(parse(config).attention.clip, 8);
  EXPECT_TRUE(parse(config).attention.clipAfterNorm);
  EXPECT_EQ(parse(config).attention.headNorm, HeadNorm::projection);
  EXPECT_EQ(parse(config).attention.rotary->base, 1e4);
  config["rope_parameters"] = json::Object{{"rope_type", "default"}, {"rope_theta", 5e5}};
  EXPECT_EQ(parse(config).attention.rotary->base, 5e5);
}

// transformers 5 uses its own name for the number of experts.
TEST(ModelSpec, NewerName) {
  json::Object config = readShared("qwen3-30b-a3b");
  config["num_local_experts"] = *config.getInteger("num_experts");
  config["num_experts"] = nullptr;
  EXPECT_EQ(countMoe(parse(config)), 48u);
}

// Covers sinks, biases, alternate windows, and YaRN's bounds computed by hand.
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

  // Without the list of types the first block has a window. With `truncate` bounds are integers.
  json::Object config = readShared("gpt-oss-20b");
  config["layer_types"] = nullptr;
  (*config["rope_scaling"].getAsObject())["truncate"] = true;
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
  EXPECT_FALSE(model.attention.rotary);
  EXPECT_EQ(model.normPlace, NormPlace::input);
  EXPECT_EQ(model.denseHidden, 4096);
  EXPECT_EQ(model.denseActivation, Activation::gelu_tanh);
  EXPECT_EQ(model.attention.headDim, 64);
  EXPECT_EQ(model.dropout.embedding, 0.1);
  EXPECT_EQ(model.dropout.residual, 0.1);
}

TEST(ModelSpec, Bert) {
  ModelSpec model = parse(readShared("bert-base-moe"));
  EXPECT_EQ(countMoe(model), 6u);
  EXPECT_EQ(model.normPlace, NormPlace::sum);
  EXPECT_TRUE(model.embeddingNorm && model.headTransform && model.headBias && model.tiedHead);
  EXPECT_FALSE(model.attention.causal);
  EXPECT_EQ(model.tokenTypes, 2);
  EXPECT_EQ(model.learnedPositions, 512);
  EXPECT_EQ(model.denseActivation, Activation::gelu);
  EXPECT_EQ(model.eps, 1e-12);
}

// Covers latent attention, YaRN's scale of products, and dense blocks before and between MoE ones.
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
  EXPECT_FALSE(model.routerLoss.isAdded);

  ModelSpec lite = parse(readShared("deepseek-v2-lite"));
  EXPECT_EQ(lite.attention.latent->queryRank, 0);
  EXPECT_NEAR(lite.attention.scale, std::pow(1 + 0.0707 * std::log(40.0), 2) / std::sqrt(192.0), 1e-15);
  EXPECT_TRUE(lite.routerLoss.isAdded);
  EXPECT_EQ(lite.routerLoss.balance, 0.001);
  EXPECT_EQ(countMoe(lite), 26u);

  // Removes the keys, as in a config that transformers 5 has written.
  json::Object config = readWithout("deepseek-v3", {"q_lora_rank", "kv_lora_rank", "qk_rope_head_dim", "v_head_dim",
                                                    "first_k_dense_replace", "num_key_value_heads", "rope_scaling"});
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
  EXPECT_FALSE(other.blocks[2].isMoe);
  EXPECT_TRUE(other.blocks[3].isMoe);
}

// The blocks from `max_window_layers` on have the window, unless a list says it for each block.
TEST(ModelSpec, DotsWindows) {
  auto getWindows = [](json::Object keys) {
    json::Object config = readShared("dots.llm1");
    config["num_hidden_layers"] = 3;
    for (auto &[key, value] : keys)
      config[key] = std::move(value);
    std::vector<int64_t> windows;
    for (const BlockSpec &block : parse(config).blocks)
      windows.push_back(block.window);
    return windows;
  };
  using Windows = std::vector<int64_t>;
  auto getMixed = [] { return json::Array{"sliding_attention", "full_attention", "sliding_attention"}; };
  EXPECT_EQ(getWindows(json::Object()), (Windows{0, 0, 0}));
  EXPECT_EQ(getWindows(json::Object{{"sliding_window", 7}}), (Windows{0, 0, 0}));
  EXPECT_EQ(getWindows(json::Object{{"sliding_window", 7}, {"max_window_layers", 1}}), (Windows{0, 7, 7}));
  EXPECT_EQ(getWindows(json::Object{{"sliding_window", nullptr}, {"max_window_layers", 1}}), (Windows{0, 0, 0}));
  EXPECT_EQ(getWindows(json::Object{{"sliding_window", 7}, {"max_window_layers", 1}, {"layer_types", getMixed()}}),
            (Windows{7, 0, 7}));
  EXPECT_EQ(errorWith("dots.llm1", "layer_types", json::Array{}),
            "'layer_types': expected a type for each of the 62 blocks but got []");
}

// Blocks with rotary positions see chunks, unless a list says it for each block.
TEST(ModelSpec, Llama4Chunks) {
  auto parseWith = [](llvm::StringRef key, json::Value value) {
    json::Object config{{"model_type", "llama4_text"}, {"num_hidden_layers", 3}, {"no_rope_layer_interval", 2}};
    config[key] = std::move(value);
    return parseModelConfig(print(config), "c.json", /*whole=*/true);
  };
  auto getChunks = [](llvm::Expected<ModelConfig> config) {
    ModelConfig parsed = llvm::cantFail(std::move(config));
    std::vector<int64_t> chunks;
    for (const BlockSpec &block : parsed.model->blocks)
      chunks.push_back(block.chunk);
    return chunks;
  };
  EXPECT_EQ(getChunks(parseWith("attention_chunk_size", 64)), (std::vector<int64_t>{64, 0, 64}));
  EXPECT_EQ(getChunks(parseWith("layer_types", json::Array{"full_attention", "chunked_attention", "full_attention"})),
            (std::vector<int64_t>{0, 8192, 0}));
  EXPECT_EQ(llvm::toString(parseWith("layer_types", json::Array{"full_attention"}).takeError()),
            "c.json:1:2: error: 'layer_types': expected a type for each of the 3 blocks but got [\"full_attention\"]");
}

// Every second block of Maverick has experts and a shared one, the others a wider dense block. Every fourth block has
// no rotary positions and sees all tokens. Unlike Scout, Maverick has no norms of queries and keys and does not stretch
// positions.
TEST(ModelSpec, Llama4Maverick) {
  ModelSpec model = parse(readShared("llama-4-maverick"));
  ASSERT_EQ(model.blocks.size(), 48u);
  for (size_t i = 0; i < model.blocks.size(); ++i) {
    EXPECT_EQ(model.blocks[i].isMoe, i % 2 == 1) << i;
    EXPECT_EQ(model.blocks[i].rotary, i % 4 != 3) << i;
    EXPECT_EQ(model.blocks[i].chunk, i % 4 != 3 ? 8192 : 0) << i;
  }
  EXPECT_EQ(model.denseHidden, 16384);
  EXPECT_EQ(model.attention.headNorm, HeadNorm::none);
  EXPECT_EQ(model.attention.rotary->base, 5e5);
  EXPECT_EQ(model.attention.rotary->factor, 1);
  EXPECT_EQ(parse(readShared("llama-4-scout")).attention.rotary->factor, 16);
}

// The full GLM-4.5 has norms of queries and keys, which Air lacks, and three dense blocks.
TEST(ModelSpec, Glm45) {
  ModelSpec model = parse(readShared("glm-4.5"));
  EXPECT_EQ(model.blocks.size(), 92u);
  EXPECT_EQ(countMoe(model), 89u);
  EXPECT_FALSE(model.blocks[2].isMoe);
  EXPECT_EQ(model.denseHidden, 12288);
  EXPECT_EQ(model.attention.headNorm, HeadNorm::head);
  EXPECT_EQ(parse(readShared("glm-4.5-air")).attention.headNorm, HeadNorm::none);
  EXPECT_EQ(model.attention.heads, 96);
  EXPECT_EQ(model.attention.keyHeads, 8);
  EXPECT_EQ(model.attention.rotary->dim, 64);
  EXPECT_TRUE(model.attention.inputBiases);
}

// No key of the shared files is unknown.
TEST(ModelSpec, NoRemarks) {
  for (const char *name : {"mixtral-8x22b", "qwen3-235b-a22b", "kimi-k2", "glm-4.5", "llama-4-maverick"})
    EXPECT_FALSE(llvm::cantFail(parseModelConfig(print(readShared(name)), "c.json", /*whole=*/true)).otherKeys) << name;
}

// Switch has two stacks, in which every other block is MoE.
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

// transformers adds losses of routers if it outputs their logits. It has coefficients of its own.
TEST(ModelSpec, RouterLoss) {
  auto parseWith = [](const char *name, const char *key, json::Value value) {
    json::Object config = readWithout(name, {"router_aux_loss_coef", "router_z_loss_coef", "aux_loss_alpha"});
    config[key] = std::move(value);
    return parse(config).routerLoss;
  };
  for (auto [name, balance] : {std::pair("mixtral-8x7b", 0.001),
                               {"qwen1.5-moe-a2.7b", 0.001},
                               {"qwen3-30b-a3b", 0.001},
                               {"olmoe-1b-7b", 0.01},
                               {"gpt-oss-20b", 0.001},
                               {"switch-base-8", 0.001}}) {
    EXPECT_FALSE(parseWith(name, "output_router_logits", nullptr).isAdded) << name;
    EXPECT_FALSE(parseWith(name, "output_router_logits", false).isAdded) << name;
    RouterLossSpec loss = parseWith(name, "output_router_logits", true);
    EXPECT_TRUE(loss.isAdded && loss.isOverLayers) << name;
    EXPECT_EQ(loss.balance, balance) << name;
    EXPECT_EQ(loss.square, llvm::StringRef(name) == "switch-base-8" ? 0.001 : 0) << name;
  }
  for (const char *name : {"gpt2-moe", "bert-base-moe"}) {
    EXPECT_TRUE(parseWith(name, "output_router_logits", nullptr).isAdded) << name;
    EXPECT_FALSE(parseWith(name, "output_router_logits", nullptr).isOverLayers) << name;
    EXPECT_FALSE(parseWith(name, "output_router_logits", false).isAdded) << name;
  }
  EXPECT_FALSE(parseWith("deepseek-v2", "output_router_logits", nullptr).isAdded);
  EXPECT_TRUE(parseWith("deepseek-v2", "aux_loss_alpha", 0.5).isAdded);
  EXPECT_EQ(parseWith("switch-base-8", "router_z_loss_coef", 0.25).square, 0.25);
}

// The embedding row of the padding is not trained. If the file does not name the row, it depends on the model.
TEST(ModelSpec, Padding) {
  auto parseWith = [](const char *name, json::Value id) {
    json::Object config = readShared(name);
    config["pad_token_id"] = std::move(id);
    return parse(config).padding;
  };
  auto parseWithout = [](const char *name) { return parse(readWithout(name, {"pad_token_id"})).padding; };
  EXPECT_EQ(parseWithout("mixtral-8x7b"), -1);
  EXPECT_EQ(parseWithout("olmoe-1b-7b"), 1);
  EXPECT_EQ(parseWithout("bert-base-moe"), 0);
  for (const char *name : {"mixtral-8x7b", "olmoe-1b-7b", "bert-base-moe", "deepseek-v3"}) {
    EXPECT_EQ(parseWith(name, 7), 7) << name;
    EXPECT_EQ(parseWith(name, nullptr), -1) << name;
  }
  EXPECT_EQ(parseWith("mixtral-8x7b", -1), 31999);
  // These are as published. Class defaults would leave another row without a gradient, or none.
  for (auto [name, id] : std::initializer_list<std::pair<const char *, int64_t>>{
           {"glm-4.5-air", 151329}, {"granite-3.0-3b-a800m", 0}, {"hunyuan-a13b", 127961}, {"llama-4-scout", 200018}})
    EXPECT_EQ(parse(readShared(name)).padding, id) << name;
  // Neither has a padding_idx.
  EXPECT_EQ(parseWith("switch-base-8", 7), -1);
  EXPECT_EQ(parseWith("gpt2-moe", 7), -1);
  EXPECT_EQ(errorWith("mixtral-8x7b", "pad_token_id", 32000),
            "'pad_token_id': expected an integer from -32000 to 31999 but got 32000");
}

// Variants of GPT-2 and BERT differ in training's random values and in attention.
TEST(ModelSpec, Variants) {
  ModelSpec plain = parse(readWithout("switch-base-8", {"router_jitter_noise", "dropout_rate"}));
  EXPECT_EQ(plain.dropout.jitter, 0.01);
  EXPECT_EQ(plain.dropout.hidden, 0.1);
  json::Object mixtral = readWithout("mixtral-8x7b", {"router_jitter_noise"});
  EXPECT_EQ(parse(mixtral).dropout.jitter, 0);
  mixtral["router_jitter_noise"] = 0.25;
  EXPECT_EQ(parse(mixtral).dropout.jitter, 0.25);

  json::Object gpt2 = readShared("gpt2-moe");
  EXPECT_EQ(parse(gpt2).attention.scale, 0);
  gpt2["scale_attn_weights"] = false;
  gpt2["scale_attn_by_inverse_layer_idx"] = true;
  EXPECT_EQ(parse(gpt2).attention.scale, 1);
  EXPECT_EQ(parse(gpt2).blocks[3].scoreScale, 0.25);

  json::Object bert = readShared("bert-base-moe");
  EXPECT_FALSE(parse(bert).attention.causal);
  bert["is_decoder"] = true;
  EXPECT_TRUE(parse(bert).attention.causal);
  EXPECT_EQ(errorWith("bert-base-moe", "add_cross_attention", true),
            "'add_cross_attention': expected false but got true");
}

// The parts around the layers are neither read nor required unless they are asked for.
TEST(ModelSpec, OnlyWhereAsked) {
  json::Object config = readWithout("mixtral-8x7b", {"vocab_size"});
  ModelConfig layer = llvm::cantFail(parseModelConfig(print(config), "c.json"));
  EXPECT_FALSE(layer.model.has_value());
  EXPECT_EQ(errorWith("mixtral-8x7b", "vocab_size", nullptr),
            "'vocab_size': expected an integer from 1 to 16777216 but got null");
  // An error there is then a remark.
  config["clip_qkv"] = -8;
  config["architectures"] = json::Array{"OlmoeForCausalLM"};
  layer = llvm::cantFail(parseModelConfig(print(config), "c.json"));
  ASSERT_TRUE(layer.otherKeys);
  EXPECT_EQ(layer.otherKeys->text, "'clip_qkv': expected a number greater than 0 but got -8, for a whole model; so "
                                   "other keys were not checked");
}

RotarySpec readRotaryOf(llvm::StringRef type, json::Object keys) {
  keys["model_type"] = type;
  return *parse(keys).attention.rotary;
}

// Priorities of transformers if rope keys are in several places.
TEST(ModelSpec, RotaryPrecedence) {
  auto yarn = [](double factor) {
    return json::Object{{"rope_type", "yarn"}, {"factor", factor}, {"original_max_position_embeddings", 64}};
  };
  // Without any key, the class decides.
  EXPECT_EQ(readRotaryOf("mixtral", json::Object()).base, 1e6);
  RotarySpec own = readRotaryOf("gpt_oss", json::Object());
  EXPECT_EQ(own.base, 150000);
  EXPECT_EQ(own.factor, 32);
  EXPECT_NEAR(own.low, 8.0927791, 1e-6);
  EXPECT_EQ(readRotaryOf("gpt_oss", json::Object{{"rope_parameters", nullptr}}).factor, 32);
  EXPECT_EQ(readRotaryOf("gpt_oss", json::Object{{"rope_parameters", json::Object{{"rope_type", "default"}}}}).factor,
            1);
  // rope_scaling has priority over rope_parameters, unless it is empty.
  EXPECT_EQ(readRotaryOf("mixtral", json::Object{{"rope_scaling", yarn(4)}, {"rope_parameters", yarn(8)}}).factor, 4);
  EXPECT_EQ(readRotaryOf("mixtral", json::Object{{"rope_scaling", nullptr}, {"rope_parameters", yarn(8)}}).factor, 8);
  EXPECT_EQ(
      readRotaryOf("mixtral", json::Object{{"rope_scaling", json::Object()}, {"rope_parameters", yarn(8)}}).factor, 8);
  // A base inside of them has priority over the one beside them.
  json::Object within = yarn(4);
  within["rope_theta"] = 5e4;
  EXPECT_EQ(readRotaryOf("mixtral", json::Object{{"rope_theta", 2e4}, {"rope_parameters", yarn(8)}}).base, 2e4);
  EXPECT_EQ(readRotaryOf("mixtral", json::Object{{"rope_theta", 2e4}, {"rope_parameters", json::Object(within)}}).base,
            5e4);
  EXPECT_EQ(readRotaryOf("mixtral", json::Object{{"rope_theta", 2e4}, {"rope_scaling", json::Object(within)}}).base,
            5e4);
  // Original positions beside them have priority over those inside.
  double low = readRotaryOf("gpt_oss", json::Object{{"rope_scaling", yarn(8)}}).low;
  EXPECT_LT(
      low,
      readRotaryOf("gpt_oss", json::Object{{"rope_scaling", yarn(8)}, {"original_max_position_embeddings", 4096}}).low);
  // Linear scaling divides all frequencies.
  RotarySpec linear =
      readRotaryOf("mixtral", json::Object{{"rope_scaling", json::Object{{"type", "linear"}, {"factor", 4}}}});
  EXPECT_EQ(linear.factor, 4);
  EXPECT_LT(linear.high, 0);
  EXPECT_EQ(errorWith("qwen3-30b-a3b", "rope_parameters", json::Object{{"full_attention", yarn(4)}}).substr(0, 128),
            "'rope_parameters.full_attention': expected a number or a string, since all blocks have the same rotary "
            "positions here, but got {");
}

// The models' code may treat missing keys in unexpected ways.
TEST(ModelSpec, ClassDefaults) {
  EXPECT_EQ(parse(json::Object{{"model_type", "mixtral"}}).attention.keyHeads, 8);
  EXPECT_EQ(parse(json::Object{{"model_type", "mixtral"}, {"num_key_value_heads", nullptr}}).attention.keyHeads, 32);
  EXPECT_EQ(parse(json::Object{{"model_type", "gpt_oss"}}).attention.headDim, 64);
  EXPECT_EQ(
      parse(json::Object{{"model_type", "gpt_oss"}, {"head_dim", nullptr}, {"hidden_size", 3072}}).attention.headDim,
      48);
  // Switch: if no MoE block is requested, there is one. A step in the file has priority over the counts.
  auto countSparse = [](json::Object keys) {
    keys["model_type"] = "switch_transformers";
    return countMoe(parse(keys));
  };
  EXPECT_EQ(countSparse(json::Object()), 3u);
  EXPECT_EQ(countSparse(json::Object{{"num_sparse_encoder_layers", 0}}), 1u);
  EXPECT_EQ(countSparse(json::Object{{"num_sparse_encoder_layers", 13}}), 0u);
  EXPECT_EQ(countSparse(json::Object{{"encoder_sparse_step", 1}}), 12u);
  EXPECT_EQ(countSparse(json::Object{{"encoder_sparse_step", 0}}), 0u);
}

// One remark lists all unknown keys, including those of other objects, and leaves out harmless ones.
TEST(ModelSpec, OtherKeys) {
  std::string text = R"({
  "architectures": ["MixtralForCausalLM"], "transformers_version": "5", "bos_token_id": 1,
  "logit_scale": 2, "attention_gain": null,
  "rope_scaling": {"rope_type": "default", "mscale": 1},
  "quantization_config": {"quant_method": "fp8", "bits": 3, "fmt": "e4m3"}
})";
  for (bool whole : {false, true}) {
    ModelConfig config = llvm::cantFail(parseModelConfig(text, "c.json", whole));
    ASSERT_TRUE(config.otherKeys);
    EXPECT_EQ(config.otherKeys->text,
              "'logit_scale', 'rope_scaling.mscale' (4:44), 'quantization_config.bits' (5:50): expected keys that "
              "MoePlan knows of MixtralForCausalLM; the graph does not depend on them");
    EXPECT_EQ(config.otherKeys->place.line, 3u);
    EXPECT_EQ(config.otherKeys->place.column, 3u);
  }
  EXPECT_EQ(errorWith("mixtral-8x7b", "quantization_config", json::Object{{"quant_method", "awq"}}),
            "'quantization_config.quant_method': expected one of \"fp8\", \"mxfp4\" but got \"awq\"");
}

// The published keys of MiMo-V2 say which blocks have a window, and its heads. transformers has other keys for the
// same.
TEST(ModelSpec, MimoV2) {
  ModelSpec model = parse(json::Object{{"model_type", "mimo_v2_flash"},
                                       {"num_hidden_layers", 3},
                                       {"hybrid_layer_pattern", json::Array{0, 1, 1}},
                                       {"moe_layer_freq", json::Array{0, 1, 1}},
                                       {"sliding_window_size", 128},
                                       {"swa_num_key_value_heads", 8},
                                       {"swa_rope_theta", 20000},
                                       {"routed_scaling_factor", nullptr}});
  ASSERT_EQ(model.otherAttentions.size(), 1u);
  const AttentionSpec &full = model.getAttention(model.blocks[0]), &windowed = model.getAttention(model.blocks[1]);
  EXPECT_EQ(model.blocks[0].window, 0);
  EXPECT_EQ(model.blocks[2].window, 129); // with the query's own position
  EXPECT_FALSE(model.blocks[0].isMoe);
  EXPECT_TRUE(model.blocks[1].isMoe);
  EXPECT_EQ(full.keyHeads, 4);
  EXPECT_EQ(windowed.keyHeads, 8);
  EXPECT_TRUE(windowed.sinks && !full.sinks);
  EXPECT_EQ(full.headDim, 192);
  EXPECT_EQ(full.valueDim, 128);
  EXPECT_EQ(full.rotary->base, 5e6);
  EXPECT_EQ(windowed.rotary->base, 2e4);
  EXPECT_EQ(full.rotary->dim, 64);
}

// Step's published lists have an element for each block, and more for blocks that are no part of the model.
TEST(ModelSpec, ListsOfStep) {
  json::Object keys{{"model_type", "step3p5"},
                    {"num_hidden_layers", 2},
                    {"num_nextn_predict_layers", 1},
                    {"layer_types", json::Array{"full_attention", "sliding_attention", "sliding_attention"}},
                    {"sliding_window", 512},
                    {"rope_theta", json::Array{5e6, 1e4, 1e4}},
                    {"partial_rotary_factors", json::Array{0.5, 1.0, 1.0}},
                    {"attention_other_setting", json::Object{{"num_attention_heads", 96}, {"num_attention_groups", 4}}},
                    {"moe_layers_enum", "1"}};
  ModelSpec model = parse(keys);
  const AttentionSpec &full = model.getAttention(model.blocks[0]), &windowed = model.getAttention(model.blocks[1]);
  EXPECT_EQ(full.rotary->base, 5e6);
  EXPECT_EQ(full.rotary->dim, 64);
  EXPECT_EQ(windowed.rotary->base, 1e4);
  EXPECT_EQ(windowed.heads, 96);
  EXPECT_EQ(windowed.keyHeads, 4);
  EXPECT_FALSE(model.blocks[0].isMoe);
  EXPECT_TRUE(model.blocks[1].isMoe);
  auto getError = [&](const char *key, json::Value value) {
    json::Object wrong = keys;
    wrong[key] = std::move(value);
    return llvm::toString(parseModelConfig(print(wrong), "c.json", /*whole=*/true).takeError());
  };
  EXPECT_NE(getError("mlp_layer_types", json::Array{"sparse", "dens"}).find("one of \"dense\", \"sparse\""),
            std::string::npos);
  EXPECT_NE(getError("moe_layers_enum", "1,x").find("numbers of blocks"), std::string::npos);
  EXPECT_NE(getError("rope_theta", json::Array{5e6}).find("a number for each of the 2 blocks"), std::string::npos);
  EXPECT_NE(getError("swiglu_limits", json::Array{0, 7}).find("a list of nulls or zeros"), std::string::npos);
  keys["layer_types"] = json::Array{"full_attention", "full_attention"};
  EXPECT_NE(getError("rope_theta", json::Array{5e6, 1e4}).find("one number for all blocks of a type"),
            std::string::npos);
}

// K-EXAONE's pattern may be a string; its last block never has a window.
TEST(ModelSpec, PatternsOfWindows) {
  auto getWindows = [](const ModelSpec &model) {
    std::vector<bool> windows;
    for (const BlockSpec &block : model.blocks)
      windows.push_back(block.window > 0);
    return windows;
  };
  json::Object keys{{"model_type", "exaone_moe"}, {"num_hidden_layers", 5}, {"sliding_window_pattern", "LGL"}};
  ModelSpec model = parse(keys);
  EXPECT_EQ(getWindows(model), (std::vector<bool>{true, false, true, true, false}));
  EXPECT_EQ(model.blocks[1].rotary, false);
  EXPECT_EQ(model.blocks[2].rotary, true);
  keys["sliding_window_pattern"] = 2;
  EXPECT_EQ(getWindows(parse(keys)), (std::vector<bool>{true, false, true, false, true}));
}

// Each error names the key, the expected value and the given one.
TEST(ModelSpec, Errors) {
  EXPECT_EQ(errorWith("olmoe-1b-7b", "clip_qkv", 0), "'clip_qkv': expected a number greater than 0 but got 0");
  EXPECT_EQ(errorWith("mixtral-8x7b", "num_key_value_heads", 5),
            "'num_key_value_heads': expected a divisor of 'num_attention_heads', 32, but got 5");
  EXPECT_EQ(errorWith("mixtral-8x7b", "num_attention_heads", 24),
            "'num_attention_heads': expected a divisor of the hidden size, 4096, but got 24");
  EXPECT_EQ(errorWith("mixtral-8x7b", "attention_dropout", 1.0),
            "'attention_dropout': expected a number of at least 0 and below 1 but got 1");
  // A null does not stand for the default of the configuration class.
  EXPECT_EQ(errorWith("mixtral-8x7b", "rms_norm_eps", nullptr), "'rms_norm_eps': expected a number but got null");
  EXPECT_EQ(errorWith("glm-4.5-air", "partial_rotary_factor", nullptr),
            "'partial_rotary_factor': expected a number but got null");
  EXPECT_EQ(errorWith("qwen3-30b-a3b", "decoder_sparse_step", nullptr),
            "'decoder_sparse_step': expected an integer but got null");
  // These are mistakes.
  EXPECT_EQ(errorWith("mixtral-8x7b", "rms_norm_eps", 1e5),
            "'rms_norm_eps': expected a number greater than 0 and at most 0.1 but got 100000");
  for (double base : {0.5, 1e13})
    EXPECT_NE(errorWith("mixtral-8x7b", "rope_theta", base).find("expected a number from 1 to 1e12"),
              std::string::npos);
  EXPECT_EQ(errorWith("deepseek-v3", "first_k_dense_replace", 62),
            "'first_k_dense_replace': expected an integer from 0 to 61 but got 62");
  EXPECT_NE(errorWith("ernie-4.5-21b-a3b", "moe_norm_min", 0.1).find("'moe_norm_min': expected at most 1e-6"),
            std::string::npos);
  EXPECT_EQ(errorWith("mixtral-8x7b", "llm_config", json::Object{{"hidden_size", 64}}).substr(0, 74),
            "'llm_config': expected no configuration of a model inside another, except ");
  EXPECT_EQ(errorWith("qwen3-30b-a3b", "head_dim", 3),
            "'head_dim': expected an even size of heads, as rotary positions need it, 3 being odd, but got 3");
  EXPECT_EQ(errorWith("qwen3-30b-a3b", "use_sliding_window", true),
            "'use_sliding_window': expected false but got true");
  EXPECT_EQ(errorWith("qwen3-30b-a3b", "rope_scaling", json::Object{{"rope_type", "linear"}, {"factor", 2}}), "");
  EXPECT_EQ(errorWith("qwen3-30b-a3b", "rope_scaling", json::Object{{"type", "yarn"}}),
            "'rope_scaling.factor': expected a number greater than 0 but the key is missing");
  EXPECT_EQ(errorWith("gpt-oss-20b", "layer_types", json::Array{"full_attention"}).substr(0, 61),
            "'layer_types': expected a type for each of the 24 blocks but ");
  EXPECT_EQ(errorWith("gpt-oss-20b", "layer_types", json::Array{}),
            "'layer_types': expected a type for each of the 24 blocks but got []");
  EXPECT_EQ(errorWith("gpt2-moe", "moe_every", 0), "'moe_every': expected an integer from 1 to 10000 but got 0");
  EXPECT_EQ(errorWith("gpt2-moe", "activation_function", "tanh"),
            "'activation_function': expected one of \"gelu\", \"gelu_new\", \"gelu_pytorch_tanh\", \"relu\", \"silu\" "
            "but got \"tanh\"");
  EXPECT_EQ(errorWith("bert-base-moe", "expert_capacity_factor", 0),
            "'expert_capacity_factor': expected a number greater than 0 but got 0");
  EXPECT_EQ(errorWith("switch-base-8", "relative_attention_num_buckets", 3),
            "'relative_attention_num_buckets': expected an integer from 4 to 1048576 but got 3");
  EXPECT_EQ(errorWith("switch-base-8", "relative_attention_max_distance", 16),
            "'relative_attention_max_distance': expected an integer from 17 to 16777216 but got 16");
  EXPECT_EQ(errorWith("mixtral-8x7b", "architectures", json::Array{"MixtralModel"}),
            "'architectures': expected \"MixtralForCausalLM\", the same model with the head that computes logits, "
            "but got [\"MixtralModel\"]");
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
            "'rope_scaling.type': expected one of \"default\", \"yarn\", \"linear\", \"llama3\", \"deepseek_yarn\" but "
            "got \"dynamic\"");
  EXPECT_EQ(errorWith("deepseek-v2", "intermediate_size", nullptr),
            "'intermediate_size': expected an integer from 1 to 1048576 but got null");
}

} // namespace
