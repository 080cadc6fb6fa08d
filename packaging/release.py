# SPDX-License-Identifier: MIT
"""Makes what a release consists of, out of the last commit, twice, and compares the bytes: `make release`.

    release.py                        everything, into build/release-VERSION
    release.py --rehearsal            also of a version that CHANGELOG.md has no date for, or without a public address
    release.py --processor x86_64     for one processor
    release.py --debian ''            without Debian's packages

Each time a fresh clone in another folder builds the archive of the sources, the wheels (packaging/python/build) and an
archive for each processor; Debian's packages are built from the archive (packaging/debian/build.py). With them go an
SBOM and SHA256SUMS. docs/releases.md says how it is verified. The public address is in packaging/address alone.
"""

from __future__ import annotations

import argparse
import datetime
import hashlib
import io
import json
import lzma
import os
import re
import shutil
import subprocess
import sys
import tarfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))
import dist  # noqa: E402

ROOT = HERE.parent
WORK = ROOT / "build/releasing"
PROCESSORS = {"x86_64": "strip", "aarch64": "aarch64-linux-gnu-strip"}
PLACEHOLDER = ".invalid"
# What the commands have inside besides Freeway's own code: packaging/python/zig.cmake.
INSIDE = {"glibc": ("libc++", "compiler-rt"), "musl": ("musl", "libc++", "compiler-rt")}


class ReleaseError(Exception):
    """Why there is no release."""


def run(*command: str | Path, **options: object) -> str:
    """What a command says; it must succeed."""
    done = subprocess.run([str(word) for word in command], check=False, stdout=subprocess.PIPE, text=True, **options)
    if done.returncode != 0:
        raise ReleaseError(f"{done.stdout}status {done.returncode}: {' '.join(map(str, command))}")
    return done.stdout.strip()


def digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def faults_of_a_release(root: Path, version: str) -> list[str]:
    """Why this version cannot be published yet."""
    faults = []
    heading = re.search(r"^## (.+)$", (root / "CHANGELOG.md").read_text(), re.MULTILINE)
    if heading is None or re.fullmatch(rf"{re.escape(version)} \(\d{{4}}-\d\d-\d\d\)", heading[1]) is None:
        faults.append(f"CHANGELOG.md does not begin with '## {version} (YYYY-MM-DD)'")
    if PLACEHOLDER in (root / "packaging/address").read_text():
        faults.append("packaging/address has no public address yet")
    return faults


def tar(files: dict[str, Path], place: Path, seconds: int) -> None:
    """Writes an archive whose bytes depend on nothing but names, contents and whether a file may be executed."""
    data = io.BytesIO()
    with tarfile.open(fileobj=data, mode="w", format=tarfile.PAX_FORMAT) as archive:
        for name, path in sorted(files.items()):
            member = tarfile.TarInfo(name)
            member.mtime = seconds
            if path.is_symlink():
                member.type, member.linkname, member.mode = tarfile.SYMTYPE, str(path.readlink()), 0o777
                archive.addfile(member)
                continue
            content = path.read_bytes()
            member.size, member.mode = len(content), 0o755 if os.access(path, os.X_OK) else 0o644
            archive.addfile(member, io.BytesIO(content))
    place.write_bytes(lzma.compress(data.getvalue(), preset=6))


def binary_archive(clone: Path, processor: str, version: str, out: Path, jobs: str) -> None:
    """The libraries as they are installed, and the command in both of its forms, stripped of what debuggers want."""
    work, strip = clone / "build/wheels", PROCESSORS[processor]
    library, name = work / f"library-{processor}", f"freeway-{version}-linux-{processor}"
    run("cmake", "--build", library, "-j", jobs, "--target", "freeway_installed")
    stage = clone / "build/stage" / name
    run("cmake", "--install", library, "--prefix", stage)
    (stage / "bin").mkdir()
    (stage / "share/man/man1").mkdir()
    shutil.copy(work / f"command-manylinux-{processor}/freeway", stage / "bin/freeway")
    shutil.copy(work / f"command-musllinux-{processor}/freeway", stage / "bin/freeway-static")
    shutil.copy(clone / "docs/man/freeway.1", stage / "share/man/man1/freeway.1")
    for page in ("LICENSE", "CHANGELOG.md", "GUARANTEES.md"):
        shutil.copy(clone / page, stage / page)
    files = [path for path in sorted(stage.rglob("*")) if path.is_symlink() or path.is_file()]
    for path in files:
        is_library = ".so" in path.suffixes or path.suffix == ".a"
        if not path.is_symlink() and path.suffix != ".py" and (path.parent.name == "bin" or is_library):
            run(strip, "--strip-debug", "--enable-deterministic-archives", path)
    seconds = int(run("git", "-C", clone, "log", "-1", "--format=%ct"))
    tar({f"{name}/{path.relative_to(stage)}": path for path in files}, out / f"{name}.tar.xz", seconds)


