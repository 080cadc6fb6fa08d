// SPDX-License-Identifier: MIT
//
// hello: the smallest program that uses malloc (stdio's buffer). With --memory it also says how much anonymous memory
// it has resident. Run by startup.
#include "support/memory_use.h"

int main(int argc, char** argv) {
  std::puts("hello, world");
  if (argc > 1 && std::strcmp(argv[1], "--memory") == 0)
    std::printf("anonymous_kib %ld\n", bench::rollup_kib("Anonymous:"));
  return 0;
}
