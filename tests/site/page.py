#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""A page of the site with a table wider than any window, as a browser shows it: the table scrolls, the page does not, and no
script fails.

    page.py --root REPOSITORY

Needs Sphinx with furo and chromium; without them it is skipped (exit code 77).
"""
import argparse
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

BROWSERS = ["chromium", "chromium-browser", "google-chrome"]
SAY = "<script>addEventListener('load', () => { document.title = 'width ' + document.documentElement.scrollWidth; });</script>"


def python_with_sphinx():
    for python in ["python3", "/usr/bin/python3"]:  # as scripts/site has it
        if shutil.which(python) and not subprocess.run([python, "-c", "import sphinx, myst_parser, furo"], capture_output=True).returncode:
            return python
    return None


def built(python, root, folder):
    """A site of two pages with the repository's own settings."""
    wide = "| " + " | ".join(f"column_{i}" for i in range(60)) + " |\n|" + "---|" * 60 + "\n| " + " | ".join("number" for _ in range(60)) + " |\n"
    for name, text in {"docs/index.md": "# Home\n\nWords.\n", "docs/wide.md": f"# Wide\n\n{wide}", "CHANGELOG.md": "# Changes\n",
                       "CONTRIBUTING.md": "# Contributing\n", "include/tessera/fold/mean.hpp": "// S\n// The mean.\n#pragma once\n"}.items():
        (folder / "root" / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / "root" / name).write_text(text)
    run = lambda *words: subprocess.run([python, "-B", *map(str, words)], check=True, env={**os.environ, "TESSERA_VERSION": "0"})
    run(root / "docs/site/prepare.py", "--root", folder / "root", "--target", folder / "pages")
    run("-m", "sphinx", "-b", "html", "-Q", "-c", root / "docs/site", "-d", folder / "cache", folder / "pages", folder / "site")
    return folder / "site"


def seen(browser, page, width):
    """(how wide the page is, what its scripts complain of)"""
    text = page.read_text()
    shown = page.with_name("shown.html")
    shown.write_text(text.replace("</body>", SAY + "</body>"))
    result = subprocess.run([browser, "--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--enable-logging=stderr",
                             "--virtual-time-budget=2000", f"--window-size={width},800", "--dump-dom", shown.as_uri()],
                            capture_output=True, text=True, check=True)
    found = re.search(r"<title>width (\d+)</title>", result.stdout)
    if not found:
        sys.exit(f"failed: {page.name} at {width} did not load")
    return int(found.group(1)), [line for line in result.stderr.splitlines() if "CONSOLE" in line]


def main(root):
    browser = next((name for name in BROWSERS if shutil.which(name)), None)
    python = python_with_sphinx()
    if not browser or not python:
        print("skipped: no " + ("browser" if not browser else "Sphinx with furo"))
        sys.exit(77)
    with tempfile.TemporaryDirectory() as folder:
        site = built(python, root, pathlib.Path(folder))
        for width in (1280, 500):  # the narrowest window that headless chromium opens
            wide, complaints = seen(browser, site / "wide.html", width)
            if wide > width or complaints:
                sys.exit(f"failed: a window of {width} shows a page of {wide}; scripts say {complaints}")
        # Controls: without two lines of our style the page is as wide as its table, and a script that fails is heard.
        style = site / "_static/wide.css"
        style.write_text("".join(line for line in style.read_text().splitlines(True)
                                 if "min-width" not in line and "overflow-x" not in line))
        if seen(browser, site / "wide.html", 1280)[0] <= 1280:
            sys.exit("failed: a page that is too wide passes")
        page = site / "index.html"
        page.write_text(page.read_text().replace("</body>", "<script>import x from 'y';</script></body>"))
        if not seen(browser, page, 1280)[1]:
            sys.exit("failed: a script that fails passes")
    print("the table scrolls, the page does not, and no script fails")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--root", type=pathlib.Path, required=True)
    main(parser.parse_args().root.resolve())
