# SPDX-License-Identifier: BSD-3-Clause
"""The tables of scripts/results on CIFAR-10: the papers' settings at sizes that two cores can do.

Every run reads cifar-10-batches-bin of the current directory, and its line says the fingerprint of what it read.
"""
import textwrap

# data_fingerprint of the copy whose images went through JPEG (their pixels differ slightly).
JPEG_COPY = "cb7c25ac84b21005d70b7f641f995cbe"
LAST = ("--eval-last", "3")  # a personal model costs its training at every evaluation
ONCE = ("--eval-last", "1")


def settings(text):
    return tuple(word for setting in text.split() for word in ("--set", setting))


def data_lines(facts):
    """Which copy the runs have read, by its fingerprint."""
    found = sorted({fact["data"] for fact in facts.values() if "data" in fact})
    named = ["the JPEG copy of CIFAR-10, whose pixels differ slightly" if each == JPEG_COPY else "a copy that is not known here"
             for each in found]
    return [f"- Data read: {name} (fingerprint {each})." for name, each in zip(named, found)]


def cost_lines(facts):
    """What the row's run of the first column that was run took: all clients and rounds, bytes by the papers' formula."""
    lines = []
    for row, fact in facts.items():
        if "bytes" not in fact:
            continue
        accuracy = f"{fact['bytes'] / 1e6:,.1f} MB, {fact['flops'] / 1e12:,.2f} TFLOP"
        if "cpu_seconds" in fact:
            accuracy += f", {fact['cpu_seconds']:,.0f} s of processor time with its evaluations"
        lines.append(f"  {row}: {accuracy}")
    return ["- Messages and training of one run, all clients and rounds (seconds on a machine that did other work too):",
            *(f"{line}{';' if i + 1 < len(lines) else '.'}" for i, line in enumerate(lines))] if lines else []


def personal_lines(facts):
    said = [f"{row} {fact['personal_parameters']:,}" for row, fact in facts.items() if fact.get("personal_parameters")]
    return [textwrap.fill(f"- Personal parameters: {'; '.join(said)}.", 120, subsequent_indent="  ")] if said else []


def remarks(facts):
    return data_lines(facts) + personal_lines(facts) + cost_lines(facts)


