#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Language models in the lab: every system on text by one command, one state whatever the threads, the wire and a restart,
curves and figures of words, models that speak, vocabularies that are kept, exports of StackOverflow's form, and word
error rates of a recogniser.

    text.py systems|clients|states|speech|vocabulary|exports|frames PATH-TO-tessera-lab
"""
import json
import pathlib
import random
import struct
import subprocess
import sys
import tempfile

HABITS = {"ann": "abcabd ", "bob": "aabbcc ", "carl": "dcbadc ", "dora": "abacad "}
LSTM, CELL = "embedding 4,lstm 6,linear", "embedding 4,cell 6,linear"
ADAPTED = "embedding 4,lstm 6,adapter 2,linear"


def lab(program, *arguments):
    return subprocess.run([program, *map(str, arguments)], capture_output=True, text=True, check=False)


def expect(condition, sentence):
    if not condition:
        sys.exit(f"failed: {sentence}")


def ran(program, folder, *arguments):
    """The JSON of a small run on what four people said."""
    out = folder / "out.json"
    result = lab(program, "run", *speeches(folder), "--per-round", "3", "--batch", "4", "--quiet", *arguments, "--json", out)
    expect(result.returncode == 0, f"{arguments}: exit {result.returncode}: {result.stderr.strip()}")
    return json.loads(out.read_text())


def speeches(folder):
    path = folder / "speeches.tsv"
    path.write_text("client\ttext\n" + "".join(f"{who}\t{habit * 3}\n" for _ in range(6) for who, habit in HABITS.items()))
    return ["--data", f"tsv:{path},window=10"]


def final(report, model, metric, stage=None):
    """Pooled over the clients' test data, of the last round."""
    found = [e["value"] for e in report["final"]["evaluations"]
             if (e["model"], e["metric"], e["average"], e["pick"], e["split"]) == (model, metric, "pooled", "last", "test")
             and (stage is None or e["stage"] == stage)]
    return found[0] if found else None


def systems(program, folder):
    """Each runs by one command and learns something; what it serves is judged in words as well."""
    runs = {
        "flow-states": ["--model", CELL, "--set", "first=8", "--set", "second=0", "--eval-also", "inference=soft"],
        "fedalt input": ["--model", LSTM, "--scope", "input"],
        "fedalt output": ["--model", LSTM, "--scope", "output", "--stateless"],
        "fedalt adapter": ["--model", ADAPTED, "--scope", "adapter"],
        "fedsim output": ["--model", LSTM, "--scope", "output"],
        "fedsim adapter": ["--model", "transformer-adapter", "--scope", "adapter", "--stateless"],
        "pfedbred-mh": ["--model", LSTM, "--set", "steps=3"],
        "pfedme": ["--model", LSTM, "--set", "steps=3"],
        "perada": ["--model", ADAPTED, "--aux", "held-out:0.2", "--set", "kd_steps=2"],
        "fedspa-dst": ["--model", LSTM],
        "fedavg-dp": ["--model", LSTM, "--set", "clip=1", "--set", "noise=0.1"],
        "fedavg-clients-dp": ["--model", LSTM, "--set", "fold.noise=0.1"],
    }
    for name, more in runs.items():
        report = ran(program, folder, "--algorithm", name.split()[0], "--rounds", "2", *more)
        models = {e["model"] for e in report["final"]["evaluations"]}
        for model in models:
            perplexity = final(report, model, "perplexity", "")
            expect(perplexity is not None and perplexity < 100, f"{name}: perplexity of the {model} model is {perplexity}")
            words = final(report, model, "in_vocabulary", "")
            expect(words is not None and 0 <= words <= 1, f"{name}: accuracy of words of the {model} model is {words}")
        print(f"{name}: {', '.join(sorted(models))}")
    report = ran(program, folder, "--algorithm", "flow-states", "--rounds", "2", *runs["flow-states"])
    expect(final(report, "personal", "accuracy", "inference=soft") is not None, "soft routing has an evaluation of its own")
    deep = lab(program, "run", *speeches(folder), "--algorithm", "flow-states", "--model", "transformer", "--rounds", "1",
               "--per-round", "2", "--quiet")
    expect(deep.returncode == 2 and "dense widths" in deep.stderr, f"more blocks than its router has exits: {deep.stderr}")


