// SPDX-License-Identifier: MIT
//
// first_limit.cc: a limit on address space that is the process's first act, before anything small was allocated: blocks of
// every size can be had, not more than the limit, and more once it is raised. A program of its own, without GoogleTest,
// which would have allocated before; each limit in a child of it.
#include <malloc.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace {

constexpr size_t kMiB = size_t{1} << 20;
constexpr size_t kLimits[] = {64, 100, 256, 1024};  // MiB
constexpr size_t kSizes[] = {1, 100, 3000, 30'000, 100'000, 1'000'000};
constexpr size_t kFilled = 1000;  // small for each engine

[[noreturn]] void fail(const char* what) {
  dprintf(2, "first_limit: %s\n", what);
  _exit(1);
}

void limit_to(rlim_t bytes) {
  const rlimit limit = {bytes, RLIM_INFINITY};
  rlimit kept;  // emulators of processes keep none
  if (setrlimit(RLIMIT_AS, &limit) != 0 || getrlimit(RLIMIT_AS, &kept) != 0 || kept.rlim_cur != bytes) _exit(77);
}

struct Link {
  Link* next;
};

size_t fill_and_free(size_t size, size_t most) {
  Link* chain = nullptr;
  size_t got = 0;
  for (; got < most; got += size) {
    auto* link = static_cast<Link*>(malloc(size));
    if (link == nullptr) break;
    link->next = chain;
    memset(link + 1, 1, size - sizeof(Link));
    chain = link;
  }
  while (chain != nullptr) {
    Link* next = chain->next;
    free(chain);
    chain = next;
  }
  return got;
}

void live_within(size_t limit) {
  limit_to(limit);
  for (const size_t size : kSizes) {
    char* volatile block = static_cast<char*>(malloc(size));
    if (block == nullptr) fail("a block under the limit");
    memset(block, 1, size);
    free(block);
  }
  const size_t got = fill_and_free(kFilled, ~size_t{0});
  dprintf(1, "%zu MiB: blocks of %zu MiB\n", limit / kMiB, got / kMiB);
  if (got > limit) fail("more than the limit was granted");
  if (got < limit / 2) fail("less than half of the limit could be had");
  limit_to(RLIM_INFINITY);
  if (fill_and_free(kFilled, 2 * limit) < 2 * limit) fail("the limit was raised, and there is no more");
}

}  // namespace

int main() {
  int worst = 0;
  for (const size_t megabytes : kLimits) {
    const pid_t child = fork();
    if (child == 0) {
      live_within(megabytes * kMiB);
      _exit(0);
    }
    int status = 0;
    waitpid(child, &status, 0);
    const int code = WIFEXITED(status) ? WEXITSTATUS(status) : 1;
    if (code > worst) worst = code;
  }
  return worst;
}
