#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""The lab on several ranks against the lab alone: every method that `tessera-lab list` knows, so that a new one is tried by
itself. What is compared is the whole JSON of the run, hashes and all reported numbers, without times and provenance.

  ranks.py sample LAB MPIRUN                  each method once, on 2 or 3 ranks with 1 or 2 threads: for scripts/test
  ranks.py matrix LAB MPIRUN [--ranks 1,2,3]  each method on each number of ranks with 1 and 2 threads: for scripts/ranks;
                                              with --journal FILE what is written there is not run again with the same lab
  ranks.py kills LAB MPIRUN [--times 20]      a rank is killed at a random moment; the run goes on on other ranks. Every second
                                              time states are in logs, a log a rank
  ranks.py sentences LAB MPIRUN               what goes wrong is one sentence
  ranks.py carried PROGRAM MPIRUN             what place::Mpi carries comes whole, on 1 to 5 ranks

MPIRUN is Open MPI's or MPICH's; ranks may be more than there are cores."""
import argparse
import hashlib
import json
import os
import pathlib
import random
import signal
import subprocess
import sys
import tempfile
import time

SYNTHETIC = ["--data", "synthetic:0.5,0.5", "--clients", "11", "--unseen", "2", "--rounds", "3", "--batch", "10", "--quiet"]
MODELS = ("mclr", "dnn", "dnn-adapter", "dnn-norm")
FRESH = "a folder that is not there yet"
IN_LOGS = ["--store", "log", "--checkpoint", FRESH]
NOT_COMPARED = ("seconds", "phases", "provenance", "threads")


def last(name):
    return name.split(".")[-1]


def basics(entry):
    """What a method needs to be run at all, by the settings that it has."""
    names = {last(name) for name in entry["settings"]}
    more = [] if entry["name"] == "centralised" else ["--per-round", "5"]
    if "rate" in names:
        more += ["--set", "rate=0.05"]
    if "kd_steps" in names:  # it distils: on public data, and not for long
        more += ["--aux", "held-out:0.2", "--set", "kd_steps=3", "--set", "kd_batch=16"]
    if "source" in names:  # of noise; the system's cannot be repeated
        more += ["--set", "source=keyed"]
    return more


def told(value):
    """What of a run's JSON does not depend on when and where it was made."""
    if isinstance(value, dict):
        return {k: told(v) for k, v in value.items() if k not in NOT_COMPARED}
    if isinstance(value, list):
        return [told(v) for v in value]
    return value


def differences(a, b, at=""):
    """Where two values differ, a line each."""
    if isinstance(a, dict) and isinstance(b, dict):
        keys = sorted(set(a) | set(b))
        return [line for k in keys for line in differences(a.get(k), b.get(k), f"{at}.{k}")]
    if isinstance(a, list) and isinstance(b, list) and len(a) == len(b):
        return [line for i in range(len(a)) for line in differences(a[i], b[i], f"{at}[{i}]")]
    return [] if a == b else [f"{at}: {a} alone, {b} on ranks"]


class Lab:
    def __init__(self, lab, mpirun, folder):
        self.lab, self.folder = lab, pathlib.Path(folder)
        version = subprocess.run([mpirun, "--version"], capture_output=True, text=True).stdout
        self.launch = [mpirun]
        if "Open MPI" in version or "OpenRTE" in version:
            self.launch += ["--oversubscribe", "--allow-run-as-root", "--bind-to", "none"]
        self.environment = dict(os.environ, OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1",
                                OMPI_MCA_mpi_yield_when_idle="1", MPIR_CVAR_POLLS_BEFORE_YIELD="1",
                                OMP_WAIT_POLICY="passive")

    def command(self, words, ranks=None):
        here = [self.lab, "run", *map(str, words)]
        return here if ranks is None else [*self.launch, "-n", str(ranks), *here]

    def run(self, words, ranks=None):
        return subprocess.run(self.command(words, ranks), capture_output=True, text=True, env=self.environment, timeout=600)

    def result(self, words, ranks=None):
        """The run's JSON; ranks None: the lab alone, without a launcher. FRESH among the words is a new folder."""
        words = [tempfile.mkdtemp(dir=self.folder) + "/run" if word == FRESH else word for word in words]
        out = self.folder / "out.json"
        out.unlink(missing_ok=True)
        done = self.run([*words, "--json", out], ranks)
        if done.returncode != 0:
            sys.exit(f"{' '.join(map(str, words))}, ranks {ranks}: exit {done.returncode}\n{done.stdout}{done.stderr}")
        return told(json.loads(out.read_text()))

    def fitting(self, words):
        """With the first model that has what the method needs, so that a new method finds its own."""
        said = ""
        for model in MODELS:
            done = self.run([*words, "--model", model, "--json", self.folder / "trial.json"])
            if done.returncode == 0:
                return [*words, "--model", model]
            said += f"{model}: {done.stderr}"
        sys.exit(f"{' '.join(words)}: no model of {', '.join(MODELS)} fits\n{said}")

    def catalogue(self):
        listed = subprocess.run([self.lab, "list", "--json"], capture_output=True, text=True, check=True).stdout
        return {entry["name"]: entry for entry in json.loads(listed)["algorithms"]}


