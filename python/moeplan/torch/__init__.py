"""Plans as layers of PyTorch models.

`PlanModule` is a layer that runs a plan of `moe-compile --halves`. `replace_moe` puts such layers into a model of Hugging Face's
library transformers. docs/PyTorch.md describes both.
"""

from ._checkpoint import full_state_dict, load_full_state_dict
from ._halves import Halves
from ._module import PlanModule
from ._optim import clip_grad_norm_
from ._replace import compile_block, replace_moe

__all__ = ["Halves", "PlanModule", "clip_grad_norm_", "compile_block", "full_state_dict", "load_full_state_dict", "replace_moe"]
