# SPDX-License-Identifier: MIT
#
# openssl, gdb and stress-ng under the preload. Argument: which.
"""openssl, gdb, stress-ng."""

from __future__ import annotations

import random
import sys
from pathlib import Path

from preload import check, main, need, prove_preload, run, same, succeed

LONG = "long" in sys.argv[2:]


def openssl(folder: Path) -> None:
    """Digests, encryption, keys and certificates come out the same; `speed` runs in several processes."""
    program = need("openssl", "openssl")
    prove_preload([program, "version"])
    data = folder / "data"
    data.write_bytes(random.Random(2006).randbytes(3_000_000))
    for digest in ("sha256", "sha3-512", "blake2b512"):
        same([program, "dgst", f"-{digest}", str(data)])
    for cipher in ("aes-256-ctr", "chacha20"):
        argv = [program, "enc", f"-{cipher}", "-K", "11" * 32, "-iv", "22" * 16, "-in", str(data)]
        for preload in (False, True):
            succeed([*argv, "-out", str(folder / f"{preload}.enc")], preload=preload)
        made = [(folder / f"{preload}.enc").read_bytes() for preload in (False, True)]
        check(made[0] == made[1] and len(made[0]) == 3_000_000, f"{cipher}: the encrypted files differ")
    # A fresh key differs each time, so it is used: what one run signs the other must verify.
    key, public, signature = (str(folder / name) for name in ("key", "public", "signature"))
    succeed([program, "genrsa", "-out", key, "2048"], preload=True)
    succeed([program, "rsa", "-in", key, "-pubout", "-out", public], preload=True)
    succeed([program, "dgst", "-sha256", "-sign", key, "-out", signature, str(data)], preload=True)
    same([program, "dgst", "-sha256", "-verify", public, "-signature", signature, str(data)])
    algorithms = ["aes-128-cbc", "sha256", "rsa2048", "ecdsap256"] + (["ed25519", "dsa2048"] if LONG else [])
    speed = succeed(
        [program, "speed", "-seconds", "1", "-bytes", "1024", "-multi", "2", *algorithms], preload=True, timeout=300
    )
    for word in ("aes-128-cbc", "sha256", "rsa 2048", "ecdsa"):
        check(word in speed.out, f"openssl speed says nothing about {word}:\n{speed.out}")


def gdb(folder: Path) -> None:
    """A debugger whose inferior is preloaded as well, stopped within malloc and stepped out of it."""
    program, compiler = need("gdb", "gdb"), need("gcc", "g++")
    source = folder / "inferior.c"
    source.write_text(
        "#include <stdio.h>\n#include <stdlib.h>\n"
        "__attribute__((noinline)) void* make(int n) { return malloc(n); }\n"
        "int main(void) { long sum = 0;\n"
        "  for (int i = 1; i <= 1000; ++i) { char* p = make(i); p[0] = 1; sum += p[0]; free(p); }\n"
        '  printf("sum %ld\\n", sum); return 0; }\n'
    )
    inferior = str(folder / "inferior")
    succeed([compiler, "-g", "-O0", "-o", inferior, str(source)], preload=False)
    prove_preload([program, "--version"])
    prove_preload([inferior])
    script = ["break make if n == 500", "run", "bt", "info locals", "tbreak malloc", "continue", "finish"]
    # n is only known in the frame of make: finish got back there.
    script += ['printf "back in make, n is %d\\n", n', "delete", "continue"]
    argv = [program, "-nx", "-batch", *[word for line in script for word in ("-ex", line)], inferior]
    # Addresses, ids and malloc's own frames differ; that the debugger gets through and the program ends well does not.
    said = run(argv, preload=True, timeout=120)
    for words in ("make (n=500)", "main ()", "back in make, n is 500", "sum 1000", "exited normally"):
        check(words in said.out, f"gdb does not say '{words}':\n{said.out}\n{said.err}")


def stress_ng(folder: Path) -> None:
    """Its malloc stressors, verifying what they wrote, in processes with threads."""
    program = need("stress-ng", "stress-ng")
    prove_preload([program, "--version"])
    factor = 20 if LONG else 1
    for operations, options in (
        (100_000, ["--malloc-pthreads", "2", "--malloc-bytes", "4k"]),
        (5_000, ["--malloc-bytes", "512k", "--malloc-touch"]),
    ):
        argv = [program, "--malloc", "2", "--malloc-ops", str(operations * factor), *options]
        # Its stressors have process groups of their own: it must end by itself, not by our timeout.
        argv += ["--verify", "--timeout", "300", "--temp-path", str(folder)]
        said = succeed(argv, preload=True, timeout=400)
        check("successful run completed" in said.out + said.err, f"stress-ng: {said.out}{said.err}")


if __name__ == "__main__":
    chosen = {"openssl": openssl, "gdb": gdb, "stress-ng": stress_ng}
    if len(sys.argv) < 2 or sys.argv[1] not in chosen:
        sys.exit(f"usage: tools.py {'|'.join(chosen)} [long]")
    main(chosen[sys.argv[1]])
