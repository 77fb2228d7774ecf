# SPDX-License-Identifier: BSD-3-Clause
"""The step of one model with gradients written by hand and products that add to the weights in place."""
import sys

import torch

import models
import stopwatch

BATCH, CHECKED_STEPS, RATE, TOLERANCE = 20, 20, 0.01, 5e-6


class Manual:
    def __init__(self, task, name):
        self.start, self.expected, self.name = task(f"{name}.start.f32"), task(f"{name}.expected.f64"), name
        labels = task("labels.i32").long().reshape(-1, BATCH)
        targets = torch.nn.functional.one_hot(labels, 10).float()
        self.batches = list(zip(task("rows.f32").reshape(-1, BATCH, 784), targets))
        self.reset()

    def reset(self):
        self.weights = models.split(self.name, self.start)

    def step(self, batch):
        x, target = self.batches[batch % len(self.batches)]
        pre = torch.addmm(self.weights[1], x, self.weights[0].t())
        if self.name == "mclr":
            dz = pre.softmax(1).sub_(target)
            self.weights[0].addmm_(dz.t(), x, alpha=-RATE / BATCH)
            self.weights[1].sub_(dz.sum(0), alpha=RATE / BATCH)
            return
        act = torch.nn.functional.leaky_relu(pre, models.LEAK)
        dz = torch.addmm(self.weights[3], act, self.weights[2].t()).softmax(1).sub_(target)
        back = torch.mm(dz, self.weights[2]).mul_(torch.where(pre > 0, 1.0, models.LEAK))
        self.weights[2].addmm_(dz.t(), act, alpha=-RATE / BATCH)
        self.weights[3].sub_(dz.sum(0), alpha=RATE / BATCH)
        self.weights[0].addmm_(back.t(), x, alpha=-RATE / BATCH)
        self.weights[1].sub_(back.sum(0), alpha=RATE / BATCH)

    def error(self):
        for s in range(CHECKED_STEPS):
            self.step(s)
        answer = models.flat(self.weights)
        self.reset()
        return stopwatch.distance(answer, self.expected)

    def work(self):
        for s in range(100):
            self.step(s)
        return 100


if __name__ == "__main__":
    task = stopwatch.Task(sys.argv[1])
    with torch.no_grad():
        both = {name: Manual(task, name) for name in ("dnn", "mclr")}
        stopwatch.serve({f"{name}/torch_manual": (peer.error, TOLERANCE, peer.work) for name, peer in both.items()})
