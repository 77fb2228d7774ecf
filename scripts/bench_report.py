# SPDX-License-Identifier: BSD-3-Clause
"""Turns the samples of scripts/bench into tables. Knows nothing of how they were taken; standard library only.

    python3 scripts/bench_report.py build/bench/results.json > page.md

Two numbers stand for a set of samples: the least, which is what the code can do, and the median, which is what it did. A
ratio is between numbers of the same run. Work of one thread is counted in CPU time, work of several in wall time.
"""
import dataclasses
import fnmatch
import json
import statistics
import sys
from typing import Callable, Optional


class NotMeasured(Exception):
    """Why a number is missing; the sentence goes into the table."""


def least(samples):
    return min(samples)


def median(samples):
    return statistics.median(samples)


PICKS = (least, median)


NOT_ASKED = "not measured: not part of this run"
ORDER = ("clock fma avx512 avx2 portable read L1 L2 L3 DRAM fedavg pfedme evaluate tiny dnn mclr whole packed forward weights "
         "inputs tessera").split()


def place(name):
    """Where a name stands in a table, whenever it was run: the words above in their order, shapes by size."""
    return [(ORDER.index(part), [], "") if part in ORDER else
            (len(ORDER), [int(n) for n in part.split("x") if n.isdigit()], part) for part in name.split("/")]


class Run:
    """The samples, by problem and competitor."""

    def __init__(self, data):
        self.data, self.problems = data, data["problems"]

    def entry(self, problem, name):
        entries = self.problems.get(problem, {})
        entry = entries.get(name)
        if entry is None:
            # A library that is missing leaves its reason under its own name, a script or program under a pattern.
            notes = [e["note"] for key, e in entries.items()
                     if e["note"] and (fnmatch.fnmatch(name, key) or name.startswith(key))]
            raise NotMeasured(notes[0] if notes else NOT_ASKED)
        if entry["note"]:
            raise NotMeasured(entry["note"])
        if not entry["real"]:
            raise NotMeasured("not measured: no sample")
        return entry

    def time(self, problem, name, pick, clock="cpu"):
        return pick(self.entry(problem, name)[clock])

    def counter(self, problem, name, counter):
        return self.entry(problem, name)["counters"][counter]

    def names(self, problem):
        return sorted(self.problems.get(problem, {}), key=place)

    def groups(self, problem):
        """Names without their competitors."""
        heads = (name.rpartition("/")[0] for name in self.names(problem))
        return [head for head in dict.fromkeys(heads) if head not in ("", "*")]

    def peak(self, pick):
        """Multiply-adds per second of the widest registers, in FLOP/s."""
        for name in ("fma/avx512", "fma/avx2"):
            if name in self.problems.get("machine", {}):
                return self.counter("machine", name, "flop") / self.time("machine", name, pick)
        raise NotMeasured("not measured: no multiply-add loop for this CPU")

    def faster(self, problem, ours, theirs, pick, clock="cpu"):
        """How many times as fast as theirs ours is."""
        return self.time(problem, theirs, pick, clock) / self.time(problem, ours, pick, clock)

    def of_peak(self, problem, name, pick):
        return self.counter(problem, name, "flop") / self.time(problem, name, pick) / self.peak(pick)


# What must be shown ----------------------------------------------------------------------------------------------------


@dataclasses.dataclass
class Promise:
    work: str
    against: str
    value: Callable            # of (run, pick)
    floor: float
    goal: Optional[float] = None
    form: str = "x"            # x, %, count
    at_most: bool = False
    at_peak: Optional[Callable] = None  # of run: the value if every multiply-add took no longer than the machine needs

    def text(self, number):
        if number is None:
            return ""
        return {"x": f"{number:.2f}x", "%": f"{100 * number:.0f} %", "count": f"{number:g}"}[self.form]

    def verdict(self, number):
        """Compared as printed: a number that reads like the floor meets it."""
        def meets(bound):
            shown, asked = round(number, 2), round(bound, 2)
            return shown <= asked if self.at_most else shown >= asked
        if self.goal is not None and meets(self.goal):
            return "meets goal"
        return "meets floor" if meets(self.floor) else "**falls short**"


