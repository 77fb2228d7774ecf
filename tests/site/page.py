#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""A page of the site with a table wider than any window, as a browser shows it, narrow and wide, light and dark: the table
scrolls, the page does not, nothing is asked of the network, and no script fails.

    page.py --root REPOSITORY

Needs Sphinx with furo and chromium; without them it is skipped (exit code 77).
"""
import argparse
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

BROWSERS = ["chromium", "chromium-browser", "google-chrome"]
WIDTHS = (1280, 400)
# The window of a headless browser is never narrower than 500 pixels, a frame is. What the frame asked for is what it says.
FRAME = """<!DOCTYPE html><style>:root { color-scheme: light dark; }</style><title>nothing</title>
<iframe src="PAGE" width="WIDTH" height="800"></iframe><script>
const frame = document.querySelector("iframe");
frame.onload = () => setTimeout(() => {
  const seen = frame.contentWindow, root = frame.contentDocument.documentElement;
  const asked = seen.performance.getEntriesByType("resource").map(entry => entry.name).filter(name => !/^(file|data):/.test(name));
  const wider = node => node.scrollWidth > node.clientWidth, table = frame.contentDocument.querySelector("table");
  document.title = JSON.stringify({width: seen.innerWidth, wide: root.scrollWidth, asked,
    ground: seen.getComputedStyle(frame.contentDocument.body).backgroundColor,
    scrolls: table ? wider(table) || wider(table.parentElement) : null});
}, 500);
</script>"""


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


def seen(browser, page, width, dark=False):
    """What the page is like in a frame of this width, and what its scripts complain of."""
    shown = page.with_name("shown.html")
    shown.write_text(FRAME.replace("PAGE", page.name).replace("WIDTH", str(width)))
    result = subprocess.run([browser, "--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--enable-logging=stderr",
                             "--allow-file-access-from-files", f"--blink-settings=preferredColorScheme={0 if dark else 1}",
                             "--host-resolver-rules=MAP * ~NOTFOUND", "--virtual-time-budget=5000", "--window-size=1400,900",
                             "--dump-dom", shown.as_uri()],
                            capture_output=True, text=True, check=True)
    found = re.search(r"<title>(\{.*\})</title>", result.stdout)
    if not found:
        sys.exit(f"failed: {page.name} at {width} did not load")
    return json.loads(found.group(1)) | {"complaints": [line for line in result.stderr.splitlines() if "CONSOLE" in line]}


def main(root):
    browser = next((name for name in BROWSERS if shutil.which(name)), None)
    python = python_with_sphinx()
    if not browser or not python:
        print("skipped: no " + ("browser" if not browser else "Sphinx with furo"))
        sys.exit(77)
    with tempfile.TemporaryDirectory() as folder:
        site = built(python, root, pathlib.Path(folder))
        for width in WIDTHS:
            grounds = set()
            for dark in (False, True):
                found = seen(browser, site / "wide.html", width, dark)
                if found["width"] != width or found["wide"] > width or not found["scrolls"] or found["asked"] or found["complaints"]:
                    sys.exit(f"failed: a window of {width} shows {found}")
                grounds.add(found["ground"])
            if len(grounds) != 2:
                sys.exit(f"failed: dark and light pages have one ground: {grounds}")
        # Controls: without two lines of our style the page is as wide as its table; a script that fails and a request are seen.
        style = site / "_static/wide.css"
        style.write_text("".join(line for line in style.read_text().splitlines(True)
                                 if "min-width" not in line and "overflow-x" not in line))
        if seen(browser, site / "wide.html", 1280)["wide"] <= 1280:
            sys.exit("failed: a page that is too wide passes")
        page = site / "index.html"
        page.write_text(page.read_text().replace("</body>", "<script>import x from 'y';</script></body>"))
        if not seen(browser, page, 1280)["complaints"]:
            sys.exit("failed: a script that fails passes")
        page.write_text(page.read_text().replace("</body>", "<img src='https://tessera.invalid/x.png'></body>"))
        if not any("tessera.invalid" in name for name in seen(browser, page, 1280)["asked"]):
            sys.exit("failed: a request passes")
    print("the table scrolls, the page does not, nothing is asked for, and no script fails")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--root", type=pathlib.Path, required=True)
    main(parser.parse_args().root.resolve())
