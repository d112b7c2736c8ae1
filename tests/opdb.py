"""The operator database: a row for every operator and public function; `test_ops.py` makes the tests.

`ROWS` are the rows of operators, `FUNCTION_ROWS` those of plain functions. `TESTED_ELSEWHERE` says where what has
no row of its own is tested: operators that stand behind one function, and what needs more than a call and its value.
"""

from __future__ import annotations

import importlib
import pkgutil

import opdb_elementwise
import opdb_layers
import opdb_linalg
import opdb_nn
import opdb_reduce
import opdb_shape
import opdb_spatial
import opdb_special

import rushlight.ops
from rushlight.ops.registry import OPS

for found in pkgutil.iter_modules(rushlight.ops.__path__):
    importlib.import_module(f"rushlight.ops.{found.name}")

EVERY = [row for family in [opdb_elementwise, opdb_reduce, opdb_shape, opdb_nn, opdb_linalg, opdb_special, opdb_spatial, opdb_layers] for row in family.ROWS]
ROWS = [row for row in EVERY if row.name in OPS]
FUNCTION_ROWS = [row for row in EVERY if row.name not in OPS]

# operator or function -> what tests it
TESTED_ELSEWHERE: dict[str, str] = {}