def compare(name, alone, together, failed):
    lines = differences(alone, together)
    if lines:
        failed.append(name)
        print(f"DIFFERS {name}: {len(lines)} numbers, first: {lines[0]}")
    return not lines


def finish(what, tried, failed):
    print(f"{what}: {tried} tried, {len(failed)} failed")
    sys.exit(1 if failed or not tried else 0)


def runs_of(lab):
    """name -> arguments: every method as it comes, and what methods alone do not reach."""
    runs = {name: lab.fitting([*SYNTHETIC, "--algorithm", name, *basics(entry)]) for name, entry in lab.catalogue().items()}
    runs["fedavg, kept in parts"] = [*runs["fedavg"], "--wire", "--quorum", "0.5", "--validation", "0.2", "--hits"]
    runs["fedavg, forgetful"] = [*runs["fedavg"], "--stateless", "--set", "server=momentum"]
    runs["fedalt, theory"] = [*runs["fedalt"], "--analyse", "theory,memory,clients,losses"]
    runs["ditto, all train"] = [*runs["ditto"], "--trains", "all"]
    runs["flow, routing"] = [*runs["flow"], "--analyse", "routing"]
    runs["pfedbred-mh, coherence"] = [*runs["pfedbred-mh"], "--analyse", "coherence"]
    runs["feddf, ensemble"] = [*runs["feddf"], "--analyse", "ensemble"]
    for name in ("ditto", "scaffold", "fedfomo", "fedspa-dst", "knn-per"):
        runs[f"{name}, in logs"] = [*runs[name], *IN_LOGS]
    runs["stages"] = [*SYNTHETIC, "--per-round", "5", "--model", "dnn", "--scope", "output", "--stages",
                      "fedavg rounds=2 rate=0.05; fedalt rounds=2 rate=0.01; tune tune_epochs=2"]
    return runs


def sample(lab, _):
    failed, runs = [], runs_of(lab)
    for i, (name, words) in enumerate(runs.items()):
        ranks, threads = 2 + i % 2, 1 + i // 2 % 2
        alone = lab.result(words)
        if i == 0 and len(differences(alone, dict(alone, final=dict(alone["final"], state_hash="another")))) != 1:
            sys.exit("a run that ends with another state is not noticed")  # the control
        compare(f"{name}, {ranks} ranks x {threads} threads", alone, lab.result([*words, "--threads", threads], ranks), failed)
    finish("sample", len(runs), failed)


class Journal:
    """Cells that were equal, a line each, below the fingerprint of the lab that ran them. Without a path: none."""

    def __init__(self, path, lab):
        self.path, self.held = path, set()
        if not path:
            return
        head = hashlib.sha256(pathlib.Path(lab).read_bytes()).hexdigest()
        lines = pathlib.Path(path).read_text().splitlines() if pathlib.Path(path).exists() else []
        if lines[:1] == [head]:
            self.held = set(lines[1:])
        else:
            pathlib.Path(path).write_text(head + "\n")

    def add(self, cell):
        self.held.add(cell)
        if self.path:
            with open(self.path, "a") as out:
                print(cell, file=out)


def matrix(lab, asked):
    """Streamed and kept. One thread first, then two on few ranks, then the rest: on two cores what waits for its turn takes
    longest."""
    journal, failed, alone, runs = Journal(asked.journal, lab.lab), [], {}, runs_of(lab)
    if unknown := [name for name in asked.only.split(",") if asked.only and name not in runs]:
        sys.exit(f"--only {','.join(unknown)}: there is {', '.join(runs)}")
    names = asked.only.split(",") if asked.only else list(runs)
    cells = sorted((r * threads if threads > 1 else 0, kept, r, threads, name) for r in map(int, asked.ranks.split(","))
                   for threads in (1, 2) for kept in (False, True) for name in names)
    for number, (_, kept, r, threads, name) in enumerate(cells, 1):
        cell = f"{name}, {r} ranks x {threads} threads" + (", kept" if kept else "")
        if cell not in journal.held:
            if name not in alone:
                alone[name] = lab.result(runs[name])
            words = [*runs[name], "--threads", threads, *(["--keep-uploads"] if kept else [])]
            if compare(cell, alone[name], lab.result(words, r), failed):
                journal.add(cell)
        if number % len(names) == 0:
            print(f"{number} of {len(cells)}, {len(failed)} failed so far; done: {cell.split(', ', 1)[1]}", flush=True)
    finish("matrix", len(cells), failed)


def children(pid):
    """The processes below one, by /proc."""
    found = []
    for status in pathlib.Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = status.read_text().rsplit(")", 1)[1].split()
        except OSError:
            continue
        if int(fields[1]) == pid:
            child = int(status.parent.name)
            found += [child, *children(child)]
    return found


def rounds_kept(place):
    return max((int(file.stem.split("-")[1]) for file in place.glob("round-*.tessera")), default=0)


