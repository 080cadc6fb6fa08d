// SPDX-License-Identifier: MIT
// Engine: Michael's allocator as a malloc: which heap a thread uses, its options, and the first call.
//
// Word      allocator_: the allocator (sync/once.h), filled in before; whoever comes too late leaves his unused. Its
//           memory, 64 bytes × classes × heaps, is then lost: once for each thread that was in its first call at the
//           same moment
// Thread    a thread's number, given at its first malloc, chooses its heaps; nothing else is the thread's own. A
//           handler that interrupts the giving gives another; a forked child goes on with its own
// Progress  lock-free, the first call too     Lost if killed: see proc_heap.h; nothing that another would wait for
// Checked   papers/michael/tests, tests/abi, tests/whole/differential, tests/whole/stress, tests/whole/signal,
//           tests/whole/stall
#pragma once

#include "os/machine.h"
#include "papers/front/front.h"
#include "papers/michael/allocator.h"
#include "sync/once.h"

namespace freeway::michael {

static_assert(sizeof(Descriptor<Machine>) == 64 && sizeof(ProcHeap<Machine>) == 64);

// Memory from the substrate.
class Os {
 public:
  void init(Substrate* substrate) { substrate_ = substrate; }
  u32 units(u32 n) { return substrate_->metadata().take(n); }
  void* at(u32 index) const { return substrate_->metadata().at(index); }
  uptr take_span(u32 value) { return substrate_->take_span(kFrames, kFrames, value); }
  void give_span(uptr address) { substrate_->give_span(address, kFrames); }

 private:
  static constexpr std::size_t kFrames = kHyperblockBytes / kFrameSize;
  Substrate* substrate_ = nullptr;
};

class Engine {
 public:
  static constexpr const char* kName = "michael";
  static constexpr std::size_t kMaxSmall = kMaxSmallBytes;
  static constexpr std::size_t kLargePrefix = 16;
  static constexpr u64 large_prefix(std::size_t bytes) { return bytes + 1; }  // Fig. 6, line 5: "desc holds sz+1"
  static constexpr std::size_t kHugeFrom = 1;  // "allocated directly from the OS and freed directly to the OS"

  bool start(Substrate& substrate);
  void* allocate(std::size_t bytes);
  void* allocate_aligned(std::size_t bytes, std::size_t alignment);
  Verdict free(uptr address, u32 value) { return allocator().free(address, value) ? Verdict::kOk : Verdict::kInterior; }
  std::size_t usable(uptr address, u32 value) { return allocator().usable(address, value); }
  bool begins_block(uptr address, u32 value) { return allocator().begins_block(address, value); }
  void trim() { allocator().trim(); }
  void account(Account& account);
  bool owns(u32 value, uptr address) { return allocator().owns(address, value); }

 private:
  using Michael = Allocator<Machine, Os>;

  u64 make_allocator(Substrate& substrate);
  Michael& allocator() const { return *reinterpret_cast<Michael*>(allocator_.peek()); }

  Os os_;
  Once<Machine> allocator_;
  Atomic<u32> threads_;  // numbers given
};

}  // namespace freeway::michael

namespace freeway {
using SelectedEngine = michael::Engine;
extern FREEWAY_HIDDEN constinit Front<SelectedEngine> process_heap;
}  // namespace freeway
