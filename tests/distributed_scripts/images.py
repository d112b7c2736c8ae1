"""A training of a classifier of images on several machines and processes of each, on made-up images."""

import argparse
import os
import time

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from torch import nn
from torch.optim.lr_scheduler import StepLR
from torch.utils.data import DataLoader, Dataset, Subset
from torch.utils.data.distributed import DistributedSampler

parser = argparse.ArgumentParser()
parser.add_argument("--epochs", default=2, type=int)
parser.add_argument("--batch-size", default=32, type=int)
parser.add_argument("--world-size", default=-1, type=int, help="number of nodes")
parser.add_argument("--rank", default=-1, type=int, help="number of this node")
parser.add_argument("--dist-url", default="env://")
parser.add_argument("--dist-backend", default="nccl")
parser.add_argument("--processes", default=2, type=int, help="on each node")
parser.add_argument("--multiprocessing-distributed", action="store_true")
parser.add_argument("--folder", default=".")


class Images(Dataset):
    def __init__(self, count):
        generator = torch.Generator().manual_seed(count)
        self.labels = torch.randint(0, 10, (count,), generator=generator)
        self.images = torch.randn(count, 3, 16, 16, generator=generator)

    def __len__(self):
        return len(self.labels)

    def __getitem__(self, i):
        return self.images[i], int(self.labels[i])


class AverageMeter:
    def __init__(self):
        self.sum, self.count = 0.0, 0

    def update(self, value, n=1):
        self.sum += value * n
        self.count += n

    def all_reduce(self):
        total = torch.tensor([self.sum, self.count], dtype=torch.float32)
        dist.all_reduce(total, dist.ReduceOp.SUM, async_op=False)
        self.sum, self.count = total.tolist()

    @property
    def avg(self):
        return self.sum / max(self.count, 1)


def accuracy(output, target, topk=(1,)):
    with torch.no_grad():
        _, pred = output.topk(max(topk), 1, True, True)
        correct = pred.t().eq(target.view(1, -1).expand_as(pred.t()))
        return [
            correct[:k].reshape(-1).float().sum(0, keepdim=True) * (100.0 / target.size(0))
            for k in topk
        ]


def main_worker(local, args):
    if args.dist_url == "env://" and args.rank == -1:
        args.rank = int(os.environ["RANK"])
    if args.multiprocessing_distributed:
        args.rank = args.rank * args.processes + local
    dist.init_process_group(
        backend=args.dist_backend,
        init_method=args.dist_url,
        world_size=args.world_size,
        rank=args.rank,
    )
    model = nn.Sequential(
        nn.Conv2d(3, 8, 3, 2, 1, bias=False), nn.BatchNorm2d(8), nn.ReLU(inplace=True), nn.AdaptiveAvgPool2d(4),
        nn.Flatten(), nn.Linear(128, 10),
    )  # fmt: skip
    model = nn.parallel.DistributedDataParallel(nn.SyncBatchNorm.convert_sync_batchnorm(model))
    criterion = nn.CrossEntropyLoss()
    optimizer = torch.optim.SGD(model.parameters(), 0.05, momentum=0.9, weight_decay=1e-4)
    scheduler = StepLR(optimizer, step_size=30, gamma=0.1)
    train_set, val_set = Images(64), Images(21)
    train_sampler = DistributedSampler(train_set)
    val_sampler = DistributedSampler(val_set, shuffle=False, drop_last=True)
    batch = int(args.batch_size / dist.get_world_size())
    train_loader = DataLoader(train_set, batch_size=batch, sampler=train_sampler, pin_memory=True)
    val_loader = DataLoader(val_set, batch_size=batch, sampler=val_sampler)
    for epoch in range(args.epochs):
        train_sampler.set_epoch(epoch)
        model.train()
        losses, start = AverageMeter(), time.time()
        for images, target in train_loader:
            output = model(images)
            loss = criterion(output, target)
            losses.update(loss.item(), images.size(0))
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        top5 = validate(val_loader, val_set, model, args)
        scheduler.step()
        losses.all_reduce()
        if args.rank == 0:
            print(
                f"epoch {epoch} loss {losses.avg:.4f} top5 {top5:.1f} {time.time() - start:.1f} s",
                flush=True,
            )
            state = {
                "epoch": epoch + 1,
                "state_dict": model.state_dict(),
                "optimizer": optimizer.state_dict(),
            }
            torch.save(state, os.path.join(args.folder, "checkpoint.pth.tar"))
    dist.destroy_process_group()


def validate(loader, val_set, model, args):
    top5 = AverageMeter()

    def run(batches):
        with torch.no_grad():
            for images, target in batches:
                top5.update(accuracy(model(images), target, (1, 5))[1][0].item(), images.size(0))

    model.eval()
    run(loader)
    top5.all_reduce()
    seen = len(loader.sampler) * dist.get_world_size()
    if seen < len(val_set):  # what is left of it is done by all
        run(DataLoader(Subset(val_set, range(seen, len(val_set))), batch_size=args.batch_size))
    return top5.avg


def main():
    args = parser.parse_args()
    if args.dist_url == "env://" and args.world_size == -1:
        args.world_size = int(os.environ["WORLD_SIZE"])
    if args.multiprocessing_distributed:
        args.world_size = args.processes * args.world_size
        mp.spawn(main_worker, nprocs=args.processes, args=(args,))
    else:
        main_worker(0, args)


if __name__ == "__main__":
    main()
