#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""scripts/golden with a lab that is played: what is recorded compares equal, each kind of difference is found and named, and
wrong options, commits and files are refused with a sentence before anything is built."""
import argparse
import json
import os
import pathlib
import subprocess
import sys
import tempfile

# A lab whose numbers follow from its arguments. MOVED changes one of them, as a change of the library would.
LAB = """#!{python} -IS
import hashlib, json, os, pathlib, sys, zipfile
words, moved, kernels = sys.argv[1:], {moved!r}, os.environ.get("TESSERA_KERNELS", "avx2")
methods = {methods!r}
if words[0] == "list":
    print(json.dumps({{"algorithms": [{{"name": name, "settings": settings}} for name, settings in methods.items()],
                      "models": ["mclr", "dnn", "lenet5"]}}))
    sys.exit()
def after(flag, otherwise=""):
    return words[words.index(flag) + 1] if flag in words else otherwise
def refuse(sentence):
    sys.exit(print("lab: " + sentence, file=sys.stderr) or 2)
flags = [word for word in words if word.startswith("--") and word != "--set"]
if len(set(flags)) < len(flags):
    refuse("a flag is given more than once")
if kernels == "amx" or after("--data") == "fashion-mnist":
    refuse("not here")
method, model, rounds = after("--algorithm", "fedavg"), after("--model", "mclr"), int(after("--rounds", "1"))
if method == "needs-dnn" and model != "dnn" and moved != "takes all":
    refuse("only dnn")
if method == "no-models" and "--models" in words:
    refuse("this method has no model that can be written")
if "source=keyed" not in words and method == "noisy":
    refuse("the system's noise")
if moved == "fails" and method == "noisy":
    sys.exit(1)
folder = after("--checkpoint")
if folder:
    kept = list(pathlib.Path(folder).glob("round-*")) if pathlib.Path(folder).exists() else []
    if kept and "--resume" not in words:
        refuse("checkpoints are there")
    pathlib.Path(folder).mkdir(exist_ok=True)
    for number in (2, 4):
        pathlib.Path(folder, f"round-{{number}}").write_text("")
base = repr([method, model, kernels, [word for word in words if "=" in word]])
def hash_of(round_number):
    text = base + str(round_number) + ("moved" if moved == "state" and method == "noisy" and round_number > 1 else "")
    return hashlib.md5(text.encode()).hexdigest()
value = "0.125" if moved == "metric" and method == "noisy" else "0.1250"
tags = {{"model": "global", "when": "before", "on": "local", "split": "test", "clients": "all", "pick": "last",
        "average": "pooled", "metric": "accuracy", "stage": ""}}
evaluation = json.dumps({{**tags, "value": "VALUE"}}).replace('"VALUE"', value)
rounds = ",".join(json.dumps({{"round": i, "seconds": 0.5, "bytes_up": 7 if moved == "bytes" and method == "noisy" else 8,
    "bytes_down": 8, "flops": 1, "examples": 1, "trained": 1, "merged": 1, "rejected": 0, "diverged": 0,
    "state_hash": hash_of(i), "evaluations": []}}) for i in range(1, rounds + 1))
if "--json" in words:
    pathlib.Path(after("--json")).write_text(f'{{{{"rounds": [{{rounds}}], "kernel_set": "{{kernels}}", "extras": [], "final": '
        f'{{{{"state_hash": "{{hash_of(int(after("--rounds", "1")))}}", "evaluations": [{{evaluation}}], "per_client": []}}}}}}}}')
if "--models" in words:
    with zipfile.ZipFile(after("--models"), "w") as archive:
        numbers = b"12345679" if moved == "models" and method == "noisy" else b"12345678"
        archive.writestr("new name.npy" if moved == "names" else "w.npy", b"\\x93NUMPY\\x01\\x00\\x02\\x00{{}}" + numbers)
