#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""The lab in the hands of somebody who meets it for the first time: tables as people have them, names of settings as other
libraries have them, and outputs that say where they come from.

    stranger.py tables|words|outputs PATH-TO-tessera-lab

The tables are small files in tests/lab/tables, made up in the forms that people bring: text columns, missing values, ';' and
tabs, gzip, a line of counts, no header, a regression, names of classes, a client column, a training and a test file.
"""
import json
import pathlib
import re
import shlex
import struct
import subprocess
import sys
import tempfile

TABLES = pathlib.Path(__file__).resolve().parent / "tables"
FEW = ["--clients", "3", "--per-round", "2", "--rounds", "2", "--batch", "10"]
DEALT = ["--partition", "iid", *FEW]


def expect(condition, sentence):
    if not condition:
        sys.exit(f"failed: {sentence}")


def lab(program, *arguments):
    return subprocess.run([program, *map(str, arguments)], capture_output=True, text=True, check=False)


def ran(result):
    expect(result.returncode == 0, f"exit {result.returncode}: {result.stderr.strip()}")
    return result


# What is run, the flags beside --data, and what the line about the data must say; or the sentence of the refusal.
READ = [
    ("csv:{}/passengers.csv,label=Survived,ignore=PassengerId+Name,missing=mean", DEALT,
     ["120 examples", "5 features", "2 classes (0, 1)", "3 clients", "a feature for each word: Sex",
      "missing values filled with means of training data"]),
    ("csv:{}/passengers.csv,label=Survived,ignore=PassengerId+Name,missing=drop", DEALT,
     ["lines with a missing value left out"]),
    ("csv:{}/wine.csv,label=quality", DEALT, ["90 examples", "2 features", "3 classes (5, 6, 7)"]),
    ("csv:{}/flowers.tsv,label=species", DEALT, ["3 classes (setosa, versicolor, virginica)"]),
    ("csv:{}/packed.csv.gz,label=y", DEALT, ["100 examples", "2 features"]),
    ("csv:{}/counted.csv,label=3,skip=1,header=none", DEALT, ["60 examples", "2 features", "2 classes"]),
    ("csv:{}/bare.csv,label=3,header=none", DEALT, ["80 examples", "2 classes (B, M)"]),
    ("csv:{}/hospitals.csv,label=ill,client=hospital", FEW, ["2 classes (no, yes)", "3 clients", "2 features"]),
    ("csv:{0}/digits-train.csv,{0}/digits-test.csv,label=digit", DEALT, ["120 examples (90 train, 30 test)", "3 classes"]),
    ("csv:{}/survey.csv,label=answer,missing=mean", DEALT, ["2 classes (agree, differ)", "a feature for each word: city"]),
    ("csv:{}/survey.csv,label=answer,missing=drop,ignore=city", DEALT, ["2 features", "left out"]),
    ("csv:{}/houses.csv,target=price", [*DEALT, "--model", "mclr"], ["60 examples", "2 features", "1 real target"]),
    ("csv:{}/orders.csv,label=kind,ignore=id+when", DEALT, ["1 feature,", "2 classes (A, B)"]),
    ("csv:{}/frame.csv,label=species", DEALT, ["2 features", "3 classes", "the first column has no name and is not read"]),
]
REFUSED = [
    ("csv:{}/passengers.csv,label=Survived", ["line 9: column 'Age': the value is missing", "and 14 more faults",
                                                  "missing=drop leaves such lines out"]),
    ("csv:{}/passengers.csv,label=Survived,missing=mean", ["column 'Name'", "120 different words", "name it in ignore"]),
    ("csv:{}/counted.csv,label=setosa", ["line 1: it holds counts ('60' lines follow)", "header=none"]),
    ("csv:{}/bare.csv,label=3", ["line 1: it holds numbers", "header=none"]),
    ("csv:{}/houses.csv,label=price", ["column 'price'", "is a real number, and a label names a class; name it as the target (target=COLUMN)"]),
    ("csv:{}/orders.csv,label=id,ignore=when+kind", ["column 'id' has 90 different values in 90 examples"]),
    ("csv:{}/orders.csv,label=kind,ignore=id", ["column 'when'", "name it in ignore, or in one_hot"]),
    ("csv:{}/broken.csv,label=y", ["line 3: column 'b': the value is missing; line 4: there are 2 cells, but the header has 3; "
                                   "line 6: column 'y': the value is missing"]),
    ("csv:{}/wine.csv,label=taste", ["there is no column 'taste'", "there are 'fixed acidity', 'alcohol', 'quality'"]),
    ("csv:{}/survey.csv,label=answer,missing=guess", ["missing"]),
    ("csv:{}/blanks.txt,label=MEDV", ["there are 'RM LSTAT MEDV' alone", "what separator= says"]),
    ("csv:{}/book.xlsx,label=y", ["is a zip archive, as .xlsx and .ods are; save the sheet as CSV"]),
    ("csv:{}/same.csv,label=y", ["all labels are the same, 'kept'; a model that tells classes apart needs two"]),
]


def tables(program, folder):
    for data, more, says in READ:
        data = data.format(TABLES)
        out = folder / "out.json"
        said = ran(lab(program, "run", "--data", data, *more, "--json", out)).stdout
        first = said.splitlines()[0]
        expect(first.startswith(data) and all(word in first for word in says), f"{data}: {says} is not what it says: {first}")
        run = json.loads(out.read_text())
        expect(run["provenance"]["read"] == first, "the JSON holds the same line")
        expect(all(round_["train_loss"] > 0 for round_ in run["rounds"]), "the training loss of rounds")
        print(first)
    for data, says in REFUSED:
        data = data.format(TABLES)
        result = lab(program, "run", "--data", data, *DEALT)
        said = result.stderr.strip()
        expect(result.returncode == 2 and len(said.splitlines()) == 1, f"{data}: exit {result.returncode}, {said}")
        expect(all(word in said for word in says), f"{data}: {says} is not what it says: {said}")
        print(said)
    names_everywhere(program, folder)
    pairs_of_files(program, folder)
    constants(program, folder)
    prices(program, folder)
    slips(program, folder)


def prices(program, folder):
    """Real targets of any unit: they are scaled by the training part, its constants are in the output, and R2 does not know the unit."""
    def train(name, factor, *more):
        rows = "".join(f"{i % 17},{i % 5},{factor * (30 + 2 * (i % 17) - 3 * (i % 5))}\n" for i in range(200))
        (folder / f"{name}.csv").write_text("size,age,price\n" + rows)
        out = folder / f"{name}.json"
        said = ran(lab(program, "run", "--data", f"csv:{folder}/{name}.csv,target=price", "--partition", "iid", "--clients", "4",
                       "--per-round", "4", "--rounds", "20", "--model", "dnn", "--set", "rate=0.01", "--json", out, *more)).stdout
        return said.splitlines()[0], json.loads(out.read_text())

    def r2(run):
        return [e["value"] for e in run["final"]["evaluations"] if e["metric"] == "r2" and e["pick"] == "last"][0]

    line, cheap = train("cheap", 1)
    expect("targets less their mean, through their deviation" in line, line)
    _, dear = train("dear", 1e4)
    expect(r2(dear) > 0.9 and abs(r2(dear) - r2(cheap)) < 0.01, f"prices of hundreds of thousands are learnt as tens are: {r2(dear)}, {r2(cheap)}")
    expect(sum(round_["diverged"] for round_ in dear["rounds"]) == 0, "and nothing diverges")
    told = dear["provenance"]
    expect(2e5 < float(told["target_shift"]) < 6e5 and 0 < float(told["target_scale"]) < 1e-4, f"the constants: {told}")
    line, raw = train("raw", 1, "--normalise", "none")
    expect("targets reach 62 and are not scaled, which --normalise standard does" in line, line)
    expect("target_shift" not in raw["provenance"], "nothing was scaled")


def slips(program, folder):
    """A word among ten thousand numbers is a fault of the file with its line; half of them make a column of words, which is said."""
    rows = [f"{i % 7},{i % 2}" for i in range(10000)]
    slip = folder / "slip.csv"
    slip.write_text("a,y\n" + "\n".join(rows[:4999] + ["foo,1"] + rows[4999:]) + "\n")
    result = lab(program, "run", "--data", f"csv:{slip},label=y", *DEALT)
    expect(result.returncode == 2 and "line 5001: column 'a': 'foo' is not a number that a feature can be" in result.stderr, result.stderr)
    slip.write_text("a,b,y\n" + "".join(f"{i % 3 if i % 2 else 'none'},{i % 5},{i % 2}\n" for i in range(60)))
    line = ran(lab(program, "run", "--data", f"csv:{slip},label=y", *DEALT)).stdout.splitlines()[0]
    expect("a feature for each word: a (30 of its values are numbers)" in line, line)


def names_everywhere(program, folder):
    """Classes and clients are called by their names in JSON and on the page."""
    out, page = folder / "named.json", folder / "named.html"
    ran(lab(program, "run", "--data", f"csv:{TABLES}/hospitals.csv,label=ill,client=hospital", *FEW, "--json", out, "--report", page))
    run = json.loads(out.read_text())
    expect(run["class_names"] == ["no", "yes"], f"classes: {run['class_names']}")
    expect({client["name"] for client in run["final"]["per_client"]} == {"St. Mary", "Charité", "General"}, "clients")
    figure = re.search(r'<figure id="fig-classes".*?</figure>', page.read_text(), re.S).group(0)
    expect(">yes<" in figure and ">no<" in figure, "classes on the page have their names")


def write_npy(path, dtype, shape, data):
    header = f"{{'descr': '{dtype}', 'fortran_order': False, 'shape': {shape}, }}"
    header += " " * (63 - (10 + len(header)) % 64) + "\n"
    path.write_bytes(b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header.encode() + data)


def pairs_of_files(program, folder):
    """A training and a test part, owners and names of classes for npy and idx."""
    def npy(part, count, shift):
        rows = [float(i % 3 + shift + j) for i in range(count) for j in range(2)]
        write_npy(folder / f"{part}-x.npy", "<f4", (count, 2), struct.pack(f"<{2 * count}f", *rows))
        write_npy(folder / f"{part}-y.npy", "<i8", (count,), struct.pack(f"<{count}q", *(i % 3 for i in range(count))))
        write_npy(folder / f"{part}-who.npy", "<i8", (count,), struct.pack(f"<{count}q", *(i % 4 for i in range(count))))

    def idx(part, count):
        (folder / f"{part}-x.idx").write_bytes(struct.pack(">IIII", 0x803, count, 2, 2) + bytes(i % 250 for i in range(4 * count)))
        (folder / f"{part}-y.idx").write_bytes(struct.pack(">II", 0x801, count) + bytes(i % 3 for i in range(count)))
        (folder / f"{part}-who.txt").write_text("".join(f"{'ab'[i % 2]}\n" for i in range(count)))

    for part, count in (("train", 60), ("test", 24)):
        npy(part, count, 0)
        idx(part, count)
    (folder / "names.txt").write_text("low\nmiddle\nhigh\n")
    for kind, who, clients in (("npy", "npy", 4), ("idx", "txt", 2)):
        files = ",".join(str(folder / f"{part}-{what}.{kind}") for part in ("train", "test") for what in "xy")
        owners = "+".join(str(folder / f"{part}-who.{who}") for part in ("train", "test"))
        said = ran(lab(program, "run", "--data", f"{kind}:{files},client={owners},classes={folder}/names.txt", "--per-round", "2",
                       "--rounds", "1")).stdout.splitlines()[0]
        expect("84 examples (60 train, 24 test)" in said and f"{clients} clients" in said and "(low, middle, high)" in said, said)
        few = lab(program, "run", "--data", f"{kind}:{files},client={folder}/train-who.{who}", "--rounds", "1")
        expect(few.returncode == 2 and "60 names for 84 examples; write client=TRAIN+TEST" in few.stderr, few.stderr)
    # Label-matched test sets share examples; those of an IID split do not.
    files = ",".join(str(folder / f"{part}-{what}.npy") for part in ("train", "test") for what in "xy")
    for partition, shared in (("dirichlet:0.1", True), ("iid", False)):
        said = ran(lab(program, "run", "--data", f"npy:{files}", "--partition", partition, "--clients", "4", "--per-round", "2",
                       "--rounds", "1")).stdout.splitlines()[0]
        counts = re.search(r"84 examples \(60 train, (\d+) test(?: of (\d+) different examples)?\)", said)
        expect(counts and bool(counts[2]) == shared and (not shared or int(counts[2]) < min(int(counts[1]), 25)), said)


def constants(program, folder):
    """--normalise reads the training part alone, and its constants are in the output."""
    rows = "a,y\n" + "".join(f"{value},{i % 2}\n" for i, value in enumerate([1, 3] * 20))
    (folder / "c-train.csv").write_text(rows)
    (folder / "c-test.csv").write_text("a,y\n1000,0\n2000,1\n")
    out = folder / "constants.json"
    ran(lab(program, "run", "--data", f"csv:{folder}/c-train.csv,{folder}/c-test.csv,label=y", *DEALT, "--json", out, "--quiet"))
    told = json.loads(out.read_text())["provenance"]
    expect(float(told["normalise_shift"]) == 2, f"the mean of the training part: {told}")
    expect(abs(float(told["normalise_scale"]) - 1 / 1.001) < 1e-6, f"its deviation: {told}")


SMALL = ["run", "--data", "synthetic", "--clients", "6", "--per-round", "3", "--rounds", "2"]


def words(program, folder):
    """Names that other libraries have, and what is not as it looks."""
    def set_to(*more):
        out = folder / "set.json"
        ran(lab(program, *SMALL, "--quiet", "--json", out, *more))
        return json.loads(out.read_text())["config"]

    for name in ("lr", "learning_rate", "local.rate"):
        expect(set_to("--set", f"{name}=0.02")["local.rate"] == 0.02, name)
    expect(set_to("--set", "local_epochs=3")["epochs"] == 3, "local_epochs")
    for name in ("batch_size", "batch"):
        expect(set_to("--set", f"{name}=7")["batch"] == 7, name)
    # The same names as flags: what to write instead is said; a table without its kind too.
    for flag, says in (("--lr", "--set lr=VALUE"), ("--local-epochs", "--set local_epochs=VALUE"), ("--lambda", "--set lambda=VALUE"),
                       ("--batch-size", "did you mean --batch?"), ("--dataset", "did you mean --data?"), ("--aks", "did you mean --aux?")):
        wrong = lab(program, *SMALL, flag, "1")
        expect(wrong.returncode == 2 and f"{flag}: there is no such flag; " in wrong.stderr and says in wrong.stderr, wrong.stderr)
    for named, says in (("t/mine.csv", "csv:t/mine.csv,label=COLUMN"), ("mine.tsv,label=y", "csv:mine.tsv,label=y")):
        wrong = lab(program, "run", "--data", named)
        expect(wrong.returncode == 2 and f"for a table write {says}" in wrong.stderr, wrong.stderr)
    both = lab(program, *SMALL, "--batch", "3", "--set", "batch_size=4")
    expect(both.returncode == 2 and "--batch says it already" in both.stderr, both.stderr)
    short = lab(program, *SMALL, "--set", "xy=1")
    expect(short.returncode == 2 and "did you mean" not in short.stderr, f"two letters are no hint: {short.stderr}")
    # What a round costs is told where it is more than ten times FedAvg's: here 6 x 20 x 5 x 20 examples and more.
    dear = ran(lab(program, *SMALL, "--algorithm", "pfedme", "--set", "steps=200")).stderr
    told = re.search(r"pfedme: a round takes gradients of some (\d+) examples, (\d+) times those of FedAvg", dear)
    expect(told and int(told.group(1)) == 6 * 200 * 5 * 20 and int(told.group(2)) >= 10, f"what it costs: {dear}")
    expect("gradients" not in ran(lab(program, *SMALL)).stderr, "FedAvg costs what FedAvg costs")
    # Every setting has its default, a sentence and what it takes.
    for entry in json.loads(ran(lab(program, "list", "--json")).stdout)["algorithms"]:
        told = ran(lab(program, "list", entry["name"])).stdout.splitlines()[2:]
        expect(len(told) == len(entry["settings"]), f"{entry['name']}: {len(told)} lines")
        for line, (name, value) in zip(told, entry["settings"].items()):
            match = re.fullmatch(r"  (\S+=\S*) +(\S[^;]*.*); (\S.*)", line)
            expect(match and match.group(1) == f"{name}={value}", f"{entry['name']}: no sentence and range: {line}")
    # What there is fits a terminal: names are broken into lines, and sentences begin in one column.
    listed = ran(lab(program, "list")).stdout
    of_names = listed.partition("\nData\n")[2].partition("\nPresets\n")[0].splitlines()
    expect(len(of_names) > 8 and all(len(line) <= 80 for line in of_names), f"lines of names: {of_names}")
    sentences = re.findall(r"^  (\S+ +)\S", listed.partition("\nData\n")[0], re.M)
    expect(len(sentences) > 40 and len({len(name) for name in sentences}) == 1, f"sentences of algorithms: {sentences}")
    of_fedavg = ran(lab(program, "list", "fedavg")).stdout
    for line in ("local.rate=0.1                 step size of clients; 0 or more", "; in [0, 1)", "one of samples, uniform, batches",
                 "true or false", "; a whole number"):
        expect(line in of_fedavg, f"'{line}' is not in {of_fedavg}")
    # A model that is all head leaves nothing to share, and the usual one has a body.
    expect(set_to()["model"] == "dnn", "the usual model")
    for algorithm, sayer in (("fedper", "personal output"), ("fedalt", "--scope output")):
        out = folder / "alone.json"
        said = ran(lab(program, *SMALL, "--algorithm", algorithm, "--model", "mclr", "--json", out)).stderr
        expect(f"{algorithm} with {sayer} and --model mclr: all of the model is personal and nothing is shared" in said, said)
        expect(any("nothing is shared" in note for note in json.loads(out.read_text())["notes"]), "the same in the notes")
        quiet = ran(lab(program, *SMALL, "--algorithm", algorithm, "--model", "dnn")).stderr
        expect("nothing is shared" not in quiet, quiet)


def outputs(program, folder):
    """Where a run came from, and the same run once more."""
    out = folder / "a run.json"
    command = [*SMALL, "--algorithm", "fedalt", "--set", "rate=0.05", "--json", out]
    ran(lab(program, *command))
    run = json.loads(out.read_text())
    told = run["provenance"]
    expect(shlex.split(told["command"])[1:] == [str(word) for word in command], f"the command: {told['command']}")
    expect(re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", told["date"]), f"the date: {told}")
    expect(lab(program, "reproduce", out).stdout.strip() == told["command"], "the command, to be seen")
    again = ran(lab(program, "reproduce", out, "--check"))
    expect(f"seed 1: the same state, {run['final']['state_hash']}" in again.stdout, f"the run once more: {again.stdout}")
    run["final"]["state_hash"] = "0" * 32
    forged = folder / "forged.json"
    forged.write_text(json.dumps(run))
    other = lab(program, "reproduce", forged, "--check")
    expect(other.returncode == 1 and "another state came out" in other.stderr, f"a state that it has not: {other.stderr}")
    rounds = folder / "rounds.jsonl"
    ran(lab(program, *SMALL, "--quiet", "--jsonl", rounds))
    seen = ran(lab(program, "watch", rounds, "--once")).stdout.splitlines()
    expect(len(seen) == 2 and re.match(r"round 2  training loss [0-9.]+  global [0-9.]+ %  [0-9.]+ s$", seen[1]), f"watched: {seen}")
    draws_any(program, folder)
    metrics(program, folder)
    of_presets(program, folder)
    wrong = lab(program, "watch", out, "--once")
    expect(wrong.returncode == 2 and "watch reads the file that --jsonl writes" in wrong.stderr, wrong.stderr)
    expect(told["compiler"] and run["version"] and run["kernel_set"] and run["config"]["data_fingerprint"], f"the rest: {told}")


def draws_any(program, folder):
    """`report` makes of a JSON the bytes that `run --report` wrote; what is no run is refused, and nothing is left."""
    for name, more in (("one", ["--algorithm", "fedavg-ft", "--analyse", "clients,losses"]), ("seeds", ["--algorithm", "pfedme", "--seeds", "1,2"]),
                       ("stages", ["--stages", "fedavg rounds=2; fedalt rounds=2; tune tune_epochs=1", "--model", "dnn"]),
                       ("asked", ["--metrics", "auc,ece,gradient", "--algorithm", "fedavg-ft"])):
        out, page = folder / f"{name}.json", folder / f"{name}.run.html"
        ran(lab(program, *SMALL, "--quiet", *more, "--json", out, "--report", page))
        ran(lab(program, "report", out))
        expect((folder / f"{name}.html").read_bytes() == page.read_bytes(), f"{name}: another page than the run's")
    title = folder / "mine.html"
    ran(lab(program, "report", folder / "one.json", "--title", "My <own>", "--out", title))
    expect("<h1>My &lt;own&gt;</h1>" in title.read_text(), "the title is what was asked for")
    figures = folder / "figures.json"
    figures.write_text(json.dumps([{"id": "mine", "title": "Mine", "caption": "", "kind": "bars", "x": {}, "y": {}, "categories": ["a"],
                                    "series": [{"name": "s", "x": [], "y": [2], "texts": []}]}]))
    ran(lab(program, "report", folder / "seeds.json", "--figures", figures, "--out", title))
    expect('id="fig-extra-mine"' in title.read_text() and 'id="fig-extra-seeds"' in title.read_text(), "figures over runs")
    for wrong, words in ((figures, "not the JSON of a run"), (title, "is not JSON"), (folder / "nothing.json", "nothing.json")):
        left = folder / "left.html"
        result = lab(program, "report", wrong, "--out", left)
        expect(result.returncode == 2 and words in result.stderr and len(result.stderr.splitlines()) == 1, f"{wrong}: {result.stderr}")
        expect(not left.exists(), f"{wrong}: a page of nothing")
    same = lab(program, "report", folder / "one.json", "--out", folder / "one.json")
    expect(same.returncode == 2 and "is read from there" in same.stderr, same.stderr)


def metrics(program, folder):
    """AUC, calibration and the gradient's length where they are asked for: in every evaluated round, at the end, in comparisons."""
    def run(name, *more):
        out = folder / f"{name}.json"
        said = ran(lab(program, *SMALL[:-1], "6", "--json", out, *more)).stdout
        return said, json.loads(out.read_text())

    said, told = run("measured", "--algorithm", "fedavg-ft", "--metrics", "auc,ece,gradient")
    for round_ in told["rounds"]:
        seen = {(e["metric"], e["model"], e["average"]) for e in round_["evaluations"]}
        for metric in ("auc", "ece"):
            expect({(metric, model, average) for model in ("global", "personal") for average in ("pooled", "unweighted")} <= seen, f"{seen}")
        expect(("gradient_norm", "global", "pooled") in seen, f"{seen}")
    values = {(e["metric"], e["model"], e["average"]): e["value"] for e in told["final"]["evaluations"] if e["pick"] == "last"}
    expect(0.5 < values["auc", "personal", "pooled"] <= 1 and 0 <= values["ece", "personal", "pooled"] < 0.5, f"{values}")
    lengths = [e["value"] for round_ in told["rounds"] for e in round_["evaluations"] if e["metric"] == "gradient_norm"]
    expect(all(length > 0 for length in lengths) and lengths[-1] < lengths[0], f"training makes it shorter: {lengths}")
    for words in ("AUC, personal model", "calibration error, global model", "length of the gradient, global model"):
        expect(words in said, f"'{words}' is not in {said}")
    # More threads measure the same, and the run is the one without.
    _, threads = run("threads", "--algorithm", "fedavg-ft", "--metrics", "auc,ece,gradient", "--threads", "2")
    expect([e for e in threads["final"]["evaluations"]] == told["final"]["evaluations"], "the same numbers on two threads")
    _, plain = run("plain", "--algorithm", "fedavg-ft")
    expect(plain["final"]["state_hash"] == told["final"]["state_hash"], "measuring changes nothing")
    expect(not {e["metric"] for e in plain["final"]["evaluations"]} & {"auc", "ece", "gradient_norm"}, "they are there where they are asked for")
    page = folder / "measured.html"
    ran(lab(program, "report", folder / "measured.json", "--out", page))
    for figure in ("auc", "ece", "gradient"):
        expect(f'<figure id="fig-{figure}"' in page.read_text(), f"the page has no {figure}")
    run("other", "--algorithm", "fedalt", "--metrics", "auc,ece")
    compared = ran(lab(program, "compare", folder / "measured.json", folder / "other.json")).stdout
    expect("auc, last round" in compared and "ece, last round" in compared, compared)
    prices = folder / "prices.csv"
    prices.write_text("a,price\n" + "".join(f"{i},{2.5 * i}\n" for i in range(40)))
    for more, words in ((["--metrics", "acu"], "did you mean auc?"), (["--metrics", "speed"], "there are auc, ece and gradient"),
                        (["--metrics", "gradient", "--algorithm", "local"], "local has none"),
                        (["--metrics", "auc", "--data", f"csv:{prices},target=price", "--partition", "iid"], "it needs classes")):
        result = lab(program, "run", *([] if "--data" in more else SMALL[1:3]), "--clients", "6", "--per-round", "3", "--rounds", "2", *more)
        expect(result.returncode == 2 and words in result.stderr, f"{more}: {result.stderr}")


