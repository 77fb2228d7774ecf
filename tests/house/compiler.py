# SPDX-License-Identifier: BSD-3-Clause
"""Calling a compiler from a test: arguments common to the scripts, and what the compiler answers."""
import os
import re
import subprocess


def add_arguments(parser):
    parser.add_argument("--compiler", default="g++")
    parser.add_argument("--include", action="append", default=[], help="a folder of our headers (-I)")
    parser.add_argument("--system", action="append", default=[], help="a folder of a library's headers (-isystem)")
    parser.add_argument("--component", action="append", default=[], help="a component that was found, e.g. zlib")


def run(command, text=""):
    """Returns (exit code, everything printed), in English and without colours."""
    done = subprocess.run(command, input=text, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                          errors="replace", env={**os.environ, "LC_ALL": "C", "TERM": "dumb"})
    return done.returncode, done.stdout


def version(compiler):
    """("gcc" or "clang", major version)."""
    _, text = run([compiler, "--version"])
    number = re.search(r"(\d+)\.\d+", text)
    return ("clang" if "clang" in text.lower() else "gcc"), int(number.group(1)) if number else 0


def has_openmp(compiler):
    code, _ = run([compiler, "-fopenmp", "-fsyntax-only", "-x", "c++", "-"], "#include <omp.h>\n")
    return code == 0


def flags(arguments):
    result = ["-std=c++20"]
    result += [f"-I{folder}" for folder in arguments.include]
    for folder in arguments.system:
        if folder != "/usr/include":  # naming it would reorder the compiler's own search
            result += ["-isystem", folder]
    for component in arguments.component:
        if component == "openmp":
            if not has_openmp(arguments.compiler):
                continue
            result.append("-fopenmp")
        result.append(f"-DTESSERA_HAS_{component.upper()}=1")
    return result
