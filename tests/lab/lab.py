#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""The lab as its users meet it: same bits whatever the threads, the wire and the kill -9; one sentence for bad input.

    lab.py hashes|resume|bad-input|outputs|full-disk|seeds|sweep|compare|interrupt|growing|leftovers|identity PATH-TO-tessera-lab
"""
import ast
import fcntl
import gzip
import json
import os
import pathlib
import random
import re
import resource
import shutil
import signal
import statistics
import struct
import subprocess
import sys
import tempfile
import termios
import time
import zipfile

SMALL = ["run", "--data", "synthetic", "--clients", "12", "--per-round", "7", "--quiet"]
PERSONAL = ["fedalt", "fedsim", "fedper", "fedrep", "fedpac", "lg-fedavg", "fedbabu", "fedbn", "ft-part", "pfedbred-lg", "pfedbred-meg",
            "pfedbred-mh", "pfedme", "per-fedavg", "ditto", "apfl", "mtl", "fedamp", "fedfomo", "fedem", "knn-per", "hypcluster", "partialfed",
            "pfedbayes", "pfedhn", "fedspa-dst", "fedspa-rsm", "sub-fedavg", "subsampling"]
# With the model each needs and what else.
OTHERS = {"flow": ["--model", "dnn"], "flow-fixed": ["--model", "dnn"], "pi-flow": ["--model", "dnn"],
          "perada": ["--model", "dnn-adapter", "--aux", "held-out:0.2", "--set", "kd_steps=5"],
          "perada-nokd": ["--model", "dnn-adapter"],
          "feddf": ["--model", "dnn", "--aux", "held-out:0.2", "--set", "kd_steps=5"]}
TRAIN_ALL = ["pfedbred-lg", "pfedbred-meg", "pfedbred-mh", "pfedme"]
SERVED_APART = {"ft-part", "knn-per"}  # both train as FedAvg does; what they serve is not in the state
PRESETS = pathlib.Path(__file__).resolve().parents[2] / "examples" / "lab" / "presets"
PIPELINE = "fedavg rounds=3 rate=0.05; fedalt rounds=4 scope=output; tune tune_epochs=2"


def lab(program, *arguments, **options):
    return subprocess.run([program, *map(str, arguments)], capture_output=True, text=True, check=False, **options)


def final_hash(path):
    return json.loads(pathlib.Path(path).read_text())["final"]["state_hash"]


def expect(condition, sentence):
    if not condition:
        sys.exit(f"failed: {sentence}")


def ran(result):
    expect(result.returncode == 0, f"exit {result.returncode}: {result.stderr.strip()}")
    return result


def hashes(program, folder):
    """One state hash for 1, 2, 3 and 7 threads, for two runs and over the wire; another seed gives another."""
    for algorithm in ["fedavg", "fedavg-ft", "fedprox", "feddyn", "scaffold", "local"]:
        seen = {}
        for name, more in {"1": ["--threads", "1"], "again": ["--threads", "1"], "2": ["--threads", "2"],
                           "3": ["--threads", "3"], "7": ["--threads", "7"], "wire": ["--wire", "--threads", "2"]}.items():
            out = folder / f"{algorithm}-{name}.json"
            ran(lab(program, *SMALL, "--algorithm", algorithm, "--rounds", "6", "--model", "dnn", "--json", out, *more))
            seen[name] = final_hash(out)
        expect(len(set(seen.values())) == 1, f"{algorithm}: state hashes differ: {seen}")
        other = folder / f"{algorithm}-seed.json"
        ran(lab(program, *SMALL, "--algorithm", algorithm, "--rounds", "6", "--model", "dnn", "--seed", "2", "--json", other))
        expect(final_hash(other) not in seen.values(), f"{algorithm}: another seed gives the same state")
    asked = folder / "device.json"
    result = ran(lab(program, *SMALL, "--algorithm", "fedavg", "--rounds", "6", "--model", "dnn", "--json", asked, "--device"))
    words = [line for line in result.stderr.splitlines() if "the run is on the host" in line]
    expect(len(words) == 1, f"--device without one: {result.stderr}")
    expect(final_hash(asked) == final_hash(folder / "fedavg-1.json"), "--device without one: other bits than the host's")
    expect(words[0] in json.loads(asked.read_text())["notes"], "the report does not say where it ran")
    everywhere = {}
    for algorithm, needs in {**{name: ["--model", "dnn-norm"] for name in PERSONAL}, **OTHERS}.items():
        seen = {}
        for threads, more in {"1": [], "2": ["--wire"]}.items():
            out = folder / f"{algorithm}-{threads}.json"
            ran(lab(program, *SMALL, "--algorithm", algorithm, "--rounds", "2", *needs, "--threads", threads, "--json", out,
                    *more))
            seen[threads] = final_hash(out)
        expect(len(set(seen.values())) == 1, f"{algorithm}: state hashes differ: {seen}")
        report = json.loads(out.read_text())
        trained = {r["trained"] for r in report["rounds"]}
        expect(trained == {12 if algorithm in TRAIN_ALL else 7}, f"{algorithm}: {trained} clients trained in a round")
        expect(report["config"]["trains"] == ("all clients" if algorithm in TRAIN_ALL else "sampled clients"), algorithm)
        everywhere.setdefault(seen["1"], []).append(algorithm)
    twice = [names for names in everywhere.values() if len(names) > 1 and set(names) != SERVED_APART]
    expect(not twice, f"methods that are not the same end in the same state: {twice}")
    sampled = folder / "sampled.json"
    ran(lab(program, *SMALL, "--algorithm", "pfedme", "--trains", "sampled", "--rounds", "1", "--json", sampled))
    expect(json.loads(sampled.read_text())["rounds"][0]["trained"] == 7, "--trains sampled")


def kill_often(program, arguments, broken, directory, length, most):
    """Runs until it ends, killed at up to `most` random moments and resumed each time; how often it was killed."""
    dice = random.Random(7)
    kills = 0
    for _ in range(200):
        process = subprocess.Popen([program, *arguments, "--json", str(broken), "--checkpoint", str(directory),
                                    "--checkpoint-every", "1", "--resume"], stderr=subprocess.PIPE, text=True)
        try:
            _, error = process.communicate(timeout=None if kills == most else length * dice.uniform(0.02, 0.15))
            expect(process.returncode == 0, f"exit {process.returncode}: {error}")
            return kills
        except subprocess.TimeoutExpired:
            process.send_signal(signal.SIGKILL)
            process.communicate()
            kills += 1
    sys.exit("failed: the run did not end")


def history(path):
    return [[r["round"], r["state_hash"]] for r in json.loads(path.read_text())["rounds"]]


def resume(program, folder):
    """Killed at ten random moments and resumed each time, a run ends where the unbroken one does."""
    def both(name, arguments, most, least):
        whole, broken, directory = folder / f"{name}.json", folder / f"{name}-broken.json", folder / f"{name}-checkpoints"
        begin = time.monotonic()
        ran(lab(program, *arguments, "--json", whole))
        kills = kill_often(program, arguments, broken, directory, time.monotonic() - begin, most)
        expect(kills >= least, f"{name}: the run ended before it could be killed often enough ({kills} times)")
        expect(final_hash(broken) == final_hash(whole), f"{name}: killed {kills} times, the state hash is another one")
        expect(history(broken) == history(whole), f"{name}: the history of the resumed run is not that of the unbroken one")
        print(f"{name}: killed {kills} times")
        return whole, broken, directory

    rare = ["--eval-every", "50"]
    both("pfedme", [*SMALL, "--algorithm", "pfedme", "--rounds", "60", *rare], 4, 1)
    both("fedalt", [*SMALL, "--algorithm", "fedalt", "--model", "dnn", "--rounds", "150", *rare], 4, 1)
    _, _, stages = both("stages", [*SMALL, "--stages", "fedavg rounds=100; pfedme rounds=40", *rare], 4, 1)
    expect({p.name for p in stages.iterdir()} == {"1-fedavg", "2-pfedme"}, "each stage has its own checkpoints")

    arguments = [*SMALL, "--algorithm", "local", "--model", "dnn", "--rounds", "400", "--eval-every", "50",
                 "--set", "epochs=3", "--set", "momentum=0.9"]
    whole, broken, directory = both("local", arguments, 10, 3)
    expect(len(list(directory.glob("round-*"))) == 2, "two checkpoints are kept")
    expect(not list(directory.glob(".tessera-*.tmp")), "a killed writer left files behind")

    states_in_a_log(program, folder)
    newest = sorted(directory.glob("round-*"))[-1]
    newest.write_bytes(newest.read_bytes()[:-100])
    broken.unlink()
    result = ran(lab(program, *arguments, "--json", broken, "--checkpoint", directory, "--resume"))
    expect("checksum" in result.stderr and newest.name in result.stderr, f"no word about the torn file: {result.stderr}")
    expect(final_hash(broken) == final_hash(whole), "resumed from the checkpoint before the torn one, the hash differs")
    result = lab(program, *arguments, "--seed", "5", "--checkpoint", directory, "--resume")
    expect(result.returncode == 2 and "(it has seed=1, this run seed=5)" in result.stderr, f"another run: {result.stderr}")
    private_rounds(program, folder)
    made_longer(program, folder)


def made_longer(program, folder):
    """A finished run goes on to more rounds and ends where a run that was planned so ends, in its figures too."""
    arguments = [*SMALL, "--algorithm", "ditto", "--model", "dnn"]
    whole, longer, directory = folder / "planned.json", folder / "longer.json", folder / "longer"
    late = ["--eval-last", "2"]
    ran(lab(program, *arguments, *late, "--rounds", "7", "--json", whole))
    ran(lab(program, *arguments, *late, "--rounds", "4", "--json", longer, "--checkpoint", directory))
    expect(final_hash(longer) != final_hash(whole), "four rounds end where seven do")
    ran(lab(program, *arguments, *late, "--rounds", "7", "--json", longer, "--checkpoint", directory, "--resume"))
    expect(final_hash(longer) == final_hash(whole), "made longer, the run has another state hash")
    expect(history(longer) == history(whole), "made longer, the run has another history")
    result = lab(program, *arguments, *late, "--rounds", "5", "--checkpoint", directory, "--resume")
    expect(result.returncode == 2 and "made longer, not shorter" in result.stderr, f"made shorter: {result.stderr}")
    planned = [*arguments, "--set", "decay=linear"]  # falls until the last planned round
    ran(lab(program, *planned, "--rounds", "4", "--checkpoint", folder / "falling"))
    result = lab(program, *planned, "--rounds", "7", "--checkpoint", folder / "falling", "--resume")
    expect(result.returncode != 0 and "rounds=4" in result.stderr, f"a schedule reads the planned rounds: {result.stderr}")


def states_in_a_log(program, folder):
    """--store log ends where memory does, killed or not; a torn log falls back; `store` reads it and finds damage."""
    arguments = [*SMALL, "--algorithm", "ditto", "--rounds", "60", "--eval-every", "50", "--eval-also", "tune_epochs=1"]
    whole, broken, directory = folder / "ditto.json", folder / "ditto-log.json", folder / "ditto-log"
    kept = ["--store", "log", "--checkpoint", directory, "--json", broken]
    begin = time.monotonic()
    if lab(program, *arguments, "--json", whole).returncode:  # a method without tuning
        arguments = arguments[:-2]
        ran(lab(program, *arguments, "--json", whole))
    kill_often(program, [*arguments, "--store", "log"], broken, directory, time.monotonic() - begin, 4)
    expect(final_hash(broken) == final_hash(whole), "states in a log: the hash is another one")

    shown = ran(lab(program, "store", directory)).stdout
    expect("every checksum matches" in shown and "rounds      60" in shown, f"store: {shown}")
    log = directory / "states" / "states-00000001.log"
    bytes_of_log = log.read_bytes()
    log.write_bytes(bytes_of_log[:-30])
    broken.unlink()
    result = ran(lab(program, *arguments, *kept, "--resume"))
    expect("the log ends before" in result.stderr, f"no word about the torn log: {result.stderr}")
    expect(final_hash(broken) == final_hash(whole), "resumed behind a torn log, the hash is another one")

    damaged = bytearray(log.read_bytes())
    damaged[len(damaged) // 2] ^= 1
    log.write_bytes(damaged)
    result = lab(program, "store", directory)
    expect(result.returncode == 1 or "every checksum matches" in result.stdout, f"store, damaged: {result.stdout}")
    for byte in range(60, len(damaged), 997):  # somewhere there is a state that is up to date
        damaged[byte] ^= 1
    log.write_bytes(damaged)
    expect(lab(program, "store", directory).returncode == 1, "store finds nothing wrong with a damaged log")
    result = lab(program, "store", folder / "nowhere")
    expect(result.returncode == 2, f"store of nothing: {result.stderr}")
    result = lab(program, *arguments, "--store", "log")
    expect(result.returncode == 2 and "--checkpoint" in result.stderr, f"a log without a place: {result.stderr}")
    result = lab(program, *arguments, "--store", "cloud")
    expect(result.returncode == 2 and "memory, log" in result.stderr, f"a store that there is not: {result.stderr}")


def private_rounds(program, folder):
    """Under the system's noise a lost round would be paid for twice and counted once: no round that was shown is lost."""
    def rounds_in(directory):
        return sorted(int(p.stem.split("-")[1]) for p in directory.glob("round-*"))

    arguments = [*SMALL[:-1], "--dp", "noise=1", "--rounds", "100", "--eval-every", "100"]
    directory, broken = folder / "private-checkpoints", folder / "private.json"
    kept = ["--checkpoint", directory, "--checkpoint-every", "70"]
    process = subprocess.Popen([program, *[str(a) for a in [*arguments, *kept]]],
                               stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, bufsize=0)
    shown = int(re.match(rb"round (\d+)/100\s", process.stderr.readline())[1])
    process.send_signal(signal.SIGKILL)
    process.communicate()
    before = rounds_in(directory)
    expect(before == [before[-1] - 1, before[-1]] and before[-1] >= shown, f"round {shown} was shown, {before} are kept")
    arguments += ["--quiet"]
    ran(lab(program, *arguments, *kept, "--resume", "--json", broken))
    expect(rounds_in(directory) == [99, 100], f"a checkpoint for every round: {rounds_in(directory)}")
    whole = folder / "private-whole.json"
    ran(lab(program, *arguments, "--json", whole))
    epsilon = [[note for note in json.loads(p.read_text())["notes"] if note.startswith("epsilon")] for p in [broken, whole]]
    expect(epsilon[0] == epsilon[1] and epsilon[0], f"killed and resumed, epsilon is another: {epsilon}")
    newest = sorted(directory.glob("round-*"))[-1]
    newest.write_bytes(newest.read_bytes()[:-100])
    result = lab(program, *arguments, *kept, "--resume")
    expect(result.returncode == 2 and "spent of privacy stands nowhere else" in result.stderr, f"a lost round: {result.stderr}")
    keyed = folder / "keyed-checkpoints"
    ran(lab(program, *SMALL, "--dp", "noise=1,source=keyed", "--rounds", "7", "--checkpoint", keyed, "--checkpoint-every", "5"))
    expect(rounds_in(keyed) == [5, 7], f"keyed noise comes back as it was: {rounds_in(keyed)}")


def write_npy(path, dtype, shape, data):
    header = f"{{'descr': '{dtype}', 'fortran_order': False, 'shape': {shape}, }}"
    header += " " * (63 - (10 + len(header)) % 64) + "\n"
    path.write_bytes(b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header.encode() + data)


