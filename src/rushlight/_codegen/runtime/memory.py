"""A pool behind NumPy's allocator: large arrays get memory that the process has used before.

A fresh large array costs more than what is written into it: the system hands out its pages one by
one, each cleared, at the first touch. The pool keeps the blocks of arrays that are gone and gives
them to the next ones, so that a loop that does the same again touches no new page: three operations
on arrays of 1 MiB, one after the other, take a tenth of the time.

* Arrays of up to 32 KiB go to NumPy's own allocator as ever.
* Others are rounded up to a size of four per power of two, and aligned to 64 bytes. Blocks from 2 MiB
  are mapped from the system in huge pages as far as the array reaches, others come from `malloc`.
* Where no block of an array's size is kept, it gets one of the next two sizes before the system is asked for more.
* What is kept is bounded: blocks in use and kept together to 5/4 of the most that was in use at one
  time lately (while the last 16,000 to 32,000 arrays came and went), and 64 MiB, and what is kept to
  half of the memory of the machine. What was unused for longest goes first.

NumPy's allocator is a context variable: `install` is for the context that calls it, which is usually
the main thread's, and for contexts that are copied from it (asyncio). Other threads go on with NumPy's
own allocator, unless they call `install`. Each array remembers where its memory came from, so arrays
may be freed anywhere. tracemalloc sees the arrays as before.

Only on Linux: elsewhere `install` does nothing and says so.
"""

from __future__ import annotations

import os
import sys
from functools import cache, partial
from typing import Any

import numpy as np

from rushlight._codegen import native
from rushlight._codegen.kernel import addresses, entry
from rushlight._codegen.language import bits, call, external, inline, routine
from rushlight._codegen.runtime import abi
from rushlight._codegen.types import Ptr, f64, i32, i64, u64

SMALL = 32768  # bytes up to which memory is NumPy's own, with 16 bytes before it
PAGE = 1 << 21  # a huge page: blocks from this size on are mapped
LARGEST = 1 << 46
CLASSES = 160
WIDER = 2  # larger classes whose kept blocks an array may get
WINDOW = (
    1 << 15
)  # arrays that came or went: what was in use twice as long ago does not count any more
# What the functions of the pool get as their context, in words: a mutex, the numbers of `memory_stats`, the most
# that is kept, what may be held above 5/4 of the peak, the number of calls, NumPy's own handler (context, malloc,
# calloc, realloc, free), the most that was in use in this window and in the one before; then of each class the first
# kept block, and when it was last asked for.
MUTEX, ALLOCATED, PEAK, KEPT, HITS, MISSES, MOST, ROOM, CLOCK, OWN = 0, *range(8, 17)
RECENT = OWN + abi.HANDLER_WORDS
BEFORE = RECENT + 1
LISTS = BEFORE + 1
USED = LISTS + CLASSES
WORDS = USED + CLASSES
# A block begins with 64 bytes: the next kept block in word 0, and, right before the memory that is given out, the
# size that was asked for and its class, which is -1 in NumPy's own blocks.
HEAD = 64
NUMPYS = -1

lock = external("pthread_mutex_lock", i32, Ptr[i64])
unlock = external("pthread_mutex_unlock", i32, Ptr[i64])
mmap = external("mmap", i64, i64, i64, i32, i32, i32, i64)
munmap = external("munmap", i32, i64, i64)
madvise = external("madvise", i32, i64, i64, i32)
aligned_alloc = external("aligned_alloc", i64, i64, i64)
free = external("free", None, i64)
memset = external("memset", i64, i64, i32, i64)
memcpy = external("memcpy", i64, i64, i64, i64)


@inline
def words(address):
    return bits(address, Ptr[i64])


@inline
def class_of(size):
    """The class of a size above SMALL: there are four of them for each power of two."""
    last = size - 1
    shift = (bits(f64(last), i64) >> 52) - 1025  # what is left are the three highest bits
    return 4 * (shift - 13) + (last >> shift) - 4


@inline
def capacity(kind):
    """The bytes of a class."""
    return ((kind & 3) + 5) << ((kind >> 2) + 13)


@inline
def touch(pool, kind):
    """Note, under the lock, that a class was asked for; whether a window ends."""
    pool[CLOCK] += 1
    pool[USED + kind] = pool[CLOCK]
    ends = (pool[CLOCK] & (WINDOW - 1)) == 0
    if ends:
        pool[BEFORE] = pool[RECENT]
        pool[RECENT] = pool[ALLOCATED]
    return ends


