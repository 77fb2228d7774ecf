# SPDX-License-Identifier: BSD-3-Clause
"""The step as an expert writes it for many clients: all of them in one batched product (baddbmm), gradients by hand, no
Python for a single client. Counted per client."""
import sys

import torch

import models
import stopwatch

BATCH, CHECKED_STEPS, RATE, TOLERANCE = 20, 20, 0.01, 5e-6
CLIENTS = 20


class Expert:
    def __init__(self, task, name):
        self.start, self.expected, self.name = task(f"{name}.start.f32"), task(f"{name}.expected.f64"), name
        rows, labels = task("rows.f32").reshape(-1, BATCH, 784), task("labels.i32").long().reshape(-1, BATCH)
        targets = torch.nn.functional.one_hot(labels, 10).float()
        everybody = [(x.repeat(CLIENTS, 1, 1), y.repeat(CLIENTS, 1, 1)) for x, y in zip(rows, targets)]
        self.batches = everybody
        self.reset()

    def reset(self):
        self.weights = [w.repeat(CLIENTS, *[1] * w.dim()) for w in models.split(self.name, self.start)]
        for i in range(1, len(self.weights), 2):
            self.weights[i] = self.weights[i].unsqueeze(1)  # [clients, 1, out], so that rows of a batch share it

    def step(self, batch):
        x, target = self.batches[batch % len(self.batches)]
        pre = torch.baddbmm(self.weights[1], x, self.weights[0].transpose(1, 2))
        if self.name == "mclr":
            dz = pre.softmax(2).sub_(target)
            self.weights[0].baddbmm_(dz.transpose(1, 2), x, alpha=-RATE / BATCH)
            self.weights[1].sub_(dz.sum(1, keepdim=True), alpha=RATE / BATCH)
            return
        act = torch.nn.functional.leaky_relu(pre, models.LEAK)
        dz = torch.baddbmm(self.weights[3], act, self.weights[2].transpose(1, 2)).softmax(2).sub_(target)
        back = torch.bmm(dz, self.weights[2]).mul_(torch.where(pre > 0, 1.0, models.LEAK))
        self.weights[2].baddbmm_(dz.transpose(1, 2), act, alpha=-RATE / BATCH)
        self.weights[3].sub_(dz.sum(1, keepdim=True), alpha=RATE / BATCH)
        self.weights[0].baddbmm_(back.transpose(1, 2), x, alpha=-RATE / BATCH)
        self.weights[1].sub_(back.sum(1, keepdim=True), alpha=RATE / BATCH)

    def error(self):
        for s in range(CHECKED_STEPS):
            self.step(s)
        answers = [models.flat(w[k] for w in self.weights) for k in range(CLIENTS)]
        self.reset()
        return max(stopwatch.distance(answer, self.expected) for answer in answers)

    def work(self):
        for s in range(10):
            self.step(s)
        return 10 * CLIENTS


if __name__ == "__main__":
    task = stopwatch.Task(sys.argv[1])
    with torch.no_grad():
        both = {name: Expert(task, name) for name in ("dnn", "mclr")}
        stopwatch.serve({f"{name}/torch_expert": (peer.error, TOLERANCE, peer.work) for name, peer in both.items()})
