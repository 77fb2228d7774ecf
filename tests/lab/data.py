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
    usual = [] if "--model" in arguments else ["--model", "mclr"]  # whose parameters can be counted at a glance
    result = lab(program, *RUN, *arguments, *usual, "--json", out)
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

        normalisations(program, folder, dice, users, csv, x, y)
        readings_of_private_and_public_images(program, folder, csv, x, y)
        copies_and_published_shifts(program, folder, dice)
        clients_with_nothing_to_train_on(program, folder, users, speech)
        names_of_clients(program, folder, users, csv)
        nothing_to_test_on(program, folder)
        files_sorted_by_class(program, folder, users)
        separators(program, folder)
        listed = json.loads(lab(program, "list", "--json").stdout)
        for kind in ("cifar10:", "cifar100:", "leaf:", "csv:", "npy:", "text:"):
            expect(any(d.startswith(kind) for d in listed["data"]), f"list shows {kind}")
        expect("rotations:K" in listed["partitions"], "list shows the feature shifts")
        refusals(program, folder, ten, users, csv)


def names_of_clients(program, folder, users, csv):
    """Clients have the names of the files, in the JSON and on the page, held-out ones left out; dealt ones have none."""
    page = folder / "names.html"
    out = report(program, folder, "--data", f"leaf:{users}", "--algorithm", "fedavg-ft", "--report", page)
    expect([c["name"] for c in out["final"]["per_client"]] == [f"user {k}" for k in range(5)], "leaf: names")
    expect("client 3 (user 3): " in page.read_text(), "leaf: names on the page")
    table = f"csv:{csv},label=grade,client=school"
    every = report(program, folder, "--data", table)["final"]["per_client"]
    expect([c["name"] for c in every] == [f"s,{k}" for k in range(7)], f"csv: names of {every}")
    some = report(program, folder, "--data", table, "--unseen", "2")["final"]["per_client"]
    sizes_of = {c["name"]: c["n_train"] for c in every}
    expect(len(some) == 5 and all(sizes_of[c["name"]] == c["n_train"] for c in some), f"csv: names of those who train: {some}")
    dealt = report(program, folder, "--data", table, "--partition", "iid", "--clients", "4", "--per-round", "4")
    expect(not any("name" in c for c in dealt["final"]["per_client"]), "clients that are dealt have no names")


def nothing_to_test_on(program, folder):
    """Where no client could test, nothing is trained."""
    table, out = folder / "single.csv", folder / "single.json"
    table.write_text("who,a,grade\n" + "".join(f"w{i},{i},{'xy'[i % 2]}\n" for i in range(20)))
    result = lab(program, *RUN, "--data", f"csv:{table},label=grade,client=who", "--json", out)
    expect(result.returncode == 2 and "no client has an example to test on" in result.stderr, f"{result.stderr}")
    expect(len(result.stderr.strip().splitlines()) == 1 and not out.exists(), result.stderr)