def step(name, theirs):
    return lambda run, pick: run.faster("dense_step", f"{name}/tessera", f"{name}/{theirs}", pick)


def at_peak(run, net, steps, problem, theirs):
    """Their time over that of so many of our steps at the machine's multiply-add rate."""
    ours = steps * run.counter("dense_step", f"{net}/tessera", "flop") / run.peak(least)
    return run.time(problem, theirs, least) / ours


def step_promise(net, theirs, against, floor, goal):
    return Promise("", against, step(net, theirs), floor, goal,
                   at_peak=lambda run: at_peak(run, net, 1, "dense_step", f"{net}/{theirs}"))


def round_against(theirs, name):
    return lambda run, pick: run.faster("round", f"{name}/t1", f"{name}/torch_{theirs}", pick)


STEPS = {"fedavg": 20 * 20, "pfedme": 100 * 20 * 5}


def round_promise(theirs, name, against, floor, goal=None):
    method, net = name.split("/")
    return Promise("", against, round_against(theirs, name), floor, goal,
                   at_peak=lambda run: at_peak(run, net, STEPS[method], "round", f"{name}/torch_{theirs}"))


def headed(work, promise):
    return dataclasses.replace(promise, work=work)


def second_core(name):
    def value(run, pick):
        return run.time("round", f"{name}/t1", pick, "real") / run.time("round", f"{name}/t2", pick, "real")
    return value


def clients_rate(run, pick):
    """The script counts per client, our round has all of them."""
    ours = run.time("round", "tiny/mclr/t1", pick) / run.counter("round", "tiny/mclr/t1", "clients")
    return run.time("round", "tiny/mclr/torch_plain", pick) / ours


def of_pure_read(run, pick):
    """Against the better of two ways to read: row after row, and ten rows in turns."""
    read = min(run.time("mean", f"whole/read_{how}", pick) for how in ("one_stream", "ten_streams"))
    return read / run.time("mean", "whole/tessera", pick)


def masked_layers(density, theirs):
    """The worst of the layers that were run; theirs(run, layer, pick) is the time to beat."""
    def value(run, pick):
        layers = [group.partition("/")[0] for group in run.groups("sparse")
                  if group.endswith(f"/{density}") and not group.startswith(("visit", "search"))]
        if not layers:
            raise NotMeasured(NOT_ASKED)
        return min(theirs(run, layer, pick) / run.time("sparse", f"{layer}/{density}/tessera", pick) for layer in layers)
    return value


def over_dense(density):
    """Over the best dense step of the layer, whoever makes it."""
    def best(run, layer, pick):
        names = [name for name in run.names("sparse")
                 if name.startswith(f"{layer}/dense/") and not run.problems["sparse"][name]["note"]]
        if not names:
            raise NotMeasured(NOT_ASKED)
        return min(run.time("sparse", name, pick) for name in names)
    return masked_layers(density, best)


def over_masked_torch(density):
    return masked_layers(density, lambda run, layer, pick: run.time("sparse", f"{layer}/{density}/torch_masked", pick))


def masked_promises(density, floor, goal, torch_floor):
    return [Promise(f"masked layer step, density {density}, batch 128", "best dense step", over_dense(density), floor, goal),
            Promise("", f"PyTorch, masked, {density}", over_masked_torch(density), torch_floor)]


def packed_mean(run, pick):
    torch = [name for name in run.names("mean") if name.startswith("packed/torch_")
             and not run.problems["mean"][name]["note"]]
    if not torch:
        raise NotMeasured(NOT_ASKED)
    return min(run.faster("mean", "packed/tessera", name, pick) for name in torch)


