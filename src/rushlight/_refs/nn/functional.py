"""`torch._refs.nn.functional`: the operators of `torch.nn.functional`."""

from rushlight._refs import door

__all__, __getattr__ = door(__name__)
