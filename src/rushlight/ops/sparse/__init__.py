"""Sparse tensors: their parts, and what public operators do with them."""
