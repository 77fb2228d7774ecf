# SPDX-License-Identifier: BSD-3-Clause
"""Rounds as everybody writes them first: a module that is loaded with each client's parameters, autograd, SGD, and a
weighted sum of parameters. Every client keeps its examples as a float tensor; batches are gathered in the loop.

fedavg: 20 of 100 clients, 20 batches of 20. pfedme: 100 clients train, 20 are merged, 20 batches and 5 proximal steps
on each. evaluate: the server's model on every client's test data. tiny: clients of 20 examples, one step each.
"""
import random
import sys

import torch
from torch.nn import functional

import models
import stopwatch

BATCH, STEPS, INNER, RATE, PER_ROUND, TOLERANCE = 20, 20, 5, 0.01, 20, 1e-5
LAMBDA = {"mclr": 15.0, "dnn": 30.0}
TINY_CLIENTS = 1000


class Pool:
    def __init__(self, task):
        self.pixels, self.labels = task("pixels.u8").reshape(-1, 784), task("labels.i32").long()
        self.shift, self.scale = task("shift_scale.f32").tolist()
        self.train = self.shares(task("train.i32").long(), task("train_sizes.i32"))
        self.test = self.shares(task("test.i32").long(), task("test_sizes.i32"))

    def rows(self, ids):
        return (self.pixels[ids].float() - self.shift) * self.scale, self.labels[ids]

    def shares(self, ids, sizes):
        return [self.rows(part) for part in ids.split(sizes.tolist())]


class Client:
    """Examples, and the infinite stream of batches over them: a new order at each pass, the last batch may be short."""

    def __init__(self, examples, seed):
        self.x, self.y = examples
        self.generator = torch.Generator().manual_seed(seed)
        self.order, self.at = torch.empty(0, dtype=torch.long), 0
        self.personal = None

    def batch(self):
        if self.at >= len(self.order):
            self.order, self.at = torch.randperm(len(self.y), generator=self.generator), 0
        ids = self.order[self.at:self.at + BATCH]
        self.at += BATCH
        return self.x[ids], self.y[ids]


class Federation:
    def __init__(self, name, start, clients):
        self.name, self.clients, self.model, self.start = name, clients, models.make(name), start
        self.parameters = list(self.model.parameters())
        self.server = models.split(name, start)
        self.random = random.Random(1)

    def load(self, values):
        with torch.no_grad():
            for p, v in zip(self.parameters, values):
                p.copy_(v)

    def fedavg_visit(self, batches):
        self.load(self.server)
        sgd = torch.optim.SGD(self.parameters, lr=RATE)
        for x, y in batches:
            sgd.zero_grad()
            functional.cross_entropy(self.model(x), y).backward()
            sgd.step()
        return [p.detach().clone() for p in self.parameters]

    def pfedme_visit(self, batches, client=None):
        """theta = INNER steps on the loss + lambda/2 |theta - w|^2 from w; then w moves towards it."""
        pull = LAMBDA[self.name]
        local = [w.clone() for w in self.server]
        for x, y in batches:
            self.load(local)
            for _ in range(INNER):
                self.model.zero_grad()
                functional.cross_entropy(self.model(x), y).backward()
                with torch.no_grad():
                    for p, w in zip(self.parameters, local):
                        p -= RATE * (p.grad + pull * (p - w))
            with torch.no_grad():
                for p, w in zip(self.parameters, local):
                    w -= RATE * pull * (w - p)
        if client is not None:
            client.personal = [p.detach().clone() for p in self.parameters]
        return local

    def merge(self, uploads, sizes):
        total = sum(sizes)
        self.server = [torch.zeros_like(w) for w in self.server]
        for upload, size in zip(uploads, sizes):
            for w, u in zip(self.server, upload):
                w += u * (size / total)

    def fedavg(self):
        cohort = self.random.sample(self.clients, PER_ROUND)
        uploads = [self.fedavg_visit(client.batch() for _ in range(STEPS)) for client in cohort]
        self.merge(uploads, [len(client.y) for client in cohort])
        return 1

    def pfedme(self):
        order = self.random.sample(self.clients, len(self.clients))
        uploads = [self.pfedme_visit((client.batch() for _ in range(STEPS)), client) for client in order]
        self.merge(uploads[:PER_ROUND], [len(client.y) for client in order[:PER_ROUND]])
        return 1

    def tiny(self):
        uploads = []
        for client in self.clients:
            uploads.append(self.fedavg_visit([(client.x, client.y)]))
        self.merge(uploads, [1] * len(uploads))
        return len(self.clients)

    def correct(self, tests):
        self.load(self.server)
        with torch.no_grad():
            return sum((self.model(x).argmax(1) == y).sum().item() for x, y in tests if len(y))

    def evaluate(self, tests):
        self.correct(tests)
        return 1

    def evaluation_error(self, tests):
        """Share of the examples that arithmetic in double judges otherwise."""
        expected = 0
        for x, y in tests:
            z = x.double()
            for i in range(0, len(self.server), 2):
                z = z @ self.server[i].double().t() + self.server[i + 1].double()
                if i + 2 < len(self.server):
                    z = torch.where(z > 0, z, models.LEAK * z)
            expected += (z.argmax(1) == y).sum().item() if len(y) else 0
        return abs(self.correct(tests) - expected) / sum(len(y) for _, y in tests)


def round_error(task, pool, method, name):
    """One round of the clients and batches that the reference walked."""
    federation = Federation(name, task(f"{method}.{name}.start.f32"), [])
    sizes = task(f"{method}.{name}.batch_sizes.i32").tolist()
    walked = list(task(f"{method}.{name}.batches.i32").long().split(sizes))
    if method == "pfedme":
        walked = walked[::INNER]  # the reference notes a batch each time it takes a gradient on it
    shares = [set(part.tolist()) for part in
              task("train.i32").long().split(task("train_sizes.i32").tolist())]
    uploads, weights = [], []
    visit = federation.fedavg_visit if method == "fedavg" else federation.pfedme_visit
    for at in range(0, len(walked), STEPS):
        uploads.append(visit([pool.rows(ids) for ids in walked[at:at + STEPS]]))
        weights.append(len(next(share for share in shares if walked[at][0].item() in share)))
    federation.merge(uploads, weights)
    return stopwatch.distance(models.flat(federation.server), task(f"{method}.{name}.expected.f64"))


if __name__ == "__main__":
    task = stopwatch.Task(sys.argv[1])
    pool = Pool(task)
    clients = [Client(examples, k) for k, examples in enumerate(pool.train)]
    competitors = {}
    for name in ("mclr", "dnn"):
        start = task(f"fedavg.{name}.start.f32")
        run = Federation(name, start, clients)
        for method in ("fedavg", "pfedme"):
            error = (lambda method=method, name=name: round_error(task, pool, method, name))
            competitors[f"{method}/{name}/torch_plain"] = (error, TOLERANCE, getattr(run, method))
        competitors[f"evaluate/{name}/torch_plain"] = (
            lambda run=run: run.evaluation_error(pool.test), 5e-4, lambda run=run: run.evaluate(pool.test))
    few = [Client(pool.rows((torch.arange(20) + 20 * k) * 7919 % 60000), k) for k in range(TINY_CLIENTS)]
    tiny = Federation("mclr", task("fedavg.mclr.start.f32"), few)
    competitors["tiny/mclr/torch_plain"] = (
        lambda: round_error(task, pool, "fedavg", "mclr"), TOLERANCE, tiny.tiny)
    stopwatch.serve(competitors)
