# SPDX-License-Identifier: BSD-3-Clause
"""A group norm of 32 groups and the ReLU behind it, forward and backward, as PyTorch has them, rows in turn (`torch`) and
channels innermost (`torch_channels_last`)."""
import sys

import torch
from torch.nn import functional

import stopwatch

TOLERANCE = 1e-3
SHAPES = {"64@32": (64, 32), "128@16": (128, 16), "256@8": (256, 8), "512@4": (512, 4)}


class Peer:
    def __init__(self, task, name, innermost):
        channels, side = SHAPES[name]
        form = torch.channels_last if innermost else torch.contiguous_format
        x, dy, self.y, self.dx = (task(f"{name}.{what}").reshape(-1, channels, side, side) for what in
                                  ("x.f32", "dy.f32", "y.f64", "dx.f64"))
        self.x, self.dy = (t.contiguous(memory_format=form).requires_grad_(grad) for t, grad in ((x, True), (dy, False)))
        self.scale, self.shift = (task(f"{name}.{what}.f32").requires_grad_() for what in ("scale", "shift"))
        self.out = self.forward()

    def forward(self):
        return functional.relu(functional.group_norm(self.x, 32, self.scale, self.shift), inplace=True)

    def backward(self):
        return torch.autograd.grad(self.out, (self.x, self.scale, self.shift), self.dy, retain_graph=True)

    def forward_error(self):
        return stopwatch.distance(self.out.detach(), self.y)

    def backward_error(self):
        return stopwatch.distance(self.backward()[0], self.dx)


if __name__ == "__main__":
    task = stopwatch.Task(sys.argv[1])
    peers = {}
    for name in SHAPES:
        for form in ("torch", "torch_channels_last"):
            peer = Peer(task, name, form != "torch")
            peers[f"{name}/forward/{form}"] = (peer.forward_error, TOLERANCE, lambda p=peer: p.forward() is not None)
            peers[f"{name}/backward/{form}"] = (peer.backward_error, TOLERANCE, lambda p=peer: p.backward() is not None)
    stopwatch.serve(peers)
