// SPDX-License-Identifier: MIT
// layout.h: where everything lies in the file of a shared heap, as a pure function of how many frames and seats it has
// room for, and the header that says so.
//
//   0          Header: what never changes, with its checksum; then how many frames are open, the roots, the seats'
//              words
//   slabs      a SeatSlab a seat
//   entries    8 bytes a frame
//   backing    1 byte a frame
//   hints      1 bit a frame and class
//   bits       512 bytes a frame
//   states     4 KiB a frame
//   data       64 KiB a frame
//
// Each part begins at a multiple of 64 KiB: whatever the size of a page is, parts share none. Nearly all of the file is
// a hole. Who attaches computes all of it again from two numbers of the header and compares; nothing else there is
// believed.
//
// The header's first 16 bytes, and where its checksum lies, are the same in all versions.
// Checked   shared/tests/bad_file_test.cc
#pragma once

#include "os/machine.h"
#include "shared/roots.h"
#include "shared/tables.h"

namespace freeway::shared {

constexpr u64 kMagic = 0x3170616568797766;        // "fwyheap1"
constexpr u64 kMagicMaking = 0x3f70616568797766;  // "fwyheap?": somebody is making it, or was killed then
constexpr u32 kVersion = 2;
constexpr u32 kFewestFrames = 16;          // a superblock of the largest classes
constexpr u32 kMostFrames = u32{1} << 25;  // 2 TiB
constexpr u32 kFewestSeats = 2;
constexpr u64 kPartAlignment = 64 * kKiB;

// Locks lie beyond what files can hold: a byte for each token, one for who makes the heap, one for what he tries.
constexpr u64 kTokenLocks = u64{1} << 62;
constexpr u64 kMakingLock = kTokenLocks + participant::kTokens;
constexpr u64 kTryLock = kMakingLock + 1;

constexpr u64 hash_bytes(u64 hash, u64 value) {  // FNV-1a
  for (unsigned i = 0; i < 8; ++i) hash = (hash ^ (value >> (8 * i) & 0xff)) * 0x100000001b3;
  return hash;
}
constexpr u64 kHashStart = 0xcbf29ce484222325;

// What of the program the file depends on, beside kVersion: classes, magazines, how many words and states a frame has.
template <class Shape> u64 hash_of_shape() {
  u64 hash = hash_bytes(hash_bytes(kHashStart, Shape::kClasses), kFrameShift);
  hash = hash_bytes(hash_bytes(hash, Shape::kWords), Shape::kBlocks);
  for (u32 c = 1; c < Shape::kClasses; ++c) {
    hash = hash_bytes(hash_bytes(hash, Shape::size_class(c).size), Shape::size_class(c).span_frames);
    hash = hash_bytes(hash_bytes(hash, Shape::slots(c)), Shape::first_slot(c));
  }
  return hash;
}

// What never changes. `checksum` is of all words before it.
struct Constants {
  u64 magic;
  u32 version;
  u32 bytes;  // of Constants: the checksum is the last word
  u64 file_bytes;
  u32 frames;
  u32 seats;
  u64 slabs, entries, backing, hints, bits, states, data;  // where they begin
  u64 shape;
  u64 checksum;

  u64 word(unsigned i) const { return reinterpret_cast<const u64*>(this)[i]; }
  u64 sum() const {
    u64 hash = kHashStart;
    for (unsigned i = 0; i < offsetof(Constants, checksum) / 8; ++i) hash = hash_bytes(hash, word(i));
    return hash;
  }
  bool is_same(const Constants& other) const {
    for (unsigned i = 0; i < sizeof(Constants) / 8; ++i)
      if (word(i) != other.word(i)) return false;
    return true;
  }
};
static_assert(sizeof(Constants) == 13 * 8);

// The words of the header that change.
//
// open      frames below it may be used: their entries, backing bytes and hints have memory. It only grows (CAS), after
//           that
struct Header {
  using Env = Machine;
  Constants constants;
  alignas(64) Env::Atomic<u64> open;
  alignas(64) Roots<Env> roots;
  alignas(64) Env::Atomic<u64> participants[kMaxSeats];
};
static_assert(sizeof(Header) <= kPartAlignment);

using FileTables = Tables<Machine, FlagshipShape>;

// The layout of a heap for so many frames (kFewestFrames … kMostFrames) and seats (kFewestSeats … kMaxSeats).
inline Constants lay_out(u32 frames, u32 seats) {
  Constants c = {};
  u64 end = kPartAlignment;
  const auto part = [&end](u64 bytes) {
    const u64 begin = end;
    end = align_up(end + bytes, kPartAlignment);
    return begin;
  };
  c.magic = kMagic;
  c.version = kVersion;
  c.bytes = sizeof(Constants);
  c.frames = frames;
  c.seats = seats;
  c.slabs = part(u64{seats} * sizeof(FileTables::Slab));
  c.entries = part(u64{frames} * sizeof(u64));
  c.backing = part(frames);
  c.hints = part(u64{FlagshipShape::kClasses} * FileTables::hint_words(frames) * sizeof(u64));
  c.bits = part(u64{frames} * FlagshipShape::kWords * sizeof(u64));
  c.states = part(u64{frames} * FlagshipShape::kBlocks);
  c.data = part(u64{frames} << kFrameShift);
  c.file_bytes = end;
  c.shape = hash_of_shape<FlagshipShape>();
  c.checksum = c.sum();
  return c;
}

enum class Verdict { kRight, kForeign, kOtherLayout, kDamaged, kUnfinished };

// What a file of `file_bytes` bytes is that begins with these (of which `read` could be read, the rest being zero).
inline Verdict judge(const Constants& found, u64 read, u64 file_bytes) {
  if (read >= sizeof(u64) && found.magic == kMagicMaking) return Verdict::kUnfinished;
  if (read < 2 * sizeof(u64) || found.magic != kMagic) return Verdict::kForeign;
  if (found.version != kVersion) return Verdict::kOtherLayout;
  if (read < sizeof(Constants) || found.bytes != sizeof(Constants) || found.checksum != found.sum())
    return Verdict::kDamaged;
  if (found.frames < kFewestFrames || found.frames > kMostFrames) return Verdict::kDamaged;
  if (found.seats < kFewestSeats || found.seats > kMaxSeats) return Verdict::kDamaged;
  const Constants mine = lay_out(found.frames, found.seats);
  if (found.shape != mine.shape) return Verdict::kOtherLayout;
  return found.is_same(mine) && file_bytes >= mine.file_bytes ? Verdict::kRight : Verdict::kDamaged;
}

}  // namespace freeway::shared
