# SPDX-License-Identifier: MIT
#
# python_text.py: strings and bytes of all lengths: lines built and joined, a template filled in, a document parsed by
# hand, text that grows, big integers, compression. Prints a checksum.
"""Programs of text."""

from __future__ import annotations

import hashlib
import io
import random
import sys
import textwrap
import zlib
from string import Template


def page(source: random.Random, words: list[str], rows: int) -> str:
    """A page of HTML."""
    row = Template("<tr class='$kind'><td>$number</td><td>$text</td><td>${amount} EUR</td></tr>")
    out = io.StringIO()
    out.write("<html><body><table>\n")
    for i in range(rows):
        text = " ".join(source.choices(words, k=source.randint(1, 40))).capitalize()
        kind = "odd" if i % 2 else "even"
        out.write(row.substitute(kind=kind, number=i, text=text, amount=f"{i * 1.19:,.2f}") + "\n")
    out.write("</table></body></html>")
    return out.getvalue()


def cells(text: str) -> list[str]:
    """What stands in the table's cells."""
    found = []
    position = text.find("<td>")
    while position >= 0:
        end = text.find("</td>", position)
        found.append(text[position + 4 : end])
        position = text.find("<td>", end)
    return found


def count_words(found: list[str]) -> dict[str, int]:
    """How often each word occurs."""
    counts: dict[str, int] = {}
    for cell in found:
        for word in cell.lower().split():
            key = word.strip(".,")
            counts[key] = counts.get(key, 0) + 1
    return counts


def growing(words: list[str], count: int) -> bytes:
    """Text that is built by appending, the slow way and the fast one."""
    text, data = "", bytearray()
    for i in range(count):
        text = f"{text}{words[i % len(words)]};"
        data += text[-200:].encode()
        if len(text) > 20_000:
            text = text[10_000:]
    return bytes(data) + text.encode("utf-16")


def main(rounds: int) -> None:
    """All of it, `rounds` times."""
    source = random.Random(66)
    words = ["".join(source.choices("aeioubcdlmnrst", k=source.randint(2, 14))) for _ in range(3000)]
    digest = hashlib.sha256()
    for turn in range(rounds):
        found = cells(page(source, words, 3000))
        ranking = sorted(count_words(found).items(), key=lambda pair: (-pair[1], pair[0]))
        wrapped = [line for cell in found[1:900:3] for line in textwrap.wrap(cell, 50)]
        packed = zlib.compress(growing(words, 6000), 6)
        number = str(pow(3, 6000 + turn * 100))
        for part in (str(ranking[:500]), "\n".join(wrapped).upper(), number[::-1]):
            digest.update(part.encode())
        digest.update(zlib.decompress(packed))
    print(digest.hexdigest())


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 8)
