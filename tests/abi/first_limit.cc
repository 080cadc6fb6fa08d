// SPDX-License-Identifier: MIT
//
// first_limit.cc: a limit on address space that is the process's first act, before anything small was allocated: blocks
// of every size can be had, not more than the limit, and more once it is raised; and the limit is spent on them:
// counted as asked for, not as may be used, since what nobody asked for is address space that is gone. A program of its
// own, without GoogleTest, which would have allocated before; each limit, and each size under one, in a child of it.
#include <malloc.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "tests/support/engine_under_test.h"

namespace {

constexpr size_t kMiB = size_t{1} << 20;
constexpr size_t kLimits[] = {64, 100, 256, 1024};  // MiB
constexpr size_t kSizes[] = {1, 100, 3000, 30'000, 100'000, 1'000'000};
constexpr size_t kFilled = 1000;  // small for each engine
constexpr size_t kLimitOfEach = 400 * kMiB;
constexpr size_t kEach[] = {16, 100, 2100, 3000, 5000, 12'000, 30'000, 100'000, 1'000'000};

// Bytes that a block of `size` may take of the limit: twice its own, and a header; whole frames where it is no small
// one.
size_t most_for(size_t size) {
  constexpr size_t kFrame = 65536, kPrefix = 16;
  const size_t largest_small = freeway::test::on_engine("michael") ? 8168 : 32'752;
  return size <= largest_small ? 2 * size + 64 : (size + kPrefix + kFrame - 1) / kFrame * kFrame;
}
// The program's own mappings take 3 %, more on some systems. NBBS keeps the trees of its regions, 7 % of what they
// manage.
const size_t kLeastPercent = freeway::test::on_engine("nbbs") ? 80 : 85;

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
    memset(link + 1, 1, size < 200 ? size - sizeof(Link) : 200 - sizeof(Link));
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

void spend_on(size_t size) {
  limit_to(kLimitOfEach);
  const size_t count = fill_and_free(size, ~size_t{0}) / size;
  const size_t percent = count * size * 100 / kLimitOfEach, least = kLeastPercent * size / most_for(size);
  dprintf(1, "%zu MiB: %zu blocks of %zu bytes, %zu %% of it, of %zu %% at least\n", kLimitOfEach / kMiB, count, size,
          percent, least);
  if (percent > 100) fail("more than the limit was granted");
  if (percent < least) fail("blocks of one size took too much of the limit");
}

// How a child ended that did so.
int in_child(void (*act)(size_t), size_t argument) {
  const pid_t child = fork();
  if (child == 0) {
    act(argument);
    _exit(0);
  }
  int status = 0;
  waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 1;
}

}  // namespace

int main() {
  int worst = 0;
  const auto note = [&worst](int code) { worst = code > worst ? code : worst; };
  for (const size_t megabytes : kLimits) note(in_child(&live_within, megabytes * kMiB));
  for (const size_t size : kEach) note(in_child(&spend_on, size));
  return worst;
}
