# SPDX-License-Identifier: BSD-3-Clause
"""What image models must show: the rows of `scripts/bench --images`, and their page. Standard library only."""
import json

import bench_report
from bench_report import NOT_ASKED, NotMeasured, Promise, Run, least

CONVOLUTIONS = ("64to64@32k3s1", "128to128@16k3s1", "256to256@8k3s1", "512to512@4k3s1")
SPARSE = {"1to20@28k5": "1->20 5x5@28", "20to50@12k5": "20->50 5x5@12", "64to64@32k3": "64@32", "256to256@8k3": "256@8"}
PRODUCTS = ("forward", "inputs", "weights")

# problem: what of it is run
NAMES = {
    "image_step": None,
    "conv": r"(k3s1|k5s1|k1s2|k3s2)/.*/(tessera|onednn_direct|onednn_winograd)$",
    "gemm": r"^(128x1024x1024|1024x1024x1024|2048x2048x2048)/.*/(tessera|openblas|onednn|mkl|jax)$",
    "norm": r"^64@32/(forward|backward)/(tessera|torch.*)$",
    "sparse_conv": r"(/(0\.5|0\.2|0\.1)/(all|visit)/(tessera|columns|dense)|visit/dense)$",
    "round": r"^fedavg/(mclr|dnn)/(t1|jax_|torch_expert)",
}
ALONE = ("conv", "norm", "sparse_conv")  # which no other page has


def best(run, problem, head, peers, pick):
    """The least time of the peers whose names begin so."""
    names = [name for name in run.names(problem) if any(name.startswith(f"{head}/{peer}") for peer in peers)
             and not run.problems[problem][name]["note"]]
    if not names:
        raise NotMeasured(NOT_ASKED)
    return min(run.time(problem, name, pick) for name in names)


def over(problem, head, *peers):
    return lambda run, pick: best(run, problem, head, peers, pick) / run.time(problem, f"{head}/tessera", pick)


def whole(problem, head, *peers):
    """Forward and both gradients together."""
    return lambda run, pick: (sum(best(run, problem, f"{head}/{product}", peers, pick) for product in PRODUCTS) /
                              sum(run.time(problem, f"{head}/{product}/tessera", pick) for product in PRODUCTS))


def norm(run, pick):
    heads = ("64@32/forward", "64@32/backward")
    return (sum(best(run, "norm", head, ("torch",), pick) for head in heads) /
            sum(run.time("norm", f"{head}/tessera", pick) for head in heads))


def round_over_jax(net):
    return lambda run, pick: best(run, "round", f"fedavg/{net}", ("jax_",), pick) / run.time("round", f"fedavg/{net}/t1", pick)


# What a reader asks of rows that fall short, found by trials that no program here repeats.
LIMITS = """On Zen 4 with AVX-512, one core; times in ms.

- **Products of 1024 and 2048, forward and weights**: ahead of MKL, OpenBLAS and JAX; oneDNN's are at 95 to 97 % of the multiply-add
  peak, ours at 91 to 94. Input gradients, whose factors are read as they lie, keep up, so what is left is packing.
- **5 x 5 and 3 x 3 of stride 2**: oneDNN compiles a kernel for each shape; ours turns planes to channels innermost and back.
- **1 x 1 of stride 2**: at the multiply-add peak the product takes 1.15 ms. Two other ways were tried, forward / weights / inputs: the
  kernel as it is 1.88 / 1.81 / 1.81 ms; columns of the strided pixels 1.87 / 2.88 / 1.73; the strided pixels picked first (0.23) and then
  the kernels of stride 1, 1.67 / 1.72 and 1.36 without putting slopes back. A tenth less at most: neither was taken.
- **64@32 on active weights**: planes of 32 x 32 x 32 examples lie 128 KiB apart and push each other out of the caches. Two techniques:
  lists of weights over a tile in registers; and all groups of a block's examples copied at once, slopes brought together once for all
  channels. The second takes 0.92 to 0.93 of the time (58.0 / 34.0 / 26.1 and 53.6 / 31.7 / 24.2 ms at density 0.5 / 0.2 / 0.1, in turns), all
  of it in the weight gradient, and the rows become 1.56x / 2.63x / 3.42x; samples of 2026-11-19 are of before it. Blocks of channels of 24 to
  48 KiB take the same. What is left is no arithmetic: a product takes 2.2 ms whatever the density, and copies between rows and blocks 6.
- **1->20 on active weights**: half of the time at density 0.1 are copies between rows and blocks, 0.15 of 0.28 ms. Tiles that write rows
  themselves would save them; a tile of 4 x 4 pixels has 16 bytes of a row. That was not tried.
- **LeNet5's visit at density 0.1** has that layer first.
- Ghost norms of convolutions: a private step of LeNet5, batch 64, takes 15.3 ms, a plain one 10.9, single gradients 52.6
  (`build/bench/benchmarks/bench_private_step`).
- Not measured: Debian's PyTorch, which is not installed where the package index's is; compressed rows (CSR) for masked convolutions, for
  which PyTorch has no such kernel. For masked dense layers `torch_csr` stands beside `torch_masked` in `benchmarks/torch/masked_step.py`:
  PyTorch 2.15 takes 2.3 / 1.0 / 0.55 / 0.3 of its dense masked step at density 0.5 / 0.2 / 0.1 / 0.05."""


