// SPDX-License-Identifier: MIT
// PageMap: the block or superblock that a frame of 64 KiB belongs to.
//
// Words     one FrameInfo a frame (32 bits; all frames of a superblock carry it, of a large or huge block only the
//           first), and for frames of the primary arena one byte more: the size class, which the fast path of free
//           reads
// Moves     the frame's owner sets both before it hands out a block of it, and clears both before it gives it back.
//           claim: info -> 0 (CAS): the winner frees the large block, so a double free of one is detected
// Who       lookups: any thread, for any address, ours or not: nothing foreign is ever followed
// Orders    [R1] a leaf is published with its zeros; [A1] lookups see them. Entries themselves are read relaxed: a
//           block's address reaches another thread only through the program's own synchronisation, which carries them
//           along. A thread that looks at frames of which it owns no block has no such help: [R2] an entry publishes
//           the descriptor that it names, [A2] get_unowned sees it
// Outside   frames beyond the primary arena are found through a two-level map whose leaves (4 GiB each) are never freed
// Progress  lock-free (publishing a leaf), wait-free (everything else)       Lost if killed: an unpublished leaf
// Checked   tests/pages/page_map_model.cc, tests/pages/page_map_test.cc
#pragma once

#include "base/compiler.h"
#include "pages/huge_pages.h"
#include "pages/limits.h"
#include "size/size_classes.h"

namespace freeway {

// kind:2 | value:30, of which a large or huge block has guarded:1 | frames:29. "Nothing" with a value is a frame of a
// program's heap (heap/README.md): the value is a strip's record or a superblock's descriptor. A reader that does not
// ask for that takes the frame for no superblock's of the malloc's, and for no block's, as is true.
struct FrameInfo {
  enum Kind : u32 { kNothing = 0, kSmall = 1, kLarge = 2, kHuge = 3 };
  u32 bits = 0;

  static constexpr u32 kValueMask = (u32{1} << 30) - 1;
  static constexpr FrameInfo small(u32 descriptor) { return {(kSmall << 30) | descriptor}; }
  static constexpr u32 kGuarded = u32{1} << 29;
  static constexpr FrameInfo large(std::size_t frames) { return {(kLarge << 30) | static_cast<u32>(frames)}; }
  static constexpr FrameInfo huge(std::size_t frames) { return {(kHuge << 30) | static_cast<u32>(frames)}; }

  static constexpr FrameInfo of_heap(u32 record) { return {record}; }