def clients(program, folder):
    """Whole clients hidden: the same epsilon for all, the divisor of a round; what does not go with it is said."""
    usual = ["--model", LSTM, "--rounds", "2", "--dp", "per=client,clip=0.5,noise=2,delta=1e-2,source=keyed"]
    report, again = ran(program, folder, *usual), ran(program, folder, *usual, "--threads", "2", "--wire")
    expect(report["final"]["state_hash"] == again["final"]["state_hash"], "a keyed source is the same for threads and wire")
    more = ran(program, folder, *usual[:-1], "per=client,clip=0.5,noise=4,delta=1e-2,source=keyed")
    told = [{name: text for name, text in zip(extra["categories"], extra["series"][0]["texts"])}
            for each in (report, more) for extra in each["extras"] if extra["id"] == "privacy"]
    expect(told[0]["epsilon, largest"] == told[0]["epsilon, smallest"], f"one ledger for all: {told[0]}")
    expect(float(told[0]["epsilon, largest"]) > float(told[1]["epsilon, largest"]), f"more noise costs less: {told}")
    expect(told[0]["neighbours"].startswith("one client"), f"what is hidden: {told[0]}")
    expect(report["config"]["fold.clients"] == 3, "a round merges three")
    for dp, algorithm, words in (("per=client,epsilon=2", "fedavg", "it takes clip, noise, delta and source"),
                                 ("per=user", "fedavg", "one of example, client"), ("per=client", "fedalt", "these can: fedavg, ditto"),
                                 ("per=client,clip=0", "fedavg", "clip must be a positive norm")):
        result = lab(program, "run", *speeches(folder), *usual[:-1], dp, "--algorithm", algorithm, "--per-round", "3")
        expect(result.returncode == 2 and words in result.stderr and len(result.stderr.splitlines()) == 1,
               f"--dp {dp}: exit {result.returncode}, {result.stderr}")
        print(result.stderr.strip())


def states(program, folder):
    """One hash for any number of threads, over the wire and after a restart; another one for another seed."""
    for algorithm, model in (("fedalt", LSTM), ("fedavg", "transformer"), ("flow-states", CELL)):
        usual = ["--algorithm", algorithm, "--model", model, "--rounds", "4"]
        usual += ["--scope", "output"] if algorithm == "fedalt" else []
        usual += ["--set", "first=8"] if algorithm == "flow-states" else []
        print(algorithm, model)
        kept = folder / f"{algorithm}-kept"
        seen = {name: ran(program, folder, *usual, *more)["final"]["state_hash"] for name, more in {
            "one thread": ["--threads", "1"], "three": ["--threads", "3"], "wire": ["--wire", "--threads", "2"],
            "kept": ["--checkpoint", kept, "--checkpoint-every", "1"]}.items()}
        newest = sorted(kept.glob("round-*"))[-1]
        newest.unlink()  # as if it had been killed in the last round
        seen["resumed"] = ran(program, folder, *usual, "--checkpoint", kept, "--resume")["final"]["state_hash"]
        expect(len(set(seen.values())) == 1, f"{algorithm} of {model}: {seen}")
        other = ran(program, folder, *usual, "--seed", "2")["final"]["state_hash"]
        expect(other not in seen.values(), f"{algorithm}: another seed gives the same state")


