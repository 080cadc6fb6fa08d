// SPDX-License-Identifier: MIT
// GuardedEnds: FREEWAY_GUARD=N,large: the last page of a large block, made inaccessible while the block is live.
//
// The page lies inside the block's own frames: it belongs to the block's owner, moves with the block, and needs no
// account of its own. A block whose entry says "guarded" is one page shorter for the program, whether the kernel made
// the page inaccessible or refused (mapping limit): opening an open page changes nothing.
//
// Words     bytes: a page, or 0: no block gets a guard any more, set once. count: live blocks with a guard; it only
//           keeps them below kMost: each takes two of the mappings that the kernel allows the whole process (65530)
// Duties    close, open: the thread that has the block in hand, which then has no entry. So no entry of another
//           thread's lies on a page that is being closed, and no frame is given back, moved or cut before its page is
//           open again
// Refused   open: under a limit of data (RLIMIT_DATA counts an open page, a closed one not), or by a filter; never for
//           want of a mapping, since opening the page makes its neighbours one again
// Contents  stay; nothing reads or writes them
// Merging   the kernel joins neighbours only if their memory has one history. That begins with the first write, so the
//           write comes before the page is closed (else mappings would be used up for ever, one a frame)
// Lost if killed: nothing beside the block in hand; the count is one too high
// Checked   tests/pages/large_guarded_test.cc, tests/harden/guard/large_test.cc
#pragma once

#include "pages/page_map.h"

namespace freeway {

template <class Env> class GuardedEnds {
 public:
  static constexpr std::size_t kMost = 8192;

  // From now on blocks get a guard of `bytes` bytes: the kernel's page size.
  void start(std::size_t bytes) { bytes_.store_relaxed(bytes); }
  FREEWAY_INLINE std::size_t bytes() const { return bytes_.load_relaxed(); }
  std::size_t count() const { return count_.load_relaxed(); }

  // Whether the next block gets one; counts it.
  bool admit() {
    if (bytes() == 0) return false;
    if (count_.fetch_add_relaxed(1) < kMost) return true;
    count_.fetch_sub_relaxed(1);
    return false;
  }
  // A block is gone.
  void dismiss(FrameInfo info) {
    if (info.is_guarded()) count_.fetch_sub_relaxed(1);
  }

  // Bytes of the block that the program may use.
  std::size_t usable(FrameInfo info) const { return info.frames() * kFrameSize - (info.is_guarded() ? bytes() : 0); }

  // Closes the block's last page, if the kernel allows it. `fresh`: the block was not written to yet.
  void close(uptr address, FrameInfo info, bool fresh = false) {
    if (!info.is_guarded()) return;
    if (fresh) Env::touch(address);
    Env::step("ends.closing");
    Env::forbid(page_of(address, info), bytes());
    Env::step("ends.closed");
  }
  // Opens it again. False: refused, and it is as it was.
  bool open(uptr address, FrameInfo info) {
    if (!info.is_guarded()) return true;
    Env::step("ends.opening");
    if (!Env::commit(page_of(address, info), bytes())) return false;
    Env::step("ends.opened");
    return true;
  }

 private:
  uptr page_of(uptr address, FrameInfo info) const { return address + info.frames() * kFrameSize - bytes(); }

  typename Env::template Atomic<std::size_t> bytes_, count_;
};

}  // namespace freeway
