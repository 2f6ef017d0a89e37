#!/usr/bin/env python3
"""Runs a check on each file, side by side, but not on a file that passed it before.

  git ls-files '*.h' | run_once.py NAME [--database FILE] [--also FILE]... -- COMMAND... {}

A file passed before if nothing that the check reads has changed: the file and every file of the
repository that it includes, by content; the command; the tool's version; the installed -dev
packages; the --also files; the file's own compile command in the --database, wherever the checkout
lies. What passed is remembered under ~/.cache, for every checkout of this user. Output is printed
for what fails. Exit: 0 all passed, 1 not.
"""

import argparse
import concurrent.futures
import hashlib
import json
import os
import pathlib
import re
import subprocess
import sys

INCLUDE = re.compile(rb'^\s*#\s*include\s*"([^"]+)"', re.MULTILINE)


def read_includes(root, name, known):
    """The content of `name` and the repository's files that it includes, each read once."""
    if name not in known:
        data = (root / name).read_bytes()
        beside = pathlib.PurePosixPath(name).parent
        said = [x.decode() for x in INCLUDE.findall(data)]
        found = [p for x in said for p in (x, str(beside / x)) if (root / p).is_file()]
        known[name] = (hashlib.sha256(data).digest(), found)
    return known[name]


def closure_digest(root, name, known):
    seen, left = set(), [name]
    while left:
        at = left.pop()
        if at not in seen:
            seen.add(at)
            left += read_includes(root, at, known)[1]
    digest = hashlib.sha256()
    for at in sorted(seen):
        digest.update(at.encode() + b"\0" + known[at][0])
    return digest.digest()


def compile_commands(root, database):
    """File name -> its compile command without the place of the checkout."""
    if not database:
        return {}
    commands = json.loads(pathlib.Path(database).read_text())
    return {
        os.path.relpath(c["file"], root): c["command"].replace(str(root), "")
        for c in commands
    }


def printed_by(*command):
    return subprocess.run(command, capture_output=True, check=False).stdout


def check(command, name, stamp):
    done = subprocess.run(
        [name if x == "{}" else x for x in command],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        check=False,
    )
    if done.returncode == 0:
        stamp.touch()
    return name, done


def main():
    p = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    p.add_argument("name", help="of the check, for its stamps")
    p.add_argument("--database", help="compile_commands.json")
    p.add_argument("--also", action="append", default=[], help="a file that every check reads")
    p.add_argument("command", nargs="+")
    args = p.parse_args()
    root = pathlib.Path.cwd()
    home = pathlib.Path(os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache")
    stamps = home / "lorica-checks" / args.name
    stamps.mkdir(parents=True, exist_ok=True)
    common = hashlib.sha256(json.dumps(args.command).encode())
    common.update(printed_by(args.command[0], "--version"))
    common.update(printed_by("dpkg-query", "-W", "-f", "${Package} ${Version}\n", "*-dev"))
    for also in args.also:
        common.update(pathlib.Path(also).read_bytes())
    commands, known, left, passed = compile_commands(root, args.database), {}, [], 0
    for name in sys.stdin.read().split():
        key = common.copy()
        key.update(closure_digest(root, name, known) + commands.get(name, "").encode())
        stamp = stamps / key.hexdigest()[:40]
        if stamp.exists():
            passed += 1
        else:
            left.append((name, stamp))
    failed = 0
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        for name, done in pool.map(lambda x: check(args.command, *x), left):
            if done.returncode != 0:
                failed += 1
                print(f"{args.name}: {name}\n{done.stdout.decode(errors='replace')}", flush=True)
    total = len(left) + passed
    print(f"{args.name}: {total - failed} of {total} files passed, {passed} of them unchanged")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
