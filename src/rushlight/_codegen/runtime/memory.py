"""A pool behind NumPy's allocator: large arrays get memory that the process has used before.

A fresh large array costs more than what is written into it: the system hands out its pages one by
one, each cleared, at the first touch. The pool keeps the blocks of arrays that are gone and gives
them to the next ones, so that a loop that does the same again touches no new page: three operations
on arrays of 1 MiB, one after the other, take a tenth of the time.

* Arrays of up to 32 KiB go to NumPy's own allocator as ever.
* Others are rounded up to a size of four per power of two, and aligned to 64 bytes. Blocks from 2 MiB
  are mapped from the system in huge pages as far as the array reaches, others come from `malloc`.
* What is kept is bounded: blocks in use and kept together to 5/4 of the most that was in use at one
  time, and 64 MiB, and what is kept to half of the memory of the machine. What was unused for longest
  goes first.

NumPy's allocator is a context variable: `install` is for the context that calls it, which is usually
the main thread's, and for contexts that are copied from it (asyncio). Other threads go on with NumPy's
own allocator, unless they call `install`. Each array remembers where its memory came from, so arrays
may be freed anywhere. tracemalloc sees the arrays as before.

Only on Linux: elsewhere `install` does nothing and says so.
"""

from __future__ import annotations

import os
import sys
from functools import cache
from typing import Any

from rushlight._codegen import native
from rushlight._codegen.runtime import abi

