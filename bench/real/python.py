# SPDX-License-Identifier: MIT
#
# python.py: the python3 interpreter runs a script of one of three kinds. With `--objects pool` (the default) Python's
# own allocator stands before malloc for blocks up to 512 bytes; with `--objects malloc` (PYTHONMALLOC=malloc) every
# object comes from malloc. One operation is one round of the script. Checksum: what it prints, a digest of all it
# computed.
"""python3 running a script."""

from __future__ import annotations

from driver import INPUTS, ROOT, arguments, program, report, run, scaled

# The first is the one that `make run` shows, too.
SCRIPTS = {
    "records": (ROOT / "scripts/demo/python_job.py", 8),
    "classes": (INPUTS / "python_classes.py", 14),
    "text": (INPUTS / "python_text.py", 20),
}


def main() -> None:
    """Runs one script."""
    options = arguments(__doc__, script=tuple(SCRIPTS), objects=("pool", "malloc"))
    path, full = SCRIPTS[options.script]
    rounds = scaled(full, options.shrink)
    variables = {"PYTHONHASHSEED": "0"}
    if options.objects == "malloc":
        variables["PYTHONMALLOC"] = "malloc"
    used = run([program("python3", "python3"), str(path), str(rounds)], env=variables)
    report(ops=rounds, used=used, checksum=used.stdout_digest())


if __name__ == "__main__":
    main()
