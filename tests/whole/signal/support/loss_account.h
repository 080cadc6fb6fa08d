// SPDX-License-Identifier: MIT
//
// What calls that never came back took with them, and whether that is no more than promised (GUARANTEES.md).
#ifndef FREEWAY_TESTS_SIGNAL_SUPPORT_LOSS_ACCOUNT_H
#define FREEWAY_TESTS_SIGNAL_SUPPORT_LOSS_ACCOUNT_H

#include <atomic>

#include "tests/support/engine_under_test.h"
#include "tests/whole/signal/support/case_runner.h"
#include "tests/whole/signal/support/heap_account.h"
#include "tests/whole/signal/support/shared_memory.h"

namespace freeway_test {

// What one call that never comes back holds of free blocks (GUARANTEES.md, "What a vanished thread takes with it"): a
// slab, that is 6 MiB of cached blocks and a superblock of each class, and a superblock of its own.
constexpr size_t kMostOfSlab = size_t{19} << 20;
constexpr size_t kMostHeld = kMostOfSlab + kLargestSuperblock;

// Every call came back: everything can be found.
inline void require_nothing_lost(const freeway_audit_t& a) {
  require(a.frames_stranded == 0 && a.frames_held == 0, "frames are lost, but every call came back", a.frames_stranded,
          a.frames_held);
  require(superblocks_lost(a) == 0 && a.superblocks_adrift == 0, "superblocks are lost, but every call came back",
          superblocks_lost(a), a.superblocks_adrift);
  require(a.slabs_held == 0 && a.bytes_held == 0, "slabs or blocks are lost, but every call came back", a.slabs_held,
          a.bytes_held);
  require(a.descriptors == a.superblocks + a.descriptors_free, "descriptors are lost, but every call came back",
          a.descriptors, a.superblocks + a.descriptors_free);
}

// Call by call, exactly: the superblocks (one, but for freeway_reserve) and the frames of the block or span that was in
// hand. The counts are in memory that children of a test share.
class LossOfEach {
 public:
  void start() {
    counts_ = share<Counts>();
    before_ = require_clean_audit("audit before the first call vanished");
  }

  // After one call vanished that had `in_hand` bytes of blocks and at most so many superblocks in hand.
  void check(size_t in_hand, size_t superblocks) {
    const freeway_audit_t after = require_clean_audit("audit after a call vanished");
    require(superblocks_lost(after) <= superblocks_lost(before_) + superblocks,
            "one call took more superblocks with it than it may", superblocks_lost(after), superblocks_lost(before_));
    require(after.frames_stranded * kFrameBytes <= before_.frames_stranded * kFrameBytes + in_hand + kLargestSpan,
            "one call took more frames with it than it had in hand", after.frames_stranded - before_.frames_stranded,
            in_hand);
    require(after.bytes_held <= before_.bytes_held + kMostHeld, "one call took more free blocks with it than promised",
            after.bytes_held - before_.bytes_held);
    counts_->calls.fetch_add(1);
    counts_->superblocks.fetch_add(superblocks_lost(after) - superblocks_lost(before_));
    counts_->frames.fetch_add(after.frames_stranded - before_.frames_stranded);
    before_ = after;
  }

  void write(const char* what_vanished) const {
    Line()
        .count(counts_->calls, what_vanished)
        .count(counts_->superblocks, "superblocks lost")
        .count(counts_->frames, "frames stranded")
        .write_to(1);
  }

 private:
  struct Counts {
    std::atomic<uint64_t> calls{0}, superblocks{0}, frames{0};
  };
  Counts* counts_ = nullptr;
  freeway_audit_t before_ = {};
};

// Of many calls at random moments, together.
class LossOfMany {
 public:
  // Before the first; the heap holds nothing of the program's.
  void start() {
    trim_heap();
    resident_ = resident_bytes();
    stranded_ = require_clean_audit("audit before the first call vanished").frames_stranded;
  }

  // After `calls` vanished, with `dropped` bytes of blocks in hand, each with at most `span` bytes of frames and a
  // superblock of `superblock` bytes; the heap holds nothing of the program's but what was dropped.
  void check(uint64_t calls, size_t dropped, size_t span, size_t superblock) const {
    if (freeway::test::on_engine("streamflow")) audit_errors_tolerated = calls;
    const freeway_audit_t audit = require_clean_audit("audit after calls vanished");
    trim_heap();
    const size_t resident_now = resident_bytes();
    const size_t growth = resident_now > resident_ ? resident_now - resident_ : 0;
    const size_t stranded = (audit.frames_stranded - stranded_) * kFrameBytes;
    Line()
        .count(dropped >> 10, "KiB of the program's own blocks dropped")
        .count(growth >> 10, "KiB more resident")
        .count(stranded >> 10, "KiB of stranded frames")
        .count(superblocks_lost(audit), "superblocks lost")
        .count(audit.slabs_held, "slabs lost")
        .count(audit.bytes_held >> 10, "KiB of free blocks that nobody can find")
        .write_to(1);
    require(audit.bytes_held <= audit.slabs_held * kMostOfSlab + calls * superblock,
            "more free blocks lost than calls can lose", audit.bytes_held, calls);
    require(superblocks_lost(audit) <= calls, "more superblocks lost than calls", superblocks_lost(audit), calls);
    require(stranded <= dropped + calls * span, "more frames stranded than calls can lose", stranded, calls);
    // Slabs of magazines are a matter of the few slabs there are, not of the number of calls.
    constexpr size_t kSlabs = size_t{128} << 20;
    require(growth <= kSlabs + dropped + calls * superblock, "more memory lost than calls had in hand", growth, calls);
  }

 private:
  size_t resident_ = 0;
  size_t stranded_ = 0;
};

}  // namespace freeway_test
#endif
