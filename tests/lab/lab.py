#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""The lab as its users meet it: same bits whatever the threads, the wire and the kill -9; one sentence for bad input.

    lab.py hashes|resume|bad-input|outputs|full-disk PATH-TO-tessera-lab
"""
import gzip
import json
import os
import pathlib
import random
import resource
import signal
import struct
import subprocess
import sys
import tempfile
import time

SMALL = ["run", "--data", "synthetic", "--clients", "12", "--per-round", "7", "--quiet"]


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
    for algorithm in ["fedavg", "fedavg-ft", "fedprox", "local"]:
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


def resume(program, folder):
    """Killed at ten random moments and resumed each time, a run ends where the unbroken one does."""
    arguments = [*SMALL, "--algorithm", "local", "--model", "dnn", "--rounds", "400", "--eval-every", "50",
                 "--set", "epochs=3", "--set", "momentum=0.9"]
    whole = folder / "whole.json"
    begin = time.monotonic()
    ran(lab(program, *arguments, "--json", whole))
    length = time.monotonic() - begin
    broken, directory = folder / "broken.json", folder / "checkpoints"
    dice = random.Random(7)
    kills = 0
    for attempt in range(200):
        process = subprocess.Popen([program, *arguments, "--json", str(broken), "--checkpoint", str(directory),
                                    "--checkpoint-every", "1", "--resume"], stderr=subprocess.PIPE, text=True)
        try:
            _, error = process.communicate(timeout=None if kills == 10 else length * dice.uniform(0.02, 0.15))
            expect(process.returncode == 0, f"exit {process.returncode}: {error}")
            break
        except subprocess.TimeoutExpired:
            process.send_signal(signal.SIGKILL)
            process.communicate()
            kills += 1
    expect(kills >= 3, f"the run ended before it could be killed often enough ({kills} times)")
    expect(final_hash(broken) == final_hash(whole), f"killed {kills} times, the state hash is another one")
    rounds = [[r["round"], r["state_hash"]] for r in json.loads(broken.read_text())["rounds"]]
    expected = [[r["round"], r["state_hash"]] for r in json.loads(whole.read_text())["rounds"]]
    expect(rounds == expected, "the history of the resumed run is not that of the unbroken one")
    expect(len(list(directory.glob("round-*"))) == 2, "two checkpoints are kept")
    expect(not list(directory.glob(".tessera-*.tmp")), "a killed writer left files behind")
    print(f"killed {kills} times")

    newest = sorted(directory.glob("round-*"))[-1]
    newest.write_bytes(newest.read_bytes()[:-100])
    broken.unlink()
    result = ran(lab(program, *arguments, "--json", broken, "--checkpoint", directory, "--resume"))
    expect("checksum" in result.stderr and newest.name in result.stderr, f"no word about the torn file: {result.stderr}")
    expect(final_hash(broken) == final_hash(whole), "resumed from the checkpoint before the torn one, the hash differs")
    result = lab(program, *arguments, "--seed", "5", "--checkpoint", directory, "--resume")
    expect(result.returncode == 2 and "other settings" in result.stderr, "a checkpoint of another run was taken")


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
    zipped = gzip.compress
    cases = {
        "unknown algorithm": (lambda: ["--algorithm", "fedavgg"], "fedavgg"),
        "unknown preset": (lambda: ["--preset", "nothing"], "nothing"),
        "unknown data": (lambda: ["--data", "mnits"], "mnits"),
        "unknown partition": (lambda: ["--data", "synthetic", "--partition", "shard:2"], "shard:2"),
        "unknown model": (lambda: ["--data", "synthetic", "--model", "dn"], "--model dn"),
        "unknown setting": (lambda: ["--data", "synthetic", "--set", "rat=0.1"], "rat"),
        "wrong value": (lambda: ["--data", "synthetic", "--set", "rate=fast"], "rate"),
        "negative rate": (lambda: ["--data", "synthetic", "--set", "rate=-1"], "rate"),
        "unknown flag": (lambda: ["--datas", "synthetic"], "--datas"),
        "not a number": (lambda: ["--rounds", "many"], "--rounds"),
        "per-round above clients": (lambda: ["--data", "synthetic", "--clients", "5", "--per-round", "6"], "--per-round"),
        "no rounds": (lambda: ["--data", "synthetic", "--rounds", "0"], "--rounds"),
        "threads": (lambda: ["--data", "synthetic", "--threads", "0"], "threads"),
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
    expect("http" not in paths[2].read_text().replace("http://www.w3.org/", ""), "the report reaches out")
    wild = folder / "wild.json"
    ran(lab(program, *SMALL, "--rounds", "3", "--model", "dnn", "--set", "rate=1e30", "--json", wild))
    expect(json.loads(wild.read_text())["rounds"][0]["diverged"] > 0, "a rate of 1e30 diverges")
    listed = json.loads(ran(lab(program, "list", "--json")).stdout)
    expect({"fedavg", "fedavg-ft", "fedprox", "local", "centralised"} <= {a["name"] for a in listed["algorithms"]}, "list")


def full_disk(program, folder):
    """When a checkpoint cannot be written the run ends with exit 1 and the old checkpoint is whole."""
    directory, out = folder / "checkpoints", folder / "after.json"
    arguments = [*SMALL, "--algorithm", "local", "--model", "dnn", "--rounds", "8", "--checkpoint", directory,
                 "--checkpoint-every", "4"]
    ran(lab(program, *arguments, "--json", out))
    kept = {p.name: p.read_bytes() for p in directory.glob("round-*")}
    limit = 4096

    def small_files():
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))

    result = lab(program, *arguments, preexec_fn=small_files)
    expect(result.returncode == 1, f"exit {result.returncode}: {result.stderr}")
    expect(len(result.stderr.strip().splitlines()) == 1 and "could not write" in result.stderr, result.stderr)
    expect({p.name: p.read_bytes() for p in directory.glob("round-*")} == kept, "the old checkpoints changed")
    expect(not list(directory.glob(".tessera-*.tmp")), "a half-written file is left")


def main():
    tests = {"hashes": hashes, "resume": resume, "bad-input": bad_input, "outputs": outputs, "full-disk": full_disk}
    if len(sys.argv) != 3 or sys.argv[1] not in tests:
        sys.exit(__doc__)
    os.environ.pop("TESSERA_DATA_DIR", None)
    with tempfile.TemporaryDirectory() as folder:
        tests[sys.argv[1]](sys.argv[2], pathlib.Path(folder))


if __name__ == "__main__":
    main()
