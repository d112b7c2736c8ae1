"""Loops of ufuncs for half types by NumPy's loops for float32, a block at a time.

NumPy computes float16, and ml_dtypes bfloat16, element by element. A block of halves is widened
here, given to the loop for float32, and what comes out is rounded: one conversion each way.
"""

from __future__ import annotations

from functools import cache

from rushlight._codegen import native

BLOCK = 2048  # elements widened at a time: three arrays of them stay in the first cache

# Fields of the data: the loop for float32, its data, (not used), the number of inputs.
_TEXT = """
define void @through_NAME(ptr %args, ptr %size, ptr %steps, ptr %plan) {
entry:
  %blocks = alloca [3 x [BLOCK x float]], align 64
  %fargs = alloca [3 x ptr]
  %fsteps = alloca [3 x i64]
  %count = alloca i64
  store [3 x i64] [i64 4, i64 4, i64 4], ptr %fsteps
  %n = load i64, ptr %size
  %loop = load ptr, ptr %plan
  %data_at = getelementptr i64, ptr %plan, i64 1
  %data = load ptr, ptr %data_at
  %inputs_at = getelementptr i64, ptr %plan, i64 3
  %inputs = load i64, ptr %inputs_at
  %any = icmp sgt i64 %n, 0
  br i1 %any, label %block, label %done
block:
  %i = phi i64 [ 0, %entry ], [ %i1, %after ]
  %left = sub i64 %n, %i
  %c = call i64 @llvm.smin.i64(i64 %left, i64 BLOCK)
  store i64 %c, ptr %count
  br label %arg
arg:
  %k = phi i64 [ 0, %block ], [ %k1, %widened ]
  %arg_at = getelementptr ptr, ptr %args, i64 %k
  %arg0 = load ptr, ptr %arg_at
  %step_at = getelementptr i64, ptr %steps, i64 %k
  %step = load i64, ptr %step_at
  %by = mul i64 %step, %i
  %from = getelementptr i8, ptr %arg0, i64 %by
  %buffer = getelementptr [BLOCK x float], ptr %blocks, i64 %k
  %farg_at = getelementptr ptr, ptr %fargs, i64 %k
  store ptr %buffer, ptr %farg_at
  %dense = icmp eq i64 %step, 2
  br i1 %dense, label %widen_dense, label %widen_apart
WIDEN_DENSE
WIDEN_APART
widened:
  %k1 = add i64 %k, 1
  %more = icmp slt i64 %k1, %inputs
  br i1 %more, label %arg, label %run
run:
  %result = getelementptr [BLOCK x float], ptr %blocks, i64 %inputs
  %fout_at = getelementptr ptr, ptr %fargs, i64 %inputs
  store ptr %result, ptr %fout_at
  call void %loop(ptr %fargs, ptr %count, ptr %fsteps, ptr %data)
  %out_at = getelementptr ptr, ptr %args, i64 %inputs
  %out0 = load ptr, ptr %out_at
  %out_step_at = getelementptr i64, ptr %steps, i64 %inputs
  %out_step = load i64, ptr %out_step_at
  %out_by = mul i64 %out_step, %i
  %to = getelementptr i8, ptr %out0, i64 %out_by
  %out_dense = icmp eq i64 %out_step, 2
  br i1 %out_dense, label %round_dense, label %round_apart
ROUND_DENSE
ROUND_APART
after:
  %i1 = add i64 %i, %c
  %again = icmp slt i64 %i1, %n
  br i1 %again, label %block, label %done
done:
  ret void
}
"""

_WIDEN = """LABEL:
  %LABEL.j = phi i64 [ 0, %arg ], [ %LABEL.j1, %LABEL ]
  %LABEL.by = mul i64 %LABEL.j, STEP
  %LABEL.at = getelementptr i8, ptr %from, i64 %LABEL.by
CONVERT
  %LABEL.to = getelementptr float, ptr %buffer, i64 %LABEL.j
  store float %LABEL.f, ptr %LABEL.to
  %LABEL.j1 = add i64 %LABEL.j, 1
  %LABEL.more = icmp slt i64 %LABEL.j1, %c
  br i1 %LABEL.more, label %LABEL, label %widened"""

_ROUND = """LABEL:
  %LABEL.j = phi i64 [ 0, %run ], [ %LABEL.j1, %LABEL ]
  %LABEL.from = getelementptr float, ptr %result, i64 %LABEL.j
  %LABEL.f = load float, ptr %LABEL.from
  %LABEL.by = mul i64 %LABEL.j, STEP
  %LABEL.at = getelementptr i8, ptr %to, i64 %LABEL.by
CONVERT
  %LABEL.j1 = add i64 %LABEL.j, 1
  %LABEL.more = icmp slt i64 %LABEL.j1, %c
  br i1 %LABEL.more, label %LABEL, label %after"""

_FROM_F16 = """  %LABEL.h = load half, ptr %LABEL.at
  %LABEL.f = fpext half %LABEL.h to float"""
_TO_F16 = """  %LABEL.h = fptrunc float %LABEL.f to half
  store half %LABEL.h, ptr %LABEL.at"""
_FROM_BF16 = """  %LABEL.h = load i16, ptr %LABEL.at
  %LABEL.w = zext i16 %LABEL.h to i32
  %LABEL.b = shl i32 %LABEL.w, 16
  %LABEL.f = bitcast i32 %LABEL.b to float"""
# To nearest, ties to even: the carry of half a unit; NaN keeps its upper bits, and one that is set.
_TO_BF16 = """  %LABEL.b = bitcast float %LABEL.f to i32
  %LABEL.u = lshr i32 %LABEL.b, 16
  %LABEL.o = and i32 %LABEL.u, 1
  %LABEL.r = add i32 %LABEL.o, 32767
  %LABEL.s = add i32 %LABEL.b, %LABEL.r
  %LABEL.t = lshr i32 %LABEL.s, 16
  %LABEL.q = or i32 %LABEL.u, 64
  %LABEL.nan = fcmp uno float %LABEL.f, %LABEL.f
  %LABEL.w = select i1 %LABEL.nan, i32 %LABEL.q, i32 %LABEL.t
  %LABEL.h = trunc i32 %LABEL.w to i16
  store i16 %LABEL.h, ptr %LABEL.at"""


def _text() -> str:
    parts = ["declare i64 @llvm.smin.i64(i64, i64)\n"]
    for name, widen, narrow in (("e", _FROM_F16, _TO_F16), ("E", _FROM_BF16, _TO_BF16)):
        text = _TEXT
        for word, part, convert, apart in (
            ("WIDEN_", _WIDEN, widen, "%step"),
            ("ROUND_", _ROUND, narrow, "%out_step"),
        ):
            for form, step in (("DENSE", "2"), ("APART", apart)):
                label = word.lower() + form.lower()
                written = part.replace("CONVERT", convert).replace("STEP", step)
                text = text.replace(word + form, written.replace("LABEL", label))
        parts.append(text.replace("NAME", name).replace("BLOCK", str(BLOCK)))
    return "".join(parts)


@cache
def through(letter: str) -> int:
    """The address of the loop for float16 ("e") or bfloat16 ("E"). Its data are a loop's for float32
    (an address), that loop's data, a number it does not read, and the number of inputs."""
    return native.load("through float32", _text, ["through_e", "through_E"])["eE".index(letter)]
