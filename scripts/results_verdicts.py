# SPDX-License-Identifier: BSD-3-Clause
"""The table of claims at the head of docs/results.md: what the papers say, what the record of runs says of it.

A claim is that one row of a table of scripts/results is above another. Its verdict is read off the differences seed by seed:
reproduced or contradicted where their 95 % interval leaves zero out, else not decided. What cannot be tried here says why.
"""
import dataclasses
import math
import statistics


@dataclasses.dataclass(frozen=True)
class Claim:
    system: str
    says: str  # above what, where
    where: str  # in the paper; its numbers are those of the table
    table: str
    first: str
    second: str
    columns: tuple
    why: str = ""  # where it does not come out: what was found, in words
    against: str = ""  # the second row's column, where it is another


@dataclasses.dataclass(frozen=True)
class Untested:
    system: str
    says: str
    published: str
    why: str


CLAIMS = (
    Claim("pFedBreD", "personal models (mh) are above FedAvg, CIFAR-10", "Table 1", "pfedbred-cifar10", "mh (code)", "FedAvg, G",
          ("CifarNet",)),
    Claim("pFedBreD", "mh is above pFedMe, CIFAR-10", "Table 1", "pfedbred-cifar10", "mh (code)", "pFedMe", ("CifarNet",)),
    Claim("pFedBreD", "mh is above Per-FedAvg, CIFAR-10", "Table 1", "pfedbred-cifar10", "mh (code)", "Per-FedAvg",
          ("CifarNet",)),
    Claim("pFedBreD", "the prior as printed is enough for mh, CIFAR-10", "Table 1", "pfedbred-cifar10",
          "mh (paper's prior)", "pFedMe", ("CifarNet",),
          "the published numbers come from a program that moves w by a second gradient step: mh (code)"),
    Claim("pFedBreD", "the prior as printed is enough for mh, Fashion-MNIST", "Table 1",
          "pfedbred-table1", "mh (paper's prior)", "pFedMe", ("MCLR", "DNN"),
          "the published numbers come from a program that moves w by a second gradient step: mh (code)"),
    Claim("pFedBreD", "mh is above pFedMe, Fashion-MNIST", "Table 1", "pfedbred-table1", "mh (code)",
          "pFedMe", ("MCLR", "DNN")),
    Claim("FedSpa", "DST is above FedAvg where labels are skewed, CIFAR-10", "Table 1",
          "fedspa-cifar10-table1", "FedSpa (DST)", "FedAvg", ("A", "B")),
    Claim("FedSpa", "DST is above RSM where labels are skewed, CIFAR-10", "Table 1",
          "fedspa-cifar10-table1", "FedSpa (DST)", "FedSpa (RSM)", ("A", "B")),
    Claim("FedSpa", "RSM is above DST on IID data, CIFAR-10", "Table 1", "fedspa-cifar10-table1", "FedSpa (RSM)",
          "FedSpa (DST)", ("IID",)),
    Claim("FedSpa", "DST is above Ditto at half the bytes, CIFAR-10", "Table 1", "fedspa-cifar10-table1",
          "FedSpa (DST)", "Ditto", ("A", "B")),
    Claim("FedSpa", "DST is above Local, CIFAR-10", "Table 1", "fedspa-cifar10-table1",
          "FedSpa (DST)", "Local", ("IID", "A", "B")),
    Claim("FedSpa", "ERK is above uniform sparsity", "Table 4, CIFAR-100",
          "fedspa-cifar10-studies", "sparsity 0.5, ERK", "sparsity 0.5, uniform", ("IID", "A", "B")),
    Claim("FedSpa", "sparsity 0.8 costs accuracy", "Table 3, CIFAR-100", "fedspa-cifar10-studies",
          "sparsity 0.5, ERK", "sparsity 0.8", ("IID", "A", "B")),
    Claim("FedSpa", "DST is above FedAvg where labels are skewed, Fashion-MNIST", "Table 1, EMNIST-L",
          "fedspa-table1", "FedSpa (DST)", "FedAvg", ("A", "B")),
    Claim("FedSpa", "DST is below RSM on IID data, Fashion-MNIST", "Table 1, EMNIST-L", "fedspa-table1", "FedSpa (RSM)",
          "FedSpa (DST)", ("IID",)),
    Claim("FedSpa", "ERK is above uniform sparsity, Fashion-MNIST", "Table 4, CIFAR-100",
          "fedspa-studies", "FedSpa (DST)", "uniform instead of ERK", ("IID", "A", "B"),
          "two dense layers, of which ERK keeps the smaller one whole: there is little to deal out; see the CIFAR-10 rows"),
    Claim("FedSpa", "growth by the gradient is above growth at random, Fashion-MNIST", "Figure 7, slightly", "fedspa-studies", "FedSpa (DST)",
          "random growth", ("IID", "A", "B")),
    Claim("Flow", "personal models are above FedAvg, CIFAR-10", "Table 2", "flow-cifar10-table2", "Flow, P", "FedAvg+FT, G",
          ("Dir 0.1", "Dir 0.6")),
    Claim("Flow", "personal models are above FedAvg+FT's, CIFAR-10", "Table 2", "flow-cifar10-table2",
          "Flow, P", "FedAvg+FT, P", ("Dir 0.1", "Dir 0.6"),
          "the loss of Equation 5 and the halves starve w_g, as on Fashion-MNIST: the program's reading, two rows below, is closer"),
    Claim("Flow", "the server's model is above FedAvg's, CIFAR-10", "Table 2", "flow-cifar10-table2",
          "Flow, G", "FedAvg+FT, G", ("Dir 0.1", "Dir 0.6"), "as the row above"),
    Claim("Flow", "the same of the program's reading: personal models", "Table 2",
          "flow-cifar10-table2", "Flow, program, P", "FedAvg+FT, P", ("Dir 0.1", "Dir 0.6")),
    Claim("Flow", "more clients benefit than from FedAvg+FT, CIFAR-10", "Table 3",
          "flow-cifar10-table3", "Flow, program", "FedAvg+FT", ("Dir 0.1", "Dir 0.6")),
    Claim("Flow", "personal models are above FedAvg+FT's, Fashion-MNIST", "Table 2, other data", "flow-table2", "Flow, P",
          "FedAvg+FT, P", ("Dir 0.1", "Dir 0.6"), "the loss of Equation 5 starves w_g; see Flow, program"),
    Claim("Flow", "the server's model is above FedAvg's, Shakespeare", "Table 2", "shakespeare", "Flow (hard)", "FedAvg", ("global",)),
    Claim("Flow", "personal models are above FedAvg+FT's, Shakespeare", "Table 2", "shakespeare", "Flow (hard)", "FedAvg+FT",
          ("personal",)),
    Claim("FedAlt", "FedAlt is above FedAvg, output layer, Shakespeare", "Table 2, other text", "shakespeare", "FedAlt (output)", "FedAvg",
          ("personal",), against="global"),
    Claim("FedAlt", "FedAlt is above FedSim, output layer, Shakespeare", "Table 4, other text, by less than half a point", "shakespeare",
          "FedAlt (output)", "FedSim (output)", ("personal",)),
    Claim("FedAlt", "devices that keep a state are above those that do not, FedAlt, adapters, CIFAR-10", "Tables 4 and 13, other data",
          "fedalt-cifar10", "FedAlt, adapter", "FedAlt, adapter, stateless", ("(b)", "then (c)")),
    Claim("FedAlt", "FedAlt is above FedSim, output layer, CIFAR-10", "Table 4, other data, by less than half a point", "fedalt-cifar10", "FedAlt, output",
          "FedSim, output", ("(b)", "then (c)")),
    Claim("FedAlt", "FedAlt is above FedSim, adapters, CIFAR-10", "Table 4, other data, by less than a tenth", "fedalt-cifar10", "FedAlt, adapter",
          "FedSim, adapter", ("(b)", "then (c)")),
    Claim("FedAlt", "(b) is worth it: FedAlt is above FT (part.), output layer, CIFAR-10", "Table 4, other data", "fedalt-cifar10",
          "FedAlt, output", "FT (part.), output", ("then (c)",)),
    Claim("FedAlt", "(b) is worth it: FedAlt is above FT (part.), adapters, CIFAR-10", "Table 4, other data", "fedalt-cifar10",
          "FedAlt, adapter", "FT (part.), adapter", ("then (c)",)),
    Claim("FedAlt", "FedAlt is above FedSim, output layer, Fashion-MNIST", "Table 4, other data, by less than half a point", "fedalt-vs-fedsim", "FedAlt",
          "FedSim", ("accuracy",)),
    Claim("PerAda", "personal models on their own tests are above FedAvg's, CIFAR-10", "Tables 1 and 2", "perada-cifar10", "PerAda",
          "FedAvg+FT", ("Local-test",), against="server's Global-test"),
    Claim("PerAda", "distillation helps personal models on everybody's tests, CIFAR-10", "Table 1", "perada-cifar10",
          "PerAda", "PerAda, no KD", ("Global-test",)),
    Claim("PerAda", "distillation helps the server's model, CIFAR-10", "Table 2", "perada-cifar10", "PerAda",
          "PerAda, no KD", ("server's Global-test",)),
    Claim("PerAda", "PerAda is above FedAvg+FT on everybody's tests, CIFAR-10", "Table 1", "perada-cifar10", "PerAda",
          "FedAvg+FT", ("Global-test",)),
    Claim("PerAda", "distillation helps personal models on everybody's tests, Fashion-MNIST", "Table 1", "perada-half",
          "PerAda", "PerAda, no KD", ("Global-test",), "seeds differ by more than the gain"),
)
UNTESTED = (
    Untested("Flow", "Stack Overflow, EMNIST, CIFAR-100", "Tables 2 and 3", "the data are not here; CIFAR-10 and Shakespeare are"),
    Untested("FedAlt", "Stack Overflow, GLDv2, EMNIST, LibriSpeech", "Tables 2 to 4, 13", "the data are not here"),
    Untested("pFedBreD", "FEMNIST, Sent140", "Table 1", "the data are not here"),
    Untested("FedSpa", "EMNIST-L, CIFAR-100, 1000 rounds of VGG11", "Table 1", "the data, or months of two cores"),
    Untested("PerAda", "a backbone of ImageNet, CheXpert, Office-Home, ViT-S/16 under DP", "Tables 1 to 4",
             "neither the weights nor the data are here; a backbone of half the classes stands for the first"),
)


