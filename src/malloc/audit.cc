// SPDX-License-Identifier: MIT
// audit.cc: whether the heap adds up, and which parts of it no thread can reach any more.
//
// One walk over descriptors, lists and slabs, each checked against the others; audit_frames.h does the same for frames.
// Everything that is an error here holds at any moment of any thread's calls, as seen by a thread that finds the others
// stopped there for ever: memory that a call has in hand is counted, not reported.
#include "malloc/walk.h"
#include "os/report.h"

namespace freeway {

namespace {

using Described = OwnWalk::Descriptor;

// Notes on a descriptor during the walk. They lie at the descriptor's offset in a mapping as large as the
// metadata that is in use, and so do the bits of the blocks that slabs have.
struct Mark {
  u32 entries;      // in lists and pools
  u32 slabs;        // that hold it
  u32 taken_slabs;  // of these, in somebody's hands
  u32 cached;       // blocks in slabs
};

class Notes {
 public:
  explicit Notes(Heap& heap) {
    bytes_ = align_up(std::size_t{heap.substrate().metadata().end()} * Metadata<Machine>::kUnit, kFrameSize);
    base_ = bytes_ == 0 ? 0 : vm::map(bytes_, kFrameSize);
  }
  ~Notes() {
    if (base_ != 0) vm::release(base_, bytes_);
  }
  Notes(const Notes&) = delete;

  // False where memory was refused: then descriptors are not told apart.
  explicit operator bool() const { return base_ != 0; }
  Mark& of(u32 index) { return *reinterpret_cast<Mark*>(base_ + u64{index} * Metadata<Machine>::kUnit); }
  u64& cached_word(u32 index, u32 word) {
    return reinterpret_cast<u64*>(base_ + (u64{index} + 1) * Metadata<Machine>::kUnit)[word];
  }

 private:
  uptr base_ = 0;
  std::size_t bytes_ = 0;
};

class Auditor {
 public:
  Auditor(Heap& owner, freeway_audit_t& audit) : heap_(owner), audit_(audit), notes_(owner) {}

  void run() {
    heap_.slabs.each([&](Slab& each, auto is_taken) { slab(each, is_taken()); });
    heap_.each_superblocks([&](auto& superblocks) {
      for (unsigned c = 1; c < kClassCount; ++c)
        superblocks.each_in_lists(c, [&](u32 index, bool pooled) { return listed(index, c, pooled); });
    });
    walk_.each_descriptor([&](const Described& each) { descriptor(each); });
    audit_.blocks_live = audit_.blocks_live > audit_.blocks_cached ? audit_.blocks_live - audit_.blocks_cached : 0;
  }

 private:
  void error(const char* what, u64 value) { audit_error(audit_, what, value); }
  const Descriptor<Machine>& at(u32 index) { return heap_.descriptor(index); }

  void slab(Slab& each, bool taken) {
    ++audit_.slabs;
    audit_.slabs_held += taken;
    for (unsigned c = 1; c < kClassCount; ++c) {
      if (const u64 word = each.current[c].load_relaxed()) current(static_cast<u32>(word), c, taken);
      walk_.each_cached(OwnMemory::View(reinterpret_cast<u64>(&each)), c, [&](u64 slot, bool) {
        ++audit_.blocks_cached;
        if (taken) audit_.bytes_held += kSizeClasses[c].size;
        cached(c, reinterpret_cast<u64>(slots::block_of(slot)));
      });
    }
  }

  void current(u32 index, unsigned c, bool taken) {
    ++audit_.superblocks_held_by_slabs;
    const Descriptor<Machine>& d = at(index);
    if (!anchor::is_held(d.anchor.load_relaxed())) error("slab's superblock is not held, descriptor", index);
    if (d.size_class.load_relaxed() != c) error("slab's superblock is of another class, descriptor", index);
    if (!notes_) return;
    Mark& mark = notes_.of(index);
    mark.taken_slabs += taken;
    if (++mark.slabs > 1) error("superblock that two slabs hold, descriptor", index);
  }

  void cached(unsigned c, u64 block) {
    const SizeClass& k = kSizeClasses[c];
    const FrameInfo info = heap_.substrate().map().get(block);
    if (info.kind() != FrameInfo::kSmall) return error("cached block that is none", block);
    const Descriptor<Machine>& d = at(info.value());
    const u32 index = k.block_at(block);
    if (d.size_class.load_relaxed() != c || index == SizeClass::kNoBlock)
      return error("cached block of another class, or inside a block", block);
    const u64 bit = u64{1} << (index % 64);
    if ((d.words[index / 64].load_relaxed() & bit) != 0) error("cached block that is free as well", block);
    if (heap_.births.are_kept() && heap_.birth_of(block, c).load_relaxed() != 0)
      error("cached block that is marked live", block);
    if (!notes_) return;
    ++notes_.of(info.value()).cached;
    u64& word = notes_.cached_word(info.value(), index / 64);
    if ((word & bit) != 0) error("block that is cached twice", block);
    word |= bit;
  }