def of_presets(program, folder):
    """A preset may name the loss and the backend; the flag wins."""
    mine, out = folder / "mine.ini", folder / "preset.json"
    mine.write_text("data = synthetic\nloss = softmax\nbackend = reference\nrounds = 1\n")

    def config(*more):
        said = ran(lab(program, "run", "--preset", mine, "--clients", "6", "--per-round", "3", "--json", out, *more)).stdout
        return said, json.loads(out.read_text())["config"]

    said, told = config()
    expect(told["loss"] == "softmax" and told["backend"] == "reference" and "backend=reference" in said, f"{told}")
    said, told = config("--backend", "simd")
    expect(told["backend"] == "simd" and "backend=reference [the flag wins]" in said, said)
    for line, words in (("loss = softmux", "did you mean softmax?"), ("backend = blas", "there is no backend 'blas'")):
        mine.write_text(f"data = synthetic\n{line}\n")
        result = lab(program, "run", "--preset", mine)
        expect(result.returncode == 2 and "line 2" in result.stderr and words in result.stderr, result.stderr)


def main():
    what, program = sys.argv[1:]
    with tempfile.TemporaryDirectory() as folder:
        {"tables": tables, "words": words, "outputs": outputs}[what](program, pathlib.Path(folder))
    print("as a stranger would have it")


if __name__ == "__main__":
    main()
