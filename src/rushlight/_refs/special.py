"""`torch._refs.special`: the operators of `torch.special`."""

from rushlight._refs import door

__all__, __getattr__ = door(__name__)