def image_step(net, theirs):
    """Over the best of the peers whose names begin so."""
    def value(run, pick):
        names = [name for name in run.names("image_step") if name.startswith(f"{net}/{theirs}")
                 and not run.problems["image_step"][name]["note"]]
        if not names:
            raise NotMeasured(NOT_ASKED)
        return min(run.faster("image_step", f"{net}/tessera", name, pick) for name in names)
    return value


def image_promises():
    nets = {"resnet18": ("ResNet-18-GN step, batch 32", 1.6, 2.5), "vgg11": ("VGG11-GN step, batch 32", 1.6, 2.5),
            "cifar_cnn_32": ("CIFAR convnet step, batch 32", 1.15, 1.5), "cifar_cnn_64": ("CIFAR convnet step, batch 64", 1.15, 1.5)}
    return [Promise(work, "PyTorch, its best form", image_step(net, "torch"), floor, goal)
            for net, (work, floor, goal) in nets.items()]


def mask_search(density):
    return lambda run, pick: 1 / run.faster("sparse", f"search/{density}/tessera", "search/dense_step/tessera", pick)


def sparse_visit(density):
    return lambda run, pick: run.faster("sparse", f"visit/{density}/tessera", "visit/dense/tessera", pick)


def hard_routing(theirs):
    return lambda run, pick: 1 / run.faster("routing", "dnn3/hard", f"dnn3/{theirs}", pick)


def private_step(source):
    return lambda run, pick: 1 / run.faster("private_step", f"private_step/{source}", "private_step/sgd", pick)


def allocations(run, _):
    counts = [run.counter("round", name, "allocations") for name in run.names("round")
              if name.endswith(("/t1", "/t2")) and not name.startswith("evaluate")
              and not run.problems["round"][name]["note"]]
    if not counts:
        raise NotMeasured("not measured: no round was run")
    return max(counts)


def amx(run, pick):
    """Against the faster of our two steps without tiles."""
    if not run.data["machine"].get("amx"):
        raise NotMeasured("not measured: this CPU has no AMX")
    return min(run.faster("dense_step", "dnn/tessera_amx", f"dnn/{ours}", pick) for ours in ("tessera", "tessera_bytes"))


PROMISES = [
    Promise("DNN 784-100-10 step, batch 20", "multiply-add peak", lambda run, pick: run.of_peak("dense_step", "dnn/tessera", pick),
            0.80, 0.85, "%"),
    step_promise("dnn", "eigen", "Eigen loop", 1.35, 1.45),
    step_promise("dnn", "torch_plain", "plain PyTorch", 6, 6.5),
    step_promise("dnn", "torch_expert", "expert PyTorch", 2.5, 3),
    headed("MCLR 784-10 step, batch 20", step_promise("mclr", "eigen", "Eigen loop", 1.5, 2.5)),
    step_promise("mclr", "torch_plain", "plain PyTorch", 9.5, 15),
    headed("FedAvg round, 20 clients x 20 steps", round_promise("plain", "fedavg/mclr", "plain PyTorch, MCLR", 12)),
    round_promise("plain", "fedavg/dnn", "plain PyTorch, DNN", 5.5),
    round_promise("expert", "fedavg/dnn", "expert PyTorch, DNN", 2.5, 3),
    Promise("", "one core, MCLR (second core)", second_core("fedavg/mclr"), 1.5),
    Promise("", "one core, DNN (second core)", second_core("fedavg/dnn"), 1.7),
    headed("pFedMe round, 100 clients x 20 x 5", round_promise("plain", "pfedme/mclr", "plain PyTorch, MCLR", 12)),
    round_promise("plain", "pfedme/dnn", "plain PyTorch, DNN", 4.5),
    *image_promises(),
    Promise("weighted mean of 100 x 1e6 floats", "pure read of the same bytes", of_pure_read, 0.9, 0.9, "%"),
    Promise("exact top-k mask of 1e6", "std::nth_element",
            lambda run, pick: run.faster("select", "top20/tessera", "top20/nth_element", pick), 10, 20),
    Promise("", "two streaming passes (at most)",
            lambda run, pick: 1 / run.faster("select", "top20/tessera", "top20/two_passes", pick), 2.5, None, "x", True),
    *masked_promises("0.50", 1.25, 1.6, 1.9),
    *masked_promises("0.20", 2.6, 3.8, 3.9),
    *masked_promises("0.10", 4.3, 7, 6.5),
    *masked_promises("0.05", 7.2, 14, 11),
    Promise("sparse visit 784-512-512-10, density 0.50", "dense visit", sparse_visit("0.50"), 1.15),
    Promise("", "at density 0.20", sparse_visit("0.20"), 2.2),
    Promise("search of a mask, density 0.50", "dense step (at most)", mask_search("0.50"), 1.3, None, "x", True),
    Promise("", "at density 0.20 (at most)", mask_search("0.20"), 1.3, None, "x", True),
    Promise("packed masked mean, 100 clients x 1e6, density 0.25", "PyTorch's faster form", packed_mean, 4),
    Promise("hard routing of 1,000 rows, 784-512-512-512-10", "soft routing (at most)", hard_routing("soft"), 0.62, None, "x",
            True),
    Promise("", "plain net and router (at most)", hard_routing("plain_and_router"), 1.10, None, "x", True),
    Promise("DP-SGD step, DNN, batch 64, keyed noise", "plain step (at most)", private_step("keyed"), 2.5, None, "x", True),
    Promise("one-step MCLR clients, 20,000 of them", "plain PyTorch's rate", clients_rate, 10),
    Promise("`amx` DNN step", "our `avx512` step", amx, 1.5),
    Promise("heap allocations in a warm round", "(at most)", allocations, 0, None, "count", True),
]


