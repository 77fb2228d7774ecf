# SPDX-License-Identifier: BSD-3-Clause
"""The weighted mean of 100 vectors of a million floats, each with a quarter of the coordinates; a client that lacks one
counts with its old value. As masked training has them in PyTorch, vectors are zero-filled and masks lie beside them;
filling them is not timed. Two ways: choose and add, and add vectors and masks apart, masks as floats, which reads more
and makes nothing on the way."""
import sys

import torch

import stopwatch

CLIENTS, TOLERANCE = 100, 1e-5


class MaskedMean:
    def __init__(self, task):
        weights = task("packed.weights.f32").double()
        self.shares = (weights / weights.sum()).float().tolist()
        self.before = task("packed.before.f32")
        self.expected = task("packed.expected.f64")
        octets = task("packed.bits.u8").view(CLIENTS, -1, 1)
        packed, at = task("packed.rows.f32"), 0
        self.masks, self.ones, self.rows = [], [], []
        for client in range(CLIENTS):
            mask = (octets[client] >> torch.arange(8, dtype=torch.uint8) & 1).flatten().bool()
            owned = int(mask.sum())
            row = torch.zeros_like(self.before)
            row[mask] = packed[at:at + owned]
            self.masks.append(mask)
            self.ones.append(mask.float())
            self.rows.append(row)
            at += owned

    def choose(self):
        mean = torch.zeros_like(self.before)
        for row, mask, share in zip(self.rows, self.masks, self.shares):
            mean.add_(torch.where(mask, row, self.before), alpha=share)
        return mean

    def apart(self):
        mean, owned = torch.zeros_like(self.before), torch.zeros_like(self.before)
        for row, ones, share in zip(self.rows, self.ones, self.shares):
            mean.add_(row, alpha=share)
            owned.add_(ones, alpha=share)
        return mean.add_(self.before * (1 - owned))


if __name__ == "__main__":
    task = MaskedMean(stopwatch.Task(sys.argv[1]))

    def competitor(mean):
        return lambda: stopwatch.distance(mean(), task.expected), TOLERANCE, lambda: mean() is not None

    with torch.no_grad():
        stopwatch.serve({"packed/torch_where": competitor(task.choose), "packed/torch_add": competitor(task.apart)})