def kills(lab, asked):
    """A rank dies at a random moment of a run that keeps checkpoints; all end; the run goes on on another number of ranks
    to the state of a run that nobody disturbed."""
    random.seed(asked.seed)
    failed, resumed, killed = [], 0, 0
    words = ["60" if word == "3" else word for word in SYNTHETIC]  # rounds
    words += ["--algorithm", "ditto", "--per-round", "7", "--model", "dnn"]
    alone = lab.result(words)
    for i in range(asked.times):
        place = lab.folder / f"run-{i}"
        keep = ["--checkpoint", place, "--checkpoint-every", "3", *(["--store", "log"] if i % 2 else [])]
        ranks = random.choice((2, 3, 4))
        with subprocess.Popen(lab.command([*words, *keep], ranks), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                              env=lab.environment) as started:
            first, late = random.randrange(55), random.uniform(0, 0.05)  # a round to wait for, and so long after it
            while started.poll() is None and rounds_kept(place) < first:
                time.sleep(0.005)
            try:
                started.wait(late)
            except subprocess.TimeoutExpired:
                below = [p for p in children(started.pid)
                         if pathlib.Path(f"/proc/{p}/comm").exists() and
                         pathlib.Path(f"/proc/{p}/comm").read_text().strip() == "tessera-lab"]
                if below:
                    os.kill(random.choice(below), signal.SIGKILL)
            code = started.wait(600)
            killed += code != 0
        files = sorted(place.glob("round-*.tessera")) if place.exists() else []
        more = random.choice([n for n in (1, 2, 3, 4) if n != ranks])
        again = lab.result([*words, *keep, "--resume"], more)
        again["notes"] = alone["notes"] if again.get("notes") else again.get("notes")
        resumed += bool(files)
        at = files[-1].stem if files else "nothing kept"
        if compare(f"kill {i}", strip(alone), strip(again), failed):
            print(f"kill {i}{', in logs' if i % 2 else ''}: {ranks} ranks, exit {code}, {at}, resumed on {more}: the same", flush=True)
        if i % 2:
            read = subprocess.run([lab.lab, "store", place], capture_output=True, text=True)
            if read.returncode or read.stdout.count("every checksum matches") < more:
                failed.append(f"the logs of kill {i}")
                print(f"WRONG logs of kill {i}: {read.stdout}{read.stderr}")
    print(f"{killed} of {asked.times} met a run under way, {resumed} were resumed from a checkpoint")
    finish("kills", asked.times, failed + ([] if resumed else ["none was resumed"]))


def strip(run):
    return {k: v for k, v in run.items() if k != "notes"}


def sentences(lab, _):
    """Only rank 0 speaks, and what goes wrong is one sentence of the lab."""
    failed = []
    words = [*SYNTHETIC, "--algorithm", "ditto", "--per-round", "7", "--model", "mclr"]

    def expect(name, words, code, text, ranks=3):
        done = lab.run(words, ranks)
        ours = [line for line in done.stderr.splitlines() if line.startswith("tessera-lab: ")]
        if (done.returncode == 0) != (code == 0) or len(ours) != (code != 0) or (code and text not in ours[0]):
            failed.append(name)
            print(f"WRONG {name}: exit {done.returncode}\n{done.stdout}{done.stderr}")

    expect("a run", words, 0, "")
    earlier = [*words, "--store", "log", "--checkpoint", lab.folder / "log"]
    expect("a log", earlier, 0, "")
    expect("a log of an earlier run", earlier, 2, "checkpoints of an earlier run are there")
    expect("more clients than there are", [*words[:-4], "--per-round", "99", "--model", "mclr"], 2, "--per-round is 99")
    expect("no such method", [*SYNTHETIC, "--algorithm", "dito"], 2, "dito")
    expect("a place that is none", [*words, "--json", lab.folder / "no" / "where.json"], 2, "where.json")
    spoken = [line for line in lab.run([w for w in words if w != "--quiet"], 3).stdout.splitlines() if "state " in line]
    if len(spoken) != 1:
        failed.append("one voice")
        print(f"WRONG one voice: {spoken}")
    finish("sentences", 7, failed)


def carried(lab, _):
    failed = []
    for ranks in (1, 2, 3, 5):
        done = subprocess.run([*lab.launch, "-n", str(ranks), lab.lab], capture_output=True, text=True, env=lab.environment,
                              timeout=300)
        if done.returncode != 0 or done.stdout.count("carried") != ranks:
            failed.append(ranks)
            print(f"WRONG on {ranks} ranks: exit {done.returncode}\n{done.stdout}{done.stderr}")
    finish("carried", 4, failed)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["sample", "matrix", "kills", "sentences", "carried"])
    parser.add_argument("lab")
    parser.add_argument("mpirun")
    parser.add_argument("--ranks", default="1,2,3,4,7")
    parser.add_argument("--only", default="", help="methods, joined by commas")
    parser.add_argument("--journal", default="", help="a file of cells that need not be run again")
    parser.add_argument("--times", type=int, default=20)
    parser.add_argument("--seed", type=int, default=1)
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        {"sample": sample, "matrix": matrix, "kills": kills, "sentences": sentences, "carried": carried}[asked.what](
            Lab(asked.lab, asked.mpirun, folder), asked)


if __name__ == "__main__":
    main()