def table(head, rows):
    lines = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    lines += ["| " + " | ".join(str(cell) for cell in row) + " |" for row in rows]
    return "\n".join(lines)


def must_show_table(data):
    run, rows = Run(data), []
    for p in PROMISES:
        try:
            limit = p.text(p.at_peak(run)) if p.at_peak else ""
        except NotMeasured:
            limit = ""
        try:
            values = [p.value(run, pick) for pick in PICKS]
            rows.append((p.work, p.against, p.text(p.floor), p.text(p.goal), limit, p.text(values[0]), p.text(values[1]),
                         p.verdict(values[0])))
        except NotMeasured as why:
            rows.append((p.work, p.against, p.text(p.floor), p.text(p.goal), limit, "", "", str(why)))
    return table(("work", "against", "floor", "goal", "at peak", "least", "median", ""), rows)


# All competitors -------------------------------------------------------------------------------------------------------


def unit(seconds):
    for size, name in ((1e-6, "ns"), (1e-3, "us"), (1.0, "ms")):
        if seconds < size:
            return f"{seconds / size * 1000:.3g} {name}"
    return f"{seconds:.3g} s"


def machine_tables(run):
    rows = []
    for name in run.names("machine"):
        def best(scale, counter, pick, name=name):
            return run.counter("machine", name, counter) / run.time("machine", name, pick) / scale
        try:
            if name == "clock":
                rows.append(("clock", *(f"{best(1e9, 'cycles', pick):.2f} GHz" for pick in PICKS)))
            elif name.startswith("fma/"):
                rows.append((f"multiply-adds, {name[4:]}", *(f"{best(1e9, 'flop', pick):.0f} GFLOP/s" for pick in PICKS)))
            else:
                rows.append((f"read, {name[5:]}", *(f"{best(1e9, 'byte', pick):.0f} GB/s" for pick in PICKS)))
        except NotMeasured as why:
            rows.append((name, str(why), ""))
    return table(("one thread", "best", "median"), rows)


