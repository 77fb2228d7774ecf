#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""The lab on files of every kind it reads: clients as the files have them, models as wide as the data; one sentence for
files that are not what they should be.

    data.py PATH-TO-tessera-lab
"""
import json
import pathlib
import random
import struct
import subprocess
import sys
import tempfile

RUN = ["run", "--rounds", "3", "--batch", "10", "--quiet"]


def expect(condition, sentence):
    if not condition:
        sys.exit(f"failed: {sentence}")


def lab(program, *arguments):
    return subprocess.run([program, *map(str, arguments)], capture_output=True, text=True, check=False)


def report(program, folder, *arguments):
    out = folder / "out.json"
    result = lab(program, *RUN, *arguments, "--json", out)
    expect(result.returncode == 0, f"{arguments}: exit {result.returncode}: {result.stderr.strip()}")
    return json.loads(out.read_text())


def write_npy(path, dtype, shape, data):
    header = f"{{'descr': '{dtype}', 'fortran_order': False, 'shape': {shape}, }}"
    header += " " * (63 - (10 + len(header)) % 64) + "\n"
    path.write_bytes(b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header.encode() + data)


def cifar(folder, dice):
    """Images whose grey tells their class."""
    def records(count, head):
        out = b""
        for _ in range(count):
            label = dice.randrange(10)
            out += bytes(head + [label]) + bytes(20 * label + dice.randrange(40) for _ in range(3072))
        return out

    ten, hundred = folder / "ten", folder / "hundred"
    for directory in (ten, hundred):
        directory.mkdir()
    for number in range(1, 6):
        (ten / f"data_batch_{number}.bin").write_bytes(records(20, []))
    (ten / "test_batch.bin").write_bytes(records(20, []))
    (hundred / "train.bin").write_bytes(records(80, [3]))
    (hundred / "test.bin").write_bytes(records(20, [3]))
    return ten, hundred


def leaf(folder, dice):
    """Five users of different sizes, three classes, two numbers each."""
    for part, share in (("train", 20), ("test", 5)):
        data = {}
        for user in range(5):
            labels = [dice.randrange(3) for _ in range(share + user)]
            data[f"user {user}"] = {"x": [[dice.gauss(y, 0.1), dice.gauss(-y, 0.1)] for y in labels], "y": labels}
        (folder / "leaf" / part).mkdir(parents=True)
        (folder / "leaf" / part / "all.json").write_text(json.dumps(
            {"users": list(data), "num_samples": [len(u["y"]) for u in data.values()], "user_data": data}))
    return folder / "leaf"


def table(folder, dice):
    rows = ["school,age,score,grade"]
    for i in range(140):
        grade = dice.randrange(3)
        rows.append(f"\"s,{i % 7}\",{1000 + 300 * grade + 50 * dice.random():.3f},{dice.random():.3f},{'abc'[grade]}")
    path = folder / "table.csv"
    path.write_text("\r\n".join(rows) + "\r\n")
    return path


def texts(folder):
    (folder / "texts").mkdir()
    for name in "abc":
        (folder / "texts" / f"{name}.txt").write_text(f"to be or not to be {name} that is the question " * 8)
    return folder / "texts"


def sizes(program, folder, *arguments):
    """Clients and parameters of a run: an upload is the model and eight bytes of weight."""
    out = report(program, folder, *arguments)
    merged = out["rounds"][0]["merged"]
    return out["config"]["clients"], (out["rounds"][0]["formula_bytes_up"] // merged - 8) // 4, out


def main(program):
    dice = random.Random(4)
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        ten, hundred = cifar(folder, dice)
        users, csv, speech = leaf(folder, dice), table(folder, dice), texts(folder)
        few = ["--clients", "4", "--per-round", "4"]

        clients, parameters, _ = sizes(program, folder, "--data", f"cifar10:{ten}", "--partition", "iid", "--model", "dnn", *few)
        expect((clients, parameters) == (4, 3072 * 100 + 100 + 100 * 10 + 10), f"cifar10: {clients}, {parameters}")
        _, parameters, _ = sizes(program, folder, "--data", f"cifar100:{hundred}", "--partition", "iid", *few)
        expect(parameters == 3073 * 100, f"cifar100: {parameters}")
        _, parameters, _ = sizes(program, folder, "--data", f"cifar100-coarse:{hundred}", "--partition", "iid", *few)
        expect(parameters == 3073 * 20, f"cifar100-coarse: {parameters}")

        clients, parameters, out = sizes(program, folder, "--data", f"leaf:{users}")
        expect((clients, parameters) == (5, 9), f"leaf: {clients}, {parameters}")
        expect([c["n_train"] for c in out["final"]["per_client"]] == [20, 21, 22, 23, 24], "leaf: every user keeps its own examples")
        expect(out["config"]["partition"] == "natural", "leaf: users are the clients")
        clients, _, _ = sizes(program, folder, "--data", f"leaf:{users}", "--partition", "iid", *few)
        expect(clients == 4, "leaf: other partitions deal its examples")

        clients, parameters, _ = sizes(program, folder, "--data", f"csv:{csv},label=grade,client=school", "--model", "dnn")
        expect((clients, parameters) == (7, 2 * 100 + 100 + 100 * 3 + 3), f"csv: {clients}, {parameters}")
        clients, parameters, _ = sizes(program, folder, "--data", f"csv:{csv},label=grade,ignore=school+age", "--partition", "iid",
                                       *few)
        expect((clients, parameters) == (4, 6), f"csv without clients: {clients}, {parameters}")

        clients, parameters, out = sizes(program, folder, "--data", f"text:{speech},window=4")
        symbols = len(set("".join(p.read_text() for p in speech.iterdir()))) + 4
        expect((clients, parameters) == (3, (4 * symbols + 1) * symbols), f"text: {clients}, {parameters}")

        x, y = folder / "x.npy", folder / "y.npy"
        write_npy(x, "|u1", (40, 4, 4, 3), bytes(dice.randrange(256) for _ in range(40 * 48)))
        write_npy(y, "<i8", (40,), struct.pack("<40q", *(i % 5 for i in range(40))))
        _, parameters, plain = sizes(program, folder, "--data", f"npy:{x},{y}", "--partition", "iid", *few)
        expect(parameters == 49 * 5, f"npy: {parameters}")
        seen = [sizes(program, folder, "--data", f"npy:{x},{y}", "--partition", p, *few)[2]["final"]["state_hash"]
                for p in ("iid+rotations:4", "rotations:4", "iid+noise:0.5", "iid+contrast:2")]
        expect(seen[0] == seen[1], "a shift alone is dealt as iid")
        expect(len({*seen, plain["final"]["state_hash"]}) == 4, f"feature shifts change what is learnt: {seen}")

        listed = json.loads(lab(program, "list", "--json").stdout)
        for kind in ("cifar10:", "cifar100:", "leaf:", "csv:", "npy:", "text:"):
            expect(any(d.startswith(kind) for d in listed["data"]), f"list shows {kind}")
        expect("rotations:K" in listed["partitions"], "list shows the feature shifts")
        refusals(program, folder, ten, users, csv)


def refusals(program, folder, ten, users, csv):
    """Exit 2 and one line that names the flag or the file."""
    torn = folder / "torn"
    torn.mkdir()
    for file in ten.iterdir():
        (torn / file.name).write_bytes(file.read_bytes()[:-1])
    broken = folder / "broken.json"
    broken.write_text('{"users": ["a"], "num_samples": [2], "user_data": {"a": {"x": [[1]], "y": [0]}}}')
    holes = folder / "holes.csv"
    holes.write_text("a,y\n1,0\n,1\n")
    cases = {
        f"cifar10:{torn}": "data_batch_1.bin",
        f"cifar10:{folder}/none": "data_batch_1.bin",
        "cifar10": "cifar10",
        f"leaf:{broken}": "1 examples in x, 1 in y and 2 in num_samples",
        f"leaf:{folder}/none": "none",
        f"leaf:{users},colour=red": "colour",
        f"csv:{csv}": "label=COLUMN",
        f"csv:{csv},label=mark": "'mark'",
        f"csv:{holes},label=y": "line 3: column 'a': the value is missing",
        f"text:{users}": ".txt",
        f"npy:{csv}": "two paths",
        f"npy:{csv},{csv}": "is not an npy file",
    }
    for data, text in cases.items():
        result = lab(program, *RUN, "--data", data, "--partition", "iid", "--clients", "2", "--per-round", "1")
        said = result.stderr.strip()
        expect(result.returncode == 2, f"{data}: exit {result.returncode}, {said}")
        expect(len(said.splitlines()) == 1 and text in said, f"{data}: '{text}' is not what it says: {said}")
        print(said)
    for more, text in {("--clients", "9"): "comes with 5 clients", ("--partition", "rotation:45", "--clients", "2"): "square",
                       ("--partition", "iid+turn:45", "--clients", "2"): "iid+turn:45"}.items():
        result = lab(program, *RUN, "--data", f"leaf:{users}", "--per-round", "1", *more)
        expect(result.returncode == 2 and text in result.stderr, f"{more}: {result.stderr}")


if __name__ == "__main__":
    main(sys.argv[1])
