"""Back ends: each a closed list of kernels on arrays; `base.py` says what each kernel means."""
