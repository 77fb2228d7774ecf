# SPDX-License-Identifier: BSD-3-Clause
"""The mask of the largest fifth of a million magnitudes, by torch.topk."""
import sys

import torch

import stopwatch


class Select:
    def __init__(self, task):
        self.x, self.expected = task("x.f32"), task("expected.u8").bool()
        self.keep = int(self.expected.sum())

    def mask(self):
        mask = torch.zeros(len(self.x), dtype=torch.bool)
        mask[torch.topk(self.x.abs(), self.keep, sorted=False).indices] = True
        return mask


if __name__ == "__main__":
    task = Select(stopwatch.Task(sys.argv[1]))
    stopwatch.serve({"top20/torch_topk": (
        lambda: float((task.mask() != task.expected).sum()), 0.0, lambda: task.mask() is not None)})
