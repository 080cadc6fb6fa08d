// SPDX-License-Identifier: MIT
// audit.cc: whether what the heap holds adds up, and what of it nobody can reach any more.
//
// One walk over descriptors, lists and slabs, each checked against the others; audit_frames.h does the same for frames.
// Everything that is an error here holds at any moment of any thread's calls, as seen by a thread that finds the others
// stopped there for ever: what a call has in hand is counted, not complained about.
#include "malloc/walk.h"
#include "os/report.h"

namespace freeway {

using namespace walk;

namespace {

// What is noted of a descriptor during the walk. It lies at the descriptor's offset in a mapping as large as the
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
    u32 end = 0;
    each_descriptor(heap, [&](u32 index, const Desc&, unsigned c) { end = index + units_of(c); });
    bytes_ = align_up(std::size_t{end} * Metadata<Machine>::kUnit, kFrameSize);
    base_ = end == 0 ? 0 : vm::map(bytes_, kFrameSize);
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
    heap_.each_slab([&](Slab& each, auto is_taken) { slab(each, is_taken()); });
    for (auto* superblocks : {&heap_.superblocks(), &heap_.sampled_superblocks()})
      for (unsigned c = 1; c < kClassCount; ++c)
        superblocks->each_in_lists(c, [&](u32 index, bool pooled) { return listed(index, c, pooled); });
    each_descriptor(heap_, [&](u32 index, const Desc& d, unsigned c) { descriptor(index, d, c); });
    audit_.blocks_live = audit_.blocks_live > audit_.blocks_cached ? audit_.blocks_live - audit_.blocks_cached : 0;
  }

 private:
  void error(const char* what, u64 value) { audit_error(audit_, what, value); }
  Desc& at(u32 index) { return *static_cast<Desc*>(heap_.metadata().at(index)); }

  void slab(Slab& each, bool taken) {
    ++audit_.slabs;
    audit_.slabs_held += taken;
    for (unsigned c = 1; c < kClassCount; ++c) {
      if (const u64 word = each.current[c].load_relaxed()) current(static_cast<u32>(word), c, taken);
      each_cached(heap_, each, c, [&](u64 slot) {
        ++audit_.blocks_cached;
        if (taken) audit_.bytes_held += kSizeClasses[c].size;
        cached(c, reinterpret_cast<u64>(slots::block_of(slot)));
      });
    }
  }

  void current(u32 index, unsigned c, bool taken) {
    ++audit_.superblocks_held_by_slabs;
    const Desc& d = at(index);
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
    const Desc& d = at(info.value());
    const u32 index = k.block_at(block);
    if (d.size_class.load_relaxed() != c || index == SizeClass::kNoBlock)
      return error("cached block of another class, or inside a block", block);
    const u64 bit = u64{1} << (index % 64);
    if ((d.words[index / 64].load_relaxed() & bit) != 0) error("cached block that is free as well", block);
    if (heap_.has_births() && heap_.birth_of(block, c).load_relaxed() != 0) error("cached block that is marked live", block);
    if (!notes_) return;
    ++notes_.of(info.value()).cached;
    u64& word = notes_.cached_word(info.value(), index / 64);
    if ((word & bit) != 0) error("block that is cached twice", block);
    word |= bit;
  }

  // False: the list leads in a circle.
  bool listed(u32 index, unsigned c, bool pooled) {
    const Desc& d = at(index);
    const u64 a = d.anchor.load_relaxed();
    if (d.size_class.load_relaxed() != c) error("descriptor in another class's list", index);
    if (!is_in_use(d, c)) {
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

  void descriptor(u32 index, const Desc& d, unsigned c) {
    ++audit_.descriptors;
    if (!is_in_use(d, c)) return;
    ++audit_.superblocks;
    const SizeClass& k = kSizeClasses[c];
    const u64 a = d.anchor.load_relaxed();
    if (anchor::class_of(a) != c) error("anchor of another class, descriptor", index);
    int non_zero = 0;
    for (unsigned w = 0; w < k.words; ++w) {
      const u64 bits = d.words[w].load_relaxed();
      non_zero += bits != 0;
      if ((bits & ~k.full_mask(w)) != 0) error("free bits of blocks that do not exist, descriptor", index);
      if (heap_.has_births()) births(d, c, w, bits & k.full_mask(w));
    }
    // A killed freer leaves the count too low; too high would be a lie.
    if (!anchor::is_held(a) && anchor::non_zero_words(a) > non_zero)
      error("more words counted than free, descriptor", index);
    frames(index, d, c);
    const u32 taken = k.blocks - free_blocks(d, k);
    audit_.blocks_live += taken;
    audit_.superblocks_held += anchor::is_held(a);
    audit_.superblocks_full += !anchor::is_held(a) && anchor::is_unlisted(a);
    if (notes_) reach(index, d, c, taken);
  }

  void births(const Desc& d, unsigned c, unsigned word, u64 free) {
    for (; free != 0; free &= free - 1) {
      const uptr block = d.span.load_relaxed() + (word * u64{64} + lowest_bit(free)) * kSizeClasses[c].size;
      if (heap_.birth_of(block, c).load_relaxed() != 0) error("free block that is marked live", block);
    }
  }

  void frames(u32 index, const Desc& d, unsigned c) {
    const SizeClass& k = kSizeClasses[c];
    const uptr span = d.span.load_relaxed();
    const PageMap<Machine>& map = heap_.substrate().map();
    const unsigned known = map.class_byte(span);  // 0: the fast path must not see it: sampled, or its births are far
    if (span % k.span_bytes() != 0) error("span out of place, descriptor", index);
    for (uptr frame = span; frame < span + k.span_bytes(); frame += kFrameSize) {
      if (map.get(frame).bits != FrameInfo::small(index).bits)
        error("frame that its superblock does not own, address", frame);
      if (!heap_.substrate().frames().primary().contains(frame)) continue;
      if (map.class_byte(frame) != known || (known != c && known != 0))
        error("frame whose size class is not its superblock's, address", frame);
    }
  }

  // Who can find the superblock, and what is lost if nobody can.
  void reach(u32 index, const Desc& d, unsigned c, u32 taken) {
    const SizeClass& k = kSizeClasses[c];
    const u64 a = d.anchor.load_relaxed();
    const Mark& mark = notes_.of(index);
    const bool free = taken < k.blocks;
    bool found = true;
    if (anchor::is_held(a)) {
      found = mark.slabs != 0 && mark.taken_slabs == 0;
    } else if (mark.entries == 0) {
      // Full ones are found by whoever frees one of their blocks.
      const bool full = anchor::is_unlisted(a);
      audit_.superblocks_adrift += !full;
      found = full && !free;
    }
    if (mark.cached > taken) error("more blocks are cached than were taken, descriptor", index);
    if (!found) audit_.bytes_held += u64{k.blocks - taken} * k.size;
    if (taken > mark.cached)
      audit_.frames_live += k.span_frames;
    else if (found)
      audit_.frames_cached += k.span_frames;
    else
      audit_.frames_held += k.span_frames;
  }

  Heap& heap_;
  freeway_audit_t& audit_;
  Notes notes_;
};

}  // namespace

void Heap::audit(freeway_audit_t& audit) {
  Auditor(*this, audit).run();
  audit.frames_tables += slabs_bytes_.load_relaxed() / kFrameSize;
}

}  // namespace freeway
