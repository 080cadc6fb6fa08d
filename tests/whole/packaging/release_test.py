# SPDX-License-Identifier: MIT
"""Pieces of packaging/release.py that need no build: archives do not depend on what lies around their contents, a byte
that differs is found, the SBOM and the sums name each file, and nothing is published without a date and an address.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tarfile
import tempfile
import unittest
from pathlib import Path

SOURCE = Path(__file__).resolve().parents[3]
sys.path.insert(0, str(SOURCE / "packaging"))
import release  # noqa: E402

VERSION = "1.2.3"


class InAFolder(unittest.TestCase):
    def setUp(self) -> None:
        temporary = tempfile.TemporaryDirectory()
        self.addCleanup(temporary.cleanup)
        self.folder = Path(temporary.name)

    def write(self, name: str, content: str) -> Path:
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content)
        return path


class Archives(InAFolder):
    def archive(self, turn: str, mode: int, order: int) -> bytes:
        files = {name: self.write(f"{turn}/{name}", name) for name in ("b", "a")}
        files["b"].chmod(mode)
        link = self.folder / turn / "link"
        link.symlink_to("a")
        files["link"] = link
        os.utime(files["a"], (len(turn), len(turn)))
        place = self.folder / f"{turn}.tar.xz"
        release.tar(dict(sorted(files.items(), reverse=order == 1)), place, 1_000_000)
        return place.read_bytes()

    def test_only_names_contents_and_executability_count(self) -> None:
        self.assertEqual(self.archive("one", 0o700, 0), self.archive("another", 0o755, 1))
        self.assertNotEqual(self.archive("third", 0o700, 0), self.archive("fourth", 0o600, 0))
        with tarfile.open(self.folder / "one.tar.xz") as archive:
            self.assertEqual(archive.getnames(), ["a", "b", "link"])
            self.assertEqual({member.mtime for member in archive}, {1_000_000})
            self.assertEqual(archive.getmember("link").linkname, "a")


class Comparison(InAFolder):
    def test_what_differs_is_named(self) -> None:
        for turn in ("one", "two"):
            self.write(f"{turn}/same", "same")
            self.write(f"{turn}/trixie/other", turn)
        self.write("two/alone", "")
        self.assertEqual(
            release.compare(self.folder / "one", self.folder / "two"),
            ["alone: built once only", "trixie/other: other bytes"],
        )
        self.assertEqual(release.compare(self.folder / "one", self.folder / "one"), [])


class Faults(InAFolder):
    def faults(self, heading: str, address: str) -> int:
        self.write("CHANGELOG.md", f"# Changelog\n\n## {heading}\n\n## {VERSION} (2026-01-01)\n")
        self.write("packaging/address", f"{address}\n")
        return len(release.faults_of_a_release(self.folder, VERSION))

    def test_a_release_has_a_date_and_an_address(self) -> None:
        self.assertEqual(self.faults(f"{VERSION} (2026-12-01)", "https://example.org/freeway"), 0)
        self.assertEqual(self.faults("Unreleased", "https://example.org/freeway"), 1)
        self.assertEqual(self.faults(f"{VERSION} (unreleased)", "https://example.org/freeway"), 1)
        self.assertEqual(self.faults("1.2.4 (2026-12-01)", "https://example.org/freeway"), 1)
        self.assertEqual(self.faults("Unreleased", "https://freeway.invalid"), 2)

    def test_the_address_is_in_one_file(self) -> None:
        address = (SOURCE / "packaging/address").read_text().strip()
        self.assertRegex(address, r"^https://\S+$")
        try:
            command = ["git", "-C", SOURCE, "grep", "-l", "-F", address]
            found = subprocess.run(command, capture_output=True, text=True, check=False).stdout.split()
        except FileNotFoundError:
            self.skipTest("no git")
        self.assertLessEqual(set(found) - {"tests/whole/packaging/release_test.py"}, {"packaging/address"})


class Sums(InAFolder):
    def setUp(self) -> None:
        super().setUp()
        self.names = [
            f"freeway-{VERSION}.tar.xz",
            f"freeway-{VERSION}-linux-x86_64.tar.xz",
            f"freeway_malloc-{VERSION}-py3-none-manylinux_2_17_x86_64.whl",
            f"freeway_malloc-{VERSION}-py3-none-musllinux_1_2_x86_64.whl",
            f"trixie/libfreeway0_{VERSION}_amd64.deb",
        ]
        for name in self.names:
            self.write(name, name)

    def document(self) -> dict:
        return release.sbom(self.folder, VERSION, "https://example.org", 0)

    def test_the_sbom_names_each_file_and_its_sum(self) -> None:
        document = self.document()
        files = {each["name"]: each for each in document["packages"] if "checksums" in each}
        self.assertEqual(sorted(files), sorted(self.names))
        for name, each in files.items():
            self.assertEqual(each["checksums"][0]["checksumValue"], release.digest(self.folder / name))
        self.assertEqual(document["creationInfo"]["created"], "1970-01-01T00:00:00Z")

    def test_the_sbom_is_one_graph(self) -> None:
        document = self.document()
        ids = [each["SPDXID"] for each in document["packages"]]
        self.assertEqual(len(ids), len(set(ids)))
        for each in ids:
            self.assertIsNotNone(re.fullmatch(r"SPDXRef-[a-zA-Z0-9.-]+", each), each)
        for relation in document["relationships"]:
            self.assertLessEqual(
                {relation["spdxElementId"], relation["relatedSpdxElement"]}, {*ids, "SPDXRef-DOCUMENT"}
            )

    def test_the_sbom_says_what_is_inside(self) -> None:
        document = self.document()
        names = {each["SPDXID"]: each["name"] for each in document["packages"]}
        inside: dict[str, set[str]] = {name: set() for name in self.names}
        for relation in document["relationships"]:
            if relation["relationshipType"] == "CONTAINS":
                inside[names[relation["spdxElementId"]]].add(names[relation["relatedSpdxElement"]])
        sources, archive, manylinux, musllinux, package = (inside[name] for name in self.names)
        self.assertEqual((sources, package), (set(), set()))
        self.assertEqual(archive, {"musl", "libc++", "compiler-rt"})
        self.assertEqual(manylinux, {"libc++", "compiler-rt"})
        self.assertEqual(musllinux, {"musl", "libc++", "compiler-rt"})

    def test_sha256sum_agrees(self) -> None:
        (self.folder / "freeway.spdx.json").write_text(json.dumps(self.document()))
        release.write_sums(self.folder)
        command = ["sha256sum", "--check", "--strict", "SHA256SUMS"]
        said = subprocess.run(command, cwd=self.folder, capture_output=True, text=True, check=False)
        self.assertEqual((said.returncode, said.stdout.count(": OK")), (0, len(self.names) + 1), said.stderr)


if __name__ == "__main__":
    unittest.main()