def bad_input(program, folder):
    """Exit 2, one line that names the flag or file, nothing written."""
    images, labels = folder / "images.gz", folder / "labels.gz"
    pixels = bytes(range(256)) * 5
    good_images = struct.pack(">IIII", 0x803, 10, 8, 16) + pixels
    good_labels = struct.pack(">II", 0x801, 10) + bytes(i % 3 for i in range(10))

    def idx(image_bytes, label_bytes):
        images.write_bytes(image_bytes)
        labels.write_bytes(label_bytes)
        return ["--data", f"idx:{images},{labels}", "--partition", "iid", "--clients", "2", "--per-round", "1"]

    nan_x, nan_y = folder / "x.npy", folder / "y.npy"
    write_npy(nan_x, "<f4", (4, 60), struct.pack("<240f", *([1.0] * 100 + [float("nan")] + [0.0] * 139)))
    write_npy(nan_y, "<i4", (4,), struct.pack("<4i", 0, 1, 2, 3))
    nowhere = folder / "no such folder" / "out.json"
    same, table, linked, preset = folder / "same", folder / "table.csv", folder / "link.csv", folder / "mine.ini"
    table.write_text("a,y\n" + "".join(f"{i},{i % 2}\n" for i in range(20)))
    linked.symlink_to(table)
    preset.write_text("data = synthetic\n")
    (folder / "train").mkdir()
    two = ["--partition", "iid", "--clients", "2", "--per-round", "1"]

    def images_of_two():
        return idx(struct.pack(">IIII", 0x803, 10, 8, 8) + pixels[:640], good_labels)

    zipped = gzip.compress
    tiny = ["--data", "synthetic", "--model", "dnn", "--json", str(folder / "never.json"), "--checkpoint", str(folder / "never")]
    cases = {
        "unknown algorithm": (lambda: ["--algorithm", "fedavgg"], "no such algorithm; did you mean fedavg?"),
        "algorithm like no other": (lambda: ["--algorithm", "qwertyuiop"], "no such algorithm; `tessera-lab list`"),
        "unknown preset": (lambda: ["--preset", "nothing"], "nothing"),
        "preset nearly right": (lambda: ["--preset", "pfedbred/fmnist-dn"], "did you mean pfedbred/fmnist-dnn?"),
        "unknown data": (lambda: ["--data", "mnits"], "mnits"),
        "unknown partition": (lambda: ["--data", "synthetic", "--partition", "shard:2"], "shard:2"),
        "unknown model": (lambda: ["--data", "synthetic", "--model", "dn"], "--model dn"),
        "unknown setting": (lambda: ["--data", "synthetic", "--set", "rat=0.1"],
                            "--set rat: fedavg has no such setting; did you mean rate?"),
        "wrong value": (lambda: ["--data", "synthetic", "--set", "rate=fast"], "rate"),
        "SCAFFOLD with momentum": (lambda: ["--data", "synthetic", "--algorithm", "scaffold", "--set", "momentum=0.9"],
                                   "--set momentum=0.9: SCAFFOLD reads a client's mean slope"),
        "SCAFFOLD unmerged": (lambda: ["--data", "synthetic", "--algorithm", "scaffold", "--trains", "all"],
                              "--trains all: the server of scaffold must hear of every client"),
        "FedFomo without judges": (lambda: ["--data", "synthetic", "--algorithm", "fedfomo", "--set", "held_out=0"],
                                   "--set held_out=0: held_out must lie in (0, 1)"),
        "negative rate": (lambda: ["--data", "synthetic", "--set", "rate=-1"], "rate"),
        "unknown flag": (lambda: ["--datas", "synthetic"], "--datas: there is no such flag; did you mean --data?"),
        "flag like no other": (lambda: ["--qwertyuiopasdfg", "1"], "--qwertyuiopasdfg: there is no such flag"),
        "a seed twice": (lambda: ["--data", "synthetic", "--seeds", "1,2,1"], "--seeds"),
        "a seed left out": (lambda: ["--data", "synthetic", "--seeds", "1,,2"], "--seeds: a seed is missing in '1,,2'"),
        "no seed at all": (lambda: ["--data", "synthetic", "--seeds", ""], "--seeds: its value is empty"),
        "a seed that is none": (lambda: ["--data", "synthetic", "--seeds", "1,x"], "--seeds: a whole number is needed, not x"),
        "a seed beyond all": (lambda: ["--data", "synthetic", "--seed", "9" * 20], "--seed: a smaller number is needed"),
        "word too many": (lambda: ["--data", "synthetic", "extra"], "extra: not expected here"),
        "name without end": (lambda: ["--algorithm", "x" * 5000], "x... there is no such algorithm"),
        "model nearly right": (lambda: ["--data", "synthetic", "--model", "dnnn"], "no such model; did you mean dnn?"),
        "data nearly right": (lambda: ["--data", "fashion-mnst"], "no such data; did you mean fashion-mnist?"),
        "value of a setting": (lambda: ["--data", "synthetic", "--set", "rate=0.1x"], "--set rate=0.1x: local.rate is a number"),
        "kernels without a trace": (lambda: ["--data", "synthetic", "--trace-kernels"], "--trace-kernels needs --trace FILE"),
        "seed and seeds": (lambda: ["--data", "synthetic", "--seed", "1", "--seeds", "2,3"], "--seeds"),
        "unwritable trace": (lambda: ["--data", "synthetic", "--trace", nowhere], "no such folder"),
        "not a number": (lambda: ["--rounds", "many"], "--rounds"),
        "per-round above clients": (lambda: ["--data", "synthetic", "--clients", "5", "--per-round", "6"], "--per-round"),
        "no rounds": (lambda: ["--data", "synthetic", "--rounds", "0"], "--rounds"),
        "threads": (lambda: ["--data", "synthetic", "--threads", "0"], "threads"),
        "unknown scope": (lambda: [*tiny, "--algorithm", "fedalt", "--scope", "heads"], "--scope heads"),
        "scope that finds nothing": (lambda: [*tiny, "--algorithm", "fedsim", "--scope", "adapter"], "--scope adapter"),
        "segment that is not there": (lambda: [*tiny, "--algorithm", "ft-part", "--scope", "named:7"], "named:7"),
        "scope of a method with its own": (lambda: [*tiny, "--algorithm", "fedper", "--scope", "output"], "--scope output"),
        "nothing below the head": (lambda: ["--data", "synthetic", "--model", "mclr", "--algorithm", "lg-fedavg"], "0.weight (head)"),
        "who trains": (lambda: [*tiny, "--algorithm", "pfedme", "--trains", "some"], "--trains"),
        "unknown reading": (lambda: [*tiny, "--algorithm", "pfedbred-mh", "--set", "mh=both"], "prior.mh"),
        "negative lambda": (lambda: [*tiny, "--algorithm", "ditto", "--set", "lambda=-1"], "lambda"),
        "negative rate": (lambda: [*tiny, "--algorithm", "ditto", "--set", "rate=-1"], "--set rate=-1: rate must be 0 or more"),
        "negative rate of a stage": (lambda: [*tiny, "--stages", "fedavg rate=-1; ditto"], "fedavg, rate=-1: rate must be 0 or more"),
        "noise below nothing": (lambda: [*tiny, "--algorithm", "fedavg", "--dp", "noise=-1"], "--dp or --set noise=-1: "),
        "infinite lambda": (lambda: [*tiny, "--algorithm", "ditto", "--set", "lambda=inf"], "lambda must be 0 or more, and finite"),
        "an output that nobody named": (lambda: [*tiny, "--csv", ""], "--csv: its value is empty"),
        "a flag twice": (lambda: [*tiny, "--threads", "1", "--threads", "2"], "--threads: it is given more than once"),
        "momentum of no optimizer": (lambda: [*tiny, "--set", "server_momentum=0.5"],
                                     "server_momentum is not read with server=mean; set server=momentum, or leave it out"),
        "corrections of a mean": (lambda: [*tiny, "--set", "bias_corrected=true"], "set server=adagrad or adam or yogi"),
        "b2 of Adagrad": (lambda: [*tiny, "--set", "server=adagrad", "--set", "b2=0.9"], "set server=adam or yogi"),
        "a start that is corrected": (lambda: [*tiny, "--set", "server=adam", "--set", "server_adam=torch", "--set", "v0=1"], "v0"),
        "mixing weight": (lambda: [*tiny, "--algorithm", "apfl", "--set", "alpha=2"], "alpha"),
        "empty stage": (lambda: [*tiny, "--stages", "fedavg;;fedalt"], "stage 2"),
        "unknown stage": (lambda: [*tiny, "--stages", "fedavg; fedaltt"], "fedaltt"),
        "stage without a value": (lambda: [*tiny, "--stages", "fedavg rounds"], "NAME=VALUE"),
        "rounds of a stage": (lambda: [*tiny, "--stages", "fedavg rounds=0; fedalt"], "rounds"),
        "setting of a stage": (lambda: [*tiny, "--stages", "fedavg; fedalt rat=1"], "rat"),
        "scope of a stage": (lambda: [*tiny, "--stages", "fedavg; fedalt scope=norm"], "--scope norm"),
        "setting of no stage": (lambda: [*tiny, "--stages", "fedavg; fedalt", "--set", "lambda=1"], "lambda"),
        "stage that leaves no model": (lambda: [*tiny, "--stages", "local; fedalt"], "local"),
        "tuning of nothing": (lambda: [*tiny, "--stages", "tune tune_epochs=1"], "tune"),
        "tuning that cannot be": (lambda: [*tiny, "--stages", "fedavg; tune tune_epochs=1"], "tune_epochs"),
        "stages and algorithm": (lambda: [*tiny, "--stages", "fedavg", "--algorithm", "fedavg"], "--stages"),
        "evaluation with other training": (lambda: [*tiny, "--algorithm", "pfedme", "--eval-also", "lambda=1"], "--eval-also"),
        "one file for two": (lambda: ["--data", "synthetic", "--json", same, "--csv", folder / "." / "same"],
                             "--json and --csv"),
        "one file for split and report": (lambda: [*images_of_two(), "--split-file", same, "--report", same],
                                          "--report and --split-file"),
        "one name for file and directory": (lambda: ["--data", "synthetic", "--jsonl", same, "--checkpoint", f"{same}/"],
                                            "--jsonl and --checkpoint"),
        "one file for a seed and all": (lambda: ["--data", "synthetic", "--seeds", "1,2", "--csv", folder / "s.csv", "--json",
                                                 folder / "s-seed-2.csv"], "--json and --csv"),
        "output over the data": (lambda: ["--data", f"csv:{table},label=y", "--csv", linked, *two],
                                 "--data is read from there"),
        "output over the labels": (lambda: [*images_of_two(), "--models", f"{labels}.npz", "--trace", labels],
                                   "--trace " + str(labels)),
        "output among LEAF's files": (lambda: ["--data", f"leaf:{folder}", "--json", folder / "train" / "all.json"],
                                      "--data is read from there"),
        "output among LEAF's tests": (lambda: ["--data", f"leaf:{folder}", "--json", folder / "test" / "all.json"],
                                      "--data is read from there"),
        "output beside LEAF's files": (lambda: ["--data", f"leaf:{folder}", "--json", folder / "all.json"],
                                       "train: holds no .json file"),
        "output below LEAF's files": (lambda: ["--data", f"leaf:{folder}", "--json", folder / "train" / "own" / "all.json"],
                                      "train: holds no .json file"),
        "output over public data": (lambda: [*images_of_two(), "--aux", f"idx:{images},{labels}2", "--csv", f"{labels}2"],
                                    "--aux is read from there"),
        "output over the preset": (lambda: ["--preset", preset, "--json", preset], "--preset is read from there"),
        "hits that nobody keeps": (lambda: ["--data", "synthetic", "--hits"], "--hits needs --json FILE"),
        "figures that nobody draws": (lambda: ["--data", "synthetic", "--analyse", "clients"], "--analyse needs --json FILE"),
        "checkpoints that are not": (lambda: ["--data", "synthetic", "--checkpoint-every", "5"],
                                     "--checkpoint-every needs --checkpoint DIR"),
        "clients of one client": (lambda: ["--data", "synthetic", "--algorithm", "centralised", "--per-round", "5"],
                                  "--per-round: centralised has one client"),
        "who trains of one client": (lambda: ["--data", "synthetic", "--algorithm", "centralised", "--trains", "all"],
                                     "--trains: centralised has one client"),
        "clients of one client in a stage": (lambda: ["--data", "synthetic", "--stages", "centralised per_round=2"],
                                             "per_round: centralised has one client"),
        "two clips": (lambda: ["--data", "synthetic", "--dp", "clip=1,noise=1,clip=2"], "--dp: clip is set twice"),
        "served in two ways": (lambda: ["--data", "synthetic", "--algorithm", "fedavg-ft", "--eval-also", "tune_epochs=1",
                                        "--eval-also", "tune_epochs=2"], "--eval-also: tune_epochs is set twice"),
        "a setting twice": (lambda: ["--data", "synthetic", "--set", "rate=1", "--set", "rate=2"], "--set: rate is set twice"),
        "a setting of a stage twice": (lambda: ["--data", "synthetic", "--stages", "fedavg rate=0.1 rate=0.2"],
                                       "--stages, fedavg: rate is set twice"),
        "tau of no stage": (lambda: [*tiny, "--stages", "fedavg rounds=1; fedavg-ft rounds=1", "--set", "tau=0.01"],
                            "tau is not read with server=mean"),
        "tau of the wrong stage": (lambda: [*tiny, "--stages", "fedavg rounds=1 tau=0.1; fedavg-ft rounds=1 server=adam",
                                            "--set", "tau=0.01"], "tau is not read with server=mean"),
        "a shift twice": (lambda: ["--data", "synthetic", "--shifts", "none,none"], "--shifts: none stands twice"),
        "a shift and all of them": (lambda: [*images_of_two(), "--shifts", "all,noise:2"], "--shifts: noise:2 stands twice"),
        "a directory of no shifts": (lambda: ["--data", "synthetic", "--shift-dir", folder], "--shift-dir needs --shifts"),
        "copies of private examples": (lambda: [*images_of_two(), "--augment", "flip", "--dp", "noise=1"],
                                       "--augment: fedavg-dp accounts for each example once"),
        "copies like the first": (lambda: [*images_of_two(), "--augment", "copies:2"], "--augment: copies need flip or crop"),
        "copies of no images": (lambda: ["--data", "synthetic", "--augment", "flip"], "--augment needs square images"),
        "copies by another name": (lambda: [*images_of_two(), "--augment", "flop"], "--augment flop: write flip, crop:PIXELS"),
        "copies without number": (lambda: [*images_of_two(), "--augment", f"flip,copies:{2**64 - 1}"],
                                  f"--augment copies:{2**64 - 1}: originals and copies are at most 2^29, whose labels and "
                                  f"numbers fill 4 GiB; of 10 examples there are at most {2**29 // 10 - 1} copies each"),
        "a router without end": (lambda: [*tiny, "--algorithm", "flow", "--set", f"gate.first={2**64 - 1}"],
                                 f"--set gate.first={2**64 - 1}: a router's layer is at most 65536 wide"),
        "a router of 32 bits": (lambda: [*tiny, "--algorithm", "flow", "--set", f"gate.first={2**32 + 1}"],
                                f"--set gate.first={2**32 + 1}: a router's layer is at most 65536 wide"),
        "clients without number": (lambda: ["--data", "synthetic", "--clients", str(2**32)], "--clients 4294967296: "),
        "nobody left to train": (lambda: ["--data", "synthetic", "--unseen", "40"],
                                 "--unseen 40: it must be less than --clients, which is 30"),
        "everything for validation": (lambda: ["--data", "synthetic", "--validation", "1"], "--validation 1: it must be a share"),
        "validation by a word": (lambda: ["--data", "synthetic", "--validation", "abc"], "--validation: a number is needed, not abc"),
        "validation that is no number": (lambda: ["--data", "synthetic", "--validation", "nan"], "--validation nan: it must be"),
        "a quorum above all": (lambda: ["--data", "synthetic", "--quorum", "2"], "--quorum 2: it must be a share in [0, 1]"),
        "a quorum by a word": (lambda: ["--data", "synthetic", "--quorum", "abc"], "--quorum: a number is needed, not abc"),
        "no threads": (lambda: ["--data", "synthetic", "--threads", "0"], "--threads 0: it must be in 1..1024"),
        "rounds that nobody set": (lambda: ["--data", "synthetic", "--rounds", ""], "--rounds: its value is empty"),
        "a share that nobody set": (lambda: ["--data", "synthetic", "--quorum", ""], "--quorum: its value is empty"),
        "a negative scale": (lambda: ["--data", "synthetic:-1,1"], "--data synthetic:-1,1: alpha is -1"),
        "a variant of nothing": (lambda: ["--preset", "+3"], "--preset +3: a variant follows the name of a preset"),
        "a short flag": (lambda: ["--data", "synthetic", "-j", "x"], "-j x: not expected here"),
        "more clients than examples": (lambda: ["--data", f"csv:{table},label=y", "--partition", "iid", "--clients", "50"],
                                       "--clients 50, --partition iid: a client gets no example to train on; use fewer --clients"),
        "half a severity": (lambda: ["--data", "synthetic", "--shifts", "noise:1.5"], "a severity from 1 to 5, not '1.5'"),
        "noise from elsewhere": (lambda: ["--data", "synthetic", "--dp", "noise=1,source=foo"],
                                 "--dp source is one of keyed, system, not 'foo'"),
        "noise by a word": (lambda: ["--data", "synthetic", "--dp", "noise=much"], "--dp noise is a number, not 'much'"),
        "routes of a sum": (lambda: [*tiny[:2], "--algorithm", "flow", "--model", "additive"],
                            "--model additive: for this data it has no blocks that flow could route between; mclr, dnn"),
        "images moved away": (lambda: [*images_of_two(), "--augment", "crop:99"], "--augment crop:99"),
        "unit of numbers": (lambda: ["--data", f"csv:{table},label=y", *two, "--normalise", "unit"],
                            "--normalise unit: it divides bytes by 255"),
        "unit of synthetic numbers": (lambda: ["--data", "synthetic", "--normalise", "unit"], "--normalise unit"),
        "unknown normalisation": (lambda: ["--data", "synthetic", "--normalise", "image"], "standard, unit, each, none"),
        "analysis like no other": (lambda: [*tiny, "--algorithm", "fedavg", "--analyse", "nonsens"],
                                   "there are clients, losses, memory"),
        "coherence of nothing": (lambda: [*tiny, "--algorithm", "fedavg", "--analyse", "coherence"], "--analyse coherence"),
        "unknown analysis": (lambda: [*tiny, "--algorithm", "fedalt", "--analyse", "clients,colours"],
                             "--analyse colours: there is no such analysis"),
        "analysis nearly right": (lambda: [*tiny, "--algorithm", "fedavg", "--analyse", "coherrence"],
                                  "no such analysis; did you mean coherence?"),
        "models of no kind": (lambda: [*tiny, "--models", folder / "m.bin"], "m.bin: a file of models ends in .npz"),
        "norms of a network without": (lambda: [*tiny, "--algorithm", "fedbn"], "--model dnn has none; dnn-norm has"),
        "distillation on nothing": (lambda: ["--data", "synthetic", "--algorithm", "perada", "--model", "dnn-adapter"],
                                    "--aux held-out:0.1"),
        "distances on nothing": (lambda: [*tiny, "--algorithm", "fedavg", "--analyse", "ensemble"],
                                 "--analyse ensemble: it compares answers to public data of the server"),
        "an ensemble of one": (lambda: [*tiny, "--algorithm", "centralised", "--analyse", "ensemble", "--aux", "noise:10"],
                               "centralised has one client"),
        "distances of parts": (lambda: [*tiny, "--algorithm", "ditto", "--analyse", "ensemble", "--aux", "held-out:0.1"],
                               "--analyse ensemble: of ditto the lab can show"),
        "public data nobody reads": (lambda: [*tiny, "--algorithm", "ditto", "--aux", "noise:10"], "--aux noise:10: ditto"),
        "unknown normalisation": (lambda: [*tiny, "--normalise", "foo"], "--normalise"),
        "a budget that the noise breaks": (lambda: [*tiny, "--algorithm", "fedavg", "--dp", "noise=0.5,epsilon=0.1"],
                                          "--dp epsilon=0.1: "),
        "a budget of nothing": (lambda: [*tiny, "--algorithm", "fedavg", "--dp", "clip=1,epsilon=0"],
                                "--dp epsilon=0: a budget is a positive number"),
        "private columns by everybody's means": (lambda: [*tiny, "--dp", "noise=1", "--normalise", "standard"],
                                                 "--normalise standard: it takes the mean and deviation of every column"),
        "private twice": (lambda: [*tiny, "--algorithm", "fedavg-dp", "--dp", "noise=1"],
                          "--dp: fedavg-dp is private already; write --algorithm fedavg --dp ..., or --set NAME=VALUE"),
        "private stages": (lambda: [*tiny, "--stages", "fedavg", "--dp", "noise=1"], "--dp"),
        "negative rounds": (lambda: [*tiny, "--algorithm", "fedavg", "--rounds", "-1"], "--rounds: 0 or more"),
        "negative seeds": (lambda: [*tiny, "--algorithm", "fedavg", "--seeds", "1,-2"], "--seeds: 0 or more"),
        "unknown shift": (lambda: [*tiny, "--algorithm", "fedavg", "--shifts", "noise:1,fog:2"], "--shifts fog:2"),
        "severity of a shift": (lambda: [*tiny, "--algorithm", "fedavg", "--shifts", "blur:6"], "--shifts blur:6"),
        "shifts of no images": (lambda: [*tiny, "--algorithm", "fedavg", "--shifts", "all"], "60 features"),
        "unknown variant": (lambda: ["--preset", "pfedbred/fmnist-dnn+xx"], "+xx"),
        "resume without a place": (lambda: ["--data", "synthetic", "--resume"], "--checkpoint"),
        "unwritable output": (lambda: ["--data", "synthetic", "--json", nowhere], "no such folder"),
        "missing file": (lambda: ["--data", f"idx:{folder}/none,{folder}/none"], "none"),
        "truncated gz": (lambda: idx(zipped(good_images)[:-20], zipped(good_labels)), "images.gz"),
        "wrong magic": (lambda: idx(zipped(b"\x00\x00\x0d\x03" + good_images[4:]), zipped(good_labels)), "images.gz"),
        "dimensions that overflow": (lambda: idx(struct.pack(">IIII", 0x803, 2**31, 2**31, 2**31), good_labels), "images.gz"),
        "counts differ": (lambda: idx(good_images, struct.pack(">II", 0x801, 9) + bytes(9)), "labels.gz"),
        "NaN data": (lambda: ["--data", f"npy:{nan_x},{nan_y}", "--partition", "iid", "--clients", "2", "--per-round", "1"], "x.npy"),
        "empty client": (lambda: idx(good_images, good_labels)[:4] + ["--clients", "11", "--per-round", "1"], "client"),
    }
    bounded_sizes(program, folder)
    gone = folder / "gone"
    gone.mkdir()
    lost = subprocess.run(["sh", "-c", 'cd "$1" && rmdir "$1" && exec "$2" run --data synthetic --rounds 1 --quiet --json out.json',
                           "sh", str(gone), os.path.abspath(program)], capture_output=True, text=True, check=False)
    expect(lost.returncode == 2 and lost.stderr.startswith("tessera-lab: out.json: "), f"no working directory: {lost.stderr}")
    for name, (arguments, text) in cases.items():
        asked = arguments()
        before = sorted(folder.rglob("*"))
        result = lab(program, "run", *asked, "--quiet")
        said = result.stderr.strip()
        expect(result.returncode == 2, f"{name}: exit {result.returncode}, {said}")
        expect(len(said.splitlines()) == 1, f"{name}: not one line: {said}")
        expect(text in said, f"{name}: '{text}' is not in: {said}")
        expect(sorted(folder.rglob("*")) == before, f"{name}: files were written")
        print(f"{name}: {said}")


