# SPDX-License-Identifier: BSD-3-Clause
"""The three products of large layers by JAX, each jitted. 64 rows of an answer are checked in double."""
import json
import os
import sys

SIZES, PRODUCTS = (1024, 2048), ("forward", "weights", "inputs")
NAMES = [f"{n}x{n}x{n}/{product}/jax" for n in SIZES for product in PRODUCTS]
os.environ["XLA_FLAGS"] = "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1"
try:
    import jax
    import numpy as np
except ImportError:
    print(json.dumps({"ready": {name: "not measured: JAX is not installed" for name in NAMES}}), flush=True)
    sys.exit(0)

import stopwatch  # noqa: E402

TOLERANCE = {1024: 1e-4, 2048: 3e-4}  # as gemm/main.cpp has it, for the same numbers
FORMS = {"forward": lambda x, w, dy: x @ w.T, "weights": lambda x, w, dy: dy.T @ x, "inputs": lambda x, w, dy: dy @ w}


class Peer:
    def __init__(self, task, n, product):
        self.numbers = [task(f"{n}.{name}.f32").numpy().reshape(n, n) for name in ("x", "w", "dy")]
        self.arrays, self.product, self.form = [jax.numpy.array(a) for a in self.numbers], product, jax.jit(FORMS[product])

    def error(self):
        x, w, dy = (a.astype(np.float64) for a in self.numbers)
        rows = np.linspace(0, len(x) - 1, 64).astype(int)
        some = {"forward": (x[rows], w, dy), "weights": (x, w, dy[:, rows]), "inputs": (x, w, dy[rows])}[self.product]
        off = np.abs(np.asarray(self.form(*self.arrays))[rows] - FORMS[self.product](*some)).max()
        return float(off) if np.isfinite(off) else float("inf")

    def work(self):
        self.form(*self.arrays).block_until_ready()
        return 1


if __name__ == "__main__":
    task = stopwatch.Task(sys.argv[1])
    peers = {(n, product): Peer(task, n, product) for n in SIZES for product in PRODUCTS}
    stopwatch.serve({f"{n}x{n}x{n}/{product}/jax": (peer.error, TOLERANCE[n], peer.work)
                     for (n, product), peer in peers.items()})
