//===- Checkpoint.cpp - parameters and published checkpoints --------------===//
//
// Tables of names. In them {i} is a block and {e} an expert.
//
//===----------------------------------------------------------------------===//

#include "Checkpoint.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"

using namespace mlir;
using namespace mlir::moe;
using llvm::StringRef;

namespace {

struct Rule {
  StringRef parameter;
  StringRef tensor;
  StringRef second = {}; ///< its columns follow the first's one by one
  bool transpose = false;
  /// Which of how many equal parts of the tensor's columns.
  int64_t part = 0, parts = 1;
  /// How many of the tensor's columns stand before and after the parameter's.
  int64_t LatentSpec::*before = nullptr, LatentSpec::*after = nullptr;
  bool ofHeads = false; ///< before and after those of each head
};

struct Checkpoint {
  StringRef architecture;
  StringRef block; ///< what the names of a block's tensors begin with
  /// Searched in this order; parameters of blocks without "layer{i}.".
  SmallVector<ArrayRef<Rule>, 2> ofBlock;
  ArrayRef<Rule> ofModel;
  StringRef decoderBlock = {};
  ArrayRef<Rule> ofDecoderBlock = {};
};

/// A tensor as it is.
constexpr Rule copy(StringRef parameter, StringRef tensor) { return {parameter, tensor}; }
/// The weights of PyTorch's Linear, [out, in].
constexpr Rule linear(StringRef parameter, StringRef tensor) { return {parameter, tensor, {}, true}; }
/// Those of a gate and an up projection.
constexpr Rule gated(StringRef parameter, StringRef gate, StringRef up) { return {parameter, gate, up, true}; }

constexpr Rule llamaModel[] = {
    copy("embedding", "model.embed_tokens.weight"),
    copy("norm.gamma", "model.norm.weight"),
    linear("head", "lm_head.weight"),
};

constexpr Rule llamaBlock[] = {
    copy("norm1.gamma", "input_layernorm.weight"),
    linear("attention.q", "self_attn.q_proj.weight"),
    copy("attention.q_bias", "self_attn.q_proj.bias"),
    linear("attention.k", "self_attn.k_proj.weight"),
    copy("attention.k_bias", "self_attn.k_proj.bias"),
    linear("attention.v", "self_attn.v_proj.weight"),
    copy("attention.v_bias", "self_attn.v_proj.bias"),
    linear("attention.o", "self_attn.o_proj.weight"),
    copy("attention.o_bias", "self_attn.o_proj.bias"),
    copy("attention.q_norm", "self_attn.q_norm.weight"),
    copy("attention.k_norm", "self_attn.k_norm.weight"),
    copy("attention.sinks", "self_attn.sinks"),
    copy("norm2.gamma", "post_attention_layernorm.weight"),
    gated("ffn.w1", "mlp.gate_proj.weight", "mlp.up_proj.weight"),
    linear("ffn.w2", "mlp.down_proj.weight"),
};

/// Goes before Llama's: two parameters share the columns of one tensor, of kv_b_proj head by head.
constexpr Rule deepseekBlock[] = {
    linear("attention.q_a", "self_attn.q_a_proj.weight"),
    copy("attention.q_a_bias", "self_attn.q_a_proj.bias"),
    copy("attention.q_a_norm", "self_attn.q_a_layernorm.weight"),
    linear("attention.q_b", "self_attn.q_b_proj.weight"),
    {"attention.kv_a", "self_attn.kv_a_proj_with_mqa.weight", {}, true, 0, 1, nullptr, &LatentSpec::rotaryDim},
    {"attention.kv_a_bias", "self_attn.kv_a_proj_with_mqa.bias", {}, false, 0, 1, nullptr, &LatentSpec::rotaryDim},
    {"attention.k_shared", "self_attn.kv_a_proj_with_mqa.weight", {}, true, 0, 1, &LatentSpec::rank},
    {"attention.k_shared_bias", "self_attn.kv_a_proj_with_mqa.bias", {}, false, 0, 1, &LatentSpec::rank},
    copy("attention.kv_a_norm", "self_attn.kv_a_layernorm.weight"),
    {"attention.k", "self_attn.kv_b_proj.weight", {}, true, 0, 1, nullptr, &LatentSpec::valueDim, true},
    {"attention.v", "self_attn.kv_b_proj.weight", {}, true, 0, 1, &LatentSpec::plainDim, nullptr, true},
    copy("selection_bias", "mlp.gate.e_score_correction_bias"),
    gated("shared_w1", "mlp.shared_experts.gate_proj.weight", "mlp.shared_experts.up_proj.weight"),
    linear("shared_w2", "mlp.shared_experts.down_proj.weight"),
};

constexpr Rule mixtralExperts[] = {
    linear("gate", "block_sparse_moe.gate.weight"),
    gated("w1", "block_sparse_moe.experts.{e}.w1.weight", "block_sparse_moe.experts.{e}.w3.weight"),
    linear("w2", "block_sparse_moe.experts.{e}.w2.weight"),
};

constexpr Rule qwenExperts[] = {
    linear("gate", "mlp.gate.weight"),
    gated("w1", "mlp.experts.{e}.gate_proj.weight", "mlp.experts.{e}.up_proj.weight"),
    linear("w2", "mlp.experts.{e}.down_proj.weight"),
    gated("shared_w1", "mlp.shared_expert.gate_proj.weight", "mlp.shared_expert.up_proj.weight"),
    linear("shared_w2", "mlp.shared_expert.down_proj.weight"),
    linear("shared_gate", "mlp.shared_expert_gate.weight"),
};

/// Stacks of experts, [in, out], gate and up columns interleaved; not quantised.
constexpr Rule gptOssExperts[] = {
    linear("gate", "mlp.router.weight"),    copy("gate_bias", "mlp.router.bias"),
    copy("w1", "mlp.experts.gate_up_proj"), copy("b1", "mlp.experts.gate_up_proj_bias"),
    copy("w2", "mlp.experts.down_proj"),    copy("b2", "mlp.experts.down_proj_bias"),
};

constexpr Rule gpt2Model[] = {
    copy("embedding", "transformer.wte.weight"),
    copy("positions", "transformer.wpe.weight"),
    copy("norm.gamma", "transformer.ln_f.weight"),
    copy("norm.beta", "transformer.ln_f.bias"),
    linear("head", "lm_head.weight"),
};

/// Its Conv1D keeps weights as [in, out].
constexpr Rule gpt2Block[] = {
    copy("norm1.gamma", "ln_1.weight"),
    copy("norm1.beta", "ln_1.bias"),
    {"attention.q", "attn.c_attn.weight", {}, false, 0, 3},
    {"attention.q_bias", "attn.c_attn.bias", {}, false, 0, 3},
    {"attention.k", "attn.c_attn.weight", {}, false, 1, 3},
    {"attention.k_bias", "attn.c_attn.bias", {}, false, 1, 3},
    {"attention.v", "attn.c_attn.weight", {}, false, 2, 3},
    {"attention.v_bias", "attn.c_attn.bias", {}, false, 2, 3},
    copy("attention.o", "attn.c_proj.weight"),
    copy("attention.o_bias", "attn.c_proj.bias"),
    copy("norm2.gamma", "ln_2.weight"),
    copy("norm2.beta", "ln_2.bias"),
    copy("ffn.w1", "mlp.c_fc.weight"),
    copy("ffn.b1", "mlp.c_fc.bias"),
    copy("ffn.w2", "mlp.c_proj.weight"),
    copy("ffn.b2", "mlp.c_proj.bias"),
    linear("gate", "mlp.gate.weight"),
    copy("w1", "mlp.experts.{e}.c_fc.weight"),
    copy("b1", "mlp.experts.{e}.c_fc.bias"),
    copy("w2", "mlp.experts.{e}.c_proj.weight"),
    copy("b2", "mlp.experts.{e}.c_proj.bias"),
};

constexpr Rule bertModel[] = {
    copy("embedding", "bert.embeddings.word_embeddings.weight"),
    copy("positions", "bert.embeddings.position_embeddings.weight"),
    copy("token_types", "bert.embeddings.token_type_embeddings.weight"),
    copy("embedding_norm.gamma", "bert.embeddings.LayerNorm.weight"),
    copy("embedding_norm.beta", "bert.embeddings.LayerNorm.bias"),
    linear("head_transform", "cls.predictions.transform.dense.weight"),
    copy("head_transform_bias", "cls.predictions.transform.dense.bias"),
    copy("norm.gamma", "cls.predictions.transform.LayerNorm.weight"),
    copy("norm.beta", "cls.predictions.transform.LayerNorm.bias"),
    linear("head", "cls.predictions.decoder.weight"),
    copy("head_bias", "cls.predictions.bias"),
};

constexpr Rule bertBlock[] = {
    linear("attention.q", "attention.self.query.weight"),
    copy("attention.q_bias", "attention.self.query.bias"),
    linear("attention.k", "attention.self.key.weight"),
    copy("attention.k_bias", "attention.self.key.bias"),
    linear("attention.v", "attention.self.value.weight"),
    copy("attention.v_bias", "attention.self.value.bias"),
    linear("attention.o", "attention.output.dense.weight"),
    copy("attention.o_bias", "attention.output.dense.bias"),
    copy("norm1.gamma", "attention.output.LayerNorm.weight"),
    copy("norm1.beta", "attention.output.LayerNorm.bias"),
    linear("ffn.w1", "intermediate.dense.weight"),
    copy("ffn.b1", "intermediate.dense.bias"),
    linear("ffn.w2", "output.dense.weight"),
    copy("ffn.b2", "output.dense.bias"),
    copy("norm2.gamma", "output.LayerNorm.weight"),
    copy("norm2.beta", "output.LayerNorm.bias"),
    linear("gate", "moe.gate.weight"),
    linear("w1", "moe.experts.{e}.intermediate.dense.weight"),
    copy("b1", "moe.experts.{e}.intermediate.dense.bias"),
    linear("w2", "moe.experts.{e}.output.dense.weight"),
    copy("b2", "moe.experts.{e}.output.dense.bias"),
};

constexpr Rule switchModel[] = {
    copy("embedding", "shared.weight"),
    copy("encoder.relative_bias", "encoder.block.0.layer.0.SelfAttention.relative_attention_bias.weight"),
    copy("decoder.relative_bias", "decoder.block.0.layer.0.SelfAttention.relative_attention_bias.weight"),
    copy("encoder_norm.gamma", "encoder.final_layer_norm.weight"),
    copy("norm.gamma", "decoder.final_layer_norm.weight"),
    linear("head", "lm_head.weight"),
};

constexpr Rule switchEncoderBlock[] = {
    copy("norm1.gamma", "0.layer_norm.weight"),
    linear("attention.q", "0.SelfAttention.q.weight"),
    linear("attention.k", "0.SelfAttention.k.weight"),
    linear("attention.v", "0.SelfAttention.v.weight"),
    linear("attention.o", "0.SelfAttention.o.weight"),
    copy("norm2.gamma", "1.layer_norm.weight"),
    linear("ffn.w1", "1.mlp.wi.weight"),
    linear("ffn.w2", "1.mlp.wo.weight"),
    linear("gate", "1.mlp.router.classifier.weight"),
    copy("gate_bias", "1.mlp.router.classifier.bias"),
    linear("w1", "1.mlp.experts.expert_{e}.wi.weight"),
    linear("w2", "1.mlp.experts.expert_{e}.wo.weight"),
};

constexpr Rule switchDecoderBlock[] = {
    copy("norm1.gamma", "0.layer_norm.weight"),
    linear("attention.q", "0.SelfAttention.q.weight"),
    linear("attention.k", "0.SelfAttention.k.weight"),
    linear("attention.v", "0.SelfAttention.v.weight"),
    linear("attention.o", "0.SelfAttention.o.weight"),
    copy("norm_cross.gamma", "1.layer_norm.weight"),
    linear("cross.q", "1.EncDecAttention.q.weight"),
    linear("cross.k", "1.EncDecAttention.k.weight"),
    linear("cross.v", "1.EncDecAttention.v.weight"),
    linear("cross.o", "1.EncDecAttention.o.weight"),
    copy("norm2.gamma", "2.layer_norm.weight"),
    linear("ffn.w1", "2.mlp.wi.weight"),
    linear("ffn.w2", "2.mlp.wo.weight"),
    linear("gate", "2.mlp.router.classifier.weight"),
    copy("gate_bias", "2.mlp.router.classifier.bias"),
    linear("w1", "2.mlp.experts.expert_{e}.wi.weight"),
    linear("w2", "2.mlp.experts.expert_{e}.wo.weight"),
};

} // namespace

