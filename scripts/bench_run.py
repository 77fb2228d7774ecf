# SPDX-License-Identifier: BSD-3-Clause
"""Runs the benchmark programs and the PyTorch scripts in turns, on one core, and keeps every sample.

Each turn runs the C++ program of a problem once, its competitors in random order, and then asks each PyTorch script, which
waits in between, for one measurement of each of its competitors. So all competitors meet the same weather. `machine` is
measured before every turn: what a core can do changes with what its neighbours do.

Called by scripts/bench, after the build. Needs the Python standard library only.
"""
import argparse
import json
import os
import pathlib
import platform
import re
import subprocess
import sys
import time

import bench_against
import bench_images
import bench_report
import commit_build

# problem: ({PyTorch script: its competitors}, what --quick asks for)
PROBLEMS = {
    "dense_step": ({"dense_step_plain": "*/torch_plain", "dense_step_manual": "*/torch_manual",
                    "dense_step_expert": "*/torch_expert"},
                   r"^(dnn|mclr)/(tessera|tessera_bytes|tessera_amx|eigen|torch_plain|torch_expert)$"),
    "gemm": ({"gemm_jax": "*/jax"}, None),
    "conv": ({}, None),
    "norm": ({"norm": "*/torch*"}, None),
    "sparse_conv": ({}, None),
    "conv_step": ({"conv_step": "*/torch_plain"}, None),
    "image_step": ({"image_step": "*/torch_*", "image_step_jax": "*/jax"}, None),
    "lstm_step": ({"lstm_step": "*/torch_plain"}, None),
    "transformer_step": ({"transformer_step": "*/torch_plain"}, None),
    "mean": ({"mean": "whole/torch_*", "masked_mean": "packed/torch_*"}, r"^whole/(tessera$|read_)"),
    "select": ({"topk": "*/torch_topk"}, r"^top20/(tessera|nth_element|two_passes)$"),
    "sparse": ({"masked_step": "*/torch_masked"}, r"^(784x256/(dense|0.20)|visit/.*)/(tessera|onednn)$"),
    "sparse_choice": ({}, None),
    "routing": ({}, r"^dnn3/(hard|soft|plain_and_router)$"),
    "private_step": ({}, r"^private_step/(sgd|keyed|system)$"),
    "round": ({"round_plain": "*/torch_plain", "round_expert": "*/torch_expert", "round_jax": "*/jax_*"},
              r"^(fedavg|pfedme|tiny)/"),
}
QUICK_SCRIPTS = ["dense_step_plain", "dense_step_expert", "round_plain"]
PRIORITY = 5  # of the real-time class, above everything that shares the machine


def cpu_flags():
    text = pathlib.Path("/proc/cpuinfo").read_text() if os.path.exists("/proc/cpuinfo") else ""
    match = re.search(r"^flags\s*:(.*)$", text, re.MULTILINE)
    return set(match.group(1).split()) if match else set()


def openblas_core(forced):
    """The kernels OpenBLAS takes, as it says itself; None without OpenBLAS."""
    code = ("import ctypes; l = ctypes.CDLL('libopenblas.so.0'); l.openblas_get_corename.restype = ctypes.c_char_p;"
            "print(l.openblas_get_corename().decode())")
    environment = {k: v for k, v in os.environ.items() if k != "OPENBLAS_CORETYPE"}
    if forced:
        environment["OPENBLAS_CORETYPE"] = forced
    answer = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=False)
    return answer.stdout.strip() or None


def describe_machine(compiler, forced):
    """What a reader must know to compare, and nothing that names the host."""
    info = pathlib.Path("/proc/cpuinfo").read_text() if os.path.exists("/proc/cpuinfo") else ""

    def field(name):
        match = re.search(rf"^{name}\s*: (.*)$", info, re.MULTILINE)
        return match.group(1).strip() if match else "unknown"

    release = {}
    if os.path.exists("/etc/os-release"):
        for line in pathlib.Path("/etc/os-release").read_text().splitlines():
            key, _, value = line.partition("=")
            release[key] = value.strip('"')
    version = subprocess.run([compiler, "-dumpfullversion"], capture_output=True, text=True, check=False).stdout.strip()
    return {
        "cpu": field("model name"), "family": field("cpu family"), "model": field("model"),
        "cores": len(os.sched_getaffinity(0)), "architecture": platform.machine(),
        "system": release.get("PRETTY_NAME", platform.system()), "compiler": f"{pathlib.Path(compiler).name} {version}",
        "amx": "amx_tile" in cpu_flags(), "openblas_alone": openblas_core(None), "openblas_forced": openblas_core(forced),
    }


