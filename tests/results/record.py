#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""What scripts/results makes of a record of runs: the newest line counts, what was not run says so, and two processes
that write at a time lose nothing. What the script does with a program is in tests/lab/lab.py."""
import argparse
import copy
import importlib.machinery
import importlib.util
import json
import multiprocessing
import pathlib
import sys
import tempfile


def loaded(path):
    """scripts/results, which has no suffix, as a module."""
    sys.dont_write_bytecode = True
    loader = importlib.machinery.SourceFileLoader("results", str(path))
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader("results", loader))
    sys.modules["results"] = module  # dataclasses look there
    loader.exec_module(module)
    return module


def line(run, seed, values, commit="abc1234"):
    return {"run": f"run --algorithm {run} --rounds 9", "seed": seed, "values": values, "facts": {"sent": 40}, "version": "1",
            "kernels": "k", "commit": commit}


RECORD = [
    line("whole", 1, {"personal local": 90.0}), line("whole", 2, {"personal local": 91.0}), line("whole", 3, {"personal local": 92.0}),
    line("part", 1, {"personal local": 50.0, "benefiting": 7.0}),
    line("part", 1, {"personal local": 80.0, "benefiting": 60.0}, "def5678"),  # newer than the line above
    line("lost", 1, {"personal local": 70.0}, None),  # older than the record: what a page had shown
    {**line("mean", 0, {"personal local": "60.00 ± 1.00"}, None), "seeds": 3},
    line("broken", 1, {"personal local": None}),
]
del RECORD[6]["seed"]


def table(results):
    cells = {(row, "P"): results.Cell(("--algorithm", row)) for row in ("whole", "part", "lost", "mean", "broken", "never")}
    cells["part", "benefit"] = results.Cell(("--algorithm", "part"), "benefiting")
    cells["lost", "benefit"] = results.Cell(("--algorithm", "lost"), "benefiting")
    rows = tuple(dict.fromkeys(row for row, _ in cells))
    return results.Table("T", "Of {rounds} rounds.", rows, ("P", "benefit"), cells, (1, 2, 3), 9, (("whole", "part"),))


def check_tables(results, lines, folder):
    path = folder / "record.jsonl"
    path.write_text("".join(json.dumps(each) + "\n" for each in lines))
    text = results.section("t", table(results), results.Record(path).read().lines, (1, 2, 3), 9)
    for row in ["| whole | 91.00 ± 1.00 |  |", "| part | 80.00 (1 of 3 seeds) | 60.00 (1 of 3 seeds) |",
                "| lost | 70.00 (1 of 3 seeds) | not run |", "| mean | 60.00 ± 1.00 |  |", "| broken | diverged |  |",
                "| never | not run |  |", "whole minus part, P, seed by seed: +10.00 (one seed: no interval)",
                "Tessera 1, kernels k: 4 runs of commit abc1234, 1 run of"]:
        assert row in text, f"'{row}' is not in\n{text}"


def check_numbers(results):
    """The numbers that are kept of a report, each under the name by which a cell asks for it."""
    def evaluation(model, value, **more):
        return {"model": model, "split": "test", "clients": "all", "pick": "mean_last:9", "average": "pooled", "metric": "accuracy",
                "stage": "s", "on": "local", "value": value, **more}
    last = {"pick": "last", "average": "unweighted"}
    report = {"version": "1", "kernel_set": "k", "config": {"trained_parameters": 3, "frozen_parameters": 4},
              "rounds": [{"phases": [{"name": "visits", "seconds": 9}]}, {"phases": [{"name": "visits", "seconds": 2}]},
                         {"examples": 60, "trained": 2, "formula_bytes_up": 80, "merged": 4, "phases": [
                             {"name": "visits", "seconds": 3}, {"name": "merge", "seconds": 1}, {"name": "evaluate", "seconds": 7}]}],
              "extras": [{"id": "privacy", "categories": ["epsilon, mean", "delta"], "series": [{"texts": ["1.5", "1e-05"]}]}],
              "final": {"per_client": [{"accuracy_personal": p, "accuracy_global": 0.5} for p in (0.4, 0.5, 0.6, 0.7)], "evaluations": [
                  evaluation("personal", 0.875), evaluation("personal", 0.1, pick="last"), evaluation("personal", 0.2, metric="loss"),
                  evaluation("global", 0.3, clients="unseen"), evaluation("global", 0.5, on="union", **last),
                  evaluation("global", 0.25, on="shift:mean of 2", **last), evaluation("global", 0.1, on="shift:blur:1", **last)]}}
    made = results.line_of(report, "run x", 4, "abc1234")
    assert made["values"] == {"personal local s": 87.5, "global union s": 50, "global shifts s": 25, "benefiting": 50,
                              "seconds": 4, "epsilon, mean": 1.5}, made["values"]
    assert made["facts"] == {"trained_parameters": 3, "frozen_parameters": 4, "examples": 30, "sent": 20}, made["facts"]
    assert results.value_name(results.Cell((), "personal", "s")) == "personal local s"


def check_choice(results):
    """A run with validation data keeps what they say and nothing of the tests."""
    def evaluation(split, pick, value, average="pooled"):
        return {"model": "personal", "split": split, "clients": "all", "pick": pick, "average": average, "metric": "accuracy",
                "stage": "", "on": "local", "value": value}
    evaluations = [evaluation("test", "mean_last:1", 0.9), evaluation("validation", "mean_last:1", 0.7), evaluation("validation", "last", 0.1),
                   evaluation("validation", "mean_last:1", 0.2, "unweighted")]
    found = results.numbers_of({"final": {"evaluations": evaluations}})
    assert found == {"personal validation": 70}, found
    assert results.numbers_of({"final": {"evaluations": evaluations[:1]}}) == {"personal local": 90}


def check_commands(results):
    """The seed goes into names of files, and the run's name in the record has none."""
    cell = results.Cell(("--weights", "from-{seed}.npz", "--eval-last", "1"))
    words = results.command(cell, 3, 9)
    assert words == ("run", "--weights", "from-3.npz", "--rounds", "9", "--seed", "3", "--eval-last", "1"), words
    assert results.key(cell, 9) == "run --weights 'from-{seed}.npz' --eval-last 1 --rounds 9", results.key(cell, 9)
    plain = results.Cell(("--algorithm", "local"))
    assert results.shown(" ".join(results.command(plain, 3, 9))) == "tessera-lab run --algorithm local --rounds 9 --seed 3 --eval-last 10"
    loop = results.Cell(("--decay", "0"), program="loop")
    assert results.command(loop, 3, 9) == ("loop", "--decay", "0", "--rounds", "9", "--seed", "3") and results.key(loop, 9) == "loop --decay 0 --rounds 9"
    assert results.saved(results.Cell(("--save-weights", "w-{seed}.npz")), 4) == pathlib.Path("w-4.npz")


