#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""pFedMe as PFLlib's client and server run it, by numpy, on Fashion-MNIST and a split that tessera-lab wrote.

    tessera-lab run --clients 50 --rounds 1 --split-file pfedme.split
    scripts/pfedme_loop.py --split pfedme.split --rounds 25 --seed 1

Read off clientpFedMe.py, serverpFedMe.py and fedoptimizer.py of PFLlib (commit 487a29e): a visit is an epoch of shuffled batches
without the last short one; theta begins it at w and then goes on from batch to batch; the K steps decay theta by mu; w is the mean by
samples. Every one of these is a flag here, so that one can be changed at a time. What PFLlib prints as the personalised accuracy is
that of the w just received, by all who have trained before: its list of personalised parameters is the list of the model's own,
which the next download overwrites. So the server's model is what is measured here, after every round. For scripts/results; the
network is 784-100-10 and begins as torch's and the lab's do.
"""
import argparse
import gzip
import json
import pathlib

import numpy as np

SHAPES = ((100, 784), (100,), (10, 100), (10,))
ENDS = np.cumsum([0, *(int(np.prod(shape)) for shape in SHAPES)])


def read_images(folder):
    """Pixels less their mean through their deviation, both of the training images, and labels; the test images come behind."""
    def bytes_of(name, skip):
        return np.frombuffer(gzip.open(folder / f"{name}-ubyte.gz").read(), np.uint8, offset=skip)
    x = np.concatenate([bytes_of(f"{part}-images-idx3", 16).reshape(-1, 784) for part in ("train", "t10k")]).astype(np.float32)
    y = np.concatenate([bytes_of(f"{part}-labels-idx1", 8) for part in ("train", "t10k")]).astype(np.int64)
    return (x - x[:60000].mean()) / x[:60000].std(), y


def read_split(path):
    clients = []
    for line in path.read_text().splitlines():
        name, *words = line.split()
        if name == "client":
            clients.append({})
        elif clients and name in ("train", "test"):
            clients[-1][name] = np.array(words, int)
    return clients


def parts(v):
    return [v[ENDS[i]:ENDS[i + 1]].reshape(SHAPES[i]) for i in range(4)]


def slope(v, x, y, out):
    """Of the mean cross-entropy."""
    a, b, c, d = parts(v)
    da, db, dc, dd = parts(out)
    h = np.maximum(x @ a.T + b, 0)
    z = h @ c.T + d
    z -= z.max(1, keepdims=True)
    np.exp(z, out=z)
    z /= z.sum(1, keepdims=True)
    z[np.arange(len(y)), y] -= 1
    z /= len(y)
    dc[:], dd[:] = z.T @ h, z.sum(0)
    e = (z @ c) * (h > 0)
    np.matmul(e.T, x, out=da)
    db[:] = e.sum(0)


def accuracy(v, x, y):
    a, b, c, d = parts(v)
    return float((np.argmax(np.maximum(x @ a.T + b, 0) @ c.T + d, 1) == y).mean())


def batches(random, count, asked):
    """Of one visit: an epoch without its short last batch, or as many as --steps says of shuffles that go on."""
    if asked.steps == 0:
        return random.permutation(count)[:count // asked.batch * asked.batch].reshape(-1, asked.batch)
    wanted = asked.steps * asked.batch
    return np.concatenate([random.permutation(count) for _ in range(-(-wanted // count))])[:wanted].reshape(-1, asked.batch)


def run(asked):
    x, y = read_images(asked.images)
    clients = read_split(asked.split)
    tests = np.concatenate([client["test"] for client in clients])
    random = np.random.default_rng(asked.seed)
    w = np.concatenate([random.uniform(-1, 1, int(np.prod(shape))) / np.sqrt(inputs)
                        for shape, inputs in zip(SHAPES, (784, 784, 100, 100))]).astype(np.float32)
    kept, gradient, measured = [w] * len(clients), np.zeros_like(w), []
    for _ in range(asked.rounds):
        total, examples = np.zeros(w.size), 0
        for k in random.choice(len(clients), asked.per_round, replace=False):
            ids, local = clients[k]["train"], w.copy()
            theta = (kept[k] if asked.start == "visit_before" else w).copy()
            for batch in batches(random, len(ids), asked):
                if asked.start == "every_batch":
                    theta[:] = local
                rows, labels, pull = x[ids[batch]], y[ids[batch]], local * np.float32(asked.theta_rate * asked.pull)
                for _ in range(asked.inner):  # theta -= theta_rate (gradient + pull (theta - local) + decay theta)
                    slope(theta, rows, labels, gradient)
                    gradient *= asked.theta_rate
                    theta *= 1 - asked.theta_rate * (asked.pull + asked.decay)
                    theta += pull
                    theta -= gradient
                local += np.float32(asked.pull * asked.rate) * (theta - local)
            kept[k] = theta
            total += len(ids) * local.astype(np.float64)
            examples += len(ids)
        w = (total / examples).astype(np.float32)
        measured.append(accuracy(w, x[tests], y[tests]))
    return measured


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--split", type=pathlib.Path, required=True)
    parser.add_argument("--images", type=pathlib.Path, default=pathlib.Path("/usr/share/datasets/fashion-mnist"))
    parser.add_argument("--rounds", type=int, default=25)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--per-round", type=int, default=10)
    parser.add_argument("--batch", type=int, default=20)
    parser.add_argument("--steps", type=int, default=0, help="batches a visit; 0: an epoch")
    parser.add_argument("--inner", type=int, default=5, help="K")
    parser.add_argument("--rate", type=float, default=0.05, help="of w: local_learning_rate")
    parser.add_argument("--theta-rate", type=float, default=0.05, help="of theta: p_learning_rate")
    parser.add_argument("--pull", type=float, default=15, help="lambda")
    parser.add_argument("--decay", type=float, default=1e-3, help="mu of its optimizer")
    parser.add_argument("--start", choices=["visit", "visit_before", "every_batch"], default="visit",
                        help="theta begins a visit at w (PFLlib), where the visit before left it, or at w for every batch")
    parser.add_argument("--json", type=pathlib.Path, help="as the lab's, as far as scripts/results reads it")
    asked = parser.parse_args()
    measured = run(asked)
    last = measured[-10:]
    print(f"global: {100 * measured[-1]:.2f} after the last round, {100 * sum(last) / len(last):.2f} mean of the last {len(last)}")
    if asked.json:
        asked.json.write_text(json.dumps({"version": f"loop, numpy {np.__version__}", "kernel_set": "numpy", "final": {"evaluations": [
            {"metric": "accuracy", "split": "test", "clients": "all", "model": "global", "stage": "", "pick": f"mean_last:{len(last)}",
             "average": "pooled", "value": sum(last) / len(last)}]}}))


if __name__ == "__main__":
    main()
