# SPDX-License-Identifier: BSD-3-Clause
"""Old against new: the benchmarks of another commit and of this tree, in turns, in one run.

Each turn runs the program of a problem twice, once with the headers of the commit and once with those of the working tree;
who comes first changes from turn to turn, so that a machine that drifts favours nobody. Both are the same program, that of this
tree, as long as it compiles with the commit's headers; else the commit's own program of that name stands in, and is named.

Called by scripts/bench --against, through bench_run.py. Needs the Python standard library only.
"""
import filecmp
import json
import os
import pathlib
import re
import statistics
import subprocess
import sys
import time

import bench_run
import commit_build

# What is compared unless --only says otherwise.
USUAL = {"dense_step": r"^(dnn|mclr)/tessera(_bytes)?$", "round": r"^(fedavg|ditto)/(mclr|dnn)/t1$"}
TURNS, SECONDS = 10, 0.1
SIDES = ("old", "new")


def check(parser, arguments):
    """Refuses what cannot be; nothing is built."""
    for option in ("quick", "page"):
        if getattr(arguments, option) not in (False, parser.get_default(option)):
            parser.error(f"--{option}: not with --against, which writes no page and chooses rows by --only and --rows")
    try:
        re.compile(arguments.rows or "")
    except re.error as error:
        parser.error(f"--rows {arguments.rows}: this is no regular expression ({error})")
    if arguments.limit is not None and not 0 <= arguments.limit < 1000:
        parser.error("--limit: per cent, at least 0 and below 1000")
    try:
        commit = commit_build.resolve(arguments.root, arguments.against)
        commit_build.check(arguments.root, commit)
    except commit_build.Refused as sentence:
        parser.error(f"--against {arguments.against}: {sentence}")
    return commit


# Programs ------------------------------------------------------------------------------------------------------------

class Builder:
    """The programs of a driver's tree with a header's tree, configured once."""

    def __init__(self, root, headers, drivers, build):
        self.root, self.headers, self.drivers, self.build, self.ready = root, headers, drivers, build, False

    def program(self, problem):
        """The program, or what the compiler said."""
        if not (self.drivers / "benchmarks" / problem / "main.cpp").is_file():
            return None, f"there is no benchmarks/{problem}"
        if not self.ready:
            commit_build.configure(self.root / "scripts" / "cmake" / "against", self.build, "-DCMAKE_BUILD_TYPE=Release",
                                   "-DCMAKE_CXX_FLAGS_RELEASE=-O2 -DNDEBUG", f"-DHEADERS={self.headers}",
                                   f"-DDRIVERS={self.drivers / 'benchmarks'}")
            self.ready = True
        trouble = commit_build.compile_target(self.build, f"bench_{problem}")
        return (None, trouble) if trouble else (self.build / f"bench_{problem}", None)


def build(root, commit, problems, tell):
    """{problem: {side: program}}, and sentences about what is not as it should be."""
    tree = commit_build.worktree(root, commit)
    new = Builder(root, root, root, root / "build" / "against" / "tree")
    old = Builder(root, tree, root, tree / "build" / "bench")
    own = Builder(root, tree, tree, tree / "build" / "bench-own")
    programs, notes = {}, []
    for problem in problems:
        tell(f"building {problem}")
        here, trouble = new.program(problem)
        if not here:
            raise commit_build.Refused(f"the benchmark {problem} of this tree does not compile:\n{trouble}")
        there, trouble = old.program(problem)
        if not there:
            reason = first_error(trouble)
            there, _ = own.program(problem)
            if not there:
                notes.append(f"{problem}: not compared. It does not compile with the headers of {commit[:12]} ({reason}), and "
                             "that commit has no benchmark of this name that compiles")
                continue
            notes.append(f"{problem}: old is the program of {commit[:12]} itself, since that of this tree does not compile "
                         f"with its headers ({reason}); rows of one name are compared")
        if filecmp.cmp(here, there, shallow=False):
            notes.append(f"{problem}: both programs are the same, byte for byte; what differs is the machine's noise")
        programs[problem] = {"old": there, "new": here}
    return programs, notes


def first_error(trouble):
    found = re.search(r"\berror: (.*)", trouble)
    return found.group(1).strip() if found else trouble.strip().splitlines()[-1]


# Samples -------------------------------------------------------------------------------------------------------------

def threads_of(name):
    return 2 if name.endswith("/t2") else 1