def speech(program, folder):
    """Models speak from a checkpoint, the same for a seed; what cannot be is said in a sentence. The page shows it too."""
    report, kept, page = folder / "run.json", folder / "kept", folder / "page.html"
    made = ["run", *speeches(folder), "--algorithm", "fedavg-ft", "--model", "embedding 8,lstm 16,linear", "--per-round", "4", "--batch", "2",
            "--set", "rate=1", "--set", "epochs=3", "--quiet"]
    result = lab(program, *made, "--rounds", "12", "--json", report, "--checkpoint", kept, "--report", page)
    expect(result.returncode == 0, result.stderr)

    told = json.loads(report.read_text())
    rounds = [{e["metric"] for e in each["evaluations"]} for each in told["rounds"]]
    expect(all({"perplexity", "in_vocabulary"} <= metrics for metrics in rounds), "every round has the figures of words")
    expect(final(told, "personal", "perplexity") < 4, f"it has learnt to spell: {final(told, 'personal', 'perplexity')}")
    html = page.read_text()
    for words in ("Perplexity over rounds", "Accuracy in the vocabulary over rounds", "What the models say", "global model"):
        expect(words in html, f"the page has no '{words}'")

    def say(*more):
        return lab(program, "generate", report, *more)

    usual = ["--client", "ann", "--prompt", "abc", "--tokens", "30"]
    first, again = say(*usual, "--seed", "3"), say(*usual, "--seed", "3")
    expect(first.returncode == 0, first.stderr)
    expect(first.stdout == again.stdout, "the same seed, another text")
    expect(first.stdout != say(*usual, "--seed", "4").stdout, "another seed, the same text")
    blocks = first.stdout.split("model")
    expect("global " in first.stdout and "personal model of ann" in first.stdout and len(blocks) == 3, first.stdout)
    cold = [say("--client", who, "--prompt", HABITS[who][:3], "--tokens", "24", "--temperature", "0").stdout for who in HABITS]
    expect(len({text.split("personal")[1] for text in cold}) > 1, f"all clients say the same: {cold}")
    said = first.stdout.partition("rounds:\n")[2].partition("\npersonal model")[0].partition("|")  # lines may break in it
    expect(said[0] == "abc" and len(said[2]) == 30, f"30 characters behind the prompt: {said}")

    bare = folder / "bare.json"
    expect(lab(program, *made, "--rounds", "1", "--json", bare).returncode == 0, "a run without checkpoints")
    digits = folder / "digits.json"
    expect(lab(program, "run", "--data", "synthetic", "--clients", "4", "--per-round", "2", "--rounds", "1", "--quiet", "--json", digits,
               "--checkpoint", folder / "digits").returncode == 0, "a run on numbers")
    cases = {
        (report, "--client", "anne", "--prompt", "a"): "did you mean ann?",
        (report, "--client", "ann", "--prompt", "a", "--temperature", "-1"): "temperature",
        (report, "--client", "ann", "--prompt", "a", "--tokens", "-4"): "--tokens",
        (report, "--client", "ann"): "--prompt",
        (bare, "--client", "ann", "--prompt", "a"): "kept no checkpoint",
        (digits, "--client", "0", "--prompt", "a"): "no texts",
        (folder / "none.json", "--client", "ann", "--prompt", "a"): "none.json",
    }
    for arguments, words in cases.items():
        result = lab(program, "generate", *arguments)
        expect(result.returncode == 2 and words in result.stderr and len(result.stderr.splitlines()) == 1,
               f"{arguments}: exit {result.returncode}, {result.stderr}")
        print(result.stderr.strip())
    for file in kept.glob("round-*"):
        file.unlink()
    result = say(*usual)
    expect(result.returncode == 2 and "no checkpoint" in result.stderr, f"without its checkpoint: {result.stderr}")


def refused(result, words):
    expect(result.returncode == 2 and words in result.stderr and len(result.stderr.splitlines()) == 1,
           f"'{words}' is to be said: exit {result.returncode}, {result.stderr}")
    print(result.stderr.strip())


