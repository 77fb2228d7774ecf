# SPDX-License-Identifier: BSD-3-Clause
"""A step of a convolutional network as everybody writes it: modules, cross_entropy, backward, SGD. Batches are gathered
before."""
import sys

import torch
from torch import nn
from torch.nn import functional

import models
import stopwatch

BATCH, CHECKED_STEPS, RATE, TOLERANCE = 20, 5, 0.01, 2e-5
WIDTHS = {"cnn": (32, 64, 512), "lenet5": (20, 50, 500)}


class Plain:
    def __init__(self, task, name):
        self.start, self.expected = task(f"{name}.start.f32"), task(f"{name}.expected.f64")
        rows = task("rows.f32").reshape(-1, BATCH, 1, 28, 28)
        self.batches = list(zip(rows, task("labels.i32").long().reshape(-1, BATCH)))
        first, second, hidden = WIDTHS[name]
        self.model = nn.Sequential(nn.Conv2d(1, first, 5), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(first, second, 5),
                                   nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(16 * second, hidden), nn.ReLU(),
                                   nn.Linear(hidden, 10))
        self.reset()

    def reset(self):
        models.load(self.model, self.start)
        self.sgd = torch.optim.SGD(self.model.parameters(), lr=RATE)

    def step(self, batch):
        x, y = self.batches[batch % len(self.batches)]
        self.sgd.zero_grad()
        functional.cross_entropy(self.model(x), y).backward()
        self.sgd.step()

    def error(self):
        for s in range(CHECKED_STEPS):
            self.step(s)
        answer = models.flat(self.model.parameters())
        self.reset()
        return stopwatch.distance(answer, self.expected)

    def work(self):
        for s in range(5):
            self.step(s)
        return 5


if __name__ == "__main__":
    task = stopwatch.Task(sys.argv[1])
    both = {name: Plain(task, name) for name in WIDTHS}
    stopwatch.serve({f"{name}/torch_plain": (peer.error, TOLERANCE, peer.work) for name, peer in both.items()})
