# SPDX-License-Identifier: BSD-3-Clause
"""A step on text as everybody writes it first: a module, cross_entropy, backward, SGD."""
import torch
from torch.nn import functional

import models
import stopwatch

BATCH, RATE = 16, 0.1


class Plain:
    """`checked` steps are compared with the reference."""

    def __init__(self, task, name, model, positions, checked):
        self.start, self.expected = task(f"{name}.start.f32"), task(f"{name}.expected.f64")
        text, following = (task(f"{name}.{what}.i32").long().reshape(-1, BATCH, positions) for what in ("text", "next"))
        self.batches = list(zip(text, following))
        self.model, self.checked, self.at = model, checked, 0
        self.reset()

    def reset(self):
        models.load(self.model, self.start)
        self.sgd = torch.optim.SGD(self.model.parameters(), lr=RATE)

    def step(self, batch):
        text, following = self.batches[batch % len(self.batches)]
        self.sgd.zero_grad()
        functional.cross_entropy(self.model(text).flatten(0, 1), following.flatten()).backward()
        self.sgd.step()

    def error(self):
        for s in range(self.checked):
            self.step(s)
        answer = models.flat(self.model.parameters())
        self.reset()
        return stopwatch.distance(answer, self.expected)

    def work(self):
        self.step(self.at)
        self.at += 1
        return 1