def interval(differences, quantiles):
    """(mean, half of the 95 % interval), no half for one."""
    mean = statistics.mean(differences)
    if len(differences) == 1:
        return mean, None
    return mean, quantiles.get(len(differences) - 1, 1.96) * statistics.stdev(differences) / math.sqrt(len(differences))


def said(mean, half):
    return f"{mean:+.2f}" + ("" if half is None else f" [{mean - half:+.2f}, {mean + half:+.2f}]")


def judged(numbers, clients, claim, column, quantiles):
    """(difference over seeds, over clients, verdict) of one column."""
    other = claim.against or column
    a, b = numbers.get((claim.first, column), {}), numbers.get((claim.second, other), {})
    seeds = [s for s in a if a[s] is not None and b.get(s) is not None]
    if not seeds:
        return "not run", "", "not run"
    mean, half = interval([a[s] - b[s] for s in seeds], quantiles)
    verdict = "one seed: not decided" if half is None else "reproduced" if mean > half else "contradicted" if mean < -half else "not decided"
    a, b = clients.get((claim.first, column), {}), clients.get((claim.second, other), {})
    gains = [[x - y for x, y in zip(a[s], b[s])] for s in seeds if a.get(s) and len(a[s]) == len(b.get(s, []))]
    over = said(*interval([statistics.mean(of) for of in zip(*gains)], quantiles)) if gains and len({len(g) for g in gains}) == 1 else ""
    return f"{said(mean, half)}, {len(seeds)} seed{'s' * (len(seeds) > 1)}", over, verdict


