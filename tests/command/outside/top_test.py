# SPDX-License-Identifier: MIT
"""Tests of `freeway top`, on a terminal and elsewhere."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import select
import signal
import subprocess
import sys
import termios
import time
import unittest

from looking import COMMAND, REFUSED, VARIABLES, WRONG_USAGE, Looking, figures, look, state_of

ENTER, LEAVE = "\x1b[?1049h\x1b[?25l", "\x1b[?25h\x1b[?1049l"
COLOUR = re.compile(r"\x1b\[[1-9][0-9]*m")


def rest_of(terminal: int) -> bytes:
    """What is written to the terminal up to its end."""
    text = b""
    while select.select([terminal], [], [], 10)[0]:
        try:
            text += os.read(terminal, 1 << 16)
        except OSError:
            break
    os.close(terminal)
    return text


def read_until(terminal: int, words: str, text: bytes = b"") -> bytes:
    """The text and what comes after it on the terminal, until these words are in it. A read may end inside a letter."""
    end = time.monotonic() + 30
    while words.encode() not in text:
        if not select.select([terminal], [], [], 30)[0] or time.monotonic() > end:
            raise AssertionError(f"no {words!r} in {text!r}")
        text += os.read(terminal, 1 << 16)
    return text


class Top(Looking):
    def on_terminal(self, pid: int, pages: int, how: int, **variables: str) -> tuple[str, int]:
        """What is written to a terminal until so many pages were shown and the command got the signal; its status."""
        ours, theirs = pty.openpty()
        top = subprocess.Popen(
            [COMMAND, "top", str(pid), "--interval", "0.05"], env=VARIABLES | variables, stdout=theirs, stderr=theirs
        )
        os.close(theirs)
        text = b""
        end = time.monotonic() + 30
        while True:
            ready, _, _ = select.select([ours], [], [], 30)
            self.assertTrue(ready and time.monotonic() < end, text)
            try:
                piece = os.read(ours, 1 << 16)
            except OSError:  # its end
                break
            text += piece
            if text.count(b"\x1b[J") >= pages:
                top.send_signal(how)
        os.close(ours)
        return text.decode(), top.wait(timeout=30)

    def test_the_terminal_is_as_it_was_whichever_signal_ends_it(self) -> None:
        pid, _ = self.known()
        for how in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            text, status = self.on_terminal(pid, 3, how)
            self.assertEqual(status, 0)
            self.assertTrue(text.startswith(ENTER), text[:40])
            self.assertTrue(text.endswith(LEAVE), text[-40:])
            self.assertGreaterEqual(text.count("\x1b[H"), 3)
            self.assertRegex(text, COLOUR)

    def test_also_when_the_process_ends(self) -> None:
        pid, _ = self.known()
        process = self.process
        ours, theirs = pty.openpty()
        top = subprocess.Popen([COMMAND, "top", str(pid), "--interval=0.05"], stdout=theirs, stderr=subprocess.PIPE)
        os.close(theirs)
        text = read_until(ours, ENTER)
        process.kill()
        process.wait()
        text += rest_of(ours)
        self.assertTrue(text.decode().endswith(LEAVE), text[-40:])
        assert top.stderr is not None
        self.assertEqual(top.stderr.read(), b"")
        top.stderr.close()
        self.assertEqual(top.wait(), 0)

    def test_keys_sort_pause_and_end_it(self) -> None:
        pid, _ = self.known("busy", "2")
        ours, theirs = pty.openpty()
        before = termios.tcgetattr(theirs)
        top = subprocess.Popen(
            [COMMAND, "top", str(pid), "--interval=0.05"], env=VARIABLES, stdin=theirs, stdout=theirs,
            stderr=subprocess.PIPE, start_new_session=True,
            preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),  # noqa: PLW1509
        )  # fmt: skip
        self.addCleanup(top.kill)
        text = b""

        def page_with(words: str) -> str:
            """The page up to these words."""
            nonlocal text
            page, _, text = read_until(ours, words, text).partition(words.encode())
            return page.decode().rpartition("\x1b[H")[2]

        page_with("q quit   s sort: resident   p pause")
        for order in ("live", "cached", "stuck", "size"):
            os.write(ours, b"s")
            page = page_with(f"s sort: {order} ")
        sizes = [int(row) for row in re.findall(r"(?m)^ *(\d+) +\d+ +\S+ [KMG]?i?B", page)]
        self.assertGreater(len(sizes), 3)
        self.assertEqual(sizes, sorted(sizes, reverse=True))
        os.write(ours, b"sp")
        page_with("go on (paused)")
        paused = page_with("go on (paused)")
        self.assertEqual(page_with("go on (paused)"), paused, "of a program that is busy")
        os.write(ours, b"p")
        page_with("p pause")
        os.write(ours, b"q")
        assert top.stderr is not None
        self.assertEqual((top.wait(timeout=30), top.stderr.read()), (0, b""))
        top.stderr.close()
        self.assertEqual(termios.tcgetattr(theirs), before)
        os.close(theirs)
        self.assertTrue((text + rest_of(ours)).decode().endswith(LEAVE))

    def test_a_terminal_is_lent_back_while_it_is_suspended(self) -> None:
        pid, _ = self.known()
        ours, theirs = pty.openpty()
        top = subprocess.Popen([COMMAND, "top", str(pid), "--interval=0.05"], env=VARIABLES, stdout=theirs)
        os.close(theirs)
        self.addCleanup(top.kill)
        text = read_until(ours, ENTER)
        top.send_signal(signal.SIGTSTP)
        while state_of(top.pid) != "T":
            time.sleep(0.005)
        text = read_until(ours, LEAVE, text)
        self.assertTrue(text.decode().endswith(LEAVE), text[-40:])
        top.send_signal(signal.SIGCONT)
        text = read_until(ours, ENTER)
        self.assertTrue(text.decode().startswith(ENTER), text[:40])
        top.send_signal(signal.SIGINT)
        text += rest_of(ours)
        self.assertTrue(text.decode().endswith(LEAVE), text[-40:])
        self.assertEqual(top.wait(), 0)

    def test_no_color_is_heeded(self) -> None:
        pid, _ = self.known()
        text, _ = self.on_terminal(pid, 2, signal.SIGINT, NO_COLOR="1")
        self.assertNotRegex(text, COLOUR)
        self.assertIn("live", text)

    def test_elsewhere_pages_are_plain_one_an_interval(self) -> None:
        pid, _ = self.known()
        top = subprocess.Popen(
            [COMMAND, "top", str(pid), "--interval", "0.1"], env=VARIABLES, stdout=subprocess.PIPE, text=True
        )
        assert top.stdout is not None
        lines = [top.stdout.readline() for _ in range(40)]
        top.terminate()
        rest, _ = top.communicate(timeout=30)
        text = "".join(lines) + rest
        self.assertEqual(top.returncode, 0)
        self.assertNotIn("\x1b", text)
        pages = text.split("\n\nknown_heap")
        self.assertGreaterEqual(len(pages), 2)
        self.assertNotIn("slow path", pages[0])
        self.assertRegex(pages[1], r"slow path 0/s mallocs, 0/s frees; batches: 0/s from superblocks, 0/s back")
        self.assertRegex(pages[0], rf"  live +{figures(pid)['resident_live'] / (1 << 10):.1f} KiB ")
        self.assertEqual([line for line in text.splitlines() if len(line) > 80], [])

    def test_once_is_once(self) -> None:
        pid, _ = self.known()
        text = look("top", pid, "--once").stdout
        self.assertEqual(text.count("known_heap"), 1)
        self.assertEqual(len(text.split("live of it\n")[1].splitlines()), 10)
        bytes_of = [int(line.split()[1]) for line in text.split("live of it\n")[1].splitlines()]
        self.assertGreater(sum(bytes_of), figures(pid)["superblocks"] // 3)

    def test_rates_are_of_what_happens(self) -> None:
        pid, _ = self.known("busy", "2")
        top = subprocess.Popen(
            [COMMAND, "top", str(pid), "--interval", "0.2"], env=VARIABLES, stdout=subprocess.PIPE, text=True
        )
        assert top.stdout is not None
        rates = []
        for line in top.stdout:
            rates += re.findall(r"slow path (\d+)/s mallocs", line)
            if any(int(rate) > 0 for rate in rates) or len(rates) == 50:
                break
        top.terminate()
        top.communicate(timeout=30)
        self.assertGreater(max(map(int, rates)), 0)

    def test_wrong_usage(self) -> None:
        for value in ("", "x", "0", "-1", "1e9", "nan"):
            look("top", "1", "--interval", value, status=WRONG_USAGE)
        for arguments in ((), ("1", "2"), ("--interval",)):
            look("top", *arguments, status=WRONG_USAGE)
        pid, _ = self.known()
        look("top", self.core(pid), status=REFUSED)
        look("top", os.getpid(), status=REFUSED)


if __name__ == "__main__":
    sys.exit(unittest.main(verbosity=2))
