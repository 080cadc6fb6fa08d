# SPDX-License-Identifier: MIT
#
# php, and Apache with php inside, under the preload: both load their extensions with RTLD_DEEPBIND, which would part
# those from malloc (docs/decisions/023-dlopen-without-deepbind.md). Argument: which.
"""php and Apache with mod_php."""

from __future__ import annotations

import os
import pwd
import shutil
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path

from preload import SOURCES, Failed, check, environment, in_maps, main, need, require_same, same

LONG = "long" in sys.argv[2:]
WAIT_S = 60
MODULES = Path("/usr/lib/apache2/modules")
CONFIGURATION = """\
ServerName localhost
ServerRoot {folder}
DocumentRoot {folder}
PidFile {folder}/pid
ErrorLog {folder}/errors
Listen 127.0.0.1:{port}
User {user}
LoadModule mpm_prefork_module {modules}/mod_mpm_prefork.so
LoadModule authz_core_module {modules}/mod_authz_core.so
LoadModule dir_module {modules}/mod_dir.so
LoadModule mime_module {modules}/mod_mime.so
TypesConfig /dev/null
LoadModule php_module {php}
<FilesMatch "\\.php$">
  SetHandler application/x-httpd-php
</FilesMatch>
"""


def php(folder: Path) -> None:
    """The same output, with all of Debian's extensions loaded."""
    program = need("php", "php-cli")
    said = same([program, str(SOURCES / "workload.php"), "8" if LONG else "1"], cwd=folder, timeout=300)
    check("many extensions" in said.out, f"php loaded none of its extensions: {said.out}")


def fetch(port: int) -> str:
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/workload.php", timeout=WAIT_S) as answer:
        return answer.read().decode()


def page_by(server: str, folder: Path, preload: bool, fetches: int) -> str:
    """Starts the server, fetches the page some times and ends it politely; returns the page, which may not change."""
    folder.mkdir()
    folder.chmod(0o755)
    shutil.copy(SOURCES / "workload.php", folder)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    php_module = next(iter(sorted(MODULES.glob("libphp*.so"))), None)
    check(php_module is not None, "Apache has no php module, though scripts/packages.txt lists libapache2-mod-php")
    user = "nobody" if os.getuid() == 0 else pwd.getpwuid(os.getuid()).pw_name
    settings = {"folder": folder, "port": port, "modules": MODULES, "php": php_module, "user": user}
    (folder / "configuration").write_text(CONFIGURATION.format(**settings))
    argv = [server, "-D", "FOREGROUND", "-f", str(folder / "configuration")]
    # In a session of its own: it ends its children by ending its process group.
    process = subprocess.Popen(
        argv, env=environment(preload), cwd=folder, stderr=subprocess.DEVNULL, start_new_session=True
    )
    try:
        deadline = time.monotonic() + WAIT_S
        pages = set()
        while not pages:
            if process.poll() is not None or time.monotonic() > deadline:
                errors = folder / "errors"
                said = errors.read_text() if errors.exists() else "(nothing)"
                raise Failed(f"Apache does not answer (status {process.returncode}): {said[-2000:]}")
            try:
                pages.add(fetch(port))
            except (urllib.error.URLError, OSError):
                time.sleep(0.05)
        pages |= {fetch(port) for _ in range(fetches)}
        check(len(pages) == 1, f"the page changes: {pages}")
        check(not preload or in_maps(process.pid), "Apache does not have the library mapped")
        process.send_signal(signal.SIGTERM)
        check(process.wait(WAIT_S) == 0, f"Apache ended with {process.returncode} on SIGTERM")
        said = (folder / "errors").read_text()
        check("exit signal" not in said, f"a server process died: {said[-2000:]}")
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
    return pages.pop()


def apache(folder: Path) -> None:
    """The page that php makes inside Apache is the one that it makes without the preload."""
    folder.chmod(0o755)
    server = need("apache2", "apache2")
    plain, preloaded = (page_by(server, folder / str(p), p, 200 if LONG else 5) for p in (False, True))
    require_same("the page", plain, preloaded)
    check("many extensions" in preloaded, f"php loaded none of its extensions: {preloaded}")


if __name__ == "__main__":
    chosen = {test.__name__: test for test in (php, apache)}
    if len(sys.argv) < 2 or sys.argv[1] not in chosen:
        sys.exit(f"usage: web.py {'|'.join(chosen)} [long]")
    main(chosen[sys.argv[1]])
