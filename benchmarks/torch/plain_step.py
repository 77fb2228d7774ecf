# SPDX-License-Identifier: BSD-3-Clause
"""A step as everybody writes it first: a module, cross_entropy, backward, SGD. Batches are gathered before."""
import torch
from torch.nn import functional

import models
import stopwatch

BATCH, RATE = 20, 0.01


class Plain:
    """`checked` steps are compared with the reference, `at_once` are timed together."""

    def __init__(self, task, name, model, row_shape, checked, at_once):
        self.start, self.expected = task(f"{name}.start.f32"), task(f"{name}.expected.f64")
        rows, labels = task("rows.f32").reshape(-1, BATCH, *row_shape), task("labels.i32").long().reshape(-1, BATCH)
        self.batches = list(zip(rows, labels))
        self.model, self.checked, self.at_once = model, checked, at_once
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
        for s in range(self.checked):
            self.step(s)
        answer = models.flat(self.model.parameters())
        self.reset()
        return stopwatch.distance(answer, self.expected)

    def work(self):
        for s in range(self.at_once):
            self.step(s)
        return self.at_once
