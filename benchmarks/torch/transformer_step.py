# SPDX-License-Identifier: BSD-3-Clause
"""Plain steps of a transformer of 4 blocks, with PyTorch's own fused attention."""
import sys

import torch
from torch import nn
from torch.nn import functional

import stopwatch
import text_step

TOLERANCE = 2e-5
WIDTH, HEADS, INNER, BLOCKS, POSITIONS, WORDS = 256, 4, 1024, 4, 64, {"90": 90, "10004": 10004}


class Block(nn.Module):
    """Parameters in the order of Tessera's: attention, its norm, the two layers, their norm."""

    def __init__(self):
        super().__init__()
        self.qkv = nn.Linear(WIDTH, 3 * WIDTH, bias=False)
        self.out = nn.Linear(WIDTH, WIDTH, bias=False)
        self.first = nn.LayerNorm(WIDTH)
        self.feed = nn.Sequential(nn.Linear(WIDTH, INNER), nn.ReLU(), nn.Linear(INNER, WIDTH))
        self.second = nn.LayerNorm(WIDTH)

    def forward(self, x):
        batch, positions, _ = x.shape
        q, k, v = self.qkv(x).view(batch, positions, 3, HEADS, WIDTH // HEADS).permute(2, 0, 3, 1, 4)
        seen = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = self.first(x + self.out(seen.transpose(1, 2).reshape(batch, positions, WIDTH)))
        return self.second(x + self.feed(x))


class Transformer(nn.Module):
    def __init__(self, words):
        super().__init__()
        self.table = nn.Parameter(torch.empty(words, WIDTH))
        self.positions = nn.Parameter(torch.empty(POSITIONS, WIDTH))
        self.blocks = nn.Sequential(*[Block() for _ in range(BLOCKS)])
        self.bias = nn.ParameterList([torch.empty(words)])  # a list, for a module's own parameters come before its blocks

    def forward(self, text):
        x = torch.relu(WIDTH ** 0.5 * functional.embedding(text, self.table) + self.positions)
        return functional.linear(self.blocks(x), self.table, self.bias[0])


if __name__ == "__main__":
    task = stopwatch.Task(sys.argv[1])
    both = {name: text_step.Plain(task, name, Transformer(words), POSITIONS, checked=1) for name, words in WORDS.items()}
    stopwatch.serve({f"{name}/torch_plain": (peer.error, TOLERANCE, peer.work) for name, peer in both.items()})
