#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Language models in the lab: every system on text by one command, one state whatever the threads, the wire and a restart,
curves and figures of words, and models that speak.

    text.py systems|clients|states|speech PATH-TO-tessera-lab
"""
import json
import pathlib
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
    for words in ("Perplexity over rounds", "Accuracy of words over rounds", "What the models say", "global model"):
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


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as scratch:
        {"systems": systems, "clients": clients, "states": states, "speech": speech}[sys.argv[1]](sys.argv[2], pathlib.Path(scratch))