class Core:
    """One core for everything that has one thread; all of them for the rest. Real-time priority where it is granted."""

    def __init__(self):
        self.all = sorted(os.sched_getaffinity(0))
        self.one = {self.all[-1]}  # interrupts like the first one
        self.real_time = self.try_real_time()

    @staticmethod
    def try_real_time():
        def claim():
            os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(PRIORITY))
        try:
            return subprocess.run(["true"], preexec_fn=claim, check=False).returncode == 0
        except (OSError, subprocess.SubprocessError):
            return False

    def take(self, threads=1):
        def claim():
            os.sched_setaffinity(0, self.one if threads == 1 else set(self.all))
            if self.real_time:
                os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(PRIORITY))
        return claim


class Results:
    def __init__(self):
        self.problems = {}

    def entry(self, problem, name):
        return self.problems.setdefault(problem, {}).setdefault(
            name, {"real": [], "cpu": [], "counters": {}, "note": ""})

    def sample(self, problem, name, real, cpu, counters):
        entry = self.entry(problem, name)
        entry["real"].append(real)
        entry["cpu"].append(cpu)
        entry["counters"].update(counters)

    def note(self, problem, name, text):
        self.entry(problem, name)["note"] = text


def plain_name(name):
    """Without what Google Benchmark adds to a name."""
    return re.sub(r"/(real_time|repeats:\d+|min_time:[\d.]+)", "", name)


def run_program(program, core, results, problem, names, min_time, repetitions, threads=1):
    """One turn of a C++ program. Samples go to results; what it could not measure goes there as a note."""
    if not program.exists():
        results.note(problem, "*", "not measured: the program could not be built here")
        return
    command = [str(program), "--benchmark_format=json", f"--benchmark_min_time={min_time}",
               f"--benchmark_repetitions={repetitions}", "--benchmark_enable_random_interleaving=true"]
    if names:
        command.append(f"--benchmark_filter={names}")
    answer = subprocess.run(command, preexec_fn=core.take(threads), capture_output=True, text=True, check=False)
    sys.stderr.write("".join(line + "\n" for line in answer.stderr.splitlines()
                             if "wrong answer" in line or "not measured" in line or "cannot" in line))
    if answer.returncode not in (0, 1) or not answer.stdout.strip():
        why = answer.stderr.strip().splitlines()
        reason = next((line for line in why if line.startswith("not measured")), None)
        last = f": {why[-1]}" if why else ""
        results.note(problem, "*", reason or f"not measured: the program ended with {answer.returncode}{last}")
        return
    scale = {"ns": 1e-9, "us": 1e-6, "ms": 1e-3, "s": 1.0}
    known = {"name", "family_index", "per_family_instance_index", "run_name", "run_type", "repetitions",
             "repetition_index", "threads", "iterations", "real_time", "cpu_time", "time_unit"}
    for row in json.loads(answer.stdout)["benchmarks"]:
        if row.get("run_type") == "aggregate":
            continue
        name = plain_name(row["run_name"])
        if row.get("error_occurred"):
            results.note(problem, name, row["error_message"])
            continue
        unit = scale[row["time_unit"]]
        counters = {k: v for k, v in row.items() if k not in known and isinstance(v, (int, float))}
        results.sample(problem, name, row["real_time"] * unit, row["cpu_time"] * unit, counters)


# Which library a product of PyTorch's was computed by. Beside the reference BLAS, which needs 2 ms for a DNN step, it
# would be no peer.
TORCH_BLAS = ("import torch; torch.ones(64, 64) @ torch.ones(64, 64); maps = open('/proc/self/maps').read();"
              "print('fast' if 'openblas' in maps or torch.backends.mkl.is_available() else 'reference')")


def python_with_torch(build):
    """A Python that has PyTorch, or None; and why PyTorch cannot be measured, or None. First that of the package index."""
    why = "not measured: PyTorch is not installed (Debian: python3-torch)"
    for python in (str(build / "peers" / "bin" / "python"), sys.executable, "/usr/bin/python3"):
        if not os.path.exists(python):
            continue
        answer = subprocess.run([python, "-c", TORCH_BLAS], capture_output=True, text=True, check=False)
        if answer.returncode == 0 and answer.stdout.strip() == "fast":
            return python, None
        if answer.returncode == 0:
            why = "not measured: PyTorch runs on the reference BLAS here (Debian: libopenblas0-pthread)"
    return None, why


