#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""The image zoo against torch with the same weights: logits and gradients, both ways through a file by name.

    zoo.py                       compiles zoo_gradient.cpp, holds every network against torch, in float, at 1e-4 relative
    zoo.py --only resnet18       those networks alone; --program FILE: zoo_gradient.cpp, compiled before
    zoo.py --vectors             prints the numbers of tests/nn/zoo_vectors_test.cpp, made in double at small widths

Needs torch 2 and numpy, and g++ (or CXX). A network is held by || ours - torch's || / || torch's ||, of the logits and of
the gradient of each tensor; BatchNorm's running statistics by the step they take.
"""
import argparse
import math
import os
import pathlib
import subprocess
import sys
import tempfile
from collections import OrderedDict

import numpy as np
import torch
from torch import nn
from torch.nn import functional as F

HERE = pathlib.Path(__file__).resolve().parent


class GroupAffine(nn.Module):
    """GroupNorm with one scale and shift a group."""

    def __init__(self, groups, channels):
        super().__init__()
        self.groups, self.each = groups, channels // groups
        self.weight, self.bias = nn.Parameter(torch.ones(groups)), nn.Parameter(torch.zeros(groups))

    def forward(self, x):
        y = F.group_norm(x, self.groups)
        return y * self.weight.repeat_interleave(self.each)[:, None, None] + \
            self.bias.repeat_interleave(self.each)[:, None, None]


class ResNet(nn.Module):
    def __init__(self, channels=3, classes=10, blocks=(2, 2, 2, 2), width=64, imagenet=False, batch=False,
                 groups=(32, 32, 32, 32), each=0, affine="channel", adapters=None, rank=8):
        super().__init__()

        def norm(n, stage):
            if batch:
                return nn.BatchNorm2d(n)
            count = n // each if each else groups[stage]
            return GroupAffine(count, n) if affine == "group" else nn.GroupNorm(count, n)

        def conv(a, b, kernel, stride=1):
            return nn.Conv2d(a, b, kernel, stride, kernel // 2, bias=False)

        class Adapter(nn.Module):
            def __init__(self, n, stage):
                super().__init__()
                if adapters == "serial":
                    self.norm, self.conv = norm(n, stage), conv(n, n, 1)
                else:
                    self.add_module("0", conv(n, rank, 1))
                    self.add_module("2", conv(rank, n, 1))

            def forward(self, y):
                if adapters == "serial":
                    return y + self.conv(self.norm(y))
                return y + getattr(self, "2")(F.relu(getattr(self, "0")(y)))

        class Block(nn.Module):
            def __init__(self, a, b, stride, stage):
                super().__init__()
                self.conv1, self.bn1, self.conv2, self.bn2 = conv(a, b, 3, stride), norm(b, stage), conv(b, b, 3), norm(b, stage)
                self.downsample = nn.Sequential(conv(a, b, 1, stride), norm(b, stage)) if stride != 1 or a != b else None
                if adapters == "parallel":
                    self.adapter1, self.adapter2 = conv(a, b, 1, stride), conv(b, b, 1)
                elif adapters:
                    self.adapter1, self.adapter2 = Adapter(b, stage), Adapter(b, stage)

            def adapted(self, conv, name, x):
                if not adapters:
                    return conv(x)
                own = getattr(self, name)
                return conv(x) + own(x) if adapters == "parallel" else own(conv(x))

            def forward(self, x):
                y = F.relu(self.bn1(self.adapted(self.conv1, "adapter1", x)))
                y = self.bn2(self.adapted(self.conv2, "adapter2", y))
                return F.relu((self.downsample(x) if self.downsample else x) + y)

        self.conv1 = nn.Conv2d(channels, width, 7, 2, 3, bias=False) if imagenet else conv(channels, width, 3)
        self.bn1, self.imagenet = norm(width, 0), imagenet
        before, self.stages = width, []
        for stage, count in enumerate(blocks):
            if count == 0:
                break
            here = width << stage
            layer = nn.Sequential(*(Block(before if i == 0 else here, here, 2 if stage > 0 and i == 0 else 1, stage)
                                    for i in range(count)))
            setattr(self, f"layer{stage + 1}", layer)
            self.stages.append(layer)
            before = here
        self.fc = nn.Linear(before, classes)

    def forward(self, x):
        x = F.relu(self.bn1(self.conv1(x)))
        if self.imagenet:
            x = F.max_pool2d(x, 3, 2, 1)
        for stage in self.stages:
            x = stage(x)
        return self.fc(x.mean((2, 3)))


class Vit(nn.Module):
    """With timm's names."""

    def __init__(self, channels=3, side=32, classes=10, patch=4, width=192, blocks=6, heads=3, inner=384):
        super().__init__()

        class Attention(nn.Module):
            def __init__(self):
                super().__init__()
                self.qkv, self.proj = nn.Linear(width, 3 * width), nn.Linear(width, width)

            def forward(self, x):
                b, t, _ = x.shape
                q, k, v = self.qkv(x).reshape(b, t, 3, heads, width // heads).permute(2, 0, 3, 1, 4)
                return self.proj(F.scaled_dot_product_attention(q, k, v).transpose(1, 2).reshape(b, t, width))

        class Block(nn.Module):
            def __init__(self):
                super().__init__()
                self.norm1, self.attn, self.norm2 = nn.LayerNorm(width, 1e-6), Attention(), nn.LayerNorm(width, 1e-6)
                self.mlp = nn.Sequential(OrderedDict(fc1=nn.Linear(width, inner), act=nn.GELU(), fc2=nn.Linear(inner, width)))

            def forward(self, x):
                x = x + self.attn(self.norm1(x))
                return x + self.mlp(self.norm2(x))

        self.cls_token = nn.Parameter(torch.zeros(1, 1, width))
        self.pos_embed = nn.Parameter(torch.zeros(1, (side // patch) ** 2 + 1, width))
        self.patch_embed = nn.Sequential(OrderedDict(proj=nn.Conv2d(channels, width, patch, patch)))
        self.blocks = nn.Sequential(*(Block() for _ in range(blocks)))
        self.norm, self.head = nn.LayerNorm(width, 1e-6), nn.Linear(width, classes)

    def forward(self, x):
        x = self.patch_embed(x).flatten(2).transpose(1, 2)
        x = torch.cat([self.cls_token.expand(x.shape[0], -1, -1), x], 1) + self.pos_embed
        return self.head(self.norm(self.blocks(x))[:, 0])


class Layers(nn.Module):
    """Convolutions (name, outputs, kernel), pools and linear layers (name, outputs) in a row, ReLUs between them."""

    def __init__(self, channels, side, *layers):
        super().__init__()
        self.order, width = [], channels
        for i, layer in enumerate(layers):
            if layer == "pool":
                side //= 2
                self.order.append(None)
                continue
            name, outputs, *kernel = layer
            if kernel:
                module = nn.Conv2d(width, outputs, kernel[0])
                side -= kernel[0] - 1
            else:
                module = nn.Linear(width * side * side, outputs)
                side = 1
            width = outputs
            *path, last = name.split(".")
            holder = self
            for p in path:
                if not hasattr(holder, p):
                    holder.add_module(p, nn.Module())
                holder = getattr(holder, p)
            holder.add_module(last, module)
            self.order.append((module, i == len(layers) - 1))

    def forward(self, x):
        for each in self.order:
            if each is None:
                x = F.max_pool2d(x, 2)
                continue
            module, final = each
            x = module(x.flatten(1) if isinstance(module, nn.Linear) else x)
            x = x if final else F.relu(x)
        return x


class Vgg(nn.Module):
    def __init__(self, classes=10, width=64, groups=32):
        super().__init__()
        layers, before = [], 3
        for v in (1, "M", 2, "M", 4, 4, "M", 8, 8, "M", 8, 8, "M"):
            if v == "M":
                layers.append(nn.MaxPool2d(2))
                continue
            layers += [nn.Conv2d(before, v * width, 3, padding=1), nn.GroupNorm(groups, v * width), nn.ReLU()]
            before = v * width
        self.features, self.classifier = nn.Sequential(*layers), nn.Linear(before, classes)

    def forward(self, x):
        return self.classifier(self.features(x).flatten(1))


# name: (shape of an example, classes, network)
FULL = {
    "resnet8": ((3, 32, 32), 10, lambda: ResNet(blocks=(1, 1, 1), width=16, groups=(8, 8, 8))),
    "resnet18": ((3, 32, 32), 10, ResNet),
    "resnet34": ((3, 32, 32), 10, lambda: ResNet(blocks=(3, 4, 6, 3))),
    # Of 32 x 32 its last norms would see groups of two numbers, whose difference float knows to a few digits only.
    "flow-resnet18": ((3, 64, 64), 10, lambda: ResNet(imagenet=True, each=2, affine="group")),
    "fedalt-resnet18": ((1, 28, 28), 62, lambda: ResNet(1, 62, groups=(8, 8, 16, 32), adapters="serial")),
    "perada-resnet18": ((3, 64, 64), 65, lambda: ResNet(3, 65, imagenet=True, batch=True, adapters="serial")),
    "resnet18-parallel": ((3, 32, 32), 10, lambda: ResNet(adapters="parallel")),
    "resnet18-bottleneck": ((3, 32, 32), 10, lambda: ResNet(adapters="bottleneck")),
    "vgg11": ((3, 32, 32), 10, Vgg),
    "lenet5": ((1, 28, 28), 26, lambda: Layers(1, 28, ("conv1", 20, 5), "pool", ("conv2", 50, 5), "pool", ("fc1", 500), ("fc2", 26))),
    "cnn": ((1, 28, 28), 62, lambda: Layers(1, 28, ("conv1", 32, 5), "pool", ("conv2", 64, 5), "pool", ("fc", 62))),
    "cifarnet": ((3, 32, 32), 10, lambda: Layers(3, 32, ("conv1", 6, 5), "pool", ("conv2", 16, 5), "pool", ("fc1", 120), ("fc2", 84), ("fc3", 10))),
    "cifar-cnn": ((3, 32, 32), 10, lambda: Layers(3, 32, ("conv1.0", 32, 5), "pool", ("conv2.0", 64, 5), "pool", ("fc1.0", 512), ("fc", 10))),
    "small-vit": ((3, 32, 32), 10, Vit),
    "vit-s16": ((3, 224, 224), 10, lambda: Vit(side=224, patch=16, width=384, blocks=12, heads=6, inner=1536)),
}
# The same kinds, small: for vectors.
SMALL = {
    "group": ((3, 8, 8), 3, lambda: ResNet(3, 3, (1, 2), 4, groups=(2, 2))),
    "flow": ((3, 16, 16), 3, lambda: ResNet(3, 3, (1, 1), 4, imagenet=True, each=2, affine="group")),
    "batch": ((3, 16, 16), 3, lambda: ResNet(3, 3, (1, 1), 4, imagenet=True, batch=True, adapters="serial")),
    "parallel": ((3, 8, 8), 3, lambda: ResNet(3, 3, (1, 1), 4, groups=(2, 2), adapters="parallel")),
    "bottleneck": ((3, 8, 8), 3, lambda: ResNet(3, 3, (1, 1), 4, groups=(2, 2), adapters="bottleneck", rank=2)),
    "vgg11": ((3, 32, 32), 3, lambda: Vgg(3, 2, 2)),
    "cifarnet": ((3, 32, 32), 3, lambda: Layers(3, 32, ("conv1", 6, 5), "pool", ("conv2", 16, 5), "pool", ("fc1", 120), ("fc2", 84), ("fc3", 3))),
    "vit": ((3, 8, 8), 3, lambda: Vit(side=8, classes=3, patch=4, width=6, blocks=2, heads=2, inner=5)),
}
EXAMPLES = 3
# A ReLU or a pool whose input is within rounding of a tie goes another way in one of both, and one number of some 50,000 moves the
# slopes of a layer by 1e-3. A slope that is computed wrongly is wrong in every draw of weights and examples, so the first is taken
# where slopes agree.
DRAWS = 4


def tensors_of(net):
    """Parameters and running statistics by name."""
    return {k: v for k, v in net.state_dict(keep_vars=True).items() if not k.endswith("num_batches_tracked")}


def value_and_gradients(net, x, y):
    """Logits and, by name, gradients; of running statistics what the step takes away from them."""
    net.train()
    before = {k: v.detach().clone() for k, v in net.named_buffers()}
    z = net(x)
    loss = F.cross_entropy(z, y)
    loss.backward()
    out = {k: p.grad.detach() for k, p in net.named_parameters()}
    for k, v in net.named_buffers():
        if not k.endswith("num_batches_tracked"):
            out[k] = before[k] - v.detach()
    return loss.item(), z.detach(), out


def evaluated(net, x):
    net.eval()
    with torch.no_grad():
        return net(x)


def by_formula(name, shape):
    """Weights that any program can make: of four digits, by name and place."""
    at = sum((i + 1) * ord(c) for i, c in enumerate(name)) % 97
    wave = np.sin(1.7 * np.arange(math.prod(shape)) + at)
    if name.endswith("running_var"):
        v = 1 + 0.5 * wave ** 2
    elif len(shape) > 1:
        v = wave * 1.2 / math.sqrt(math.prod(shape[1:]))
    elif name.endswith("weight"):
        v = 1 + 0.3 * wave
    else:
        v = 0.2 * wave
    return np.round(v * 1e4).reshape(shape) / 1e4


def vectors():
    torch.set_default_dtype(torch.float64)
    for kind, (shape, classes, make) in SMALL.items():
        net = make()
        with torch.no_grad():
            for k, v in tensors_of(net).items():
                v.copy_(torch.from_numpy(by_formula(k, tuple(v.shape))))
        n = math.prod(shape)
        x = torch.from_numpy(np.round(1e4 * np.sin(0.37 * np.arange(EXAMPLES * n) + 0.5)) / 1e4).reshape(EXAMPLES, *shape)
        loss, z, grads = value_and_gradients(net, x, torch.arange(EXAMPLES) % classes)
        # Along waves over all numbers of a tensor: nothing of a gradient is left out.
        along = [sum(float((g.flatten() * torch.cos(0.9 * (f + 1) * torch.arange(g.numel()) + f)).sum()) *
                     (1 + 0.1 * (sum(map(ord, k)) % 7)) for k, g in grads.items()) for f in range(4)]
        numbers = [loss, *z.flatten().tolist(), *along]
        print(f'    {{"{kind}", {{{", ".join(f"{v:.10g}" for v in numbers)}}}}},')


def compiled(folder):
    program = folder / "zoo_gradient"
    subprocess.run([os.environ.get("CXX", "g++"), "-std=c++20", "-O2", "-fopenmp", "-isystem", "/usr/include/eigen3",
                    "-I", HERE.parents[1] / "include", HERE / "zoo_gradient.cpp", "-o", program], check=True)
    return program


def held(only, program):
    from safetensors.numpy import load_file, save_file
    failed = False
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        program = program or compiled(folder)
        for name, (shape, classes, make) in FULL.items():
            if only and name not in only:
                continue
            for draw in range(DRAWS):
                torch.manual_seed(draw + 1)
                net = make()
                with torch.no_grad():
                    for k, v in tensors_of(net).items():
                        if k.endswith("running_var"):
                            v.uniform_(0.5, 2)
                        elif v.dim() == 1:
                            v.add_(0.2 * torch.randn_like(v))
                        elif k in ("cls_token", "pos_embed"):
                            v.normal_(0, 0.1)
                x, y = torch.randn(EXAMPLES, *shape), torch.arange(EXAMPLES) % classes
                # torch's own names and bytes, as torch users have them on disk
                save_file({k: v.detach().numpy().copy() for k, v in net.state_dict().items()}, folder / "weights.safetensors")
                save_file({"x": x.numpy().reshape(EXAMPLES, -1), "shape": np.array(shape, np.int64),
                           "classes": np.array([classes], np.int64)}, folder / "input.safetensors")
                quiet = evaluated(net, x)
                _, _, grads = value_and_gradients(net, x, y)
                subprocess.run([program, name, folder / "input.safetensors", folder / "weights.safetensors",
                                folder / "output.safetensors", folder / "gradient.safetensors", folder / "again.safetensors"],
                               check=True)
                ours, mine = load_file(folder / "gradient.safetensors"), load_file(folder / "output.safetensors")["logits"]
                if ours.keys() != grads.keys():
                    sys.exit(f"{name}: other tensors: {sorted(ours.keys() ^ grads.keys())}")
                off = {k: float(np.linalg.norm(ours[k] - g.numpy()) / max(np.linalg.norm(g.numpy()), 1e-30)) for k, g in grads.items()}
                # Where the exact slope is 0 (biases of keys, of convolutions before a norm of one channel) both are rounding.
                size = max(float(np.linalg.norm(g.numpy())) for g in grads.values())
                off = {k: v for k, v in off.items() if np.linalg.norm(grads[k].numpy()) > 1e-6 * size}
                worst = max(off, key=off.get)
                logits = float(np.linalg.norm(mine - quiet.numpy()) / np.linalg.norm(quiet.numpy()))
                again = load_file(folder / "again.safetensors")
                net.load_state_dict({k: torch.from_numpy(v) for k, v in again.items()}, strict=not any("num_batches" in k for k in net.state_dict()))
                same = all(np.array_equal(again[k], v) for k, v in load_file(folder / "weights.safetensors").items() if k in again)
                wrong = not (logits < 1e-4 and same)  # in any draw: a tie moves no logit, and no byte of a file
                if not wrong and off[worst] >= 1e-4 and draw + 1 < DRAWS:
                    continue
                bad = wrong or not off[worst] < 1e-4
                failed = failed or bad
                print(f"{name:20} {sum(p.numel() for p in net.parameters()):>10,} parameters   logits {logits:.1e}   worst gradient "
                      f"{off[worst]:.1e} ({worst})   written again: {'the same' if same else 'OTHERS'}   draw {draw + 1}{'   WRONG' if bad else ''}")
                break
    return failed


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--vectors", action="store_true")
    parser.add_argument("--only", nargs="*")
    parser.add_argument("--program", help="zoo_gradient, compiled before")
    asked = parser.parse_args()
    torch.set_num_threads(1)
    if asked.vectors:
        vectors()
        return 0
    return 1 if held(asked.only, asked.program) else 0


if __name__ == "__main__":
    sys.exit(main())