def check_verdicts(results):
    """Differences of 1 to 3 points are reproduced, the other way round contradicted, and not decided where they are wide or of one seed."""
    claim = results.results_verdicts.Claim("S", "a above b", "Table 1", "t", "a", "b", ("c",))

    def judged(a, b, clients=None):
        numbers = {("a", "c"): dict(enumerate(a)), ("b", "c"): dict(enumerate(b))}
        return results.results_verdicts.judged(numbers, clients or {}, claim, "c", results.T95)
    # three differences of 1, 2, 3: mean 2, half 4.303 x 1 / sqrt 3 = 2.48; of 1.5, 2, 2.5 half as wide
    assert judged((11.5, 12, 12.5), (10, 10, 10)) == ("+2.00 [+0.76, +3.24], 3 seeds", "", "reproduced"), judged((11.5, 12, 12.5), (10, 10, 10))
    assert judged((10, 10, 10), (11.5, 12, 12.5))[2] == "contradicted"
    assert judged((11, 12, 13), (10, 10, 10)) == ("+2.00 [-0.48, +4.48], 3 seeds", "", "not decided")
    assert judged((11,), (10,)) == ("+1.00, 1 seed", "", "one seed: not decided")
    assert judged((None,), (10,))[2] == "not run" and judged((), ())[2] == "not run"
    clients = {("a", "c"): {0: [50, 60], 1: [52, 62]}, ("b", "c"): {0: [49, 58], 1: [49, 58]}}  # gains 2 and 3: one half, 12.706 x 0.5
    assert judged((11, 12), (10, 10), clients)[1] == "+2.50 [-3.85, +8.85]", judged((11, 12), (10, 10), clients)
    page = results.verdicts({})
    assert "| 79.44 against 72.24, Table 1 | `pfedbred-cifar10`, CifarNet | not run |" in page, page
    for name, rows in {each.table: (each.first, each.second) for each in results.results_verdicts.CLAIMS}.items():
        assert set(rows) <= set(results.TABLES[name]().rows), f"{name} has no {rows}"
    for each in results.results_verdicts.CLAIMS:
        assert set(each.columns) <= set(results.TABLES[each.table]().columns), each


