"""Tensors made: of data, of a rule, of random numbers, as copies of others."""
