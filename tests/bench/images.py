#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""What scripts/bench --images makes of stored samples, and how --keep joins runs: nothing is timed."""
import argparse
import copy
import json
import pathlib
import sys
import tempfile

SHAPE = "64to64@32k3"


def samples(*times):
    return {"real": list(times), "cpu": list(times), "counters": {}, "note": ""}


def row(text, *start):
    """The cells of the one row that begins with `start`."""
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in text.splitlines() if line.startswith("|")]
    found = [cells for cells in rows if tuple(cells[:len(start)]) == start]
    assert len(found) == 1, f"{len(found)} rows begin with {start}"
    return found[0]


def check_rows(images, data):
    data["problems"]["sparse_conv"] = {f"{SHAPE}/0.5/all/tessera": samples(0.050, 0.052),
                                       f"{SHAPE}/0.5/all/columns": samples(0.080, 0.083),
                                       f"{SHAPE}/0.2/all/tessera": samples(0.040),
                                       f"{SHAPE}/0.2/all/columns": samples(0.080)}
    page = images.page(data)
    assert page.startswith("# Image models on A CPU\n"), page[:60]
    work = "convolution 64@32 on active weights, density "
    assert row(page, work + "0.5")[4:] == ["1.60x", "1.60x", "meets floor"]
    assert row(page, work + "0.2")[4:] == ["2.00x", "2.00x", "**falls short**"]
    assert row(page, work + "0.1")[4:] == ["", "", "not measured: not part of this run"]


def check_join(images, data):
    with tempfile.TemporaryDirectory() as folder:
        kept = pathlib.Path(folder, "samples.json")
        first = {**copy.deepcopy(data), "command": "scripts/bench --images --only conv", "seconds": 5,
                 "problems": {"conv": {"a": samples(1)}, "norm": {"b": samples(2)}}}
        assert images.kept(kept) is None
        assert images.joined(kept, first) == first and json.loads(kept.read_text()) == first
        second = {**first, "command": "scripts/bench --images --only norm", "seconds": 7, "problems": {"norm": {"b": samples(3)}}}
        both = images.joined(kept, second)
        assert both["problems"] == {"conv": {"a": samples(1)}, "norm": {"b": samples(3)}}, both  # the later one counts
        assert both["seconds"] == 12 and both["command"] == f"{first['command']}; {second['command']}", both
        assert images.joined(kept, second)["command"] == both["command"]  # said once
        for wrong in ("", "[]", "{}", '{"problems": [], "command": "", "seconds": 1}', first["command"]):
            kept.write_text(wrong)
            try:
                images.kept(kept)
            except ValueError:
                continue
            raise AssertionError(f"taken for samples: {wrong!r}")


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--root", type=pathlib.Path, default=pathlib.Path(__file__).resolve().parent.parent.parent)
    root = parser.parse_args().root
    sys.path.insert(0, str(root / "scripts"))
    sys.dont_write_bytecode = True
    import bench_images
    data = json.loads((pathlib.Path(__file__).parent / "sample.json").read_text())
    check_rows(bench_images, copy.deepcopy(data))
    check_join(bench_images, data)


if __name__ == "__main__":
    main()