  // False: the list leads in a circle.
  bool listed(u32 index, unsigned c, bool pooled) {
    const Descriptor<Machine>& d = at(index);
    const u64 a = d.anchor.load_relaxed();
    if (d.size_class.load_relaxed() != c) error("descriptor in another class's list", index);
    if (!anchor::is_in_use(a, c, kSizeClasses[c].words)) {
      ++audit_.descriptors_free;  // ready, or a tombstone
    } else if (pooled) {
      error("superblock in use in a pool, descriptor", index);
    } else if (anchor::is_held(a)) {
      if (!anchor::has_entry(a)) error("listed superblock is held, descriptor", index);
    } else {
      ++audit_.superblocks_listed;
      if (anchor::is_unlisted(a)) error("listed superblock is unlisted, descriptor", index);
    }
    if (!notes_ || ++notes_.of(index).entries == 1) return true;
    error("descriptor that is in lists twice", index);
    return false;
  }

  void descriptor(const Described& d) {
    ++audit_.descriptors;
    if (!d.is_in_use()) return;
    ++audit_.superblocks;
    const SizeClass& k = d.shape();
    const u64 a = d.anchor();
    if (anchor::class_of(a) != d.size_class()) error("anchor of another class, descriptor", d.index());
    int non_zero = 0;
    for (unsigned w = 0; w < k.words; ++w) {
      const u64 bits = d.bits(w);
      non_zero += bits != 0;
      if ((bits & ~k.full_mask(w)) != 0) error("free bits of blocks that do not exist, descriptor", d.index());
      if (heap_.births.are_kept()) births(d, w, bits & k.full_mask(w));
    }
    // A killed freer leaves the count too low; too high would be a lie.
    if (!anchor::is_held(a) && anchor::non_zero_words(a) > non_zero)
      error("more words counted than free, descriptor", d.index());
    frames(d);
    const u32 taken = k.blocks - d.free_blocks();
    audit_.blocks_live += taken;
    audit_.superblocks_held += anchor::is_held(a);
    audit_.superblocks_full += !anchor::is_held(a) && anchor::is_unlisted(a);
    if (notes_) reach(d, taken);
  }

  void births(const Described& d, unsigned word, u64 free) {
    for (; free != 0; free &= free - 1) {
      const uptr block = d.span() + (word * u64{64} + lowest_bit(free)) * d.shape().size;
      if (heap_.birth_of(block, d.size_class()).load_relaxed() != 0) error("free block that is marked live", block);
    }
  }

  void frames(const Described& d) {
    const SizeClass& k = d.shape();
    const uptr span = d.span();
    const PageMap<Machine>& map = heap_.substrate().map();
    const unsigned known = map.class_byte(span);  // 0: the fast path must not see it: sampled, or its births are far
    if (span % k.span_bytes() != 0) error("span out of place, descriptor", d.index());
    for (uptr frame = span; frame < span + k.span_bytes(); frame += kFrameSize) {
      if (map.get(frame).bits != FrameInfo::small(d.index()).bits)
        error("frame that its superblock does not own, address", frame);
      if (!heap_.substrate().frames().primary().contains(frame)) continue;
      if (map.class_byte(frame) != known || (known != d.size_class() && known != 0))
        error("frame whose size class is not its superblock's, address", frame);
    }
  }

  // Counts the frames and blocks that are lost if no thread can find the superblock.
  void reach(const Described& d, u32 taken) {
    const SizeClass& k = d.shape();
    const u64 a = d.anchor();
    const Mark& mark = notes_.of(d.index());
    const bool free = taken < k.blocks;
    bool found = true;
    if (anchor::is_held(a)) {
      found = mark.slabs != 0 && mark.taken_slabs == 0;
    } else if (mark.entries == 0) {
      // The thread that frees one of its blocks finds a full one.
      const bool full = anchor::is_unlisted(a);
      audit_.superblocks_adrift += !full;
      found = full && !free;
    }
    if (mark.cached > taken) error("more blocks are cached than were taken, descriptor", d.index());
    if (!found) audit_.bytes_held += u64{k.blocks - taken} * k.size;
    if (taken > mark.cached) audit_.frames_live += k.span_frames;
    else if (found) audit_.frames_cached += k.span_frames;
    else audit_.frames_held += k.span_frames;
  }

  Heap& heap_;
  const OwnWalk walk_ = own_walk();
  freeway_audit_t& audit_;
  Notes notes_;
};

}  // namespace

void audit_small(Heap& heap, freeway_audit_t& audit) {
  Auditor(heap, audit).run();
  audit.frames_tables += heap.slabs.bytes() / kFrameSize;
}

bool owns(Heap& heap, u32 descriptor, uptr address) {
  const Descriptor<Machine>& d = heap.descriptor(descriptor);
  const unsigned c = d.size_class.load_relaxed();
  return anchor::is_in_use(d.anchor.load_relaxed(), c, kSizeClasses[c].words) &&
         address - d.span.load_relaxed() < kSizeClasses[c].span_bytes();
}

}  // namespace freeway
