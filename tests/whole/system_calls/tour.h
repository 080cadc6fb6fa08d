// SPDX-License-Identifier: MIT
//
// tour.h: a program over all functions of the allocator and all of its slow paths, in which each call may be refused
// memory. Whatever it asks for it either gets, whole and its own, or it is told so in the function's own way; and what
// it had already stays as it was.
#ifndef FREEWAY_TESTS_SYSTEM_CALLS_TOUR_H
#define FREEWAY_TESTS_SYSTEM_CALLS_TOUR_H

#include <fcntl.h>
#include <malloc.h>
#include <pthread.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <new>

#include "freeway/freeway.h"
#include "tests/support/cpu_affinity.h"
#include "tests/whole/signal/support/failure.h"

extern "C" {
void free_sized(void* block, size_t size) noexcept;
void free_aligned_sized(void* block, size_t alignment, size_t size) noexcept;
}

namespace freeway_test {

class Tour {
 public:
  // Allocates nothing.
  void choose_cpus() {
    cpu_set_t set;
    CPU_ZERO(&set);
    ::sched_getaffinity(0, sizeof set, &set);
    for (int cpu = CPU_SETSIZE; cpu-- > 0;)
      if (CPU_ISSET(static_cast<size_t>(cpu), &set)) {
        if (cpus_[1] < 0) cpus_[1] = cpu;
        cpus_[0] = cpu;
      }
    stay_on(cpus_[0]);
  }
  // `in_child`: in a forked child, which neither forks again nor starts threads.
  void run(bool in_child) {
    bursts();
    if (!in_child) {
      every_function();
      resizes();
      large();
      batches();
      other_cpu();
      forks();
    }
    moves();
    trims();  // what it reserves, it gives back at its end
    figures();
    reports();
  }
  // Whether there is memory: then no call may fail.
  void memory_is_back(bool is_back) { may_fail_ = !is_back; }
  uint64_t failures() const { return failures_; }

 private:
  static constexpr size_t kSlots = 8192;
  struct Slot {
    unsigned char* block;
    size_t size;
    unsigned char tag;
  };

  // Notes that a call failed, which it may only do with this errno.
  void refused(const char* function, size_t size, int error) {
    require(may_fail_, function, size);
    require(error == ENOMEM, function, size, static_cast<uint64_t>(error));
    failures_++;
  }

  // First, last and some bytes in between are the block's tag.
  template <class F> static void each_probe(size_t size, F&& f) {
    const size_t step = size <= 4096 ? 509 : (size / 8) | 1;
    for (size_t at = 0; at < size; at += step) f(at);
    if (size != 0) f(size - 1);
  }
  static void stamp(Slot& s) {
    each_probe(s.size, [&](size_t at) { s.block[at] = s.tag; });
  }
  static void verify(const Slot& s, const char* what) {
    each_probe(s.size, [&](size_t at) { require(s.block[at] == s.tag, what, s.size, at); });
  }

  // Puts `block`, what `function` answered, into slot i.
  bool put(size_t i, void* block, size_t size, size_t alignment, const char* function) {
    if (block == nullptr) {
      refused(function, size, errno);
      return false;
    }
    require(reinterpret_cast<uintptr_t>(block) % alignment == 0, function, size, reinterpret_cast<uintptr_t>(block));
    require(::malloc_usable_size(block) >= size, "usable size", size, ::malloc_usable_size(block));
    slots_[i] = {static_cast<unsigned char*>(block), size, static_cast<unsigned char>(++tags_ | 1)};
    stamp(slots_[i]);
    return true;
  }
  bool get(size_t i, size_t size) {
    errno = 0;
    return put(i, ::malloc(size), size, 16, "malloc");
  }
  template <class Free> void drop(size_t i, Free&& give) {
    Slot s = slots_[i];
    if (s.block == nullptr) return;
    verify(s, "a block was damaged");
    slots_[i] = {};
    errno = 4242;
    give(s.block, s.size);
    require(errno == 4242, "free changed errno", static_cast<uint64_t>(errno));
  }
  void drop(size_t i) {
    drop(i, [](void* block, size_t) { ::free(block); });
  }
  void drop_all(size_t count) {
    for (size_t i = 0; i < count; i++) drop(i);
  }

  // Blocks for every step-th slot from `first` to `end`, until a few were refused.
  void get_some(size_t first, size_t end, size_t step, size_t size) {
    size_t patience = 12;
    for (size_t i = first; i < end && patience > 0; i += step) patience -= !get(i, size);
  }