def bounded_sizes(program, folder):
    """A number or a file that would fill memory is refused with a sentence before any is taken: 1 GiB is enough for it."""
    def little_memory():
        resource.setrlimit(resource.RLIMIT_AS, (2**30, 2**30))

    table, texts = folder / "sizes.csv", folder / "sizes"
    table.write_text("a,b,y\n" + "".join(f"{i},{i * i % 7},{i % 2}\n" for i in range(40)))
    texts.mkdir()
    for name in "ab":
        (texts / f"{name}.txt").write_text("".join(chr(0x4e00 + i) for i in range(4000)) * 2)
    (folder / "endless.ini").symlink_to("/dev/zero")
    (folder / "endless.split").symlink_to("/dev/zero")
    of_table = ["--data", f"csv:{table},label=y", "--per-round", "1", "--clients"]
    huge = 4_000_000_000
    device = "is a device, which may have no end"
    for asked, text in [
            (["--data", "csv:/dev/zero,label=y"], device), (["--data", "npy:/dev/zero,/dev/zero"], device),
            (["--data", "idx:/dev/zero,/dev/zero"], device), (["--preset", folder / "endless.ini"], device),
            ([*of_table, "2", "--partition", "iid", "--split-file", folder / "endless.split"], device),
            ([*of_table, huge, "--partition", "iid"], f"--clients {huge}, --partition iid: a client gets no example"),
            ([*of_table, huge, "--partition", "dirichlet:0.3"], f"--clients {huge}, --partition dirichlet:0.3: a client gets"),
            (["--data", "synthetic", "--clients", "50000000"], "together more than the 2^32 numbers that are allowed"),
            (["--data", "synthetic", "--clients", "1000000000000"], "--clients 1000000000000: a client's number has 32 bits"),
            (["--data", "synthetic", "--algorithm", "fedem", "--set", "components=1000000000"],
             "components may be at most 4096 models"),
            (["--data", "synthetic", "--algorithm", "hypcluster", "--set", "clusters=1000000000"],
             "clusters may be at most 4096 models"),
            (["--data", "synthetic", "--algorithm", "pfedhn", "--set", "hidden=100000"], "hidden may be at most 64 layers"),
            (["--data", "synthetic", "--algorithm", "pfedhn", "--set", "width=100000"], "width may be at most 65536"),
            (["--data", "synthetic", "--rounds", "1000000000000"], "--rounds 1000000000000: at most 10000000"),
            (["--data", "synthetic", "--stages", f"fedavg rounds={2**64 - 1}; fedavg rounds=2"], "at most 10000000"),
            (["--data", f"text:{texts},window=300", "--model", "mclr"], "more than the 2^31 parameters that are allowed"),
            (["--data", f"text:{texts},window={10**12}"], "length must be in 1..2^20")]:
        result = lab(program, "run", *asked, "--quiet", preexec_fn=little_memory, timeout=120)
        expect(result.returncode == 2 and text in result.stderr and len(result.stderr.splitlines()) == 1,
               f"{asked}: exit {result.returncode}: {result.stderr}")
    grid = [f"{name}={','.join(str(i / 100) for i in range(1, 100))}" for name in ("rate", "momentum", "clip", "weight_decay")]
    result = lab(program, "sweep", "--data", "synthetic", "--grid", *grid, preexec_fn=little_memory, timeout=120)
    expect(result.returncode == 2 and "--grid: more than 10000 cells" in result.stderr, f"a grid without end: {result.stderr}")
    # The controls: numbers that only sound large, and a pipe.
    ran(lab(program, *SMALL, "--rounds", "1", "--batch", 10**18, "--eval-every", 10**18, "--eval-last", 2**64 - 1,
            preexec_fn=little_memory))
    ran(lab("bash", "-c", f'"{program}" run --data "csv:"<(cat "{table}")",label=y" --clients 2 --per-round 1 --rounds 1 --quiet'))


def used_places(program, folder):
    """Where a run left checkpoints another begins only with --resume, and what the first left stays."""
    for name, more, last in [("one", [], "one"), ("seeds", ["--seeds", "1,2"], "seed-2"),
                             ("stages", ["--stages", "fedavg; fedalt"], "2-fedalt")]:
        arguments = [*SMALL, *more, "--model", "dnn", "--checkpoint", folder / name, "--checkpoint-every", "1"]
        ran(lab(program, *arguments, "--rounds", "6"))
        kept = {p: p.read_bytes() for p in (folder / name).rglob("round-*")}
        result = lab(program, *arguments, "--rounds", "3")
        expect(result.returncode == 2 and "--resume" in result.stderr and str(folder / name) in result.stderr,
               f"{name}: exit {result.returncode}: {result.stderr}")
        expect({p: p.read_bytes() for p in (folder / name).rglob("round-*")} == kept, f"{name}: checkpoints changed")
        ran(lab(program, *arguments, "--rounds", "6", "--resume"))
        for path in kept:  # the last seed or stage alone is enough
            if path.parent.name != last:
                path.unlink()
        expect(lab(program, *arguments, "--rounds", "3").returncode == 2, f"{name}: only the first place was looked at")


def outputs(program, folder):
    """JSON, CSV, report and models are written whole; a diverged run is still valid JSON."""
    paths = [folder / name for name in ["o.json", "o.csv", "o.html", "o.npz", "o.safetensors"]]
    ran(lab(program, *SMALL, "--algorithm", "fedavg-ft", "--rounds", "4", "--validation", "0.2", "--json", paths[0], "--csv",
            paths[1], "--report", paths[2], "--models", paths[3]))
    ran(lab(program, *SMALL, "--algorithm", "local", "--rounds", "2", "--models", paths[4]))
    for path in paths:
        expect(path.stat().st_size > 0, f"{path} is empty")
    report = json.loads(paths[0].read_text())
    expect(report["config"]["algorithm"] == "fedavg-ft" and len(report["rounds"]) == 4, "the JSON lacks its rounds")
    picks = {e["pick"] for e in report["final"]["evaluations"]}
    expect({"last", "mean_last:4", "best_validation"} <= picks, f"evaluations are picked by {picks}")
    page = paths[2].read_text().replace("http://www.w3.org/", "").replace("http-equiv", "")
    expect("http" not in page, "the report reaches out")
    diverged_visits(program, folder)
    batches_beyond_all(program, folder)
    headline_of_stages(program, folder)
    other_ways_of_serving(program, folder)
    pooled_by_hand(program, folder)
    clients_without_tests(program, folder)
    split_files(program, folder)
    listed = json.loads(ran(lab(program, "list", "--json")).stdout)
    known = {a["name"]: a for a in listed["algorithms"]}
    expect({"fedavg", "fedavg-ft", "fedprox", "feddyn", "scaffold", "local", "centralised", *PERSONAL, *OTHERS} <= set(known), "list")
    expect([n for n in known if known[n]["scope"]] == ["fedalt", "fedsim", "ft-part"], "which methods take a scope")
    used_places(program, folder)
    names_in_the_manual(listed)
    lines_of_the_terminal(program)
    stages_in_report(program, folder)
    presets_in_words(program)
    specific_settings(program, folder)
    server_optimizers(program, folder)
    presets_by_hash(program, listed)
    presets_as_files(program, folder)
    distances(program, folder)
    refused_presets(program, folder)
    rounds_and_examples(program, folder)
    phases_of_rounds(program, folder)
    kernels_of_visits(program, folder)
    names_of_models(program, folder)
    bar_on_a_terminal(program)
    tables_of_results(folder)
    figures_of_pages(listed)
    shifted_images(program, folder)
    out_of_memory(program)
    late = folder / "late.json"
    ran(lab(program, *SMALL, "--rounds", "9", "--eval-last", "3", "--json", late))
    evaluated = [r["round"] for r in json.loads(late.read_text())["rounds"] if r["evaluations"]]
    expect(evaluated == [7, 8, 9], f"--eval-last 3 of 9 rounds evaluates {evaluated}")


def batches_beyond_all(program, folder):
    """A batch of more examples than there are is all of them, also where it is the largest number there is."""
    for needs, flag in [(["--algorithm", "feddf", *OTHERS["feddf"]], ["--set", "kd_batch={}"]),
                        (["--algorithm", "perada", *OTHERS["perada"]], ["--set", "kd_batch={}"]),
                        (["--set", "steps=3"], ["--batch", "{}"]), (["--set", "weights=batches"], ["--batch", "{}"])]:
        seen = set()
        for size in (10**7, 2**64 - 1):
            out = folder / "beyond.json"
            ran(lab(program, *SMALL, "--rounds", "2", *needs, *(word.format(size) for word in flag), "--json", out, timeout=60))
            seen.add(final_hash(out))
        expect(len(seen) == 1, f"{needs}: {seen}")


def diverged_visits(program, folder):
    """Visits that diverged are told everywhere; where all did the run ends with exit 1, its files written."""
    wild, page = folder / "wild.json", folder / "wild.html"
    lost = lab(program, *SMALL, "--rounds", "3", "--model", "dnn", "--set", "rate=1e30", "--json", wild, "--report", page)
    expect(lost.returncode == 1 and "all 21 visits of seed 1 diverged" in lost.stderr, f"nothing was learnt: {lost.stderr}")
    expect(len(lost.stderr.strip().splitlines()) == 1, lost.stderr)
    report = json.loads(wild.read_text())
    note = "21 of 21 visits diverged; what they trained was not kept"
    expect(report["rounds"][0]["diverged"] == 7 and note in report["notes"], f"notes: {report['notes']}")
    expect(note in page.read_text(), "the report tells what diverged")
    stages = "fedavg rounds=2 rate=1e30; fedavg rounds=2 rate=0.01"
    said = ran(lab(program, *SMALL[:-1], "--model", "dnn", "--stages", stages)).stdout
    expect("stage fedavg: 14 of 14 visits diverged" in said and "stage fedavg-2" not in said.replace(", stage fedavg-2", ""),
           f"one stage of two: {said}")
    lost = lab(program, *SMALL, "--model", "dnn", "--stages", "fedavg rounds=3 rate=0.01; fedavg rounds=2 rate=1e30")
    expect(lost.returncode == 1 and "all 14 visits of seed 1 diverged in the last stage" in lost.stderr, f"{lost.stderr}")
    expect("diverged" not in ran(lab(program, *SMALL[:-1], "--rounds", "2")).stdout, "nothing diverged")


def headline_of_stages(program, folder):
    """The page leads with the numbers of the last stage, as the terminal and the JSON do."""
    out, page = folder / "led.json", folder / "led.html"
    for seeds in ([], ["--seeds", "1,2"]):
        ran(lab(program, *SMALL, "--stages", "fedavg-ft rounds=1 rate=1e-6; fedavg-ft rounds=4 rate=0.1", *seeds, "--json", out,
                "--report", page))
        text = page.read_text()
        begin = text.index('id="headline"')
        led = text[begin:text.index("<h2>Learning", begin)]
        for run in runs_of(out):
            value = {(e["stage"], e["model"]): f"{100 * e['value']:.2f} %" for e in run["final"]["evaluations"]
                     if (e["split"], e["pick"], e["average"], e["metric"]) == ("test", "last", "unweighted", "accuracy")}
            for model in ("personal", "global"):
                expect(f">{value['fedavg-ft-2', model]}<" in led, f"{model}: {value} is not in {led}")
                expect(f">{value['fedavg-ft', model]}<" not in led, f"{model}: the first stage leads in {led}")


def other_ways_of_serving(program, folder):
    """Evaluations keep the name they were made under: a resumed run cannot take others for them."""
    kept, out = folder / "served", folder / "served.json"
    command = [*SMALL, "--algorithm", "pfedme", "--rounds", "4", "--checkpoint", kept]
    ran(lab(program, *command, "--eval-also", "tune_steps=1"))
    for also in (["--eval-also", "tune_steps=5"], []):
        result = lab(program, *command, *also, "--resume")
        expect(result.returncode == 2 and "eval-also" in result.stderr, f"{also}: {result.returncode}, {result.stderr}")
    ran(lab(program, *command, "--eval-also", "tune_steps=1", "--eval-every", "2", "--resume", "--json", out))
    expect({e["stage"] for e in json.loads(out.read_text())["final"]["evaluations"]} == {"", "tune_steps=1"}, "as it began")


def read_npz(path):
    """Arrays of 32-bit floats, as rows of numbers."""
    arrays = {}
    with zipfile.ZipFile(path) as file:
        for name in file.namelist():
            data = file.read(name)
            length = int.from_bytes(data[8:10], "little")
            shape = ast.literal_eval(data[10:10 + length].decode())["shape"]
            values = struct.unpack(f"<{(len(data) - 10 - length) // 4}f", data[10 + length:])
            width = shape[-1] if len(shape) > 1 else 1
            arrays[name.removesuffix(".npy")] = [values[i:i + width] for i in range(0, len(values), width)]
    return arrays


