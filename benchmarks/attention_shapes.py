"""The attentions that a GPU session times, in plans and in PyTorch. This is no program of its own."""
from typing import NamedTuple


class Shape(NamedTuple):
    """A causal attention in bf16: heads of queries, heads of keys and values, columns of a head, length and batch."""

    heads: int
    key_heads: int
    columns: int
    sequence: int
    batch: int = 1


SHAPES = {
    "llama-8b-4k": Shape(32, 8, 128, 4096, 2),
    "llama-8b-16k": Shape(32, 8, 128, 16384),
    "qwen3-30b-4k": Shape(32, 4, 128, 4096, 2),
    "gpt-oss-4k": Shape(64, 8, 64, 4096, 2),
    "gpt2-1k": Shape(12, 12, 64, 1024, 8),
    "tiny": Shape(2, 1, 16, 64),  # for trying out
}


def get_config(shape):
    """Configuration of a model with one block that has this attention, and is small otherwise."""
    return {"architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": 256, "intermediate_size": 256,
            "num_hidden_layers": 1, "num_attention_heads": shape.heads, "num_key_value_heads": shape.key_heads,
            "head_dim": shape.columns, "vocab_size": 256, "hidden_act": "silu", "max_position_embeddings": shape.sequence,
            "rms_norm_eps": 1e-5, "tie_word_embeddings": False, "attention_bias": False, "mlp_bias": False, "rope_theta": 1e4}


def get_flops(shape):
    """FLOPs of the forward: two products over the half of the scores that the mask leaves. The backward has five such products."""
    return 2 * 2 * shape.batch * shape.heads * shape.columns * shape.sequence * (shape.sequence + 1) / 2
