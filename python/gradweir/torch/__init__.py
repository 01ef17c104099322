"""gradweir for PyTorch: one line around the optimizer.

    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4)
    optimizer = gradweir.torch.Optimizer(optimizer, model)
"""

try:
    import torch as _torch
except ImportError as _error:
    raise ImportError(
        f"gradweir.torch needs PyTorch, which cannot be imported ({_error}): "
        f"pip install torch, or Debian's python3-torch"
    ) from None

if tuple(int(part) for part in _torch.__version__.split("+")[0].split(".")[:2]) < (1, 13):
    raise ImportError(f"gradweir.torch needs PyTorch 1.13 or newer; this is {_torch.__version__}")

from gradweir.torch.optimizer import Optimizer  # noqa: E402
from gradweir.torch.state import load_checkpoint, save_checkpoint  # noqa: E402

__all__ = ["Optimizer", "load_checkpoint", "save_checkpoint"]