def tables(Cell, Table):
    """name -> function that makes the table, of scripts/results' own Cell and Table."""
    fedspa = {"IID": "fedspa/cifar10-small-iid", "A": "fedspa/cifar10-small-a", "B": "fedspa/cifar10-small-b"}
    fedspa_about = ("CIFAR-10, JPEG copy; CifarNet where the paper has {net}, {{rounds}} rounds for 1000, 100 clients, 10 a round, 2 epochs "
                    "in batches of 32 (the paper: 5 of 128); A and B: Dirichlet 0.5 and 0.3. Accuracy in %, pooled, mean of the last "
                    "three rounds. ")

    def fedspa_table1():
        rows = {  # row: algorithm, model, published with VGG11
            "FedSpa (DST)": ("fedspa-dst", "personal", (83.4, 86.6, 88.2)),
            "FedSpa (RSM)": ("fedspa-rsm", "personal", (84.5, 82.1, 80.9)),
            "Ditto": ("ditto", "personal", (83.5, 86.4, 87.8)),
            "FedAvg": ("fedavg", "global", (84.8, 82.0, 81.4)),
            "Sub-FedAvg": ("sub-fedavg", "personal", (71.8, 78.3, 79.6)),
            "Local": ("local", "personal", (42.5, 63.6, 69.4)),
            "Subsampling": ("subsampling", "global", (83.0, 78.9, 76.7)),
        }
        cells, kinds = {}, {}
        for row, (algorithm, model, published) in rows.items():
            kinds[row] = {algorithm}
            kinds |= {column: {column.lower()} for column in fedspa}
            for (column, preset), number in zip(fedspa.items(), published):
                cells[row, column] = Cell(("--preset", preset, "--algorithm", algorithm, *LAST), model, "", number)
        return Table("FedSpa, Table 1: CIFAR-10", fedspa_about.format(net="VGG11") + "Published: CIFAR-10 with VGG11. What compares "
                     "is the order of the rows.", tuple(rows), tuple(fedspa), cells, (1, 2, 3), 40,
                     (("FedSpa (DST)", "FedAvg"), ("FedSpa (DST)", "FedSpa (RSM)"), ("FedSpa (DST)", "Ditto"),
                      ("FedSpa (DST)", "Local"), ("FedSpa (DST)", "Sub-FedAvg")), kinds, remarks)

    def fedspa_studies():
        rows = {  # row: settings, published on CIFAR-100 with ResNet-18, gamma 0.2 and 0.1
            "sparsity 0.5, ERK": ("", (41.5, 59.0, 66.9)),
            "sparsity 0.5, uniform": ("distribution=uniform", (33.0, 49.3, 56.3)),
            "sparsity 0.2": ("density=0.8", (51.5, 62.9, 65.5)),
            "sparsity 0.8": ("density=0.2", (32.0, 49.2, 56.7)),
            "sparsity 0.8, uniform": ("density=0.2 distribution=uniform", (None,) * 3),
            "sparsity 0.5, random growth": ("grow=random", (None,) * 3),
        }
        cells = {}
        for row, (more, published) in rows.items():
            for (column, preset), number in zip(fedspa.items(), published):
                cells[row, column] = Cell(("--preset", preset, "--algorithm", "fedspa-dst", *settings(more), *LAST), "personal", "", number)
        first = "sparsity 0.5, ERK"
        return Table("FedSpa, Tables 3 and 4: sparsity, ERK against uniform, CIFAR-10", fedspa_about.format(net="ResNet-18") +
                     "Published: CIFAR-100 with ResNet-18, Dirichlet 0.2 and 0.1; here the questions are put to CIFAR-10.",
                     tuple(rows), tuple(fedspa), cells, (1, 2, 3), 40,
                     ((first, "sparsity 0.5, uniform"), ("sparsity 0.2", first), (first, "sparsity 0.8"),
                      ("sparsity 0.8", "sparsity 0.8, uniform")), {row: {"fedspa-dst"} for row in rows} | {column: {column.lower()} for column in fedspa}, remarks)

    def fedspa_seconds():
        rows = ("fedspa-dst", "fedspa-rsm", "ditto", "fedavg", "sub-fedavg", "local", "subsampling")
        cells = {(row, "seconds a round"): Cell(("--preset", fedspa["B"], "--algorithm", row, *ONCE), "seconds") for row in rows}
        for density in ("0.2", "0.8"):
            cells[f"fedspa-dst, density {density}", "seconds a round"] = Cell(
                ("--preset", fedspa["B"], "--algorithm", "fedspa-dst", *settings(f"density={density}"), *ONCE), "seconds")
        return Table("FedSpa on CIFAR-10: seconds", fedspa_about.format(net="VGG11").partition("Accuracy")[0].replace("{rounds} rounds for 1000, ", "") +
                     "Median over {rounds} rounds of what the visits and the merge of a round take, one thread, nothing else on the machine; "
                     "DST's search for masks is in it.", tuple(row for row, _ in cells), ("seconds a round",), cells, (1,), 3, remarks=data_lines)

    flow = {"Dir 0.1": "flow/cifar10-small-dir01", "Dir 0.6": "flow/cifar10-small-dir06"}
    program = settings("global_loss=global split=none")
    flow_about = ("CIFAR-10, JPEG copy; 100 clients of 100 images with Dirichlet labels (the paper: 500 of 100), 10 a round, CifarNet in "
                  "five blocks for ResNet-18 in six, {rounds} rounds for 4000. Budgets are as equal as whole epochs allow (below); Local trains "
                  "20 epochs a visit as in the paper. Those who train before they serve, FedAvg+FT and Flow, keep nothing of it. Flow: Equation 5 and two halves as the paper prints them; Flow, program: w_g descends its "
                  "own loss and there are no halves, as in the authors' CIFAR program. ")

    def flow_rows():
        return {  # row: algorithm and its arguments at the budget, published (global, personal) at 0.1 and 0.6
            "Local": ("local", settings("epochs=20"), ((None, 49.78), (None, 62.74))),
            "FedAvg+FT": ("fedavg-ft", settings("epochs=3 tune_epochs=2"), ((61.23, 73.03), (68.19, 72.21))),
            "Flow": ("flow", (*settings("local_epochs=2 joint_epochs=2"), "--eval-also", "inference=soft"), ((66.26, 76.47), (70.88, 77.11))),
            "Flow, program": ("flow", (*program, *settings("local_epochs=1 joint_epochs=1"), "--eval-also", "inference=soft"),
                              ((66.26, 76.47), (70.88, 77.11))),
            "Ditto": ("ditto", settings("epochs=1 own_epochs=2"), ((62.06, 72.06), (68.12, 70.31))),
            "APFL": ("apfl", settings("epochs=1"), ((62.87, 72.86), (69.53, 72.53))),
        }

    def flow_spent(facts):
        """Says what a visit spends, and which rows differ in it."""
        said = [f"{row} {fact['examples']:,.0f}" for row, fact in facts.items() if "examples" in fact]
        return ([textwrap.fill(f"- Counted by the runs, examples of a visit's gradients: {', '.join(said)}.", 120, subsequent_indent="  ")]
                if said else []) + remarks(facts)

    def flow_table2():
        cells, rows = {}, []
        for name, (algorithm, more, published) in flow_rows().items():
            letters = {"P": ("personal", "")} if name == "Local" else {"G": ("global", ""), "P": ("personal", "")}
            if algorithm == "flow":
                letters["P, soft"] = ("personal", "inference=soft")
            for letter, (model, stage) in letters.items():
                rows.append(f"{name}, {letter}")
                for i, (column, preset) in enumerate(flow.items()):
                    number = published[i][letter != "G"] if letter != "P, soft" else None
                    cells[rows[-1], column] = Cell(("--preset", preset, "--algorithm", algorithm, *more, *ONCE), model, stage, number)
        return Table("Flow, Table 2: CIFAR-10", flow_about + "Accuracy in %, pooled, after the last round; G: the server's model (FedAvg+FT's "
                     "is FedAvg's, published 60.98 and 67.5 for FedAvg), P: the personal ones, by the hard policy unless soft is said.",
                     tuple(rows), tuple(flow), cells, (1, 2, 3), 100,
                     (("Flow, P", "FedAvg+FT, P"), ("Flow, G", "FedAvg+FT, G"), ("Flow, program, P", "FedAvg+FT, P"),
                      ("Flow, program, G", "FedAvg+FT, G"), ("Flow, P, soft", "Flow, P")),
                     {row: {cell.arguments[3]} for (row, _), cell in cells.items()} | {column: {column.lower()} for column in flow}, flow_spent)

    def flow_table3():
        published = {"FedAvg+FT": (97.18, 99.33), "Flow": (98.33, 99.62), "Flow, program": (98.33, 99.62), "Ditto": (90.52, 89.61),
                     "APFL": (87.48, 90.63)}
        cells = {}
        for name, numbers in published.items():
            algorithm, more, _ = flow_rows()[name]
            for (column, preset), number in zip(flow.items(), numbers):
                cells[name, column] = Cell(("--preset", preset, "--algorithm", algorithm, *more, *ONCE), "benefiting", "", number)
        return Table("Flow, Table 3: clients that benefit, CIFAR-10", flow_about + "Clients in % whose personal model is better than the "
                     "server's on their own test data, after the last round; the runs of Table 2.", tuple(published), tuple(flow), cells, (1, 2, 3), 100,
                     (("Flow", "FedAvg+FT"), ("Flow, program", "FedAvg+FT")), {row: {flow_rows()[row][0]} for row in published} | {column: {column.lower()} for column in flow}, data_lines)

    def fedalt():
        preset = "fedalt/cifar10-small"
        weights = "fedalt-cifar10-{seed}.safetensors"
        start = Cell(("--preset", preset, "--algorithm", "backbone", "--save-weights", weights, *ONCE), "global")
        begin = ("--preset", preset, "--weights", weights)
        tuned = ("--eval-also", "tune_epochs=2", *ONCE)
        rows = {"FedAvg, G": ("fedavg-ft", settings("epochs=2"), "global", False),
                "Finetune (all)": ("fedavg-ft", settings("epochs=2"), None, True)}
        for scope, named in {"adapter": "adapter", "output": "output", "input": "named:0"}.items():
            more = ("--scope", named)
            for name, algorithm, epochs in (("FedAlt", "fedalt", ()), ("FedSim", "fedsim", settings("epochs=2"))):
                rows[f"{name}, {scope}"] = (algorithm, (*more, *epochs), "personal", True)
            rows[f"FT (part.), {scope}"] = ("ft-part", (*more, *settings("epochs=2")), None, True)
            for name, algorithm, epochs in (("FedAlt", "fedalt", ()), ("FedSim", "fedsim", settings("epochs=2"))):
                rows[f"{name}, {scope}, stateless"] = (algorithm, (*more, *epochs, "--stateless"), "personal", True)
        cells, kinds = {}, {}
        for row, (algorithm, more, model, then) in rows.items():
            kinds[row] = {algorithm, *({row.split(", ")[1]} if "--scope" in more else {"whole"}), *({"stateless"} if "stateless" in row else {"stateful"})}
            arguments = (*begin, "--algorithm", algorithm, *more, *tuned)
            if model:
                cells[row, "(b)"] = Cell(arguments, model)
            if then:
                cells[row, "then (c)"] = Cell(arguments, "personal", "tune_epochs=2")
        pairs = [(f"FedAlt, {scope}", f"FedSim, {scope}") for scope in ("input", "output", "adapter")]
        pairs += [(f"FedAlt, {scope}", f"FT (part.), {scope}") for scope in ("input", "output", "adapter")]
        pairs += [(f"FedAlt, {scope}", f"FedAlt, {scope}, stateless") for scope in ("input", "output", "adapter")]
        return Table("FedAlt and FedSim: CIFAR-10",
                     "CIFAR-10, JPEG copy; Dirichlet 0.3, 100 clients, 10 a round, CifarNet with two bottleneck adapters of 16 in its dense part. (a) 40 rounds of FedAvg, (b) {rounds} rounds "
                     "of the row's method at equal numbers of gradient steps, (c) 2 epochs on the personal part. Accuracy in %, pooled, after the last "
                     "round. Input: the first convolution. The paper has "
                     "no CIFAR-10, so nothing is published to stand beside.",
                     tuple(rows), ("(b)", "then (c)"), cells, (1, 2, 3), 20, tuple(pairs), kinds, remarks, first=((start, 40),))

    def pfedbred():
        ft, two, code = ("--eval-also", "tune_steps=1"), ("--eval-also", "tune_steps=2"), settings("mh=code")
        rows = {  # row: algorithm, more, model, stage, published
            "FedAvg, G": ("fedavg", (), "global", "", 57.51),
            "pFedMe": ("pfedme", ft, "personal", "", 72.24),
            "pFedMe+FT": ("pfedme", ft, "personal", "tune_steps=1", 68.17),
            "Per-FedAvg": ("per-fedavg", two, "personal", "", 78.87),
            "Per-FedAvg+FT": ("per-fedavg", two, "personal", "tune_steps=2", 79.68),
            "lg (paper's prior)": ("pfedbred-lg", (), "personal", "", 65.7),
            "meg": ("pfedbred-meg", (), "personal", "", 73.8),
            "mh (paper's prior)": ("pfedbred-mh", (), "personal", "", 79.44),
            "mh (code)": ("pfedbred-mh", (*code, *ft), "personal", "", 79.44),
            "mh+FT (code)": ("pfedbred-mh", (*code, *ft), "personal", "tune_steps=1", 79.16),
            "FedAMP": ("fedamp", ("--per-round", "20"), "personal", "", 77.40),
        }
        cells = {(row, "CifarNet"): Cell(("--preset", "pfedbred/cifar10-small", "--algorithm", algorithm, *more, *LAST), model, stage, number)
                 for row, (algorithm, more, model, stage, number) in rows.items()}
        return Table("pFedBreD, Table 1: CIFAR-10",
                     "CIFAR-10, JPEG copy; CifarNet, 20 clients of 3 labels, 4 merged a round and all trained, {rounds} rounds for 2000, rates "
                     "0.03 for 0.01. Accuracy in %, pooled, mean of the last three rounds. `code` and `paper's prior` as in the table on "
                     "Fashion-MNIST.", tuple(rows), ("CifarNet",), cells, (1, 2, 3), 25,
                     (("mh (code)", "pFedMe"), ("mh (code)", "Per-FedAvg"), ("mh (paper's prior)", "pFedMe"), ("meg", "pFedMe")),
                     {row: {algorithm} for row, (algorithm, *_) in rows.items()}, remarks)

    def perada():
        weights = "perada-cifar10-{seed}.safetensors"
        preset = "perada/cifar10-small"
        start = Cell(("--preset", preset, "--algorithm", "backbone-half", "--partition", "iid", "--save-weights", weights, *settings("epochs=1"), *ONCE),
                     "global")
        columns = {"Local-test": ("personal", "local"), "Global-test": ("personal", "union"), "server's Global-test": ("global", "union")}
        rows = {
            "Local": ("local", settings("epochs=2"), (85.94, 29.77, None)),
            "FedAvg+FT": ("fedavg-ft", settings("epochs=2 tune_epochs=1"), (88.91, 43.99, 69.34)),
            "Ditto": ("ditto", (), (90.21, 53.82, 69.95)),
            "FedAlt (adapter)": ("fedalt", ("--scope", "adapter"), (87.26, 31.51, None)),
            "PerAda, no KD": ("perada-nokd", (), (91.27, 53.81, 74.22)),
            "PerAda": ("perada", (), (91.82, 59.05, 76.77)),
        }
        cells, kinds = {}, {}
        for row, (algorithm, more, published) in rows.items():
            kinds[row] = {algorithm}
            arguments = ("--preset", preset, "--weights", weights, "--algorithm", algorithm, *more, "--shifts", "none", *ONCE)
            for (column, (model, on)), number in zip(columns.items(), published):
                if number is not None:
                    cells[row, column] = Cell(arguments, model, "", number, on=on)
        return Table("PerAda, Tables 1 and 2: CIFAR-10",
                     "CIFAR-10, JPEG copy; 20 clients of Dirichlet 0.1, 8 a round, a convolutional network with adapters for ResNet-18, {rounds} "
                     "rounds of one epoch for 200 of ten. The backbone is frozen for adapters and was made by 10 rounds of FedAvg on the lower half of the "
                     "classes (the paper's: ImageNet). Public data: a tenth of everybody's training images without labels (the paper's: CIFAR-100). Local-test: "
                     "own test data, pooled; Global-test: each personal model on everybody's test images, mean over clients; in %, after the last round. "
                     "Published: ResNet-18.", tuple(rows), tuple(columns), cells, (1, 2, 3), 10,
                     (("PerAda", "PerAda, no KD"), ("PerAda, no KD", "Ditto"), ("PerAda", "FedAvg+FT")), kinds, remarks, first=((start, 10),))

    def tuning():
        """One seed, ten rounds, a fifth of every client's training data set aside; tests are not looked at."""
        def row(preset, algorithm, model, rates, *more):
            return [(rate, Cell(("--preset", preset, "--algorithm", algorithm, *more, "--validation", "0.2",
                                 *settings(" ".join(f"{name}={rate}" for name in names.split())), *ONCE), model, on="validation"))
                    for names, each in rates.items() for rate in each]

        coarse, fine, both = {"rate": ("0.03", "0.1", "0.3")}, {"rate": ("0.003", "0.01", "0.03")}, {"local.rate alpha_m": ("0.01", "0.03", "0.1")}
        rows = {
            "FedSpa B: FedAvg": row("fedspa/cifar10-small-b", "fedavg", "global", coarse),
            "FedSpa B: DST": row("fedspa/cifar10-small-b", "fedspa-dst", "personal", coarse),
            "FedSpa B: Ditto": row("fedspa/cifar10-small-b", "ditto", "personal", coarse),
            "Flow 0.1: FedAvg+FT": row("flow/cifar10-small-dir01", "fedavg-ft", "personal", fine, *settings("epochs=3 tune_epochs=2")),
            "Flow 0.1: Flow, program": row("flow/cifar10-small-dir01", "flow", "personal", fine, *program,
                                           *settings("local_epochs=1 joint_epochs=1")),
            "pFedBreD: pFedMe": row("pfedbred/cifar10-small", "pfedme", "personal", both),
            "pFedBreD: mh (code)": row("pfedbred/cifar10-small", "pfedbred-mh", "personal", both, *settings("mh=code")),
        }
        cells = {(name, rate): cell for name, columns in rows.items() for rate, cell in columns}
        return Table("Rates on CIFAR-10, by validation",
                     "CIFAR-10, JPEG copy; accuracy in % on a fifth of every client's training data that was set aside, after {rounds} rounds of the "
                     "small presets. Columns: the rate (of pFedMe and mh both rates). The presets' rates were set before this was run.",
                     tuple(rows), ("0.003", "0.01", "0.03", "0.1", "0.3"), cells, (1,), 10,
                     kinds={name: {columns[0][1].arguments[3], name.split()[0].lower()} for name, columns in rows.items()}, remarks=data_lines)

    return {"fedspa-cifar10-table1": fedspa_table1, "fedspa-cifar10-studies": fedspa_studies,
            "fedspa-cifar10-seconds": fedspa_seconds, "flow-cifar10-table2": flow_table2,
            "flow-cifar10-table3": flow_table3, "fedalt-cifar10": fedalt, "pfedbred-cifar10": pfedbred, "perada-cifar10": perada,
            "cifar10-rates": tuning}
