# SPDX-License-Identifier: BSD-3-Clause
"""Plain steps of two layers of LSTM over characters."""
import sys

from torch import nn

import stopwatch
import text_step

TOLERANCE = 2e-6
WORDS, POSITIONS, HIDDEN = 80, 80, {"2x128": 128, "2x256": 256}


class Characters(nn.Module):
    def __init__(self, hidden):
        super().__init__()
        self.table = nn.Embedding(WORDS, 8)
        self.lstm = nn.LSTM(8, hidden, 2, batch_first=True)
        self.scores = nn.Linear(hidden, WORDS)

    def forward(self, text):
        return self.scores(self.lstm(self.table(text))[0])


if __name__ == "__main__":
    task = stopwatch.Task(sys.argv[1])
    both = {name: text_step.Plain(task, name, Characters(hidden), POSITIONS, checked=3) for name, hidden in HIDDEN.items()}
    stopwatch.serve({f"{name}/torch_plain": (peer.error, TOLERANCE, peer.work) for name, peer in both.items()})
