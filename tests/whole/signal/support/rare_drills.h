// SPDX-License-Identifier: MIT
//
// RareDrills: what an allocator does once in a process's life, or only where the kernel refuses something: a further
// arena, page-map leaves, giving memory back after a while, slabs of other threads. Each is run in a forked child of
// its own, from the same state. For Freeway itself: the engines of the papers have other limits.
#ifndef FREEWAY_TESTS_SIGNAL_SUPPORT_RARE_DRILLS_H
#define FREEWAY_TESTS_SIGNAL_SUPPORT_RARE_DRILLS_H

#include <linux/filter.h>
#include <linux/seccomp.h>
#include <malloc.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <ctime>
#include <vector>

#include "tests/support/cpu_affinity.h"
#include "tests/whole/signal/support/block_mix.h"
#include "tests/whole/signal/support/heap_account.h"

namespace freeway_test {

class RareDrills {
 public:
  // `in_hand`: what a jump out of a call would lose now, in bytes; `superblocks`: how many, at most.
  RareDrills(volatile size_t& in_hand, volatile size_t& superblocks) : in_hand_(in_hand), superblocks_(superblocks) {}

  static constexpr size_t kCount = 12;

  void run(size_t drill) {
    switch (drill) {
      case 0: return aged();
      case 1: return leaves();
      case 2: return further_arenas();
      case 3: return superblocks_elsewhere();
      case 4: refuse(SYS_membarrier); return trims();
      case 5:
        refuse(SYS_madvise);
        trims();
        return frees_large();
      case 6: return slab_of_another_thread();
      case 7: return beyond_the_watermark();
      case 8: return foreign_blocks();
      case 9: return readied();
      case 10: return limited();
      default: return many_superblocks();
    }
  }

