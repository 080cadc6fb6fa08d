#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""wheel.py: packs one wheel of `freeway-malloc`: the Python package, a library and a command that were built before.

Needs nothing but Python and asks no network. The same input gives the same bytes.

    wheel.py --library libfreeway.so --command freeway --tag linux_x86_64 --out dist
"""

from __future__ import annotations

import argparse
import base64
import hashlib
import re
import shutil
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
NAME = "freeway_malloc"
EARLIEST = (1980, 1, 1, 0, 0, 0)  # that a zip archive can express

METADATA = """\
Metadata-Version: 2.1
Name: freeway-malloc
Version: {version}
Summary: A malloc for Linux in which no operation waits for another thread, for Python programs
License: MIT
License-File: LICENSE
Keywords: malloc,allocator,memory,lock-free
Classifier: Operating System :: POSIX :: Linux
Classifier: Programming Language :: Python :: 3
Classifier: Typing :: Typed
Requires-Python: >=3.9
Description-Content-Type: text/markdown

{description}"""

WHEEL = """\
Wheel-Version: 1.0
Generator: freeway wheel.py
Root-Is-Purelib: false
"""

ENTRY_POINTS = """\
[console_scripts]
freeway = freeway.__main__:script
"""


def version() -> str:
    """The version in the public header, where it is written once."""
    header = (ROOT / "include/freeway/freeway.h").read_text()
    return ".".join(re.findall(r"^#define FREEWAY_VERSION_(?:MAJOR|MINOR|PATCH) (\d+)$", header, re.MULTILINE))


def tags(platform: str) -> list[str]:
    """`manylinux_2_17_x86_64.manylinux2014_x86_64` names two platforms: a tag for each."""
    return [f"py3-none-{one}" for one in platform.split(".")]


def stripped(program: Path, strip: str) -> bytes:
    """The file without what only debuggers want."""
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder) / program.name
        shutil.copy(program, copy)
        subprocess.run([strip, "--strip-debug", copy], check=True)
        return copy.read_bytes()


def contents(library: Path, command: Path, platform: str, strip: str) -> dict[str, bytes]:
    """All files of the wheel by name, but for the record of them."""
    files = {f"freeway/{path.name}": path.read_bytes() for path in sorted((HERE / "freeway").glob("*.py"))}
    files["freeway/py.typed"] = b""
    files["freeway/libfreeway.so.0"] = stripped(library.resolve(), strip)
    files["freeway/freeway"] = stripped(command, strip)
    info = f"{NAME}-{version()}.dist-info"
    description = (HERE / "ABOUT.md").read_text()
    files[f"{info}/METADATA"] = METADATA.format(version=version(), description=description).encode()
    files[f"{info}/WHEEL"] = (WHEEL + "".join(f"Tag: {tag}\n" for tag in tags(platform))).encode()
    files[f"{info}/entry_points.txt"] = ENTRY_POINTS.encode()
    files[f"{info}/licenses/LICENSE"] = (ROOT / "LICENSE").read_bytes()
    return files


def record(files: dict[str, bytes], name: str) -> bytes:
    """The table of the wheel's files, with their hashes, that goes in as `name`."""
    lines = []
    for path, content in files.items():
        digest = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()
        lines.append(f"{path},sha256={digest},{len(content)}\n")
    return "".join([*lines, f"{name},,\n"]).encode()


def pack(files: dict[str, bytes], target: Path) -> None:
    """Writes the archive: regular files with fixed dates, the command executable."""
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as archive:
        for path, content in files.items():
            entry = zipfile.ZipInfo(path, EARLIEST)
            entry.compress_type = zipfile.ZIP_DEFLATED
            entry.create_system = 3  # Unix: the mode below counts
            entry.external_attr = (0o100755 if path == "freeway/freeway" else 0o100644) << 16
            archive.writestr(entry, content)


def main() -> int:
    parser = argparse.ArgumentParser(description="Packs a wheel of freeway-malloc.")
    parser.add_argument("--library", type=Path, required=True, help="libfreeway.so")
    parser.add_argument("--command", type=Path, required=True, help="the command `freeway`")
    parser.add_argument("--tag", required=True, help="platform tags, separated by dots: linux_x86_64")
    parser.add_argument("--out", type=Path, required=True, help="the folder for the wheel")
    parser.add_argument("--strip", default="strip", help="the program that strips files of this processor")
    given = parser.parse_args()
    files = contents(given.library, given.command, given.tag, given.strip)
    name = f"{NAME}-{version()}.dist-info/RECORD"
    files[name] = record(files, name)
    given.out.mkdir(parents=True, exist_ok=True)
    target = given.out / f"{NAME}-{version()}-py3-none-{given.tag}.whl"
    pack(files, target)
    print(target)
    return 0


if __name__ == "__main__":
    sys.exit(main())