def names_in(program):
    """{name in tables: name that the program's filter knows}."""
    answer = subprocess.run([str(program), "--benchmark_list_tests=true"], capture_output=True, text=True, check=False)
    if answer.returncode != 0:
        raise commit_build.Refused(f"{program.name} does not run: {answer.stderr.strip() or answer.returncode}")
    return {bench_run.plain_name(line): line for line in answer.stdout.split() if not line.endswith("/peers")}


def chosen(problem, names, only, rows):
    """The usual rows, or all of a problem that was asked for, or those that --rows names."""
    pattern = re.compile(rows or ("" if only else USUAL[problem]))
    return [name for name in names if pattern.search(name)]


def literally(name):
    """For the regular expressions of Google Benchmark, which are not Python's: they take no escape before other signs."""
    return re.sub(r"([.\[\]{}()*+?|^$\\])", r"\\\1", name)


def filters(names, cores):
    """[(filter of the program, threads)]: rows of one thread have one core, rows of two all of them."""
    groups = []
    for threads in (1, 2):
        group = [full for name, full in names.items() if threads_of(name) == threads]
        if group and threads <= cores:
            groups.append(("^(" + "|".join(map(literally, group)) + ")$", threads))
    return groups


def plan(programs, only, rows, cores):
    """{problem: {side: filters}}, and what only one side has."""
    planned, notes, known = {}, [], []
    for problem, pair in programs.items():
        names = {side: names_in(pair[side]) for side in SIDES}
        known += names["new"]
        wanted = {side: chosen(problem, names[side], only, rows) for side in SIDES}
        common = [name for name in wanted["new"] if name in names["old"]]
        notes += [f"{problem}, {name}: only {side} has it" for side in SIDES for name in wanted[side] if name not in common]
        if cores == 1 and any(threads_of(name) > 1 for name in common):
            notes.append(f"{problem}: rows of two threads are left out, there is only one core")
        if common:
            planned[problem] = {side: filters({name: names[side][name] for name in common}, cores) for side in SIDES}
    if not planned:
        raise commit_build.Refused("no row is left to compare" + (f": --rows {rows} matches none of {', '.join(known)}" if rows else ""))
    return planned, notes


def take_turns(programs, planned, turns, min_time, core, tell):
    """{side: Results}: sample i of both sides are of the same turn."""
    results = {side: bench_run.Results() for side in SIDES}
    for problem, sides in planned.items():
        began = time.monotonic()
        for turn in range(turns):
            for side in SIDES if turn % 2 == 0 else SIDES[::-1]:
                for names, threads in sides[side]:
                    bench_run.run_program(programs[problem][side], core, results[side], problem, names,
                                          min_time or SECONDS, 1, threads)
        tell(f"{problem}: {turns} turns, {time.monotonic() - began:.0f} s")
    return results


# Figures -------------------------------------------------------------------------------------------------------------

class Row:
    """One benchmark, old and new: seconds of each turn."""

    def __init__(self, problem, name, old, new):
        kind = "real" if threads_of(name) > 1 else "cpu"
        self.problem, self.name = problem, name
        self.old, self.new = old[kind], new[kind]
        self.heap = tuple(each["counters"].get("allocations") for each in (old, new))

    @property
    def least(self):
        """new / old, the least of each."""
        return min(self.new) / min(self.old)

    @property
    def paired(self):
        """new / old turn by turn: median, lower and upper quartile."""
        ratios = [new / old for new, old in zip(self.new, self.old)]
        if len(ratios) == 1:
            return ratios[0], ratios[0], ratios[0]
        low, middle, high = statistics.quantiles(ratios, n=4, method="inclusive")
        return middle, low, high


def rows_in(results):
    """Rows that both sides have with as many samples, what went wrong with others, and notes."""
    found, wrong, notes = [], [], []
    problems = {**results["old"], **results["new"]}
    for problem in problems:
        old, new = results["old"].get(problem, {}), results["new"].get(problem, {})
        for name in sorted({**old, **new}):
            complaints = [f"{side}: {entry[name]['note']}" for side, entry in (("old", old), ("new", new))
                          if entry.get(name, {}).get("note")]
            if complaints:
                wrong.append(f"{problem}, {name}: " + "; ".join(complaints))
            elif name not in old or name not in new:
                notes.append(f"{problem}, {name}: only {'new' if name in new else 'old'} has it")
            elif len(old[name]["cpu"]) == len(new[name]["cpu"]) > 0:
                found.append(Row(problem, name, old[name], new[name]))
            else:
                wrong.append(f"{problem}, {name}: old was measured {len(old[name]['cpu'])} times, new {len(new[name]['cpu'])} times")
    return found, wrong, notes