  // Once, in the parent of all those children: what was freed long ago, by the allocator's clock, is given back at the
  // next call that looks. Two ticks of 250 ms are long enough.
  static void age() {
    void* blocks[6];
    for (void*& block : blocks) block = ::malloc(kGiant);
    for (void* block : blocks) ::free(block);
    for (int tick = 0; tick < 2; tick++) {
      const timespec pause{0, 300'000'000};
      ::nanosleep(&pause, nullptr);
      void* volatile block = ::malloc(100'000);
      if (tick == 0) ::free(block);
    }
  }

 private:
  static constexpr size_t kGiant = size_t{250} << 20;  // no mapping of its own yet
  static constexpr size_t kHuge = size_t{300} << 20;
  static constexpr size_t kPrimary = size_t{64} << 30;
  static constexpr size_t kMostBlocks = 4096;
  static constexpr size_t kLimit = size_t{1} << 20;  // less than the heap holds, whatever is freed

  // A block by each function in turn.
  void* get(size_t size, Call by) {
    void* block = nullptr;
    in_hand_ = size;
    enter_allocator(by);
    switch (by) {
      case Call::kCalloc: block = ::calloc(1, size); break;
      case Call::kRealloc: block = ::realloc(nullptr, size); break;
      case Call::kAlignedAlloc: block = ::aligned_alloc(size_t{1} << 16, size); break;
      case Call::kPosixMemalign:
        if (::posix_memalign(&block, 64, size) != 0) block = nullptr;
        break;
      default: block = ::malloc(size);
    }
    leave_allocator();
    in_hand_ = 0;
    require(block != nullptr, "no memory", size, static_cast<uint64_t>(by));
    return block;
  }
  void drop(void* block, size_t size) {
    in_hand_ = size;
    enter_allocator(Call::kFree);
    ::free(block);
    leave_allocator();
    in_hand_ = 0;
  }
  void trim() {
    enter_allocator(Call::kTrim);
    trim_heap();
    leave_allocator();
  }
  static constexpr Call kGetters[] = {Call::kMalloc, Call::kCalloc, Call::kRealloc, Call::kAlignedAlloc,
                                      Call::kPosixMemalign};

  // More is dirty than was in use a moment ago. Every call that gives frames back looks, and every 64th that fills a
  // magazine.
  void aged() {
    void* large[4];
    for (void*& block : large) block = get(100'000, Call::kMalloc);
    drop(large[0], 100'000);
    in_hand_ = 200'000;
    enter_allocator(Call::kRealloc);
    void* shrunk = ::realloc(large[1], 70'000);
    leave_allocator();
    in_hand_ = 0;
    for (size_t i = 0; i < 1200; i++) blocks_[i] = get(30'000, kGetters[i / 4 % 3]);
    for (size_t i = 0; i < 1200; i++) drop(blocks_[i], 30'000);
    drop(shrunk, 70'000);
    trim();
  }

  // Mappings of their own, each where no entry of the page map is yet: 4 GiB of addresses further.
  void leaves() {
    for (const Call by : kGetters) {
      (void)::mmap(nullptr, size_t{5} << 30, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
      void* block = get(kHuge, by);
      stamp(block, 4096, 1);
      (void)::mmap(nullptr, size_t{5} << 30, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
      in_hand_ = 3 * kHuge;
      enter_allocator(Call::kRealloc);
      void* moved = ::realloc(block, 2 * kHuge);
      leave_allocator();
      in_hand_ = 0;
      require(moved != nullptr, "realloc of a huge block");
      verify(moved, "a huge block lost its contents");
      drop(moved, 2 * kHuge);
    }
  }

  // Takes blocks of `size` until one lies in another arena than the first one did.
  void fill(size_t size) {
    for (size_t i = 0; i < kMostBlocks; i++) {
      enter_allocator();
      const auto address = reinterpret_cast<uintptr_t>(::malloc(size));
      leave_allocator();
      require(address != 0, "no address space for the primary arena", i);
      if (first_ == 0) first_ = address;
      if (address - first_ >= kPrimary) return;
    }
    fail("the primary arena has no end");
  }

  void further_arenas() {
    fill(kGiant);
    size_t count = 0;
    for (const Call by : kGetters)  // four fit into one arena
      for (int i = 0; i < 5; i++) blocks_[count++] = get(kGiant, by);
    while (count > 0) drop(blocks_[--count], kGiant);
    trim();
  }

  // Memory that was never used, made accessible a step at a time; then the kernel refuses to.
  void beyond_the_watermark() {
    size_t count = 0;
    while (count < 16) blocks_[count] = get(kGiant, kGetters[count / 3 % std::size(kGetters)]), count++;
    rlimit limit;
    ::getrlimit(RLIMIT_DATA, &limit);
    limit.rlim_cur = 4096;
    ::setrlimit(RLIMIT_DATA, &limit);
    const auto until_refused = [&](Call by, size_t size) {
      for (void* block = nullptr; count < kMostBlocks; blocks_[count++] = block) {
        in_hand_ = size;
        enter_allocator(by);
        block = by == Call::kCalloc         ? ::calloc(1, size)
                : by == Call::kAlignedAlloc ? ::aligned_alloc(size_t{1} << 16, size)
                : by == Call::kRealloc      ? ::realloc(nullptr, size)
                                            : ::malloc(size);
        leave_allocator();
        in_hand_ = 0;
        if (block == nullptr) return;
      }
    };
    for (const size_t size : {kGiant, size_t{1} << 20, size_t{60'000}, size_t{20'000}})
      for (const Call by : {Call::kMalloc, Call::kCalloc, Call::kRealloc, Call::kAlignedAlloc}) until_refused(by, size);
    limit.rlim_cur = limit.rlim_max;
    ::setrlimit(RLIMIT_DATA, &limit);
  }

  // More descriptors than there is memory for them at first.
  void many_superblocks() {
    const size_t size = 2000;
    for (size_t i = 0; i < 40'000; i++) {
      const Call by = kGetters[i / 64 % 3];
      enter_allocator(by);
      [[maybe_unused]] void* volatile block = by == Call::kCalloc    ? ::calloc(1, 16)
                                              : by == Call::kRealloc ? ::realloc(nullptr, size)
                                                                     : ::malloc(size);
      leave_allocator();
    }
  }

  // Superblocks outside the primary arena, whose frames the fast path of free does not know.
  void superblocks_elsewhere() {
    for (const size_t size : {kGiant, size_t{20} << 20, size_t{1} << 20, size_t{60'000}}) fill(size);
    for (const size_t size : {20'000u, 5'000u, 700u}) {
      const size_t count = size > 10'000 ? 200 : 400;
      for (size_t i = 0; i < count; i++) {
        const Call by = kGetters[i / 2 % std::size(kGetters)];
        blocks_[i] = get(size, size < 1000 && by == Call::kAlignedAlloc ? Call::kMalloc : by);
        stamp(blocks_[i], size, static_cast<uint32_t>(i));
      }
      for (size_t i = 0; i < count; i++) {
        verify(blocks_[i], "a block in a further arena is damaged");
        if (i % 4 != 0) {
          drop(blocks_[i], size);
          continue;
        }
        in_hand_ = 2 * size;
        enter_allocator(Call::kUsableSize);
        const size_t usable = ::malloc_usable_size(blocks_[i]);
        leave_allocator();
        require(usable >= size, "usable size", usable, size);
        enter_allocator(Call::kRealloc);
        void* moved = ::realloc(blocks_[i], size / 2 - 100);
        leave_allocator();
        in_hand_ = 0;
        drop(moved, size);
      }
    }
    trim();
  }

  // From now on the kernel refuses this system call to this process.
  static void refuse(long number) {
    sock_filter filter[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, static_cast<unsigned>(number), 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    const sock_fprog program{std::size(filter), filter};
    ::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
    ::prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program);
  }

  // With memory in every cache.
  void trims() {
    for (size_t i = 0; i < 300; i++) blocks_[i] = get(16 + 37 * i, Call::kMalloc);
    for (size_t i = 0; i < 300; i += 2) drop(blocks_[i], 16 + 37 * i);
    trim();
    trim();
    for (size_t i = 1; i < 300; i += 2) drop(blocks_[i], 16 + 37 * i);
  }
  void frees_large() {
    for (const Call by : kGetters) drop(get(100'000, by), 100'000);
  }

  // What the call has in hand is all that it was asked for, what each slab may keep aside, and what lay free below.
  void readied() {
    if (heap_account.reserve == nullptr) return;
    superblocks_ = 64 + 96 * usable_cpus().size();
    in_hand_ = 3 * superblocks_ * kFrameBytes;
    enter_allocator(Call::kReserve);
    heap_account.reserve(1000, 100);
    heap_account.reserve(100'000, 3);
    leave_allocator();
    in_hand_ = 0;
    superblocks_ = 1;
    trims();
  }

  // Nothing may be had but what is given back; a handler that needs memory lifts the limit.
  void limited() {
    if (heap_account.set_limit == nullptr) return;
    for (size_t i = 0; i < 300; i++) blocks_[i] = get(16 + 37 * i, Call::kMalloc);
    for (size_t i = 0; i < 300; i++) drop(blocks_[i], 16 + 37 * i);
    for (const size_t hard : {size_t{0}, kLimit}) {
      enter_allocator(Call::kSetLimit);
      heap_account.set_limit(kLimit, hard);
      leave_allocator();
      for (const size_t size : {size_t{1000}, size_t{100'000}, kHuge}) {
        in_hand_ = size;
        enter_allocator(Call::kMalloc);
        void* block = ::malloc(size);
        leave_allocator();
        enter_allocator(Call::kFree);
        ::free(block);
        leave_allocator();
        in_hand_ = 0;
      }
    }
    heap_account.set_limit(0, 0);
  }

  // Its slab is there, with blocks in it, and is emptied by this thread.
  void slab_of_another_thread() {
    in_another_slab([](RareDrills&) {
      void* blocks[200];
      for (size_t i = 0; i < std::size(blocks); i++) blocks[i] = ::malloc(16 + 50 * i);
      for (void* block : blocks) ::free(block);
    });
    trims();
  }

  // Small ones, which share lines with their neighbours: of those freed here some go home now and then.
  void foreign_blocks() {
    constexpr size_t kMany = 900, kBytes = 48;
    in_another_slab([](RareDrills& self) {
      for (size_t i = 0; i < kMany; i++) self.blocks_[i] = ::malloc(kBytes);
    });
    for (size_t i = 0; i < kMany; i++) drop(blocks_[i], kBytes);
  }

  void in_another_slab(void (*work)(RareDrills&)) {
    work_ = work;
    done_ = false;
    pthread_t thread;
    const std::vector<int> cpus = usable_cpus();
    here_ = cpus.front(), there_ = cpus.back();
    stay_on(here_);
    const auto life = [](void* argument) -> void* {
      auto& self = *static_cast<RareDrills*>(argument);
      stay_on(self.there_);
      self.work_(self);
      self.done_ = true;
      return nullptr;
    };
    require(::pthread_create(&thread, nullptr, life, this) == 0, "no thread");
    while (!done_ && here_ != there_) {}  // running at the same time, the two have different slabs
    ::pthread_join(thread, nullptr);
  }

  volatile size_t &in_hand_, &superblocks_;
  void (*work_)(RareDrills&) = nullptr;
  std::atomic<bool> done_{false};
  int here_ = 0, there_ = 0;  // CPUs
  uintptr_t first_ = 0;
  void* blocks_[kMostBlocks];
};

}  // namespace freeway_test
#endif
