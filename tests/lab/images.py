#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Image networks in the lab: the five systems and private training on them, and weights from files.

    images.py PATH-TO-tessera-lab
"""
import json
import math
import pathlib
import struct
import subprocess
import sys
import tempfile
import zipfile

NET = "resnet8:width=4,groups=2"
ROUTER = ["--set", "first=9", "--set", "second=8", "--set", "third=7", "--set", "fourth=6"]  # five blocks


def expect(condition, sentence):
    if not condition:
        sys.exit(f"failed: {sentence}")


def npy(dtype, shape, data):
    header = f"{{'descr': '{dtype}', 'fortran_order': False, 'shape': {shape}, }}"
    header += " " * (63 - (10 + len(header)) % 64) + "\n"
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header.encode() + data


def pictures(folder, name, count, classes, side):
    """Bright stripes whose place is the class."""
    rows, labels = bytearray(), []
    for i in range(count):
        labels.append(i % classes)
        for c in range(3):
            for y in range(side):
                for x in range(side):
                    rows.append((37 * i + 11 * x + 5 * y + 3 * c) % 60 + (150 if (x + c) % classes == labels[-1] else 0))
    (folder / f"{name}_x.npy").write_bytes(npy("|u1", (count, 3 * side * side), bytes(rows)))
    (folder / f"{name}_y.npy").write_bytes(npy("<i4", (count,), struct.pack(f"<{count}i", *labels)))
    return f"npy:{folder / f'{name}_x.npy'},{folder / f'{name}_y.npy'}"


class Lab:
    def __init__(self, program, folder, data):
        self.program, self.folder, self.data = program, folder, data

    def __call__(self, *arguments, data=None, rate="0.05"):
        out = self.folder / "out.json"
        out.unlink(missing_ok=True)
        command = [self.program, "run", "--data", data or self.data, "--partition", "iid", "--clients", "3", "--per-round", "2",
                   "--rounds", "2", "--batch", "10", "--set", f"rate={rate}", "--quiet", "--json", out, *arguments]
        result = subprocess.run([str(word) for word in command], capture_output=True, text=True, check=False)
        return result, json.loads(out.read_text()) if result.returncode == 0 and out.exists() else None

    def ran(self, *arguments, **options):
        result, report = self(*arguments, **options)
        expect(result.returncode == 0, f"{' '.join(map(str, arguments))}: exit {result.returncode}: {result.stderr.strip()}")
        return report

    def state(self, *arguments, **options):
        return self.ran(*arguments, **options)["final"]["state_hash"]

    def refused(self, sentence, *arguments, **options):
        result, _ = self(*arguments, **options)
        expect(result.returncode == 2 and sentence in result.stderr, f"{' '.join(map(str, arguments))}: exit {result.returncode}, "
               f"not '{sentence}': {result.stderr.strip()}")


def five_systems(lab, other):
    """Each runs by one command, and moves something."""
    hashes = set()

    def runs(*arguments, **options):
        report = lab.ran(*arguments, **options)
        final = report["final"]
        expect(all(math.isfinite(round["train_loss"]) for round in report["rounds"]), f"{arguments}: the loss is not finite")
        expect(final["state_hash"] not in hashes, f"{arguments}: the state of another run")
        hashes.add(final["state_hash"])
        return report

    runs("--algorithm", "flow", "--model", NET, *ROUTER)
    for algorithm in ("fedalt", "fedsim"):
        for scope in ("input", "output", "norm"):
            runs("--algorithm", algorithm, "--scope", scope, "--model", NET)
        runs("--algorithm", algorithm, "--scope", "adapter+norm", "--model", NET + ",adapters=serial")
    runs("--algorithm", "fedalt", "--scope", "adapter", "--model", NET + ",adapters=parallel")
    perada = ["--model", NET + ",adapters=serial", "--aux", other, "--set", "kd_steps=3", "--set", "kd_batch=8"]
    report = runs("--algorithm", "perada", *perada)
    expect(report["config"]["trained_parameters"] > 0 and report["config"]["frozen_parameters"] > 0, "PerAda froze nothing")
    runs("--stages", "backbone rounds=1; perada rounds=1", *perada)
    runs("--algorithm", "fedspa-dst", "--model", NET, "--set", "density=0.5")
    runs("--algorithm", "fedavg", "--model", NET, "--dp", "clip=1,noise=1,source=keyed")
    runs("--algorithm", "fedavg", "--model", "small-vit:patch=2,width=6,heads=2,blocks=1,inner=8")
    lab.refused("examples", "--algorithm", "fedavg", "--model", NET + ",batchnorm=true", "--dp", "clip=1,noise=1")
    for algorithm in (["fedavg"], ["flow", *ROUTER]):
        one, two = (lab.state("--algorithm", *algorithm, "--model", NET, "--threads", n) for n in (1, 2))
        expect(one == two, f"the threads show: {algorithm}")


def large_pictures(lab, data):
    """Networks that need 32 x 32."""
    lab.ran("--algorithm", "pfedbred-mh", "--model", "cifarnet", "--set", "steps=2", data=data)
    lab.ran("--algorithm", "fedspa-dst", "--model", "vgg11:width=4,groups=2", data=data)
    lab.ran("--algorithm", "fedavg", "--model", "flow-resnet18:width=4", data=data)


def weights(lab, folder, other):
    file = folder / "w.safetensors"
    before = lab.ran("--algorithm", "fedavg", "--model", NET, "--save-weights", file)
    kept = folder / "again.npz"
    # A step of rate 0 leaves what was read.
    lab.ran("--algorithm", "fedavg", "--model", NET, "--weights", file, "--save-weights", kept, rate="0")
    with zipfile.ZipFile(kept) as archive:
        names = [name.removesuffix(".npy") for name in archive.namelist()]
        numbers = b"".join(archive.read(name)[-16:] for name in archive.namelist())
    expect("layer2.0.downsample.0.weight" in names and names[0] == "conv1.weight" and names[-1] == "fc.bias", f"names: {names}")
    once = folder / "once.npz"
    lab.ran("--algorithm", "fedavg", "--model", NET, "--weights", kept, "--save-weights", once, rate="0")
    with zipfile.ZipFile(once) as archive:
        expect(numbers == b"".join(archive.read(name)[-16:] for name in archive.namelist()), "weights that were read and written")
    after = lab.ran("--algorithm", "fedavg", "--model", NET, "--weights", file)
    expect(before["final"]["state_hash"] != after["final"]["state_hash"], "weights from a file change nothing")
    adapted = lab.ran("--algorithm", "perada-nokd", "--model", NET + ",adapters=serial", "--weights", file)
    fresh = lab.ran("--algorithm", "perada-nokd", "--model", NET + ",adapters=serial")
    expect(adapted["config"]["backbone"] != fresh["config"]["backbone"], "the backbone is not the file's")
    expect("drawn: layer1.0.adapter1" in json.dumps(adapted), "no word on adapters that were drawn")
    lab.refused("is a new head wanted", "--algorithm", "fedavg", "--model", NET, "--weights", file, data=other)
    lab.ran("--algorithm", "fedavg", "--model", NET, "--weights", f"{file},new-head", data=other)
    lab.refused("the model's is (8, 3, 3, 3)", "--algorithm", "fedavg", "--model", "resnet8:width=8,groups=2", "--weights", file)
    lab.refused("new-head, ignore-extra and prefix=NAME", "--algorithm", "fedavg", "--model", NET, "--weights", f"{file},newhead")
    broken = folder / "broken.safetensors"
    broken.write_bytes(file.read_bytes()[:-5])
    lab.refused("broken.safetensors", "--algorithm", "fedavg", "--model", NET, "--weights", broken)
    lab.refused("leaves no common model of the whole network", "--algorithm", "perada-nokd", "--model", NET + ",adapters=serial",
                "--save-weights", folder / "no.npz")
    global_ones = folder / "models.npz"
    lab.ran("--algorithm", "fedavg", "--model", NET, "--models", global_ones)
    lab.ran("--algorithm", "fedavg", "--model", NET, "--weights", f"{global_ones},prefix=global/")
    named = folder / "named.npz"
    lab.ran("--algorithm", "fedavg", "--model", "vgg11:width=4,groups=2", "--save-weights", named, data=lab.large)
    with zipfile.ZipFile(named) as archive:
        expect("features.25.weight.npy" in archive.namelist() and "classifier.bias.npy" in archive.namelist(), "torch's names")


def words(lab):
    lab.refused("the settings of resnet8 are blocks, width", "--algorithm", "fedavg", "--model", "resnet8:widht=3")
    lab.refused("is not SETTING=VALUE", "--algorithm", "fedavg", "--model", "resnet8:wide")
    lab.refused("dnn has no settings", "--algorithm", "fedavg", "--model", "dnn:width=3")
    lab.refused("lie in 1..65536", "--algorithm", "fedavg", "--model", "resnet8:width=0")
    lab.refused("at most 64 blocks", "--algorithm", "fedavg", "--model", "resnet8:blocks=65")
    lab.refused("at most four numbers", "--algorithm", "fedavg", "--model", "resnet8:blocks=1+1+1+1+1")
    lab.refused("is one of none, serial, parallel, bottleneck", "--algorithm", "fedavg", "--model", "resnet8:adapters=yes")
    lab.refused("groups must divide the channels", "--algorithm", "fedavg", "--model", "resnet8:groups=3")
    lab.refused("give it one width less than there are blocks", "--algorithm", "flow", "--model", NET)


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        lab = Lab(sys.argv[1], folder, pictures(folder, "small", 60, 3, 8))
        other = pictures(folder, "other", 40, 5, 8)
        lab.large = pictures(folder, "large", 48, 3, 32)
        five_systems(lab, other)
        large_pictures(lab, lab.large)
        weights(lab, folder, other)
        words(lab)


if __name__ == "__main__":
    main()
