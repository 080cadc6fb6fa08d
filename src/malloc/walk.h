// SPDX-License-Identifier: MIT
// walk.h: the walk (look/walk.h) of this process's own heap: in place, while other threads go on.
//
// Orders    [A1] every word is acquired, since nothing else orders what the walk finds through it: a segment is
//           published after it was reserved, its units before the cursor passes them (pages/metadata.h), an arena and a
//           slab before their addresses
#pragma once

#include "arch/atomic.h"
#include "base/compiler.h"
#include "look/account.h"
#include "malloc/heap.h"

namespace freeway {

class OwnMemory {
 public:
  class View {
   public:
    explicit View(u64 address) : address_(address) {}
    u64 address() const { return address_; }
    FREEWAY_INLINE u64 word(u64 offset, u32 bytes) const {
      return !__builtin_constant_p(bytes) ? any_word(offset, bytes)
             : bytes == 8                 ? load<u64>(offset)
                                          : load<u32>(offset);
    }

   private:
    template <class T> u64 load(u64 offset) const {
      return reinterpret_cast<const Atomic<T>*>(address_ + offset)
          ->load_acquire();  // [A1] pairs with pages/metadata.h:[R2]
    }
    u64 any_word(u64 offset, u32 bytes) const;
    u64 address_;
  };

  constexpr explicit OwnMemory(const freeway_debug_t& layout) : layout_(layout) {}
  const freeway_debug_t& layout() const { return layout_; }
  static const SizeClass& size_class(unsigned c) { return kSizeClasses[c]; }
  static View view(u64 address, u64) { return View(address); }
  static void expect(bool, const char*) {}

 private:
  const freeway_debug_t& layout_;
};

extern template class look::Walk<OwnMemory>;
using OwnWalk = look::Walk<OwnMemory>;

extern FREEWAY_HIDDEN constinit const OwnMemory own_memory;  // describe.cc
inline OwnWalk own_walk() { return OwnWalk(own_memory); }
// Calls f(class, account) for each size class that is, or was, in use.
void each_account(FunctionRef<void(unsigned c, const look::ClassAccount& account)> f);

// Whether block `index` of the superblock, which begins at `block`, is live; `what`: why it is free (explain.cc).
freeway_state_t state_of(Heap& heap, unsigned c, u32 descriptor, u32 index, uptr block, const char*& what);
// Adds to the audit what small blocks have; whether the descriptor's superblock has the address (audit.cc).
void audit_small(Heap& heap, freeway_audit_t& audit);
bool owns(Heap& heap, u32 descriptor, uptr address);

// What each size class in use has and did: a table, or members of a JSON array.
void write_classes(int fd);
void write_classes_json(int fd);

}  // namespace freeway
