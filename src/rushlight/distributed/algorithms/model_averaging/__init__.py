"""`torch.distributed.algorithms.model_averaging`: parameters that are averaged now and then, and not gradients in each step."""
