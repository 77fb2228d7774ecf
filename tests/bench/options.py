#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""A wrong option of scripts/bench is refused with a sentence before anything is installed or built: cmake and apt-get are
played here by programs that leave a trace."""
import argparse
import os
import pathlib
import subprocess
import tempfile

WRONG = {
    ("--bogus",): "unrecognized arguments: --bogus",
    ("quick",): "unrecognized arguments: quick",
    ("--only", "dense"): "invalid choice: 'dense'",
    ("--only",): "argument --only: expected one argument",
    ("--page", "nowhere/page.md"): "--page nowhere/page.md: a page is a .md file in a folder that exists",
    ("--page", "docs/page.txt"): "--page docs/page.txt: a page is a .md file in a folder that exists",
    ("--turns", "0"): "--turns: at least 1",
    ("--min-time", "-1"): "--min-time: seconds, above 0",
    ("--against",): "argument --against: expected one argument",
    ("--agianst", "HEAD"): "unrecognized arguments: --agianst HEAD",
    ("--agains", "HEAD"): "unrecognized arguments: --agains HEAD",
    ("--against", "no-such-commit"): "--against no-such-commit: ",  # there is none, or no repository
    ("--against", "HEAD", "--quick"): "--quick: not with --against",
    ("--against", "HEAD", "--page", "docs/page.md"): "--page: not with --against",
    ("--against", "HEAD", "--only", "dense"): "invalid choice: 'dense'",
    ("--against", "HEAD", "--rows", "("): "--rows (: this is no regular expression",
    ("--against", "HEAD", "--limit", "-1"): "--limit: per cent, at least 0",
    ("--against", "HEAD", "--limit", "two"): "argument --limit: invalid float value: 'two'",
    ("--limit", "2"): "--limit: only with --against",
    ("--rows", "dnn"): "--rows: only with --against",
    ("--images", "--quick"): "--images, --quick: one of them",
    ("--images", "--page", "nowhere/page.md"): "--page nowhere/page.md: a page is a .md file in a folder that exists",
    ("--keep", "samples.json"): "--keep: only with --images",
    ("--images", "--keep"): "argument --keep: expected one argument",
    ("--images", "--keep", "nowhere/samples.json"): "--keep nowhere/samples.json: its folder does not exist",
    ("--images", "--keep", __file__): "it holds no samples",
}


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--root", type=pathlib.Path, default=pathlib.Path(__file__).resolve().parent.parent.parent)
    script = parser.parse_args().root / "scripts" / "bench"
    with tempfile.TemporaryDirectory() as folder:
        trace = pathlib.Path(folder, "trace")
        for name in ("cmake", "apt-get", "sudo"):
            player = pathlib.Path(folder, name)
            player.write_text(f"#!/bin/sh\necho {name} >> '{trace}'\nexit 1\n")
            player.chmod(0o755)
        environment = {**os.environ, "PATH": folder + os.pathsep + os.environ["PATH"]}

        def run(*options):
            return subprocess.run([script, *options], text=True, capture_output=True, env=environment)

        for options, sentence in WRONG.items():
            answer = run(*options)
            assert answer.returncode == 2, (options, answer)
            assert sentence in answer.stderr, (options, answer.stderr)
            assert not trace.exists(), (options, trace.read_text())
        help_text = run("--help")
        assert help_text.returncode == 0 and "--quick" in help_text.stdout and not trace.exists(), help_text
        run("--quick")  # nothing wrong with it: the trace can be left
        assert trace.exists()


if __name__ == "__main__":
    main()
