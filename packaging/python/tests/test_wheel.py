# SPDX-License-Identifier: MIT
"""The wheel as it lies there ($FREEWAY_WHEEL), and as it works where it is installed ($FREEWAY_WHEEL_PYTHON)."""

from __future__ import annotations

import base64
import hashlib
import os
import re
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
HEADER = (ROOT / "include/freeway/freeway.h").read_text()
WHEEL = Path(os.environ["FREEWAY_WHEEL"])
PYTHON = Path(os.environ["FREEWAY_WHEEL_PYTHON"])
SCRIPT = PYTHON.parent / "freeway"
OWN_FAILURE = 125
MIB = 1 << 20

sys.path.insert(0, str(ROOT / "packaging/python"))
import wheel as builder  # noqa: E402  (its folder is no package)


def run(*command: str | Path, **variables: str) -> subprocess.CompletedProcess[str]:
    """Runs it in an environment without Freeway's variables, but for these."""
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("FREEWAY_", "PYTHON")) and k != "LD_PRELOAD"}
    return subprocess.run(
        [str(word) for word in command], env=kept | variables, capture_output=True, text=True, timeout=60, check=False
    )


def said(*command: str | Path, **variables: str) -> str:
    """What it prints; it must succeed."""
    done = run(*command, **variables)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def python(code: str, **variables: str) -> str:
    """What this Python code prints without Freeway."""
    return said(PYTHON, "-c", f"import freeway\n{code}", **variables)


def under_freeway(code: str, **variables: str) -> str:
    """What this Python code prints under Freeway."""
    return said(PYTHON, "-m", "freeway", "run", "-c", f"import freeway\n{code}", **variables)


# --- The archive. ---------------------------------------------------------------------------------------------------


def test_the_record_names_every_file_with_its_hash() -> None:
    with zipfile.ZipFile(WHEEL) as archive:
        (name,) = (name for name in archive.namelist() if name.endswith("/RECORD"))
        rows = [line.rsplit(",", 2) for line in archive.read(name).decode().splitlines()]
        assert sorted(path for path, _, _ in rows) == sorted(archive.namelist())
        for path, digest, size in rows:
            if path == name:
                continue
            content = archive.read(path)
            wanted = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()
            assert (digest, size) == (f"sha256={wanted}", str(len(content))), path


def test_the_tags_inside_are_those_of_its_name() -> None:
    platform = WHEEL.stem.split("-")[-1]
    with zipfile.ZipFile(WHEEL) as archive:
        (name,) = (name for name in archive.namelist() if name.endswith(".dist-info/WHEEL"))
        inside = re.findall(r"^Tag: (.*)$", archive.read(name).decode(), re.MULTILINE)
    assert inside == [f"py3-none-{one}" for one in platform.split(".")]


def test_it_holds_the_package_the_library_the_command_and_nothing_else() -> None:
    with zipfile.ZipFile(WHEEL) as archive:
        names = {name for name in archive.namelist() if ".dist-info/" not in name}
        modes = {name: archive.getinfo(name).external_attr >> 16 & 0o777 for name in names}
    sources = {f"freeway/{path.name}" for path in (ROOT / "packaging/python/freeway").glob("*.py")}
    assert names == sources | {"freeway/py.typed", "freeway/libfreeway.so.0", "freeway/freeway"}
    assert [name for name in sorted(names) if modes[name] & 0o111] == ["freeway/freeway"]


def test_packing_the_same_files_again_gives_the_same_bytes(tmp_path: Path) -> None:
    for name in ("library", "command"):
        (tmp_path / name).write_bytes(Path("/bin/true").read_bytes())
    packed = []
    for folder in (tmp_path / "first", tmp_path / "second"):
        folder.mkdir()
        files = builder.contents(tmp_path / "library", tmp_path / "command", "linux_x86_64", "strip")
        builder.pack(files, folder / "a.whl")
        packed.append((folder / "a.whl").read_bytes())
        os.utime(tmp_path / "library", (1, 1))
    assert packed[0] == packed[1]


# --- The functions. -------------------------------------------------------------------------------------------------


def test_without_freeway_the_functions_say_so() -> None:
    assert python("print(freeway.loaded())") == "False"
    for call in ("stats()", "trim()"):
        text = python(f"try: freeway.{call}\nexcept freeway.NotLoadedError as e: print(e)")
        assert "python -m freeway run" in text
        assert python("print(freeway.path())") in text


def test_importing_it_starts_nothing() -> None:
    before = "import os; env = dict(os.environ); maps = lambda: 'libfreeway' in open('/proc/self/maps').read()"
    assert said(PYTHON, "-c", f"{before}; import freeway; print(os.environ == env, maps())") == "True False"


def test_path_is_the_library_for_ld_preload() -> None:
    library = said(PYTHON, "-m", "freeway", "path")
    assert Path(library).name == "libfreeway.so.0"
    assert python("print(freeway.path(), freeway.loaded())", LD_PRELOAD=library) == f"{library} True"


def test_a_malloc_preloaded_before_it_is_not_freeway(tmp_path: Path) -> None:
    source = tmp_path / "other.c"
    source.write_text(
        "#include <stddef.h>\n"
        "void* __libc_malloc(size_t); void __libc_free(void*); void* __libc_calloc(size_t, size_t);\n"
        "void* __libc_realloc(void*, size_t);\n"
        "void* malloc(size_t n) { return __libc_malloc(n); }\n"
        "void free(void* p) { __libc_free(p); }\n"
        "void* calloc(size_t n, size_t m) { return __libc_calloc(n, m); }\n"
        "void* realloc(void* p, size_t n) { return __libc_realloc(p, n); }\n"
    )
    other = tmp_path / "libother.so"
    subprocess.run([os.environ.get("CC", "cc"), "-shared", "-fPIC", "-o", other, source], check=True)
    library = said(PYTHON, "-m", "freeway", "path")
    assert python("print(freeway.loaded())", LD_PRELOAD=f"{other}:{library}") == "False"
    assert python("print(freeway.loaded())", LD_PRELOAD=f"{library}:{other}") == "True"


