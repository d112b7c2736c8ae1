"""What the processes of `test_dtensor.py` run on parts of sequences: `python sequence_programs.py NAME`, once for each rank."""

from __future__ import annotations

import pytest

import rushlight as torch
import rushlight.distributed as dist
import rushlight.nn.functional as F
from distributed_programs import start
from processes import run_programs
from rushlight.distributed.device_mesh import init_device_mesh


def parts_of_sequences():
    """Attention of parts of sequences, and its gradients, are those of the whole sequences."""
    from rushlight.distributed.tensor.context_parallel import (
        _cp_options,
        context_parallel_unshard,
        set_rotate_method,
    )
    from rushlight.distributed.tensor.experimental import context_parallel

    rank, size = start()
    mesh = init_device_mesh("cpu", (size,))
    torch.manual_seed(0)
    heads = torch.nn.MultiheadAttention(8, 2, batch_first=True)
    wide = torch.nn.Linear(8, 8)

    def run(x, causal, own):
        if own:
            mask = torch.nn.Transformer.generate_square_subsequent_mask(x.shape[1])
            y = heads(x, x, x, need_weights=False, attn_mask=mask if causal else None)[0]
        else:
            q = wide(x).unflatten(-1, (4, 2)).transpose(1, 2)
            y = F.scaled_dot_product_attention(
                q, q[:, :2], q[:, 2:], is_causal=causal, scale=0.3, enable_gqa=True
            )
        return y

    for length, balanced in ((12, True), (12 * size, True), (2 * size, False), (size, True)):
        _cp_options.enable_load_balance = balanced
        if length % size:
            with (
                pytest.raises(ValueError, match="cut"),
                context_parallel(mesh, buffers=[torch.ones(length)], buffer_seq_dims=[0]),
            ):
                pass
            continue
        for own, causal in ((False, True), (False, False), (True, False)):
            x = torch.randn(2, length, 8)
            dist.broadcast(x, 0)
            table = torch.arange(length)
            plain = run(x, causal, own)
            module = heads if own else wide
            module.zero_grad()
            plain.square().sum().backward()
            wanted = [p.grad.clone() for p in module.parameters()]
            module.zero_grad()
            kept, left = x.clone(), table.clone()
            options = {"buffers": [x, table, left], "buffer_seq_dims": [1, 0, 0]}
            with context_parallel(mesh, no_restore_buffers={left}, **options):
                assert x.shape == (2, length // size, 8) and torch.equal(table, left)
                y = run(x, causal, own)
                y.square().sum().backward()
                whole = context_parallel_unshard(mesh, [y, table], [1 if own else 2, 0])
            assert torch.equal(x, kept) and table.tolist() == list(range(length))
            assert len(left) == length // size
            torch.testing.assert_close(whole[0], plain)
            assert whole[1].tolist() == list(range(length))
            for p, gradient in zip(module.parameters(), wanted):
                dist.all_reduce(p.grad)
                torch.testing.assert_close(p.grad, gradient, rtol=1e-4, atol=1e-4)
    _cp_options.enable_load_balance = True
    q = torch.ones(1, 1, 2, 2)
    before = F.scaled_dot_product_attention
    with context_parallel(mesh), pytest.raises(NotImplementedError, match="is_causal"):
        F.scaled_dot_product_attention(q, q, q, torch.ones(2, 2))
    assert F.scaled_dot_product_attention is before
    set_rotate_method("alltoall")
    with pytest.raises(NotImplementedError, match="ring"):
        set_rotate_method("ring")
    with (
        pytest.raises(ValueError, match="subset"),
        context_parallel(mesh, no_restore_buffers={q}),
    ):
        pass


if __name__ == "__main__":
    run_programs(globals())