def promises():
    all_of_it = list(bench_report.image_promises())
    for shape in CONVOLUTIONS:
        all_of_it += [Promise(f"conv {shape}, three products", "oneDNN direct", whole("conv", shape, "onednn_direct"), 1.8, 2.8),
                      Promise("", "oneDNN Winograd", whole("conv", shape, "onednn_winograd"), 1.05, 1.3)]
    all_of_it += [Promise(f"conv {shape}, three products", "oneDNN's best", whole("conv", shape, "onednn"), 1.0)
                  for shape in ("32to64@14k5s1", "64to128@32k3s2", "64to128@32k1s2")]
    for n in (1024, 2048):
        for product in PRODUCTS:
            head = f"{n}x{n}x{n}/{product}"
            all_of_it.append(Promise(f"product {n}^3, {product}" if product == PRODUCTS[0] else f"{n}^3, {product}",
                                     "best of MKL, OpenBLAS, oneDNN, JAX", over("gemm", head, "mkl", "openblas", "onednn", "jax"),
                                     0.98, 1.05))
    all_of_it.append(Promise("GroupNorm + ReLU, 64@32, batch 32, both ways", "PyTorch's best form", norm, 1.8, 2.5))
    for key, name in SPARSE.items():
        for density, floor, goal in (("0.5", 1.5, 1.75), ("0.2", 3.0, 3.6), ("0.1", 4.4, 5.4)):
            all_of_it.append(Promise(f"convolution {name} on active weights, density {density}", "our kernel over columns",
                                     over("sparse_conv", f"{key}/{density}/all", "columns"), floor, goal))
    for density, floor, goal in (("0.5", 1.4, 1.9), ("0.2", 3.0, 4.9), ("0.1", 5.0, 8.9)):
        all_of_it.append(Promise(f"LeNet5 FedSpa visit, batch 32, density {density}", "the dense visit",
                                 lambda run, pick, d=density: run.time("sparse_conv", "lenet5/1/visit/dense", pick) /
                                 run.time("sparse_conv", f"lenet5/{d}/visit/tessera", pick), floor, goal))
    all_of_it += [Promise("FedAvg round DNN, 20 clients x 20 steps", "JAX, lax.map", round_over_jax("dnn"), 1.4, 1.6),
                  Promise("FedAvg round MCLR", "JAX, lax.map", round_over_jax("mclr"), 2.2, 2.6)]
    return all_of_it


def kept(path):
    """What earlier runs have left there, None if nothing; a ValueError if it is something else."""
    if not path.exists():
        if path.parent.is_dir():
            return None
        raise ValueError("its folder does not exist")
    try:
        data = json.loads(path.read_text())
        if isinstance(data["problems"], dict) and isinstance(data["command"], str) and data["seconds"] >= 0:
            return data
    except (OSError, ValueError, KeyError, TypeError):
        pass
    raise ValueError("it holds no samples")


def joined(path, data):
    """With the problems of earlier runs of this build, which had their own turns; the file then has all of them."""
    if (earlier := kept(path)) is not None:
        data = {**data, "problems": {**earlier["problems"], **data["problems"]}, "seconds": earlier["seconds"] + data["seconds"]}
        data["command"] = "; ".join(dict.fromkeys([*earlier["command"].split("; "), data["command"]]))
    path.write_text(json.dumps(data, indent=1) + "\n")
    return data


def rows(data):
    run, lines = Run(data), []
    for p in promises():
        try:
            values = [p.value(run, pick) for pick in bench_report.PICKS]
            lines.append((p.work, p.against, p.text(p.floor), p.text(p.goal), p.text(values[0]), p.text(values[1]),
                          p.verdict(values[0])))
        except NotMeasured as why:
            lines.append((p.work, p.against, p.text(p.floor), p.text(p.goal), "", "", str(why)))
    return bench_report.table(("work", "against", "floor", "goal", "least", "median", ""), lines)


def page(data):
    run = Run(data)
    parts = [f"# Image models on {bench_report.processor(data['machine'])}", "",
             f"Written by `{data['command']}` on {data['date']}; do not edit. [How it is measured, and the traps](benchmarking.md).",
             "", bench_report.machine_line(data["machine"]), "",
             "Peer's time over ours, one thread on one core; least and median over all turns of the run. Convolutions have batch 32 "
             "and count every conversion between layouts; *over columns* is the dense kernel that all convolutions had before tiles.",
             "", "## What must be shown", "", rows(data), "", "## What limits the rest", "", LIMITS,
             "", "## Limits of this machine", "", bench_report.machine_tables(run)]
    for problem, title in (("image_step", "Training steps, 3 x 32 x 32"), ("conv", "Convolutions"), ("gemm", "Products"),
                           ("norm", "Group norms"), ("sparse_conv", "Convolutions on active weights")):
        for number, group in enumerate(run.groups(problem)):
            ours = "dense" if group == "lenet5/1/visit" else "tessera"
            if number == 0:
                parts += ["", f"## {title}"]
            parts += ["", f"`{group}`:", "", bench_report.competitors(run, problem, group, ours)]
    if run.names("round"):
        parts += ["", "## Rounds", ""]
        parts += [bench_report.table(("", "least"), [(name, bench_report.unit(run.time("round", name, least)))
                                                     for name in run.names("round") if not run.problems["round"][name]["note"]])]
    return "\n".join(parts) + "\n"
