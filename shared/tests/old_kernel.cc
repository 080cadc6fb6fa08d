// SPDX-License-Identifier: MIT
//
// Executes a program as on a kernel before Linux 5.14, which has no MADV_POPULATE_WRITE: it is EINVAL there.
//
//   shared_old_kernel PROGRAM [ARGUMENT ...]
#include <sys/mman.h>

#include <cerrno>

#include "shared/tests/filter.h"
#include "tests/whole/signal/support/failure.h"

int main(int argc, char** argv) {
  using namespace freeway_test;
  require(argc > 1, "which program?");
  if (!answer_madvise(kPopulateWrite, refuse_with(EINVAL))) skip("no seccomp filters here");
  void* page = ::mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  require(::madvise(page, 4096, kPopulateWrite) == -1 && errno == EINVAL, "the filter does nothing");
  ::execv(argv[1], argv + 1);
  fail("the program cannot be executed", static_cast<uint64_t>(errno));
}