static ArrayRef<Checkpoint> getCheckpoints() {
  static const Checkpoint checkpoints[] = {
      {"MixtralForCausalLM", "model.layers.{i}.", {llamaBlock, mixtralExperts}, llamaModel},
      {"Qwen2MoeForCausalLM", "model.layers.{i}.", {llamaBlock, qwenExperts}, llamaModel},
      {"Qwen3MoeForCausalLM", "model.layers.{i}.", {llamaBlock, qwenExperts}, llamaModel},
      {"OlmoeForCausalLM", "model.layers.{i}.", {llamaBlock, qwenExperts}, llamaModel},
      {"DeepseekV2ForCausalLM", "model.layers.{i}.", {deepseekBlock, llamaBlock, qwenExperts}, llamaModel},
      {"DeepseekV3ForCausalLM", "model.layers.{i}.", {deepseekBlock, llamaBlock, qwenExperts}, llamaModel},
      {"GptOssForCausalLM", "model.layers.{i}.", {llamaBlock, gptOssExperts}, llamaModel},
      {"GPT2MoEForCausalLM", "transformer.h.{i}.", {gpt2Block}, gpt2Model},
      {"BertMoEForMaskedLM", "bert.encoder.layer.{i}.", {bertBlock}, bertModel},
      {"SwitchTransformersForConditionalGeneration",
       "encoder.block.{i}.layer.",
       {switchEncoderBlock},
       switchModel,
       "decoder.block.{i}.layer.",
       switchDecoderBlock},
  };
  return checkpoints;
}

