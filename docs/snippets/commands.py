#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Runs the tessera-lab commands of a page, in their order, as they stand but for a few rounds and seeds instead of many, and
on synthetic data where Fashion-MNIST is not installed. Each must end with 0 and leave the files it names.

Of the pages after --brief, commands run for one round on synthetic data in any case: what is checked is that the lab knows
their words. Lines that show a usage ([flags], a choice) are passed over, and there also what only pictures or texts can be
given to: tests/lab/images.py and text.py run those on data of their own."""
import argparse
import os
import pathlib
import re
import shlex
import subprocess
import sys
import tempfile

FEW = {"--rounds": "2", "--eval-every": "1", "--seeds": "1,2"}
NO_BYTES = {"--normalise": "none"}  # for synthetic numbers, of which a page may ask for what only bytes have
SYNTHETIC = {"--data": "synthetic", "--partition": None, "--clients": "12", **NO_BYTES}  # None: the flag and its value go
BRIEF = {"--data": "synthetic", "--partition": "natural", "--clients": "12", "--per-round": "2", "--batch": "5", "--rounds": "1"}
PICTURES_OR_TEXTS = ("$D", "resnet8", "char-lstm", "generate")
FILES = ("--json", "--report", "--csv", "--jsonl", "--models", "--trace")


def commands_of(text):
    """Each indented command of the lab, as words after the program's name."""
    joined = re.sub(r"\\\n\s*", " ", text)
    for line in re.findall(r"^ {4}(\S*tessera-lab .*)$", joined, re.M):
        if "[" not in line and ", tessera-lab" not in line:
            words = shlex.split(line, comments=True)[1:]
            yield words[:words.index("...")] if "..." in words else words


def with_values(words, values):
    out, skip = [], False
    for word, following in zip(words, words[1:] + [""]):
        if skip:
            skip = False
        elif word in values:
            skip = True
            out += [] if values[word] is None else [word, values[word]]
        else:
            out.append(word)
    return out


def briefly(words):
    """The same command for one round; presets and stages have numbers of their own, which lose."""
    if words[0] not in ("run", "sweep"):
        return words
    words = [re.sub(r"\brounds=\d+", "rounds=1", word) for word in words]
    return with_values(words, {**FEW, **NO_BYTES, **dict.fromkeys(BRIEF)}) + [part for pair in BRIEF.items() for part in pair]


def run_command(lab, words, folder):
    """As a shell does it, with `> FILE`. A report that `compare` or `report` reads and nobody wrote is a run of the algorithm of that name."""
    if words[0] in ("compare", "report"):
        for file in words[1:]:
            if file.endswith(".json") and not os.path.isfile(os.path.join(folder, file)):
                name = file[:-len(".json")] if words[0] == "compare" else "fedavg"  # a page's own program wrote it
                run_command(lab, briefly(["run", "--algorithm", name, "--json", file]), folder)
    to = words[words.index(">") + 1] if ">" in words else None
    words = words[:words.index(">")] if to else words
    done = subprocess.run([lab, *words], cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    if to:
        pathlib.Path(folder, to).write_text(done.stdout)
    return done


def has_images(lab, folder):
    """Whether the lab finds Fashion-MNIST here."""
    command = [lab, "run", "--data", "fashion-mnist", "--rounds", "1", "--clients", "20", "--quiet"]
    return subprocess.run(command, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE).returncode == 0


def run_page(page, lab, brief=False):
    complaints, count = [], 0
    with tempfile.TemporaryDirectory() as folder:
        os.symlink(pathlib.Path(__file__).resolve().parent.parent, pathlib.Path(folder, "docs"))
        changes = {**FEW, **({} if brief or has_images(lab, folder) else SYNTHETIC)}
        for words in commands_of(page.read_text()):
            count += 1
            if brief and any(word in PICTURES_OR_TEXTS for word in words):
                continue
            words = briefly(words) if brief else with_values(words, changes)
            done = run_command(lab, words, folder)
            shown = "tessera-lab " + " ".join(words)
            if done.returncode:
                complaints.append(f"{page.name}: exit code {done.returncode}: {shown}\n{done.stdout}")
            for flag, file in zip(words, words[1:]):
                if flag in FILES and not os.path.isfile(os.path.join(folder, file)):
                    complaints.append(f"{page.name}: {file} is not written: {shown}")
    if count == 0:
        complaints.append(f"{page.name}: has no command of the lab")
    return complaints


def self_test():
    """A lab that does nothing leaves no files; one that fails is noticed; so is a page without commands."""
    with tempfile.TemporaryDirectory() as folder:
        page = pathlib.Path(folder, "p.md")
        page.write_text("Text.\n\n    x/tessera-lab run --rounds 90 \\\n        --json a.json  # a comment\n")
        assert list(commands_of(page.read_text())) == [["run", "--rounds", "90", "--json", "a.json"]]
        assert with_values(["a", "--partition", "b", "--rounds", "9"], {**FEW, **SYNTHETIC}) == ["a", "--rounds", "2"]
        usage = "    tessera-lab run [flags]\n    tessera-lab run --dp clip=1 ...   of a kind\n"
        assert list(commands_of(usage)) == [["run", "--dp", "clip=1"]]
        assert briefly(["run", "--rounds", "90", "--stages", "a rounds=9"])[1:3] == ["--stages", "a rounds=1"]
        assert briefly(["run", "--normalise", "unit"])[1:3] == ["--normalise", "none"]
        found = run_page(page, "true"), run_page(page, "false", brief=True)
        page.write_text("Text.\n\n    tessera-lab run --model resnet8\n")
        assert not run_page(page, "false", brief=True) and run_page(page, "false")
        page.write_text("Text.\n")
        found += (run_page(page, "true"),)
        for complaints, expected in zip(found, ("is not written", "exit code 1", "no command")):
            if expected not in "\n".join(complaints):
                sys.exit(f"self-test: expected {expected!r}, found {complaints}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--lab", type=pathlib.Path)
    parser.add_argument("pages", nargs="*", type=pathlib.Path)
    parser.add_argument("--brief", nargs="*", type=pathlib.Path, default=[], metavar="PAGE")
    arguments = parser.parse_args()
    self_test()
    lab = str(arguments.lab.resolve())
    problems = [line for page in arguments.pages for line in run_page(page, lab)]
    problems += [line for page in arguments.brief for line in run_page(page, lab, brief=True)]
    print("\n".join(problems) or "the commands do what the pages say")
    sys.exit(1 if problems else 0)