def competitors(run, problem, group, ours, clock="cpu", extra=None):
    """One group of a problem: every competitor's times and how much faster ours is."""
    head = ["", "least", "median", "ours is faster by, least", "median"] + ([extra[0]] if extra else [])
    rows = []
    names = [name for name in run.names(problem) if name.rpartition("/")[0] in (group, "*")]
    if group not in run.groups(problem):
        return ""

    def by_time(name):
        return name != f"{group}/{ours}", min(run.problems[problem][name][clock], default=float("inf"))

    for name in sorted(names, key=by_time):
        label = name.rpartition("/")[2]
        try:
            times = [run.time(problem, name, pick, clock) for pick in PICKS]
            ratios = [f"{run.faster(problem, f'{group}/{ours}', name, pick, clock):.2f}x" for pick in PICKS]
            cells = [label, unit(times[0]), unit(times[1]), *ratios]
        except NotMeasured as why:
            cells = [label, str(why), "", "", ""]
        if extra:
            try:
                cells.append(extra[1](name))
            except (NotMeasured, KeyError):
                cells.append("")
        rows.append(cells)
    return table(head, rows)


def gemm_table(run):
    names = run.names("gemm")
    peers = sorted({name.rpartition("/")[2] for name in names if "*" not in name}, key=place)
    rows = []
    for group in run.groups("gemm"):
        cells, rate = [group.replace("x", " x ")], {}
        for peer in peers:
            try:
                rate[peer] = run.of_peak("gemm", f"{group}/{peer}", least)
                cells.append(f"{100 * rate[peer]:.0f} %")
            except NotMeasured:
                cells.append("-")
        others = [value for peer, value in rate.items() if peer != "tessera"]
        cells.append(f"{rate['tessera'] / max(others):.2f}x" if others and "tessera" in rate else "")
        rows.append(cells)
    missing = sorted({f"{name.rpartition('/')[2]}: {run.problems['gemm'][name]['note']}" for name in names
                      if run.problems["gemm"][name]["note"]})
    return table(("batch x in x out / product", *peers, "ours / best peer"), rows) + (
        "\n\n" + "; ".join(missing) + "." if missing else "")


def choice_tables(run):
    """By kernel set: how much faster sparse layers are than dense ones, and where the table takes the slower way."""
    texts = []
    for kernel_set in dict.fromkeys(group.partition("/")[0] for group in run.groups("sparse_choice")):
        groups = [group.split("/") for group in run.groups("sparse_choice") if group.startswith(kernel_set + "/")]
        densities = sorted({density for _, _, _, density in groups})
        rows, missed, asked = [], 0, 0
        for widths, batch in dict.fromkeys((widths, batch) for _, widths, batch, _ in groups):
            cells = [widths, batch]
            for density in densities:
                try:
                    sparse, dense, taken = (run.time("sparse_choice", f"{kernel_set}/{widths}/{batch}/{density}/{how}", least)
                                            for how in ("sparse", "dense", "table"))
                except NotMeasured as why:
                    cells.append(str(why))
                    continue
                asked += 1
                slower = taken > 1.1 * min(sparse, dense)
                missed += slower
                cells.append(f"**{dense / sparse:.2f}x**" if slower else f"{dense / sparse:.2f}x")
            rows.append(cells)
        texts.append(f"`{kernel_set}`: the table is within 10 % of the faster one in {asked - missed} of {asked} cases.\n\n" +
                     table(("widths", "batch", *(f"density {density}" for density in densities)), rows))
    return texts