@inline
def pop(pool, kind):
    """Take, under the lock, a kept block of a class; 0 where there is none."""
    block = pool[LISTS + kind]
    if block != 0:
        pool[LISTS + kind] = words(block)[0]
        pool[KEPT] -= capacity(kind)
    return block


@routine
def fresh(kind, size):
    """A block from the system, of which `size` bytes will be used; 0 where there is no more."""
    length = capacity(kind)
    if length < PAGE:
        return aligned_alloc(HEAD, length + HEAD)
    length += 4096
    mapped = mmap(0, length + PAGE, 3, 34, -1, 0)  # with room to begin at a huge page
    if mapped == -1:
        return i64(0)
    start = (mapped + (PAGE - 1)) & -PAGE
    if start > mapped:
        munmap(mapped, start - mapped)
    munmap(start + length, mapped + PAGE - start)  # at least a page: mappings begin at pages
    madvise(start, size & -PAGE, 14)  # a last half page would be memory that nobody uses
    return start


@entry
def shrink(pool: Ptr[i64], keep: i64):
    """Give back to the system what is over the bounds, or with `keep` 0 all that is kept: first what nobody
    asked for for longest."""
    while True:
        lock(pool)
        held = pool[ALLOCATED] + pool[KEPT]
        most = max(pool[RECENT], pool[BEFORE])
        over = (held > most + (most >> 2) + pool[ROOM]) | (pool[KEPT] > pool[MOST])
        if (pool[KEPT] == 0) | (not (over | (keep == 0))):
            break
        best, oldest = i64(0), i64((1 << 63) - 1)
        for kind in range(CLASSES):
            if (pool[LISTS + kind] != 0) & (pool[USED + kind] < oldest):
                best, oldest = kind, pool[USED + kind]
        block = pop(pool, best)
        unlock(pool)
        if capacity(best) < PAGE:
            free(block)
        else:
            munmap(block, capacity(best) + 4096)
    unlock(pool)


@routine
def pooled(pool, size, ZERO):
    """Memory of more than SMALL bytes; 0 where the system has no more."""
    kind = class_of(size)
    length = capacity(kind)
    lock(pool)
    ends = touch(pool, kind)
    block = pop(pool, kind)
    other = i64(0)
    while (block == 0) & (other < WIDER):
        other += 1
        block = pop(pool, kind + other)
        if block != 0:
            kind += other
            length = capacity(kind)
            pool[USED + kind] = pool[CLOCK]
    known = block != 0
    if known:
        pool[HITS] += 1
    else:
        pool[MISSES] += 1
    pool[ALLOCATED] += length
    pool[PEAK] = max(pool[PEAK], pool[ALLOCATED])
    pool[RECENT] = max(pool[RECENT], pool[ALLOCATED])
    unlock(pool)
    if ends | (not known):
        shrink(pool, i64(1))
    if not known:
        block = fresh(kind, size)
        if block == 0:
            shrink(pool, i64(0))
            block = fresh(kind, size)
        if block == 0:
            lock(pool)
            pool[ALLOCATED] -= length
            unlock(pool)
            return block
    memory = block + HEAD
    words(memory)[-2] = size
    words(memory)[-1] = kind
    if ZERO:
        if known | (length < PAGE):  # the system clears what it maps
            memset(memory, 0, size)
    return memory


@routine
def take(pool, size, ZERO):
    """Memory of any size."""
    if u64(size) > LARGEST:
        return i64(0)
    if size > SMALL:
        return pooled(pool, size, ZERO=ZERO)
    if ZERO:
        memory = call(pool[OWN + 2], i64, pool[OWN], i64(1), size + 16)
    else:
        memory = call(pool[OWN + 1], i64, pool[OWN], size + 16)
    if memory != 0:
        memory += 16
        words(memory)[-2] = size
        words(memory)[-1] = NUMPYS
    return memory


@entry
def pool_malloc(pool: Ptr[i64], size: i64):
    return take(pool, size, ZERO=False)