def pooled_by_hand(program, folder):
    """centralised: every client judges the one model on its own test data, computed here again from the model's numbers."""
    dice = random.Random(5)
    rows = []
    for client, size in enumerate([12, 30, 80, 200]):
        for _ in range(size):
            grade = dice.randrange(3)
            rows.append((f"c{client}", dice.gauss(grade, 0.1 + client), dice.gauss(-grade, 0.1 + client), grade))
    table, split, models = folder / "pooled.csv", folder / "pooled.split", folder / "pooled.npz"
    table.write_text("who,a,b,grade\n" + "".join(f"{w},{a:.4f},{b:.4f},{'xyz'[g]}\n" for w, a, b, g in rows))
    data = ["run", "--data", f"csv:{table},label=grade,client=who", "--normalise", "none", "--model", "mclr", "--rounds", "20",
            "--quiet"]
    out, plain = folder / "pooled.json", folder / "plain.json"
    ran(lab(program, *data, "--algorithm", "centralised", "--split-file", split, "--models", models, "--json", out, "--hits"))
    model = read_npz(models)
    weights = next(v for n, v in model.items() if len(v[0]) == 2)
    biases = [v[0] for v in next(v for v in model.values() if len(v[0]) == 1)]
    tests = [list(map(int, line.split()[1:])) for line in split.read_text().splitlines() if line.startswith("test ")]

    def right(example):
        _, a, b, grade = rows[example]
        answers = [w[0] * round(a, 4) + w[1] * round(b, 4) + bias for w, bias in zip(weights, biases)]
        return answers.index(max(answers)) == grade

    hits = [[right(example) for example in test] for test in tests]
    report = json.loads(out.read_text())
    clients = report["final"]["per_client"]
    expect([c["n_test"] for c in clients] == [len(h) for h in hits], "every client tests on its own examples")
    expect([c["hits_global"] for c in clients] == ["".join("01"[h] for h in each) for each in hits], "right is what is right")
    value = {e["average"]: e["value"] for e in report["final"]["evaluations"] if e["metric"] == "accuracy" and e["pick"] == "last"}
    pooled = sum(map(sum, hits)) / sum(map(len, hits))
    unweighted = statistics.mean(sum(h) / len(h) for h in hits)
    expect(abs(pooled - unweighted) > 0.03, f"the two averages must differ to be told apart: {pooled}")
    expect(abs(value["pooled"] - pooled) < 1e-12 and abs(value["unweighted"] - unweighted) < 1e-12,
           f"{value}, by hand pooled {pooled}, mean over clients {unweighted}")
    ran(lab(program, *data, "--algorithm", "fedavg", "--split-file", split, "--json", plain))
    majority = [n for path in (out, plain) for n in json.loads(path.read_text())["notes"] if "majority" in n]
    expect(len(majority) == 2 and len(set(majority)) == 1, f"the control does not depend on the method: {majority}")


def clients_without_tests(program, folder):
    """A client with nothing to test on is left out of every mean over clients, the controls among them."""
    dice = random.Random(6)
    table, out = folder / "untested.csv", folder / "untested.json"
    rows = [(client, dice.randrange(2)) for client, size in enumerate([40, 60, 1, 30]) for _ in range(size)]
    table.write_text("who,a,y\n" + "".join(f"c{client},{dice.gauss(label, 1):.4f},{label}\n" for client, label in rows))
    ran(lab(program, "run", "--data", f"csv:{table},label=y,client=who", "--algorithm", "fedavg-ft", "--rounds", "3", "--quiet",
            "--json", out))
    report = json.loads(out.read_text())
    tested = [c for c in report["final"]["per_client"] if c["n_test"] > 0]
    expect(len(tested) == 3 and len(report["final"]["per_client"]) == 4, f"one of four has no test: {report['final']}")
    best = statistics.mean(max(c["accuracy_global"], c["accuracy_personal"]) for c in tested)
    notes = [note for note in report["notes"] if "oracle" in note]
    expect(notes == [f"control, oracle best of global and personal per client: {100 * best:.2f} % (mean over clients)"], f"{notes}")


def split_files(program, folder):
    """A split file knows how it was dealt: flags that say otherwise are refused, those left out are taken from it."""
    table, split, out = folder / "dealt.csv", folder / "dealt.split", folder / "dealt.json"
    dice = random.Random(6)
    table.write_text("a,b,grade\n" + "".join(f"{dice.random()},{dice.random()},{'xyz'[i % 3]}\n" for i in range(400)))
    data = ["run", "--data", f"csv:{table},label=grade", "--rounds", "1", "--quiet", "--split-file", split]
    how = {"--partition": "dirichlet-fixed:0.6", "--clients": "8", "--unseen": "2", "--validation": "0.25", "--split-seed": "7"}
    ran(lab(program, *data, *(word for pair in how.items() for word in pair), "--json", out))
    first = json.loads(out.read_text())["config"]
    text = split.read_text()
    expect(text.startswith("tessera-split 2\nnote partition dirichlet-fixed:0.6\n"), text[:80])

    def agree(config, names=("partition", "clients", "unseen", "validation", "split_seed", "split_fingerprint")):
        expect([config[n] for n in names] == [first[n] for n in names], f"{config} is not {first}")

    ran(lab(program, *data, "--seed", "3", "--json", out))
    agree(json.loads(out.read_text())["config"])
    ran(lab(program, *data, "--partition", "dirichlet-fixed:0.6", "--unseen", "2", "--validation", "0.25", "--json", out))
    agree(json.loads(out.read_text())["config"])
    for flag, other in {"--partition": "iid", "--clients": "9", "--unseen": "0", "--validation": "0", "--split-seed": "1"}.items():
        result = lab(program, *data, flag, other)
        expect(result.returncode == 2 and f"dealt with {flag} {how[flag]}, not {other}" in result.stderr, f"{flag}: {result.stderr}")
        expect(split.read_text() == text, "a refused run changed the file")
    ran(lab(program, *data, "--partition", "dirichlet-fixed:0.60", "--json", out))
    agree(json.loads(out.read_text())["config"])
    for other in ("dirichlet:0.6", "dirichlet-fixed:0.61", "dirichlet-fixed:0.6x", "dirichlet-fixed:"):
        expect(lab(program, *data, "--partition", other).returncode == 2, f"{other} is another partition")
    preset = folder / "dealt.ini"
    preset.write_text("clients = 5\npartition = iid\n")
    ran(lab(program, *data, "--preset", preset, "--json", out))
    agree(json.loads(out.read_text())["config"])
    result = lab(program, *data, "--preset", preset, "--clients", "5")
    expect(result.returncode == 2 and "dealt with --clients 8, not 5; leave --clients out" in result.stderr, result.stderr)

    def synthetic():
        result = lab(program, "run", "--data", "synthetic", "--rounds", "1", "--split-file", split)
        expect(result.returncode == 2 and result.stderr.startswith(f"tessera-lab: --split-file {split}: synthetic clients"),
               result.stderr)

    synthetic()
    lines = [line for line in text.splitlines(True) if not line.startswith(("note ", "checksum "))]
    old = "".join(lines).replace("tessera-split 2", "tessera-split 1")
    split.write_text(old + f"checksum {crc32c(old.encode()):08x}\n")
    ran(lab(program, *data, "--json", out))
    report = json.loads(out.read_text())
    agree(report["config"], ("clients", "unseen", "split_fingerprint"))
    expect({report["config"][n] for n in ("partition", "validation", "split_seed")} == {"not known"}, f"{report['config']}")
    expect(any("does not say how it was dealt" in note for note in report["notes"]), f"{report['notes']}")
    expect(lab(program, *data, "--clients", "9").returncode == 2, "the number of clients is known to old files too")
    result = lab(program, *data, "--partition", "iid")
    expect(result.returncode == 2 and "does not say how it was dealt; leave --partition out" in result.stderr, result.stderr)
    synthetic()


def crc32c(data):
    crc = 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (0x82F63B78 if crc & 1 else 0)
    return crc ^ 0xFFFFFFFF


def names_in_the_manual(listed):
    """The tables of docs/lab.md have the algorithms and presets that `list` has, and no others."""
    page = (pathlib.Path(__file__).resolve().parents[2] / "docs" / "lab.md").read_text()
    for kind, heading in [("algorithms", "## Algorithms"), ("presets", "## Presets")]:
        section = page.split(heading + "\n")[1].split("\n## ")[0]
        first = " ".join(line.split("|")[1] for line in section.splitlines() if line.startswith("| `"))
        there, known = set(first.replace("`", "").replace(",", " ").split()), {each["name"] for each in listed[kind]}
        expect(known == there, f"docs/lab.md, {kind}: lacks {known - there}, has without need {there - known}")


def lines_of_the_terminal(program):
    """What the summary says of privacy and rounds; what list and --version say."""
    said = ran(lab(program, *SMALL[:-1], "--dp", "noise=1", "--rounds", "2")).stdout
    expect("epsilon at most " in said and " at delta 1e-05 (noise: " in said, f"no epsilon in {said}")
    said = ran(lab(program, *SMALL[:-1], "--dp", "epsilon=4", "--rounds", "2")).stdout
    spent = re.search(r"epsilon at most ([0-9.]+) ", said)
    expect(spent and 3 < float(spent[1]) <= 4, f"noise for an epsilon of 4: {said}")
    said = ran(lab(program, *SMALL[:-1], "--dp", "noise=0", "--rounds", "2", "--eval-every", "2")).stdout
    expect("epsilon infinite: nothing is hidden" in said, f"no word about no noise in {said}")
    expect("last round" in said and "mean of the last" not in said, f"one evaluated round: {said}")
    said = ran(lab(program, *SMALL[:-1], "--stages", "fedavg rounds=1; fedavg-dp rounds=2; ditto-dp rounds=1")).stdout
    expect("fedavg-dp: epsilon at most " in said and said.count("epsilon at most ") == 2 and
           "before it fedavg had no noise and is not covered" in said and
           "before it fedavg-dp has spent an epsilon of its own, and epsilons and deltas add up" in said,
           f"what earlier stages spent: {said}")
    said = ran(lab(program, *SMALL[:-1], "--rounds", "6", "--eval-every", "2")).stdout
    expect("mean of the last 3 evaluated rounds" in said and "epsilon" not in said, f"three evaluated rounds: {said}")
    said = ran(lab(program, "list")).stdout
    expect("  fedavg " in said and "local.rate" not in said, f"list: {said}")
    expect("local.rate=" in ran(lab(program, "list", "fedavg")).stdout, "list fedavg")
    wrong = lab(program, "list", "fedavgg")
    expect(wrong.returncode == 2 and "did you mean fedavg?" in wrong.stderr, f"list fedavgg: {wrong.stderr}")
    expect(ran(lab(program, "--version")).stdout.startswith("tessera-lab 0."), "--version")
    ran(lab(program, "run", "--data", "synthetic", "--clients", "5", "--rounds", "1", "--quiet"))  # ten of five are five


def stages_in_report(program, folder):
    """Rounds go on from stage to stage, every evaluation says which; tuning is told apart from what it tunes."""
    out, alone, fine = folder / "stages.json", folder / "alone.json", folder / "fine.json"
    ran(lab(program, *SMALL, "--model", "dnn", "--stages", PIPELINE, "--json", out))
    report = json.loads(out.read_text())
    expect([r["round"] for r in report["rounds"]] == [1, 2, 3, 4, 5, 6, 7], "rounds of two stages")
    tags = [{e["stage"] for e in r["evaluations"]} for r in report["rounds"]]
    expect(tags == [{"fedavg"}] * 3 + [{"fedalt"}] * 4, f"stages of the rounds: {tags}")
    expect({e["stage"] for e in report["final"]["evaluations"]} == {"fedavg", "fedalt", "tune"}, "stages at the end")
    config = report["config"]
    expect((config["rounds"], config["fedavg.rounds"], config["fedavg.local.rate"]) == (4, 3, 0.05), "config of the stages")
    ran(lab(program, *SMALL, "--model", "dnn", "--algorithm", "fedavg", "--rounds", "3", "--set", "rate=0.05", "--json", alone))
    expect(json.loads(alone.read_text())["final"]["state_hash"] == report["rounds"][2]["state_hash"], "stage (a) is FedAvg")
    ran(lab(program, *SMALL, "--model", "dnn", "--algorithm", "fedalt", "--rounds", "4", "--json", alone))
    expect(final_hash(alone) != report["final"]["state_hash"], "stage (b) starts where (a) ended")
    ran(lab(program, *SMALL, "--algorithm", "pfedme", "--rounds", "2", "--eval-also", "tune_steps=5", "--analyse",
            "coherence,clients,losses", "--json", fine))
    report = json.loads(fine.read_text())
    ran(lab(program, *SMALL, "--algorithm", "pfedme", "--rounds", "2", "--set", "tune_steps=5", "--json", alone))

    def personal(path, stage):
        found = [e["value"] for e in json.loads(path.read_text())["final"]["evaluations"]
                 if e["model"] == "personal" and e["stage"] == stage]
        expect(found, f"no evaluation of stage '{stage}'")
        return found

    expect(personal(fine, "tune_steps=5") == personal(alone, ""), "--eval-also is not what --set would give")
    expect(personal(fine, "tune_steps=5") != personal(fine, ""), "--eval-also changes nothing")
    expect(final_hash(fine) == final_hash(alone), "--eval-also touched the training")
    extras = {extra["id"]: extra for extra in report["extras"]}
    expect({"coherence", "change-size", "harmed", "loss-deviation"} <= set(extras), f"figures: {set(extras)}")
    expect(all(0 <= y <= 1 for y in extras["coherence"]["series"][0]["y"]), "the coherence curve")
    ran(lab(program, *SMALL, "--model", "dnn", "--stages", PIPELINE, "--analyse", "clients,memory,theory", "--json", fine))
    report = json.loads(fine.read_text())
    expect({"fine-tuning", "memory", "theory"} <= {extra["id"] for extra in report["extras"]}, "figures of FedAlt")
    expect(report["config"]["personal_parameters"] == 210, "the head of 60-20-10 has 210 parameters")


def distances(program, folder):
    """With and without distillation the same distances are measured, on the same public data, and can be set side by side."""
    made = {}
    for name, more in {"perada": ["--set", "kd_steps=5"], "perada-nokd": []}.items():
        out = made[name] = folder / f"{name}.json"
        ran(lab(program, *SMALL, "--algorithm", name, "--model", "dnn-adapter", "--aux", "noise:40", "--analyse", "ensemble",
                "--set", "rate=0.1", *more, "--rounds", "2", "--json", out))
    runs = {name: json.loads(out.read_text()) for name, out in made.items()}
    for name, run in runs.items():
        figure, = [extra for extra in run["extras"] if extra["id"] == "ensemble-distance"]
        expect([series["name"] for series in figure["series"]] == ["local", "personal"], f"{name}: the series")
        values = [y for series in figure["series"] for y in series["y"]]
        expect(len(values) == 24 and all(0 <= y <= 2 for y in values) and max(values) > 0, f"{name}: distances {values}")
        expect(run["config"]["ensemble_distance"] > 0, f"{name}: the ensemble's distance")
    expect(runs["perada"]["config"]["ensemble_distance"] != runs["perada-nokd"]["config"]["ensemble_distance"],
           "distillation moves nothing")
    page = folder / "both.html"
    ran(lab(program, "compare", *made.values(), "--report", page))
    expect('id="fig-extra-ensemble-distance"' in page.read_text(), "compare does not draw them together")


# Of what the presets say. Whoever changes one on purpose changes its hash here; published tables were made with these.
HASHES = {
    "fedalt/cifar10-small": "2d5debc02170f39a",
    "fedalt/fmnist-dir01": "dc30dc769a7f687d",
    "fedalt/fmnist-dir01-cold": "985cc67d73029975",
    "fedspa/cifar10-a": "aed5e6e462185f8d",
    "fedspa/cifar10-b": "3b3632e0ba456bc5",
    "fedspa/cifar10-small-a": "db0a58bf15ac264f",
    "fedspa/cifar10-small-b": "4679aa80ad631caa",
    "fedspa/cifar10-small-iid": "8faeb5f0290e1690",
    "fedspa/fmnist-a": "781cd759cba705ef",
    "fedspa/fmnist-b": "5204454d4f790a73",
    "fedspa/fmnist-iid": "1ad64985abcf366f",
    "flow/cifar10-dir01": "205f8ac0fe8e8fcc",
    "flow/cifar10-dir06": "7fe02a1c35238c97",
    "flow/cifar10-small-dir01": "6fb7e5ed5e671c8e",
    "flow/cifar10-small-dir06": "58bc5b761380a216",
    "flow/fmnist-dir01": "95fb953474333dc8",
    "flow/fmnist-dir06": "dfea9c8357f89ea5",
    "perada/cifar10": "1bb7ef27775aa951",
    "perada/cifar10-small": "94e0fac412e9c646",
    "perada/fmnist": "ff5f925b985bbbe0",
    "perada/fmnist-half": "c007d566b6a73dd7",
    "pfedbred/cifar10": "045529721c885e64",
    "pfedbred/cifar10-small": "1dfceb165e06da81",
    "pfedbred/fmnist-dnn": "e7db98b4ad4512c2",
    "pfedbred/fmnist-mclr": "982d5f797b0daac9",
}


