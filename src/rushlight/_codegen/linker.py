"""Object files put into memory, ready to run, without LLVM: ELF for x86-64, in the large code model.

In that model code names each function and each constant by its whole address, 64 bits, so that nothing has to lie
near anything else: to link is to lay out the sections and to write addresses. A kernel that stands on disk takes a
tenth of a millisecond this way, and LLVM, which takes a tenth of a second and 50 MB, need not be loaded at all.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import cache
from struct import iter_unpack, pack_into, unpack_from
from typing import Any

# Of the ELF specification: kinds of sections, flags of sections, numbers of sections, kinds of relocations.
SYMBOLS, RELOCATIONS, ZEROS, UNWINDING = 2, 4, 8, 0x70000001
WRITABLE, LOADED = 1, 2
UNDEFINED, ABSOLUTE = 0, 0xFFF1
R_X86_64_64 = 1


@cache
def available() -> bool:
    """Whether object files of this machine are of the kind that is linked here."""
    from platform import machine

    return sys.platform == "linux" and machine() == "x86_64"


class Section:
    """A line of the table of sections."""

    __slots__ = ("alignment", "flags", "info", "kind", "link", "size", "start")

    def __init__(self, line: tuple[int, ...]) -> None:
        (
            _,
            self.kind,
            self.flags,
            _,
            self.start,
            self.size,
            self.link,
            self.info,
            self.alignment,
            _,
        ) = line


class Symbol:
    """A line of the table of symbols; `section` is UNDEFINED for what stands elsewhere."""

    __slots__ = ("is_global", "name", "section", "value")

    def __init__(self, name: str, is_global: bool, section: int, value: int) -> None:
        self.name, self.is_global, self.section, self.value = name, is_global, section, value


class ObjectFile:
    """The sections and the symbols of an object file. ValueError unless it is ELF of 64 bits, little-endian."""

    def __init__(self, code: bytes) -> None:
        if code[:6] != b"\x7fELF\x02\x01":
            raise ValueError("not an object file of ELF with 64 bits")
        self.code = code
        (table,) = unpack_from("<Q", code, 40)
        (count,) = unpack_from("<H", code, 60)
        lines = iter_unpack("<IIQQQQIIQQ", code[table : table + 64 * count])
        self.sections = [*map(Section, lines)]
        self.symbols: list[Symbol] = []
        for s in self.sections:
            if s.kind == SYMBOLS:
                strings = self.sections[s.link].start
                for name, info, _, section, value, _ in iter_unpack("<IBBHQQ", self.bytes_of(s)):
                    start = strings + name
                    text = code[start : code.index(0, start)].decode()
                    self.symbols.append(Symbol(text, info >> 4 != 0, section, value))
        # The global names that it defines, and those that it needs.
        named = [s for s in self.symbols if s.is_global]
        self.defined = {s.name for s in named if s.section != UNDEFINED}
        self.needed = {s.name for s in named} - self.defined

    def bytes_of(self, section: Section) -> bytes:
        return self.code[section.start : section.start + section.size]


def link(file: ObjectFile, address_of: Callable[[str], int]) -> dict[str, int]:
    """Put an object file into memory for good: the address of each global name that it defines.

    `address_of` gives the address of a name that it needs. ValueError for what LLVM does not write in
    the large code model.
    """
    parts = {
        writable: [
            k
            for k, s in enumerate(file.sections)
            if s.flags & LOADED and s.size and s.kind != UNWINDING  # kernels raise nothing
            if bool(s.flags & WRITABLE) == writable
        ]
        for writable in (False, True)
    }
    at: dict[int, int] = {}  # section -> its address
    for sections in parts.values():
        offset, offsets = 0, {}
        for k in sections:
            offset += -offset % max(1, file.sections[k].alignment)
            offsets[k] = offset
            offset += file.sections[k].size
        if sections:
            base = _memory().fresh(offset)
            at |= {k: base + o for k, o in offsets.items()}
    values = [_value(symbol, at, address_of) for symbol in file.symbols]
    contents = {k: _relocated(file, k, values) for k in at}
    memory = _memory()
    for k, content in contents.items():
        memory.memmove(at[k], content, len(content))
    executable = parts[False]
    if executable:
        first, last = at[executable[0]], executable[-1]
        memory.make_executable(first, at[last] + file.sections[last].size - first)
    return {
        s.name: v
        for s, v in zip(file.symbols, values, strict=True)
        if s.is_global and s.section != UNDEFINED
    }


def _value(symbol: Symbol, at: dict[int, int], address_of: Callable[[str], int]) -> int:
    if symbol.section == ABSOLUTE:
        return symbol.value
    if symbol.section == UNDEFINED:
        return address_of(symbol.name) if symbol.name else 0
    return at.get(symbol.section, 0) + symbol.value


def _relocated(file: ObjectFile, number: int, values: list[int]) -> bytes:
    """The bytes of a section with the addresses that it names."""
    section = file.sections[number]
    content = (
        bytearray(section.size) if section.kind == ZEROS else bytearray(file.bytes_of(section))
    )
    for s in file.sections:
        if s.kind != RELOCATIONS or s.info != number:
            continue
        for offset, info, addend in iter_unpack("<QQq", file.bytes_of(s)):
            if info & 0xFFFFFFFF != R_X86_64_64:
                raise ValueError(f"a relocation of kind {info & 0xFFFFFFFF} in an object file")
            pack_into("<Q", content, offset, (values[info >> 32] + addend) & (1 << 64) - 1)
    return bytes(content)


class _Memory:
    """The system's functions for memory."""

    READ, WRITE, EXECUTE = 1, 2, 4
    PRIVATE, ANONYMOUS = 2, 32

    def __init__(self) -> None:
        import ctypes

        library: Any = ctypes.CDLL(None, use_errno=True)
        self.mmap, self.mprotect = library.mmap, library.mprotect
        self.mmap.restype = ctypes.c_void_p
        size, number = ctypes.c_size_t, ctypes.c_int
        self.mmap.argtypes = (ctypes.c_void_p, size, number, number, number, ctypes.c_long)
        self.mprotect.argtypes = (ctypes.c_void_p, size, number)
        self.memmove, self.get_errno = ctypes.memmove, ctypes.get_errno

    def fresh(self, size: int) -> int:
        kind = self.PRIVATE | self.ANONYMOUS
        found = self.mmap(None, size, self.READ | self.WRITE, kind, -1, 0)
        if found in (None, (1 << 64) - 1):
            raise MemoryError(f"no memory for {size} bytes of machine code")
        return found

    def make_executable(self, start: int, size: int) -> None:
        """Let pages be run, and no longer written."""
        if self.mprotect(start, size, self.READ | self.EXECUTE):
            from os import strerror

            raise OSError(
                self.get_errno(),
                f"{strerror(self.get_errno())}: this system does not let a process run code that it has written",
            )


_memory = cache(_Memory)


def in_process(name: str) -> int | None:
    """The address of a function of the C library, or of another library that all of the process sees; None
    where there is none."""
    import ctypes

    for library in (None, "libm.so.6"):
        try:
            found = getattr(_library(library), name)
        except (AttributeError, OSError):
            continue
        return ctypes.cast(found, ctypes.c_void_p).value
    return None


@cache
def _library(name: str | None) -> Any:
    import ctypes

    return ctypes.CDLL(name)
