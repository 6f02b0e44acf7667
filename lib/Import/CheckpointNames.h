//===- CheckpointNames.h - names of published checkpoints' tensors -*- C++ -*-//
//
// Tables of names. In them {i} is a block and {e} an expert. A bias `x.bias` follows from the rule of its `x.weight`.
//
//===----------------------------------------------------------------------===//
#ifndef MOE_LIB_IMPORT_CHECKPOINTNAMES_H
#define MOE_LIB_IMPORT_CHECKPOINTNAMES_H

#include "Family.h"

namespace mlir::moe::names {

// Columns of latent attention's tensors.
inline int64_t getRotaryDim(const AttentionSpec &attention) { return attention.latent->rotaryDim; }
inline int64_t getPlainDim(const AttentionSpec &attention) { return attention.latent->plainDim; }
inline int64_t getValueDim(const AttentionSpec &attention) { return attention.latent->valueDim; }
inline int64_t getRank(const AttentionSpec &attention) { return attention.latent->rank; }

/// A tensor as it is.
inline constexpr Rule copy(StringRef parameter, StringRef tensor) { return {parameter, tensor}; }
/// The weights of PyTorch's Linear, [out, in].
inline constexpr Rule linear(StringRef parameter, StringRef tensor) { return {parameter, tensor, {}, true}; }
/// The weights of a gate and an up projection.
inline constexpr Rule gated(StringRef parameter, StringRef gate, StringRef up) { return {parameter, gate, up, true}; }

/// Prefix of the names of Llama's blocks.
inline constexpr StringRef kLlamaBlocks = "model.layers.{i}.";

inline constexpr Rule kLlamaModel[] = {
    copy("embedding", "model.embed_tokens.weight"),
    copy("norm.gamma", "model.norm.weight"),
    linear("head", "lm_head.weight"),
};

inline constexpr Rule kLlamaBlock[] = {
    copy("norm1.gamma", "input_layernorm.weight"),
    linear("attention.q", "self_attn.q_proj.weight"),
    linear("attention.k", "self_attn.k_proj.weight"),
    linear("attention.v", "self_attn.v_proj.weight"),
    linear("attention.o", "self_attn.o_proj.weight"),
    copy("attention.q_norm", "self_attn.q_norm.weight"),
    copy("attention.k_norm", "self_attn.k_norm.weight"),
    copy("attention.sinks", "self_attn.sinks"),
    copy("norm2.gamma", "post_attention_layernorm.weight"),
    gated("ffn.w1", "mlp.gate_proj.weight", "mlp.up_proj.weight"),
    linear("ffn.w2", "mlp.down_proj.weight"),
};

/// Rules that precede Llama's: two parameters share the columns of one tensor, and of kv_b_proj head by head.
inline constexpr Rule kLatentAttention[] = {
    linear("attention.q_a", "self_attn.q_a_proj.weight"),
    copy("attention.q_a_norm", "self_attn.q_a_layernorm.weight"),
    linear("attention.q_b", "self_attn.q_b_proj.weight"),
    {"attention.kv_a", "self_attn.kv_a_proj_with_mqa.weight", {}, true, 0, 1, nullptr, getRotaryDim},
    {"attention.k_shared", "self_attn.kv_a_proj_with_mqa.weight", {}, true, 0, 1, getRank},
    copy("attention.kv_a_norm", "self_attn.kv_a_layernorm.weight"),
    {"attention.k", "self_attn.kv_b_proj.weight", {}, true, 0, 1, nullptr, getValueDim, true},
    {"attention.v", "self_attn.kv_b_proj.weight", {}, true, 0, 1, getPlainDim, nullptr, true},
};

/// The router and the shared experts of DeepSeek-V3 and of similar models. These rules precede Qwen's experts.
inline constexpr Rule kDeepseekExperts[] = {
    copy("selection_bias", "mlp.gate.e_score_correction_bias"),
    gated("shared_w1", "mlp.shared_experts.gate_proj.weight", "mlp.shared_experts.up_proj.weight"),
    linear("shared_w2", "mlp.shared_experts.down_proj.weight"),
};

inline constexpr Rule kMixtralExperts[] = {
    linear("gate", "block_sparse_moe.gate.weight"),
    gated("w1", "block_sparse_moe.experts.{e}.w1.weight", "block_sparse_moe.experts.{e}.w3.weight"),
    linear("w2", "block_sparse_moe.experts.{e}.w2.weight"),
    copy("selection_bias", "block_sparse_moe.e_score_correction_bias"),
};

inline constexpr Rule kQwenExperts[] = {
    linear("gate", "mlp.gate.weight"),
    gated("w1", "mlp.experts.{e}.gate_proj.weight", "mlp.experts.{e}.up_proj.weight"),
    linear("w2", "mlp.experts.{e}.down_proj.weight"),
    gated("shared_w1", "mlp.shared_expert.gate_proj.weight", "mlp.shared_expert.up_proj.weight"),
    linear("shared_w2", "mlp.shared_expert.down_proj.weight"),
    linear("shared_gate", "mlp.shared_expert_gate.weight"),
};

/// Stacks of experts, [in, out], with alternating gate and up columns; not quantised.
inline constexpr Rule kGptOssExperts[] = {
    linear("gate", "mlp.router.weight"),         copy("w1", "mlp.experts.gate_up_proj"),
    copy("b1", "mlp.experts.gate_up_proj_bias"), copy("w2", "mlp.experts.down_proj"),
    copy("b2", "mlp.experts.down_proj_bias"),
};

inline constexpr Rule kGpt2Model[] = {
    copy("embedding", "transformer.wte.weight"),
    copy("positions", "transformer.wpe.weight"),
    copy("norm.gamma", "transformer.ln_f.weight"),
    linear("head", "lm_head.weight"),
};

/// Conv1D keeps weights as [in, out].
inline constexpr Rule kGpt2Block[] = {
    copy("norm1.gamma", "ln_1.weight"),
    {"attention.q", "attn.c_attn.weight", {}, false, 0, 3},
    {"attention.k", "attn.c_attn.weight", {}, false, 1, 3},
    {"attention.v", "attn.c_attn.weight", {}, false, 2, 3},
    copy("attention.o", "attn.c_proj.weight"),
    copy("norm2.gamma", "ln_2.weight"),
    copy("ffn.w1", "mlp.c_fc.weight"),
    copy("ffn.w2", "mlp.c_proj.weight"),
    linear("gate", "mlp.gate.weight"),
    copy("w1", "mlp.experts.{e}.c_fc.weight"),
    copy("w2", "mlp.experts.{e}.c_proj.weight"),
};

inline constexpr Rule kBertModel[] = {
    copy("embedding", "bert.embeddings.word_embeddings.weight"),
    copy("positions", "bert.embeddings.position_embeddings.weight"),
    copy("token_types", "bert.embeddings.token_type_embeddings.weight"),
    copy("embedding_norm.gamma", "bert.embeddings.LayerNorm.weight"),
    linear("head_transform", "cls.predictions.transform.dense.weight"),
    copy("norm.gamma", "cls.predictions.transform.LayerNorm.weight"),
    linear("head", "cls.predictions.decoder.weight"),
    copy("head_bias", "cls.predictions.bias"),
};

inline constexpr Rule kBertBlock[] = {
    linear("attention.q", "attention.self.query.weight"),
    linear("attention.k", "attention.self.key.weight"),
    linear("attention.v", "attention.self.value.weight"),
    linear("attention.o", "attention.output.dense.weight"),
    copy("norm1.gamma", "attention.output.LayerNorm.weight"),
    linear("ffn.w1", "intermediate.dense.weight"),
    linear("ffn.w2", "output.dense.weight"),
    copy("norm2.gamma", "output.LayerNorm.weight"),
    linear("gate", "moe.gate.weight"),
    linear("w1", "moe.experts.{e}.intermediate.dense.weight"),
    linear("w2", "moe.experts.{e}.output.dense.weight"),
};

inline constexpr Rule kSwitchModel[] = {
    copy("embedding", "shared.weight"),
    copy("encoder_embedding", "encoder.embed_tokens.weight"),
    copy("decoder_embedding", "decoder.embed_tokens.weight"),
    copy("encoder.relative_bias", "encoder.block.0.layer.0.SelfAttention.relative_attention_bias.weight"),
    copy("decoder.relative_bias", "decoder.block.0.layer.0.SelfAttention.relative_attention_bias.weight"),
    copy("encoder_norm.gamma", "encoder.final_layer_norm.weight"),
    copy("norm.gamma", "decoder.final_layer_norm.weight"),
    linear("head", "lm_head.weight"),
};

inline constexpr Rule kSwitchAttention[] = {
    copy("norm1.gamma", "0.layer_norm.weight"),        linear("attention.q", "0.SelfAttention.q.weight"),
    linear("attention.k", "0.SelfAttention.k.weight"), linear("attention.v", "0.SelfAttention.v.weight"),
    linear("attention.o", "0.SelfAttention.o.weight"),
};

inline constexpr Rule kSwitchEncoder[] = {
    copy("norm2.gamma", "1.layer_norm.weight"),
    linear("ffn.w1", "1.mlp.wi.weight"),
    linear("ffn.w2", "1.mlp.wo.weight"),
    linear("gate", "1.mlp.router.classifier.weight"),
    linear("w1", "1.mlp.experts.expert_{e}.wi.weight"),
    linear("w2", "1.mlp.experts.expert_{e}.wo.weight"),
};

inline constexpr Rule kSwitchDecoder[] = {
    copy("norm_cross.gamma", "1.layer_norm.weight"),
    linear("cross.q", "1.EncDecAttention.q.weight"),
    linear("cross.k", "1.EncDecAttention.k.weight"),
    linear("cross.v", "1.EncDecAttention.v.weight"),
    linear("cross.o", "1.EncDecAttention.o.weight"),
    copy("norm2.gamma", "2.layer_norm.weight"),
    linear("ffn.w1", "2.mlp.wi.weight"),
    linear("ffn.w2", "2.mlp.wo.weight"),
    linear("gate", "2.mlp.router.classifier.weight"),
    linear("w1", "2.mlp.experts.expert_{e}.wi.weight"),
    linear("w2", "2.mlp.experts.expert_{e}.wo.weight"),
};

/// Rules that precede DeepSeek's.
inline constexpr Rule kErnieExperts[] = {
    {.parameter = "selection_bias", .tensor = "mlp.moe_statics.e_score_correction_bias", .isRow = true},
};

// These go before Llama's.
inline constexpr Rule kHunyuanShared[] = {
    gated("shared_w1", "mlp.shared_mlp.gate_proj.weight", "mlp.shared_mlp.up_proj.weight"),
    linear("shared_w2", "mlp.shared_mlp.down_proj.weight"),
};
inline constexpr Rule kHunyuanBlock[] = {
    copy("attention.q_norm", "self_attn.query_layernorm.weight"),
    copy("attention.k_norm", "self_attn.key_layernorm.weight"),
    linear("gate", "mlp.gate.wg.weight"),
};
inline constexpr Rule kHunyuanV3Experts[] = {
    linear("gate", "mlp.router.gate.weight"),
    copy("selection_bias", "mlp.expert_bias"),
};

inline constexpr Rule kMimoBlock[] = {copy("attention.sinks", "self_attn.attention_sink_bias")};
inline constexpr Rule kExaoneExperts[] = {copy("selection_bias", "mlp.e_score_correction_bias")};
inline constexpr Rule kLagunaBlock[] = {
    linear("attention.gate", "self_attn.g_proj.weight"),
    copy("selection_bias", "mlp.experts.e_score_correction_bias"),
};
inline constexpr Rule kAfmoeBlock[] = {
    linear("attention.gate", "self_attn.gate_proj.weight"),
    copy("norm1_output.gamma", "post_attention_layernorm.weight"),
    copy("norm2.gamma", "pre_mlp_layernorm.weight"),
    copy("norm2_output.gamma", "post_mlp_layernorm.weight"),
    linear("gate", "mlp.router.gate.weight"),
    copy("selection_bias", "mlp.expert_bias"),
};
/// The matrices of all experts form one tensor, [E, out, in].
inline constexpr Rule kStepBlock[] = {
    linear("attention.gate", "self_attn.g_proj.weight"),
    linear("gate", "moe.gate.weight"),
    copy("selection_bias", "moe.router_bias"),
    {.parameter = "w1",
     .tensor = "moe.gate_proj.weight",
     .second = "moe.up_proj.weight",
     .transpose = true,
     .stacked = 3},
    {.parameter = "w2", .tensor = "moe.down_proj.weight", .transpose = true, .stacked = 3},
    gated("shared_w1", "share_expert.gate_proj.weight", "share_expert.up_proj.weight"),
    linear("shared_w2", "share_expert.down_proj.weight"),
};
inline constexpr Rule kOlmo2Norms[] = {
    copy("norm1.gamma", "post_attention_layernorm.weight"),
    copy("norm2.gamma", "post_feedforward_layernorm.weight"),
};

inline constexpr Rule kGraniteExperts[] = {
    linear("gate", "block_sparse_moe.router.layer.weight"),
    {.parameter = "w1",
     .tensor = "block_sparse_moe.input_linear.weight",
     .transpose = true,
     .stacked = 3,
     .halves = true},
    {.parameter = "w2", .tensor = "block_sparse_moe.output_linear.weight", .transpose = true, .stacked = 3},
    {.parameter = "shared_w1", .tensor = "shared_mlp.input_linear.weight", .transpose = true, .halves = true},
    linear("shared_w2", "shared_mlp.output_linear.weight"),
};

inline constexpr Rule kLlama4Experts[] = {
    linear("gate", "feed_forward.router.weight"),
    {.parameter = "w1", .tensor = "feed_forward.experts.gate_up_proj", .halves = true},
    copy("w2", "feed_forward.experts.down_proj"),
    gated("shared_w1", "feed_forward.shared_expert.gate_proj.weight", "feed_forward.shared_expert.up_proj.weight"),
    linear("shared_w2", "feed_forward.shared_expert.down_proj.weight"),
};

/// Goes before Llama's.
inline constexpr Rule kLlama4Dense[] = {
    gated("ffn.w1", "feed_forward.gate_proj.weight", "feed_forward.up_proj.weight"),
    linear("ffn.w2", "feed_forward.down_proj.weight"),
};

inline constexpr Rule kNestedLlamaModel[] = {
    copy("embedding", "language_model.model.embed_tokens.weight"),
    copy("norm.gamma", "language_model.model.norm.weight"),
    linear("head", "language_model.lm_head.weight"),
};

inline constexpr Rule kQwen3VlModel[] = {
    copy("embedding", "model.language_model.embed_tokens.weight"),
    copy("norm.gamma", "model.language_model.norm.weight"),
    linear("head", "lm_head.weight"),
};

inline constexpr Rule kQwen3VlExperts[] = {
    linear("gate", "mlp.gate.weight"),
    {.parameter = "w1", .tensor = "mlp.experts.gate_up_proj", .halves = true},
    copy("w2", "mlp.experts.down_proj"),
};

inline constexpr Rule kDbrxModel[] = {
    copy("embedding", "transformer.wte.weight"),
    copy("norm.gamma", "transformer.norm_f.weight"),
    linear("head", "lm_head.weight"),
};

// Columns of queries, and of keys or values.
inline int64_t getQueries(const AttentionSpec &attention) { return attention.heads * attention.headDim; }
inline int64_t getKeys(const AttentionSpec &attention) { return attention.keyHeads * attention.headDim; }
inline int64_t getKeysAndValues(const AttentionSpec &attention) { return 2 * getKeys(attention); }
inline int64_t getQueriesAndKeys(const AttentionSpec &attention) { return getQueries(attention) + getKeys(attention); }

// Parts of a matrix that makes queries, keys and values.
inline constexpr Rule queriesOf(StringRef tensor) {
  return {"attention.q", tensor, {}, true, 0, 1, nullptr, getKeysAndValues};
}
inline constexpr Rule keysOf(StringRef tensor) { return {"attention.k", tensor, {}, true, 0, 1, getQueries, getKeys}; }
inline constexpr Rule valuesOf(StringRef tensor) { return {"attention.v", tensor, {}, true, 0, 1, getQueriesAndKeys}; }

/// The matrices of all experts form one tensor, one below the other.
inline constexpr Rule kDbrxBlock[] = {
    copy("norm1.gamma", "norm_attn_norm.norm_1.weight"),
    queriesOf("norm_attn_norm.attn.Wqkv.weight"),
    keysOf("norm_attn_norm.attn.Wqkv.weight"),
    valuesOf("norm_attn_norm.attn.Wqkv.weight"),
    linear("attention.o", "norm_attn_norm.attn.out_proj.weight"),
    copy("norm2.gamma", "norm_attn_norm.norm_2.weight"),
    linear("gate", "ffn.router.layer.weight"),
    {.parameter = "w1",
     .tensor = "ffn.experts.mlp.w1",
     .second = "ffn.experts.mlp.v1",
     .transpose = true,
     .stacked = 2},
    {.parameter = "w2", .tensor = "ffn.experts.mlp.w2", .stacked = 2},
};

inline constexpr Rule kBailingModel[] = {
    copy("embedding", "model.word_embeddings.weight"),
    copy("norm.gamma", "model.norm.weight"),
    linear("head", "lm_head.weight"),
};

/// Goes before DeepSeek's and Llama's.
inline constexpr Rule kBailingBlock[] = {
    queriesOf("attention.query_key_value.weight"),
    keysOf("attention.query_key_value.weight"),
    valuesOf("attention.query_key_value.weight"),
    linear("attention.o", "attention.dense.weight"),
    copy("attention.q_norm", "attention.query_layernorm.weight"),
    copy("attention.k_norm", "attention.key_layernorm.weight"),
    copy("selection_bias", "mlp.gate.expert_bias"),
};

} // namespace mlir::moe::names

#endif // MOE_LIB_IMPORT_CHECKPOINTNAMES_H
