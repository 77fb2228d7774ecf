#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Makes the numbers of text_vectors_test.cpp and ctc_test.cpp with PyTorch: the same weights, loss, scores and slopes.

    python3 tests/nn/torch_vectors.py            # prints them as C++
"""
import math

import torch
from torch.nn import functional

torch.set_default_dtype(torch.float64)
READ = torch.tensor([[1, 4, 0], [2, 2, 3]])
LABELS = torch.tensor([[4, 0, -1], [2, 3, 1]])  # negative: no label


def weights(count):
    """Numbers of four digits, as the tests make them."""
    return [math.copysign(math.floor(abs(v) + 0.5), v) / 1e4
            for v in (1e4 * (0.6 * math.sin(1.7 * x + 1) + 0.2 * math.cos(0.9 * x)) for x in range(count))]


class Parameters:
    """The flat vector, cut in the order of the layers."""

    def __init__(self, count):
        self.flat, self.at = torch.tensor(weights(count), requires_grad=True), 0

    def __call__(self, *shape):
        size = math.prod(shape)
        self.at += size
        return self.flat[self.at - size:self.at].reshape(shape)


def lstm(take, x, hidden):
    gates_x, gates_h = take(4 * hidden, x.shape[-1]), take(4 * hidden, hidden)
    bias = [take(4 * hidden), take(4 * hidden)]
    start = torch.zeros(1, x.shape[0], hidden)
    return torch.lstm(x, (start, start), [gates_x, gates_h, *bias], True, 1, 0.0, False, False, True)[0]


def char_lstm(take):
    x = take(5, 2)[READ]
    for _ in range(2):
        x = lstm(take, x, 3)
    return functional.linear(x, take(5, 3), take(5))


def adapter(take, x, width, rank):
    low, low_bias, high, high_bias = take(rank, width), take(rank), take(width, rank), take(width)
    return x + functional.linear(torch.relu(functional.linear(x, low, low_bias)), high, high_bias)


def attention(take, x, heads):
    batch, positions, width = x.shape
    q, k, v = (functional.linear(x, take(width, width)).reshape(batch, positions, heads, -1).transpose(1, 2)
               for _ in range(3))
    context = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
    return functional.linear(context.transpose(1, 2).reshape(x.shape), take(width, width))


def transformer(take):
    table = take(5, 4)
    x = torch.relu(2 * table[READ] + take(3, 4))
    x = functional.layer_norm(x + adapter(take, attention(take, x, 2), 4, 2), (4,), take(4), take(4))
    inner, inner_bias, outer, outer_bias = take(3, 4), take(3), take(4, 3), take(4)
    z = functional.linear(torch.relu(functional.linear(x, inner, inner_bias)), outer, outer_bias)
    x = functional.layer_norm(x + adapter(take, z, 4, 2), (4,), take(4), take(4))
    return functional.linear(x, table) + take(5)


def text(name, network, count):
    take = Parameters(count)
    scores = network(take)
    assert take.at == count, (take.at, count)
    loss = functional.cross_entropy(scores.flatten(0, 1), LABELS.flatten(), ignore_index=-1)
    loss.backward()
    show(name, loss, {"scores": functional.log_softmax(scores, -1), "slopes": take.flat.grad})


def ctc():
    frames, classes, targets = 6, 4, [[1, 2, 2], [3], [1, 3, 1, 2]]
    z = torch.tensor([math.floor(1e4 * (1.5 * math.sin(1.3 * i) + math.cos(0.37 * i)) + 0.5) / 1e4
                      for i in range(len(targets) * frames * classes)]).reshape(-1, frames, classes).requires_grad_()
    loss = functional.ctc_loss(functional.log_softmax(z, -1).transpose(0, 1), torch.tensor(sum(targets, [])),
                               torch.full((len(targets),), frames), torch.tensor([len(t) for t in targets]))
    loss.backward()
    show("ctc", loss, {"slopes": z.grad})


def show(name, loss, arrays):
    print(f"const double {name}_loss = {loss.item():.10g};")
    for what, array in arrays.items():
        print(f"const std::vector<double> {name}_{what}{{")
        print("    " + ", ".join(f"{v:.7g}" for v in array.detach().flatten().tolist()) + "};")


if __name__ == "__main__":
    print(f"// torch {torch.__version__.split('+', maxsplit=1)[0]}")
    text("lstm", char_lstm, 10 + 84 + 96 + 20)
    text("transformer", transformer, 20 + 12 + 4 * 16 + 2 * (8 + 2 + 8 + 4) + 8 + 12 + 3 + 12 + 4 + 8 + 5)
    ctc()
