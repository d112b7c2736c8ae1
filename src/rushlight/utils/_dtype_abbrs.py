"""`torch.utils._dtype_abbrs`: short names of dtypes, as graphs are printed with."""

from __future__ import annotations

import rushlight

__all__ = ["dtype_abbrs"]

dtype_abbrs = {
    rushlight.bfloat16: "bf16", rushlight.float64: "f64", rushlight.float32: "f32", rushlight.float16: "f16",
    rushlight.complex32: "c32", rushlight.complex64: "c64", rushlight.complex128: "c128", rushlight.int8: "i8",
    rushlight.int16: "i16", rushlight.int32: "i32", rushlight.int64: "i64", rushlight.bool: "b8",
    rushlight.uint8: "u8", rushlight.uint16: "u16", rushlight.uint32: "u32", rushlight.uint64: "u64",
}  # fmt: skip
