// SPDX-License-Identifier: MIT
// audit.h: counts every frame and every block. Exact while nobody else is in a call; else a guess. Changes nothing.
//
// Accounted for is a block that is FREE and can be found (its bit is set; of an idle superblock the hint, too), LIVE,
// or CACHED by a seat that is alive, below its `top`; a frame that is FREE, of a superblock, of a large block, or
// claimed by a seat that is alive. The rest is lost. After everybody who is gone was recovered, lost() is 0, wherever
// they were killed.
#pragma once

#include "shared/recover.h"

namespace freeway::shared {

struct Audit {
  u64 free_frames = 0, small_frames = 0, large_frames = 0, claimed_frames = 0;
  u64 live_blocks = 0, live_bytes = 0;  // large blocks, too
  u64 cached_blocks = 0, cached_bytes = 0;
  u64 free_blocks = 0, free_bytes = 0;  // in superblocks
  u64 lost_frames = 0;                  // of nobody, or claimed or held by a seat that is not alive
  u64 lost_blocks = 0,
      lost_bytes = 0;   // CACHED by a seat that is not alive or does not name it, FREE and not to be found
  u64 unnoticed = 0;    // superblocks that are idle and all free, or hinted and not what the hint says
  u64 left_behind = 0;  // seats whose participant is gone, and nobody has cleaned up

  bool is_clean() const { return lost_frames + lost_blocks + unnoticed + left_behind == 0; }
};

template <class World> class Auditor {
 public:
  explicit Auditor(World& world) : world_(world), tables_(world.tables), frames_(world.frames()) {}

  Audit audit() {
    for (u32 seat = 1; seat <= tables_.seats; ++seat)
      found_.left_behind += Recovery(world_).is_left_behind(tables_.participant(seat).load_relaxed());
    for (u32 f = 0; f < frames_;) f += frame(f);
    for (u32 c = 1; c < World::Shape::kClasses; ++c)
      for (u32 f = 0; f < frames_; ++f)
        if (has_hint(c, f) && class_of(f) != c) ++found_.unnoticed;
    return found_;
  }

 private:
  u64 entry_of(u32 f) const { return tables_.entries[f].load_relaxed(); }
  u32 class_of(u32 f) const { return tables_.class_at(entry_of(f), f, frames_); }
  bool has_hint(u32 c, u32 f) const { return (tables_.hint(c, f).load_relaxed() >> (f % 64) & 1) != 0; }
  bool is_alive(u32 seat) const {
    if (!tables_.is_seat(seat)) return false;
    const u64 word = tables_.participant(seat).load_relaxed();
    return participant::kind(word) == participant::Kind::kAlive && !world_.gone(participant::token(word));
  }

  // Counts the run that begins at frame `f`; how many frames it has.
  u32 frame(u32 f) {
    const u64 entry = entry_of(f);
    u32 n = 1;
    switch (entry::kind(entry)) {
      case entry::Kind::kFree: ++found_.free_frames; return 1;
      case entry::Kind::kClaim:
        while (n < tables_.count_at(entry, f, frames_) && entry_of(f + n) == entry::tail(n)) ++n;
        (is_alive(entry::holder(entry)) ? found_.claimed_frames : found_.lost_frames) += n;
        return n;
      case entry::Kind::kLarge:
        n = tables_.count_at(entry, f, frames_);
        found_.large_frames += n;
        ++found_.live_blocks;
        found_.live_bytes += u64{n} << kFrameShift;
        break;
      case entry::Kind::kSmall:
        if (class_of(f) == 0) break;
        n = World::Shape::size_class(class_of(f)).span_frames;
        found_.small_frames += n;
        superblock(f, class_of(f), entry::holder(entry));
        break;
      default: n = 0;  // a tail without a head
    }
    if (n == 0) return ++found_.lost_frames, 1;
    for (u32 k = 1; k < n; ++k) found_.lost_frames += entry_of(f + k) != entry::tail(k);
    return n;
  }

  void superblock(u32 f, u32 c, u32 holder) {
    const SizeClass& k = World::Shape::size_class(c);
    if (holder != kNobody && !is_alive(holder)) ++found_.lost_frames;
    u32 free = 0;
    for (u32 i = 0; i < k.blocks; ++i) {
      const u8 state = tables_.state(f, i).load_relaxed();
      if (state == state::kLive) {
        ++found_.live_blocks;
        found_.live_bytes += k.size;
      } else if (state != state::kFree && is_alive(state) && names(state, c, tables_.offset_of(f, k, i)) == 1) {
        ++found_.cached_blocks;
        found_.cached_bytes += k.size;
      } else if (state == state::kFree && (tables_.word(f, i / 64).load_relaxed() >> (i % 64) & 1) != 0 &&
                 (holder != kNobody || has_hint(c, f))) {
        ++free;
      } else {
        ++found_.lost_blocks;
        found_.lost_bytes += k.size;
      }
    }
    found_.free_blocks += free;
    found_.free_bytes += u64{free} * k.size;
    if (free == k.blocks && holder == kNobody) ++found_.unnoticed;
  }

  // How many slots of the seat's magazine, below `top`, name the block.
  u32 names(u32 seat, u32 c, u64 offset) const {
    const auto& slab = tables_.slab(seat);
    const u32 top = slab.top[c].load_relaxed(), end = top < World::Shape::slots(c) ? top : World::Shape::slots(c);
    u32 count = 0;
    for (u32 i = 0; i < end; ++i) count += slab.slots[World::Shape::first_slot(c) + i].load_relaxed() == offset;
    return count;
  }

  World& world_;
  const typename World::Tables& tables_;
  u32 frames_;
  Audit found_;
};

}  // namespace freeway::shared
