// SPDX-License-Identifier: MIT
//
// memory_refused_test.cc: when the kernel refuses memory, each function says so in its own way, nothing is lost, and
// all works again once memory is back. Each scenario is a process that limits itself: RLIMIT_AS before it starts anew,
// or RLIMIT_DATA while it runs, which bounds what may be made writable. (RLIMIT_AS while it runs:
// address_space_test.cc.)
#include <freeway/freeway.h>
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <atomic>
#include <new>
#include <thread>
#include <vector>

#include "abi_test.h"
#include "fill_up.h"
#include "scenario.h"

namespace freeway::test {
namespace {

// Writable memory of this process may grow by `spare` bytes more.
void refuse_beyond(size_t spare) {
  rlimit limit;
  getrlimit(RLIMIT_DATA, &limit);
  limit.rlim_cur = proc_value("status", "VmData:") * kKiB + spare;
  require(setrlimit(RLIMIT_DATA, &limit) == 0, "setrlimit");
}

void allow_all() {
  rlimit limit;
  getrlimit(RLIMIT_DATA, &limit);
  limit.rlim_cur = limit.rlim_max;
  require(setrlimit(RLIMIT_DATA, &limit) == 0, "setrlimit");
}

// Takes every block of every size that can still be had.
void exhaust(Link*& chain) {
  for (size_t size = kMiB; size >= 2 * sizeof(Link); size /= 2)
    for (const size_t each : {size * 2 - size / 8, size * 2 - size / 4, size + size / 2, size + size / 4, size})
      fill_up(chain, each);
  if (on_flagship()) return;
  // The classes of the papers' engines lie closer, up to one for each 16 bytes.
  for (size_t size = 2 * kLargestSmall; size >= 2 * sizeof(Link); size -= 16) fill_up(chain, size);
}

FREEWAY_SCENARIO(EveryFunctionRefuses) {
  Link* chain = nullptr;
  refuse_beyond(64 * kMiB);
  require(fill_up(chain, kMiB) >= 40, "less than 40 of 64 MiB could be had");
  exhaust(chain);
  for (const size_t size :
       {size_t{32}, size_t{512}, size_t{3000}, size_t{32768}, size_t{100000}, 10 * kMiB, 2 * kLargestLarge}) {
    errno = 0;
    require(hide(malloc(size)) == nullptr && errno == ENOMEM, "malloc");
    errno = 0;
    require(hide(calloc(1, size)) == nullptr && errno == ENOMEM, "calloc");
    errno = 0;
    require(hide(realloc(nullptr, size)) == nullptr && errno == ENOMEM, "realloc of null");
    errno = 0;
    require(hide(reallocarray(nullptr, 2, size)) == nullptr && errno == ENOMEM, "reallocarray");
    errno = 0;
    require(hide(aligned_alloc(64, size)) == nullptr && errno == ENOMEM, "aligned_alloc");
    errno = 0;
    require(hide(memalign(4096, size)) == nullptr && errno == ENOMEM, "memalign");
    errno = 0;
    require(hide(valloc(size)) == nullptr && errno == ENOMEM, "valloc");
    errno = 0;
    require(hide(pvalloc(size)) == nullptr && errno == ENOMEM, "pvalloc");
    errno = 0;
    void* result = &chain;
    require(posix_memalign(&result, 64, size) == ENOMEM && errno == ENOMEM && result == &chain, "posix_memalign");
    require(hide(::operator new(size, std::nothrow)) == nullptr, "nothrow new");
    require(hide(::operator new(size, std::align_val_t{128}, std::nothrow)) == nullptr, "aligned nothrow new");
  }
  // A failed realloc leaves its block; one that shrinks in place or frees needs no memory.
  Link* kept = chain;
  const size_t kept_size = kept->size;
  errno = 0;
  require(hide(realloc(kept, 20 * kMiB)) == nullptr && errno == ENOMEM, "realloc");
  require(chain == kept && kept->size == kept_size, "realloc changed its block");
  chain = kept->next;
  require(hide(realloc(kept, 0)) == nullptr, "realloc to nothing");
  void* again = hide(malloc(kept_size));
  require(again != nullptr, "what was freed cannot be had again");
  free(again);
  allow_all();
  free_all(chain);
  require_everything_works();
  require_sound_heap();
}

TEST(MemoryRefused, EveryFunctionSaysSoInItsOwnWayAndNothingIsLost) {
  const Outcome outcome = run_scenario("EveryFunctionRefuses");
  EXPECT_TRUE(outcome.succeeded()) << outcome.exit_status << " " << outcome.signal << " " << outcome.out << outcome.err;
}

FREEWAY_SCENARIO(RefusedThenFreed) {
  // No limit is raised: what is freed must be enough to go on, for other sizes too.
  Link* chain = nullptr;
  refuse_beyond(48 * kMiB);
  size_t least = SIZE_MAX, most = 0;
  for (int round = 0; round < 6; ++round) {
    const size_t medium = on_flagship() ? 3000 : 2000;  // some of the papers' engines give a mapping to more
    for (const size_t size : {size_t{64}, medium, size_t{100000}, size_t{3000000}}) {
      const size_t bytes = fill_up(chain, size) * size;
      free_all(chain);
      least = bytes < least ? bytes : least;
      most = bytes > most ? bytes : most;
    }
  }
  dprintf(1, "least %zu most %zu\n", least, most);
  require(least >= 24 * kMiB, "memory was lost from round to round");
  require_sound_heap();
}

TEST(MemoryRefused, FreedMemoryServesOtherSizesUnderTheSameLimit) {
  const Outcome outcome = run_scenario("RefusedThenFreed");
  EXPECT_TRUE(outcome.succeeded()) << outcome.exit_status << " " << outcome.signal << " " << outcome.out << outcome.err;
}

// Many threads at the limit at once: each is refused again and again while others free.
FREEWAY_SCENARIO(ManyThreadsAtTheLimit) {
  constexpr unsigned kThreads = 8;
  constexpr size_t kSlots = 400;
  static Link* slots[kThreads][kSlots];
  static std::atomic<size_t> refusals;
  static std::atomic<bool> go;
  std::vector<std::thread> threads;
  for (unsigned t = 0; t < kThreads; ++t) {
    threads.emplace_back([t] {
      while (!go) std::this_thread::yield();
      uint32_t state = t + 1;
      for (int i = 0; i < 20000; ++i) {
        state = state * 1664525 + 1013904223;
        Link*& slot = slots[t][(state >> 7) % kSlots];
        if (slot != nullptr) {
          slot->next = nullptr;
          free_all(slot);
          continue;
        }
        const size_t size = sizeof(Link) + (state % 100 == 0 ? (state >> 16) * 20 : (state >> 16) / 4);
        slot = static_cast<Link*>(hide(malloc(size)));
        if (slot == nullptr) {
          require(errno == ENOMEM, "refusal without ENOMEM");
          refusals.fetch_add(1, std::memory_order_relaxed);
          continue;
        }
        slot->size = size;
        memset(slot + 1, 0x5a, size - sizeof(Link) < 200 ? size - sizeof(Link) : 200);
      }
    });
  }
  refuse_beyond(16 * kMiB);  // not earlier: the threads' stacks count too
  go = true;
  for (std::thread& thread : threads) thread.join();
  dprintf(1, "%zu refusals\n", refusals.load());
  require(refusals > 0, "the limit was never reached");
  allow_all();
  for (auto& share : slots) {
    for (Link*& slot : share) {
      if (slot == nullptr) continue;
      slot->next = nullptr;
      free_all(slot);
    }
  }
  require_everything_works();
  require_sound_heap();
}

TEST(MemoryRefused, ManyThreadsAtTheLimitLoseNothing) {
  const Outcome outcome = run_scenario("ManyThreadsAtTheLimit");
  EXPECT_TRUE(outcome.succeeded()) << outcome.exit_status << " " << outcome.signal << " " << outcome.out << outcome.err;
}

FREEWAY_SCENARIO(BatchRefused) {
  constexpr size_t kMost = 100000;
  static void* blocks[kMost];
  for (const size_t size : {size_t{1000}, size_t{5000}, size_t{70000}}) {
    refuse_beyond(16 * kMiB);
    errno = 0;
    const size_t got = freeway_malloc_batch(size, kMost, blocks);
    require(got < kMost && errno == ENOMEM, "a batch that cannot be had was had");
    // Where a block is a mapping, addresses run out first.
    require(got * (on_flagship() || size <= 2000 ? size : 64 * kKiB) >= 4 * kMiB, "a batch gave up early");
    for (size_t i = 0; i < got; ++i) memset(blocks[i], int(i), 100);
    for (size_t i = 0; i < got; ++i)
      require(*static_cast<unsigned char*>(blocks[i]) == (i & 255), "a block of the batch was handed out twice");
    allow_all();
    freeway_free_batch(got, blocks);
  }
  require_everything_works();
  require_sound_heap();
}

TEST(MemoryRefused, ABatchStopsShortAndSaysSo) {
  const Outcome outcome = run_scenario("BatchRefused");
  EXPECT_TRUE(outcome.succeeded()) << outcome.exit_status << " " << outcome.signal << " " << outcome.out << outcome.err;
}

FREEWAY_SCENARIO(LivesWithinAnAddressSpaceLimit) {
  Link* chain = nullptr;
  const size_t limit = size_t(argument) * kMiB;
  // Of the papers' engines some give a mapping of 64 KiB to more than 2 KiB, and one reserves regions of some MiB.
  const size_t size = on_flagship() ? 3000 : 2000;
  const size_t got = fill_up(chain, size) * size;
  dprintf(1, "%zu of %zu bytes\n", got, limit);
  require(got >= limit / (on_flagship() ? 2 : 4), "too little of the limit could be had");
  free_all(chain);
  rlimit raised;
  getrlimit(RLIMIT_AS, &raised);
  raised.rlim_cur = raised.rlim_max;
  require(setrlimit(RLIMIT_AS, &raised) == 0, "setrlimit");
  // More than the limit was: the allocator has to reserve anew.
  for (size_t taken = 0; taken < 2 * limit; taken += kMiB) {
    auto* link = static_cast<Link*>(hide(malloc(kMiB)));
    require(link != nullptr, "malloc after the limit was raised");
    link->next = chain;
    link->size = kMiB;
    memset(link + 1, 0x5a, 200);
    chain = link;
  }
  free_all(chain);
  require_everything_works();
  require_sound_heap();
}

// The limit is set before the program starts, so that the allocator finds it when it reserves its address space.
FREEWAY_SCENARIO(StartsUnderAnAddressSpaceLimit) {
  rlimit limit;
  getrlimit(RLIMIT_AS, &limit);
  limit.rlim_cur = size_t(argument) * kMiB;
  require(setrlimit(RLIMIT_AS, &limit) == 0, "setrlimit");
  execl("/proc/self/exe", "limited", "--scenario=LivesWithinAnAddressSpaceLimit", std::to_string(argument).c_str(),
        nullptr);
  require(false, "exec");
}

TEST(MemoryRefused, AnAddressSpaceLimitFromTheStartIsLivedWithinAndOutgrown) {
  for (const long megabytes : {60, 100, 300, 1000}) {
    const Outcome outcome = run_scenario("StartsUnderAnAddressSpaceLimit", megabytes);
    EXPECT_TRUE(outcome.succeeded()) << megabytes << " MiB: " << outcome.exit_status << " " << outcome.signal << " "
                                     << outcome.out << outcome.err;
  }
}

}  // namespace
}  // namespace freeway::test