_TEXT = """
@lock = internal global i32 0, align 128
; allocated, peak, kept, hits, misses, the most that is kept, what may be held above 5/4 of the peak
@numbers = global [7 x i64] zeroinitializer, align 128
@clock = internal global i64 0
@lists = internal global [160 x ptr] zeroinitializer  ; per size: the first kept block
@used = internal global [160 x i64] zeroinitializer   ; per size: when it was last asked for
@default = global [5 x ptr] zeroinitializer  ; NumPy's: context malloc calloc realloc free
@handler = global { [$NAME x i8], i8, [5 x ptr] } {
  [$NAME x i8] c"rushlight$PADDING", i8 $VERSION, [5 x ptr] [
    ptr null, ptr @pool_malloc, ptr @pool_calloc, ptr @pool_realloc, ptr @pool_free ] }
@title = global [12 x i8] c"mem_handler\\00"

declare ptr @mmap(ptr, i64, i32, i32, i32, i64)
declare i32 @munmap(ptr, i64)
declare i32 @madvise(ptr, i64, i32)
declare ptr @aligned_alloc(i64, i64)
declare void @free(ptr)
declare i32 @sched_yield()
declare i64 @llvm.ctlz.i64(i64, i1)
declare i64 @llvm.umax.i64(i64, i64)
declare i64 @llvm.umin.i64(i64, i64)
declare { i64, i1 } @llvm.umul.with.overflow.i64(i64, i64)
declare void @llvm.memset.p0.i64(ptr, i8, i64, i1)
declare void @llvm.memcpy.p0.p0.i64(ptr, ptr, i64, i1)

; A block's first 64 bytes: at 0 the next kept block, and, right before the memory that is given out,
; at 48 the size that was asked for, at 56 its class: 0, 1, ... or -1 for NumPy's own blocks, which
; have 16 bytes before the memory.

define internal void @take_lock() {
entry:
  br label %try
try:
  %i = phi i32 [ 0, %entry ], [ %i1, %again ]
  %swap = cmpxchg weak ptr @lock, i32 0, i32 1 acquire monotonic, align 4
  %ours = extractvalue { i32, i1 } %swap, 1
  br i1 %ours, label %done, label %wait
wait:
  %i1 = add i32 %i, 1
  %long = icmp ugt i32 %i1, 1000
  br i1 %long, label %yield, label %again
yield:
  call i32 @sched_yield()
  br label %again
again:
  br label %try
done:
  ret void
}

define internal void @give_lock() {
  store atomic i32 0, ptr @lock release, align 4
  ret void
}

define void @forked() {   ; whoever had the lock is not in this process
  call void @give_lock()
  ret void
}

define internal void @count(i64 %which, i64 %change) {   ; under the lock
  %at = getelementptr i64, ptr @numbers, i64 %which
  %old = load i64, ptr %at
  %new = add i64 %old, %change
  store i64 %new, ptr %at
  ret void
}

define internal i64 @class_of(i64 %size) {   ; of a size above 32 KiB
  %last = sub i64 %size, 1
  %zeros = call i64 @llvm.ctlz.i64(i64 %last, i1 true)
  %shift = sub i64 61, %zeros
  %quarters = lshr i64 %last, %shift   ; 4 ... 7
  %power = sub i64 %shift, 13
  %first = shl i64 %power, 2
  %plus = add i64 %first, %quarters
  %class = sub i64 %plus, 4
  ret i64 %class
}

define internal i64 @capacity(i64 %class) {
  %quarter = and i64 %class, 3
  %quarters = add i64 %quarter, 5
  %power = lshr i64 %class, 2
  %shift = add i64 %power, 13
  %bytes = shl i64 %quarters, %shift
  ret i64 %bytes
}

define internal void @touch(i64 %class) {   ; under the lock
  %now = load i64, ptr @clock
  %next = add i64 %now, 1
  store i64 %next, ptr @clock
  %at = getelementptr i64, ptr @used, i64 %class
  store i64 %next, ptr %at
  ret void
}

define internal ptr @pop(i64 %class) {   ; under the lock; null where none is kept
  %list = getelementptr ptr, ptr @lists, i64 %class
  %block = load ptr, ptr %list
  %none = icmp eq ptr %block, null
  br i1 %none, label %done, label %take
take:
  %next = load ptr, ptr %block
  store ptr %next, ptr %list
  %bytes = call i64 @capacity(i64 %class)
  %less = sub i64 0, %bytes
  call void @count(i64 2, i64 %less)
  ret ptr %block
done:
  ret ptr null
}

define internal ptr @fresh(i64 %class, i64 %size) noinline {   ; null where the system has no more
entry:
  %bytes = call i64 @capacity(i64 %class)
  %small = icmp ult i64 %bytes, 2097152
  br i1 %small, label %heap, label %map
heap:
  %with = add i64 %bytes, 64
  %block = call ptr @aligned_alloc(i64 64, i64 %with)
  ret ptr %block
map:   ; with room to start at a multiple of 2 MiB, which is a huge page
  %length = add i64 %bytes, 4096
  %asked = add i64 %length, 2097152
  %mapped = call ptr @mmap(ptr null, i64 %asked, i32 3, i32 34, i32 -1, i64 0)
  %address = ptrtoint ptr %mapped to i64
  %failed = icmp eq i64 %address, -1
  br i1 %failed, label %none, label %align
none:
  ret ptr null
align:
  %up = add i64 %address, 2097151
  %start = and i64 %up, -2097152
  %base = inttoptr i64 %start to ptr
  %before = sub i64 %start, %address
  %some = icmp ne i64 %before, 0
  br i1 %some, label %head, label %tail
head:
  call i32 @munmap(ptr %mapped, i64 %before)
  br label %tail
tail:
  %after = sub i64 2097152, %before   ; at least a page: mappings start at pages
  %end = getelementptr i8, ptr %base, i64 %length
  call i32 @munmap(ptr %end, i64 %after)
  %huge = and i64 %size, -2097152   ; a last half page would be memory that nobody uses
  call i32 @madvise(ptr %base, i64 %huge, i32 14)
  ret ptr %base
}

define internal void @release(i64 %class, ptr %block) noinline {
  %bytes = call i64 @capacity(i64 %class)
  %small = icmp ult i64 %bytes, 2097152
  br i1 %small, label %heap, label %map
heap:
  call void @free(ptr %block)
  ret void
map:
  %length = add i64 %bytes, 4096
  call i32 @munmap(ptr %block, i64 %length)
  ret void
}

define void @shrink(i64 %keep_all) noinline {   ; give back what is over the bounds; with 0 all that is kept
entry:
  br label %next
next:
  call void @take_lock()
  %allocated = load i64, ptr @numbers
  %peak = load i64, ptr getelementptr (i64, ptr @numbers, i64 1)
  %kept = load i64, ptr getelementptr (i64, ptr @numbers, i64 2)
  %most = load i64, ptr getelementptr (i64, ptr @numbers, i64 5)
  %room = load i64, ptr getelementptr (i64, ptr @numbers, i64 6)
  %quarter = lshr i64 %peak, 2
  %more = add i64 %peak, %quarter
  %bound = add i64 %more, %room
  %held = add i64 %allocated, %kept
  %over = icmp ugt i64 %held, %bound
  %much = icmp ugt i64 %kept, %most
  %all = icmp eq i64 %keep_all, 0
  %either = or i1 %over, %much
  %wanted = or i1 %either, %all
  %any = icmp ne i64 %kept, 0
  %go = and i1 %wanted, %any
  br i1 %go, label %search, label %done
search:   ; the class that nobody asked for for longest
  %i = phi i64 [ 0, %next ], [ %i1, %search ]
  %best = phi i64 [ 0, %next ], [ %best1, %search ]
  %oldest = phi i64 [ -1, %next ], [ %oldest1, %search ]
  %list = getelementptr ptr, ptr @lists, i64 %i
  %first = load ptr, ptr %list
  %there = icmp ne ptr %first, null
  %at = getelementptr i64, ptr @used, i64 %i
  %time = load i64, ptr %at
  %older = icmp ult i64 %time, %oldest
  %better = and i1 %there, %older
  %best1 = select i1 %better, i64 %i, i64 %best
  %oldest1 = select i1 %better, i64 %time, i64 %oldest
  %i1 = add i64 %i, 1
  %others = icmp ult i64 %i1, 160
  br i1 %others, label %search, label %found
found:
  %block = call ptr @pop(i64 %best1)
  call void @give_lock()
  call void @release(i64 %best1, ptr %block)
  br label %next
done:
  call void @give_lock()
  ret void
}

define internal ptr @pooled(i64 %size, i1 %zero) noinline {   ; of more than 32 KiB
entry:
  %huge = icmp ugt i64 %size, 70368744177664
  br i1 %huge, label %none, label %look
none:
  ret ptr null
look:
  %class = call i64 @class_of(i64 %size)
  %bytes = call i64 @capacity(i64 %class)
  call void @take_lock()
  call void @touch(i64 %class)
  %kept = call ptr @pop(i64 %class)
  %hit = icmp ne ptr %kept, null
  %which = select i1 %hit, i64 3, i64 4
  call void @count(i64 %which, i64 1)
  call void @count(i64 0, i64 %bytes)
  %allocated = load i64, ptr @numbers
  %peak = load i64, ptr getelementptr (i64, ptr @numbers, i64 1)
  %higher = call i64 @llvm.umax.i64(i64 %allocated, i64 %peak)
  store i64 %higher, ptr getelementptr (i64, ptr @numbers, i64 1)
  call void @give_lock()
  br i1 %hit, label %have, label %ask
ask:
  call void @shrink(i64 1)
  %first = call ptr @fresh(i64 %class, i64 %size)
  %got = icmp ne ptr %first, null
  br i1 %got, label %have, label %again
again:
  call void @shrink(i64 0)
  %second = call ptr @fresh(i64 %class, i64 %size)
  %got2 = icmp ne ptr %second, null
  br i1 %got2, label %have, label %fail
fail:
  %less = sub i64 0, %bytes
  call void @take_lock()
  call void @count(i64 0, i64 %less)
  call void @give_lock()
  ret ptr null
have:
  %block = phi ptr [ %kept, %look ], [ %first, %ask ], [ %second, %again ]
  %memory = getelementptr i8, ptr %block, i64 64
  %note = getelementptr i8, ptr %block, i64 48
  store i64 %size, ptr %note
  %kind = getelementptr i8, ptr %block, i64 56
  store i64 %class, ptr %kind
  %mapped = icmp uge i64 %bytes, 2097152
  %new = xor i1 %hit, true
  %clean = and i1 %mapped, %new   ; the system clears what it maps
  %dirty = xor i1 %clean, true
  %clear = and i1 %zero, %dirty
  br i1 %clear, label %wipe, label %done
wipe:
  call void @llvm.memset.p0.i64(ptr %memory, i8 0, i64 %size, i1 false)
  br label %done
done:
  ret ptr %memory
}

define internal ptr @get(i64 %size, i1 %zero) noinline {
entry:
  %small = icmp ule i64 %size, 32768
  br i1 %small, label %numpy, label %pool
pool:
  %block = call ptr @pooled(i64 %size, i1 %zero)
  ret ptr %block
numpy:
  %with = add i64 %size, 16
  %context = load ptr, ptr @default
  br i1 %zero, label %clear, label %plain
clear:
  %calloc = load ptr, ptr getelementptr (ptr, ptr @default, i64 2)
  %a = call ptr %calloc(ptr %context, i64 1, i64 %with)
  br label %got
plain:
  %malloc = load ptr, ptr getelementptr (ptr, ptr @default, i64 1)
  %b = call ptr %malloc(ptr %context, i64 %with)
  br label %got
got:
  %raw = phi ptr [ %a, %clear ], [ %b, %plain ]
  %failed = icmp eq ptr %raw, null
  br i1 %failed, label %none, label %mark
none:
  ret ptr null
mark:
  store i64 %size, ptr %raw
  %kind = getelementptr i8, ptr %raw, i64 8
  store i64 -1, ptr %kind
  %memory = getelementptr i8, ptr %raw, i64 16
  ret ptr %memory
}

define internal ptr @pool_malloc(ptr %context, i64 %size) {
  %memory = call ptr @get(i64 %size, i1 false)
  ret ptr %memory
}

define internal ptr @pool_calloc(ptr %context, i64 %count, i64 %each) {
  %product = call { i64, i1 } @llvm.umul.with.overflow.i64(i64 %count, i64 %each)
  %size = extractvalue { i64, i1 } %product, 0
  %over = extractvalue { i64, i1 } %product, 1
  br i1 %over, label %none, label %some
none:
  ret ptr null
some:
  %memory = call ptr @get(i64 %size, i1 true)
  ret ptr %memory
}

define internal void @pool_free(ptr %context, ptr %memory, i64 %unused) {
entry:
  %none = icmp eq ptr %memory, null
  br i1 %none, label %done, label %look
look:
  %kind = getelementptr i8, ptr %memory, i64 -8
  %class = load i64, ptr %kind
  %small = icmp eq i64 %class, -1
  br i1 %small, label %numpy, label %pool
numpy:
  %raw = getelementptr i8, ptr %memory, i64 -16
  %size = load i64, ptr %raw
  %with = add i64 %size, 16
  %default = load ptr, ptr @default
  %free = load ptr, ptr getelementptr (ptr, ptr @default, i64 4)
  call void %free(ptr %default, ptr %raw, i64 %with)
  ret void
pool:
  %block = getelementptr i8, ptr %memory, i64 -64
  %bytes = call i64 @capacity(i64 %class)
  %less = sub i64 0, %bytes
  call void @take_lock()
  call void @touch(i64 %class)
  %list = getelementptr ptr, ptr @lists, i64 %class
  %next = load ptr, ptr %list
  store ptr %next, ptr %block
  store ptr %block, ptr %list
  call void @count(i64 0, i64 %less)
  call void @count(i64 2, i64 %bytes)
  %kept = load i64, ptr getelementptr (i64, ptr @numbers, i64 2)
  %most = load i64, ptr getelementptr (i64, ptr @numbers, i64 5)
  %over = icmp ugt i64 %kept, %most
  call void @give_lock()
  br i1 %over, label %trim, label %done
trim:
  call void @shrink(i64 1)
  ret void
done:
  ret void
}

define internal ptr @pool_realloc(ptr %context, ptr %memory, i64 %size) {
entry:
  %none = icmp eq ptr %memory, null
  br i1 %none, label %new, label %look
new:
  %first = call ptr @get(i64 %size, i1 false)
  ret ptr %first
look:
  %kind = getelementptr i8, ptr %memory, i64 -8
  %class = load i64, ptr %kind
  %note = getelementptr i8, ptr %memory, i64 -16
  %old = load i64, ptr %note
  %numpys = icmp eq i64 %class, -1
  %small = icmp ule i64 %size, 32768
  %stays = and i1 %numpys, %small
  br i1 %stays, label %numpy, label %pool
numpy:
  %with = add i64 %size, 16
  %default = load ptr, ptr @default
  %realloc = load ptr, ptr getelementptr (ptr, ptr @default, i64 3)
  %raw = call ptr %realloc(ptr %default, ptr %note, i64 %with)
  %failed = icmp eq ptr %raw, null
  br i1 %failed, label %fail, label %moved
moved:
  store i64 %size, ptr %raw
  %after = getelementptr i8, ptr %raw, i64 16
  ret ptr %after
pool:
  %either = or i1 %numpys, %small
  br i1 %either, label %move, label %compare
compare:
  %other = call i64 @class_of(i64 %size)
  %same = icmp eq i64 %other, %class
  br i1 %same, label %keep, label %move
keep:
  store i64 %size, ptr %note
  ret ptr %memory
move:
  %target = call ptr @get(i64 %size, i1 false)
  %failed2 = icmp eq ptr %target, null
  br i1 %failed2, label %fail, label %copy
fail:
  ret ptr null
copy:
  %both = call i64 @llvm.umin.i64(i64 %old, i64 %size)
  call void @llvm.memcpy.p0.p0.i64(ptr %target, ptr %memory, i64 %both, i1 false)
  call void @pool_free(ptr null, ptr %memory, i64 %old)
  ret ptr %target
}
"""