class TorchScript:
    """A PyTorch script that has been started and waits to be asked."""

    def __init__(self, command, pattern, core, results, problem, names):
        self.results, self.problem, self.names = results, problem, []
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
                                        preexec_fn=core.take())
        line = self.process.stdout.readline()
        if not line:
            results.note(problem, pattern, "not measured: the script failed")
            return
        for name, complaint in json.loads(line)["ready"].items():
            if not re.search(names or "", name):
                continue
            if complaint:
                results.note(problem, name, complaint)
                print(f"{name}: {complaint}", file=sys.stderr)
            else:
                self.names.append(name)

    def turn(self, seconds):
        for name in self.names:
            self.process.stdin.write(f"{name} {seconds}\n")
            self.process.stdin.flush()
            answer = self.process.stdout.readline()
            if not answer:
                self.results.note(self.problem, name, "not measured: the script failed")
                self.names = []
                return
            answer = json.loads(answer)
            self.results.sample(self.problem, name, answer["real"], answer["cpu"], {})

    def end(self):
        self.process.stdin.close()
        self.process.wait()


def start_scripts(arguments, core, results, problem, scripts, names):
    """The task is written by the C++ program, so that both solve the same one."""
    if not scripts:
        return []
    python, why = python_with_torch(arguments.build)
    program, task = arguments.build / "benchmarks" / f"bench_{problem}", arguments.build / "exchange" / problem
    task.parent.mkdir(parents=True, exist_ok=True)
    if not why and (not program.exists() or subprocess.run([str(program), f"--export={task}"], check=False).returncode != 0):
        why = "not measured: the program that writes its task failed"
    if why:
        for pattern in scripts.values():
            results.note(problem, pattern, why)
        return []
    folder = arguments.root / "benchmarks" / "torch"
    return [TorchScript([python, "-B", str(folder / f"{script}.py"), str(task)], pattern, core, results, problem, names)
            for script, pattern in scripts.items()]


class Run:
    """The settings of a run, and the turns it takes."""

    def __init__(self, arguments, core, results):
        self.arguments, self.core, self.results = arguments, core, results
        self.turns = arguments.turns or (2 if arguments.quick else 5)
        self.repetitions = 2 if arguments.quick else 1
        self.min_time = arguments.min_time or (0.1 if arguments.quick else 0.2)

    def program(self, problem, names, threads=1):
        run_program(self.arguments.build / "benchmarks" / f"bench_{problem}", self.core, self.results, problem, names,
                    self.min_time, self.repetitions, threads)

    def machine(self):
        self.program("machine", r"^(clock|fma)" if self.arguments.quick else None)

    def round(self):
        """One thread on one core, two threads on all of them."""
        quick = self.arguments.quick
        self.program("round", r"^(fedavg|pfedme|tiny)/.*/t1" if quick else r"/t1")
        if len(self.core.all) > 1:
            self.program("round", r"^fedavg/.*/t2" if quick else r"/t2", threads=2)
        else:
            self.results.note("round", "*/t2", "not measured: there is only one core")

    def problem(self, problem):
        scripts, names = PROBLEMS[problem]
        if self.arguments.quick:
            scripts = {script: pattern for script, pattern in scripts.items() if script in QUICK_SCRIPTS}
        elif self.arguments.images:
            names = bench_images.NAMES[problem]
            scripts = {script: pattern for script, pattern in scripts.items() if not names or script != "round_plain"}
        else:
            names = None
        helpers = start_scripts(self.arguments, self.core, self.results, problem, scripts, names)
        for _ in range(self.turns):
            self.machine()
            if problem == "round" and not self.arguments.images:
                self.round()
            else:
                self.program(problem, names)
            for helper in helpers:
                helper.turn(self.min_time)
        for helper in helpers:
            helper.end()

    def everything(self):
        for problem in PROBLEMS:
            skipped = self.arguments.only and problem not in self.arguments.only
            if skipped or (self.arguments.quick and PROBLEMS[problem][1] is None):
                continue
            if problem not in bench_images.NAMES if self.arguments.images else (
                    problem in bench_images.ALONE and not self.arguments.only):
                continue
            began = time.monotonic()
            self.problem(problem)
            print(f"{problem}: {time.monotonic() - began:.0f} s", flush=True)


