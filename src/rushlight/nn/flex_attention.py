"""`torch.nn.attention.flex_attention`: attention whose scores and mask are functions of the positions.

    score_mod(score, b, h, q, kv) -> score           mask_mod(b, h, q, kv) -> bool

Both are written for single numbers and mapped over batch, heads, queries and keys by `vmap`. A
`BlockMask` says which blocks of the scores hold anything; here it is kept for programs that look at
it, and the whole matrix of scores is computed.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import rushlight as torch
from rushlight.core.stub import declare, stub
from rushlight.core.tensor import Tensor
from rushlight.utils._pytree import tree_map

__all__ = [
    "AuxOutput", "AuxRequest", "BlockMask", "and_masks", "create_block_mask", "create_mask",
    "create_nested_block_mask", "flex_attention", "noop_mask", "or_masks",
]  # fmt: skip

_DEFAULT_SPARSE_BLOCK_SIZE = 128


class AuxRequest(NamedTuple):
    """A request for further results of `flex_attention`: the log-sum-exp and the maximum of the scores."""

    lse: bool = False
    max_scores: bool = False


class AuxOutput(NamedTuple):
    """The results that an `AuxRequest` asked for."""

    lse: Tensor | None = None
    max_scores: Tensor | None = None


def noop_mask(batch: Tensor, head: Tensor, token_q: Tensor, token_kv: Tensor) -> Tensor:
    """The mask that lets everything through."""
    return batch.new_ones(size=(), dtype=torch.bool)


def and_masks(*mask_mods: Callable) -> Callable:
    """A mask function that is True where all of these are."""
    _check_callable(mask_mods)

    def and_mask(b: Tensor, h: Tensor, q_idx: Tensor, kv_idx: Tensor) -> Tensor:
        result = b.new_ones((), dtype=torch.bool)
        for mask in mask_mods:
            result = result & mask(b, h, q_idx, kv_idx)
        return result

    return and_mask


def or_masks(*mask_mods: Callable) -> Callable:
    """A mask function that is True where at least one of these is."""
    _check_callable(mask_mods)

    def or_mask(b: Tensor, h: Tensor, q_idx: Tensor, kv_idx: Tensor) -> Tensor:
        result = b.new_zeros((), dtype=torch.bool)
        for mask in mask_mods:
            result = result | mask(b, h, q_idx, kv_idx)
        return result

    return or_mask


declare(
    "no-op", "There are no kernels to choose from.", "torch.nn.attention.flex_attention",
    "flex_attention(kernel_options=)",
)  # fmt: skip


def _check_callable(mask_mods: tuple) -> None:
    if not all(callable(each) for each in mask_mods):
        raise RuntimeError(f"All inputs should be callable mask_mods: {mask_mods}")


class _NotOneNumber(Exception):
    """A function that was called with all positions at once needs them one by one."""


class _Positions(torch.Tensor):
    """A number for each position, `[B, H, Q, KV]`, that behaves like a single number.

    Elementwise operators of it and single numbers, conversions, and tables read at it give what single
    calls would give. All that could tell the difference (a shape, a sum, a truth value) is a _NotOneNumber.
    """

    @classmethod
    def __torch_function__(
        cls, function: Callable, types: tuple, args: tuple = (), kwargs: dict | None = None
    ) -> Any:
        if not cls._same_for_one(function, args, kwargs or {}):
            raise _NotOneNumber
        args, kwargs = tree_map(
            _plain, (args, kwargs or {})
        )  # what is saved for a backward is no _Positions
        result = function(*args, **kwargs)
        return result.as_subclass(cls) if isinstance(result, torch.Tensor) else result

    @classmethod
    def _same_for_one(cls, function: Any, args: tuple, kwargs: dict) -> bool:
        name = function.__name__
        if name == "__get__":
            return function in (torch.Tensor.dtype.__get__, torch.Tensor.device.__get__)
        if name == "__getitem__":
            table, index = args
            index = index if isinstance(index, tuple) else (index,)
            return (
                not isinstance(table, cls)
                and len(index) == table.dim()
                and all(
                    type(i) is int or _is_number(i) and i.dtype not in (torch.bool, torch.uint8)
                    for i in index
                )
            )
        if name in ("new_ones", "new_zeros"):
            return [*args[1:], kwargs.get("size", ())] in ([()], [(), ()])
        op = getattr(function, "op", None)
        return (
            name in _CONVERSIONS or op is not None and op.elementwise and not name.endswith("_")
        ) and all(_is_number(x) for x in (*args, *kwargs.values()) if isinstance(x, torch.Tensor))


def _plain(x: Any) -> Any:
    return x.as_subclass(torch.Tensor) if isinstance(x, _Positions) else x


def _is_number(x: Any) -> bool:
    return isinstance(x, _Positions) or isinstance(x, torch.Tensor) and x.dim() == 0


_CONVERSIONS = frozenset(
    "where bool int long half float double bfloat16 to type_as zeros_like ones_like full_like".split()
)


def _over_positions(
    function: Callable, sizes: tuple[int, ...], scores: Tensor | None = None
) -> Tensor:
    """`function` of (b, h, q, kv), or of (score, b, h, q, kv), at all positions: `[B, H, Q, KV]`.

    Such a function is nearly always made of operations on single numbers alone: then it is called once,
    with all positions (`_Positions`). Otherwise it is called for one position after the other.
    """
    first = () if scores is None else (scores,)
    positions = [torch.arange(size) for size in sizes]
    grid = [p.reshape([-1 if d == k else 1 for k in range(4)]) for d, p in enumerate(positions)]
    try:
        together = function(*(x.as_subclass(_Positions) for x in (*first, *grid)))
        if _is_number(together):
            return _plain(together).expand(sizes)
    except _NotOneNumber:  # `table[b][q - kv]`, or `if q > kv:`
        pass
    score = (0,) * len(first)
    for names in ((None, None, None, 0), (None, None, 0, None), (None, 0, None, None), (0, None, None, None)):  # fmt: skip
        function = torch.vmap(function, in_dims=score + names)
    return function(*first, *positions)


def create_mask(
    mod_fn: Callable, B: int | None, H: int | None, Q_LEN: int, KV_LEN: int, device: Any = "cpu"
) -> Tensor:
    """The mask `[B, H, Q_LEN, KV_LEN]` of a `mask_mod`; of a `score_mod`, its scores of zeros.

    >>> create_mask(lambda b, h, q, kv: q >= kv, None, None, 2, 3).int()
    tensor([[[[1, 0, 0],
              [1, 1, 0]]]], dtype=torch.int32)
    """
    import inspect

    sizes = (B or 1, H or 1, Q_LEN, KV_LEN)
    taken = [p for p in inspect.signature(mod_fn).parameters.values() if p.default is p.empty]
    if len(taken) == 5:
        out = _over_positions(mod_fn, sizes, torch.zeros(sizes, device=device))
        return torch.where(torch.isneginf(out), False, True)
    return _over_positions(mod_fn, sizes).contiguous()


class BlockMask:
    """A `mask_mod` with, for every row of blocks of queries, which blocks of keys it reads.

    `kv_num_blocks` `[B, H, rows]` counts the blocks that are partly masked and `kv_indices` `[B, H,
    rows, columns]` lists them first; `full_kv_num_blocks`, `full_kv_indices` those not masked at all.
    """

    def __init__(
        self, seq_lengths: tuple[int, int], kv_num_blocks: Tensor, kv_indices: Tensor,
        full_kv_num_blocks: Tensor | None, full_kv_indices: Tensor | None,
        BLOCK_SIZE: tuple[int, int], mask_mod: Callable,
    ) -> None:  # fmt: skip
        self.seq_lengths = seq_lengths
        self.kv_num_blocks, self.kv_indices = kv_num_blocks, kv_indices
        self.full_kv_num_blocks, self.full_kv_indices = full_kv_num_blocks, full_kv_indices
        self.BLOCK_SIZE, self.mask_mod = BLOCK_SIZE, mask_mod

    @classmethod
    def from_kv_blocks(
        cls, kv_num_blocks: Tensor, kv_indices: Tensor, full_kv_num_blocks: Tensor | None = None,
        full_kv_indices: Tensor | None = None, BLOCK_SIZE: int | tuple[int, int] = 128,
        mask_mod: Callable | None = None, seq_lengths: tuple[int, int] | None = None,
        compute_q_blocks: bool = True,
    ) -> BlockMask:  # fmt: skip
        """A mask of blocks that are known."""
        block = (BLOCK_SIZE, BLOCK_SIZE) if isinstance(BLOCK_SIZE, int) else BLOCK_SIZE
        rows, columns = kv_indices.shape[-2:]
        return cls(
            seq_lengths or (rows * block[0], columns * block[1]), kv_num_blocks, kv_indices,
            full_kv_num_blocks, full_kv_indices, block, mask_mod or noop_mask,
        )  # fmt: skip

    @property
    def shape(self) -> tuple[int, ...]:
        """(B, H, queries, keys)."""
        return (*self.kv_indices.shape[:-2], *self.seq_lengths)

    def numel(self) -> int:
        """The number of scores that the mask covers."""
        return torch.Size(self.shape).numel()

    def sparsity(self) -> float:
        """The share of the scores that lie in no block that is read, in percent.

        Blocks count in full, also where they reach past the end: it can be negative.
        """
        read = self.to_dense().sum().item() * self.BLOCK_SIZE[0] * self.BLOCK_SIZE[1]
        return 100.0 * (1.0 - read / max(self.numel(), 1))

    def to_dense(self) -> Tensor:
        """1 for each block that is computed, else 0: `[B, H, rows, columns]`."""
        dense = _listed(self.kv_num_blocks, self.kv_indices)
        if self.full_kv_num_blocks is not None and self.full_kv_indices is not None:
            dense = dense | _listed(self.full_kv_num_blocks, self.full_kv_indices)
        return dense.to(torch.int32)

    def as_tuple(self, flatten: bool = True) -> tuple:
        """The parts, in the order of the constructor."""
        lengths = self.seq_lengths if flatten else (self.seq_lengths,)
        block = self.BLOCK_SIZE if flatten else (self.BLOCK_SIZE,)
        return (
            *lengths, self.kv_num_blocks, self.kv_indices, self.full_kv_num_blocks,
            self.full_kv_indices, *block, self.mask_mod,
        )  # fmt: skip

    def to(self, device: Any) -> BlockMask:
        """A copy with its tensors on `device`."""
        parts = (self.kv_num_blocks, self.kv_indices, self.full_kv_num_blocks, self.full_kv_indices)
        moved = [each if each is None else each.to(device) for each in parts]
        return BlockMask(self.seq_lengths, *moved, self.BLOCK_SIZE, self.mask_mod)  # type: ignore[arg-type]

    def __getitem__(self, index: Any) -> BlockMask:
        """The mask of some batch entries and heads; `mask_mod` still gets the original positions."""
        parts = (self.kv_num_blocks, self.kv_indices, self.full_kv_num_blocks, self.full_kv_indices)
        taken = [each if each is None else each[index] for each in parts]
        return BlockMask(self.seq_lengths, *taken, self.BLOCK_SIZE, self.mask_mod)

    def __repr__(self) -> str:
        return f"BlockMask(shape={self.shape}, sparsity={self.sparsity():.2f}%)"


def _listed(count: Tensor, indices: Tensor) -> Tensor:
    """Lists of blocks as a mask of blocks."""
    columns = indices.shape[-1]
    used = torch.arange(columns) < count[..., None]
    dense = torch.zeros(indices.shape, dtype=torch.int32)
    return dense.scatter_add(-1, indices.long(), used.to(torch.int32)) > 0


def _lists(blocks: Tensor) -> tuple[Tensor, Tensor]:
    """A mask of blocks as (how many, which ones first) in every row."""
    order = torch.argsort(blocks.to(torch.int32), dim=-1, descending=True, stable=True)
    return blocks.sum(-1).to(torch.int32), order.to(torch.int32)


def create_block_mask(
    mask_mod: Callable, B: int | None, H: int | None, Q_LEN: int, KV_LEN: int, device: Any = None,
    BLOCK_SIZE: int | tuple[int, int] = _DEFAULT_SPARSE_BLOCK_SIZE, _compile: bool = False,
    **options: Any,
) -> BlockMask:  # fmt: skip
    """The `BlockMask` of a `mask_mod`; B and H are None where it does not depend on them.

    >>> create_block_mask(lambda b, h, q, kv: q >= kv, None, None, 256, 256)
    BlockMask(shape=(1, 1, 256, 256), sparsity=25.00%)
    """
    block = (BLOCK_SIZE, BLOCK_SIZE) if isinstance(BLOCK_SIZE, int) else tuple(BLOCK_SIZE)
    mask = create_mask(mask_mod, B, H, Q_LEN, KV_LEN, device=device or torch.get_default_device())
    rows, columns = -(-Q_LEN // block[0]), -(-KV_LEN // block[1])
    padded = torch.nn.functional.pad(
        mask.to(torch.int32), (0, columns * block[1] - KV_LEN, 0, rows * block[0] - Q_LEN)
    )
    sums = padded.reshape(*mask.shape[:2], rows, block[0], columns, block[1]).sum((3, 5))
    full = sums == block[0] * block[1]
    return BlockMask(
        (Q_LEN, KV_LEN), *_lists((sums > 0) & ~full), *_lists(full), block, mask_mod
    )  # fmt: skip


@stub("absent", "Flex attention takes no nested tensors.")
def create_nested_block_mask(*args: Any, **kwargs: Any) -> Any:
    """NotImplementedError: flex attention takes no nested tensors."""
    raise NotImplementedError("create_nested_block_mask: flex attention takes no nested tensors")


@stub(
    "emulated", "The whole matrix of scores is computed, also where the mask lets nothing through."
)
def flex_attention(
    query: Tensor, key: Tensor, value: Tensor, score_mod: Callable | None = None,
    block_mask: BlockMask | None = None, scale: float | None = None, enable_gqa: bool = False,
    return_lse: bool = False, kernel_options: Any = None, *, return_aux: AuxRequest | None = None,
) -> Any:  # fmt: skip
    """softmax(score_mod(q k.T scale)) v over the positions where the mask is True; rows without any are 0.

    query `[B, Hq, L, E]`, key `[B, H, S, E]`, value `[B, H, S, Ev]`; scale: 1 / sqrt(E). With
    `enable_gqa`, each head of keys serves Hq / H heads of queries. Scores are float32, or float64.

    >>> x = torch.ones(1, 1, 3, 2)
    >>> flex_attention(x, x, x, score_mod=lambda score, b, h, q, kv: score - (q - kv).abs()).shape
    torch.Size([1, 1, 3, 2])
    """
    if query.dim() != 4 or key.dim() != 4 or value.dim() != 4:
        raise ValueError(
            "NYI: query, key, and value must be 4D tensors, got shapes "
            f"{tuple(query.shape)}, {tuple(key.shape)}, {tuple(value.shape)}"
        )
    heads, kept = query.shape[1], key.shape[1]
    if heads != kept:
        if not enable_gqa:
            raise ValueError(
                f"Expect query and key/value to have the same number of heads but got Hq={heads} and "
                f"Hkv={kept}. Try setting enable_gqa=True for GQA."
            )
        if heads % kept:
            raise ValueError(f"Expect number of query heads to be a multiple of kv heads for GQA but got Hq={heads} and Hkv={kept}.")  # fmt: skip
        key = key.repeat_interleave(heads // kept, 1)
        value = value.repeat_interleave(heads // kept, 1)
    if scale is None:
        scale = query.shape[-1] ** -0.5
    working = torch.float64 if query.dtype == torch.float64 else torch.float32
    scores = (query @ key.mT).to(working) * scale
    if score_mod is not None:
        scores = _over_positions(score_mod, tuple(scores.shape), scores).to(working)
    if block_mask is not None:
        mask = _over_positions(block_mask.mask_mod, tuple(scores.shape))
        scores = scores.masked_fill(~mask, float("-inf"))
    lse = scores.logsumexp(-1)
    weights = torch.softmax(scores, -1).masked_fill((lse == float("-inf"))[..., None], 0)
    out = weights.to(query.dtype) @ value
    if return_aux is not None:
        return out, AuxOutput(
            lse if return_aux.lse else None, scores.amax(-1) if return_aux.max_scores else None
        )
    return (out, lse) if return_lse else out
