#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""scripts/bench --against without a clock: what stored samples of old and new come to, which rows are asked for, whose turn it
is, and which program stands in where one does not compile; and worktrees, of a repository that is made here."""
import argparse
import copy
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

# The machine gets slower from turn to turn. New takes 1.02 times as long at best (204 / 200); turn by turn 1.02, 1.1, 1.06.
OLD = {"cpu": [2.00e-4, 2.10e-4, 2.20e-4], "real": [9, 9, 9], "counters": {"allocations": 0.0}, "note": ""}
NEW = {"cpu": [2.04e-4, 2.31e-4, 2.332e-4], "real": [9, 9, 9], "counters": {"allocations": 3.0}, "note": ""}
TWO = {"cpu": [9, 9, 9], "real": [0.04, 0.04, 0.05], "counters": {}, "note": ""}
WRONG = {"cpu": [], "real": [], "counters": {}, "note": "wrong answer: off the reference by 1, allowed are 5e-06"}


def sample():
    return {"old": "0123456789ab", "new": "this", "notes": ["a note"], "samples": {
        "old": {"round": {"fedavg/dnn/t1": copy.deepcopy(OLD), "fedavg/dnn/t2": copy.deepcopy(TWO), "gone/t1": copy.deepcopy(OLD)}},
        "new": {"round": {"fedavg/dnn/t1": copy.deepcopy(NEW), "fedavg/dnn/t2": copy.deepcopy(TWO)}}}}


def figures(against):
    text, code = against.report(sample(), None)
    lines = text.splitlines()
    row = next(line for line in lines if line.startswith("round fedavg/dnn/t1"))
    assert row.split()[2:] == ["200", "us", "210", "us", "204", "us", "231", "us", "1.020", "1.060", "(1.040", "to", "1.080)",
                               "0", "3"], row
    two = next(line for line in lines if line.startswith("round fedavg/dnn/t2"))  # in wall time
    assert two.split()[2:] == ["40", "ms", "40", "ms", "40", "ms", "40", "ms", "1.000", "1.000", "(1.000", "to", "1.000)"], two
    assert code == 0 and "1.000 to 1.020, geometric mean 1.010 of 2 rows" in text
    assert "heap allocations in a warm round: 0 at most in old, 3 in new; MORE in round fedavg/dnn/t1" in text
    assert "note: a note" in text and "note: round, gone/t1: only old has it" in text

    assert against.report(sample(), 3)[1] == 0 and "none is slower by more than 3 %" in against.report(sample(), 3)[0]
    text, code = against.report(sample(), 1.5)
    assert code == 1 and "SLOWER: round fedavg/dnn/t1 by 2.0 %, allowed are 1.5 %" in text, text

    bad = sample()
    bad["samples"]["new"]["round"]["fedavg/dnn/t1"] = WRONG
    text, code = against.report(bad, None)
    assert code == 1 and "WRONG: round, fedavg/dnn/t1: new: wrong answer" in text, text
    short = sample()
    short["samples"]["new"]["round"]["fedavg/dnn/t1"]["cpu"].pop()
    text, code = against.report(short, None)
    assert code == 1 and "WRONG: round, fedavg/dnn/t1: old was measured 3 times, new 2 times" in text, text
    assert against.report({**sample(), "samples": {"old": {}, "new": {}}}, None)[1] == 1  # nothing is no success
    once = sample()
    for side in ("old", "new"):
        once["samples"][side]["round"]["fedavg/dnn/t1"]["cpu"] = [1e-9]
    assert "1 ns" in against.report(once, None)[0]


def choices(against, folder):
    names = {"fedavg/dnn/t1": "fedavg/dnn/t1/real_time", "fedavg/dnn/t2": "fedavg/dnn/t2/real_time", "tiny/mclr/t1": "tiny/mclr/t1"}
    assert against.chosen("round", names, None, None) == ["fedavg/dnn/t1"]
    assert against.chosen("round", names, ["round"], None) == list(names)
    assert against.chosen("round", names, None, "mclr|t2") == ["fedavg/dnn/t2", "tiny/mclr/t1"]
    assert against.filters(names, 2) == [("^(fedavg/dnn/t1/real_time|tiny/mclr/t1)$", 1), ("^(fedavg/dnn/t2/real_time)$", 2)]
    assert against.filters({"784-10/0.05": "784-10/0.05"}, 1) == [("^(784-10/0\\.05)$", 1)]
    assert [threads for _, threads in against.filters(names, 1)] == [1]

    # Programs that list their rows.
    for side, rows in (("old", "dnn/tessera dnn/old_only dnn/peers"), ("new", "dnn/tessera dnn/new_only dnn/peers")):
        program = folder / side
        program.write_text("#!/bin/sh\n" + "\n".join(f"echo {row}" for row in rows.split()) + "\n")
        program.chmod(0o755)
    pair = {"dense_step": {"old": folder / "old", "new": folder / "new"}}
    planned, notes = against.plan(pair, ["dense_step"], None, 2)
    assert planned == {"dense_step": {side: [("^(dnn/tessera)$", 1)] for side in ("old", "new")}}, planned
    assert notes == ["dense_step, dnn/old_only: only old has it", "dense_step, dnn/new_only: only new has it"], notes
    try:
        against.plan(pair, ["dense_step"], "nothing", 2)
        raise AssertionError("no row is a row")
    except against.commit_build.Refused as sentence:
        assert "--rows nothing matches none of dnn/tessera, dnn/new_only" in str(sentence), sentence

    # The order of turns.
    order = []
    against.bench_run.run_program = lambda program, *_: order.append(program.name)
    core = argparse.Namespace(all=[0, 1])
    against.take_turns(pair, planned, 4, None, core, lambda _: None)
    assert order == ["old", "new", "new", "old", "old", "new", "new", "old"], order


def stand_ins(against, folder):
    """Which program is old, if some do not compile."""
    root = folder / "root"
    for name in ("same", "other", "young"):
        (root / "benchmarks" / name).mkdir(parents=True)
        (root / "benchmarks" / name / "main.cpp").write_text("")
    tree = folder / "tree"
    for name in ("same", "other"):
        (tree / "benchmarks" / name).mkdir(parents=True)
        (tree / "benchmarks" / name / "main.cpp").write_text("")
    against.commit_build.worktree = lambda *_: tree
    against.commit_build.configure = lambda source, build, *_: build.mkdir(parents=True)

    def compile_target(build, target):
        if build == tree / "build" / "bench" and target in ("bench_other", "bench_young"):
            return "main.cpp:1:2: error: no such thing\nmake: stopped"
        (build / target).write_text(target if target == "bench_same" else str(build))
        return None

    against.commit_build.compile_target = compile_target
    programs, notes = against.build(root, "0123456789abcdef", ["same", "other", "young"], lambda _: None)
    assert programs == {"same": {"old": tree / "build/bench/bench_same", "new": root / "build/against/tree/bench_same"},
                        "other": {"old": tree / "build/bench-own/bench_other", "new": root / "build/against/tree/bench_other"}}
    assert notes[0].startswith("same: both programs are the same, byte for byte"), notes
    assert notes[1].startswith("other: old is the program of 0123456789ab itself") and "(no such thing)" in notes[1], notes
    assert notes[2].startswith("young: not compared.") and len(notes) == 3, notes


def worktrees(commit_build, folder):
    folder.mkdir()

    def git(*words):
        identity = ["-c", "user.name=A", "-c", "user.email=a@example.org"]
        return subprocess.run(["git", "-C", folder, *identity, *words], capture_output=True, text=True, check=True).stdout.strip()

    def refusal(call, *arguments):
        try:
            call(*arguments)
        except commit_build.Refused as sentence:
            return str(sentence)
        raise AssertionError("it was not refused")

    assert "no git repository" in refusal(commit_build.resolve, folder, "HEAD")
    git("init", "-q")
    (folder / ".gitignore").write_text("build/\n")
    for text in ("one", "two"):
        (folder / "file").write_text(text)
        git("add", "-A")
        git("commit", "-q", "-m", text)
    first, second = git("rev-parse", "HEAD~1"), git("rev-parse", "HEAD")
    assert commit_build.resolve(folder, "HEAD~1") == commit_build.resolve(folder, first[:9]) == first
    for wrong in ("nothing", "", "--help", "HEAD:file", "HEAD~7"):
        assert refusal(commit_build.resolve, folder, wrong) == f"there is no commit '{wrong}' here", wrong
    assert commit_build.describe(folder) == second[:12]
    (folder / "file").write_text("three")  # new is what lies there, committed or not
    assert commit_build.describe(folder) == f"{second[:12]} and changes that are not committed"

    tree = commit_build.worktree(folder, first)
    assert tree == folder / "build" / "against" / first[:12] and (tree / "file").read_text() == "one"
    (tree / "build").mkdir()
    (tree / "build" / "made").write_text("")
    assert commit_build.worktree(folder, first) == tree and (tree / "build" / "made").is_file()  # used again
    (tree / "file").write_text("changed")
    assert "is not commit" in refusal(commit_build.check, folder, first) and "file was changed" in refusal(
        commit_build.worktree, folder, first)
    subprocess.run(["rm", "-r", tree], check=True)  # as the sentence says
    assert (commit_build.worktree(folder, first) / "file").read_text() == "one"
    (folder / "build" / "against" / second[:12]).mkdir()
    assert "is no worktree of this repository" in refusal(commit_build.worktree, folder, second)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--root", type=pathlib.Path, default=pathlib.Path(__file__).resolve().parent.parent.parent)
    root = parser.parse_args().root
    sys.dont_write_bytecode = True
    sys.path.insert(0, str(root / "scripts"))
    for name in [name for name in os.environ if name.startswith("GIT_")]:  # of a hook that runs the tests
        del os.environ[name]
    import bench_against
    import commit_build

    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder).resolve()
        figures(bench_against)
        if shutil.which("git"):
            worktrees(commit_build, folder / "repository")
        choices(bench_against, folder)
        stand_ins(bench_against, folder)
    print("ratios, rows, turns and worktrees are right")


if __name__ == "__main__":
    main()
