#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""A program that links tessera::kernels carries the kernels it uses, not all of them: it runs and is small, and the same
program linked without leaving anything out (the negative control) is not."""
import argparse
import pathlib
import subprocess
import sys

parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("--program", type=pathlib.Path, required=True)
parser.add_argument("--everything", type=pathlib.Path, required=True, help="the same with all that is in the archive's file")
parser.add_argument("--most", type=int, required=True, help="bytes")
arguments = parser.parse_args()

for program in (arguments.program, arguments.everything):
    subprocess.run([program], check=True)
small, large = arguments.program.stat().st_size, arguments.everything.stat().st_size
print(f"{small} bytes; with all kernels {large}")
if small > arguments.most:
    sys.exit(f"a program with one kernel has {small} bytes, more than {arguments.most}")
if large <= arguments.most:
    sys.exit("the program with all kernels is small as well: this test measures nothing")
