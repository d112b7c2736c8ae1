"""What all other packages use: Tensor, memory, dtypes, devices, shapes, settings; no kernels and no operators."""
