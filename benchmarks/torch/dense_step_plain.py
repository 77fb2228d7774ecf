# SPDX-License-Identifier: BSD-3-Clause
"""Plain steps of the two dense models."""
import sys

import models
import plain_step
import stopwatch

TOLERANCE = 5e-6

if __name__ == "__main__":
    task = stopwatch.Task(sys.argv[1])
    both = {name: plain_step.Plain(task, name, models.make(name), (784,), checked=20, at_once=100)
            for name in ("dnn", "mclr")}
    stopwatch.serve({f"{name}/torch_plain": (peer.error, TOLERANCE, peer.work) for name, peer in both.items()})
