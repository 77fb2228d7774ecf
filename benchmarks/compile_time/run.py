#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""What it costs to compile a program that trains: the one of README.md, or the files that are named. CPU seconds, the least
of three; lines after preprocessing. "linked": TESSERA_LINKED_KERNELS, as with the CMake component `kernels`, which compiles
the last two rows once."""
import argparse
import os
import pathlib
import resource
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
ONCE = [ROOT / "include" / "tessera" / room / "linked.cpp" for room in ("kernels", "nn")]
LINKED = ["-DTESSERA_LINKED_KERNELS"]
WAYS = {"-O2": ["-O2"], "-O2, linked": ["-O2", *LINKED], "-O0, linked": ["-O0", *LINKED]}


def compiled(command, source):
    """The program's output; a compiler's complaint ends everything."""
    words = [*command, f"-I{ROOT / 'include'}", str(source)]
    done = subprocess.run(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    if done.returncode != 0:
        sys.exit(f"{source} does not compile:\n{done.stderr}")
    return done.stdout


def seconds(command, source, times=3):
    def once():
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        compiled([*command, "-c", "-o", os.devnull], source)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        return after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime

    return min(once() for _ in range(times))


def table(compiler, sources):
    yield f"| CPU seconds | lines | {' | '.join(WAYS)} |"
    yield "|---" * (2 + len(WAYS)) + "|"
    for source in sources:
        lines = compiled([*compiler, "-E", "-P"], source).count("\n")
        spent = " | ".join(f"{seconds([*compiler, *way], source):.1f}" for way in WAYS.values())
        yield f"| {source.name} | {lines:,} | {spent} |"
    for source in ONCE:
        lines = compiled([*compiler, "-E", "-P"], source).count("\n")
        spent = f"{seconds([*compiler, '-O2', *LINKED], source, 1):.1f}"
        yield f"| {source.parent.name}/{source.name} | {lines:,} | | {spent} | |"


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--compiler", default="g++")
    parser.add_argument("source", nargs="*", type=pathlib.Path, default=[ROOT / "docs" / "snippets" / "readme.cpp"])
    arguments = parser.parse_args()
    for row in table([arguments.compiler, "-std=c++20"], arguments.source):
        print(row, flush=True)
