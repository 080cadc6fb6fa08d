// SPDX-License-Identifier: MIT
// Tables: where the words of a heap that processes share lie (words.h says what they mean), and which word is a
// block's.
//
// Everything is found by its offset in the file: no address is stored, so each process may map the file elsewhere.
// Tables itself is a process's own; it points to where that process has them. A block's name is its offset in the file,
// never 0.
//
//   entries[f]                the frame's entry
//   bits[f * kWords + w]      bit i of word w = 1: block w * 64 + i of the superblock that begins at frame f may be
//                             free
//   states[f * kBlocks + i]   the state of block i of the superblock that begins at frame f
//   backing[f]                what of the frame has memory
//   hints[c * words + w]      bit i = 1: at frame w * 64 + i begins a superblock of class c that may have free blocks
//   participants[P - 1]       the seat's word
//   seats[P - 1]              what is the seat's own: a SeatSlab
//
// Shape says which classes there are and how large magazines are: FlagshipShape, or a model's. Nothing that is read
// from the file is trusted to lie in bounds: place() checks.
// World is what the protocol is built on (small.h, runs.h, into.h, recover.h, audit.h):
//   Env, Shape, tables        types, and the Tables
//   gone(token)               -> whether the process with that token is dead: what the kernel drops at death. Once
//                             true, true for as long as some participant's word has the token
//   frames()                  -> how many frames may be used now; their entries and hints may be touched. Never less
//                             later
//   grow(n)                   -> true: frames() has grown, or may have; n frames side by side are wanted. False: no
//                             more
//   back(f, n)                -> false: memory is refused, after some of it perhaps. The frames f … f + n - 1, which
//                             are the caller's, get memory
//   back_tables(f)            -> false: memory is refused. The bits and states of the frame, which is the caller's, get
//                             memory: they may be read for ever from then on
//   punch(f, n)               -> Punched. The frames, which are the caller's, lose their memory
//   is_punched_at_once(n)     -> whether a run of n frames loses its memory when it becomes free
//   slot(offset)              -> Env::Atomic<u64>*, the program's slot at that offset of the file; null: there is none
#pragma once

#include "cache/slab.h"
#include "shared/words.h"
#include "size/size_classes.h"

namespace freeway::shared {

enum class Punched {
  kDone,
  kNothing,  // it cannot be done here, and nothing was
  kFailed,   // some of the memory may be gone
};

struct FlagshipShape {
  static constexpr u32 kClasses = kClassCount;
  static constexpr u32 kWords = kMaxWords;
  static constexpr u32 kBlocks = static_cast<u32>(kFrameSize / kMinBlock);  // in a superblock, at most
  static constexpr u32 kSlots = kMagazines[0].small_at;

