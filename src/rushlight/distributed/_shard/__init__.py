"""`torch.distributed._shard`: tensors whose parts are listed one by one. DTensor has replaced them; older checkpoints are of them."""