def presets_as_files(program, folder):
    """A preset's file is printed, copied, changed and run; its hash is that of what it says, and flags win over it."""
    def hash_of(name, **options):
        return ran(lab(program, "presets", name, **options)).stdout.split()[0]

    known = {each["name"]: each["hash"] for each in json.loads(ran(lab(program, "list", "--json")).stdout)["presets"]}
    expect(known == HASHES, f"presets changed: {known}")
    for name, expected in HASHES.items():  # the files of the repository are what is compiled in
        expect(hash_of(PRESETS / f"{name}.ini") == expected, f"{name}.ini says something else than the program")
    text = ran(lab(program, "presets", "pfedbred/fmnist-dnn", "--text")).stdout
    expect(text == (PRESETS / "pfedbred" / "fmnist-dnn.ini").read_text(), "the text of a preset is not its file")
    mine = folder / "mine.ini"
    mine.write_text(text.replace("\n", "  # said\r\n").replace("=", "   =  "))
    expect(hash_of(mine) == HASHES["pfedbred/fmnist-dnn"], "comments, blanks or line ends changed the hash")
    expect(hash_of(f"{mine}+am") == hash_of("pfedbred/fmnist-dnn+am"), "a variant of a file")
    mine.write_text(text.replace("lambda = 30", "lambda = 31"))
    expect(hash_of(mine) != HASHES["pfedbred/fmnist-dnn"], "another lambda, the same hash")

    out = folder / "mine.json"
    mine.write_text("algorithm = fedalt\ndata = synthetic\nmodel = dnn\nscope = input\nclients = 6\nper-round = 2\nrounds = 2\n"
                    "[set]\nrate = 0.07\n[set fedavg]\nrate = 0.5\n")
    ran(lab(program, "run", "--preset", mine, "--quiet", "--json", out))
    config = json.loads(out.read_text())["config"]
    expect([config[key] for key in ("algorithm", "scope", "clients", "per_round", "preset", "preset_hash")] ==
           ["fedalt", "input", 6, 2, str(mine), hash_of(mine)], f"what a file of one's own sets: {config}")
    expect(config["order.u.rate"] == 0.07, f"rates: {config}")
    said = ran(lab(program, "run", "--preset", mine, "--algorithm", "fedavg", "--rounds", "1", "--json", out)).stdout
    config = json.loads(out.read_text())["config"]
    expect(config["algorithm"] == "fedavg" and config["rounds"] == 1 and config["local.rate"] == 0.5, f"flags win: {config}")
    expect("algorithm=fedalt [the flag wins]" in said and "scope=input\n" in said and "scope" not in config, f"told: {said}")

    mine.write_text("algorithm = ditto\ndata = synthetic\nclients = 6\nper-round = 2\nrounds = 1\n")
    ran(lab(program, "run", "--preset", mine, "--dp", "noise=1", "--quiet", "--json", out))
    expect(json.loads(out.read_text())["config"]["algorithm"] == "ditto-dp", "the private kin of a preset's algorithm")

    page = (pathlib.Path(__file__).resolve().parents[2] / "docs" / "lab.md").read_text()
    mine.write_text(page.split("```ini\n")[1].split("```")[0])
    expect("lambda=1 (ditto, pfedbred-)" in ran(lab(program, "presets", mine)).stdout, "the preset of the manual")

    elsewhere = folder / "presets"
    for name, lines in {"mine/small": "rounds = 3\n", "flow/fmnist-dir01": "rounds = 4\n"}.items():
        (elsewhere / name).parent.mkdir(parents=True, exist_ok=True)
        (elsewhere / f"{name}.ini").write_text(lines)
    there = {**os.environ, "TESSERA_PRESETS": str(elsewhere)}
    said = ran(lab(program, "presets", "flow/fmnist-dir01", env=there)).stdout
    expect(f"of {elsewhere}/flow/fmnist-dir01.ini\n  rounds=4\n" in said, f"a file wins over what is compiled in: {said}")
    known = {each["name"] for each in json.loads(ran(lab(program, "list", "--json", env=there)).stdout)["presets"]}
    expect(known == {*HASHES, "mine/small"}, f"presets of a folder: {known}")
    alone = folder / "alone" / "bin" / "tessera-lab"  # copied, it brings its presets; installed, it finds the files
    alone.parent.mkdir(parents=True)
    shutil.copy(program, alone)
    expect(ran(lab(alone, "presets")).stdout == ran(lab(program, "presets")).stdout, "a program that was copied alone")
    shutil.copytree(elsewhere, folder / "alone" / "share" / "tessera" / "presets")
    expect("mine/small" in ran(lab(alone, "presets")).stdout, "presets that are installed beside the program")


def refused_presets(program, folder):
    """A mistake in a preset is told with its file, its line and what was meant."""
    good = "data = synthetic\nclients = 6\n"
    cases = {
        "roundz = 3": "line 3: a preset has no key roundz; did you mean rounds?",
        "rate = 0.1": "line 3: rate is a setting of algorithms; it goes below a line [set]",
        "rounds": "line 3: 'rounds' is neither KEY = VALUE",
        "rounds = ": "line 3: rounds has no value",
        "= 3": "line 3: the name before = is missing",
        "rounds = many": "line 3: rounds is a whole number of at least 1, not 'many'",
        "rounds = 0": "line 3: rounds is a whole number of at least 1, not '0'",
        "batch = -1": "line 3: batch is a whole number, not '-1'",
        "clients = 7": "line 3: clients is set twice",
        "model = dn": "line 3: there is no model 'dn'; did you mean dnn?",
        "partition = dirichlet:0.1+rotaton:4": "line 3: there is no partition 'rotaton'; did you mean rotation?",
        "normalise = nothing at all": "line 3: there is no normalise 'nothing at all'; there are standard, unit, each, none",
        "algorithm = fedalt2": "line 3: there is no algorithm 'fedalt2'; did you mean fedalt?",
        "[settings]": "line 3: '[settings]': a section is [set]",
        "[set fedavgg]": "line 3: no algorithm's name begins with fedavgg; did you mean fedavg?",
        "[set]\nrat = 0.1": "line 4: no algorithm has a setting rat; did you mean rate?",
        "[set]\nrate = 0.1\nrate = 0.2": "line 5: rate is set twice",
        "[set]\nrate = fast": "line 4: local.rate is a number, not 'fast'",
        "[set]\nrate = -3": "line 4: rate: ",
        "[set]\nrate = -3\nmomentum = 2": "--preset ",
        "[set fedavg]\nlambda = 1": "line 4: no algorithm of [set fedavg] has a setting lambda",
        "[set fedavg local]\nlambda = 1": "line 4: no algorithm of [set fedavg local] has a setting lambda",
        "scope = outptu": "line 3: a scope is made of",
        "partition = dirichlet:-1": "line 3: partition dirichlet:A: A is a number above 0, not '-1'",
        "partition = shards:0": "line 3: partition shards:K: K is a whole number of at least 1, not '0'",
        "partition = iid:3": "line 3: partition iid takes no number",
        "partition = iid+contrast:0.5": "line 3: feature shift: contrast is in [1, 1e6]",
        "before = fedavg roundz=3": "the stages before: --set roundz: fedavg has no such setting",
    }
    mine = folder / "wrong.ini"
    for text, expected in cases.items():
        mine.write_text(good + text + "\n")
        result = lab(program, "run", "--preset", mine, "--rounds", "1", "--quiet")
        said = result.stderr.strip()
        expect(result.returncode == 2 and len(said.splitlines()) == 1, f"{text}: exit {result.returncode}: {said}")
        expect(expected in said and (str(mine) in said), f"{text}: '{expected}' is not in: {said}")
    mine.write_text("# nothing\n")
    for name, expected in {mine: "it sets nothing", folder / "none.ini": "there is no such file"}.items():
        result = lab(program, "presets", name)
        expect(result.returncode == 2 and f"{name}: {expected}" in result.stderr, f"{name}: {result.stderr}")
    mine.write_bytes(b"data = synthetic\nwhat = \x1b[31mred\x07\n")
    result = lab(program, "presets", mine)
    expect(result.returncode == 2 and "line 2: 'what = \\x1b[31mred\\x07' holds a control character" in result.stderr and
           not result.stdout, f"bytes that steer a terminal: {result.stderr!r}")
    mine.write_bytes(bytes(range(256)) * 40)
    expect(lab(program, "presets", mine).returncode == 2, "bytes that are no preset")


def presets_in_words(program):
    """A preset prints what it sets and what a flag took from it."""
    said = ran(lab(program, "run", "--preset", "pfedbred/fmnist-mclr+am", "--algorithm", "pfedbred-mh", "--data", "synthetic",
                   "--partition", "natural", "--clients", "12", "--per-round", "3", "--rounds", "1", "--set", "eta=0.1")).stdout
    for text in ["lambda=15", "steps=20", "inner_steps=5", "alpha_m=0.01", "beta=1\n", "beta=2\n", "rounds=200 [the flag wins]",
                 "eta=0.05 (pfedme, pfedbred-) [the flag wins]", "batch=20\n"]:
        expect(text in said, f"'{text.strip()}' is not in what the preset says: {said}")


def specific_settings(program, folder):
    """The more specific name wins, wherever it stands, and a preset prints what holds."""
    out = folder / "specific.json"

    def config(*more):
        said = ran(lab(program, "run", "--data", "synthetic", "--partition", "natural", "--clients", "4", "--per-round", "2",
                       "--rounds", "1", "--model", "dnn", "--json", out, *more)).stdout
        return json.loads(out.read_text())["config"], said

    rates = ("order.v.rate", "order.u.rate", "tune.rate")
    for asked in (["tune.rate=0.5", "rate=0.01"], ["rate=0.01", "tune.rate=0.5"]):
        got, _ = config("--algorithm", "fedalt", *(word for each in asked for word in ("--set", each)))
        expect([got[name] for name in rates] == [0.01, 0.01, 0.5], f"{asked}: {got}")
    preset = ("--preset", "fedalt/fmnist-dir01-cold+ft", "--algorithm", "fedalt")
    got, said = config(*preset, "--set", "rate=0.1", "--set", "decay=linear")
    expect([got[name] for name in rates] == [0.1, 0.1, 0.01], f"a preset's tune.rate and a flag's rate: {got}")
    expect(got["tune.schedule.decay"] == "constant" and got["order.v.schedule.decay"] == "linear", f"decay: {got}")
    for text in ["  rate=0.05 [the flag wins]\n", "  decay=step [the flag wins]\n", "  tune.rate=0.01\n",
                 "  tune.schedule.decay=constant\n"]:
        expect(text in said, f"'{text.strip()}' is not in what the preset says: {said}")
    got, said = config(*preset, "--set", "tune.rate=0.2", "--set", "v.rate=0.3")
    expect([got[name] for name in rates] == [0.3, 0.05, 0.2], f"specific flags: {got}")
    expect("  tune.rate=0.01 [the flag wins]\n" in said and "  rate=0.05 [but tune.rate=0.2] [but v.rate=0.3]\n" in said, said)
    got, _ = config("--stages", "fedavg batch=0 rounds=1")
    expect(got["batch"] == 0, f"all data of a client at once, in a stage: {got}")
    got, _ = config("--stages", "fedavg rounds=1 rate=0.05; fedavg-ft rounds=1 rate=0.01", "--set", "local.rate=0.3")
    expect((got["fedavg.local.rate"], got["local.rate"]) == (0.05, 0.01), f"a stage's own rate: {got}")
    got, _ = config("--stages", "fedavg rounds=1; fedavg-ft rounds=1 rate=0.01", "--set", "local.rate=0.3")
    expect((got["fedavg.local.rate"], got["local.rate"]) == (0.3, 0.01), f"a stage that says no rate: {got}")
    mine = folder / "before.ini"
    mine.write_text("algorithm = fedavg-ft\nbefore = fedavg rounds=1 rate=0.05\n[set]\nlocal.rate = 0.3\n")
    got, _ = config("--preset", mine)
    expect((got["fedavg.local.rate"], got["local.rate"]) == (0.05, 0.3), f"a rate of the stage before: {got}")


def server_optimizers(program, folder):
    """Server settings act or are refused; torch's Adam by one word is that by its numbers."""
    def end(*settings):
        out = folder / "server.json"
        ran(lab(program, *SMALL, "--rounds", "3", "--json", out, *(word for each in settings for word in ("--set", each))))
        return final_hash(out)

    expect(end("server_rate=1") == end(), "a server rate of 1 is the mean")
    expect(end("server_rate=0.5") == end("server=momentum", "server_momentum=0", "server_rate=0.5") != end(), "server SGD")
    torch = end("server=adam", "b2=0.999", "tau=1e-8", "v0=0", "bias_corrected=true")
    expect(end("server=adam", "server_adam=torch") == torch, "torch's Adam")
    expect(end("server=adam", "b2=0.999", "tau=1e-8", "bias_corrected=true") == torch, "a corrected v starts at 0")
    expect(end("server=adam", "server_adam=reddi") == end("server=adam", "v0=1e-6") != torch, "Reddi's Adam starts at tau^2")
    expect(end("server=adam", "tau=0.01") == end("server=adam", "tau=0.01", "v0=1e-4"), "v0 follows tau")
    preset, out = folder / "adam.ini", folder / "shared.json"
    preset.write_text("algorithm = fedavg\n[set]\nserver = adam\nb2 = 0.9\n")
    asked = [*SMALL, "--rounds", "3", "--preset", preset, "--json", out]
    ran(lab(program, *asked, "--set", "server=mean"))
    expect(final_hash(out) == end(), "a preset's b2 stays behind with its server")
    refused = lab(program, *asked, "--set", "server=mean", "--set", "b2=0.8")
    expect(refused.returncode == 2 and "b2 is not read" in refused.stderr, f"a flag's b2 is refused: {refused.stderr}")
    ran(lab(program, *SMALL, "--json", out, "--stages", "fedavg rounds=1 server=adam; fedavg-ft rounds=1", "--set", "tau=0.01"))
    config = json.loads(out.read_text())["config"]
    taus = [value for name, value in config.items() if name.endswith(".tau")]
    expect(sorted(taus) == [-1, 0.01], f"tau is for the stage that reads it: {taus}")


def presets_by_hash(program, listed):
    """A preset is printed with a hash, and run prints the same; a variant has another."""
    for preset in listed["presets"]:
        said = ran(lab(program, "presets", preset["name"])).stdout
        expect(said.startswith(f"{preset['hash']} {preset['name']}\n"), f"{preset['name']}: {said}")
        expect([line.strip() for line in said.splitlines()[1:]] == preset["sets"], f"{preset['name']} sets {said}")
    every = ran(lab(program, "presets")).stdout
    expect(all(f"{p['hash']} {p['name']}" in every for p in listed["presets"]), f"presets: {every}")
    known = {p["name"]: p["hash"] for p in listed["presets"]}
    expect(len(set(known.values())) == len(known), "two presets with one hash")
    am = ran(lab(program, "presets", "pfedbred/fmnist-dnn+am")).stdout.split()[0]
    expect(am not in known.values(), "a variant has the hash of its preset")
    said = ran(lab(program, "run", "--preset", "pfedbred/fmnist-dnn+am", "--algorithm", "pfedme", "--data", "synthetic",
                   "--partition", "natural", "--clients", "5", "--per-round", "3", "--rounds", "1")).stdout
    expect(f"pfedbred/fmnist-dnn+am ({am})" in said, f"the hash of the preset is not in: {said}")
    wrong = lab(program, "presets", "nothing")
    expect(wrong.returncode == 2 and "nothing" in wrong.stderr, "a preset that there is not")


def rounds_and_examples(program, folder):
    """JSON lines are the rounds of the JSON; kept hits add up to the accuracies, and stand only where they are asked for."""
    out, lines = folder / "lines.json", folder / "lines.jsonl"
    arguments = [*SMALL, "--algorithm", "fedavg-ft", "--rounds", "3", "--json", out, "--jsonl", lines]
    ran(lab(program, *arguments, "--hits"))
    report = json.loads(out.read_text())
    expect([json.loads(line) for line in lines.read_text().splitlines()] == report["rounds"], "JSON lines")
    for client in report["final"]["per_client"]:
        for model in ["global", "personal"]:
            hits = client[f"hits_{model}"]
            expect(len(hits) == client["n_test"] and set(hits) <= {"0", "1"}, f"hits of client {client['id']}")
            expect(abs(hits.count("1") / len(hits) - client[f"accuracy_{model}"]) < 1e-12, "hits and accuracy differ")
    ran(lab(program, *arguments))
    expect("hits" not in out.read_text(), "hits that nobody asked for")


def phases_of_rounds(program, folder):
    """A trace has every round and visit, on the tracks of the workers, and changes nothing."""
    traced, plain, trace = folder / "traced.json", folder / "plain.json", folder / "trace.json"
    arguments = [*SMALL, "--rounds", "4", "--eval-every", "2", "--threads", "2"]
    ran(lab(program, *arguments, "--json", traced, "--trace", trace))
    ran(lab(program, *arguments, "--json", plain))
    expect(final_hash(traced) == final_hash(plain), "tracing changed the run")
    events = json.loads(trace.read_text())["traceEvents"]
    spans = [e for e in events if e["ph"] == "X"]
    expect({e["args"]["name"] for e in events if e["ph"] == "M"} == {"run", "worker 0", "worker 1"}, "tracks")
    expect(sum(e["name"] == "visit" for e in spans) == 4 * 7, "a visit for each client of each round")
    expect(all(e["tid"] in (1, 2) for e in spans if e["name"] == "visit"), "visits are on the tracks of workers")
    on_run = [e["name"] for e in spans if e["tid"] == 0]
    expect([n for n in on_run if n.startswith("round")] == [f"round {r}" for r in range(1, 5)], f"rounds: {on_run}")
    expect(on_run.count("merge") == 4 and on_run.count("evaluate") == 2, f"phases: {on_run}")
    for record in (traced, plain):  # the report needs no trace
        phases = [[p["name"] for p in r["phases"]] for r in json.loads(record.read_text())["rounds"]]
        expect(phases == [["visits", "merge"], ["visits", "merge", "evaluate"]] * 2, f"phases in JSON: {phases}")
    rounds = [e for e in spans if e["name"].startswith("round ")]
    for visit in (e for e in spans if e["name"] == "visit"):
        inside = any(r["ts"] <= visit["ts"] and visit["ts"] + visit["dur"] <= r["ts"] + r["dur"] + 1e-3 for r in rounds)
        expect(inside, "a visit outside of every round")


