"""PyTorch's random numbers: the generator and the distributions drawn from it, on arrays."""
