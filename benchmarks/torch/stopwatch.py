# SPDX-License-Identifier: BSD-3-Clause
"""What the PyTorch scripts share: reading the task that the C++ program exported, checking the answer, and timing on
demand.

A script is started once and then asked, a line at a time, on standard input: `<name> <seconds>`. It works for about
that long and answers with one line of JSON. So its turns can be put between those of the C++ competitors, without paying for
`import torch` each time. Its first line says which competitors are right; a wrong one is never timed.
"""
import json
import pathlib
import sys
import time

import torch

torch.set_num_threads(1)
torch.set_flush_denormal(True)  # as Tessera does inside a visit

DTYPES = {"f32": torch.float32, "f64": torch.float64, "i32": torch.int32, "u8": torch.uint8}


class Task:
    """A folder of raw arrays; the ending of a name is its type."""

    def __init__(self, folder):
        self.folder = pathlib.Path(folder)

    def __call__(self, name):
        data = bytearray((self.folder / name).read_bytes())
        return torch.frombuffer(data, dtype=DTYPES[name.rsplit(".", 1)[1]])


def distance(answer, expected):
    """The largest difference; not finite is infinitely far."""
    worst = (answer.double() - expected.double()).abs().max().item()
    return worst if worst == worst else float("inf")


def serve(competitors):
    """competitors: {name: (error(), tolerance, work())}. work() does some items and returns how many."""
    verdicts = {}
    for name, (error, tolerance, _) in competitors.items():
        off = error()
        complaint = f"wrong answer: off the reference by {off:.3g}, allowed are {tolerance:.3g}"
        verdicts[name] = "" if off <= tolerance else complaint
    print(json.dumps({"ready": verdicts, "torch": torch.__version__}), flush=True)
    for line in sys.stdin:
        name, seconds = line.split()
        work = competitors[name][2]
        items, real, cpu = 0, time.perf_counter(), time.process_time()
        while True:
            items += work()
            if time.perf_counter() - real >= float(seconds):
                break
        real, cpu = time.perf_counter() - real, time.process_time() - cpu
        print(json.dumps({"name": name, "real": real / items, "cpu": cpu / items}), flush=True)
