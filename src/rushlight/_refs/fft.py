"""`torch._refs.fft`: the operators of `torch.fft`."""

from rushlight._refs import door

__all__, __getattr__ = door(__name__)
