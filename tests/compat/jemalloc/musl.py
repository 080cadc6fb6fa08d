# SPDX-License-Identifier: MIT
"""A program with musl, whose loader does not know DT_AUXILIARY: with both preloaded, mallctl tells of its malloc.

Exit status 77 (skipped) where there is no musl-gcc.
"""

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

SOURCE = r"""
#include <dlfcn.h>
#include <stdint.h>
#include <stdlib.h>
int main(void) {
  int (*control)(const char*, void*, size_t*, void*, size_t);
  *(void**)&control = dlsym(RTLD_DEFAULT, "mallctl");
  if (control == NULL) return 2;
  char* volatile block = malloc(1000000);
  uint64_t epoch = 1;
  size_t allocated = 0, size = sizeof allocated;
  if (control("epoch", NULL, NULL, &epoch, sizeof epoch) != 0) return 3;
  if (control("stats.allocated", &allocated, &size, NULL, 0) != 0) return 4;
  free(block);
  return allocated >= 1000000 && allocated < 10000000 ? 0 : 5;
}
"""


def main() -> int:
    compiler = shutil.which("musl-gcc")
    if compiler is None:
        print("no musl-gcc here")
        return 77
    shim = Path(os.environ["FREEWAY_JEMALLOC"]).parent / "libfreeway-jemalloc.so.0"
    preload = f"{shim}:{shim.with_name('libfreeway.so.0')}"
    with tempfile.TemporaryDirectory() as folder:
        source, program = Path(folder) / "program.c", Path(folder) / "program"
        source.write_text(SOURCE)
        subprocess.run([compiler, source, "-o", program], check=True)
        done = subprocess.run([program], env={"LD_PRELOAD": preload}, capture_output=True, text=True, check=False)
    print(f"preloading {preload}: exit status {done.returncode} {done.stderr}")
    return 1 if done.returncode != 0 else 0


if __name__ == "__main__":
    sys.exit(main())
