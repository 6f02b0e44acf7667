"""Models of transformers in double precision."""

import contextlib

import torch


@contextlib.contextmanager
def double_precision():
    """Makes transformers compute norms, softmaxes and positions in float64. It uses float32 for any type of the model."""
    kept = torch.float32, torch.float, torch.Tensor.float, torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)
    torch.float32 = torch.float = torch.float64
    torch.Tensor.float = torch.Tensor.double
    try:
        yield
    finally:
        torch.float32, torch.float, torch.Tensor.float = kept[:3]
        torch.set_default_dtype(kept[3])
