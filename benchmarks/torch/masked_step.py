# SPDX-License-Identifier: BSD-3-Clause
"""The step of a masked layer as masked training does it in PyTorch: dense products by autograd, the gradient times the
mask before the update."""
import sys

import torch

import stopwatch

LAYERS = {"784x256": (784, 256), "1024x1024": (1024, 1024)}
DENSITIES = ("0.50", "0.20", "0.10", "0.05")
RATE = 1e-3
TOLERANCE = 5e-5  # as for the C++ competitors


class MaskedLayer:
    def __init__(self, task, layer, density):
        def array(name):
            return task(f"{layer}.{density}.{name}")
        inputs, outputs = LAYERS[layer]
        self.x = array("x.f32").view(-1, inputs).requires_grad_()
        self.dy = array("dy.f32").view(-1, outputs)
        self.start = array("w.f32").view(outputs, inputs)
        self.mask = array("mask.u8").view(outputs, inputs).float()
        self.expected = [array(f"{name}.f64") for name in ("y", "dx", "moved")]
        self.w = self.start.clone().requires_grad_()

    def step(self):
        self.w.grad = self.x.grad = None
        y = torch.nn.functional.linear(self.x, self.w)
        y.backward(self.dy)
        with torch.no_grad():
            self.w.grad.mul_(self.mask)
            self.w.add_(self.w.grad, alpha=-RATE)
        return y

    def error(self):
        with torch.no_grad():
            self.w.copy_(self.start)
        answers = [self.step().detach(), self.x.grad, self.w.detach()]
        return max(stopwatch.distance(a.flatten(), e) for a, e in zip(answers, self.expected))

    def work(self):
        self.step()
        return 1


if __name__ == "__main__":
    TASK = stopwatch.Task(sys.argv[1])
    COMPETITORS = {}
    for LAYER in LAYERS:
        for DENSITY in DENSITIES:
            competitor = MaskedLayer(TASK, LAYER, DENSITY)
            COMPETITORS[f"{LAYER}/{DENSITY}/torch_masked"] = (competitor.error, TOLERANCE, competitor.work)
    stopwatch.serve(COMPETITORS)