class _Pool:
    """The native module, loaded, with NumPy's own allocator behind it."""

    def __init__(self) -> None:
        import ctypes

        names = ("forked", "shrink", "numbers", "default", "handler", "title")
        words = {
            "$PADDING": "\\00" * (abi.HANDLER_NAME - len("rushlight")),
            "$NAME": str(abi.HANDLER_NAME),
            "$VERSION": str(abi.HANDLER_VERSION),
        }

        def made() -> str:
            text = _TEXT
            for word, meaning in words.items():
                text = text.replace(word, meaning)
            return text

        forked, shrink, numbers, default, handler, title = native.load("memory", made, names)
        # With the GIL held, as when NumPy calls: nobody who holds it waits for the lock in vain.
        self.shrink = ctypes.PYFUNCTYPE(None, ctypes.c_int64)(shrink)
        self.numbers = (ctypes.c_int64 * 7).from_address(numbers)
        self.numbers[5:7] = [_memory() // 2, 64 << 20]

        found = abi.handler_functions()
        assert found is not None
        self.set, self.current, self.own, functions = found
        ctypes.memmove(default, functions, 8 * abi.HANDLER_WORDS)
        new = ctypes.PYFUNCTYPE(ctypes.py_object, *[ctypes.c_void_p] * 3)
        self.handler = new(("PyCapsule_New", ctypes.pythonapi))(handler, title, None)
        os.register_at_fork(after_in_child=ctypes.PYFUNCTYPE(None)(forked))


_pool = cache(_Pool)


def _memory() -> int:
    """The memory of the machine, or what this process may use of it."""
    most = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    try:
        with open("/sys/fs/cgroup/memory.max") as file:
            return min(most, int(file.read()))
    except (OSError, ValueError):  # no such bound, or "max"
        return most


def install() -> bool:
    """Let arrays made in this context take their memory from the pool; False where there is none."""
    if not _possible():
        return False
    pool = _pool()
    pool.set(pool.handler)
    return True


def _possible() -> bool:
    return sys.platform == "linux" and native.available() and abi.handler_functions() is not None


def uninstall() -> None:
    """Go back to NumPy's own allocator in this context; what arrays have, they keep."""
    if installed():
        _pool().set(_pool().own)


def installed() -> bool:
    """Whether arrays made in this context take their memory from the pool."""
    return _started() and _pool().current() is _pool().handler


def _started() -> bool:
    return _pool.cache_info().currsize > 0


def empty_cache() -> None:
    """Give back to the system all memory that is kept; forget the peak."""
    if _started():
        numbers = _pool().numbers
        numbers[1] = numbers[0]
        _pool().shrink(0)


def set_limit(bytes: int) -> None:
    """Keep at most so many bytes of arrays that are gone; half of the machine's memory at first."""
    if bytes < 0:
        raise ValueError(f"set_limit expects a number of bytes, got {bytes}")
    if _possible():
        _pool().numbers[5] = bytes
        _pool().shrink(1)


def memory_stats() -> dict[str, Any]:
    """What the pool holds and did: bytes `allocated` to arrays of more than 32 KiB, their `peak`,
    bytes `cached`, and how many arrays got memory that was there (`hits`) or new (`misses`).

    >>> sorted(memory_stats())
    ['allocated', 'cached', 'hits', 'misses', 'peak']
    """
    numbers = list(_pool().numbers) if _started() else [0] * 5
    return dict(zip(("allocated", "peak", "cached", "hits", "misses"), numbers, strict=False))
