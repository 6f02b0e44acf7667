"""Tiny models of transformers of five families, in f32 or f64, and their loss and gradients."""

import contextlib

import torch
import transformers

from precision import double_precision

VOCABULARY, LENGTH = 64, 8
_SIZES = dict(hidden_size=16, num_hidden_layers=2, num_attention_heads=2, num_key_value_heads=2, vocab_size=VOCABULARY, bos_token_id=None,
              eos_token_id=None, pad_token_id=None)
_HEADS = dict(_SIZES, head_dim=8)
_LATENT = dict(q_lora_rank=8, kv_lora_rank=8, qk_rope_head_dim=4, qk_nope_head_dim=4, v_head_dim=8)
FAMILIES = {
    "mixtral": lambda: transformers.MixtralConfig(**_HEADS, intermediate_size=24, num_local_experts=8, num_experts_per_tok=2),
    "qwen3_moe": lambda: transformers.Qwen3MoeConfig(**_HEADS, intermediate_size=24, moe_intermediate_size=12, num_experts=8,
                                                     num_experts_per_tok=4, norm_topk_prob=True),
    "olmoe": lambda: transformers.OlmoeConfig(**_SIZES, intermediate_size=24, num_experts=8, num_experts_per_tok=4,
                                              norm_topk_prob=False),
    "deepseek_v3": lambda: transformers.DeepseekV3Config(**_SIZES, **_LATENT, intermediate_size=24, moe_intermediate_size=12,
                                                         n_routed_experts=8, num_experts_per_tok=2, n_group=4, topk_group=2,
                                                         n_shared_experts=1, first_k_dense_replace=1, norm_topk_prob=True),
    "gpt_oss": lambda: transformers.GptOssConfig(**_HEADS, intermediate_size=24, num_local_experts=8, num_experts_per_tok=2),
}


def precision_of(dtype):
    """Context in which a model of `dtype` runs in all its parts."""
    return double_precision() if dtype == torch.float64 else contextlib.nullcontext()


def make_model(family, dtype, seed=1):
    """A random model, the same for each seed. The biases of a selection are random, too."""
    torch.manual_seed(seed)
    config = FAMILIES[family]()
    config._attn_implementation = "eager"
    config._experts_implementation = "eager"
    model = transformers.AutoModelForCausalLM.from_config(config, attn_implementation="eager").to(dtype)
    with torch.no_grad():
        for name, value in [*model.named_parameters(), *model.named_buffers()]:
            if name.endswith("e_score_correction_bias"):
                value.normal_(std=0.1)
            elif value.dim() > 1 and value.is_floating_point():
                value.normal_(std=value.shape[-1] ** -0.5)
            elif name.endswith("bias"):
                value.normal_(std=0.2)
    return model


def draw_tokens(shards, seed=0):
    """[shards, 1, LENGTH]: a sequence for each data-parallel rank."""
    return torch.randint(0, VOCABULARY, (shards, 1, LENGTH), generator=torch.Generator().manual_seed(seed))


def run(model, tokens):
    """(loss, logits) of next tokens."""
    logits = model(input_ids=tokens).logits
    loss = torch.nn.functional.cross_entropy(logits[:, :-1].reshape(-1, VOCABULARY), tokens[:, 1:].reshape(-1))
    return loss, logits


def step_reference(model, shards):
    """Mean loss of all shards, and each one's logits. The model gets the gradients of the mean."""
    model.zero_grad()
    losses, logits = zip(*(run(model, tokens) for tokens in shards))
    loss = sum(losses) / len(losses)
    loss.backward()
    return loss.detach(), [one.detach() for one in logits]
