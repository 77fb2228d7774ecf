# SPDX-License-Identifier: BSD-3-Clause
"""A commit beside the working tree: its files in build/against/COMMIT, and what is built there.

Used by `scripts/bench --against` and `scripts/golden`. The folder is a git worktree. It is used again as long as it holds
exactly that commit; `rm -r build/against` throws all of them away.
"""
import hashlib
import os
import pathlib
import shutil
import subprocess

RELEASE = ["-DCMAKE_BUILD_TYPE=Release", "-DCMAKE_CXX_FLAGS_RELEASE=-O2", "-DTESSERA_BUILD_TESTS=OFF"]


class Refused(Exception):
    """What stands in the way, in a sentence."""


def git(folder, *arguments):
    try:
        return subprocess.run(["git", "-C", str(folder), *arguments], capture_output=True, text=True, check=False)
    except FileNotFoundError:
        raise Refused("git is not installed here (Debian: git)") from None


def resolve(root, commit):
    """The full hash of a commit."""
    if git(root, "rev-parse", "--git-dir").returncode != 0:
        raise Refused("this folder is no git repository, so no other commit of it can be had")
    answer = git(root, "rev-parse", "--verify", "--quiet", "--end-of-options", f"{commit}^{{commit}}")
    if answer.returncode != 0 or not answer.stdout.strip():
        shallow = git(root, "rev-parse", "--is-shallow-repository").stdout.strip() == "true"
        raise Refused(f"there is no commit '{commit}' here" + ("; this clone is shallow: git fetch --unshallow" if shallow else ""))
    return answer.stdout.strip()


def describe(root):
    """The commit of the working tree, and whether something in it is not committed."""
    head = git(root, "rev-parse", "--short=12", "HEAD")
    if head.returncode != 0:
        return "unknown"
    dirty = git(root, "status", "--porcelain", "--untracked-files=no").stdout.strip()
    return head.stdout.strip() + (" and changes that are not committed" if dirty else "")


def place(root, commit):
    return pathlib.Path(root) / "build" / "against" / commit[:12]


def check(root, commit):
    """Refuses a folder that is not the commit as it was; nothing is made or changed."""
    tree = place(root, commit)
    if not tree.exists():
        return
    shown = tree.relative_to(root)
    again = f"remove it (rm -r {shown}) and try again"
    common = git(tree, "rev-parse", "--path-format=absolute", "--git-common-dir").stdout.strip()
    ours = git(root, "rev-parse", "--path-format=absolute", "--git-common-dir").stdout.strip()
    top = git(tree, "rev-parse", "--show-toplevel").stdout.strip()
    if common != ours or not top or pathlib.Path(top).resolve() != tree.resolve():
        raise Refused(f"{shown} is no worktree of this repository; {again}")
    if git(tree, "rev-parse", "HEAD").stdout.strip() != commit:
        raise Refused(f"{shown} holds another commit; {again}")
    changed = [line for line in git(tree, "status", "--porcelain").stdout.splitlines() if not line.endswith(" build/")]
    if changed:
        raise Refused(f"{shown} is not commit {commit[:12]} as it was ({changed[0].split()[-1]} was changed); {again}")


def worktree(root, commit):
    """The folder with the commit's files, made where it is not there."""
    check(root, commit)
    tree = place(root, commit)
    if not tree.exists():
        git(root, "worktree", "prune")
        tree.parent.mkdir(parents=True, exist_ok=True)
        answer = git(root, "worktree", "add", "--detach", str(tree), commit)
        if answer.returncode != 0:
            raise Refused(f"git could not make a worktree of {commit[:12]}: {answer.stderr.strip().splitlines()[-1]}")
    return tree


def configure(source, build, *options):
    """Configures quietly; the whole output is shown where it fails."""
    command = ["cmake", "-S", str(source), "-B", str(build), f"-DCMAKE_CXX_COMPILER={os.environ.get('CXX', 'g++')}", *options]
    if shutil.which("ccache"):
        command.append("-DCMAKE_CXX_COMPILER_LAUNCHER=ccache")
    known = build / "CMakeCache.txt"
    if known.exists() and f"CMAKE_HOME_DIRECTORY:INTERNAL={source}\n" not in known.read_text():
        command.append("--fresh")  # the folder came along with a copy of the tree
    try:
        answer = subprocess.run(command, capture_output=True, text=True, check=False)
    except FileNotFoundError:
        raise Refused("cmake is not installed here (Debian: cmake)") from None
    if answer.returncode != 0:
        raise Refused(f"{source} cannot be configured:\n{answer.stdout}{answer.stderr}")


def compile_target(build, target, jobs=None):
    """Builds a target; its last lines are in the answer where it fails, else None."""
    command = ["cmake", "--build", str(build), "--target", target, "--parallel", str(jobs or os.environ.get("JOBS", "2"))]
    answer = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    return None if answer.returncode == 0 else "\n".join(answer.stdout.splitlines()[-40:])


def lab(source):
    """Builds the lab of a tree, in its own build/lab, always with the same flags."""
    build = pathlib.Path(source) / "build" / "lab"
    configure(pathlib.Path(source), build, *RELEASE, "-DTESSERA_BUILD_BENCHMARKS=OFF")
    trouble = compile_target(build, "tessera-lab")
    if trouble:
        raise Refused(f"the lab of {source} cannot be built:\n{trouble}")
    return build / "tessera-lab"


def digest(*parts):
    """32 hexadecimal digits of some bytes or texts."""
    total = hashlib.sha256()
    for part in parts:
        part = part if isinstance(part, bytes) else str(part).encode()
        total.update(len(part).to_bytes(8, "little") + part)
    return total.hexdigest()[:32]
