#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""The tutorial, followed word for word: from the CSV that somebody sent to the figure of a method of one's own.

    follow.py --lab PATH-TO-tessera-lab --compiler g++ --system DIR... --programs DIR

In one folder, in the order of the page: its first program is compiled by the command that stands there and run, the others
are run as the build made them (`snippet_NAME` in DIR), what each prints must stand below it, and every command of the lab is
run as it stands. Only where Fashion-MNIST is not installed do synthetic data take its place. At the end the files that the
page speaks of must be there and hold what it says: the figure of the method of one's own on `camps.html`, and in
`compare.html` the numbers of its table, which may be off by a point for another set of kernels."""
import argparse
import pathlib
import re
import subprocess
import sys
import tempfile

sys.dont_write_bytecode = True
import check
import commands

DOCS = pathlib.Path(__file__).resolve().parent.parent
STEP = re.compile(r"^<!-- output: (?P<program>[a-z_0-9]+\.cpp) -->\n+```text\n(?P<output>.*?)^```$|^    (?P<command>(?:g\+\+|tessera-lab) [^\n]*)$", re.S | re.M)


def steps_of(text):
    """(what, words): a program with what it prints, or a command, in the order of the page."""
    joined = re.sub(r"\\\n\s*", " ", text)
    for match in STEP.finditer(joined):
        if match["program"]:
            yield "program", (match["program"], match["output"])
        else:
            yield "command", match["command"]


def shell(command, folder):
    done = subprocess.run(command, shell=True, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"exit {done.returncode}: {command}\n{done.stdout}{done.stderr}")
    return done.stdout


def follow(arguments, folder):
    text = (DOCS / "tutorial.md").read_text()
    for name in ("docs", "include"):
        (folder / name).symlink_to(DOCS.parent / name)
    lab = arguments.lab.resolve()
    images = commands.has_images(str(lab), folder)
    said, printed, compiled = [], {}, None
    for what, step in steps_of(text):
        if what == "program":
            name, output = step
            stem = name[:-len(".cpp")]
            got = compiled if compiled and name in compiled[0] else (name, shell(f"{arguments.programs.resolve() / ('snippet_' + stem)}", folder))
            if got[1] != output:
                raise SystemExit(f"{name} prints\n{got[1]}and not\n{output}")
            said.append(name)
        elif step.startswith("g++"):
            system = " ".join(f"-isystem {each}" for each in arguments.system)
            compiled = (step, shell(step.replace("g++", f"{arguments.compiler} {system}", 1), folder))
            said.append("g++")
        else:
            words = commands.shlex.split(step, comments=True)[1:]
            if not images and "fashion-mnist" in words:
                words = commands.with_values(words, {**commands.FEW, **commands.SYNTHETIC})
            printed[words[0]] = shell(" ".join(map(commands.shlex.quote, [str(lab), *words])), folder)
            said.append("tessera-lab " + words[0])
    return said, printed, images


def check_table(text, compared):
    """Of each row of the page's table the two accuracies and the difference, which the comparison must have printed."""
    rows = re.findall(r"^\| [^|]+ \| ([0-9.]+) to ([0-9.]+) % \| \+([0-9.]+) \(", text, re.M)
    lines = re.findall(r"^  accuracy, last round, mean over clients +([0-9.]+) +([0-9.]+) +\+([0-9.]+) ", compared, re.M)
    if not rows or len(rows) != len(lines):
        raise SystemExit(f"the table has {len(rows)} rows, the comparison {len(lines)}:\n{compared}")
    for row, line in zip(rows, lines):
        if any(abs(float(a) - float(b)) > 1 for a, b in zip(row, line)):
            raise SystemExit(f"the page says {row}, the comparison {line}")


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--lab", type=pathlib.Path, required=True)
    parser.add_argument("--compiler", required=True)
    parser.add_argument("--system", nargs="*", default=[])
    parser.add_argument("--programs", type=pathlib.Path, required=True)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        said, printed, images = follow(arguments, folder)
        wanted = ["g++", "tutorial_1_data.cpp", "tessera-lab run", "tessera-lab compare", "tutorial_4_method.cpp", "tutorial_5_figure.cpp",
                  "tessera-lab report"]
        places = [said.index(each) if each in said else -1 for each in wanted]
        if -1 in places or places != sorted(places):
            raise SystemExit(f"the page has the steps {said}, and not {wanted} among them in this order")
        page = (folder / "camps.html").read_text()
        for words in ('id="fig-extra-camps"', "Gardens in each camp", "<h1>Two camps of gardens</h1>"):
            if words not in page:
                raise SystemExit(f"camps.html has no {words}")
        if "fig-extra-comparison" not in (folder / "compare.html").read_text():
            raise SystemExit("compare.html has no comparison")
        if images:
            check_table((DOCS / "tutorial.md").read_text(), printed["compare"])
        print("followed: " + ", ".join(said))


if __name__ == "__main__":
    main()
