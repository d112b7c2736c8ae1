"""`torch._refs.linalg`: the operators of `torch.linalg`."""

from rushlight._refs import door

__all__, __getattr__ = door(__name__)
