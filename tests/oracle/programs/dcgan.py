"""A small DCGAN, written as the examples of PyTorch write one."""

import argparse
import random

import torch
import torch.backends.cudnn as cudnn
import torch.nn as nn
import torch.nn.parallel
import torch.optim as optim
import torch.utils.data

parser = argparse.ArgumentParser()
parser.add_argument("--niter", type=int, default=1)
parser.add_argument("--manualSeed", type=int, default=3)
parser.add_argument("--ngpu", type=int, default=1)
opt = parser.parse_args()
print(opt)
random.seed(opt.manualSeed)
torch.manual_seed(opt.manualSeed)
cudnn.benchmark = True
use_accel = torch.accelerator.is_available()
device = torch.accelerator.current_accelerator() if use_accel else torch.device("cpu")
print(f"Using device: {device}")
nz, ngf, ndf, nc = 10, 8, 8, 1


def weights_init(m):
    classname = m.__class__.__name__
    if classname.find("Conv") != -1:
        torch.nn.init.normal_(m.weight, 0.0, 0.02)
    elif classname.find("BatchNorm") != -1:
        torch.nn.init.normal_(m.weight, 1.0, 0.02)
        torch.nn.init.zeros_(m.bias)


class Generator(nn.Module):
    def __init__(self, ngpu):
        super().__init__()
        self.ngpu = ngpu
        self.main = nn.Sequential(
            nn.ConvTranspose2d(nz, ngf * 2, 4, 1, 0, bias=False),
            nn.BatchNorm2d(ngf * 2),
            nn.ReLU(True),
            nn.ConvTranspose2d(ngf * 2, ngf, 4, 2, 1, bias=False),
            nn.BatchNorm2d(ngf),
            nn.ReLU(True),
            nn.ConvTranspose2d(ngf, nc, 4, 2, 1, bias=False),
            nn.Tanh(),
        )

    def forward(self, input):
        if (input.is_cuda or input.is_xpu) and self.ngpu > 1:
            return nn.parallel.data_parallel(self.main, input, range(self.ngpu))
        return self.main(input)


netG = Generator(opt.ngpu).to(device)
netG.apply(weights_init)
print(netG)
netD = nn.Sequential(
    nn.Conv2d(nc, ndf, 4, 2, 1, bias=False),
    nn.LeakyReLU(0.2, inplace=True),
    nn.Conv2d(ndf, ndf * 2, 4, 2, 1, bias=False),
    nn.BatchNorm2d(ndf * 2),
    nn.LeakyReLU(0.2, inplace=True),
    nn.Conv2d(ndf * 2, 1, 4, 1, 0, bias=False),
    nn.Sigmoid(),
).to(device)
netD.apply(weights_init)
criterion = nn.BCELoss()
fixed = torch.randn(4, nz, 1, 1, device=device)
oD = optim.Adam(netD.parameters(), lr=0.0002, betas=(0.5, 0.999))
oG = optim.Adam(netG.parameters(), lr=0.0002, betas=(0.5, 0.999))
ds = torch.utils.data.TensorDataset(torch.rand(64, 1, 16, 16) * 2 - 1)
dl = torch.utils.data.DataLoader(ds, batch_size=16, shuffle=True, num_workers=0)
for epoch in range(2):
    for i, data in enumerate(dl, 0):
        netD.zero_grad()
        real = data[0].to(device)
        b = real.size(0)
        label = torch.full((b,), 1.0, dtype=real.dtype, device=device)
        out = netD(real).view(-1, 1).squeeze(1)
        eD = criterion(out, label)
        eD.backward()
        Dx = out.mean().item()
        noise = torch.randn(b, nz, 1, 1, device=device)
        fake = netG(noise)
        label.fill_(0.0)
        out = netD(fake.detach()).view(-1)
        eF = criterion(out, label)
        eF.backward()
        z1 = out.mean().item()
        oD.step()
        netG.zero_grad()
        label.fill_(1.0)
        out = netD(fake).view(-1)
        eG = criterion(out, label)
        eG.backward()
        oG.step()
        print(
            "[%d][%d] Loss_D: %.4f Loss_G: %.4f D(x): %.4f D(G(z)): %.4f / %.4f"
            % (epoch, i, (eD + eF).item(), eG.item(), Dx, z1, out.mean().item())
        )

from torch.autograd import Variable

v = Variable(torch.FloatTensor(2, 2).normal_(), requires_grad=True)
(v * 2).sum().backward()
print(v.grad.data, Variable(torch.LongTensor([1, 2])))