def seconds(value):
    for unit, scale in (("s", 1), ("ms", 1e-3), ("us", 1e-6)):
        if value >= scale:
            return f"{value / scale:.4g} {unit}"
    return f"{value / 1e-9:.4g} ns"


def table(rows):
    """Lines of a table, columns side by side."""
    head = ["", "old, least", "median", "new, least", "median", "new / old", "turn by turn", "heap, old and new"]
    lines = [head]
    for row in rows:
        middle, low, high = row.paired
        heap = " ".join("-" if count is None else f"{count:g}" for count in row.heap) if any(
            count is not None for count in row.heap) else ""
        lines.append([f"{row.problem} {row.name}", seconds(min(row.old)), seconds(statistics.median(row.old)),
                      seconds(min(row.new)), seconds(statistics.median(row.new)), f"{row.least:.3f}",
                      f"{middle:.3f} ({low:.3f} to {high:.3f})", heap])
    widths = [max(len(line[column]) for line in lines) for column in range(len(head))]
    return ["  ".join(cell.ljust(width) if column == 0 else cell.rjust(width)
                      for column, (cell, width) in enumerate(zip(line, widths))).rstrip() for line in lines]


def verdicts(rows, limit):
    """Sentences below the table, and whether the limit is kept."""
    lines, kept = [], True
    if not rows:
        return ["Nothing was compared."], False
    ratios = [row.least for row in rows]
    lines.append(f"new / old, least with least: {min(ratios):.3f} to {max(ratios):.3f}, geometric mean "
                 f"{statistics.geometric_mean(ratios):.3f} of {len(rows)} rows")
    counted = [row for row in rows if None not in row.heap]
    if counted:
        more = [row for row in counted if row.heap[1] > row.heap[0]]
        lines.append(f"heap allocations in a warm round: {max(row.heap[0] for row in counted):g} at most in old, "
                     f"{max(row.heap[1] for row in counted):g} in new" + "".join(
                         f"; MORE in {row.problem} {row.name}" for row in more))
    if limit is not None:
        slower = [row for row in rows if row.least > 1 + limit / 100]
        kept = not slower
        lines += [f"SLOWER: {row.problem} {row.name} by {100 * (row.least - 1):.1f} %, allowed are {limit:g} %" for row in slower]
        if kept:
            lines.append(f"none is slower by more than {limit:g} %")
    return lines, kept


def report(data, limit):
    """The text of a comparison, and its exit code."""
    rows, wrong, notes = rows_in(data["samples"])
    lines, kept = verdicts(rows, limit)
    text = [f"old: {data['old']}", f"new: {data['new']}", "", *(table(rows) + [""] if rows else []), *lines]
    text += [f"note: {note}" for note in data["notes"] + notes] + [f"WRONG: {each}" for each in wrong]
    return "\n".join(text), 0 if rows and kept and not wrong else 1


def run(arguments, commit):
    def tell(sentence):
        print(sentence, file=sys.stderr, flush=True)

    root = arguments.root
    problems = list(dict.fromkeys(arguments.only or USUAL))
    programs, notes = build(root, commit, problems, tell)
    core = bench_run.Core()
    if not core.real_time:
        notes.append("no real-time priority here; others on this machine disturb more")
    if os.environ.get("TESSERA_KERNELS"):
        notes.append(f"TESSERA_KERNELS={os.environ['TESSERA_KERNELS']}")
    planned, missing = plan(programs, arguments.only, arguments.rows, len(core.all))
    notes += missing
    turns = arguments.turns or TURNS
    results = take_turns(programs, planned, turns, arguments.min_time, core, tell)
    data = {"version": 1, "old": f"{commit[:12]}", "new": commit_build.describe(root), "turns": turns, "notes": notes,
            "samples": {side: results[side].problems for side in SIDES}}
    out = root / "build" / "against" / "results.json"
    out.write_text(json.dumps(data, indent=1) + "\n")
    text, code = report(data, arguments.limit)
    print(text)
    print(f"{turns} turns; every sample is in {pathlib.Path(os.path.relpath(out, root))}")
    return code
