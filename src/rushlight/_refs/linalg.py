"""`torch._refs.linalg`: the operators of `torch.linalg`."""

from rushlight._refs import namespace

__all__, __getattr__ = namespace(__name__)
