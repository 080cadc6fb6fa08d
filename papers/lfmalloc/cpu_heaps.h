// SPDX-License-Identifier: MIT
// cpu_heaps.h: one local heap for each CPU (section 3.2.2 (2), (3)): under restartable sections (the paper's, the
// default), or under a protection of protection.h (Table 3, row 2, and ours).
//
// Word      cpu_table.h
// Who       any thread, any signal handler. A thread that is not registered for rseq (none here, or the child of a
//           vfork) has no CPU of its own that the kernel would tell it when to leave: it is at home in the hashed
//           heaps, under CAS
#pragma once

#include "papers/lfmalloc/cpu_table.h"
#include "papers/lfmalloc/hashed_heaps.h"
#include "papers/lfmalloc/sections.h"
#include "os/process.h"
#include "os/syscall.h"

namespace freeway::lfmalloc {

// The CPU that the thread is on at this moment; by the time this is used it may be on another one.
u32 cpu_now();

// The paper's: restartable sections. `Else`: the heaps of threads that are not registered.
template <class Env, class Memory, class Else>
class SectionHeaps {
 public:
  using Block = Superblock<Env>;

  void init(Memory* memory, u32 hashed) {
    table_.init(memory);
    else_.init(hashed);
  }

  FREEWAY_INLINE Popped<Env> pop(unsigned c) {
    const SectionAnswer got = freeway_lfmalloc_pop(c);
    if (FREEWAY_LIKELY(got.first < kNoHeap)) return {got.first, reinterpret_cast<Block*>(got.second)};
    return pop_elsewhere(c, got.first);
  }
  FREEWAY_INLINE bool push(unsigned c, Block* s, uptr block) {
    const u64 done = freeway_lfmalloc_push(c, s, block);
    if (FREEWAY_LIKELY(done == 1)) return true;
    return done == kNotRegistered && push_elsewhere(c, s, block);
  }
  bool install(unsigned c, Block* expected, Block* fresh) {
    const uptr was = freeway_lfmalloc_install(c, expected, fresh);
    if (was < kNoHeap) return was == reinterpret_cast<uptr>(expected);
    return else_.install(c, expected, fresh);
  }
  Block* online(unsigned c) {
    const uptr seen = freeway_lfmalloc_install(c, kNothing, nullptr);
    return seen < kNoHeap ? reinterpret_cast<Block*>(seen) : else_.online(c);
  }

  template <class F>
  void each(F&& f) {
    table_.each(f);
    else_.each(f);
  }

 private:
  // The CPU has no heap yet, or the thread no CPU.
  FREEWAY_NOINLINE Popped<Env> pop_elsewhere(unsigned c, uptr why) {
    while (why == kNoHeap && table_.find(cpu_now()) != nullptr) {
      const SectionAnswer got = freeway_lfmalloc_pop(c);
      if (got.first < kNoHeap) return {got.first, reinterpret_cast<Block*>(got.second)};
      why = got.first;
    }
    return else_.pop(c);
  }
  FREEWAY_NOINLINE bool push_elsewhere(unsigned c, Block* s, uptr block) { return else_.push(c, s, block); }

  static inline void* const kNothing = reinterpret_cast<void*>(1);  // never on line
  CpuTable<Env, Memory> table_;
  Else else_;
};

// The same heaps under CAS or a lock. `Else`: for when there is no memory for a heap.
template <class Env, class Memory, class Protect, class Else>
class CpuHeaps {
 public:
  using Block = Superblock<Env>;

  void init(Memory* memory, u32 hashed) {
    table_.init(memory);
    else_.init(hashed);
  }

  Popped<Env> pop(unsigned c) {
    LocalHeap<Env>* heap = table_.find(cpu_now());
    return heap != nullptr ? Protect::pop(*heap, c) : else_.pop(c);
  }
  bool push(unsigned c, Block* s, uptr block) {
    LocalHeap<Env>* heap = table_.find(cpu_now());
    return heap != nullptr ? Protect::push(*heap, c, s, block) : else_.push(c, s, block);
  }
  bool install(unsigned c, Block* expected, Block* fresh) {
    LocalHeap<Env>* heap = table_.find(cpu_now());
    return heap != nullptr ? Protect::install(*heap, c, expected, fresh) == expected
                           : else_.install(c, expected, fresh);
  }
  Block* online(unsigned c) {
    LocalHeap<Env>* heap = table_.find(cpu_now());
    return heap != nullptr ? heap->online[c].load_relaxed() : else_.online(c);
  }

  template <class F>
  void each(F&& f) {
    table_.each(f);
    else_.each(f);
  }

 private:
  CpuTable<Env, Memory> table_;
  Else else_;
};

// Hashed heaps only, with the same init().
template <class Env, class Memory, class Protect>
class ThreadHeaps : public HashedHeaps<Env, Protect> {
 public:
  void init(Memory*, u32 hashed) { HashedHeaps<Env, Protect>::init(hashed); }
};

}  // namespace freeway::lfmalloc
