# SPDX-License-Identifier: BSD-3-Clause
"""The same steps by JAX: one jitted function of parameters and batch, channels innermost, parameters donated."""
import json
import os
import sys

NAMES = {"resnet18": 32, "vgg11": 32, "cifar_cnn_32": 32, "cifar_cnn_64": 64}
os.environ["XLA_FLAGS"] = "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1"
try:
    import jax
    import jax.numpy as jnp
    import numpy as np
except ImportError:
    print(json.dumps({"ready": {f"{name}/jax": "not measured: JAX is not installed" for name in NAMES}}), flush=True)
    sys.exit(0)

import stopwatch  # noqa: E402  (after the flags)

TOLERANCE = 2e-4
RATE, CHECKED = 0.01, 4


class Taken:
    """Parameters in the order of our layout; shapes are torch's, and turned for channels innermost."""

    def __init__(self, flat):
        self.flat, self.at, self.tensors = flat, 0, []

    def __call__(self, *shape):
        n = int(np.prod(shape))
        self.tensors.append(self.flat[self.at:self.at + n].reshape(shape))
        self.at += n
        return len(self.tensors) - 1


def conv(x, w, stride=1, pad=0):
    return jax.lax.conv_general_dilated(x, w, (stride, stride), ((pad, pad), (pad, pad)), dimension_numbers=("NHWC", "OIHW", "NHWC"))


def group_norm(x, scale, shift, groups=32):
    b, h, w, c = x.shape
    y = x.reshape(b, h * w, groups, c // groups)
    mean, var = y.mean((1, 3), keepdims=True), y.var((1, 3), keepdims=True)
    return ((y - mean) / jnp.sqrt(var + 1e-5)).reshape(b, h, w, c) * scale + shift


def pool(x):
    return jax.lax.reduce_window(x, -jnp.inf, jax.lax.max, (1, 2, 2, 1), (1, 2, 2, 1), "VALID")


def flatten(x):
    return x.transpose(0, 3, 1, 2).reshape(x.shape[0], -1)


def resnet18(take):
    blocks, first, before = [], (take(64, 3, 3, 3), take(64), take(64)), 64
    for stage in range(4):
        for i in range(2):
            n, stride = 64 << stage, 2 if stage and not i else 1
            main = [take(n, before, 3, 3), take(n), take(n), take(n, n, 3, 3), take(n), take(n)]
            blocks.append((main, [take(n, before, 1, 1), take(n), take(n)] if stride == 2 else None, stride))
            before = n
    head = take(10, 512), take(10)

    def net(p, x):
        x = jax.nn.relu(group_norm(conv(x, p[first[0]], 1, 1), p[first[1]], p[first[2]]))
        for m, across, stride in blocks:
            y = jax.nn.relu(group_norm(conv(x, p[m[0]], stride, 1), p[m[1]], p[m[2]]))
            y = group_norm(conv(y, p[m[3]], 1, 1), p[m[4]], p[m[5]])
            x = jax.nn.relu(y + (group_norm(conv(x, p[across[0]], 2), p[across[1]], p[across[2]]) if across else x))
        return x.mean((1, 2)) @ p[head[0]].T + p[head[1]]
    return net


def vgg11(take):
    layers, before = [], 3
    for n in (64, 0, 128, 0, 256, 256, 0, 512, 512, 0, 512, 512, 0):
        layers.append([take(n, before, 3, 3), take(n), take(n), take(n)] if n else None)
        before = n or before
    head = take(10, 512), take(10)

    def net(p, x):
        for layer in layers:
            x = pool(x) if layer is None else jax.nn.relu(
                group_norm(conv(x, p[layer[0]], 1, 1) + p[layer[1]], p[layer[2]], p[layer[3]]))
        return flatten(x) @ p[head[0]].T + p[head[1]]
    return net


def cifar_cnn(take):
    k = [take(*s) for s in ((32, 3, 5, 5), (32,), (64, 32, 5, 5), (64,), (512, 1600), (512,), (10, 512), (10,))]

    def net(p, x):
        x = pool(jax.nn.relu(conv(x, p[k[0]]) + p[k[1]]))
        x = pool(jax.nn.relu(conv(x, p[k[2]]) + p[k[3]]))
        return jax.nn.relu(flatten(x) @ p[k[4]].T + p[k[5]]) @ p[k[6]].T + p[k[7]]
    return net


class Peer:
    def __init__(self, task, name):
        batch = NAMES[name]
        take = Taken(task(f"{name}.start.f32").numpy())
        net = {"resnet18": resnet18, "vgg11": vgg11}.get(name, cifar_cnn)(take)
        assert take.at == take.flat.size
        self.p, self.expected, self.s = [jnp.array(t) for t in take.tensors], task(f"{name}.expected.f64"), 0
        rows = np.ascontiguousarray(task("rows.f32").numpy().reshape(-1, 3, 32, 32).transpose(0, 2, 3, 1))
        labels = task("labels.i32").numpy()

        def loss(p, x, y):
            z = jax.nn.log_softmax(net(p, x))
            return -jnp.take_along_axis(z, y[:, None], 1).mean()
        self.gradient = jax.jit(jax.grad(loss))
        self.step = jax.jit(lambda p, x, y: [a - RATE * g for a, g in zip(p, jax.grad(loss)(p, x, y))], donate_argnums=0)
        self.batches = [(jnp.array(rows[i:i + batch]), jnp.array(labels[i:i + batch])) for i in (0, batch)]
        self.first = jnp.array(rows[:CHECKED]), jnp.array(labels[:CHECKED])

    def error(self):
        import torch
        slopes = np.concatenate([np.asarray(g, np.float64).ravel() for g in self.gradient(self.p, *self.first)])
        off = stopwatch.distance(torch.from_numpy(slopes / np.abs(slopes).max()), self.expected)
        self.work()  # compiles what is timed
        return off

    def work(self):
        self.p = self.step(self.p, *self.batches[self.s % 2])
        jax.block_until_ready(self.p)
        self.s += 1
        return 1


if __name__ == "__main__":
    peers = {f"{name}/jax": Peer(stopwatch.Task(sys.argv[1]), name) for name in NAMES}
    stopwatch.serve({name: (peer.error, TOLERANCE, peer.work) for name, peer in peers.items()})