def files_sorted_by_class(program, folder, users):
    """Tests are drawn from all of a file that brings none, by the split seed; a test part that the files bring stays."""
    classes = [i // 50 for i in range(150)]
    path, x, y, split = folder / "sorted.csv", folder / "sorted-x.npy", folder / "sorted-y.npy", folder / "sorted.split"
    path.write_text("who,a,b,y\n" + "".join(f"w{i % 5},{c + 0.001 * i},{-c},{c}\n" for i, c in enumerate(classes)))
    write_npy(x, "<f4", (150, 2), struct.pack("<300f", *(v for i, c in enumerate(classes) for v in (c + 0.001 * i, -c))))
    write_npy(y, "<i8", (150,), struct.pack("<150q", *classes))
    images, labels = folder / "sorted-images", folder / "sorted-labels"
    images.write_bytes(struct.pack(">IIII", 0x803, 150, 1, 2) + bytes(v for c in classes for v in (100 * c, 200 - 100 * c)))
    labels.write_bytes(struct.pack(">II", 0x801, 150) + bytes(classes))

    def tests(data, *more):
        split.unlink(missing_ok=True)
        out = report(program, folder, "--data", data, "--partition", "iid", "--clients", "3", "--per-round", "3", "--split-file",
                     split, "--set", "rate=0.3", "--set", "epochs=20", *more)
        value, = [e["value"] for e in out["final"]["evaluations"]
                  if (e["pick"], e["average"], e["metric"]) == ("last", "pooled", "accuracy")]
        lines = {kind: [int(i) for line in split.read_text().splitlines() if line.startswith(kind + " ")
                        for i in line.split()[1:]] for kind in ("train", "test")}
        return lines, value

    for data in (f"csv:{path},label=y,ignore=who", f"csv:{path},label=y,client=who", f"npy:{x},{y}", f"idx:{images},{labels}"):
        dealt, value = tests(data)
        expect(sorted(dealt["train"] + dealt["test"]) == list(range(150)), f"{data}: each example once: {dealt}")
        expect(len(dealt["test"]) == 150 - 150 * 6 // 7, f"{data}: a seventh tests: {dealt['test']}")
        drawn = [sum(classes[i] == c for i in dealt["test"]) for c in range(3)]
        expect(min(drawn) >= 2, f"{data}: tests of each class: {drawn}")
        expect(value > 0.9, f"{data}: {value} of what can be told apart by a line")
        expect(tests(data)[0] == dealt, f"{data}: another split the second time")
        expect(sorted(tests(data, "--split-seed", "2")[0]["test"]) != sorted(dealt["test"]), f"{data}: the split seed moves nothing")
    dealt, _ = tests(f"leaf:{users}")
    expect(max(dealt["train"]) < min(dealt["test"]), f"leaf: its test part is tested on: {dealt}")


def normalisations(program, folder, dice, users, csv, x, y):
    """Each value does what it says and is written down; what cannot be done with the data is refused."""
    few = ["--partition", "iid", "--clients", "4", "--per-round", "4"]
    floats = folder / "floats.npy"
    write_npy(floats, "<f4", (40, 48), struct.pack("<1920f", *(dice.gauss(300, 20) for _ in range(40 * 48))))

    def seen(data, *more):
        out = report(program, folder, "--data", data, *few, *more)
        return out["config"]["normalise"], out["final"]["state_hash"]

    for data, usual, possible in [(f"npy:{x},{y}", "standard", ["standard", "unit", "each", "none"]),
                                  (f"npy:{floats},{y}", "none", ["standard", "each", "none"]),
                                  (f"leaf:{users}", "none", ["standard", "each", "none"]),
                                  (f"csv:{csv},label=grade,ignore=school", "standard", ["standard", "each", "none"]),
                                  (f"text:{folder / 'texts'},window=3,as=ids", "none", ["none"])]:
        hashes = {}
        for how in possible:
            named, hashes[how] = seen(data, "--normalise", how)
            expect(named == how, f"{data}, {how}: written down is {named}")
        expect(len(set(hashes.values())) == len(possible), f"{data}: two normalisations do the same: {hashes}")
        expect(seen(data) == (usual, hashes[usual]), f"{data}: the usual one is not {usual}")
        for how in {"standard", "unit", "each", "none"} - set(possible):
            result = lab(program, *RUN, "--data", data, *few, "--normalise", how)
            expect(result.returncode == 2 and f"--normalise {how}" in result.stderr, f"{data}, {how}: {result.stderr}")


def readings_of_private_and_public_images(program, folder, csv, x, y):
    """No mean of everybody's examples without noise where a method is private; a server reads images as clients do."""
    few = ["--partition", "iid", "--clients", "4", "--per-round", "4"]
    private = ["--dp", "noise=1,source=keyed"]
    out = report(program, folder, "--data", f"npy:{x},{y}", *few, *private)
    expect(out["config"]["normalise"] == "unit" and not any("normalise" in note for note in out["notes"]), f"{out['config']}")
    out = report(program, folder, "--data", f"npy:{x},{y}", *few, *private, "--normalise", "standard")
    expect(any(note.startswith("--normalise standard read the mean") for note in out["notes"]), f"{out['notes']}")
    table = ["--data", f"csv:{csv},label=grade,ignore=school"]
    expect(report(program, folder, *table, *few, *private)["config"]["normalise"] == "none", "columns of a private run")
    result = lab(program, *RUN, *table, *few, *private, "--normalise", "standard")
    expect(result.returncode == 2 and "no epsilon covers that" in result.stderr, f"{result.stderr}")

    # Images of one brightness are all zeros by their own mean, and by the clients' they are not.
    kinds, hashes = folder / "aux-y.npy", set()
    write_npy(kinds, "<i8", (4,), struct.pack("<4q", 0, 1, 2, 3))
    for brightness in (20, 230):
        images = folder / f"aux-{brightness}.npy"
        write_npy(images, "|u1", (4, 4, 4, 3), bytes([brightness]) * 4 * 48)
        out = report(program, folder, "--data", f"npy:{x},{y}", *few, "--algorithm", "feddf", "--aux", f"npy:{images},{kinds}",
                     "--set", "kd_steps=2", "--model", "dnn")
        hashes.add(out["final"]["state_hash"])
    expect(len(hashes) == 2, "public images are read by means of their own")


def copies_and_published_shifts(program, folder, dice):
    """--augment adds copies to what is trained on and nothing else; --shift-dir has its own images."""
    boards, kinds, shifts = folder / "boards.npy", folder / "kinds.npy", folder / "published"
    classes = [i % 2 for i in range(140)]

    def board(c, noise, depth=80):  # class 1 is striped, in rows, which a flip leaves as they are
        return bytes(dice.randrange(noise) + (depth * (a % 2) + 40 - depth // 2 if c else 40) for a in range(6) for b in range(6))

    write_npy(boards, "|u1", (140, 6, 6), b"".join(board(c, 60) for c in classes))
    write_npy(kinds, "<i8", (140,), struct.pack("<140q", *classes))
    shifts.mkdir()
    for name, noise, depth in (("fog", 30, 80), ("snow", 170, 30)):
        write_npy(shifts / f"{name}.npy", "|u1", (100, 6, 6), b"".join(board(i % 2, noise, depth) for i in range(100)))
    write_npy(shifts / "labels.npy", "<i8", (100,), struct.pack("<100q", *(i % 2 for i in range(100))))
    data = ["--data", f"npy:{boards},{kinds}", "--partition", "iid", "--clients", "4", "--per-round", "4"]
    plain = report(program, folder, *data)
    more = report(program, folder, *data, "--augment", "flip,crop:1,copies:2")
    expect(more["config"]["augment"] == "flip,crop:1,copies:2" and "augment" not in plain["config"], "the flag is written down")
    rows = [[(c["n_train"], c["n_test"]) for c in out["final"]["per_client"]] for out in (plain, more)]
    expect(rows[1] == [(3 * train, test) for train, test in rows[0]], f"copies of training examples alone: {rows}")
    expect(plain["config"]["split_fingerprint"] == more["config"]["split_fingerprint"], "the split is the same")
    expect(plain["final"]["state_hash"] != more["final"]["state_hash"], "copies change what is learnt")

    for how in ("standard", "unit", "each"):
        out = report(program, folder, *data, "--set", "epochs=10", "--set", "rate=0.1", "--augment", "flip", "--normalise", how,
                     "--shifts", "none,fog:1,snow:5", "--shift-dir", shifts)
        on = {e["on"]: e["value"] for e in out["final"]["evaluations"] if e["on"].startswith("shift:") or e["on"] == "union"}
        expect(set(on) == {"union", "shift:fog:1", "shift:snow:5", "shift:mean of 2"}, f"{how}: {on}")
        expect(on["shift:fog:1"] > on["shift:snow:5"], f"{how}: the lighter noise is harder: {on}")
    for asked, text in {"hail:1": "has no hail.npy", "fog:6": "a severity from 1 to 5", "fgo:1": "did you mean fog?"}.items():
        result = lab(program, *RUN, *data, "--shifts", asked, "--shift-dir", shifts)
        expect(result.returncode == 2 and text in result.stderr, f"{asked}: {result.stderr}")
    (shifts / "dust.npy").write_bytes((shifts / "fog.npy").read_bytes().replace(b"(100, 6, 6)", b"(100, 4, 9)"))
    result = lab(program, *RUN, *data, "--shifts", "dust:1", "--shift-dir", folder / "none")
    expect(result.returncode == 2 and "none" in result.stderr, f"no such directory: {result.stderr}")


def clients_with_nothing_to_train_on(program, folder, users, speech):
    """They are left out, and the summary and the report say who."""
    test = users / "test" / "all.json"
    told = json.loads(test.read_text())
    told["users"].append("only tests")
    told["num_samples"].append(1)
    told["user_data"]["only tests"] = {"x": [[1, 2]], "y": [0]}
    before = test.read_text()
    test.write_text(json.dumps(told))
    (speech / "silent.txt").write_text("")
    for data, count, who in ((f"leaf:{users}", 5, "only tests"), (f"text:{speech},window=4", 3, "silent")):
        result = lab(program, *RUN[:-1], "--data", data, "--json", folder / "left.json")
        out = json.loads((folder / "left.json").read_text()) if result.returncode == 0 else {}
        expect(out and out["config"]["clients"] == count, f"{data}: {result.stderr}")
        note = f"left out, since they have nothing to train on: {who}"
        expect(note in out["notes"] and note in result.stdout, f"{data}: nothing said of {who}: {result.stdout}")
    test.write_text(before)
    (speech / "silent.txt").unlink()


def separators(program, folder):
    """One character, or tab by name; nothing else is cut down to its first letter."""
    few = ["--partition", "iid", "--clients", "2", "--per-round", "1"]
    path = folder / "apart.csv"
    for written, character in (("tab", "\t"), ("\\t", "\t"), (";", ";"), ("|", "|")):
        path.write_text("".join(f"{a}{character}{b}\n" for a, b in [("a", "y"), *((i, i % 2) for i in range(20))]))
        report(program, folder, "--data", f"csv:{path},label=y,separator={written}", *few)
    for written in ("tabs", "||", "", "\""):
        result = lab(program, *RUN, "--data", f"csv:{path},label=y,separator={written}", *few)
        expect(result.returncode == 2 and "separator is one character, or tab" in result.stderr, f"'{written}': {result.stderr}")


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
    wide, years = folder / "wide.npy", folder / "years.npy"
    write_npy(wide, "<f4", (140, 2), bytes(140 * 8))
    write_npy(years, "<i8", (140,), struct.pack("<140q", *(10**9 for _ in range(140))))
    cases = {
        f"npy:{wide},{years}": f"{years}: has the label 1000000000 for 140 examples",
        f"csv:{csv},label=grade,label=age": "label is set twice",
        f"csv:{csv},label=grade,lable=age": "lable is not one of its settings, which are label, client, target, ignore, one_hot, separator",
        f"csvv:{csv},label=grade": "there is no such data; did you mean csv?",
        f"leaf:{users},window=4": "window is for texts",
        f"leaf:{users},as=ids": "as is for texts",
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
