# SPDX-License-Identifier: MIT
#
# launch.py: starts one command in a session of its own and sees to it that nothing of it is left: when it hangs, when
# the user interrupts, and when it has ended but left processes behind.
"""One command, to its end or to its time limit."""

from __future__ import annotations

import contextlib
import os
import select
import signal
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Ended:
    """How a command ended. `status` is an exit status, or 128 + signal."""

    status: int
    stdout: str
    stderr: str
    hung: bool = False


def _end_group(leader: int) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(leader, signal.SIGKILL)


def launch(command: Sequence[str], environment: Mapping[str, str], timeout_s: float, folder: Path) -> Ended:
    """Runs `command` in `folder`. Output goes to files: a pipe would wait for whatever inherited it."""
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        process = subprocess.Popen(
            command,
            env=dict(environment),
            cwd=folder,
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=err,
            start_new_session=True,
        )
        end = os.pidfd_open(process.pid)
        try:
            # Not waited for yet: as long as the leader is a zombie, its group's number belongs to nobody else.
            hung = not select.select([end], [], [], timeout_s)[0]
        finally:
            os.close(end)
            _end_group(process.pid)
            process.wait()
        code = process.returncode
        return Ended(128 - code if code < 0 else code, _text(out), _text(err), hung)


def _text(file: tempfile._TemporaryFileWrapper[bytes]) -> str:
    file.seek(0)
    return file.read().decode(errors="replace")


def signal_name(number: int) -> str:
    """SIGSEGV for 11."""
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