  static const SizeClass& size_class(u32 c) { return kSizeClasses[c]; }
  // The magazine of class `c`: slots first_slot(c) … first_slot(c) + slots(c) - 1.
  static u32 slots(u32 c) { return kMagazines[c].small; }
  static u32 first_slot(u32 c) { return kMagazines[c].small_at; }
};

// What is a seat's own: written by who sits there, or who cleans up after it.
template <class Env, class Shape> struct SeatSlab {
  typename Env::template Atomic<u64> in_slot;     // offset of a program's slot that is being filled or emptied, or 0
  typename Env::template Atomic<u32> next_frame;  // where the search for free frames goes on: a hint
  typename Env::template Atomic<u32> top[Shape::kClasses];   // blocks in the magazine
  typename Env::template Atomic<u32> held[Shape::kClasses];  // frame + 1 of the superblock that is held, or 0
  typename Env::template Atomic<u64> slots[Shape::kSlots];   // offsets of blocks; stale above `top`
};

template <class Env_, class Shape_> struct Tables {
  using Env = Env_;
  using Shape = Shape_;
  template <class T> using Atomic = typename Env::template Atomic<T>;
  using Slab = SeatSlab<Env, Shape>;

  Atomic<u64>* entries;
  Atomic<u64>* bits;
  Atomic<u8>* states;
  Atomic<u8>* backing;
  Atomic<u64>* hints;
  Atomic<u64>* participants;
  Slab* slabs;
  u64 data_at;   // offset of frame 0 in the file: a multiple of 64 KiB, not 0
  u32 capacity;  // frames that there is room for in the tables, at most kMaxFrames
  u32 seats;     // 1 … kMaxSeats

  static constexpr u32 kMaxFrames = (u32{1} << 26) - 1;  // 4 TiB: what a Group has bits for (cache/groups.h)
  static constexpr u64 hint_words(u32 capacity) { return ceil_div(capacity, 64); }  // for each class

  Atomic<u64>& word(u32 frame, u32 w) const { return bits[u64{frame} * Shape::kWords + w]; }
  Atomic<u8>& state(u32 frame, u32 index) const { return states[u64{frame} * Shape::kBlocks + index]; }
  Atomic<u64>& hint(u32 c, u32 frame) const { return hints[c * hint_words(capacity) + frame / 64]; }
  Atomic<u64>& participant(u32 seat) const { return participants[seat - 1]; }
  Slab& slab(u32 seat) const { return slabs[seat - 1]; }
  bool is_seat(u32 seat) const { return seat - 1 < seats; }

  u64 offset_of(u32 frame) const { return data_at + (u64{frame} << kFrameShift); }
  u64 offset_of(u32 frame, const SizeClass& k, u32 index) const { return offset_of(frame) + u64{index} * k.size; }
  // The frame that the offset lies in; `capacity` or more: in none.
  u64 frame_of(u64 offset) const { return offset < data_at ? capacity : (offset - data_at) >> kFrameShift; }

  // The run that the frame belongs to: where it begins, and the entry there.
  struct Run {
    u64 head, entry;
  };
  Run run_at(u64 frame) const {
    const u64 entry = entries[frame].load_relaxed();
    if (entry::kind(entry) != entry::Kind::kTail) return {frame, entry};
    if (entry::count(entry) > frame) return {frame, entry::kFree};
    const u64 head = frame - entry::count(entry);
    return {head, entries[head].load_relaxed()};
  }

  // A superblock that lies in frames `frame` … of the first `frames`, by its entry: its class; 0: there is none.
  u32 class_at(u64 entry, u32 frame, u32 frames) const {
    if (entry::kind(entry) != entry::Kind::kSmall) return 0;
    const u32 c = entry::size_class(entry);
    return c != 0 && c < Shape::kClasses && Shape::size_class(c).span_frames <= frames - frame ? c : 0;
  }
  // The same for runs that are claimed, or large blocks: how many frames, 0: none.
  static u32 count_at(u64 entry, u32 frame, u32 frames) {
    const u32 count = entry::count(entry);
    return count <= frames - frame ? count : 0;
  }
};

// Where a small block lies. size_class 0: nowhere.
struct Place {
  u32 size_class;
  u32 frame;  // the first of its superblock
  u32 index;  // of the block in it
  u64 entry;  // what the frame's entry was
};

// The small block that the byte at `offset` lies in; whoever does not own it may be told of one that is gone.
template <class Tables> Place place_around(const Tables& tables, u64 offset, u32 frames) {
  const u64 frame = tables.frame_of(offset);
  if (frame >= frames) return {};
  const auto run = tables.run_at(frame);
  const u32 head = static_cast<u32>(run.head), c = tables.class_at(run.entry, head, frames);
  if (c == 0) return {};
  const SizeClass& k = Tables::Shape::size_class(c);
  const u64 inside = offset - tables.offset_of(head);
  if (inside >= k.span_bytes()) return {};
  const u32 index = k.index_of(inside);
  return index < k.blocks ? Place{c, head, index, run.entry} : Place{};
}

// The same for one that begins there.
template <class Tables> Place place(const Tables& tables, u64 offset, u32 frames) {
  const Place p = place_around(tables, offset, frames);
  if (p.size_class == 0) return {};
  const SizeClass& k = Tables::Shape::size_class(p.size_class);
  return tables.offset_of(p.frame, k, p.index) == offset ? p : Place{};
}

}  // namespace freeway::shared
