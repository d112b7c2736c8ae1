"""The operators, one file a family; `registry.py` is where a declaration becomes functions."""
