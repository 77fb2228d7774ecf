# SPDX-License-Identifier: BSD-3-Clause
"""The weighted mean of 100 vectors of a million floats, in the two ways one meets: a running sum, and a stack."""
import sys

import torch

import stopwatch

CLIENTS, TOLERANCE = 100, 1e-5


class Mean:
    def __init__(self, task):
        self.rows = list(task("rows.f32").reshape(CLIENTS, -1))
        weights = task("weights.f32").double()
        self.shares = (weights / weights.sum()).float()
        self.expected = task("expected.f64")

    def running_sum(self):
        mean = torch.zeros_like(self.rows[0])
        for row, share in zip(self.rows, self.shares.tolist()):
            mean.add_(row, alpha=share)
        return mean

    def stack(self):
        return (torch.stack(self.rows) * self.shares.unsqueeze(1)).sum(0)


if __name__ == "__main__":
    task = Mean(stopwatch.Task(sys.argv[1]))

    def competitor(mean):
        return lambda: stopwatch.distance(mean(), task.expected), TOLERANCE, lambda: mean() is not None

    with torch.no_grad():
        stopwatch.serve({"whole/torch_add": competitor(task.running_sum), "whole/torch_stack": competitor(task.stack)})
