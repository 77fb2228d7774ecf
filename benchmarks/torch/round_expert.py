# SPDX-License-Identifier: BSD-3-Clause
"""Rounds as an expert writes them: clients side by side in batched products (baddbmm), gradients by hand, no Python for
a single client's step. All examples are one float tensor, from which a step gathers the batches of all clients at once;
a short batch is filled up with rows that count nothing. pFedMe goes by groups of clients, which are faster than all.
"""
import sys

import torch

import models
import round_plain
import stopwatch
from round_plain import BATCH, INNER, LAMBDA, PER_ROUND, RATE, STEPS, TOLERANCE

GROUP = 20


class Stream:
    """The infinite stream of batches over a client's examples, a row of ids each; -1 fills up the last of a pass."""

    def __init__(self, ids, seed):
        self.ids, self.generator = ids, torch.Generator().manual_seed(seed)
        self.left = torch.empty(0, BATCH, dtype=torch.long)

    def take(self, count):
        parts, missing = [self.left], count - len(self.left)
        while missing > 0:
            order = self.ids[torch.randperm(len(self.ids), generator=self.generator)]
            part = torch.nn.functional.pad(order, (0, -len(order) % BATCH), value=-1).reshape(-1, BATCH)
            parts.append(part)
            missing -= len(part)
        rows = torch.cat(parts)
        self.left = rows[count:]
        return rows[:count]


class Side:
    """Parameters of several clients, [clients, out, in] and [clients, 1, out] in turns."""

    def __init__(self, server, clients):
        self.tensors = [w.repeat(clients, 1, 1) if w.dim() == 2 else w.repeat(clients, 1).unsqueeze(1) for w in server]

    def copy_(self, other):
        for mine, theirs in zip(self.tensors, other.tensors):
            mine.copy_(theirs)

    def descend(self, x, target, weight, anchor=None, pull=0.0):
        """One step on the loss, and on pull/2 |w - anchor|^2 where there is an anchor."""
        w, keep = self.tensors, 1 - RATE * pull
        pre = torch.baddbmm(w[1], x, w[0].transpose(1, 2))
        below = pre if len(w) == 2 else torch.nn.functional.leaky_relu(pre, models.LEAK)
        z = pre if len(w) == 2 else torch.baddbmm(w[3], below, w[2].transpose(1, 2))
        dz = z.softmax(2).sub_(target).mul_(weight)
        layers = [(w[-2], w[-1], x if len(w) == 2 else below, dz)]
        if len(w) == 4:
            layers.append((w[0], w[1], x, torch.bmm(dz, w[2]).mul_(torch.where(pre > 0, 1.0, models.LEAK))))
        for matrix, bias, inputs, dy in layers:
            matrix.baddbmm_(dy.transpose(1, 2), inputs, beta=keep, alpha=-RATE)
            bias.mul_(keep).sub_(dy.sum(1, keepdim=True), alpha=RATE)
        if anchor is not None:
            for mine, theirs in zip(w, anchor.tensors):
                mine.add_(theirs, alpha=RATE * pull)

    def mean(self, shares):
        flat = [shares @ w.reshape(len(shares), -1) for w in self.tensors]
        return [m.reshape(w.shape[1:] if i % 2 == 0 else w.shape[2:])
                for i, (m, w) in enumerate(zip(flat, self.tensors))]


class Federation:
    def __init__(self, name, start, rows, labels, streams, sizes):
        self.name, self.server, self.rows = name, models.split(name, start), rows
        self.targets = torch.nn.functional.one_hot(labels, 10).float()
        self.streams, self.sizes, self.generator = streams, sizes, torch.Generator().manual_seed(1)
        self.personal = {}

    def batches(self, ids):
        """ids: [clients, steps, BATCH]; yields what all clients read at a step."""
        for step in ids.unbind(1):
            real = step >= 0
            weight = real.float().div_(real.sum(1, keepdim=True)).unsqueeze(2)
            at = step.clamp(min=0)
            yield self.rows[at], self.targets[at], weight

    def fedavg_visits(self, ids):
        local = Side(self.server, len(ids))
        for batch in self.batches(ids):
            local.descend(*batch)
        return local, local

    def pfedme_visits(self, ids):
        """As in round_plain: theta = INNER steps from w, then w moves towards it."""
        pull = LAMBDA[self.name]
        local, theta = Side(self.server, len(ids)), Side(self.server, len(ids))
        for batch in self.batches(ids):
            theta.copy_(local)
            for _ in range(INNER):
                theta.descend(*batch, anchor=local, pull=pull)
            for w, p in zip(local.tensors, theta.tensors):
                w.lerp_(p, RATE * pull)
        return local, theta

    def merge(self, local, sizes):
        self.server = local.mean(sizes / sizes.sum())

    def cohort(self, count):
        return torch.randperm(len(self.streams), generator=self.generator)[:count].tolist()

    def fedavg(self):
        cohort = self.cohort(PER_ROUND)
        local, _ = self.fedavg_visits(torch.stack([self.streams[k].take(STEPS) for k in cohort]))
        self.merge(local, self.sizes[cohort])
        return 1

    def pfedme(self):
        order, merged = self.cohort(len(self.streams)), None
        for at in range(0, len(order), GROUP):
            group = order[at:at + GROUP]
            local, theta = self.pfedme_visits(torch.stack([self.streams[k].take(STEPS) for k in group]))
            self.personal[at] = theta
            if at == 0:
                merged = local  # the first PER_ROUND of the order
        self.merge(merged, self.sizes[order[:PER_ROUND]])
        return 1


def round_error(task, federation, method, name):
    """One round of the clients and batches that the reference walked."""
    sizes = task(f"{method}.{name}.batch_sizes.i32").tolist()
    walked = list(task(f"{method}.{name}.batches.i32").long().split(sizes))
    if method == "pfedme":
        walked = walked[::INNER]  # the reference notes a batch each time it takes a gradient on it
    ids = torch.stack([torch.nn.functional.pad(b, (0, BATCH - len(b)), value=-1) for b in walked])
    ids = ids.reshape(-1, STEPS, BATCH)
    owner = torch.full((len(federation.rows),), -1)
    for k, share in enumerate(task("train.i32").long().split(task("train_sizes.i32").tolist())):
        owner[share] = k
    start = federation.server
    visits = federation.fedavg_visits if method == "fedavg" else federation.pfedme_visits
    federation.merge(visits(ids)[0], federation.sizes[owner[ids[:, 0, 0]]])
    answer, federation.server = models.flat(federation.server), start
    return stopwatch.distance(answer, task(f"{method}.{name}.expected.f64"))


if __name__ == "__main__":
    assert GROUP == PER_ROUND  # the group that is merged
    task = stopwatch.Task(sys.argv[1])
    pool = round_plain.Pool(task)
    rows, labels = pool.rows(torch.arange(len(pool.labels)))
    train_sizes = task("train_sizes.i32")
    competitors = {}
    with torch.no_grad():
        for name in ("mclr", "dnn"):
            shares = task("train.i32").long().split(train_sizes.tolist())
            run = Federation(name, task(f"fedavg.{name}.start.f32"), rows, labels,
                             [Stream(ids, k) for k, ids in enumerate(shares)], train_sizes.float())
            for method in ("fedavg", "pfedme"):
                error = (lambda run=run, method=method, name=name: round_error(task, run, method, name))
                competitors[f"{method}/{name}/torch_expert"] = (error, TOLERANCE, getattr(run, method))
        stopwatch.serve(competitors)
