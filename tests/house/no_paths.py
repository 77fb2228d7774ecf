#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""No file of the project may carry a path of the machine it was written on."""
import os
import pathlib
import re

import self_check

# Written in pieces, so that this file does not blame itself.
FOLDERS = ["home/" + r"\w", "ro" + "ot/", "wo" + "rk/", "Us" + r"ers/\w"]
PATTERN = re.compile(r"(?<![\w.~$})*>/-])/(" + "|".join(FOLDERS) + ")")
SKIP = {".git", "build", "tessera-demo", "__pycache__"}


def check(root):
    complaints = []
    for folder, folders, files in os.walk(root):
        folders[:] = sorted(name for name in folders if name not in SKIP)
        for name in sorted(set(files) - SKIP):  # `.git` is a file in a second work tree
            path = pathlib.Path(folder, name)
            try:
                text = path.read_text()
            except (UnicodeDecodeError, OSError):
                continue
            for number, line in enumerate(text.splitlines(), 1):
                if PATTERN.search(line):
                    complaints.append(f"{path.relative_to(root).as_posix()}:{number}: a machine's path: {line.strip()[:100]}")
    return complaints


def self_test():
    good = {"a.md": "see docs/tmp, build/home/x, https://example.org/home/x and /usr/share/x\n"}
    good[".git"] = "gitdir: /ro" + "ot/x\n"
    bad = [({"b.txt": f"data in /{folder}x\n"}, "b.txt:1") for folder in ("home/me", "ro" + "ot/", "wo" + "rk/")]
    self_check.check_rule(check, good, bad)


if __name__ == "__main__":
    self_check.run_rule(__doc__, check, self_test, "no machine's paths")
