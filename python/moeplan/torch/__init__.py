"""Plans as layers of PyTorch models.

`PlanModule` is a layer that runs a plan of `moe-compile --halves`. `replace_moe` puts such layers into a model of Hugging Face's
library transformers. docs/PyTorch.md describes both.
"""

import os

import torch.distributed as dist

# NCCL must start a plan's simultaneous exchanges of several groups in the order of the program. It reads this variable when it starts.
# An earlier process group may have started it. Plans that need the order are then refused.
if not (dist.is_available() and dist.is_initialized()):
    os.environ.setdefault("NCCL_LAUNCH_ORDER_IMPLICIT", "1")

from ._balance import load_balancing_loss  # noqa: E402
from ._checkpoint import full_state_dict, load_full_state_dict  # noqa: E402
from ._halves import Halves  # noqa: E402
from ._module import PlanModule  # noqa: E402
from ._optim import clip_grad_norm_  # noqa: E402
from ._replace import compile_block, replace_moe  # noqa: E402
from ._wrappers import leave_parts_out_of_ddp  # noqa: E402

leave_parts_out_of_ddp()

__all__ = ["Halves", "PlanModule", "clip_grad_norm_", "compile_block", "full_state_dict", "load_balancing_loss", "load_full_state_dict",
           "replace_moe"]
