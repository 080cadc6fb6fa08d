// SPDX-License-Identifier: MIT
// Metadata: type-stable memory for descriptors and the like, named by index.
//
// Units     64 bytes (a cache line); an index names a unit; index 0 names nothing
// Word      cursor: the next unit that was never handed out; only grows
// Moves     take: cursor += n (CAS), within one segment
// Segments  64 MiB of indexes each; a place for a segment is chosen when its first unit is needed, a smaller one where
//           the process may not have so much, and is never given back. The rest of a segment stays unused if a piece is
//           longer, or if another's mapping is in its way
// Who       any thread, any signal handler
// Orders    [R1] a segment is published after it was reserved; [A1] a thread that takes from it sees that
//           [R2] the cursor moves after the units below it are accessible; [A3] a reader that finds it there may touch
//           them
// Progress  lock-free       Lost if killed: the units in hand, and the address space of an unpublished segment; between
//           mapping a piece of a segment and publishing it: that segment's rest
// Checked   tests/pages/metadata_model.cc, tests/pages/metadata_test.cc
#pragma once

#include "pages/committed_range.h"
#include "pages/limits.h"

namespace freeway {

template <class Env> class Metadata {
 public:
  static constexpr std::size_t kUnit = 64;
  static constexpr unsigned kSegmentShift = 20;  // units a segment
  static constexpr unsigned kSegments = 64;
  static constexpr std::size_t kSegmentBytes = kUnit << kSegmentShift;
  static constexpr std::size_t kMinSegmentBytes = kMiB;

  // `segment_bytes`: address space of a segment, a power of two from kMinSegmentBytes to kSegmentBytes.
  // `limits`: charged for the handed-out memory, if not null.
  void init(std::size_t segment_bytes, Limits<Env>* limits = nullptr) {
    wanted_.store_relaxed(segment_bytes);
    limits_ = limits;
  }

  // Chooses the first segment's place now. Without it, or if that is refused, take() does it.
  void begin() { placed(segments_[0]); }

  // The index of `units` consecutive zeroed units, 0 if there is no memory, or no segment so long.
  FREEWAY_NOINLINE u32 take(u32 units) {
    u32 seen = cursor_.load_relaxed();
    for (;;) {
      u32 index = seen == 0 ? 1 : seen;
      u32 number = index >> kSegmentShift;
      if (number >= kSegments) return 0;
      Segment& segment = segments_[number];
      uptr packed = placed(segment);
      if (packed == 0) return 0;
      std::size_t end = ((index & kUnitMask) + units) * kUnit;
      u32 next = index + units;
      const bool fits = end <= size_of(packed);
      if (!fits && (index & kUnitMask) <= 1) return 0;  // not even a whole segment would do: do not use them all up
      u64 unused;
      const Growth grown =
          fits ? segment.extent.grow(space_of(packed), size_of(packed), end, kStep, unused) : Growth::kEnded;
      if (grown == Growth::kRefused) return 0;
      if (grown == Growth::kEnded) {
        next = (number + 1) << kSegmentShift;  // the rest of this segment stays unused
        if (cursor_.cas_relaxed(seen, next)) seen = next;
        continue;
      }
      Env::step("metadata.committed");
      const u32 more = static_cast<u32>(ceil_div(end, kFrameSize)) - frames_below(seen);
      if (!charge(more)) return 0;
      if (cursor_.cas_release(seen, next)) return index;  // [R2] pairs with [A3]
      uncharge(more);
    }
  }

  // Makes the next `units` units accessible, or the rest of this segment, and gives them their memory; false: refused.
  bool provide(u32 units) {
    const u32 index = cursor_.load_relaxed();
    Segment& segment = segments_[index >> kSegmentShift];
    const uptr packed = placed(segment);
    if (packed == 0) return false;
    const std::size_t from = (index & kUnitMask) * kUnit;
    const std::size_t end = clamp(from + std::size_t{units} * kUnit, 0, size_of(packed));
    u64 unused;
    if (segment.extent.grow(space_of(packed), size_of(packed), end, kStep, unused) != Growth::kDone) return false;
    const uptr begin = align_down(base_of(packed) + from, kFrameSize);
    return Env::populate(begin, align_up(base_of(packed) + end, kFrameSize) - begin);
  }

  void* at(u32 index) const {
    uptr packed = segments_[index >> kSegmentShift].packed.load_relaxed();
    return reinterpret_cast<void*>(base_of(packed) + (index & kUnitMask) * kUnit);
  }

  // The index behind all units that take() returned or is about to return (then they are still zero), 0 = none yet. All
  // from 1 on may be read, but for the unused rests of segments.
  FREEWAY_INLINE u32 end() const { return cursor_.load_acquire(); }  // [A3] pairs with [R2]

  // Whether the address lies in memory that was made accessible for units.
  bool contains(uptr address) const {
    for (const Segment& segment : segments_) {
      const uptr packed = segment.packed.load_acquire();  // [A1] pairs with [R1]
      if (packed != 0 && address - base_of(packed) < segment.extent.end()) return true;
    }
    return false;
  }

  // Frames that are charged: those with handed-out units.
  FREEWAY_INLINE std::size_t charged() const { return charged_.load_relaxed(); }

  std::size_t committed() const {
    std::size_t bytes = 0;
    for (u32 number = 0; number < kSegments; ++number) bytes += accessible(number);
    return bytes;
  }
  // Of a segment, from its begin on.
  std::size_t accessible(u32 number) const { return segments_[number].extent.end(); }

 private:
  static constexpr u32 kUnitMask = (u32{1} << kSegmentShift) - 1;
  static constexpr std::size_t kAlignment = 64 * kKiB;
  static constexpr std::size_t kStep = 64 * kKiB;
  static constexpr uptr kReserved = 64;

  // Frames of a segment that hold units below this index.
  static constexpr u32 frames_below(u32 index) {
    return static_cast<u32>(ceil_div((index & kUnitMask) * kUnit, kFrameSize));
  }
  bool charge(u32 frames) {
    if (frames == 0 || limits_ == nullptr) return true;
    return limits_->charge_table(frames) && (charged_.fetch_add_relaxed(frames), true);
  }
  void uncharge(u32 frames) {
    if (frames == 0 || limits_ == nullptr) return;
    charged_.fetch_sub_relaxed(frames);
    limits_->uncharge(frames);
  }

  struct Segment {
    // Address (a multiple of 64 KiB) | whether it is reserved : 1 | logarithm of its size in bytes : 6; 0 = none yet.
    typename Env::template Atomic<uptr> packed;
    Extent<Env, 0> extent;
  };
  static constexpr uptr base_of(uptr packed) { return align_down(packed, kAlignment); }
  static constexpr Space space_of(uptr packed) { return {base_of(packed), (packed & kReserved) != 0}; }
  static constexpr std::size_t size_of(uptr packed) { return std::size_t{1} << (packed % kReserved); }

  // The segment's place, chosen by the first thread that needs it; 0 if address space is refused.
  uptr placed(Segment& segment) {
    uptr packed = segment.packed.load_acquire();  // [A1] pairs with [R1]
    for (std::size_t bytes = wanted_.load_relaxed(); packed == 0 && bytes >= kMinSegmentBytes; bytes /= 2) {
      const Space space = Env::space(bytes, kAlignment);
      if (!space) continue;
      uptr fresh = space.base | (space.reserved ? kReserved : 0) | log2_floor(bytes);
      Env::step("metadata.segment");
      if (segment.packed.cas_release(packed, fresh)) return fresh;  // [R1] pairs with [A1] [A2]
      if (space.reserved) Env::release(space.base, bytes);
      packed = segment.packed.load_acquire();  // [A2] pairs with [R1]
    }
    return packed;
  }

  typename Env::template Atomic<std::size_t> wanted_;  // bytes of address space a segment
  typename Env::template Atomic<u32> cursor_;
  typename Env::template Atomic<std::size_t> charged_;
  Limits<Env>* limits_ = nullptr;
  Segment segments_[kSegments];
};

}  // namespace freeway
