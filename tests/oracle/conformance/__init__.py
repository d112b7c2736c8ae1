"""How much of PyTorch's behaviour the package reproduces, measured by PyTorch's own databases.

PyTorch ships its tests' sample inputs, error inputs, supported dtypes and constructor arguments:
`op_db`, `module_db` and `optim_db` of `torch.testing._internal`. Every expected result is computed
by the installed torch at run time; nothing is written down here but the cases of the learning-rate
schedulers, for which there is no database.

Operators: the function, its method, in-place method, Python operator, aliases and `out=` form, each
found by name, on the database's inputs (strides, shared memory and written arguments included).
Compared are number and kind of outputs, fields of named tuples, shape, dtype, values, and that
in-place calls return their input. Gradients: `autograd.grad` with fixed random cotangents; second
gradients for the first inputs. Errors: the same exception type (`messages` says apart how many match
the database's text); `refusals`: in-place calls that PyTorch rejects because the result does not fit.

Modules: PyTorch's parameters loaded with `load_state_dict`, forward in train and eval mode, buffers
afterwards, gradients, keys of `state_dict`, `repr`, errors. Optimizers: parameters after each of ten
steps, once with groups, once through a `state_dict` round trip. Schedulers: thirty rates.

What may differ: `torch.testing.assert_close`'s tolerance, and beyond it any value no further from
the float64 result than eight times torch's own error; any index among equal elements; sign, phase
and order where a factorisation leaves them free; `None` for a zero gradient. entries.py lists every
special treatment and everything that is left out.

libraries.py carries inputs from one side to the other, observations.py compares what came out,
calls.py, gradients.py and errors.py make the checks that operators.py, modules.py, optimizers.py and
schedulers.py ask for; workers.py runs them where a crash costs one check, runs.py all of it side by
side, counting.py makes the table, known.py reads known_failures.txt.
"""