def build_once(folder: Path, processors: list[str], version: str, jobs: str) -> Path:
    """Builds everything but Debian's packages in a clone of its own; the folder with the results."""
    shutil.rmtree(folder, ignore_errors=True)
    clone, out = folder / "sources", folder / "out"
    out.mkdir(parents=True)
    run("git", "clone", "--quiet", ROOT.as_uri(), clone)
    run("git", "-C", clone, "checkout", "--quiet", run("git", "-C", ROOT, "rev-parse", "HEAD"))
    environment = os.environ | {"SOURCE_DATE_EPOCH": run("git", "-C", clone, "log", "-1", "--format=%ct"), "JOBS": jobs}
    dist.write_archive(clone, out)
    platforms = [f"{libc}-{processor}" for processor in processors for libc in ("manylinux", "musllinux")]
    run(clone / "packaging/python/build", *platforms, env=environment)
    for wheel in sorted((clone / "build/wheels").glob("*.whl")):
        shutil.copy(wheel, out)
    for processor in processors:
        binary_archive(clone, processor, version, out, jobs)
    for sum_file in out.glob("*.sha256"):
        sum_file.unlink()
    return out


def build_debian(releases: list[str], out: Path) -> None:
    """Debian's packages for this machine's processor, from the archive of the sources in `out`."""
    dist.write_archive(ROOT, ROOT / "build/dist")
    run(sys.executable, "-B", HERE / "debian/build.py", *releases)
    for release in releases:
        (out / release).mkdir(exist_ok=True)
        for package in sorted((ROOT / "build/debian/built" / release).glob("*.deb")):
            shutil.copy(package, out / release)


def files_of(out: Path) -> dict[str, Path]:
    return {str(path.relative_to(out)): path for path in sorted(out.rglob("*")) if path.is_file()}


def compare(first: Path, second: Path) -> list[str]:
    """The files that are not the same in both."""
    one, two = files_of(first), files_of(second)
    gone = [f"{name}: built once only" for name in sorted(one.keys() ^ two.keys())]
    return gone + [
        f"{name}: other bytes" for name in sorted(one.keys() & two) if digest(one[name]) != digest(two[name])
    ]


def package(name: str, spdx_id: str, **more: object) -> dict[str, object]:
    nothing = {"downloadLocation": "NOASSERTION", "filesAnalyzed": False, "copyrightText": "NOASSERTION"}
    return {"SPDXID": spdx_id, "name": name, **nothing, "licenseConcluded": "NOASSERTION", **more}


