// SPDX-License-Identifier: MIT
// Births: a byte for each small block that says whether it is live, that is, in the program's hands.
//
// Byte      0: not live; else the block's tag, the low byte of its address + 1, which is never 0
// Moves     malloc: 0 -> tag, after the step that made the block the caller's (a pop's commit, a bitmap's CAS)
//           free: tag -> 0, before the step that gives it away (a push's section, a bitmap's OR). Anything but the tag
//           is an invalid free: no live block begins there
// Duties    only the thread that has the block in hand moves its byte; so plain loads and stores do. Threads that find
//           the block in a magazine or a bitmap see 0, as do all threads while its frame is no superblock's
// Twice     a second free finds 0. Two frees of one block in the same few nanoseconds may both find the tag (test and
//           clear are two steps): then the block is freed twice, which its superblock's bitmap shows later
// Tags      a byte stands for a *granule*: 16 to 256 bytes, a power of two not longer than the class's blocks, so no
//           two blocks begin in one. The tag tells where in it the block begins: another pointer into the granule has
//           another tag, unless it is not aligned to 16, which has its own test. Large blocks' bytes lie far apart,
//           small ones' cost 1/16
// Places    primary arena: for each granule size an array over the whole arena, one behind the other in one place:
//           the byte of p is place[(p - arena + arena's length) >> shift]. Accessible from each array's start up to the
//           highest span that was asked for (of an arena that is full to its end, the last few spans' are not).
//           Elsewhere (*far*: another arena, or where an array met another's mapping): leaves of one byte for each 16
//           bytes, of 1 GiB of addresses each, which the fast path never sees
// Purging   bytes of owned frames that are no superblock's are all 0: giving back their pages changes nothing
// Who       any thread, any signal handler, the child of any fork
// Orders    the byte goes with the block: the step that gives a thread the block gives it the byte. A program may hand
//           a block to another thread by a relaxed store; on processors that reorder stores, free may then come before
//           the tag is seen: so a free that finds 0 makes all processors agree (membarrier) and looks again before it
//           complains (A second free behind such a hand-over may be missed: then nothing orders the byte's values)
//           [R1] publishes a leaf; [A1] sees it
// Progress  wait-free (publishing a leaf, growing: lock-free)     Lost if killed: the block in hand; an unpublished
//           leaf
// Checked   tests/harden/births_model.cc, births_leaves_model.cc, tests/harden/births_test.cc,
//           tests/abi/bad_input_test.cc
#pragma once

#include "base/compiler.h"
#include "pages/committed_range.h"

