"""`torch._refs.special`: the operators of `torch.special`."""

from rushlight._refs import namespace

__all__, __getattr__ = namespace(__name__)