def test_the_figures_are_those_of_the_header() -> None:
    (fields,) = re.findall(r"typedef struct freeway_stats_t \{(.*?)\}", HEADER, re.DOTALL)
    names = re.findall(r"^  (?:size_t|uint64_t) (\w+);", fields, re.MULTILINE)
    assert len(names) > 20
    assert under_freeway("print(*freeway.stats())").split() == names


def test_stats_follow_what_the_program_does() -> None:
    code = f"""
before = freeway.stats()["live"]
block = bytearray({64 * MIB})
during = freeway.stats()["live"]
del block
print(during - before, freeway.stats()["live"] - before)"""
    grown, left = map(int, under_freeway(code).split())
    assert 64 * MIB <= grown < 80 * MIB
    assert left < 8 * MIB


def test_trim_gives_back_what_was_freed() -> None:
    code = """
blocks = [bytearray(10_000) for _ in range(10_000)]
del blocks
before = freeway.stats()["held"]
print(freeway.trim(), before - freeway.stats()["held"])"""
    given, less = map(int, under_freeway(code, FREEWAY_PURGE="never").split())
    assert given > 50 * MIB
    assert less > 50 * MIB


def test_trim_keeps_what_it_is_told_to() -> None:
    code = f"""
blocks = [bytearray(10_000) for _ in range(10_000)]
del blocks
freeway.trim(keep={32 * MIB})
print(freeway.stats()["dirty"], freeway.trim())"""
    dirty, rest = map(int, under_freeway(code, FREEWAY_PURGE="never").split())
    assert 16 * MIB < dirty <= 32 * MIB
    assert rest > 16 * MIB
    assert "ValueError" in run(PYTHON, "-c", "import freeway; freeway.trim(-1)").stderr


def test_versions_agree() -> None:
    numbers = re.findall(r"^#define FREEWAY_VERSION_(?:MAJOR|MINOR|PATCH) (\d+)$", HEADER, re.MULTILINE)
    version = ".".join(numbers)
    library_says = "import ctypes; f = ctypes.CDLL(None).freeway_version; f.restype = ctypes.c_char_p; print(f())"
    assert python("print(freeway.version(), freeway.__version__)") == f"{version} {version}"
    assert under_freeway(library_says) == f"b'{version}'"
    assert said(SCRIPT, "--version").splitlines()[0] == f"freeway {version}"


# --- The commands. --------------------------------------------------------------------------------------------------


def test_run_hands_arguments_and_exit_status_on(tmp_path: Path) -> None:
    app = tmp_path / "app.py"
    app.write_text("import sys, freeway\nprint(freeway.loaded(), sys.argv[1:])\nsys.exit(7)\n")
    done = run(PYTHON, "-m", "freeway", "run", app, "--stats", "--", "a b")
    assert (done.returncode, done.stdout.strip()) == (7, "True ['--stats', '--', 'a b']")


@pytest.mark.parametrize("options", [["--stats"], ["--stats", "--"], ["--set", "heaps=1"]])
def test_options_of_run_come_before_the_program(options: list[str]) -> None:
    done = run(PYTHON, "-m", "freeway", "run", *options, "-c", "import freeway; print(freeway.loaded())")
    if "--set" in options:  # the flagship has none: its value was not taken for the program
        assert done.returncode != 0
        assert "heaps" in done.stderr
        return
    assert done.stdout.strip() == "True"
    assert "freeway: " in done.stderr


def test_run_keeps_the_options_that_python_was_given() -> None:
    code = "import sys, freeway; print(freeway.loaded(), sys.flags.dev_mode, sys.flags.isolated)"
    assert said(PYTHON, "-X", "dev", "-I", "-m", "freeway", "run", "-c", code) == "True True 1"


def test_run_runs_modules() -> None:
    assert said(PYTHON, "-m", "freeway", "run", "-m", "freeway", "path") == said(PYTHON, "-m", "freeway", "path")


def test_children_have_it_too() -> None:
    code = "import subprocess, sys; subprocess.run([sys.executable, '-c', 'import freeway; print(freeway.loaded())'])"
    assert under_freeway(code) == "True"


def test_run_without_a_program_says_what_is_missing() -> None:
    done = run(PYTHON, "-m", "freeway", "run", "--stats")
    assert done.returncode != 0
    assert "which program?" in done.stderr


def test_the_script_runs_any_program() -> None:
    assert "libfreeway.so.0" in said(SCRIPT, "run", "--", "cat", "/proc/self/maps")
    done = run(SCRIPT, "run", "--", "no-such-program")
    assert done.returncode == 127


def test_the_modules_other_commands_are_those_of_the_script() -> None:
    assert said(PYTHON, "-m", "freeway", "--help") == said(SCRIPT, "--help")


def test_doctor_finds_it_well() -> None:
    assert "Freeway works here" in said(SCRIPT, "doctor")


def test_a_folder_that_ld_preload_cannot_name_is_said_so(tmp_path: Path) -> None:
    folder = tmp_path / "with a space"
    install = ["-m", "pip", "install", "--no-index", "--quiet", "--disable-pip-version-check", "--target"]
    said(PYTHON, *install, folder, WHEEL)
    done = run(PYTHON, "-m", "freeway", "run", "-c", "pass", PYTHONPATH=str(folder))
    assert done.returncode == OWN_FAILURE
    assert "space" in done.stderr
