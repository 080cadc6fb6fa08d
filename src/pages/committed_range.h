// SPDX-License-Identifier: MIT
// CommittedRange: reserved address space that is made accessible from its start upwards.
//
// Word      watermark: bytes from the start that are accessible; only grows
// Moves     ensure: w -> w' > w (CAS), after commit(w .. w') succeeded
// Who       any thread, any signal handler
// Helping   commit is idempotent, so everybody who needs more commits it himself and then moves the watermark: a thread
//           that stops between the two leaves accessible memory above the watermark, which the next one commits again
// Orders    [R1] the watermark moves after the memory is accessible; [A1], [A2] who sees it may touch that memory
// Steps     grow with the size (128 KiB … 64 MiB): a small process stays small, also under mlockall(MCL_FUTURE), which
//           makes committing touch every page
// Progress  lock-free       Lost if killed: nothing
// Checked   tests/model/pages_range_model.cc, tests/unit/committed_range_test.cc
#pragma once

#include "base/integers.h"

namespace freeway {

// Makes [base, base + end) accessible, in steps of at least `first_step` bytes, within a reservation of `bytes`;
// `watermark` says how much already is. False if the kernel refuses.
template <class Env, class Word>
bool commit_up_to(Word& watermark, uptr base, std::size_t bytes, std::size_t end, std::size_t first_step) {
  constexpr std::size_t kLastStep = 64 * kMiB;
  std::size_t now = watermark.load_acquire();  // [A1] pairs with [R1]
  while (now < end) {
    std::size_t step = clamp(now / 4, first_step, kLastStep);
    std::size_t target = clamp(align_up(now + step > end ? now + step : end, first_step), end, bytes);
    if (Env::mutant("watermark first") && watermark.cas_release(now, target))  // [R1] pairs with [A1]
      return Env::commit(base + now, target - now);
    if (!Env::commit(base + now, target - now)) {
      target = clamp(align_up(end, 64 * kKiB), end, bytes);  // what is needed, if not what would be good
      if (!Env::commit(base + now, target - now)) return false;
    }
    Env::step("range.committed");
    if (Env::mutant("watermark stored")) return watermark.store_release(target), true;  // [R1] pairs with [A1]
    // Who fails needs no order: all up to `end` he has made accessible himself.
    if (watermark.cas_release(now, target)) return true;  // [R1] pairs with [A1]
  }
  return true;
}

template <class Env>
class CommittedRange {
 public:
  // Once, before anyone else sees the range. `base` and `bytes` are multiples of the page size.
  void init(uptr base, std::size_t bytes) {
    base_ = base;
    bytes_ = bytes;
  }

  uptr base() const { return base_; }
  std::size_t bytes() const { return bytes_; }
  bool contains(uptr address) const { return address - base_ < bytes_; }
  std::size_t committed() const { return watermark_.load_relaxed(); }

  // Makes [base, base + end) accessible; false if the kernel refuses.
  bool ensure(std::size_t end) {
    if (watermark_.load_acquire() >= end) return true;  // [A2] pairs with [R1]
    return commit_up_to<Env>(watermark_, base_, bytes_, end, 128 * kKiB);
  }

 private:
  uptr base_ = 0;
  std::size_t bytes_ = 0;
  typename Env::template Atomic<std::size_t> watermark_;
};

}  // namespace freeway