"""
METHODS = {"fedavg": {"rate": "0.1", "steps": "0"}, "noisy": {"local.source.source": "system"}, "needs-dnn": {}, "no-models": {}}

WRONG = {
    (): "write record FILE, compare FILE, list, data FOLDER, or --against COMMIT",
    ("record",): "record: it needs a FILE",
    ("compare",): "compare: it needs a FILE",
    ("recrod", "x"): "invalid choice: 'recrod'",
    ("record", "nowhere/x"): "nowhere/x: its folder does not exist",
    ("compare", "nowhere/x"): "nowhere/x: No such file or directory",
    ("compare", "README.md"): "README.md: this is no file of scripts/golden",
    ("record", "x", "--states"): "--states: only a comparison has it",
    ("record", "x", "--against", "HEAD"): "write record FILE",
    ("--against", "no-such-commit"): "there is no commit 'no-such-commit' here",
    ("--agianst", "HEAD"): "--agianst: there is no such option; there are --help, --against",
    ("list", "--jobs", "0"): "--jobs: at least 1",
    ("list", "--brief"): "--brief: only what records has it",
    ("list", "--lab", "nowhere/lab"): "nowhere/lab: there is no such program",
}
# What was moved: (words of the answer, exit code)
MOVED = {
    "": ("all equal", 0),
    "names": ("all equal", 0),  # of tensors: the numbers count
    "state": ("(from round 2 on)", 1),
    "metric": ("accuracy: 0.1250 is now 0.125", 1),
    "bytes": ("bytes_up 1: 8 is now 7", 1),
    "models": ("parameters of the models differ", 1),
    "fails": ("ran, and now: exit 1", 1),
    "takes all": ("new      needs-dnn mclr: it was refused", 0),
}


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--root", type=pathlib.Path, default=pathlib.Path(__file__).resolve().parent.parent.parent)
    root = parser.parse_args().root.resolve()
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        trace = folder / "trace"
        players = folder / "players"
        players.mkdir()
        for name in ("cmake", "ccache"):
            (players / name).write_text(f"#!/bin/sh\necho {name} >> '{trace}'\nexit 1\n")
            (players / name).chmod(0o755)
        environment = {**os.environ, "PATH": f"{players}{os.pathsep}{os.environ['PATH']}"}

        def golden(*words):
            return subprocess.run([root / "scripts" / "golden", *map(str, words)], text=True, capture_output=True,
                                  env=environment, cwd=root)

        def lab(moved="", methods=METHODS):
            program = folder / "lab"
            program.write_text(LAB.format(python=sys.executable, moved=moved, methods=methods))
            program.chmod(0o755)
            return program

        for words, sentence in WRONG.items():
            if words[:1] == ("--against",) and not (root / ".git").exists():
                continue
            answer = golden(*words)
            assert answer.returncode == 2 and sentence in answer.stderr, (words, answer)
            assert "Traceback" not in answer.stderr and not trace.exists(), (words, answer)

        file = folder / "golden.txt"
        answer = golden("record", file, "--lab", lab(), "--jobs", "2")
        assert answer.returncode == 0 and answer.stdout.startswith("refused") is False, answer
        rows = [json.loads(line) for line in file.read_text().splitlines()]
        names = {row["name"]: row for row in rows[1:]}
        assert rows[0]["golden"] == 1 and len(names) == len(rows) - 1, "a name stands twice"
        for way in ("portable", "avx2", "avx512", "threads wire", "resumed"):  # no amx here
            for method in METHODS:
                assert "state" in names[f"{method} dnn {way}"], (method, way)
        assert "noisy dnn amx" not in names and not any("fashion-mnist" in name for name in names)
        assert len(names["fedavg dnn resumed"]["rounds"]) == 4 and names["no-models dnn"]["models"] is None
        assert names["needs-dnn mclr"]["refused"] == "lab: only dnn"
        assert not [name for name, row in names.items() if "more than once" in row.get("refused", "")]
        assert "fedavg lenet5 avx2" in names and "fedavg dnn server adam" in names

        brief = folder / "brief.txt"
        answer = golden("record", brief, "--lab", lab(), "--brief", "--without", "fedavg", "--jobs", "2")
        assert answer.returncode == 0, answer
        of_brief = {row["name"]: row for row in map(json.loads, brief.read_text().splitlines()[1:])}
        assert set(of_brief) == {"noisy dnn", "needs-dnn dnn", "no-models dnn", "stages"}, list(of_brief)
        assert all(names[name] == row for name, row in of_brief.items())
        answer = golden("record", brief, "--lab", lab(), "--brief", "--only", "adam", "--without", "portable")
        assert answer.returncode == 0 and "fedavg dnn server adam" in brief.read_text() and "noisy" not in brief.read_text(), answer
        answer = golden("compare", file, "--lab", lab("state"), "--without", "noisy", "--jobs", "2")
        assert answer.returncode == 0 and "all equal" in answer.stdout, answer  # the control is below: with it, it differs

        for moved, (sentence, code) in MOVED.items():
            method = "needs-dnn" if moved == "takes all" else "noisy"
            answer = golden("compare", file, "--lab", lab(moved), "--only", method, "--jobs", "2")
            assert answer.returncode == code and sentence in answer.stdout, (moved, answer)
            assert (code == 1) == ("DIFFERS  noisy dnn\n" in answer.stdout), (moved, answer.stdout)
        answer = golden("compare", file, "--lab", lab("metric"), "--only", "noisy", "--states")
        assert answer.returncode == 0 and "all equal in their states" in answer.stdout, answer

        answer = golden("compare", file, "--lab", lab(methods={**METHODS, "young": {}}), "--jobs", "2")
        assert answer.returncode == 0 and "new      methods that were not there then: young" in answer.stdout, answer
        assert golden("data", folder / "data").returncode == 0 and (folder / "data" / "table.csv").is_file()
        answer = golden("data", folder / "data")
        assert answer.returncode == 2 and "File exists" in answer.stderr, answer
        picky = {"fedavg": {}, "noisy": {}}  # nothing tells that this one wants keyed noise
        answer = golden("record", file, "--lab", lab(methods=picky))
        assert answer.returncode == 2 and "noisy: no model is taken" in answer.stderr, answer
        answer = golden("record", file, "--lab", lab(), "--only", "nothing")
        assert answer.returncode == 2 and "--only nothing: no run is left" in answer.stderr, answer
    print("runs are recorded, and what moves is found")


if __name__ == "__main__":
    main()
