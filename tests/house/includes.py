#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Who may include whom. TABLE is the law of the house; every #include line under include/tessera is held against it."""
import re

import self_check

POLICIES = ["rule", "fold", "mask", "gate", "divergence", "order", "prior", "privacy", "sample", "codec"]
BELOW_RUNTIME = ["core", "contracts", "kernels", "interop", "data", "nn", *POLICIES, "exec", "report", "io", "store"]

# room: what its headers may include besides the room itself and the standard library. A name is a room, one header of
# a room ("nn/objective", also as a folder), or a library of LIBRARIES.
TABLE = {
    "core": [],
    "contracts": ["core"],
    "kernels": ["core", "simd"],
    "interop": ["core", "eigen", "xtensor"],
    "data": ["core"],
    "nn": ["core", "contracts", "kernels", "interop"],
    **{policy: ["core", "contracts", "kernels", "nn/objective"] for policy in POLICIES},
    "exec": ["core", "contracts", "openmp", "simd"],
    "report": ["core", "contracts"],
    "io": ["core", "data", "report", "zlib", "json", "posix"],
    "store": ["core", "contracts", "io", "posix"],  # states rest in files, and io knows how to treat these
    "runtime": [*BELOW_RUNTIME, "posix"],
    "method": BELOW_RUNTIME,  # a method is text for a runtime, and knows none
    "place": ["core", "contracts", "mpi"],  # the component mpi; the runtime knows the contract alone
    "device": ["core", "contracts", "kernels", "nn", "cuda"],  # the component cuda; nobody below includes it
}

# Headers beside the umbrellas that are a door of their own, not the list of a room: what they may include.
DOORS = {
    "predict": ["core", "io"],  # a device that only serves a model from a file
    "conformance": [*BELOW_RUNTIME, "runtime", "method"],  # runs a policy in a small federation
}

# Single headers with one room or library more: (pattern of the path below include/tessera, what it may include too).
EXTRA = [
    (r"method/privacy_(statement|forecast)", ["runtime"]),  # what is said of a run
    (r"core/denormals", ["simd"]),  # flush-to-zero is a register, and the compiler's own header names it
    (r"kernels/.*eigen", ["eigen"]),
    (r"kernels/.*xtensor", ["xtensor", "xtensor-blas"]),
]

LIBRARIES = {
    "eigen": r"(Eigen|unsupported/Eigen)/",
    "xtensor": r"xt(ensor|l)/",
    "xtensor-blas": r"xtensor-blas/",
    "openmp": r"omp\.h$",
    "zlib": r"zlib\.h$",
    "cuda": r"(cublas_v2|cusparse|cuda_runtime_api)\.h$",
    "json": r"nlohmann/",
    "mpi": r"mpi\.h$",
    "simd": r"(\w*intrin|cpuid|arm_neon|arm_sve|arm_acle)\.h$",
    "posix": r"(unistd|fcntl|dirent|poll|sys/\w+)\.h$",
}

# Heavy headers that every user of a policy would pay for, in rooms that everybody includes.
LIGHT_ROOMS = ["core", "contracts", *POLICIES]
HEAVY = ["iostream", "random", "regex", "functional", "filesystem"]

STANDARD = set("""algorithm any array atomic barrier bit bitset cassert cctype cerrno cfenv cfloat charconv chrono cinttypes
climits clocale cmath codecvt compare complex concepts condition_variable coroutine csetjmp csignal cstdarg cstddef cstdint
cstdio cstdlib cstring ctime cuchar cwchar cwctype deque exception execution filesystem forward_list fstream functional future
initializer_list iomanip ios iosfwd iostream istream iterator latch limits list locale map memory memory_resource mutex new
numbers numeric optional ostream queue random ranges ratio regex scoped_allocator semaphore set shared_mutex source_location
span sstream stack stdexcept stop_token streambuf string string_view strstream syncstream system_error thread tuple
type_traits typeindex typeinfo unordered_map unordered_set utility valarray variant vector version""".split())

INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*([<"])([^>"]+)[>"]', re.MULTILINE)


def allowed(room, path, target):
    """Whether the header `path` of `room` may include `target`, a room, "room/header" or library."""
    names = list(TABLE[room])
    for pattern, more in EXTRA:
        if re.match(pattern, path):
            names += more
    return any(target == name or target.startswith((name + "/", name + ".hpp")) for name in names)


def complaint(path, mark, name, root):
    """What is wrong with one include of the header `path` (relative to include/tessera), or None."""
    room = path.split("/")[0] if "/" in path else None
    if mark == '"':
        return "write <tessera/...>, not quotes"
    if name.startswith("tessera/"):
        target = name[len("tessera/"):]
        if not (root / "include" / name).is_file():
            return "no such header"
        if room is None:  # an umbrella, or one of the three headers above the rooms
            stem = path[:-len(".hpp")]
            if stem == "tessera" or target.split("/")[0] == stem:
                return None
            if stem in DOORS:
                inside = target.split("/")[0] in DOORS[stem] and "/detail/" not in target
                return None if inside else f"{path} may not include {target}"
            return f"{path} gathers the room {stem} and nothing else"
        target_room = target.split("/")[0]
        if target == "version.hpp" or target_room == room:
            return None
        if "/detail/" in target:
            return f"detail/ belongs to the room {target_room}"
        if "/" not in target:
            return "include the header you need, not an umbrella"
        return None if allowed(room, path, target) else f"{room} may not include {target_room}"
    if name in STANDARD:
        if room in LIGHT_ROOMS and name in HEAVY:
            return f"<{name}> is too heavy for {room}"
        return None
    for library, pattern in LIBRARIES.items():
        if re.match(pattern, name):
            return None if room and allowed(room, path, library) else f"{room or path} may not include {library}"
    return "neither ours, nor the standard library's, nor of a library in the table"


def check(root):
    complaints, edges = [], {}
    base = root / "include" / "tessera"
    for header in sorted(base.rglob("*.hpp")):
        path = header.relative_to(base).as_posix()
        if "/" in path and path.split("/")[0] not in TABLE:
            complaints.append(f"include/tessera/{path}: the room {path.split('/')[0]} is not in the table")
            continue
        text = header.read_text()
        for match in INCLUDE.finditer(text):
            name = match.group(2)
            line = text.count("\n", 0, match.start()) + 1
            problem = complaint(path, match.group(1), name, root)
            if problem:
                complaints.append(f"include/tessera/{path}:{line}: <{name}>: {problem}")
            if name.startswith("tessera/"):
                edges.setdefault(path, []).append(name[len("tessera/"):])
    complaints += [f"include/tessera/{cycle[0]}: includes itself: {' -> '.join(cycle)}" for cycle in cycles(edges)]
    return complaints


def cycles(edges):
    """Each cycle of the include graph that a depth-first walk closes."""
    done, found = set(), []

    def walk(path, trail):
        if path in trail:
            found.append(trail[trail.index(path):] + [path])
        elif path not in done:
            for target in edges.get(path, []):
                walk(target, trail + [path])
            done.add(path)

    for path in sorted(edges):
        walk(path, [])
    return found


def self_test():
    good = {
        "include/tessera/tessera.hpp": "#include <tessera/fold.hpp>\n",
        "include/tessera/version.hpp": "",
        "include/tessera/fold.hpp": "#include <tessera/fold/mean.hpp>\n",
        "include/tessera/core/view.hpp": "#include <span>\n#include <tessera/version.hpp>\n",
        "include/tessera/core/detail/x.hpp": "",
        "include/tessera/predict.hpp": "#include <tessera/core/view.hpp>\n",
        "include/tessera/contracts/fold.hpp": "#include <tessera/core/view.hpp>\n",
        "include/tessera/fold/mean.hpp":
            "#include <vector>\n#include <tessera/contracts/fold.hpp>\n#include <tessera/nn/objective.hpp>\n",
        "include/tessera/nn/objective.hpp": "#include <tessera/core/view.hpp>\n",
        "include/tessera/nn/dense.hpp": "",
        "include/tessera/rule/sgd.hpp": "  #  include <cmath>\n",
        "include/tessera/exec/openmp.hpp": "#include <omp.h>\n",
        "include/tessera/kernels/eigen.hpp": "#include <Eigen/Core>\n",
    }

    def with_line(path, line):
        return {f"include/tessera/{path}": good[f"include/tessera/{path}"] + line + "\n"}

    self_check.check_rule(check, good, [
        (with_line("core/view.hpp", "#include <Eigen/Core>"), "core may not include eigen"),
        (with_line("core/view.hpp", "#include <iostream>"), "too heavy"),
        (with_line("core/view.hpp", "#include <tessera/contracts/fold.hpp>"), "core may not include contracts"),
        (with_line("core/view.hpp", '#include "x.hpp"'), "not quotes"),
        (with_line("core/view.hpp", "  # include <boost/any.hpp>"), "of a library in the table"),
        (with_line("core/view.hpp", "#include <unistd.h>"), "core may not include posix"),
        (with_line("fold/mean.hpp", "#include <tessera/rule/sgd.hpp>"), "fold may not include rule"),
        (with_line("fold/mean.hpp", "#include <tessera/nn/dense.hpp>"), "fold may not include nn"),
        (with_line("fold/mean.hpp", "#include <tessera/core/detail/x.hpp>"), "belongs to the room core"),
        (with_line("fold/mean.hpp", "#include <tessera/gone.hpp>"), "no such header"),
        (with_line("fold.hpp", "#include <tessera/rule/sgd.hpp>"), "gathers the room fold"),
        (with_line("predict.hpp", "#include <tessera/nn/dense.hpp>"), "predict.hpp may not include nn/dense.hpp"),
        (with_line("rule/sgd.hpp", "#include <omp.h>"), "rule may not include openmp"),
        ({"include/tessera/attic/old.hpp": ""}, "attic is not in the table"),
        ({"include/tessera/fold/a.hpp": "#include <tessera/fold/b.hpp>\n",
          "include/tessera/fold/b.hpp": "#include <tessera/fold/a.hpp>\n"}, "includes itself"),
    ])


if __name__ == "__main__":
    self_check.run_rule(__doc__, check, self_test, "every include is as the table says")
