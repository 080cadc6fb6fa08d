# SPDX-License-Identifier: MIT
"""Builds the Debian packages out of the release archive, for each release in a system that has nothing but what
debian/control asks for, without a network; then has sid's lintian look at them.

    build.py              for Debian 12, 13 and sid
    build.py trixie       for some

The packages lie in build/debian/built/RELEASE afterwards. The archive is build/dist's (`make dist`). Needs root and
debootstrap. Exit status 77: something is missing.
"""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))
from roots import APT, RELEASES, ROOT, WORK, FailedError, MissingError, fresh_system  # noqa: E402

SKIPPED = 77
# What it takes for misspelt words in programs are pieces of texts that the compiler put into instructions.
LINTIAN = "lintian --fail-on error,warning,info --display-info --info --suppress-tags spelling-error-in-binary"


def release_archive() -> Path:
    """The archive that `make dist` wrote last."""
    found = sorted((ROOT / "build/dist").glob("freeway-*.tar.xz"), key=lambda path: path.stat().st_mtime)
    if not found:
        raise MissingError("there is no build/dist/freeway-*.tar.xz: `make dist`")
    return found[-1]


def build(release: str, archive: Path) -> Path:
    """Builds the source and binary packages; the folder where they are."""
    version = archive.name.removeprefix("freeway-").removesuffix(".tar.xz")
    built = WORK / "built" / release
    with fresh_system(release, "build") as system:
        sources = system.root / "build"
        sources.mkdir()
        shutil.copy(archive, sources / f"freeway_{version}.orig.tar.xz")
        system.install(["build-essential"])
        system.run("cd /build && tar -xf freeway_*.orig.tar.xz")
        system.run(f"{APT} build-dep /build/freeway-{version}", network=True)
        parallel = {"DEB_BUILD_OPTIONS": f"parallel={os.environ.get('JOBS', os.cpu_count())}"}
        said = system.run(f"cd /build/freeway-{version} && dpkg-buildpackage -us -uc", variables=parallel)
        shutil.rmtree(built, ignore_errors=True)
        built.mkdir(parents=True)
        for file in sources.iterdir():
            if file.is_file():
                shutil.copy2(file, built)
        (built / "build.log").write_text(said)
    for line in said.splitlines():
        if "instructions; pair" in line:
            print(f"{release}: the library under Debian's flags: {line}", flush=True)
    return built


def lint(built: list[Path]) -> None:
    """FailedError if the newest lintian finds anything but matters of taste."""
    with fresh_system("sid", "lintian") as system:
        system.install(["lintian"])
        for folder in built:
            shutil.copytree(folder, system.root / "built" / folder.name)
        system.run(f"{LINTIAN} /built/*/*.changes")
    print(f"lintian: {', '.join(folder.name for folder in built)} clean", flush=True)


def main() -> int:
    try:
        archive = release_archive()
        built: list[Path] = []
        for release in sys.argv[1:] or RELEASES:
            built.append(build(release, archive))
            print(f"{release}: {', '.join(sorted(deb.name for deb in built[-1].glob('*.deb')))}", flush=True)
        lint(built)
    except MissingError as missing_something:
        print(f"skipped: {missing_something}")
        return SKIPPED
    except FailedError as failed:
        print(failed)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