def kernels_of_visits(program, folder):
    """With --trace-kernels each task tells its kernels, the first of a worker shows every call; nothing else changes."""
    traced, plain, trace = folder / "kernels.json", folder / "no-kernels.json", folder / "kernels-trace.json"
    arguments = [*SMALL, "--model", "dnn", "--rounds", "4", "--threads", "2"]
    ran(lab(program, *arguments, "--json", traced, "--trace", trace, "--trace-kernels"))
    ran(lab(program, *arguments, "--json", plain))
    expect(final_hash(traced) == final_hash(plain), "watching kernels changed the run")
    spans = [e for e in json.loads(trace.read_text())["traceEvents"] if e["ph"] == "X" and e["tid"] > 0]
    visits = [e for e in spans if e["name"] == "visit"]
    expect(len(visits) == 4 * 7 and all(e.get("args") for e in visits), "a visit without its kernels")
    for visit in visits:
        expect(visit["args"]["affine"]["calls"] > 0, f"no forward pass: {visit}")
        expect(sum(k["ms"] for k in visit["args"].values()) <= visit["dur"] / 1000, "kernels take longer than their visit")
    calls = [e for e in spans if e["name"] not in ("visit", "merge", "evaluate")]
    expect({e["name"] for e in calls} >= {"affine", "softmax_rows"}, f"kernels: {sorted({e['name'] for e in calls})}")
    shown = 0
    for visit in visits:
        inside = [e for e in calls if e["tid"] == visit["tid"] and visit["ts"] <= e["ts"] and
                  e["ts"] + e["dur"] <= visit["ts"] + visit["dur"] + 1e-3]
        shown += bool(inside)
        expect(len(inside) in (0, sum(k["calls"] for k in visit["args"].values())), "some calls of a visit, not all")
    expect(4 <= shown <= 8, f"{shown} visits show their calls: of each round the first of each worker")
    expect(len(calls) <= 20000, "more calls than a trace may hold")
    ran(lab(program, *arguments[:-4], "--rounds", "40", "--set", "epochs=30", "--eval-every", "40", "--trace", trace, "--trace-kernels"))
    spans = [e for e in json.loads(trace.read_text())["traceEvents"] if e["ph"] == "X" and e["tid"] > 0]
    calls = [e for e in spans if e["name"] not in ("visit", "merge", "evaluate")]
    expect(len(calls) == 20000, f"a long run fills the trace and no more: {len(calls)} calls")
    alone = lab(program, *arguments, "--trace-kernels")
    expect(alone.returncode == 2 and "--trace FILE" in alone.stderr, f"kernels without a trace: {alone.stderr}")


def names_of_models(program, folder):
    """All clients' models are in one file, under the names of the layout."""
    models = folder / "models.npz"
    ran(lab(program, *SMALL, "--model", "dnn", "--algorithm", "fedavg-ft", "--rounds", "1", "--models", models))
    with zipfile.ZipFile(models) as file:
        names = {name.removesuffix(".npy") for name in file.namelist()}
    layout = {name.removeprefix("global/") for name in names if name.startswith("global/")}
    expect(len(layout) == 4 and all("." in name for name in layout), f"names of a two-layer network: {layout}")
    expect(names == {f"global/{n}" for n in layout} | {f"client/{k}/{n}" for k in range(12) for n in layout}, "clients' models")


def bar_on_a_terminal(program):
    """On a terminal a bar with round, accuracy and time left, which fits its width; with --quiet nothing."""
    for quiet, columns in [([], 0), ([], 120), ([], 80), ([], 70), ([], 30), (["--quiet"], 80)]:
        master, slave = os.openpty()
        fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
        process = subprocess.Popen([program, *SMALL[:-1], "--algorithm", "pfedme", "--rounds", "4", "--eval-every", "2", *quiet],
                                   stdout=subprocess.PIPE, stderr=slave)
        os.close(slave)
        seen = b""
        while True:
            try:
                piece = os.read(master, 4096)
            except OSError:  # the other end is closed
                break
            if not piece:
                break
            seen += piece
        said = process.communicate()[0]
        os.close(master)
        expect(process.returncode == 0, "the run on a terminal")
        if quiet:
            expect(not seen and not said, f"--quiet said {seen + said}")
            continue
        drawn = [line.removesuffix(b"\x1b[K").strip() for line in seen.split(b"\r") if re.search(rb"round \d+/", line)]
        expect(len(drawn) == 4 and all(len(line) < (columns or 80) for line in drawn), f"{columns} columns: {drawn}")
        expect(all(b"s left" in line for line in drawn), f"what is left: {drawn}")
        expect(all(line.startswith(b"[") for line in drawn) == (columns not in (70, 30)), f"the bar: {drawn}")
        if columns != 30:
            expect(re.search(rb"round 3/4  global [0-9.]+ %  personal [0-9.]+ % \(round 2\)", seen), f"measured last: {seen}")


FAKE_LAB = """#!/usr/bin/env python3
import json, pathlib, sys
asked = dict(zip(sys.argv, sys.argv[1:]))
with open(pathlib.Path(__file__).with_suffix(".log"), "a") as log:
    log.write(" ".join(sys.argv[1:]) + "\\n")
if asked["--seed"] == "13":
    sys.exit(1)
value = 0.9 + 0.001 * int(asked["--seed"])
evaluations = [{"model": model, "split": "test", "clients": "all", "pick": "mean_last:10", "average": "pooled",
                "metric": "accuracy", "stage": stage, "value": value + 0.01 * bool(stage)}
               for model in ("global", "personal") for stage in ("", "tune_steps=1", "tune_epochs=2")]
if "--save-weights" in asked:
    pathlib.Path(asked["--save-weights"]).write_text("weights")
pathlib.Path(asked["--json"]).write_text(json.dumps(
    {"version": "0", "kernel_set": "none", "final": {"evaluations": evaluations}}))
"""


def tables_of_results(folder):
    """scripts/results: what was run is not run again, what was not run says so, the rest of the page is left alone."""
    script = pathlib.Path(__file__).resolve().parents[2] / "scripts" / "results"
    fake, page, log, record = folder / "fake", folder / "results.md", folder / "fake.log", folder / "runs.jsonl"
    fake.write_text(FAKE_LAB)
    fake.chmod(0o755)
    page.write_text("# Page\n\nabove\n\n<!-- results: pfedbred-table1 -->\nold\n<!-- /results: pfedbred-table1 -->\n\nbelow\n")

    def results(*more):
        return subprocess.run([sys.executable, "-B", script, "pfedbred-table1", "--lab", fake, "--record", record, "--page",
                               page, "--rows", "pfedme", "--models", "mclr", *more], capture_output=True, text=True, check=False)

    ran(results("--seeds", "1,2"))
    calls = len(log.read_text().splitlines())
    expect(calls == 4, f"two seeds of pFedMe (+FT from the same training) and of pFedMe+AM are four runs, not {calls}")
    text = page.read_text()
    expect(text.startswith("# Page\n\nabove\n") and text.endswith("\nbelow\n") and "old" not in text, "the page around the table")
    # 90.1 and 90.2: mean 90.15, standard deviation 0.1 / sqrt 2
    for row in ["| pFedMe | 97.6 | 90.15 ± 0.07 | 98.63 | not run |", "| pFedMe+FT | 97.63 | 91.15 ± 0.07 |",
                "| mh (code) | 98.44 | not run |", "missed by 7.35"]:
        expect(row in text, f"'{row}' is not in the table: {text}")
    ran(results("--seeds", "1,2"))
    expect(len(log.read_text().splitlines()) == calls and page.read_text() == text, "what was run is run again")
    lines = record.read_text()
    expect(len(lines.splitlines()) == calls and '"seed": 2, "values": {"global local": 90.2' in lines, f"a line for each run: {lines}")
    expect("90.10" in ran(results("--seeds", "1", "--rounds", "2")).stdout, "a short table is printed")
    expect(page.read_text() == text and record.read_text() == lines, "a short table was written")
    ran(results("--seeds", "1", "--again", "--commit", "abc1234"))
    expect(len(record.read_text().splitlines()) == calls + 2, "--again runs what was run")
    ran(results("--no-run", "--seeds", "1,2", "--lab", folder / "none"))
    again = page.read_text()
    expect("2 runs of commit abc1234" in " ".join(again.split()) and text.split("kernels none")[0] == again.split("kernels none")[0],
           f"the newest lines count: {again}")
    text = again
    broken = results("--seeds", "1,13")
    expect(broken.returncode != 0 and page.read_text() == text, "a failed run changed the page")
    unknown = results("--rows", "pfedmee")
    expect(unknown.returncode == 2 and "pfedmee" in unknown.stderr, "an unknown row")

    def begun(*more):  # a table whose runs begin with weights that a run before them leaves in the current directory
        known = len(log.read_text().splitlines())
        ran(subprocess.run([sys.executable, "-B", script, "fedalt-cifar10", "--lab", fake, "--record", record, "--page", page, "--rows",
                            "ft-part", "--models", "adapter", *more], capture_output=True, text=True, check=False, cwd=folder))
        return log.read_text().splitlines()[known:]

    calls = begun("--seeds", "1,2")
    files = [f"fedalt-cifar10-{seed}.safetensors" for seed in (1, 2)]
    expect(len(calls) == 4 and all(f"--save-weights {name} " in calls[i] and f"--weights {name} " in calls[i + 2] for i, name in enumerate(files)),
           f"the runs that others begin with come first: {calls}")
    expect(not begun("--seeds", "1,2"), "what was run is run again")
    (folder / files[0]).unlink()
    expect(not begun("--seeds", "1,2") and "--save-weights" in begun("--seeds", "1", "--again")[0], "weights that are gone are made where they are read")


def figures_of_pages(listed):
    """Every page of a system shows the figure that scripts/figures makes for it, of algorithms and presets that there are."""
    root = pathlib.Path(__file__).resolve().parents[2]
    said = ran(lab(root / "scripts" / "figures", "--list")).stdout
    made = {line.split(",")[0] for line in said.splitlines() if not line.startswith(" ")}
    pages = {page.stem: page.read_text() for page in (root / "docs" / "systems").glob("*.md")}
    expect(made == set(pages), f"figures {made}, pages {set(pages)}")
    for name, text in pages.items():
        expect(f"(../images/{name}.svg)" in text and f"scripts/figures {name}" in text, f"{name}.md does not show its figure")
        expect((root / "docs" / "images" / f"{name}.svg").read_text().startswith("<svg"), f"{name}.svg is no drawing")
    for flag, kind in {"--algorithm": "algorithms", "--preset": "presets"}.items():
        used = {words[i + 1] for words in map(str.split, said.splitlines()) for i, word in enumerate(words) if word == flag}
        known = {each["name"] for each in listed[kind]}
        expect(used and used <= known, f"scripts/figures, {flag}: {used - known}")


def shifted_images(program, folder):
    """--shifts: each kind of model on everybody's test images, shifted, and their mean; other shifts, other numbers."""
    dice = random.Random(3)
    images, labels, out = folder / "boards", folder / "classes", folder / "shifts.json"
    classes = [i % 2 for i in range(140)]
    # Class 1 is a chess board in dim noise, class 0 as bright without it: pixelate averages the board away.
    pixels = bytes(dice.randrange(60) + (80 * ((x + y) % 2) if c else 40) for c in classes for y in range(6) for x in range(6))
    images.write_bytes(struct.pack(">IIII", 0x803, 140, 6, 6) + pixels)
    labels.write_bytes(struct.pack(">II", 0x801, 140) + bytes(classes))
    ran(lab(program, "run", "--data", f"idx:{images},{labels}", "--partition", "iid", "--clients", "4", "--per-round", "4",
            "--rounds", "30", "--batch", "5", "--model", "mclr", "--algorithm", "fedavg-ft", "--set", "rate=0.1",
            "--shifts", "none,brightness:1,pixelate:5", "--json", out, "--quiet"))
    report = json.loads(out.read_text())
    value = {(e["model"], e["on"]): e["value"] for e in report["final"]["evaluations"] if e["on"].startswith("shift:")}
    expect(len(value) == 6, f"two kinds of models on two shifts and their mean: {value}")
    for model in ["global", "personal"]:
        bright, coarse, mean = (value[model, "shift:" + name] for name in ["brightness:1", "pixelate:5", "mean of 2"])
        expect(abs(mean - (bright + coarse) / 2) < 1e-9, f"{model}: {mean} is not the mean of {bright} and {coarse}")
        expect(coarse < bright - 0.1, f"{model}: {bright} is not far above {coarse}")
    whole = {e["model"]: e["value"] for e in report["final"]["evaluations"] if e["on"] == "union"}
    expect(len(whole) == 2 and min(whole.values()) > 0.9, f"both on everybody's images as they are: {whole}")
    expect(any(e["id"] == "shifts" for e in report["extras"]), "the table of shifts")


def full_disk(program, folder):
    """A checkpoint that cannot be written leaves the old one whole and takes nothing else with it; the exit code is 1."""
    directory, out = folder / "checkpoints", folder / "after.json"
    arguments = [*SMALL, "--algorithm", "local", "--model", "dnn", "--rounds", "8", "--checkpoint", directory,
                 "--checkpoint-every", "4", "--eval-every", "8"]
    ran(lab(program, *arguments, "--json", out))
    max(directory.glob("round-*")).unlink()  # four rounds are left to go
    kept = {p.name: p.read_bytes() for p in directory.glob("round-*")}
    expect(len(kept) == 1, f"one checkpoint is left: {set(kept)}")
    limit = 4096

    def small_files():
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))

    whole, table = history(out), folder / "after.csv"
    result = lab(program, *arguments, "--resume", "--csv", table, preexec_fn=small_files)
    expect(result.returncode == 1, f"exit {result.returncode}: {result.stderr}")
    expect(len(result.stderr.strip().splitlines()) == 1 and f"could not write {directory}/round-" in result.stderr, result.stderr)
    expect({int(line.split(",")[0]) for line in table.read_text().splitlines()[1:]} == {round for round, _ in whole},
           f"the other files are written: {table.read_text()}")
    expect({p.name: p.read_bytes() for p in directory.glob("round-*")} == kept, "the old checkpoints changed")
    expect(not list(directory.glob(".tessera-*.tmp")), "a half-written file is left")
    said = lab(program, *(a for a in arguments if a != "--quiet"), "--resume", preexec_fn=small_files)
    expect(said.returncode == 1 and "last round, mean over clients" in said.stdout, f"the summary: {said.stdout}")
    expect("the run goes on without it" in said.stderr, f"told when it happens: {said.stderr}")
    seeds = ["--checkpoint", folder / "of seeds", "--seeds", "1,2", "--csv", folder / "of.csv", "--checkpoint-every", "1"]
    result = lab(program, *SMALL, "--algorithm", "local", "--model", "dnn", "--rounds", "3", *seeds, preexec_fn=small_files)
    expect(result.returncode == 1 and result.stderr.count("could not write") == 2, f"once for each seed: {result.stderr}")
    expect((folder / "of-seed-1.csv").exists() and (folder / "of-seed-2.csv").exists(), "both seeds are run")
    private = lab(program, *SMALL, "--dp", "noise=1", "--model", "dnn", "--rounds", "3", "--checkpoint", folder / "private",
                  "--csv", folder / "private.csv", preexec_fn=small_files)
    expect(private.returncode == 1 and "could not write" in private.stderr and not (folder / "private.csv").exists(),
           f"no noise is drawn twice: {private.stderr}")
    unwritten_files(program, folder)
    unwritten_words(program, folder)


def unwritten_words(program, folder):
    """Standard output that takes nothing is told on the error stream, with exit 1; files are written all the same."""
    runs = [folder / f"words-{seed}.json" for seed in (1, 2)]
    for seed, out in enumerate(runs, 1):
        ran(lab(program, *SMALL, "--rounds", "2", "--seed", seed, "--split-seed", "1", "--json", out))
    out = folder / "unheard.json"
    for words in (["list"], ["list", "fedavg"], ["list", "--json"], ["presets"], ["presets", "flow/fmnist-dir01", "--text"],
                  ["--help"], ["run", "--help"], ["--version"], ["compare", *map(str, runs)],
                  [*SMALL[:-1], "--rounds", "2", "--json", str(out)],
                  ["sweep", *SMALL[1:-1], "--rounds", "2", "--grid", "rate=0.1"]):
        with open("/dev/full", "w") as full:
            result = subprocess.run([program, *words], stdout=full, stderr=subprocess.PIPE, text=True, check=False)
        said = result.stderr.strip().splitlines()
        expect(result.returncode == 1 and said and said[-1].startswith("tessera-lab: standard output could not be written"),
               f"{words}: exit {result.returncode}: {result.stderr}")
    expect(final_hash(out) == final_hash(runs[0]), "the files of a run that could not say a word")
    with open("/dev/full", "w") as full:
        quiet = subprocess.run([program, *SMALL, "--rounds", "1"], stdout=full, stderr=subprocess.PIPE, text=True, check=False)
    expect(quiet.returncode == 0 and not quiet.stderr, f"--quiet has nothing to say: {quiet.stderr}")