def section(table_of, quantiles):
    lines = ["## Verdicts", "", "What the papers claim and what the runs below say: the difference of two rows of a table, in points. Over seeds: the mean",
             "with its 95 % interval, which the verdict is read off: `not decided` where it holds zero, or where there is one seed. Over clients:",
             "how these models differ on clients like these, each client once; all share their seeds' luck, so no verdict is read off it.", "",
             "    scripts/results verdicts", "",
             "| | claim | published | table, column | over seeds | over clients | verdict | why |", "|---|---|---|---|---|---|---|---|"]
    for claim in CLAIMS:
        numbers, clients, published = table_of(claim.table)
        for column in claim.columns:
            over_seeds, over_clients, verdict = judged(numbers, clients, claim, column, quantiles)
            both = [published.get((claim.first, column)), published.get((claim.second, claim.against or column))]
            printed = f"{both[0]:g} against {both[1]:g}, {claim.where}" if None not in both else claim.where
            why = claim.why if verdict in ("contradicted", "not decided") else ""
            lines.append(f"| {claim.system} | {claim.says} | {printed} | `{claim.table}`, {column} | {over_seeds} | {over_clients} | "
                         f"{verdict} | {why} |")
    for each in UNTESTED:
        lines.append(f"| {each.system} | {each.says} | {each.published} | | | | cannot be tested here | {each.why} |")
    return "\n".join([*lines, ""]) + "\n"
