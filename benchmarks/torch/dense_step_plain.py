# SPDX-License-Identifier: BSD-3-Clause
"""The step as everybody writes it first: a module, cross_entropy, backward, SGD. Batches are gathered before."""
import sys

import torch
from torch.nn import functional

import models
import stopwatch

BATCH, CHECKED_STEPS, RATE, TOLERANCE = 20, 20, 0.01, 5e-6


class Plain:
    def __init__(self, task, name):
        self.start, self.expected = task(f"{name}.start.f32"), task(f"{name}.expected.f64")
        rows, labels = task("rows.f32").reshape(-1, BATCH, 784), task("labels.i32").long().reshape(-1, BATCH)
        self.batches = list(zip(rows, labels))
        self.model = models.make(name)
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
        for s in range(100):
            self.step(s)
        return 100


if __name__ == "__main__":
    task = stopwatch.Task(sys.argv[1])
    both = {name: Plain(task, name) for name in ("dnn", "mclr")}
    stopwatch.serve({f"{name}/torch_plain": (peer.error, TOLERANCE, peer.work) for name, peer in both.items()})