def out_of_memory(program):
    """Too large a run ends with a sentence, whether its size is no number or there is no memory for it."""
    def little_memory():
        resource.setrlimit(resource.RLIMIT_AS, (2**29, 2**29))

    result = lab(program, "run", "--data", "synthetic", "--clients", "1000000", "--rounds", "1", preexec_fn=little_memory, timeout=60)
    expect(result.returncode == 1 and result.stderr.startswith("tessera-lab: memory ran out; make the run smaller"),
           f"exit {result.returncode}: {result.stderr}")
    expect(len(result.stderr.splitlines()) == 1, result.stderr)


def unwritten_files(program, folder):
    """What cannot be written in the end takes nothing else with it: no other file, no seed, no line of the summary."""
    limit = 12000  # bytes; the models are larger, the CSV is not

    def small_files():
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))

    arguments = [*SMALL[:-1], "--algorithm", "local", "--model", "dnn", "--rounds", "2"]
    for more, kept in [(["--seeds", "1,2"], ["t-seed-1.csv", "t-seed-2.csv", "l-seed-1.jsonl", "l-seed-2.jsonl"]),
                       ([], ["t.csv", "l.jsonl"])]:
        asked = [*arguments, *more, "--csv", folder / "t.csv", "--jsonl", folder / "l.jsonl"]
        whole = ran(lab(program, *asked)).stdout
        expected = {name: (folder / name).read_bytes() for name in kept}
        for name in kept:
            (folder / name).unlink()
        result = lab(program, *asked, "--models", folder / "m.npz", "--json", folder / "all.json", "--report", folder / "p.html",
                     preexec_fn=small_files)
        said = result.stderr.strip().splitlines()[-1]
        expect(result.returncode == 1, f"exit {result.returncode}: {said}")
        models = ["m-seed-1.npz", "m-seed-2.npz"] if more else ["m.npz"]
        expect(all(f"could not write {folder / name}" in said for name in [*models, "p.html"]), f"not all are named: {said}")
        expect(result.stdout == whole, f"the summary is another one: {result.stdout}")
        expect([len((folder / name).read_bytes().splitlines()) for name in kept] ==
               [len(text.splitlines()) for text in expected.values()], f"{more}: files of the rounds")
        expect(not list(folder.glob("m*.npz")) and not (folder / "p.html").exists(), "a file that could not be written is there")


def runs_of(path):
    report = json.loads(path.read_text())
    return report.get("runs", [report])


def several_seeds(program, folder):
    """Seeds share the split of the first, are each the run of that seed, and have mean and spread everywhere."""
    out, page, one = folder / "seeds.json", folder / "seeds.html", folder / "one.json"
    arguments = [*SMALL[:-1], "--algorithm", "fedavg-ft", "--rounds", "3"]
    said = ran(lab(program, *arguments, "--seeds", "1,2,3", "--json", out, "--report", page, "--csv", folder / "s.csv",
                   "--models", folder / "s.npz")).stdout
    report = json.loads(out.read_text())
    expect(report["seeds"] == [1, 2, 3] and "seed" not in report["config"], "which seeds")
    expect({r["config"]["split_seed"] for r in report["runs"]} == {1}, "the split is that of the first seed")
    for seed, run in zip([1, 2, 3], report["runs"]):
        ran(lab(program, *arguments, "--seed", seed, "--split-seed", "1", "--json", one))
        expect(final_hash(one) == run["final"]["state_hash"], f"seed {seed} of several is not the run of that seed")
    ran(lab(program, *arguments, "--seed", "2", "--json", one))
    expect(final_hash(one) != report["runs"][1]["final"]["state_hash"], "alone, a seed moves the split")
    for number in report["final"]["evaluations"]:
        values = number["values"]
        same = [[e["value"] for e in run["final"]["evaluations"] if all(e[k] == number[k] for k in e if k != "value")]
                for run in report["runs"]]
        expect(same == [[v] for v in values], "the values are not those of the runs")
        # Two ways of adding up three numbers below 10 differ by less than this.
        expect(abs(number["value"] - statistics.mean(values)) < 1e-12, "the mean over seeds")
        expect(abs(number["deviation"] - statistics.stdev(values)) < 1e-12, "the deviation over seeds")
    expect("\u00b1" in said and "seed 3" in said, f"the summary: {said}")
    drawn = page.read_text()
    expect('id="fig-extra-seeds"' in drawn, "how clients' changes vary over seeds is not in the report")
    for figure in ["accuracy", "loss"]:
        curves = drawn.split(f'id="fig-{figure}"')[1].split("</figure>")[0]
        expect(curves.count('class="band"') == 2, f"{figure}: no band for each model")
    expect({p.name for p in folder.glob("s-*")} == {f"s-seed-{i}.{kind}" for i in (1, 2, 3) for kind in ("csv", "npz")},
           "files of one run")
    ran(lab(program, *arguments, "--seeds", "3,1", "--split-seed", "9", "--json", one))
    expect({r["config"]["split_seed"] for r in runs_of(one)} == {9}, "--split-seed")

    whole, broken, directory = folder / "whole.json", folder / "broken.json", folder / "checkpoints"
    long = [*SMALL, "--algorithm", "local", "--rounds", "60", "--eval-every", "20", "--seeds", "4,5,6"]
    begin = time.monotonic()
    ran(lab(program, *long, "--json", whole))
    kills = kill_often(program, long, broken, directory, time.monotonic() - begin, 6)
    expect(kills >= 1, "the seeds ended before they could be killed")
    expect([r["final"]["state_hash"] for r in runs_of(broken)] == [r["final"]["state_hash"] for r in runs_of(whole)],
           "resumed seeds end elsewhere")
    expect({p.name for p in directory.iterdir()} == {"seed-4", "seed-5", "seed-6"}, "each seed has its own checkpoints")


