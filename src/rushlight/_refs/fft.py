"""`torch._refs.fft`: the operators of `torch.fft`."""

from rushlight._refs import namespace

__all__, __getattr__ = namespace(__name__)