  constexpr bool is_of_heap() const { return bits - 1 < kValueMask; }  // not 0, and of kind "nothing"
  constexpr Kind kind() const { return static_cast<Kind>(bits >> 30); }
  constexpr u32 value() const { return bits & kValueMask; }  // of a superblock: descriptor index
  // Of a large or huge block: its length, and whether its last page is a guard (pages/large.h).
  constexpr std::size_t frames() const { return bits & (kGuarded - 1); }
  constexpr bool is_guarded() const { return (bits & kGuarded) != 0; }
  constexpr FrameInfo guarded(bool yes) const { return {yes ? bits | kGuarded : bits & ~kGuarded}; }
  // The same block with another length, or as a mapping of its own.
  constexpr FrameInfo with(std::size_t frames) const { return {(bits & ~(kGuarded - 1)) | static_cast<u32>(frames)}; }
  constexpr FrameInfo as_huge() const { return {bits | kHuge << 30}; }
};

// The longest block a FrameInfo can describe, in frames (32 TiB).
constexpr std::size_t kMaxFrames = FrameInfo::kGuarded - 1;

template <class Env> class PageMap {
 public:
  using Entry = typename Env::template Atomic<u32>;
  // What the fast path reads of a frame of the primary arena: on one line.
  struct FrameBytes {
    typename Env::template Atomic<u8> size_class;  // of its blocks; 0: they are not the fast path's
    typename Env::template Atomic<u8> home;        // see cache/homes.h
  };
  static constexpr unsigned kAddressBits = 48;
  static constexpr unsigned kLeafBits = 16;  // frames a leaf: 4 GiB of addresses
  static constexpr std::size_t kLeafBytes = sizeof(Entry) << kLeafBits;
  static constexpr std::size_t kRoots = std::size_t{1} << (kAddressBits - kFrameShift - kLeafBits);

  // Once. `bytes` (may be null: then they are not read) and `infos` have an entry for each frame of the primary
  // arena. `limits`: charged for leaves, if not null.
  void init(uptr primary, std::size_t frames, FrameBytes* bytes, Entry* infos, Limits<Env>* limits = nullptr) {
    limits_ = limits;
    primary_ = primary;
    bytes_ = bytes;
    infos_ = infos;
    __atomic_signal_fence(__ATOMIC_RELEASE);  // a handler that frees sees frames and their infos
    frames_ = frames;
  }

  FREEWAY_INLINE FrameInfo get(uptr address) const {
    const Entry* entry = find(address);
    return {entry == nullptr ? 0 : entry->load_relaxed()};
  }

  // The same for a frame of the primary arena; nothing for others.
  FrameInfo get_primary(std::size_t frame) const { return {frame < frames_ ? infos_[frame].load_relaxed() : 0}; }

  // The same for a frame of which the caller owns nothing.
  FrameInfo get_unowned(uptr address) const {
    const Entry* entry = find(address);
    return {entry == nullptr ? 0 : entry->load_acquire()};  // [A2] pairs with [R2]
  }

  // The value of the frame's entry if it is one of a superblock of class `c` in the primary arena, by the byte that the
  // fast path reads; else 0.
  u32 value_of_primary(uptr address, unsigned c) const {
    const std::size_t frame = (address - primary_) / kFrameSize;
    if (FREEWAY_UNLIKELY(frame >= frames_ || bytes_[frame].size_class.load_relaxed() != c)) return 0;
    return FrameInfo{infos_[frame].load_relaxed()}.value();
  }

  // For the owner of the frames only. False if a leaf was needed and there was no memory for it.
  FREEWAY_NOINLINE bool set(uptr address, std::size_t frames, FrameInfo info, unsigned size_class) {
    for (std::size_t i = 0; i < frames; ++i) {
      Entry* entry = make(address + i * kFrameSize);
      if (entry == nullptr) {
        clear(address, i);
        return false;
      }
      std::size_t frame = (address - primary_) / kFrameSize + i;
      entry->store_release(info.bits);  // [R2] pairs with [A2]
      Env::step("map.setting");
      if (frame < frames_ && bytes_ != nullptr) bytes_[frame].size_class.store_relaxed(static_cast<u8>(size_class));
    }
    return true;
  }
  FREEWAY_NOINLINE void clear(uptr address, std::size_t frames) {
    for (std::size_t i = 0; i < frames; ++i) {
      std::size_t frame = (address - primary_) / kFrameSize + i;
      if (frame < frames_ && bytes_ != nullptr) bytes_[frame].size_class.store_relaxed(0);
      Env::step("map.clearing");
      if (Entry* entry = find(address + i * kFrameSize)) entry->store_relaxed(0);
    }
  }

  // Takes the entry of a large or huge block away if it is still `info`: the winner frees the block.
  bool claim(uptr address, FrameInfo info) { return replace(address, info, FrameInfo{}); }
  bool replace(uptr address, FrameInfo info, FrameInfo other) {
    Entry* entry = find(address);
    return entry != nullptr && entry->cas_relaxed(info.bits, other.bits);
  }

  // For audits: the byte of a frame of the primary arena, and f(address, info) for each entry outside that is not
  // empty.
  u32 class_byte(uptr address) const {
    const std::size_t frame = (address - primary_) / kFrameSize;
    return frame < frames_ && bytes_ != nullptr ? bytes_[frame].size_class.load_relaxed() : 0;
  }
  template <class F> void each_outside(F&& f) const {
    for (std::size_t root = 0; root < kRoots; ++root)
      if (const Entry* leaf = root_[root].load_acquire())  // [A1] pairs with [R1]
        for (std::size_t i = 0; i <= low_bits(kLeafBits); ++i)
          if (const u32 bits = leaf[i].load_relaxed()) f(((root << kLeafBits) + i) << kFrameShift, FrameInfo{bits});
  }

  std::size_t leaf_bytes() const { return leaves_.load_relaxed() * kLeafBytes; }

 private:
  const Entry* find(uptr address) const { return const_cast<PageMap*>(this)->find(address); }
  Entry* find(uptr address) {
    std::size_t frame = (address - primary_) / kFrameSize;
    if (frame < frames_) return &infos_[frame];
    if (address >> kAddressBits != 0) return nullptr;
    Entry* leaf = root_[address >> (kFrameShift + kLeafBits)].load_acquire();  // [A1] pairs with [R1]
    return leaf == nullptr ? nullptr : &leaf[(address >> kFrameShift) & low_bits(kLeafBits)];
  }

  Entry* make(uptr address) {
    if (Entry* entry = find(address)) return entry;
    if (address >> kAddressBits != 0) return nullptr;
    auto& slot = root_[address >> (kFrameShift + kLeafBits)];
    if (limits_ != nullptr && !limits_->charge_table(kLeafBytes / kFrameSize)) return nullptr;
    uptr fresh = Env::map(kLeafBytes, kFrameSize);
    if (fresh == 0) return uncharge_leaf(), nullptr;
    prefer_small_pages<Env>(fresh, kLeafBytes);
    Entry* seen = nullptr;
    Env::step("map.leaf");
    if (slot.cas_release(seen, reinterpret_cast<Entry*>(fresh)))  // [R1] pairs with [A1]
      leaves_.fetch_add_relaxed(1);
    else if (Env::release(fresh, kLeafBytes)) uncharge_leaf();
    return find(address);
  }
  void uncharge_leaf() {
    if (limits_ != nullptr) limits_->uncharge(kLeafBytes / kFrameSize);
  }

  typename Env::template Atomic<Entry*> root_[kRoots];  // first: see Substrate
  uptr primary_ = 0;
  std::size_t frames_ = 0;
  FrameBytes* bytes_ = nullptr;
  Entry* infos_ = nullptr;
  Limits<Env>* limits_ = nullptr;
  typename Env::template Atomic<std::size_t> leaves_;
};

}  // namespace freeway