static const Rule *find(ArrayRef<Rule> rules, StringRef parameter) {
  const Rule *rule = llvm::find_if(rules, [&](const Rule &candidate) { return candidate.parameter == parameter; });
  return rule == rules.end() ? nullptr : rule;
}

/// The rule for `parameter` and what stands before its tensors' names; takes the block from the parameter's name.
static std::pair<const Rule *, std::string> findRule(const Checkpoint &checkpoint, int64_t encoderBlocks,
                                                     StringRef parameter) {
  int64_t block;
  StringRef name = parameter;
  if (!name.consume_front("layer") || name.consumeInteger(10, block) || !name.consume_front("."))
    return {find(checkpoint.ofModel, parameter), ""};
  bool isDecoder = !checkpoint.decoderBlock.empty() && block >= encoderBlocks;
  auto [before, after] = (isDecoder ? checkpoint.decoderBlock : checkpoint.block).split("{i}");
  std::string prefix = (before + llvm::Twine(isDecoder ? block - encoderBlocks : block) + after).str();
  if (isDecoder)
    return {find(checkpoint.ofDecoderBlock, name), prefix};
  for (ArrayRef<Rule> rules : checkpoint.ofBlock)
    if (const Rule *rule = find(rules, name))
      return {rule, prefix};
  return {nullptr, ""};
}

