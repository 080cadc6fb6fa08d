# SPDX-License-Identifier: MIT
"""Real programs of Debian 11, 12, 13 and sid under Freeway, each release in a root of its own, on this kernel.

    debian_roots.py               all of them
    debian_roots.py bullseye      some

What a program prints under Freeway must be what it prints without. The roots are made by debootstrap the first time
(a few hundred MB each) and stay in $FREEWAY_BUILD_DIR/debian_roots. Needs root. Exit status 77: something is missing.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "machines"))
from emulated import KEYRING, SKIPPED, MissingError, archive_address, folder, output_of  # noqa: E402

RELEASES = ("bullseye", "bookworm", "trixie", "sid")
PACKAGES = ("python3", "perl", "g++", "git", "php-cli")
PROGRAMS = {
    "python3": "import json, threading, zlib\n"
    "def work():\n"
    "    table = {i: str(i) * 20 for i in range(30000)}\n"
    "    assert json.loads(json.dumps(table))['77'] == '77' * 20\n"
    "    zlib.decompress(zlib.compress(b'x' * 1000000))\n"
    "threads = [threading.Thread(target=work) for _ in range(4)]\n"
    "for t in threads: t.start()\n"
    "for t in threads: t.join()\n"
    "print('done')\n",
    "perl": "my %t = map { $_ => 'x' x ($_ % 300) } 1..100000; my $n = 0; $n += length $t{$_} for sort keys %t;\n"
    'if (my $p = fork) { waitpid $p, 0; print "$n $?\\n" } else { %t = (); exit 3 }\n',
    "g++": "#include <map>\n#include <regex>\n#include <string>\n"
    "int main() { std::map<std::string, int> m; for (int i = 0; i < 1000; i++) m[std::to_string(i)] = i;\n"
    'return std::regex_match(m.rbegin()->first, std::regex("9+")) ? 0 : 1; }\n',
    # Freeway asks the C++ library for this form, by the dynamic linker's functions: not in libc before glibc 2.34.
    "new": "#include <cstdio>\n#include <cstdlib>\n#include <new>\n"
    'void* operator new(std::size_t n) { std::puts("the program\'s"); return std::malloc(n); }\n'
    "int main() { return ::operator new(100, std::nothrow) == nullptr; }\n",
    "git": "git init -q repository && cd repository && git config user.email a@b.c && git config user.name n\n"
    "for i in $(seq 40); do seq $((i * 50)) >file$i; git add . && git commit -qm $i; done\n"
    "git repack -adq && git fsck --full && git log --oneline --stat | tail -1\n",
    "php": "<?php $t = []; for ($i = 0; $i < 200000; $i++) $t[] = str_repeat(chr(65 + $i % 26), $i % 200);\n"
    "echo md5(implode($t)), ' ', count(json_decode(json_encode($t))), \"\\n\";\n",
}
COMMANDS = {
    "python3": "python3 /tmp/python3",
    "perl": "perl /tmp/perl",
    "g++": "cp /tmp/g++ /tmp/program.cc && g++ -O1 /tmp/program.cc -o /tmp/program && /tmp/program && echo done",
    "new": "cp /tmp/new /tmp/new.cc && g++ -O0 /tmp/new.cc -o /tmp/new.program && /tmp/new.program",
    "git": "rm -rf /tmp/repository && cd /tmp && sh /tmp/git",
    "php": "php /tmp/php",
}


def root_of(release: str, work: Path) -> Path:
    """The release's root; made the first time."""
    place = work / release
    if not place.exists():
        unfinished = work / f"{release}.unfinished"
        shutil.rmtree(unfinished, ignore_errors=True)
        options = ["--variant=minbase", f"--keyring={KEYRING}", f"--include={','.join(PACKAGES)}"]
        # What it mounts (/proc, perhaps /dev) is gone with it, however it ends.
        output_of(["unshare", "--mount", "debootstrap", *options, release, unfinished, archive_address(work)], work)
        unfinished.rename(place)
    return place


def said_by(root: Path, program: str, *, preload: bool) -> tuple[int, str]:
    """The exit status of a program in a root, and what it says."""
    variables = {"PATH": "/usr/bin:/bin", "HOME": "/tmp", "LC_ALL": "C"}
    if preload:
        variables |= {"LD_PRELOAD": "/tmp/libfreeway.so.0", "FREEWAY_STATS": "1"}
    command = ["chroot", str(root), "/usr/bin/env", *(f"{name}={value}" for name, value in variables.items())]
    done = subprocess.run(
        [*command, "/bin/sh", "-c", COMMANDS[program]], capture_output=True, text=True, check=False, timeout=1200
    )
    return done.returncode, done.stdout + ("" if done.returncode == 0 and not preload else done.stderr)


def faults_of(release: str, root: Path) -> list[str]:
    """Tries each program without Freeway and under it."""
    library = Path(os.environ.get("FREEWAY_BUILD_DIR", "build/release")) / "libfreeway.so"
    shutil.copy(library, root / "tmp/libfreeway.so.0")
    faults = []
    for program, text in PROGRAMS.items():
        (root / "tmp" / program).write_text(text)
        expected, without = said_by(root, program, preload=False)
        status, under = said_by(root, program, preload=True)
        path = next((line for line in under.splitlines() if line.startswith("  path ")), "freeway was not there")
        good = expected == status == 0 and under.startswith(without) and "slabs" in path
        print(f"{release} {program}: {'ok' if good else 'FAILED'} ({path.strip()})", flush=True)
        if not good:
            faults.append(f"{release} {program}: {expected}, {status}\n{without[-500:]}\n{under[-1500:]}")
    return faults


def main() -> int:
    work = folder("debian_roots")
    faults: list[str] = []
    for release in sys.argv[1:] or RELEASES:
        try:
            if os.geteuid() != 0 or shutil.which("debootstrap") is None:
                raise MissingError("needs root and debootstrap")
            faults += faults_of(release, root_of(release, work))
        except MissingError as missing_something:
            print(f"skipped: {missing_something}")
            return SKIPPED
    print("\n".join(faults))
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
