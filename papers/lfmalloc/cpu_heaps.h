// SPDX-License-Identifier: MIT
// cpu_heaps.h: the local heaps: one for each CPU (section 3.2.2 (2), (3)) under restartable sections (the paper's, the
// default), or what form.h says in their place (Table 3, rows 2 and 3, and ours).
//
// Word      cpu_table.h
// Who       any thread, any signal handler (with locks: no handler). A thread that is not registered for rseq (none
//           here, or the child of a vfork) has no CPU of its own that the kernel would tell it when to leave: it is at
//           home in the hashed heaps, under CAS
#pragma once

#include "os/process.h"
#include "os/syscall.h"
#include "papers/lfmalloc/cpu_table.h"
#include "papers/lfmalloc/form.h"
#include "papers/lfmalloc/hashed_heaps.h"
#include "papers/lfmalloc/protection.h"
#include "papers/lfmalloc/sections.h"

namespace freeway::lfmalloc {

// The CPU that the thread is on at this moment; by the time this is used it may be on another one.
u32 cpu_now();

template <class Env, class Memory> class LocalHeaps {
 public:
  using Block = Superblock<Env>;
  using Protect = Protection<Env>;

  // Again with the same does no harm. `hashed`: how many hashed heaps.
  void init(Memory* memory, u32 hashed) {
    table_.init(memory);
    hashed_.init(hashed);
  }

  FREEWAY_INLINE Popped<Env> pop(unsigned c) {
    if (FREEWAY_UNLIKELY(!form.sections)) return pop_protected(c);
    const SectionAnswer got = freeway_lfmalloc_pop(c);
    if (FREEWAY_LIKELY(got.first < kNoHeap)) return {got.first, reinterpret_cast<Block*>(got.second)};
    return pop_elsewhere(c, got.first);
  }
  FREEWAY_INLINE bool push(unsigned c, Block* s, uptr block) {
    if (FREEWAY_UNLIKELY(!form.sections)) return push_protected(c, s, block);
    const u64 done = freeway_lfmalloc_push(c, s, block);
    if (FREEWAY_LIKELY(done == 1)) return true;
    return done == kNotRegistered && push_protected(c, s, block);
  }
  bool install(unsigned c, Block* expected, Block* fresh) {
    if (form.sections) {
      const uptr was = freeway_lfmalloc_install(c, expected, fresh);
      if (was < kNoHeap) return was == reinterpret_cast<uptr>(expected);
    }
    return Protect::install(mine(), c, expected, fresh) == expected;
  }
  Block* online(unsigned c) {
    if (form.sections) {
      const uptr seen = freeway_lfmalloc_install(c, kNothing, nullptr);
      if (seen < kNoHeap) return reinterpret_cast<Block*>(seen);
    }
    return mine().online[c].load_relaxed();
  }

  template <class F> void each(F&& f) {
    table_.each(f);
    hashed_.each(f);
  }

 private:
  // The caller's heap where no section protects it. A CPU's has to be made first: without memory a hashed one will do.
  LocalHeap<Env>& mine() {
    if (form.per_cpu)
      if (LocalHeap<Env>* heap = table_.find(cpu_now())) return *heap;
    return hashed_.mine();
  }
  FREEWAY_NOINLINE Popped<Env> pop_protected(unsigned c) { return Protect::pop(mine(), c); }
  FREEWAY_NOINLINE bool push_protected(unsigned c, Block* s, uptr block) { return Protect::push(mine(), c, s, block); }

  // The CPU has no heap yet, or the thread no CPU.
  FREEWAY_NOINLINE Popped<Env> pop_elsewhere(unsigned c, uptr why) {
    while (why == kNoHeap && table_.find(cpu_now()) != nullptr) {
      const SectionAnswer got = freeway_lfmalloc_pop(c);
      if (got.first < kNoHeap) return {got.first, reinterpret_cast<Block*>(got.second)};
      why = got.first;
    }
    return pop_protected(c);
  }

  static inline void* const kNothing = reinterpret_cast<void*>(1);  // never on line
  CpuTable<Env, Memory> table_;
  HashedHeaps<Env> hashed_;
};

}  // namespace freeway::lfmalloc
