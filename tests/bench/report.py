#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""What scripts/bench_report.py makes of stored samples: ratios, verdicts, and a sentence for whatever is missing."""
import argparse
import copy
import json
import pathlib
import sys


def cells(text, *start):
    """The cells of the one row that begins with `start`."""
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in text.splitlines() if line.startswith("|")]
    found = [row for row in rows if tuple(row[:len(start)]) == start]
    assert len(found) == 1, f"{len(found)} rows begin with {start}"
    return found[0]


def check(report, data):
    page, must = report.page(data), report.must_show_table(data)
    assert page.startswith("# Benchmarks on A CPU\n"), page[:60]
    assert report.processor({"cpu": "Intel(R) Xeon(R) Processor"}) == "Intel Xeon"

    # Peak: 1e8 flop in 1 ms at best, in 1.5 ms in the median. The step: 9e6 flop in 0.1 ms, in 0.15 ms.
    peak = cells(must, "DNN 784-100-10 step, batch 20", "multiply-add peak")
    assert peak[2:] == ["80 %", "85 %", "", "90 %", "90 %", "meets goal"], peak
    # CPU time counts for one thread (the wall times are absurd): 0.15 / 0.1 and 0.215 / 0.15.
    # At peak the step's 9e6 flop take 0.09 ms, of which 0.15 are 1.67.
    eigen = cells(must, "", "Eigen loop")
    assert eigen[2:] == ["1.35x", "1.45x", "1.67x", "1.50x", "1.43x", "meets goal"], eigen
    expert = cells(must, "", "expert PyTorch")
    assert expert[5:] == ["2.00x", "1.33x", "**falls short**"], expert

    # A peer that is missing says why, under whatever name it left the reason.
    assert "not measured: PyTorch is not installed (Debian: python3-torch)" in must
    assert cells(page, "libtorch")[1] == "not measured: it is not installed (Debian: libtorch-dev)"
    assert cells(page, "onednn")[1].startswith("wrong answer")
    assert report.wrong_answers(data) == ["dense_step: dnn/onednn: wrong answer: off the reference by 1, allowed are 5e-06"]
    assert cells(must, "`amx` DNN step")[-1] == "not measured: this CPU has no AMX"
    data["machine"]["amx"] = True  # 0.1 / 0.08 and 0.15 / 0.1 against float rows, 0.09 / 0.08 and 0.09 / 0.1 against bytes
    times = {"dnn/tessera_amx": [8e-5, 12e-5], "dnn/tessera_bytes": [9e-5, 9e-5]}
    data["problems"]["dense_step"] |= {name: {"real": t, "cpu": t, "counters": {}, "note": ""} for name, t in times.items()}
    assert cells(report.must_show_table(data), "`amx` DNN step")[5:] == ["1.12x", "0.90x", "**falls short**"]
    assert cells(must, "MCLR 784-10 step, batch 20")[-1] == "not measured: not part of this run"

    # A FedAvg round is 400 such steps, 36 ms at peak, of which 0.36 s are ten times as much.
    data["problems"]["round"]["fedavg/dnn/torch_plain"] = {"real": [9], "cpu": [0.36], "counters": {}, "note": ""}
    assert cells(report.must_show_table(data), "", "plain PyTorch, DNN", "5.50x")[4] == "10.00x"

    # Two threads are compared with one in wall time: 0.034 / 0.02.
    assert cells(must, "", "one core, DNN (second core)")[5:] == ["1.70x", "1.68x", "meets floor"]
    # 0.2 s for 20,000 clients are 10 us each, the script's 100 us ten times that.
    assert cells(must, "one-step MCLR clients, 20,000 of them")[5:] == ["10.00x", "10.00x", "meets floor"]
    assert cells(must, "heap allocations in a warm round")[5:] == ["3", "3", "**falls short**"]

    # The best dense step of the layer; a search has the same density and is no layer.
    assert cells(must, "masked layer step, density 0.50, batch 128")[5:] == ["1.50x", "1.75x", "meets floor"]
    assert cells(must, "search of a mask, density 0.50")[5:] == ["1.00x", "1.50x", "meets floor"]

    # Sparse and dense steps, and what the table takes: with 30 us it has missed the 20 of the sparse ones, with 21 not.
    choice = {"0.20": (2e-5, 4e-5, 2.1e-5), "0.50": (2e-5, 3e-5, 3e-5)}
    data["problems"]["sparse_choice"] = {
        f"avx512/784-10/8/{density}/{how}": {"real": [9], "cpu": [t, 2 * t], "counters": {}, "note": ""}
        for density, times in choice.items() for how, t in zip(("sparse", "dense", "table"), times)}
    chosen = report.page(data)
    assert cells(chosen, "784-10", "8")[2:] == ["2.00x", "**1.50x**"]
    assert "`avx512`: the table is within 10 % of the faster one in 1 of 2 cases." in chosen
    assert "Sparse or dense layers" not in page

    assert "left alone it takes Prescott" in page and "A CPU (family 6, model 1), 2 cores" in page
    assert cells(page, "multiply-adds, avx512")[1:] == ["100 GFLOP/s", "67 GFLOP/s"]
    assert page.index("| clock |") < page.index("| multiply-adds, avx512 |")  # in order, whenever they were run


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--root", type=pathlib.Path, default=pathlib.Path("."))
    root = parser.parse_args().root
    sys.path.insert(0, str(root / "scripts"))
    import bench_report

    data = json.loads((root / "tests" / "bench" / "sample.json").read_text())
    check(bench_report, data)

    # Each of these changes a row that is checked: a check that did not notice would check nothing.
    def slower_eigen(d):
        d["problems"]["dense_step"]["dnn/eigen"]["cpu"] = [3e-4]

    def no_note(d):
        del d["problems"]["dense_step"]["*/torch_plain"]

    def no_allocation(d):
        d["problems"]["round"]["fedavg/dnn/t2"]["counters"]["allocations"] = 0

    def with_amx(d):
        d["machine"]["amx"] = True

    def slower_search(d):
        d["problems"]["sparse"]["search/0.50/tessera"]["cpu"] = [2e-3]

    for change in (slower_eigen, no_note, no_allocation, with_amx, slower_search):
        changed = copy.deepcopy(data)
        change(changed)
        try:
            check(bench_report, changed)
        except AssertionError:
            continue
        sys.exit(f"{change.__name__} was not noticed")
    print("the tables are right, and wrong ones are noticed")


if __name__ == "__main__":
    main()