def sbom(out: Path, version: str, address: str, seconds: int) -> dict[str, object]:
    """The files of a release, and what is inside of those that have more than Freeway, in SPDX 2.3."""
    zig = re.search(r"^ziglang==(.+)$", (HERE / "python/requirements.txt").read_text(), re.MULTILINE)
    if zig is None:
        raise ReleaseError("packaging/python/requirements.txt names no ziglang")
    names = sorted({part for parts in INSIDE.values() for part in parts})
    ids = {part: f"SPDXRef-{part.replace('+', 'x')}" for part in names}
    licences = {
        "musl": "MIT",
        "libc++": "Apache-2.0 WITH LLVM-exception",
        "compiler-rt": "Apache-2.0 WITH LLVM-exception",
    }
    packages = [
        package(part, ids[part], versionInfo=f"of ziglang {zig[1]}", licenseDeclared=licences[part]) for part in names
    ]
    relations = []
    for number, (name, path) in enumerate(files_of(out).items()):
        spdx_id = f"SPDXRef-file-{number}"
        sums = [{"algorithm": "SHA256", "checksumValue": digest(path)}]
        where = f"{address}/{name}"
        packages.append(
            package(
                name,
                spdx_id,
                versionInfo=version,
                checksums=sums,
                licenseDeclared="MIT",
                downloadLocation=where,
                supplier="Organization: The Freeway authors",
            )
        )
        relations.append(("SPDXRef-DOCUMENT", "DESCRIBES", spdx_id))
        inside = set()
        if name.endswith(".whl") or re.search(r"-linux-\w+\.tar\.xz$", name):
            inside |= set(INSIDE["glibc"]) if "musllinux" not in name else set()
            inside |= set(INSIDE["musl"]) if "manylinux" not in name else set()
        relations += [(spdx_id, "CONTAINS", ids[part]) for part in sorted(inside)]
    created = datetime.datetime.fromtimestamp(seconds, datetime.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    return {
        "spdxVersion": "SPDX-2.3",
        "dataLicense": "CC0-1.0",
        "SPDXID": "SPDXRef-DOCUMENT",
        "name": f"freeway-{version}",
        "documentNamespace": f"{address}/freeway-{version}.spdx.json",
        "creationInfo": {"created": created, "creators": ["Tool: packaging/release.py"]},
        "packages": packages,
        "relationships": [
            {"spdxElementId": a, "relationshipType": kind, "relatedSpdxElement": b} for a, kind, b in relations
        ],
    }


def write_sums(out: Path) -> None:
    """SHA256SUMS, of all that is there."""
    (out / "SHA256SUMS").write_text("".join(f"{digest(path)}  {name}\n" for name, path in files_of(out).items()))


def finish(out: Path, version: str, tools: Path) -> None:
    """Adds the SBOM and the sums."""
    address = (HERE / "address").read_text().strip()
    seconds = int(run("git", "-C", ROOT, "log", "-1", "--format=%ct"))
    document = json.dumps(sbom(out, version, address, seconds), indent=1, sort_keys=True) + "\n"
    place = out / f"freeway-{version}.spdx.json"
    place.write_text(document)
    run(tools / "pyspdxtools", "--infile", place)  # which finds what is not valid
    write_sums(out)


def release(arguments: argparse.Namespace) -> Path:
    version = dist.version_of((ROOT / dist.HEADER).read_text())
    if faults := faults_of_a_release(ROOT, version):
        print(*(f"release: {fault}" for fault in faults), sep="\n", file=sys.stderr)
        if not arguments.rehearsal:
            raise ReleaseError("`--rehearsal` makes it all the same, not to be published")
    if run("git", "-C", ROOT, "status", "--porcelain"):
        print("release: what is not committed is left out", file=sys.stderr)
    processors, debian = arguments.processor or list(PROCESSORS), arguments.debian.split()
    outs = []
    for folder in (WORK / "one", WORK / "another-folder"):
        outs.append(build_once(folder, processors, version, arguments.jobs))
        if debian:
            build_debian(debian, outs[-1])
    if others := compare(*outs):
        raise ReleaseError("built twice, and not the same:\n" + "\n".join(others))
    into = ROOT / f"build/release-{version}"
    shutil.rmtree(into, ignore_errors=True)
    shutil.copytree(outs[0], into)
    finish(into, version, WORK / "one/sources/build/wheels/tools/bin")
    shutil.rmtree(WORK)
    return into


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rehearsal", action="store_true")
    parser.add_argument("--processor", action="append", choices=PROCESSORS)
    parser.add_argument("--debian", default="bookworm trixie", help="Debian's releases to build packages for")
    parser.add_argument("--jobs", default=str(os.cpu_count()))
    arguments = parser.parse_args()
    try:
        into = release(arguments)
    except (ReleaseError, dist.DistError) as fault:
        print(f"release: {fault}", file=sys.stderr)
        return 1
    print((into / "SHA256SUMS").read_text(), end="")
    print(into)
    return 0


if __name__ == "__main__":
    sys.exit(main())
