# SPDX-License-Identifier: BSD-3-Clause
"""The table of scripts/results that asks why the server's model of pFedMe came out lower here than in PFLlib."""


def tables(Cell, Table):
    split = ("--split-file", "pfedme.split")
    data = ("--data", "fashion-mnist", "--per-round", "10")
    deal = Cell((*data, "--partition", "dirichlet:0.3", "--clients", "50", "--algorithm", "fedavg", "--split-seed", "1", *split), "global")

    def loop(*more):
        return Cell(("--split", split[1], *more), "global", program="loop")

    def lab(*more):
        return Cell((*data, *split, "--algorithm", "pfedme", "--trains", "sampled", "--set", "local.rate=0.05", "--set", "alpha_m=0.05",
                     "--set", "lambda=15", *(word for setting in more for word in ("--set", setting))), "global")

    def pfedme():
        rows = {
            "PFLlib's loop: an epoch of batches a visit": loop(),
            "loop, 20 batches a visit": loop("--steps", "20"),
            "loop, theta from where the visit before left it": loop("--start", "visit_before"),
            "loop, no decay of theta": loop("--decay", "0"),
            "loop, theta's rate as PFLlib has it (0.01)": loop("--theta-rate", "0.01"),
            "lab, 20 batches, theta_prev": lab("steps=20", "prox_init=theta_prev"),
            "lab, 20 batches": lab("steps=20"),
            "lab, 51 batches": lab("steps=51"),
            "lab, 51 batches, theta decays": lab("steps=51", "weight_decay=0.001"),
        }
        first, ours = "PFLlib's loop: an epoch of batches a visit", "lab, 20 batches, theta_prev"
        pairs = [(first, row) for row in rows if row.startswith("loop, ")]
        return Table("pFedMe against PFLlib's",
                     "Fashion-MNIST, 784-100-10 network, 50 clients of Dirichlet 0.3 on one split, 10 a round, batches of 20, rates 0.05, lambda 15, "
                     "K = 5; the server's model, accuracy in %, pooled over the clients' tests, mean of the last ten of {rounds} rounds. The loop "
                     "(`scripts/pfedme_loop.py`) is PFLlib's client and server by numpy, one difference at a time; the lab is the library. Clients hold "
                     "1,029 training images in the mean, so an epoch is about 51 batches; which clients are drawn differs between loop and lab.",
                     tuple(rows), ("server's model",), {(row, "server's model"): cell for row, cell in rows.items()}, (1, 2, 3), 25,
                     (*pairs, (first, ours), (first, "lab, 51 batches"), (first, "lab, 51 batches, theta decays"),
                      ("lab, 51 batches", "lab, 20 batches"), ("lab, 20 batches", ours)),
                     {row: {"loop" if "loop" in row else "lab", "batches" if "batches" in row else "others"} for row in rows}, finding, first=((deal, 1),))

    def finding(_):
        return [WHAT_IT_SAYS]

    return {"pfedme-against-pfllib": pfedme}


WHAT_IT_SAYS = ""
