"""`torch._refs.nn.functional`: the operators of `torch.nn.functional`."""

from rushlight._refs import namespace

__all__, __getattr__ = namespace(__name__)