namespace freeway {

namespace birth {

constexpr unsigned kLeastShift = 4, kMostShift = 8;  // granules of 16 to 256 bytes

constexpr unsigned shift_of(u32 block_bytes) {
  return static_cast<unsigned>(clamp(log2_floor(block_bytes), kLeastShift, kMostShift));
}
// Address >> shift, as a product that is shifted by kMostShift.
constexpr u64 scale_of(unsigned shift) { return u64{1} << (kMostShift - shift); }
constexpr u8 tag_of(uptr block) { return static_cast<u8>(block + 1); }

// The moves. The fast path makes them itself; if it finds 0 it leaves the block to is_born.
template <class Byte> void begin(Byte& byte, uptr block) { byte.store_relaxed(tag_of(block)); }
template <class Byte> void end(Byte& byte) { byte.store_relaxed(0); }
// Whether a live block begins there. agree() makes all processors agree on earlier stores; false: it cannot.
template <class Byte, class F> bool is_born(const Byte& byte, uptr block, F&& agree) {
  if (FREEWAY_LIKELY(byte.load_relaxed() == tag_of(block))) return true;
  return agree() && byte.load_relaxed() == tag_of(block);
}

// Bytes of address space for the births of an arena of `bytes` bytes.
constexpr std::size_t place_bytes(std::size_t bytes) { return 2 * (bytes >> kLeastShift) + kFrameSize; }

}  // namespace birth

template <class Env> class Births {
 public:
  using Byte = typename Env::template Atomic<u8>;
  static constexpr unsigned kLeafShift = 30;  // 1 GiB of addresses
  static constexpr std::size_t kLeafBytes = std::size_t{1} << (kLeafShift - birth::kLeastShift);
  // The births of a superblock's first blocks lie so far behind a page's start. Slabs begin at page starts, too, and
  // processors first tell stores from loads by the low 12 bits of their addresses (measured: half as much time again).
  static constexpr std::size_t kSkew = 1664;
  static constexpr std::size_t kLeaves = std::size_t{1} << (48 - kLeafShift);

  // Once (or again with the same): the primary arena, and a place for place_bytes(`bytes`); none: all blocks are far.
  // An arena of less than 16 MiB has none: its arrays would not begin at frames.
  void init(Space place, uptr arena, std::size_t bytes) {
    const bool fits = place && bytes % (kFrameSize << birth::kMostShift) == 0;
    arena_ = arena;
    bytes_ = fits ? bytes : 0;
    place_ = place.base;
    for (unsigned s = birth::kLeastShift; fits && s <= birth::kMostShift; ++s)
      ranges_[s - birth::kLeastShift].init({place.base + (bytes >> s), place.reserved}, bytes >> s);
  }

  // From now on none is kept: FREEWAY_HARDEN=1 asks for births, and until the option is known they are kept.
  void drop() { are_dropped_.store_relaxed(true); }
  bool are_kept() const { return !are_dropped_.load_relaxed(); }

  // The byte of a near block is at base(shift) + (its address >> shift).
  uptr base(unsigned shift) const { return place_ + kSkew + (bytes_ >> shift) - (arena_ >> shift); }

  enum class Kind { kNear, kFar, kRefused };
  // Makes the bytes of [address, address + bytes) accessible, for blocks of `block_bytes`. Returns how they are found.
  // `far`: the fast path must not see the blocks.
  FREEWAY_COLD Kind provide(uptr address, std::size_t bytes, u32 block_bytes, bool far = false) {
    const unsigned shift = birth::shift_of(block_bytes);
    if (!far && address - arena_ < bytes_) {
      auto& range = ranges_[shift - birth::kLeastShift];
      const std::size_t begin = (address - arena_) >> shift, end = begin + (bytes >> shift) + kSkew;
      if (end <= range.bytes() && range.ensure(begin, end) == Access::kYes) return Kind::kNear;
    }
    return has_leaf(address) ? Kind::kFar : Kind::kRefused;
  }

  Byte& near(uptr block, u32 block_bytes) const {
    const unsigned shift = birth::shift_of(block_bytes);
    return *reinterpret_cast<Byte*>(base(shift) + (block >> shift));
  }
  // For blocks in a span whose kind is kFar. For another thread's block there may be no leaf: then a byte that says
  // "not live", and must not be written.
  Byte& far(uptr block) const {
    Byte* leaf = block >> 48 != 0 ? nullptr : leaves_[block >> kLeafShift].load_acquire();  // [A1] pairs with [R1]
    return leaf == nullptr ? no_byte_ : leaf[(block & low_bits(kLeafShift)) >> birth::kLeastShift];
  }

  // Gives back the memory of bytes of [address, address + bytes), frames that the caller owns and that are no
  // superblock's.
  void purge(uptr address, std::size_t bytes, std::size_t page) {
    if (address - arena_ >= bytes_) return;
    for (unsigned s = birth::kLeastShift; s <= birth::kMostShift; ++s) {
      const auto& range = ranges_[s - birth::kLeastShift];
      const std::size_t first = align_up(((address - arena_) >> s) + kSkew, page);
      const std::size_t end = clamp(align_down(((address - arena_ + bytes) >> s) + kSkew, page), 0, range.committed());
      if (first < end) purge_between(range, first, end);
    }
  }

  // Bytes of address space that are in use.
  std::size_t committed() const {
    std::size_t bytes = leaves_made_.load_relaxed() * kLeafBytes;
    for (const auto& range : ranges_) bytes += range.committed();
    return bytes;
  }

 private:
  // Leaves out holes, which are another's.
  static void purge_between(const CommittedRange<Env>& range, std::size_t begin, std::size_t end) {
    range.each_hole([&](std::size_t from, std::size_t to) {
      if (to <= begin || end <= from) return;
      if (begin < from) Env::purge(range.base() + begin, from - begin);
      begin = to;
    });
    if (begin < end) Env::purge(range.base() + begin, end - begin);
  }

  // Whether there is a leaf for the address; makes it if there is none.
  bool has_leaf(uptr address) {
    if (address >> 48 != 0) return false;
    auto& slot = leaves_[address >> kLeafShift];
    if (slot.load_relaxed() != nullptr) return true;
    const uptr fresh = Env::map(kLeafBytes, kFrameSize);
    if (fresh == 0) return false;
    prefer_small_pages<Env>(fresh, kLeafBytes);
    Env::step("births.leaf");
    Byte* seen = nullptr;
    if (slot.cas_release(seen, reinterpret_cast<Byte*>(fresh)))  // [R1] pairs with [A1]
      leaves_made_.fetch_add_relaxed(1);
    else Env::release(fresh, kLeafBytes);
    return true;
  }

  typename Env::template Atomic<Byte*> leaves_[kLeaves];  // first: see Substrate
  typename Env::template Atomic<bool> are_dropped_;
  uptr arena_ = 0;
  uptr place_ = 0;
  std::size_t bytes_ = 0;
  CommittedRange<Env> ranges_[birth::kMostShift - birth::kLeastShift + 1];
  typename Env::template Atomic<std::size_t> leaves_made_;
  mutable Byte no_byte_;
};

}  // namespace freeway