def vocabulary(program, folder):
    """It is kept with whatever a run leaves, without being asked for; models do not go on by another one."""
    report, kept, models = folder / "run.json", folder / "kept", folder / "models.npz"
    usual = ["run", *speeches(folder), "--algorithm", "fedavg-ft", "--model", LSTM, "--per-round", "3", "--batch", "4", "--quiet"]
    result = lab(program, *usual, "--rounds", "2", "--json", report, "--checkpoint", kept, "--models", models)
    expect(result.returncode == 0, result.stderr)
    files = [folder / "run.vocabulary", folder / "models.vocabulary", kept / "vocabulary"]
    texts = {file.read_text() for file in files}
    expect(len(texts) == 1 and texts.pop().startswith("tessera-vocabulary 1 characters"), "three files, one vocabulary")

    again = folder / "again.json"
    data = [f"{speeches(folder)[1]},vocabulary={folder / 'run.vocabulary'}"]
    expect(lab(program, "run", "--data", *data, *usual[3:], "--rounds", "2", "--json", again).returncode == 0, "read by another run")
    hashes = {json.loads(file.read_text())["final"]["state_hash"] for file in (report, again)}
    expect(len(hashes) == 1, "the same vocabulary, the same run")
    say = ["generate", report, "--client", "ann", "--tokens", "5"]
    expect(lab(program, *say, "--prompt", "abc").returncode == 0, "the same data: models go on")

    several = folder / "seeds"
    result = lab(program, *usual, "--rounds", "1", "--seeds", "1,2", "--checkpoint", several)
    expect(result.returncode == 0 and all((several / f"seed-{seed}" / "vocabulary").is_file() for seed in (1, 2)),
           "one beside each seed's checkpoints")
    digits = lab(program, "run", "--data", "synthetic", "--clients", "4", "--per-round", "2", "--rounds", "1", "--quiet",
                 "--json", folder / "digits.json")
    expect(digits.returncode == 0 and not (folder / "digits.vocabulary").exists(), "numbers have none")

    # Every letter five further: the same ids, and other letters.
    path = folder / "speeches.tsv"
    head, _, body = path.read_text().partition("\n")
    moved = [line.split("\t") for line in body.splitlines()]
    path.write_text("\n".join([head, *(f"{who}\t{''.join(chr(ord(c) + 5) if c.isalpha() else c for c in text)}" for who, text in moved)]) + "\n")
    refused(lab(program, *say, "--prompt", "fgh"), "had another vocabulary")
    refused(lab(program, *usual, "--rounds", "3", "--checkpoint", kept, "--resume"), "had another vocabulary")


def exports(program, folder):
    """An export of clients and LEAF's lists read as lines do: the same data, the same run."""
    said = {who: [habit * 3] * 6 for who, habit in HABITS.items()}
    form = {"lines.jsonl": "\n".join(json.dumps({"client": who, "text": text}) for who, all_of in said.items() for text in all_of),
            "tff.json": json.dumps({who: {"title": ["t"] * 6, "tokens": texts} for who, texts in said.items()}),
            "leaf.json": json.dumps({"users": list(said), "num_samples": [6] * 4, "user_data": {who: {"x": texts} for who, texts in said.items()}})}
    seen = {}
    for name, text in form.items():
        (folder / name).write_text(text)
        out = folder / "out.json"
        result = lab(program, "run", "--data", f"{name.rpartition('.')[2]}:{folder / name},window=10", "--model", LSTM, "--per-round", "2",
                     "--batch", "4", "--rounds", "2", "--quiet", "--json", out)
        expect(result.returncode == 0, f"{name}: {result.stderr}")
        seen[name] = json.loads(out.read_text())["final"]["state_hash"]
    expect(len(set(seen.values())) == 1, f"three forms of the same: {seen}")

    def reads(text, more=""):
        (folder / "bad.json").write_text(text)
        return lab(program, "run", "--data", f"json:{folder / 'bad.json'}{more}", "--rounds", "1", "--quiet")
    refused(reads(form["tff.json"].replace('"t"', "7", 1), ",text=title"), "bad.json: client 'ann', text 1 of 'title': a number")
    refused(reads(form["tff.json"], ",text=titles"), "client 'ann' has no member 'titles'; it has title, tokens")
    refused(reads(form["leaf.json"].replace("[6,", "[7,", 1)), "client 'ann' has 6 texts and 7 in num_samples")
    refused(reads(form["tff.json"][:-9]), "is not JSON in line 1")


def npy(path, kind, shape, numbers):
    head = f"{{'descr': '<{kind}', 'fortran_order': False, 'shape': {tuple(shape)}, }}"
    head += " " * (-(len(head) + 11) % 64) + "\n"
    path.write_bytes(b"\x93NUMPY\x01\x00" + struct.pack("<H", len(head)) + head.encode() +
                     struct.pack(f"<{len(numbers)}{kind[0]}", *numbers))


