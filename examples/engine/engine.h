// SPDX-License-Identifier: MIT
// Engine: the smallest that there can be: each small block has a frame of 64 KiB for itself.
//
// Word      substrate_: 0 -> the substrate, stored by whoever starts it; the same pointer each time
// Progress  lock-free: all work is the substrate's     Lost if killed: the frame in hand
// Checked   packaging/checkout/try
#pragma once

#include "papers/front/front.h"

namespace freeway::yours {

class Engine {
 public:
  static constexpr const char* kName = "yours";
  static constexpr std::size_t kMaxSmall = kFrameSize;
  static constexpr std::size_t kLargePrefix = 0;
  static constexpr u64 large_prefix(std::size_t) { return 0; }
  static constexpr std::size_t kHugeFrom = 4096;

  bool start(Substrate& substrate) {
    substrate_.store_release(&substrate);  // [R1] pairs with [A1]
    return true;
  }
  void* allocate(std::size_t) { return reinterpret_cast<void*>(substrate().take_span(1, 1, kValue)); }
  void* allocate_aligned(std::size_t bytes, std::size_t alignment) {
    return alignment <= kFrameSize ? allocate(bytes) : nullptr;
  }
  Verdict free(uptr address, u32 value) {
    if (!begins_block(address, value)) return Verdict::kInterior;
    substrate().give_span(address, 1);
    return Verdict::kOk;
  }
  std::size_t usable(uptr address, u32 value) { return begins_block(address, value) ? kFrameSize : 0; }
  bool begins_block(uptr address, u32) { return address % kFrameSize == 0; }
  void trim() {}
  void account(Account&) {}
  bool owns(u32 value, uptr) { return value == kValue; }

 private:
  // What the page map keeps for each frame of ours: where an engine with superblocks has their descriptors.
  static constexpr u32 kValue = 1;

  Substrate& substrate() { return *substrate_.load_acquire(); }  // [A1]
  Machine::Atomic<Substrate*> substrate_;
};

}  // namespace freeway::yours

namespace freeway {
using SelectedEngine = yours::Engine;
extern FREEWAY_HIDDEN constinit Front<SelectedEngine> process_heap;
}  // namespace freeway
