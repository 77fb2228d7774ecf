# SPDX-License-Identifier: BSD-3-Clause
"""Plain steps of two convolutional networks."""
import sys

from torch import nn

import plain_step
import stopwatch

TOLERANCE = 2e-5
WIDTHS = {"cnn": (32, 64, 512), "lenet5": (20, 50, 500)}


def network(first, second, hidden):
    return nn.Sequential(nn.Conv2d(1, first, 5), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(first, second, 5), nn.ReLU(),
                         nn.MaxPool2d(2), nn.Flatten(), nn.Linear(16 * second, hidden), nn.ReLU(), nn.Linear(hidden, 10))


if __name__ == "__main__":
    task = stopwatch.Task(sys.argv[1])
    both = {name: plain_step.Plain(task, name, network(*widths), (1, 28, 28), checked=5, at_once=5)
            for name, widths in WIDTHS.items()}
    stopwatch.serve({f"{name}/torch_plain": (peer.error, TOLERANCE, peer.work) for name, peer in both.items()})