def main():
    parser = argparse.ArgumentParser(prog="scripts/bench", description="Measures Tessera against its peers on one core.",
                                     allow_abbrev=False)
    parser.add_argument("--root", type=pathlib.Path, required=True, help=argparse.SUPPRESS)
    parser.add_argument("--build", type=pathlib.Path, required=True, help=argparse.SUPPRESS)
    parser.add_argument("--quick", action="store_true", help="the must-show rows only")
    parser.add_argument("--only", action="append", choices=PROBLEMS, help="one problem; may be given more than once")
    parser.add_argument("--images", action="store_true", help="the rows of image models, large products and rounds over JAX")
    parser.add_argument("--keep", type=pathlib.Path, help="with --images: samples of earlier runs, to which these are added")
    parser.add_argument("--page", type=pathlib.Path, default=pathlib.Path("docs/benchmarks.md"),
                        help="where the page of a whole run goes (docs/benchmarks.md)")
    parser.add_argument("--turns", type=int, help="how often everything takes its turn (5, or 2 with --quick)")
    parser.add_argument("--min-time", type=float, help="seconds of one sample (0.2, or 0.1 with --quick)")
    parser.add_argument("--against", metavar="COMMIT", help="compare that commit with this tree instead, in turns")
    parser.add_argument("--rows", metavar="REGEX", help="with --against: the rows whose names match")
    parser.add_argument("--limit", type=float, metavar="PERCENT", help="with --against: exit 1 if a row is slower by more")
    parser.add_argument("--check", action="store_true", help=argparse.SUPPRESS)  # the arguments only
    arguments = parser.parse_args()
    page = arguments.root / arguments.page
    if page.suffix != ".md" or not page.parent.is_dir():
        parser.error(f"--page {arguments.page}: a page is a .md file in a folder that exists")
    if arguments.images and arguments.quick:
        parser.error("--images, --quick: one of them")
    if arguments.keep and not arguments.images:
        parser.error("--keep: only with --images")
    if arguments.keep:
        try:
            bench_images.kept(arguments.keep)
        except ValueError as why:
            parser.error(f"--keep {arguments.keep}: {why}")
    if arguments.turns is not None and arguments.turns < 1:
        parser.error("--turns: at least 1")
    if arguments.min_time is not None and not 0 < arguments.min_time < 3600:
        parser.error("--min-time: seconds, above 0 and below 3600")
    for option in ("rows", "limit"):
        if getattr(arguments, option) is not None and arguments.against is None:
            parser.error(f"--{option}: only with --against")
    if arguments.against is not None:
        commit = bench_against.check(parser, arguments)
    if arguments.check:
        return 0
    if arguments.against is not None:
        try:
            return bench_against.run(arguments, commit)
        except commit_build.Refused as sentence:
            print(f"scripts/bench: {sentence}", file=sys.stderr)
            return 2

    flags = cpu_flags()
    # Debian's OpenBLAS does not know newer CPUs and falls back to SSE3 without a word: say what this one has.
    core_type = "SkylakeX" if "avx512f" in flags else "Haswell" if "avx2" in flags else None
    machine = describe_machine(os.environ.get("CXX", "g++"), core_type)
    if core_type:
        os.environ["OPENBLAS_CORETYPE"] = core_type
    os.environ.update(OPENBLAS_NUM_THREADS="1", OMP_NUM_THREADS="1")
    os.environ.pop("TESSERA_KERNELS", None)

    core, results = Core(), Results()
    machine["real_time"] = core.real_time
    began = time.monotonic()
    Run(arguments, core, results).everything()

    command = "scripts/bench" + (" --quick" if arguments.quick else "") + (" --images" if arguments.images else "") + "".join(
        f" --only {problem}" for problem in arguments.only or [])
    command += f" --turns {arguments.turns}" if arguments.images and arguments.turns else ""
    command += f" --min-time {arguments.min_time:g}" if arguments.images and arguments.min_time else ""
    if arguments.page != parser.get_default("page"):
        command += f" --page {arguments.page}"
    data = {"version": 1, "command": command, "date": time.strftime("%Y-%m-%d"), "machine": machine,
            "seconds": round(time.monotonic() - began), "problems": results.problems}
    partial = arguments.quick or (arguments.only or arguments.turns or arguments.min_time) and not arguments.images
    (arguments.build / "results.json").write_text(json.dumps(data, indent=1) + "\n")
    if partial or arguments.images and arguments.page == parser.get_default("page"):
        page = arguments.build / "benchmarks.md"
    if arguments.images:
        if arguments.keep:
            data = bench_images.joined(arguments.keep, data)
        page.write_text(bench_images.page(data))
        print(bench_images.rows(data))
    else:
        page.write_text(bench_report.page(data))
        print(bench_report.must_show_table(data))
    print(f"\n{data['seconds']} s; every sample is in build/bench/results.json, the tables in "
          f"{os.path.relpath(page, arguments.root)}")
    wrong = bench_report.wrong_answers(data)
    print("\n".join(f"WRONG: {line}" for line in wrong))
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