  // Superblocks of several classes fill up, are half emptied, used again, and go.
  void bursts() {
    constexpr struct {
      size_t size, count;
    } kBursts[] = {{16, 5000}, {100, 1500}, {1000, 200}, {2000, 100}, {3000, 200}, {20'000, 110}};
    for (const auto& burst : kBursts) {
      get_some(0, burst.count, 1, burst.size);
      for (size_t i = 0; i < burst.count; i += 2) drop(i);
      get_some(0, burst.count, 4, burst.size);
      for (size_t i = burst.count; i-- > 0;) drop(i);
    }
  }

  void every_function() {
    for (const size_t size : {size_t{40}, size_t{1500}, size_t{70'000}, size_t{1} << 20}) {
      errno = 0;
      auto* zeroed = static_cast<unsigned char*>(::calloc(1, size));
      each_probe(zeroed == nullptr ? 0 : size,
                 [&](size_t at) { require(zeroed[at] == 0, "calloc is not zero", size, at); });
      put(0, zeroed, size, 16, "calloc");
      errno = 0;
      put(1, ::reallocarray(nullptr, 2, size), 2 * size, 16, "reallocarray");
      errno = 0;
      put(2, ::aligned_alloc(256, size), size, 256, "aligned_alloc");
      errno = 0;
      put(3, ::memalign(8192, size), size, 8192, "memalign");
      errno = 0;
      put(4, ::valloc(size), size, 4096, "valloc");
      errno = 0;
      put(5, ::pvalloc(size), size, 4096, "pvalloc");
      errno = 4242;
      void* aligned = this;
      const int error = ::posix_memalign(&aligned, size_t{1} << 21, size);
      require(errno == (error == 0 ? 4242 : ENOMEM), "posix_memalign: errno");
      if (error == 0) {
        put(6, aligned, size, size_t{1} << 21, "posix_memalign");
      } else {
        require(aligned == this, "posix_memalign changed its result though it failed");
        refused("posix_memalign", size, error);
      }
      // The throwing forms need the C++ library's help, which needs memory: tests/abi/new_handler_test.cc.
      errno = 0;
      put(7, ::operator new(size, std::nothrow), size, 16, "new");
      errno = 0;
      put(8, ::operator new[](size, std::align_val_t{128}, std::nothrow), size, 128, "aligned new");
      get(9, size);
      drop(1, [](void* block, size_t n) { ::free_sized(block, n); });
      drop(2, [](void* block, size_t n) { ::free_aligned_sized(block, 256, n); });
      drop(7, [](void* block, size_t n) { ::operator delete(block, n); });
      drop(8, [](void* block, size_t) { ::operator delete[](block, std::align_val_t{128}); });
      drop_all(10);
    }
    require(::malloc(PTRDIFF_MAX) == nullptr || errno == ENOMEM, "an impossible size");
  }

  // A refused realloc leaves the block as it was.
  void resize(size_t i, size_t size) {
    Slot& s = slots_[i];
    if (s.block == nullptr) {
      get(i, size);
      return;
    }
    errno = 0;
    void* block = ::realloc(s.block, size);
    if (block == nullptr) {
      refused("realloc", size, errno);
      verify(s, "a refused realloc changed its block");
      require(::malloc_usable_size(s.block) >= s.size, "a refused realloc changed its block's size");
      return;
    }
    s.block = static_cast<unsigned char*>(block);
    const size_t kept = s.size < size ? s.size : size;
    each_probe(s.size, [&](size_t at) {
      if (at < kept) require(s.block[at] == s.tag, "realloc lost contents", size, at);
    });
    s.size = size;
    stamp(s);
  }
  void resizes() {
    for (size_t i = 0; i < 3; i++) get(i, 24);
    for (size_t size = 100; size < 600'000; size = size * 5 / 2)
      for (size_t i = 0; i < 3; i++) resize(i, size + 1000 * i);
    resize(0, 5'000'000);
    for (size_t size = 300'000; size > 1000; size /= 4)
      for (size_t i = 0; i < 3; i++) resize(i, size);
    drop_all(3);
  }

  // Runs of frames, and mappings of their own, which grow in place or move.
  void large() {
    constexpr size_t kMiB = size_t{1} << 20;
    for (size_t i = 0; i < 12; i++) get(i, 50'000 + i * 120'000);
    for (size_t i = 0; i < 12; i += 2) drop(i);
    for (size_t i = 0; i < 12; i += 2) get(i, 200'000);
    drop_all(12);
    get(0, 5 * kMiB);
    get(1, 300 * kMiB);
    get(2, 280 * kMiB);
    resize(1, 310 * kMiB);
    resize(2, 400 * kMiB);
    resize(1, 270 * kMiB);
    resize(2, 5 * kMiB);
    errno = 0;
    put(3, ::memalign(4 * kMiB, 260 * kMiB), 260 * kMiB, 4 * kMiB, "memalign");
    drop_all(4);
  }

  void batches() {
    for (const size_t size : {size_t{48}, size_t{5000}, size_t{100'000}}) {
      void* blocks[40];
      errno = 0;
      const size_t got = ::freeway_malloc_batch(size, 40, blocks);
      if (got < 40) refused("freeway_malloc_batch", size, errno);
      for (size_t i = 0; i < got; i++) std::memset(blocks[i], static_cast<int>(i), 48);
      for (size_t i = 0; i < got; i++)
        require(static_cast<unsigned char*>(blocks[i])[47] == i, "blocks of a batch overlap", size, i);
      ::freeway_free_batch(got, blocks);
    }
  }

  // Another CPU's slab, which a trim on this one is to empty; and blocks that another thread frees.
  void other_cpu() {
    const auto body = [](void* self) -> void* {
      auto& tour = *static_cast<Tour*>(self);
      stay_on(tour.cpus_[1]);
      for (size_t i = 0; i < 600; i += 2) tour.drop(i);
      tour.get_some(600, 1200, 3, 64);
      tour.get_some(601, 1200, 3, 700);
      for (size_t i = 800; i < 1200; i++) tour.drop(i);
      return nullptr;
    };
    get_some(0, 600, 2, 64);
    get_some(1, 600, 2, 2500);
    pthread_t thread;
    const int error = ::pthread_create(&thread, nullptr, body, this);
    if (error == 0) ::pthread_join(thread, nullptr);
    else require(may_fail_ && (error == EAGAIN || error == ENOMEM), "pthread_create", static_cast<uint64_t>(error));
    drop_all(1201);
  }

  void forks() {
    const pid_t child = ::fork();
    if (child == 0) {
      run(/*in_child=*/true);
      freeway_audit_t audit;
      require(::freeway_audit(&audit, sizeof audit) == 0, "audit in a child");
      ::_exit(0);
    }
    int status = -1;
    const bool ended = child > 0 && ::waitpid(child, &status, 0) == child;
    require(ended && status == 0, "a forked child failed", ended, static_cast<uint64_t>(status));
    const pid_t quick = ::vfork();
    if (quick == 0) {
      ::free(::malloc(100));
      ::_exit(0);
    }
    if (quick < 0) {
      require(may_fail_, "vfork", static_cast<uint64_t>(errno));
      failures_++;
      return;
    }
    const bool quick_ended = ::waitpid(quick, &status, 0) == quick;
    require(quick_ended && status == 0, "the child of a vfork failed", static_cast<uint64_t>(status));
  }

  void trims() {
    for (size_t i = 0; i < 3; i++) get_some(i, 700, 3, 24 + i * 1000);
    for (size_t i = 0; i < 700; i++)
      if (i % 3 != 0) drop(i);
    ::malloc_trim(0);
    get_some(1, 300, 3, 3000);
    drop_all(700);
    ::freeway_reserve(700, 100);
    ::freeway_set_limit(2 << 20, 0);
    ::freeway_trim(1 << 20);
    ::freeway_set_limit(0, 0);
    ::freeway_trim_step(1 << 20);
    ::freeway_idle();
  }

  void moves() {
    get_some(0, 700, 1, 1000);
    for (size_t i = 0; i < 700; i++)
      if (i % 9 != 0) drop(i);
    constexpr size_t kNew = 700;
    for (size_t i = 0; i < kNew; i += 9) {
      if (slots_[i].block == nullptr || ::freeway_should_move(slots_[i].block) == 0 || !get(kNew, 1000)) continue;
      drop(i);
      slots_[i] = slots_[kNew];
      slots_[kNew] = {};
    }
    drop_all(kNew);
  }

  void figures() {
    freeway_stats_t stats;
    ::freeway_stats(&stats, sizeof stats);
    (void)::mallinfo2();
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"
    (void)::mallinfo();
#pragma GCC diagnostic pop
    (void)::mallopt(M_MMAP_THRESHOLD, 1 << 20);
    require(::freeway_version() != nullptr, "version");
  }

  // What writes to fd 2: figures, and a bad pointer's name (FREEWAY_ON_ERROR=report).
  void reports() {
    const int kept = ::dup(2), null = ::open("/dev/null", O_WRONLY | O_CLOEXEC);
    ::dup2(null, 2);
    ::malloc_stats();
    alignas(16) char on_stack[64];
    void* volatile bad = on_stack;
    ::free(bad);
    ::dup2(kept, 2);
    ::close(kept);
    ::close(null);
  }

  int cpus_[2] = {-1, -1};  // the first and the last that there is
  bool may_fail_ = true;
  uint64_t failures_ = 0;
  unsigned tags_ = 0;
  Slot slots_[kSlots] = {};
};

}  // namespace freeway_test
#endif
