"""A transformer under fully_shard: built without memory, trained, saved and resumed, as introductions to FSDP2 show it."""

import argparse

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.algorithms._checkpoint.checkpoint_wrapper import (
    apply_activation_checkpointing,
    checkpoint_wrapper,
)
from torch.distributed.checkpoint.state_dict import (
    StateDictOptions,
    get_model_state_dict,
    get_optimizer_state_dict,
    set_model_state_dict,
    set_optimizer_state_dict,
)
from torch.distributed.elastic.multiprocessing.errors import record
from torch.distributed.fsdp import FSDPModule, MixedPrecisionPolicy, fully_shard
from torch.distributed.tensor import DTensor, Shard, distribute_tensor


class Block(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.attention_norm, self.norm = nn.LayerNorm(dim), nn.LayerNorm(dim)
        self.attention = nn.MultiheadAttention(dim, heads, batch_first=True)
        self.up, self.down = nn.Linear(dim, 4 * dim), nn.Linear(4 * dim, dim)

    def forward(self, x):
        h = self.attention_norm(x)
        x = x + self.attention(h, h, h, need_weights=False)[0]
        return x + self.down(nn.functional.gelu(self.up(self.norm(x))))


class Transformer(nn.Module):
    def __init__(self, words=32, dim=16, heads=2, layers=4):
        super().__init__()
        self.words = nn.Embedding(words, dim)
        self.layers = nn.ModuleList(Block(dim, heads) for _ in range(layers))
        self.norm, self.output = nn.LayerNorm(dim), nn.Linear(dim, words, bias=False)

    def forward(self, tokens):
        x = self.words(tokens)
        for layer in self.layers:
            x = layer(x)
        return self.output(self.norm(x))


def reset(model):
    for module in model.modules():
        if hasattr(module, "reset_parameters"):
            module.reset_parameters()
        elif hasattr(module, "_reset_parameters"):
            module._reset_parameters()


def shard(model, narrow):
    options = {}
    if narrow:
        options["mp_policy"] = MixedPrecisionPolicy(
            param_dtype=torch.bfloat16, reduce_dtype=torch.float32
        )
    for layer in model.layers:
        fully_shard(layer, **options)
    fully_shard(model, **options)
    return model


def prefetch(model, ahead):
    for k, layer in enumerate(model.layers):
        layer.set_modules_to_forward_prefetch(list(model.layers[k + 1 : k + 1 + ahead]))
        layer.set_modules_to_backward_prefetch(list(model.layers[max(k - ahead, 0) : k][::-1]))


def train(model, optimizer, batches, explicit):
    losses = []
    for tokens in batches:
        if explicit:
            model.unshard()
        logits = model(tokens[:, :-1]).float()
        loss = nn.functional.cross_entropy(logits.flatten(0, 1), tokens[:, 1:].flatten())
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), max_norm=1.0)
        optimizer.step()
        optimizer.zero_grad()
        losses.append(loss.detach())
    mean = torch.stack(losses)
    dist.all_reduce(mean, op=dist.ReduceOp.AVG)
    return mean


def save(model, optimizer, folder):
    options = StateDictOptions(full_state_dict=True, cpu_offload=True)
    states = get_model_state_dict(model, options=options)
    moments = get_optimizer_state_dict(model, optimizer, options=options)
    if dist.get_rank() == 0:
        torch.save(states, f"{folder}/model.pt")
        torch.save(moments, f"{folder}/optimizer.pt")
    dist.barrier()


def load(model, optimizer, folder):
    options = StateDictOptions(full_state_dict=True, broadcast_from_rank0=True)
    first = dist.get_rank() == 0
    states = torch.load(f"{folder}/model.pt", mmap=True, weights_only=True) if first else {}
    moments = torch.load(f"{folder}/optimizer.pt", mmap=True, weights_only=True) if first else {}
    set_model_state_dict(model, states, options=options)
    set_optimizer_state_dict(model, optimizer, moments, options=options)


def load_by_hand(model, folder):
    whole = torch.load(f"{folder}/model.pt", mmap=True, weights_only=True)
    spread = {}
    for name, parameter in model.state_dict().items():
        part = distribute_tensor(whole[name], parameter.device_mesh, parameter.placements)
        spread[name] = nn.Parameter(part)
    model.load_state_dict(spread, assign=True)


@record
def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--folder", required=True)
    parser.add_argument("--narrow", action="store_true")
    parser.add_argument("--explicit", action="store_true")
    options = parser.parse_args()
    dist.init_process_group("gloo")
    rank, size = dist.get_rank(), dist.get_world_size()
    torch.manual_seed(0)
    with torch.device("meta"):
        model = Transformer()
    shard(model, options.narrow)
    assert isinstance(model, Transformer) and isinstance(model, FSDPModule)
    if options.explicit:
        prefetch(model, 2)
    model.to_empty(device="cpu")
    reset(model)
    for parameter in model.parameters():
        assert isinstance(parameter, DTensor) and parameter.placements == (Shard(0),)
        assert parameter.dtype is torch.float32
    if options.narrow:
        apply_activation_checkpointing(
            model, checkpoint_wrapper_fn=checkpoint_wrapper, check_fn=lambda m: isinstance(m, Block)
        )
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    generator = torch.Generator().manual_seed(1 + rank)
    batches = torch.randint(0, 8, (12, 4, 9), generator=generator)
    losses = train(model, optimizer, batches, options.explicit)
    assert losses[-1] < losses[0], losses
    save(model, optimizer, options.folder)

    other = shard(Transformer(), options.narrow)
    again = torch.optim.Adam(other.parameters(), lr=1e-2)
    load(other, again, options.folder)
    third = shard(Transformer(), options.narrow)
    load_by_hand(third, options.folder)
    for p, q, r in zip(model.parameters(), other.parameters(), third.parameters()):
        assert torch.equal(p.to_local(), q.to_local()) and torch.equal(p.to_local(), r.to_local())
    first = train(model, optimizer, batches[:3], options.explicit)
    assert torch.equal(train(other, again, batches[:3], False), first)
    print(f"trained {rank} of {size}, loss {losses[-1]:.4f}")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
