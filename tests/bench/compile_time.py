#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""What benchmarks/compile_time makes of a compiler that is played: a table, and the end of it where something does not
compile."""
import argparse
import pathlib
import stat
import subprocess
import sys
import tempfile

COMPILER = """#!{python}
import sys
if "bad.cpp" in sys.argv[-1]:
    sys.exit("bad.cpp:1: error: no such thing")
if "-E" in sys.argv:
    print("line\\n" * 1200, end="")
else:
    with open("{log}", "a") as log:
        print(*[word for word in sys.argv if word.startswith(("-O", "-D"))], file=log)
"""


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--root", type=pathlib.Path, default=pathlib.Path(__file__).resolve().parent.parent.parent)
    script = parser.parse_args().root / "benchmarks" / "compile_time" / "run.py"
    with tempfile.TemporaryDirectory() as folder:
        compiler = pathlib.Path(folder, "compiler")
        log = pathlib.Path(folder, "log")
        compiler.write_text(COMPILER.format(python=sys.executable, log=log))
        compiler.chmod(compiler.stat().st_mode | stat.S_IEXEC)

        def run(source):
            return subprocess.run([sys.executable, "-B", script, "--compiler", compiler, source], text=True,
                                  capture_output=True)

        good = run("good.cpp")
        rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in good.stdout.splitlines()]
        assert good.returncode == 0 and good.stderr == "", good.stderr
        assert rows[0] == ["CPU seconds", "lines", "-O2", "-O2, linked", "-O0, linked"], rows[0]
        assert rows[2][:2] == ["good.cpp", "1,200"], rows
        assert [row[0] for row in rows[3:]] == ["kernels/linked.cpp", "nn/linked.cpp"], rows
        assert all(float(cell) >= 0 for cell in rows[2][2:]), rows[2]
        linked = "-DTESSERA_LINKED_KERNELS"  # three times each, and what is linked once
        ways = 3 * ["-O2"] + 3 * [f"-O2 {linked}"] + 3 * [f"-O0 {linked}"]
        assert log.read_text().splitlines() == ways + 2 * [f"-O2 {linked}"]

        bad = run("bad.cpp")
        assert bad.returncode == 1 and bad.stderr.startswith("bad.cpp does not compile"), bad.stderr
        assert "good" not in bad.stdout and "no such thing" in bad.stderr
    print("ok")


if __name__ == "__main__":
    main()