def frames(program, folder):
    """A recogniser on synthetic frames, of four people: its word error rate falls, and is told wherever metrics are."""
    draw, length, width, words, said = random.Random(3), 32, 4, 3, 48
    x, y = [], []
    for _ in range(said):
        spoken = [draw.randrange(1, width) for _ in range(words)]
        y += [*spoken, -1]
        for t in range(length):
            speaks = spoken[t // 10] if t < 10 * words and 3 <= t % 10 < 7 else None
            x += [(1.0 if j == speaks else 0.0) + draw.gauss(0, 0.1) for j in range(width)]
    npy(folder / "frames.npy", "f4", (said, length, width), x)
    npy(folder / "said.npy", "i4", (said, words + 1), y)
    (folder / "who.txt").write_text("\n".join("abcd"[i % 4] for i in range(said)) + "\n")
    data = ["--data", f"npy:{folder / 'frames.npy'},{folder / 'said.npy'},labels=transcripts,client={folder / 'who.txt'}"]
    model = f"speech-transformer:features={width},width=12,heads=2,inner=16,blocks=1"
    usual = ["run", *data, "--model", model, "--algorithm", "fedavg-ft", "--set", "rate=0.1", "--set", "epochs=20", "--per-round", "4", "--batch", "5"]
    report, page, table = folder / "run.json", folder / "page.html", folder / "rounds.csv"
    result = lab(program, *usual, "--rounds", "20", "--json", report, "--report", page, "--csv", table)
    expect(result.returncode == 0, result.stderr)
    expect("word error rate, personal model" in result.stdout, f"the summary tells it: {result.stdout}")
    told = json.loads(report.read_text())
    rates = [e["value"] for each in told["rounds"] for e in each["evaluations"]
             if (e["metric"], e["model"], e["average"]) == ("word_error_rate", "global", "pooled")]
    expect(len(rates) == 20 and rates[0] > 0.2 and rates[-1] < 0.1, f"errors fall: {rates[0]} to {rates[-1]}")
    each = [client["word_error_rate_global"] for client in told["final"]["per_client"]]
    unweighted = [e["value"] for e in told["final"]["evaluations"]
                  if (e["metric"], e["model"], e["average"], e["pick"]) == ("word_error_rate", "global", "unweighted", "last")]
    expect(len(each) == 4 and abs(sum(each) / 4 - unweighted[0]) < 1e-12, f"mean over clients: {each}, {unweighted}")
    expect("Word error rate over rounds" in page.read_text(), "a curve on the page")
    expect("word_error_rate" in table.read_text(), "in the table of rounds")
    other = folder / "other.json"
    expect(lab(program, *usual, "--rounds", "10", "--json", other, "--quiet").returncode == 0, "a shorter run")
    compared = lab(program, "compare", report, other)
    expect(compared.returncode == 0 and "word_error_rate" in compared.stdout, f"compared: {compared.stdout}{compared.stderr}")
    expect(lab(program, "report", report, "--out", folder / "again.html").returncode == 0 and
           "Word error rate over rounds" in (folder / "again.html").read_text(), "a page from the JSON has it too")

    def once(what, *more):
        return lab(program, "run", *data, "--model", what, "--per-round", "4", "--rounds", "1", "--quiet", *more)
    refused(once("speech-transformer:features=5"), "a row of 128 numbers is not frames of features=5")
    refused(once(f"speech-transformer:features={width},words=3"), "the settings of speech-transformer are features, width")
    refused(once(model, "--loss", "softmax"), "a label for each position")
    npy(folder / "said.npy", "i4", (said, 9), [1 for _ in range(9 * said)])
    refused(once(model), "nn::Ctc: the labels of example 0 need 17 frames, the network has 8")


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as scratch:
        {"systems": systems, "clients": clients, "states": states, "speech": speech, "vocabulary": vocabulary,
         "exports": exports, "frames": frames}[sys.argv[1]](sys.argv[2], pathlib.Path(scratch))
