# SPDX-License-Identifier: BSD-3-Clause
"""The two models, with parameters in and out as one flat vector in the order of their layers."""
import torch
from torch import nn

LEAK = 0.1


def make(name):
    if name == "mclr":
        return nn.Sequential(nn.Linear(784, 10))
    return nn.Sequential(nn.Linear(784, 100), nn.LeakyReLU(LEAK), nn.Linear(100, 10))


def shapes(name):
    return [tuple(p.shape) for p in make(name).parameters()]


def split(name, flat):
    """The parameters as tensors of their own."""
    out, at = [], 0
    for shape in shapes(name):
        size = torch.Size(shape).numel()
        out.append(flat[at:at + size].reshape(shape).clone())
        at += size
    return out


def load(model, flat):
    nn.utils.vector_to_parameters(flat.clone(), model.parameters())


def flat(parameters):
    return torch.cat([p.detach().reshape(-1) for p in parameters])
