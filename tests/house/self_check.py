# SPDX-License-Identifier: BSD-3-Clause
"""What the rules share. Negative controls: every rule is shown a small tree that breaks it and must say so."""
import argparse
import pathlib
import sys
import tempfile


def write_tree(root, files):
    for name, text in files.items():
        path = pathlib.Path(root, name)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


def check_rule(rule, good, bad):
    """`rule(root)` returns a list of complaints. `good` is a tree without any; `bad` lists (change, expected text):
    the change is laid over the good tree (None removes a file) and one complaint must contain the text."""
    failures = []
    with tempfile.TemporaryDirectory() as root:
        write_tree(root, good)
        complaints = rule(pathlib.Path(root))
        if complaints:
            failures.append(f"the good tree is blamed: {complaints}")
    for change, expected in bad:
        with tempfile.TemporaryDirectory() as root:
            tree = {name: text for name, text in {**good, **change}.items() if text is not None}
            write_tree(root, tree)
            complaints = rule(pathlib.Path(root))
            if not any(expected in complaint for complaint in complaints):
                failures.append(f"no complaint with '{expected}' for {list(change)}: {complaints}")
    for failure in failures:
        print(f"self-test: {failure}")
    print(f"self-test: {len(bad) + 1 - len(failures)} of {len(bad) + 1} as expected")
    sys.exit(1 if failures else 0)


def run_rule(description, check, self_test, all_is_well):
    """The command line of a rule that reads a tree: `--root TREE`, or `--self-test`."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--root", type=pathlib.Path, default=pathlib.Path("."))
    parser.add_argument("--self-test", action="store_true")
    arguments = parser.parse_args()
    if arguments.self_test:
        self_test()
    problems = check(arguments.root)
    print("\n".join(problems) or all_is_well)
    sys.exit(1 if problems else 0)
