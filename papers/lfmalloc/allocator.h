// SPDX-License-Identifier: MIT
// Allocator: malloc and free as the paper's pseudo-code has them (section 3.2.3), over local heaps and the global heap.
//
// Line numbers in brackets are the pseudo-code's. Large blocks (malloc [1]-[2], free [1]-[2]) are dealt with before.
// Heaps is the local heaps and what protects them; each of its calls works on the heap that is the caller's at that
// moment, so between two calls it may be another one:
//   pop(c) -> Popped     push(c, s, block) -> bool: false if the block is not local     install(c, expected, fresh) ->
//                        bool
//   online(c) -> the superblock on line, null = none
// Who       any thread, any signal handler (with locks: no handler)
// Progress  lock-free with lock-free parts: a retry follows on another thread's success
// Lost if killed: the superblock being brought on line, and the one being taken off line
// Checked   papers/lfmalloc/tests/superblock_model.cc
#pragma once

#include "papers/lfmalloc/global_heap.h"
#include "papers/lfmalloc/local_heap.h"

namespace freeway::lfmalloc {

template <class Env, class Heaps, class Global> class Allocator {
 public:
  using Block = Superblock<Env>;

  void init(Heaps* heaps, Global* global) {
    heaps_ = heaps;
    global_ = global;
  }

  // A block of class `c`; 0: no memory.
  FREEWAY_INLINE uptr malloc(unsigned c) {
    const Popped<Env> popped = heaps_->pop(c);                   // [5]-[9]
    if (FREEWAY_LIKELY(popped.block != 0)) return popped.block;  // [10] fast path
    return malloc_slow(c, popped.seen);
  }

  // `block` is the caller's, of superblock `s` of class `c`, whose header is `d`.
  FREEWAY_INLINE void free(Block* s, u32 d, unsigned c, uptr block) {
    if (FREEWAY_LIKELY(heaps_->push(c, s, block))) return;  // [4]-[8] fast path
    global_->free_remotely(d, block);                       // [9]-[18]
  }

  // Takes what is on line here off line, and gives entirely free superblocks back. Bytes.
  std::size_t trim() {
    for (unsigned c = 0; c < Global::classes(); ++c) {
      Block* s = heaps_->online(c);
      if (s != nullptr && heaps_->install(c, s, nullptr)) global_->put(s->index.load_relaxed());
    }
    return global_->trim(0);
  }

 private:
  FREEWAY_NOINLINE uptr malloc_slow(unsigned c, Block* seen) {
    while (replace(c, seen)) {                    // [11]-[30]
      const Popped<Env> popped = heaps_->pop(c);  // [31] Retry
      if (popped.block != 0) return popped.block;
      seen = popped.seen;
    }
    return 0;
  }

  // [11]-[30] the superblock `s` is empty: replace it. False: no memory.
  bool replace(unsigned c, Block* s) {
    const u32 d = global_->take(c);  // [12]-[22]
    if (d == 0) return false;
    Env::step("lfmalloc.taken");
    if (!heaps_->install(c, s, global_->superblock(d))) {  // [24]-[25] R goes on line, S goes off line
      global_->put(d);                                     // [26]-[27]
    } else if (s != nullptr) {
      Env::step("lfmalloc.replaced");
      global_->put(s->index.load_relaxed());  // [28]-[30]
    }
    return true;
  }

  Heaps* heaps_ = nullptr;
  Global* global_ = nullptr;
};

}  // namespace freeway::lfmalloc
