"""Which family file each public name is in. Written by scripts/index.py; do not edit."""

FUNCTIONS = {
    "Tensor.copy": "copying",
    "Tensor.copy_": "copying",
    "Tensor.expand": "shape",
    "Tensor.sum_to_size": "reduce",
    "Tensor.to": "copying",
    "add": "elementwise",
    "clone": "copying",
    "exp": "elementwise",
    "mul": "elementwise",
    "sum": "reduce",
    "transpose": "shape",
}

METHODS = {
    "add": "add",
    "clone": "clone",
    "copy_": "Tensor.copy_",
    "exp": "exp",
    "expand": "Tensor.expand",
    "mul": "mul",
    "sum": "sum",
    "sum_to_size": "Tensor.sum_to_size",
    "to": "Tensor.to",
    "transpose": "transpose",
}

INPLACE = {
    "add_": "add",
    "exp_": "exp",
    "mul_": "mul",
}
