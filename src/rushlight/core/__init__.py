"""What everything stands on: the Tensor, its memory, dtypes, devices, shapes, settings; no kernel and no operator."""
