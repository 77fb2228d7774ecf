# SPDX-License-Identifier: BSD-3-Clause
"""Steps of image networks: as everybody writes it (`torch_plain`), without an optimizer object (`torch_bare`), and that
with channels innermost (`torch_channels_last`)."""
import sys

import torch
from torch import nn
from torch.nn import functional

import models
import stopwatch
import zoo

TOLERANCE = 2e-4
RATE, CHECKED = 0.01, 4


def cifar_cnn():
    return nn.Sequential(nn.Conv2d(3, 32, 5), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(32, 64, 5), nn.ReLU(), nn.MaxPool2d(2),
                         nn.Flatten(), nn.Linear(1600, 512), nn.ReLU(), nn.Linear(512, 10))


NETWORKS = {"resnet18": (32, zoo.ResNet), "vgg11": (32, zoo.Vgg), "cifar_cnn_32": (32, cifar_cnn),
            "cifar_cnn_64": (64, cifar_cnn)}


class Peer:
    def __init__(self, task, name, form):
        self.batch, make = NETWORKS[name]
        self.start, self.expected = task(f"{name}.start.f32"), task(f"{name}.expected.f64")
        self.form, self.s = form, 0
        rows, labels = task("rows.f32").reshape(-1, 3, 32, 32), task("labels.i32").long()
        self.model = make()
        models.load(self.model, self.start)
        if form == "channels_last":
            self.model, rows = self.model.to(memory_format=torch.channels_last), rows.contiguous(memory_format=torch.channels_last)
        self.batches = [(rows[i:i + self.batch].clone(memory_format=torch.preserve_format), labels[i:i + self.batch])
                        for i in (0, self.batch)]
        self.first = rows[:CHECKED].clone(memory_format=torch.preserve_format), labels[:CHECKED]
        self.parameters = list(self.model.parameters())
        self.sgd = torch.optim.SGD(self.parameters, lr=RATE) if form == "plain" else None

    def error(self):
        x, y = self.first
        grads = torch.autograd.grad(functional.cross_entropy(self.model(x), y), self.parameters)
        slopes = models.flat(grads).double()
        return stopwatch.distance(slopes / slopes.abs().max(), self.expected)

    def work(self):
        x, y = self.batches[self.s % 2]
        self.s += 1
        if self.sgd:
            self.sgd.zero_grad()
            functional.cross_entropy(self.model(x), y).backward()
            self.sgd.step()
            return 1
        grads = torch.autograd.grad(functional.cross_entropy(self.model(x), y), self.parameters)
        with torch.no_grad():
            torch._foreach_add_(self.parameters, grads, alpha=-RATE)
        return 1


if __name__ == "__main__":
    task = stopwatch.Task(sys.argv[1])
    peers = {f"{name}/torch_{form}": Peer(task, name, form) for name in NETWORKS for form in ("plain", "bare", "channels_last")}
    stopwatch.serve({name: (peer.error, TOLERANCE, peer.work) for name, peer in peers.items()})