def round_table(run):
    rows = []
    for group in run.groups("round"):
        cells = [group]

        def number(compute, form="{}"):
            try:
                return form.format(compute())
            except NotMeasured as why:
                return "" if str(why) == NOT_ASKED else str(why)
            except KeyError:
                return ""

        per = 1 if not group.startswith("tiny") else run.problems["round"].get(f"{group}/t1", {}).get(
            "counters", {}).get("clients", 1)
        for pick in PICKS:
            cells.append(number(lambda pick=pick: unit(run.time("round", f"{group}/t1", pick) / per)))
        cells.append(number(lambda: unit(run.time("round", f"{group}/t2", least, "real") / per)))
        cells.append(number(lambda: second_core(group)(run, least), "{:.2f}x"))
        for peer in ("plain", "expert"):
            cells.append(number(lambda peer=peer: unit(run.time("round", f"{group}/torch_{peer}", least))))
            for pick in PICKS:
                cells.append(number(lambda peer=peer, pick=pick: run.time("round", f"{group}/torch_{peer}", pick)
                                    / (run.time("round", f"{group}/t1", pick) / per), "{:.1f}x"))
        cells.append(number(lambda: run.counter("round", f"{group}/t1", "allocations"), "{:g}"))
        cells.append(number(lambda: run.counter("round", f"{group}/t2", "allocations"), "{:g}"))
        rows.append(cells)
    return table(("", "ours, 1 thread", "median", "2 threads", "second core", "plain PyTorch", "ours is faster by", "median",
                  "expert PyTorch", "ours is faster by", "median", "allocations, 1 thread", "2 threads"), rows)


def machine_line(machine):
    blas = "no OpenBLAS"
    if machine.get("openblas_forced"):
        blas = f"OpenBLAS kernels {machine['openblas_forced']} (left alone it takes {machine['openblas_alone']})"
    return (f"{machine['cpu']} (family {machine['family']}, model {machine['model']}), {machine['cores']} cores, "
            f"{machine['system']}, {machine['compiler']}, {blas}, "
            f"{'real-time priority' if machine.get('real_time') else 'no real-time priority: expect noise'}.")


def processor(machine):
    """What pages of two machines are told apart by: "AMD EPYC" of "AMD EPYC 9554 64-Core Processor"."""
    return " ".join(machine["cpu"].replace("(R)", "").replace("(TM)", "").split()[:2])