DictionaryAttr mlir::moe::getSource(Builder &builder, StringRef architecture, const ModelSpec &model,
                                    StringRef parameter, RankedTensorType type) {
  const Checkpoint *checkpoint = llvm::find_if(
      getCheckpoints(), [&](const Checkpoint &candidate) { return candidate.architecture == architecture; });
  if (checkpoint == getCheckpoints().end())
    return {};
  auto [rule, prefix] = findRule(*checkpoint, static_cast<int64_t>(model.blocks.size()), parameter);
  if (!rule)
    return {};
  SmallVector<Attribute> tensors;
  for (StringRef tensor : {rule->tensor, rule->second})
    if (!tensor.empty())
      tensors.push_back(builder.getStringAttr(prefix + tensor));
  SmallVector<NamedAttribute> source = {builder.getNamedAttr("tensors", builder.getArrayAttr(tensors))};
  auto add = [&](bool present, StringRef key, Attribute value) {
    if (present)
      source.push_back(builder.getNamedAttr(key, value));
  };
  auto getSize = [&](int64_t LatentSpec::*size) { return size ? *model.attention.latent.*size : 0; };
  int64_t blocks = rule->ofHeads ? model.attention.heads : 1, columns = type.getShape().back() / blocks;
  int64_t begin = rule->part * columns + getSize(rule->before);
  int64_t of = rule->parts * columns + getSize(rule->before) + getSize(rule->after);
  add(rule->transpose, "transpose", builder.getUnitAttr());
  add(rule->tensor.contains("{e}"), "experts", builder.getI64IntegerAttr(type.getDimSize(0)));
  add(of > columns, "begin", builder.getI64IntegerAttr(begin));
  add(of > columns, "of", builder.getI64IntegerAttr(of));
  add(blocks > 1, "blocks", builder.getI64IntegerAttr(blocks));
  return builder.getDictionaryAttr(source);
}