@entry
def pool_calloc(pool: Ptr[i64], count: i64, each: i64):
    if (count != 0) & (u64(each) > LARGEST // u64(max(count, i64(1)))):
        return i64(0)
    return take(pool, count * each, ZERO=True)


@entry
def pool_free(pool: Ptr[i64], memory: i64, size: i64):
    if memory != 0:
        kind = words(memory)[-1]
        if kind == NUMPYS:
            call(pool[OWN + 4], None, pool[OWN], memory - 16, words(memory)[-2] + 16)
        else:
            lock(pool)
            ends = touch(pool, kind)
            words(memory - HEAD)[0] = pool[LISTS + kind]
            pool[LISTS + kind] = memory - HEAD
            pool[ALLOCATED] -= capacity(kind)
            pool[KEPT] += capacity(kind)
            over = ends | (pool[KEPT] > pool[MOST])
            unlock(pool)
            if over:
                shrink(pool, i64(1))


@entry
def pool_realloc(pool: Ptr[i64], memory: i64, size: i64):
    if memory == 0:
        return take(pool, size, ZERO=False)
    old, kind = words(memory)[-2], words(memory)[-1]
    small = u64(size) <= SMALL
    if (kind == NUMPYS) & small:
        moved = call(pool[OWN + 3], i64, pool[OWN], memory - 16, size + 16)
        if moved != 0:
            moved += 16
            words(moved)[-2] = size
        return moved
    if (kind != NUMPYS) & (not small):
        if class_of(size) == kind:
            words(memory)[-2] = size
            return memory
    made = take(pool, size, ZERO=False)
    if made != 0:
        memcpy(made, memory, min(old, size))
        pool_free(pool, memory, old)
    return made


class _Pool:
    """The pool of this process, with NumPy's own allocator behind it."""

    def __init__(self) -> None:
        import ctypes

        found = abi.handler_functions()
        assert found is not None
        self.set, self.current, self.own, functions = found
        self.words = (ctypes.c_int64 * WORDS)()
        here = ctypes.addressof(self.words)
        ctypes.memmove(here + 8 * OWN, functions, 8 * abi.HANDLER_WORDS)
        self.words[MOST], self.words[ROOM] = _memory() // 2, 64 << 20
        shrinks, *calls = addresses(shrink, pool_malloc, pool_calloc, pool_realloc, pool_free)
        # With the GIL held, as when NumPy calls: nobody who holds it waits for the lock in vain.
        kind = ctypes.PYFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64)
        self.shrink = partial(kind(shrinks), here)
        name = b"rushlight".ljust(abi.HANDLER_NAME, b"\0") + bytes([abi.HANDLER_VERSION])
        handler = ctypes.create_string_buffer(name + np.array([here, *calls], np.int64).tobytes())
        title = ctypes.create_string_buffer(b"mem_handler")
        native.keep_alive((self.words, handler, title))
        new = ctypes.PYFUNCTYPE(ctypes.py_object, *[ctypes.c_void_p] * 3)
        self.handler = new(("PyCapsule_New", ctypes.pythonapi))(handler, title, None)
        # Whoever had the lock is not in a child.
        unlocked = partial(ctypes.memset, here, 0, 8 * ALLOCATED)
        os.register_at_fork(after_in_child=unlocked)


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
        words = _pool().words
        words[PEAK] = words[RECENT] = words[BEFORE] = words[ALLOCATED]
        _pool().shrink(0)
        import ctypes

        # blocks that `malloc` gave lie between others, so that it keeps their pages unless it is asked
        if (trim := getattr(ctypes.CDLL(None), "malloc_trim", None)) is not None:
            trim(0)


def set_limit(bytes: int) -> None:
    """Keep at most so many bytes of arrays that are gone; half of the machine's memory at first."""
    if bytes < 0:
        raise ValueError(f"set_limit expects a number of bytes, got {bytes}")
    if _possible():
        _pool().words[MOST] = bytes
        _pool().shrink(1)


def memory_stats() -> dict[str, Any]:
    """What the pool holds and did: bytes `allocated` to arrays of more than 32 KiB, their `peak`,
    bytes `cached`, and how many arrays got memory that was there (`hits`) or new (`misses`).

    >>> sorted(memory_stats())
    ['allocated', 'cached', 'hits', 'misses', 'peak']
    """
    numbers = _pool().words[ALLOCATED:MOST] if _started() else [0] * 5
    return dict(zip(("allocated", "peak", "cached", "hits", "misses"), numbers, strict=True))
