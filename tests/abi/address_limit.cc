// SPDX-License-Identifier: MIT
//
// address_limit.cc: a process with RLIMIT_AS of 400 MB fills it with blocks of 3 kB, then of 100 kB, then of 3 MB,
// three rounds: every fill gets over 90 % of the limit, whatever had the memory before. A program of its own, without
// GoogleTest, so that the limit is spent on blocks: it sets the limit and starts itself again.
#include <malloc.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "tests/support/engine_under_test.h"

namespace {

constexpr size_t kLimit = 400'000'000;
constexpr size_t kSizes[] = {3'000, 100'000, 3'000'000};
constexpr int kRounds = 3;
// NBBS keeps the trees of its regions, 7 % of what they manage.
const int kLeastPercent = freeway::test::on_engine("nbbs") ? 85 : 90;

struct Link {
  Link* next;
  unsigned stamp;
};

[[noreturn]] void fail(const char* what) {
  dprintf(2, "address_limit: %s (errno %d)\n", what, errno);
  _exit(1);
}

// Fills the limit with blocks of `size`, stamps all, checks all, frees all. Returns the bytes that the blocks could
// hold. A block is counted by its usable size: frames are 64 KiB, so one of 100 kB has two of them and may be used to
// their end.
size_t fill_and_free(size_t size) {
  Link* chain = nullptr;
  unsigned count = 0;
  size_t usable = 0;
  for (;;) {
    errno = 0;
    auto* link = static_cast<Link*>(malloc(size));
    if (link == nullptr) break;
    link->next = chain;
    link->stamp = ++count;
    usable += malloc_usable_size(link);
    memset(link + 1, static_cast<int>(count), size - sizeof(Link));
    chain = link;
  }
  if (errno != ENOMEM) fail("malloc failed without ENOMEM");
  for (unsigned stamp = count; chain != nullptr; --stamp) {
    Link* next = chain->next;
    const auto* bytes = reinterpret_cast<const unsigned char*>(chain + 1);
    if (chain->stamp != stamp || bytes[0] != (stamp & 255) || bytes[size - sizeof(Link) - 1] != (stamp & 255))
      fail("a block was overwritten");
    free(chain);
    chain = next;
  }
  return usable;
}

}  // namespace

int main(int argc, char**) {
  if (argc == 1) {
    const rlimit limit = {kLimit, kLimit};
    if (setrlimit(RLIMIT_AS, &limit) != 0) fail("setrlimit");
    execl("/proc/self/exe", "address_limit", "limited", nullptr);
    fail("exec");
  }
  bool passed = true;
  for (int round = 1; round <= kRounds; ++round) {
    for (const size_t size : kSizes) {
      const size_t got = fill_and_free(size);
      const bool enough = got > kLimit / 100 * kLeastPercent;
      printf("round %d, blocks of %7zu bytes: %5.1f %% of the limit%s\n", round, size,
             100.0 * static_cast<double>(got) / kLimit, enough ? "" : "  TOO LITTLE");
      passed = passed && enough;
    }
  }
  return passed ? 0 : 1;
}
