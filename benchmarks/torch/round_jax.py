# SPDX-License-Identifier: BSD-3-Clause
"""A whole round as one program of JAX: `lax.map` over clients, `scan` over steps, gathers and weighted mean included; gradients
by jax.grad (`jax_map`) and by hand (`jax_manual`). All examples are one float array; a short batch is filled up with rows that
count nothing."""
import functools
import json
import os
import sys

os.environ["XLA_FLAGS"] = "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1"
FORMS = [(method, name, form) for name in ("mclr", "dnn") for method in ("fedavg", "pfedme") for form in ("map", "manual")]
try:
    import jax
    import jax.numpy as jnp
    import numpy as np
    from jax import lax
except ImportError:
    print(json.dumps({"ready": {f"{m}/{n}/jax_{f}": "not measured: JAX is not installed" for m, n, f in FORMS}}), flush=True)
    sys.exit(0)

import torch  # noqa: E402

import models  # noqa: E402
import stopwatch  # noqa: E402
from round_plain import BATCH, INNER, LAMBDA, PER_ROUND, RATE, STEPS, TOLERANCE  # noqa: E402

SHAPES = {"mclr": [(10, 784), (10,)], "dnn": [(100, 784), (100,), (10, 100), (10,)]}


def split(name, flat):
    out, at = [], 0
    for shape in SHAPES[name]:
        n = int(np.prod(shape))
        out.append(jnp.asarray(flat[at:at + n].reshape(shape)))
        at += n
    return out


def loss(p, x, y, weight):
    z = x @ p[0].T + p[1]
    if len(p) == 4:
        z = jnp.where(z > 0, z, models.LEAK * z) @ p[2].T + p[3]
    return -(jnp.take_along_axis(jax.nn.log_softmax(z), y[:, None], 1)[:, 0] * weight).sum()


def by_hand(p, x, y, weight):
    target, pre = jax.nn.one_hot(y, 10, dtype=jnp.float32), x @ p[0].T + p[1]
    if len(p) == 2:
        dz = (jax.nn.softmax(pre) - target) * weight[:, None]
        return [dz.T @ x, dz.sum(0)]
    below = jnp.where(pre > 0, pre, models.LEAK * pre)
    dz = (jax.nn.softmax(below @ p[2].T + p[3]) - target) * weight[:, None]
    back = (dz @ p[2]) * jnp.where(pre > 0, 1.0, models.LEAK)
    return [back.T @ x, back.sum(0), dz.T @ below, dz.sum(0)]


def batch(data, ids):
    real = ids >= 0
    at = jnp.maximum(ids, 0)
    return data[0][at], data[1][at], real.astype(jnp.float32) / real.sum()


def fedavg_visit(gradient, _, data, server, ids):
    def step(p, i):
        return [w - RATE * d for w, d in zip(p, gradient(p, *batch(data, i)))], None
    local, _ = lax.scan(step, server, ids)
    return local, local


def pfedme_visit(gradient, pull, data, server, ids):
    def step(carry, i):
        w, examples = carry[0], batch(data, i)
        def inner(_, theta):
            return [t - RATE * (d + pull * (t - a)) for t, d, a in zip(theta, gradient(theta, *examples), w)]
        theta = lax.fori_loop(0, INNER, inner, w)
        return ([a - RATE * pull * (a - t) for a, t in zip(w, theta)], theta), None
    return lax.scan(step, (server, server), ids)[0]


def whole_round(method, name, form, merged):
    gradient = jax.grad(loss) if form == "map" else by_hand
    visit = functools.partial(fedavg_visit if method == "fedavg" else pfedme_visit, gradient, LAMBDA[name])

    @functools.partial(jax.jit, donate_argnums=(1,))
    def compiled(data, server, ids, shares):
        w, theta = lax.map(lambda i: visit(data, server, i), ids)
        return [jnp.tensordot(shares, a[:merged], 1) for a in w], theta
    return compiled


class Stream:
    """The infinite stream of batches over a client's examples; -1 fills up the last of a pass."""

    def __init__(self, ids, seed):
        self.ids, self.random, self.left = ids, np.random.default_rng(seed), np.empty((0, BATCH), np.int32)

    def take(self, count):
        parts, missing = [self.left], count - len(self.left)
        while missing > 0:
            order = self.ids[self.random.permutation(len(self.ids))]
            parts.append(np.pad(order, (0, -len(order) % BATCH), constant_values=-1).reshape(-1, BATCH))
            missing -= len(parts[-1])
        rows = np.concatenate(parts)
        self.left = rows[count:]
        return rows[:count]


class Federation:
    def __init__(self, task, method, name, form, data, shares):
        self.task, self.method, self.name, self.form, self.data, self.shares = task, method, name, form, data, shares
        self.server = split(name, task(f"fedavg.{name}.start.f32").numpy())
        self.streams = [Stream(ids, k) for k, ids in enumerate(shares)]
        self.sizes, self.random = np.array([len(ids) for ids in shares], np.float32), np.random.default_rng(1)
        self.round = whole_round(method, name, form, PER_ROUND if method == "pfedme" else None)

    def error(self):
        """One round of the clients and batches that the reference walked."""
        task, method, name = self.task, self.method, self.name
        walked = np.split(task(f"{method}.{name}.batches.i32").numpy(),
                          np.cumsum(task(f"{method}.{name}.batch_sizes.i32").numpy())[:-1])
        if method == "pfedme":
            walked = walked[::INNER]  # the reference notes a batch each time it takes a gradient on it
        ids = np.stack([np.pad(b, (0, BATCH - len(b)), constant_values=-1) for b in walked]).reshape(-1, STEPS, BATCH)
        owner = np.full(len(self.data[1]), -1)
        for k, share in enumerate(self.shares):
            owner[share] = k
        sizes = self.sizes[owner[ids[:, 0, 0]]]
        answer, _ = whole_round(method, name, self.form, None)(
            self.data, split(name, task(f"{method}.{name}.start.f32").numpy()), jnp.asarray(ids), jnp.asarray(sizes / sizes.sum()))
        self.work()  # compiles what is timed
        flat = torch.from_numpy(np.concatenate([np.asarray(a).ravel() for a in answer]))
        return stopwatch.distance(flat, task(f"{method}.{name}.expected.f64"))

    def work(self):
        order = self.random.permutation(len(self.streams))
        cohort = order[:PER_ROUND] if self.method == "fedavg" else order
        ids, sizes = np.stack([self.streams[k].take(STEPS) for k in cohort]), self.sizes[cohort[:PER_ROUND]]
        self.server, self.personal = self.round(self.data, self.server, jnp.asarray(ids), jnp.asarray(sizes / sizes.sum()))
        jax.block_until_ready(self.server)
        return 1


if __name__ == "__main__":
    task = stopwatch.Task(sys.argv[1])
    shift, scale = task("shift_scale.f32").tolist()
    rows = (task("pixels.u8").reshape(-1, 784).numpy().astype(np.float32) - np.float32(shift)) * np.float32(scale)
    data = jnp.asarray(rows), jnp.asarray(task("labels.i32").numpy())
    shares = np.split(task("train.i32").numpy(), np.cumsum(task("train_sizes.i32").numpy())[:-1])
    peers = {f"{m}/{n}/jax_{f}": Federation(task, m, n, f, data, shares) for m, n, f in FORMS}
    stopwatch.serve({name: (peer.error, TOLERANCE, peer.work) for name, peer in peers.items()})
