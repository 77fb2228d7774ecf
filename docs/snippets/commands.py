#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Runs the tessera-lab commands of a page, in their order, as they stand but for a few rounds and seeds instead of many, and
on synthetic data where Fashion-MNIST is not installed. Each must end with 0 and leave the files it names."""
import argparse
import os
import pathlib
import re
import shlex
import subprocess
import sys
import tempfile

FEW = {"--rounds": "2", "--eval-every": "1", "--seeds": "1,2"}
SYNTHETIC = {"--data": "synthetic", "--partition": None, "--clients": "12"}  # None: the flag and its value go
FILES = ("--json", "--report", "--csv", "--jsonl", "--models", "--trace")


def commands_of(text):
    """Each indented command of the lab, as words after the program's name."""
    joined = re.sub(r"\\\n\s*", " ", text)
    for line in re.findall(r"^ {4}(\S*tessera-lab .*)$", joined, re.M):
        yield shlex.split(line, comments=True)[1:]


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


def has_images(lab, folder):
    """Whether the lab finds Fashion-MNIST here."""
    command = [lab, "run", "--data", "fashion-mnist", "--rounds", "1", "--clients", "20", "--quiet"]
    return subprocess.run(command, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE).returncode == 0


def run_page(page, lab):
    complaints, count = [], 0
    with tempfile.TemporaryDirectory() as folder:
        changes = {**FEW, **({} if has_images(lab, folder) else SYNTHETIC)}
        for words in commands_of(page.read_text()):
            count += 1
            words = with_values(words, changes)
            done = subprocess.run([lab, *words], cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
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
        found = run_page(page, "true"), run_page(page, "false")
        page.write_text("Text.\n")
        found += (run_page(page, "true"),)
        for complaints, expected in zip(found, ("is not written", "exit code 1", "no command")):
            if expected not in "\n".join(complaints):
                sys.exit(f"self-test: expected {expected!r}, found {complaints}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--lab", type=pathlib.Path)
    parser.add_argument("pages", nargs="*", type=pathlib.Path)
    arguments = parser.parse_args()
    self_test()
    problems = [line for page in arguments.pages for line in run_page(page, str(arguments.lab.resolve()))]
    print("\n".join(problems) or "the commands do what the pages say")
    sys.exit(1 if problems else 0)
