// SPDX-License-Identifier: MIT
// cpu_table.h: which local heap each CPU has.
//
// Word      slot(cpu): null -> heap (CAS), for ever; made by the first thread there, of metadata
// Who       any thread, any signal handler
// Orders    [R1] publishes the heap, which is all zero; [A1] sees it, also who came second (in sections the address
//           itself leads to it)
// Progress  wait-free      Lost if killed: the memory of a heap that another thread published first: 576 bytes
// Checked   papers/lfmalloc/tests/cpu_table_model.cc
#pragma once

#include "base/compiler.h"
#include "papers/lfmalloc/local_heap.h"

namespace freeway::lfmalloc {

// Memory has the slots, slot(cpu) -> Env::Atomic<LocalHeap<Env>*>&, and makes heaps: make_heap() -> a zeroed one, null
// without memory.
template <class Env, class Memory> class CpuTable {
 public:
  void init(Memory* memory) { memory_ = memory; }

  // Null: there is no such CPU, or no memory.
  LocalHeap<Env>* find(u32 cpu) {
    if (cpu >= Memory::kCpus) return nullptr;
    LocalHeap<Env>* heap = memory_->slot(cpu).load_acquire();  // [A1] pairs with [R1]
    return heap != nullptr ? heap : make(cpu);
  }
  template <class F> void each(F&& f) {
    for (u32 cpu = 0; cpu < Memory::kCpus; ++cpu)
      if (LocalHeap<Env>* heap = memory_->slot(cpu).load_acquire()) f(*heap);  // [A1] pairs with [R1]
  }

 private:
  FREEWAY_NOINLINE LocalHeap<Env>* make(u32 cpu) {
    LocalHeap<Env>* heap = memory_->make_heap();
    if (heap == nullptr) return nullptr;
    LocalHeap<Env>* seen = nullptr;
    Env::step("lfmalloc.heap");
    return memory_->slot(cpu).cas_acq_rel_acquire(seen, heap) ? heap : seen;  // [R1] [A1] pairs with [A1] [R1]
  }

  Memory* memory_ = nullptr;
};

}  // namespace freeway::lfmalloc