def write(record, name, count, together):
    together.wait()
    for i in range(count):
        record.add({"run": name, "seed": i, "text": "x" * 3000})


def check_writers(record, count=40):
    """Two processes, their lines."""
    context = multiprocessing.get_context("fork")
    together = context.Barrier(2)
    writers = [context.Process(target=write, args=(record, name, count, together)) for name in ("a", "b")]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join()
        assert writer.exitcode == 0, "a writer failed"
    found = len(record.read().lines)
    assert found == 2 * count, f"{found} of {2 * count} lines are there"


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--root", type=pathlib.Path, default=pathlib.Path("."))
    root = parser.parse_args().root
    results = loaded(root / "scripts" / "results")

    # Each of these changes what a checked row says: a check that did not notice would check nothing.
    def other_order(lines):
        lines[3], lines[4] = lines[4], lines[3]

    def all_seeds(lines):
        lines += [line("part", seed, {"personal local": 80.0, "benefiting": 60.0}) for seed in (2, 3)]

    def ran_after_all(lines):
        lines.append(line("never", 1, {"personal local": 1.0}))

    def one_seed_less(lines):
        del lines[2]

    def other_program(lines):
        lines[0]["commit"] = "0000000"

    class Rewrites(results.Record):
        """Reads all and writes all. Both have read before either writes, so one of two lines is lost each time."""
        both_have_read = multiprocessing.get_context("fork").Barrier(2)

        def add(self, added):
            text = self.path.read_text() if self.path.is_file() else ""
            self.both_have_read.wait()
            self.path.write_text(text + json.dumps(added) + "\n")

        def read(self):
            self.lines = set(self.path.read_text().splitlines())
            return self

    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        check_numbers(results)
        check_choice(results)
        check_commands(results)
        check_verdicts(results)
        check_tables(results, RECORD, folder)
        for change in (other_order, all_seeds, ran_after_all, one_seed_less, other_program):
            changed = copy.deepcopy(RECORD)
            change(changed)
            try:
                check_tables(results, changed, folder)
            except AssertionError:
                continue
            sys.exit(f"{change.__name__} was not noticed")
        check_writers(results.Record(folder / "two.jsonl"))
        try:
            check_writers(Rewrites(folder / "lossy.jsonl"))
            sys.exit("lines that were lost were not noticed")
        except AssertionError as said:
            assert "lines are there" in str(said), said
        (folder / "torn.jsonl").write_text('{"run": "a", "seed": 1}\n{"run": "b", "se\n')
        try:
            results.Record(folder / "torn.jsonl").read()
            sys.exit("half a line was read")
        except SystemExit as said:
            assert "torn.jsonl:2" in str(said), said

    # The record that is there can be read, and its lines are of runs that some table has or had.
    for each in results.Record(root / "docs" / "results.jsonl").read().lines.values():
        assert each["run"].startswith(("run --", "loop --")) and each["values"] and set(each) >= {"facts", "version", "kernels", "commit"}, each
    print("tables are made of the record, and nothing is lost")


if __name__ == "__main__":
    main()