def page(data):
    run = Run(data)
    parts = [f"# Benchmarks on {processor(data['machine'])}", "",
             f"Written by `{data['command']}` on {data['date']}; do not edit. [How it is measured, and the traps]"
             "(benchmarking.md).", "", machine_line(data["machine"]), "",
             "Times are of one thread on one core unless a column says otherwise; least and median over all turns of the "
             "run.", "", "## What must be shown", "", must_show_table(data), "",
             "*At peak* is what a step would have whose multiply-adds took no longer than the machine needs for them and that "
             "did nothing else: a floor above it cannot be met on this machine in fp32."]

    def section(title, problem, *texts):
        if run.names(problem):
            parts.extend(["", f"## {title}"] + [line for text in texts if text for line in ("", text)])

    def under(title, text):
        return f"{title}\n\n{text}" if text else ""

    section("Limits of this machine", "machine", machine_tables(run))
    peak = ("of peak", lambda name: f"{100 * run.of_peak('dense_step', name, least):.0f} %")
    section("A training step, batch 20", "dense_step",
            under("DNN 784-100-10 (79,510 parameters):", competitors(run, "dense_step", "dnn", "tessera", extra=peak)),
            under("MCLR 784-10 (7,850 parameters):", competitors(run, "dense_step", "mclr", "tessera", extra=peak)),
            "`tessera` reads float rows as the others do; `tessera_bytes` reads the 8-bit pixels that datasets keep, and "
            "converts them in the step; `tessera_avx2` is what CPUs without AVX-512 run, `tessera_amx` does its first layer on "
            "bytes in matrix tiles. `torch_expert` is counted per client, 20 clients in one batched product.")
    convolved = ("of peak", lambda name: f"{100 * run.of_peak('conv_step', name, least):.0f} %")
    section("A training step of a convolutional network, batch 20", "conv_step",
            under("`cnn`, convolutions of 32 and 64, 1024-512-10 (582,026 parameters):",
                  competitors(run, "conv_step", "cnn", "tessera", extra=convolved)),
            under("`lenet5`, convolutions of 20 and 50, 800-500-10 (431,080 parameters):",
                  competitors(run, "conv_step", "lenet5", "tessera", extra=convolved)))
    imaged = ("of peak", lambda name: f"{100 * run.of_peak('image_step', name, least):.0f} %")
    section("A training step of an image network, 3 x 32 x 32", "image_step",
            *(under(title, competitors(run, "image_step", net, "tessera", extra=imaged)) for net, title in (
                ("resnet18", "ResNet-18 with group norms, batch 32 (11,173,962 parameters):"),
                ("vgg11", "VGG11 with group norms, batch 32 (9,231,114 parameters):"),
                ("cifar_cnn_32", "Convolutions of 5 x 5 (32, 64), 1600-512-10, batch 32 (878,538 parameters):"),
                ("cifar_cnn_64", "The same, batch 64:"))),
            "`torch_bare` has no optimizer object, `torch_channels_last` neither and channels innermost; `jax` is one jitted step. "
            "*Of peak* counts direct sums, of which Winograd's tiles do fewer.")
    for problem, title in (("lstm_step", "A training step of two layers of LSTM, 80 characters, batch 16"),
                           ("transformer_step", "A training step of a transformer, 4 blocks of 256, 64 words, batch 16")):
        section(title, problem, *(under(f"`{group}`:", competitors(run, problem, group, "tessera"))
                                  for group in run.groups(problem)))
    section("Matrix products of a layer, share of multiply-add peak", "gemm", gemm_table(run))

    def bandwidth(name):
        return f"{run.counter('mean', name, 'byte') / run.time('mean', name, least) / 1e9:.1f} GB/s"
    section("Weighted mean of 100 vectors of a million floats", "mean",
            competitors(run, "mean", "whole", "tessera", extra=("", bandwidth)),
            under("The same of packed vectors, each with a quarter of the coordinates:",
                  competitors(run, "mean", "packed", "tessera", extra=("", bandwidth))))
    section("Mask of the largest fifth of a million magnitudes", "select", competitors(run, "select", "top20", "tessera"))
    section("A masked layer's step and a sparse visit", "sparse",
            *(under(f"{group}:", competitors(run, "sparse", group, "tessera")) for group in run.groups("sparse")),
            "Forward, input gradient and masked update of one layer, batch 128, with every copy between layouts; `dense` is "
            "the same without a mask. A visit trains 784-512-512-10 on 600 examples, batch 128, 5 epochs; `search` is that of "
            "its next mask, one dense gradient and all selections.")
    section("Sparse or dense layers, small batches too", "sparse_choice", *choice_tables(run),
            "How many times as fast a step is whose layers all work on active weights alone as one whose layers are zero-filled. "
            "Bold: what the fixed table takes, layer by layer, is slower than the better of both by more than 10 %.")
    section("Serving 1,000 rows with a routed 784-512-512-512-10", "routing", competitors(run, "routing", "dnn3", "hard"),
            "`plain_and_router` is one plain network and the router, `two_passes_and_router` what one does without a routed "
            "model.")
    section("A private step, DNN, batch 64", "private_step", competitors(run, "private_step", "private_step", "keyed"),
            "Against DP-SGD with noise from keyed streams; `sgd` is the plain step, `system` takes noise from the system, "
            "`one_by_one` clips a gradient an example, `ledger` is the accounting of 2,250 rounds.")
    section("Rounds", "round", round_table(run),
            "`tiny` is per client, of 20,000; the others per round or per evaluation of all test data. Expert PyTorch has the "
            "clients of a round side by side in batched products, gradients by hand.")
    return "\n".join(parts) + "\n"


def wrong_answers(data):
    return [f"{problem}: {name}: {entry['note']}" for problem, entries in data["problems"].items()
            for name, entry in entries.items() if entry["note"].startswith("wrong answer")]


if __name__ == "__main__":
    with open(sys.argv[1], encoding="utf-8") as file:
        sys.stdout.write(page(json.load(file)))