def sweep(program, folder):
    """A grid is judged on validation data, its best run on all; killed and resumed it ends with the same table."""
    common = ["--data", "synthetic", "--clients", "12", "--per-round", "7", "--algorithm", "pfedme", "--rounds", "6"]
    grid = ["--grid", "rate=0.01,0.1,1e30", "lambda=1,15"]
    out, alone = folder / "sweep.json", folder / "alone.json"
    said = ran(lab(program, "sweep", *common, *grid, "--checkpoint", folder / "kept", "--json", out)).stdout
    lines = said.splitlines()
    settings = [f"rate={rate} lambda={pull}" for rate in ("0.01", "0.1", "1e30") for pull in ("1", "15")]
    expect([line.split("  ")[0] for line in lines[:6]] == settings, f"one line for each cell, in order: {lines[:6]}")
    expect(all("diverged" in line for line in lines[4:6]), "a rate of 1e30 diverges")
    cells = {cell["cell"]: cell for cell in (json.loads(p.read_text()) for p in (folder / "kept" / "cells").glob("*.json"))}
    expect(set(cells) == set(settings), f"kept cells: {set(cells)}")
    for name in settings[:4]:
        flags = [word for setting in name.split() for word in ("--set", setting)]
        ran(lab(program, "run", *common, *flags, "--validation", "0.2", "--quiet", "--json", alone))
        value, = [e["value"] for e in json.loads(alone.read_text())["final"]["evaluations"]
                  if (e["split"], e["model"], e["pick"], e["average"], e["metric"]) ==
                  ("validation", "personal", "mean_last:6", "pooled", "accuracy")]
        expect(cells[name]["values"] == [value], f"{name} is not judged by its validation accuracy")
    best = max(settings[:4], key=lambda name: cells[name]["values"][0])
    expect(lines[6] == f"chosen on validation data: {best}", f"chosen: {lines[6]}")
    flags = [word for setting in best.split() for word in ("--set", setting)]
    ran(lab(program, "run", *common, *flags, "--quiet", "--json", alone))
    expect(final_hash(alone) == final_hash(out), "the chosen settings were not run on all data")
    table, = [extra for extra in json.loads(out.read_text())["extras"] if extra["id"] == "sweep"]
    expect(table["categories"] == settings, "the table of the report")
    marked = [name for name, text in zip(settings, table["series"][0]["texts"]) if text.endswith(", chosen")]
    expect(marked == [best], f"the table marks {marked}")
    over, = [extra for extra in json.loads(out.read_text())["extras"] if extra["id"] == "sweep-map"]
    expect((over["categories"], [row["name"] for row in over["series"]]) == (["1", "15"], ["0.01", "0.1", "1e30"]), f"the map: {over}")
    expect(over["series"][2]["y"] == [None, None] and None not in over["series"][0]["y"], "cells that diverged are empty")
    mean = statistics.mean(100 * cells[name]["values"][0] for name in settings[:4])
    expect(abs(over["series"][1]["y"][1] - (100 * cells[settings[3]]["values"][0] - mean)) < 1e-9, "a cell of the map")
    rate, pull = (setting.split("=")[1] for setting in best.split())
    edge = f"the best lambda, {pull}, lies at the edge of the grid; try {'smaller' if pull == '1' else 'larger'} values too"
    expect(edge in lines and edge in json.loads(out.read_text())["notes"], f"the edge of the grid: {lines[6:]}")
    expect(("the best rate" in said) == (rate == "0.01"), f"a value inside the grid is at no edge: {lines[6:]}")
    named = ran(lab(program, "sweep", *common[:-2], "--rounds", "2", "--grid", "lr=0.01,0.1")).stdout
    expect("chosen on validation data: lr=" in named, f"a setting by another library's name: {named}")

    kills = 0
    dice = random.Random(3)
    while True:
        process = subprocess.Popen([program, "sweep", *common, *grid, "--checkpoint", str(folder / "broken"), "--resume",
                                    "--json", str(alone)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        if kills == 4:
            resumed = process.communicate()[0]
            break
        for _ in range(dice.randint(1, 2)):  # killed once so many cells were told
            process.stdout.readline()
        process.send_signal(signal.SIGKILL)
        process.communicate()
        kills += 1
    expect(process.returncode == 0 and resumed == said, f"killed {kills} times, the table is another one: {resumed}")
    expect(final_hash(alone) == final_hash(out), "killed and resumed, the run on all data is another one")
    expect(not list((folder / "broken").rglob(".tessera-*.tmp")), "a killed writer left files behind")

    told = next(p for p in (folder / "kept" / "cells").glob("*.json") if json.loads(p.read_text())["cell"] == settings[0])
    told.write_text(told.read_text().replace('"values":[', '"values":[0.9999,'))
    again = ran(lab(program, "sweep", *common, *grid, "--checkpoint", folder / "kept", "--resume")).stdout
    expect(again.splitlines()[0] != lines[0] and again.splitlines()[1:6] == lines[1:6], "finished cells were run again")
    kept = {p: p.read_bytes() for p in (folder / "kept").rglob("*") if p.is_file()}
    fresh = lab(program, "sweep", *common, *grid, "--checkpoint", folder / "kept")
    expect(fresh.returncode == 2 and "--resume" in fresh.stderr and not fresh.stdout, f"a used directory: {fresh.stderr}")
    expect({p: p.read_bytes() for p in kept} == kept, "a refused sweep changed what an earlier one left")

    for asked, text in [(["--grid", "rate=1,-1"], "cell rate=-1"), (["--grid", "rat=1"], "rat"), ([], "--grid"),
                        (["--grid", "rate"], "NAME=VALUE"), (["--grid", "rate=1", "--select", "test"], "--select test"),
                        (["--grid", "rate=1", "--split-file", "f"], "--split-file"),
                        (["--grid", "rate=0.1", "rate=0.2"], "--grid: rate and rate are the same"),
                        (["--grid", "local.rate=0.1", "rate=0.2"], "--grid: local.rate and rate are the same"),
                        (["--grid", "rate=0.2", "local.rate=0.1"], "--grid: rate and local.rate are the same"),
                        (["--grid", "rate=0.1,0.2,0.1"], "--grid rate: 0.1 stands twice"),
                        (["--grid", "rate=0.001,0.1", "--set", "local.rate=0.1"],
                         "cells rate=0.001 and rate=0.1 are the same run; a more specific setting"),
                        (["--grid", "rate=0.1", "--set", "local.rate=0.2"], "--grid rate=0.1: it would not be run"),
                        (["--grid", "lambda=1,15", "rate=0.1", "--set", "local.rate=0.2"], "--grid rate=0.1: it would not be"),
                        (["--grid", "rate=0.1,0.10"], "cells rate=0.1 and rate=0.10 are the same run"),
                        (["--grid", "server=mean,momentum", "--set", "tau=0.01"], "tau is not read with server=mean"),
                        (["--grid", "rate=1", "--validation", "0"], "--validation 0: a sweep chooses on validation data")]:
        result = lab(program, "sweep", *common, *asked)
        expect(result.returncode == 2 and text in result.stderr and len(result.stderr.splitlines()) == 1,
               f"{asked}: exit {result.returncode}, {result.stderr}")
    said = ran(lab(program, "sweep", *common, "--grid", "server=mean,adam,yogi", "--set", "tau=1e-3", "--json", out)).stdout
    expect([line.split("  ")[0] for line in said.splitlines()[:3]] == ["server=mean", "server=adam", "server=yogi"],
           f"a flag for some of the servers: {said}")
    staged = lab(program, "sweep", *SMALL[1:], "--stages", "fedavg rounds=2; fedavg-ft rounds=2", "--grid", "rounds=3")
    expect(staged.returncode == 2 and "--grid rounds=3: it would not be run" in staged.stderr, f"of no stage: {staged.stderr}")
    for fine in (["--grid", "rate=0.1", "--set", "rate=0.2"], ["--grid", "local.rate=0.1", "--set", "rate=0.2"],
                 ["--grid", "rate=0.1", "--set", "local.rate=0.1"], ["--grid", "rounds=2", "batch=10", "trains=sampled"]):
        ran(lab(program, "sweep", *common, *fine))
    hopeless = lab(program, "sweep", *common, "--grid", "rate=1e30")
    expect(hopeless.returncode == 1 and "diverg" in hopeless.stderr, f"nothing to choose: {hopeless.stderr}")


def compare(program, folder):
    """Runs on one split are compared, on two they are not; a claim needs seeds."""
    def made(name, *more):
        path = folder / name
        rounds = [] if "--rounds" in more else ["--rounds", "5"]
        ran(lab(program, *SMALL, *rounds, "--json", path, *more))
        return path

    a = made("a.json", "--algorithm", "fedavg", "--seeds", "1,2,3", "--hits")
    b = made("b.json", "--algorithm", "fedavg-ft", "--seeds", "1,2,3", "--hits", "--set", "tune_epochs=5")
    other = made("other.json", "--algorithm", "fedavg", "--seeds", "4,5,6", "--split-seed", "1")
    single = made("single.json", "--algorithm", "fedavg", "--seed", "7", "--split-seed", "1")
    elsewhere = made("elsewhere.json", "--algorithm", "fedavg-ft", "--seeds", "4,5,6")
    page, numbers = folder / "compare.html", folder / "compare.json"
    said = ran(lab(program, "compare", a, b, other, single, "--report", page, "--json", numbers)).stdout
    for text in ["b against", "3 pairs of seeds", "3 and 3 seeds", "too few seeds for a claim", "over 12 clients",
                 "first only"]:
        expect(text in said, f"'{text}' is not in: {said}")
    figures = {figure["id"]: figure for figure in json.loads(numbers.read_text())}
    expect(set(figures) == {"ranking", "comparison", "client-differences", "overlap"}, f"figures: {set(figures)}")
    served = {name: statistics.mean(statistics.mean(max(c[f"accuracy_{m}"] for m in (model,)) for c in run["final"]["per_client"])
                                    for run in runs_of(path))
              for name, path, model in (("a", a, "global"), ("b", b, "personal"), ("other", other, "global"),
                                        ("single", single, "global"))}
    ranking = figures["ranking"]
    expect(ranking["categories"] == sorted(served, key=served.get, reverse=True), f"{ranking['categories']}, served {served}")
    gains = dict(zip(ranking["categories"], ranking["series"][1]["y"]))
    expect(gains["a"] is None and abs(gains["b"] - 100 * (served["b"] - served["a"])) < 1e-6, f"gains against the first: {gains}")
    expect("ranking by what is served" in said and " 1. " in said, f"the ranking in words: {said}")
    alone = made("alone.json", "--algorithm", "local", "--trains", "all")
    expect("gains against alone in points" in ran(lab(program, "compare", a, alone)).stdout, "Local is the usual baseline")
    expect("gains against a in points" in ran(lab(program, "compare", a, alone, "--baseline", "a")).stdout, "one that is named")
    nobody = lab(program, "compare", a, alone, "--baseline", "nobody")
    expect(nobody.returncode == 2 and "it is none of the files" in nobody.stderr, nobody.stderr)
    expect('<nav class="contents">' in page.read_text(), "a comparison has contents")
    values = [[e["value"] for e in run["final"]["evaluations"] if (e["model"], e["pick"], e["average"], e["metric"]) ==
               (model, "last", "unweighted", "accuracy")][0] for path, model in ((a, "global"), (b, "personal"))
              for run in runs_of(path)]
    row = next(i for i, name in enumerate(figures["comparison"]["categories"])
               if "b against" in name and "accuracy, last round, mean over clients" in name)
    difference = [s["y"][row] for s in figures["comparison"]["series"] if s["name"] == "difference"][0]
    # Six accuracies, summed in another order.
    expect(abs(difference - 100 * (sum(values[3:]) - sum(values[:3])) / 3) < 1e-9, "the paired difference")
    shares = figures["overlap"]["series"][0]["y"]
    expect(abs(sum(shares) - 100) < 1e-6, f"both, either and neither are all: {shares}")
    expect(all(f'id="fig-extra-{name}"' in page.read_text() for name in figures), "figures of the report")
    said = ran(lab(program, "compare", a, other)).stdout
    expect("overlap" not in said and "note:" not in said, "hits of one side are not enough")
    shorter = made("shorter.json", "--algorithm", "fedavg", "--seed", "1", "--rounds", "2")
    expect("trained for 5 rounds" in ran(lab(program, "compare", a, shorter)).stdout, "other numbers of rounds")
    refused = lab(program, "compare", a, elsewhere, "--report", folder / "never.html")
    expect(refused.returncode == 2 and "split" in refused.stderr and "--unpaired" in refused.stderr, refused.stderr)
    expect(not (folder / "never.html").exists(), "a refused comparison wrote a report")
    halves = [made(f"{scope}.json", "--algorithm", "fedalt", "--model", "dnn", "--scope", scope) for scope in ("input", "output")]
    ran(lab(program, "compare", *halves, "--json", numbers))
    figures = {figure["id"]: figure for figure in json.loads(numbers.read_text())}
    expect([s["name"] for s in figures["ablation"]["series"]][:2] == ["scope", "personal accuracy"], f"ablation: {figures['ablation']}")
    sizes = sorted(s["x"][0] for s in figures["gain-parameters"]["series"])
    expect(sizes == [20 * 10 + 10, 60 * 20 + 20], f"personal parameters: {sizes}")
    means = ran(lab(program, "compare", a, elsewhere, "--unpaired")).stdout
    expect("3 and 3 seeds" in means and "clients" not in means.replace("mean over clients", ""), f"--unpaired: {means}")
    (folder / "text.json").write_text("{\"a\": ")
    (folder / "empty.json").write_text("{}")
    for asked, text in [([a], "two"), ([a, folder / "text.json"], "text.json"), ([a, folder / "empty.json"], "empty.json"),
                        ([a, folder / "none.json"], "none.json"), ([a, b, "--confidence", "2"], "--confidence 2: it must lie between 0 and 1"),
                        ([a, b, "--confidence", "most"], "--confidence: a number is needed, not most"),
                        ([a, b, "--model", "best"], "best"), ([a, b, "--report", ""], "--report: its value is empty"), ([a, b, "--unpared"], "--unpaired"),
                        ([a, b, "--report", a], "a run is read from there"), ([a, b, "--json", b], "a run is read from there"),
                        ([a, b, "--json", page, "--report", page], "both would be written there")]:
        before = (a.read_bytes(), b.read_bytes(), page.read_bytes())
        result = lab(program, "compare", *asked)
        expect((a.read_bytes(), b.read_bytes(), page.read_bytes()) == before, f"{asked}: a file is another one")
        expect(result.returncode == 2 and text in result.stderr and len(result.stderr.splitlines()) == 1,
               f"{asked}: exit {result.returncode}, {result.stderr}")
    fifty_pairs(program, folder)


def fifty_pairs(program, folder):
    """Two runs of one method with different seeds, fifty times: at 95 % more than 6 claims would have probability 0.012. Of
    two methods the same comparison finds the difference."""
    def made(name, algorithm, first):
        path = folder / f"{name}.json"
        seeds = ",".join(str(first + i) for i in range(3))
        ran(lab(program, *SMALL, "--algorithm", algorithm, "--rounds", "3", "--split-seed", "1", "--seeds", seeds, "--json", path))
        return path

    def claims(one, other):
        said = ran(lab(program, "compare", one, other)).stdout
        line, = [line for line in said.splitlines() if line.strip().startswith("accuracy, last round, mean over clients")]
        return line.endswith(": differ")

    found = sum(claims(made("one", "pfedme", 6 * k + 1), made("other", "pfedme", 6 * k + 4)) for k in range(50))
    expect(found <= 6, f"{found} of 50 pairs of runs of one method are said to differ")
    expect(claims(made("one", "pfedme", 1), made("other", "fedavg", 4)), "two methods are not told apart")


def interrupt(program, folder):
    """Ctrl-C, SIGTERM and SIGHUP end a run after its round, with 128 + the signal; what was kept goes on to where the
    unbroken run ends, and what there was is written and says that it was stopped."""
    whole, broken = folder / "whole.json", folder / "broken.json"
    arguments = [*SMALL[:-1], "--algorithm", "local", "--rounds", "400", "--eval-every", "400"]
    ran(lab(program, *arguments, "--json", whole))
    expect("stopped" not in json.loads(whole.read_text()), "a run that ended is called stopped")

    def stopped(number, *more, hang_up=signal.SIG_DFL):
        def dispositions():
            signal.signal(signal.SIGHUP, hang_up)  # as from a terminal, or as under nohup

        process = subprocess.Popen([program, *map(str, arguments), *map(str, more)], stdout=subprocess.PIPE,
                                   stderr=subprocess.PIPE, text=True, preexec_fn=dispositions)
        expect("round 20/400" in process.stderr.readline(), "the first line of progress")
        process.send_signal(number)
        said, error = process.communicate()
        return process.returncode, said, error.strip().splitlines()[-1]

    for number, name in [(signal.SIGINT, "ctrl-C"), (signal.SIGTERM, "SIGTERM"), (signal.SIGHUP, "SIGHUP")]:
        lines, table, page = (folder / f"{name}.{ending}" for ending in ("jsonl", "csv", "html"))
        kept = ["--checkpoint", folder / name, "--checkpoint-every", "1000000", "--json", broken, "--jsonl", lines, "--csv",
                table, "--report", page]
        code, out, said = stopped(number, *kept)
        expect(code == 128 + number and len(out.splitlines()) == 1, f"{name}: exit {code}: {out}")  # what was read
        expect("interrupted after round" in said and "--resume" in said, said)
        report = json.loads(broken.read_text())
        done = len(report["rounds"])
        expect(20 <= done < 400 and report["stopped"] == f"interrupted after round {done} of 400, by {name}", report.get("stopped"))
        expect(history(broken) == history(whole)[:done], f"{name}: the rounds until then")
        expect([json.loads(line) for line in lines.read_text().splitlines()] == report["rounds"], f"{name}: JSON lines")
        expect(f"did not come to its end: {report['stopped']}" in page.read_text(), f"{name}: the page does not say so")
        ran(lab(program, *arguments, *kept, "--resume"))
        expect(history(broken) == history(whole) and final_hash(broken) == final_hash(whole), f"{name}: resumed, it ends elsewhere")
        expect("stopped" not in json.loads(broken.read_text()) and "come to its end" not in page.read_text(), f"{name}: resumed")
        expect([json.loads(line) for line in lines.read_text().splitlines()] == json.loads(broken.read_text())["rounds"],
               f"{name}: JSON lines of the resumed run")
    code, _, said = stopped(signal.SIGINT, "--json", broken)
    expect(code == 130 and "no checkpoint was kept" in said and "--checkpoint" in said, said)
    seeds = stopped(signal.SIGTERM, "--seeds", "1,2", "--json", broken)
    expect(seeds[0] == 143 and [len(r["rounds"]) < 400 for r in runs_of(broken)] == [True], f"of seeds: {seeds}")
    noted = ran(lab(program, "compare", whole, broken)).stdout if runs_of(broken)[0]["final"]["evaluations"] else "come to its end"
    expect("come to its end" in noted, f"compare does not say that a run was stopped: {noted}")
    code, _, said = stopped(signal.SIGHUP, "--json", broken, hang_up=signal.SIG_IGN)
    expect(code == 0 and final_hash(broken) == final_hash(whole), f"under nohup: exit {code}: {said}")


def growing(program, folder):
    """--jsonl and --csv hold every round that is done, whole, while a run goes on and after a kill; resumed, they end as
    those of the unbroken run do."""
    def rounds_in(path):
        lines = path.read_text().splitlines()
        return [json.loads(line) for line in lines] if path.suffix == ".jsonl" else [line.split(",") for line in lines[1:]]

    def without_time(path):
        if path.suffix == ".jsonl":
            return [{key: value for key, value in row.items() if key not in ("seconds", "phases")} for row in rounds_in(path)]
        return [row[:1] + row[2:] for row in rounds_in(path)]

    def told_while_running(process, files, last):
        """Reads what is there when a line of progress comes; how many rounds there were, at least."""
        line = process.stderr.readline()
        while line and last not in line:
            line = process.stderr.readline()
        shown = int(re.search(r"round (\d+)/", line)[1]) + (30 if "pfedme" in line else 0)
        for path in files:  # all but the round that is just being told of
            told = path.read_text()
            expect(told.endswith("\n") and "earlier run" not in told, f"{path.name}: {told[-200:]}")
            expect(int(rounds_in(path)[-1]["round" if path.suffix == ".jsonl" else 0]) >= shown - 1, f"{path.name} lags behind")
        return shown

    for name, what in {"one": ["--algorithm", "local", "--rounds", "400"],
                       "stages": ["--stages", "fedavg rounds=30; pfedme rounds=200"]}.items():
        arguments = [*SMALL[:-1], *what, "--eval-every", "7"]
        whole = [folder / f"{name}.jsonl", folder / f"{name}.csv"]
        ran(lab(program, *arguments, "--quiet", "--jsonl", whole[0], "--csv", whole[1]))
        broken = [folder / f"{name}-broken.jsonl", folder / f"{name}-broken.csv"]
        out = folder / f"{name}.json"
        kept = ["--jsonl", broken[0], "--csv", broken[1], "--checkpoint", folder / name, "--checkpoint-every", "16", "--json", out]
        for path in broken:
            path.write_text("what an earlier run left\n")
        with subprocess.Popen([program, *map(str, [*arguments, *kept])], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
                              text=True) as process:
            try:
                shown = told_while_running(process, broken, "round 100/" if name == "stages" else "round 200/")
            finally:
                process.send_signal(signal.SIGKILL)
        for path, complete in zip(broken, whole):
            text = path.read_text()
            expect(text.endswith("\n"), f"{path.name}: a torn line")
            rows = without_time(path)
            expect(len(rows) >= shown - 1 and rows == without_time(complete)[:len(rows)], f"{path.name}: after a kill")
        expect(not out.exists(), "a killed run wrote its JSON")
        ran(lab(program, *arguments, *kept, "--resume", "--quiet"))
        for path, complete in zip(broken, whole):
            expect(without_time(path) == without_time(complete), f"{path.name}: resumed, it holds other rounds")
        expect(rounds_in(broken[0]) == json.loads(out.read_text())["rounds"], "JSON lines and JSON of a resumed run")
        ran(lab(program, *arguments, *kept, "--resume", "--quiet"))  # there is nothing left to do
        expect(without_time(broken[0]) == without_time(whole[0]), "resumed after its end")


def leftovers(program, folder):
    """What a killed writer left beside outputs is gone after the next run that writes there; what a living one holds is
    not."""
    dead, living, page = folder / ".tessera-4194304-0.tmp", folder / ".tessera-4194304-1.tmp", folder / "o.html"
    one, other = folder / "one.json", folder / "other.json"
    mine = folder / ".tessera-notes"
    for command in (["--json", one], ["--jsonl", folder / "o.jsonl"], ["--csv", folder / "o.csv"], ["--report", page],
                    ["--models", folder / "o.npz"], ["--trace", folder / "o.trace"], ["--json", other]):
        dead.write_text("half of a fi")
        mine.write_text("a name of somebody else")
        with open(living, "w") as held:
            fcntl.flock(held, fcntl.LOCK_EX)
            ran(lab(program, *SMALL, "--rounds", "1", *command))
            expect(not dead.exists(), f"{command}: a file of a dead writer is still there")
            expect(living.exists() and mine.exists(), f"{command}: a file of a living writer is gone")
        living.unlink()
    dead.write_text("half of a fi")
    ran(lab(program, "compare", one, other, "--report", page))
    expect(not dead.exists(), "compare: a file of a dead writer is still there")


def identity(program, folder):
    """Other features, other public data and another version of the library are another run, and the sentence says which;
    compare names data, split, aux and version apart."""
    table, copy, open_x, open_y = folder / "t.csv", folder / "copy.csv", folder / "x.npy", folder / "y.npy"

    def write_table(path, first="0.5", label=None):
        rows = [[first if i == 0 else f"{i % 7}", f"{i * i % 11}", str(i % 3 if label is None or i else label)] for i in range(90)]
        path.write_text("a,b,y\n" + "".join(",".join(row) + "\n" for row in rows))

    def write_open(first=1.0):
        write_npy(open_x, "<f4", (20, 2), struct.pack("<40f", *([first] + [float(i % 5) for i in range(39)])))
        write_npy(open_y, "<i4", (20,), struct.pack("<20i", *(i % 3 for i in range(20))))

    write_table(table), write_table(copy), write_open()
    dealt = ["--partition", "iid", "--clients", "3", "--per-round", "2", "--normalise", "none", "--model", "dnn", "--quiet"]
    of_table = ["--data", f"csv:{table},label=y", *dealt]
    run = ["run", *of_table, "--rounds", "2"]
    distils = [*run, "--algorithm", "feddf", "--aux", f"npy:{open_x},{open_y}", "--set", "kd_steps=2"]

    def refused(arguments, checkpoint, text):
        result = lab(program, *arguments, "--checkpoint", checkpoint, "--resume")
        expect(result.returncode == 2 and text in result.stderr and len(result.stderr.splitlines()) == 1,
               f"{text}: exit {result.returncode}: {result.stderr}")

    ran(lab(program, *run, "--checkpoint", folder / "plain"))
    ran(lab(program, *distils, "--checkpoint", folder / "distils"))
    write_table(table, "0.25")
    for arguments, checkpoint in ((run, folder / "plain"), (distils, folder / "distils")):
        refused(arguments, checkpoint, "is of a run on other data (it has features and labels=")
    write_table(table, label="2")
    refused(run, folder / "plain", "is of a run on other data (it has features and labels=")
    write_table(table), write_open(2.0)
    refused(distils, folder / "distils", "is of a run with other public data (it has public data=")
    write_open()
    for arguments, checkpoint in ((run, folder / "plain"), (distils, folder / "distils")):  # the control: all as it was
        ran(lab(program, *arguments, "--checkpoint", checkpoint, "--resume"))
    version = lab(program, "--version").stdout.split()[1].encode()
    for path in (folder / "plain").glob("round-*"):
        whole = path.read_bytes()[:-4]
        expect(whole.count(b"library version=" + version) == 1, "a checkpoint does not say by which version it was written")
        other = whole.replace(b"library version=" + version, b"library version=" + b"9" * len(version))
        path.write_bytes(other + crc32c(other).to_bytes(4, "little"))
    refused(run, folder / "plain", "is of a run of another version of the library (it has library version=9")

    sweep_it = ["sweep", *of_table, "--rounds", "2", "--grid", "rate=0.1,0.2"]
    ran(lab(program, *sweep_it, "--checkpoint", folder / "sweep"))
    ran(lab(program, *sweep_it, "--checkpoint", folder / "sweep", "--resume"))
    write_table(table, "0.25")
    refused(sweep_it, folder / "sweep", "is of a sweep with another data (it has")
    write_table(table)
    cell = next((folder / "sweep" / "cells").glob("*.json"))
    cell.write_text(cell.read_text().replace(f'"version":"{version.decode()}"', '"version":"9.9"'))
    refused(sweep_it, folder / "sweep", "is of a sweep with another version (it has 9.9, this sweep")

    def made(name, *more, data=table):
        out = folder / f"{name}.json"
        ran(lab(program, "run", "--data", f"csv:{data},label=y", *dealt, "--rounds", "2", "--json", out, *more))
        return out

    plain, elsewhere = made("plain"), made("elsewhere", data=copy)
    write_table(copy, "0.25")
    other = {"data": made("other", data=copy), "split": made("dealt", "--split-seed", "9"),
             "aux": made("held", "--aux", "held-out:0.2"), "data and aux": made("both", "--aux", "held-out:0.2", data=copy)}
    for what, path in other.items():
        result = lab(program, "compare", plain, path)
        expect(result.returncode == 2 and f"are no pairs: they differ in {what}; run them" in result.stderr,
               f"{what}: exit {result.returncode}: {result.stderr}")
    expect("--split-seed" not in lab(program, "compare", plain, other["aux"]).stderr, "the split seed is blamed for --aux")
    expect("differ in" not in ran(lab(program, "compare", plain, elsewhere)).stdout, "the same data in another place")
    report = json.loads(plain.read_text())
    report["version"] = "0.0.1"
    older = folder / "older.json"
    older.write_text(json.dumps(report))
    expect("note: plain and older differ in version" in ran(lab(program, "compare", plain, older)).stdout, "another version")


def main():
    tests = {"hashes": hashes, "resume": resume, "bad-input": bad_input, "outputs": outputs, "full-disk": full_disk,
             "seeds": several_seeds, "sweep": sweep, "compare": compare, "interrupt": interrupt, "growing": growing,
             "leftovers": leftovers, "identity": identity}
    if len(sys.argv) != 3 or sys.argv[1] not in tests:
        sys.exit(__doc__)
    os.environ.pop("TESSERA_DATA_DIR", None)
    os.environ.pop("TESSERA_PRESETS", None)
    with tempfile.TemporaryDirectory() as folder:
        tests[sys.argv[1]](sys.argv[2], pathlib.Path(folder))


if __name__ == "__main__":
    main()
