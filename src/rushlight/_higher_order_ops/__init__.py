"""`torch._higher_order_ops`: operators that take functions. Here they call them, step by step."""
