// SPDX-License-Identifier: MIT
// Strips: how strips and whole blocks of a heap are made, freed into, listed and given back, without anything that
// belongs to a CPU.
//
// Words     the words and kinds of strips (strip.h), the lists of their heap, held and marked (records.h)
// Who       mark: any thread that owns the block.   close: whoever has it open.   gather, find, sweep: any thread
// Invariant a strip is in its heap's list at most once; only its holder takes its marked blocks, so that what is taken
//           is one thread's.  A frame is given back by the holder of its strip, once all its blocks are free
// Orders    [R1] freeing publishes what was done to the block; [A1] whoever takes it sees that.  [R2] letting go
//           publishes the holder's view; [A2] the next holder sees it.  Poppers, and walks, see what was done before by
//           the list's own orders
// Progress  lock-free       Lost if killed, until the heap is destroyed: the strip or record in hand, or all strips
//           that sweep, find or gather of all, took; a block between its mark and the count. For good: frames that are
//           not yet, or no more, in their run's record
// Checked   tests/heap/strips_model.cc, tests/abi/heap_test.cc
//
// Backing is where frames and records come from:
//   at(index)                                -> address of the record
//   make(units)                              -> index of so many new units of 64 bytes, all zero; 0 without memory
//   take_frames(frames, alignment, index, z) -> address of frames that the page map says are the record's, 0 without
//   memory;
//                                               z: whether they read as zero
//   give_frames(address, frames)             takes the map's entries away and gives them back
#pragma once

#include "base/compiler.h"
#include "heap/records.h"
#include "pages/limits.h"
#include "size/size_classes.h"

namespace freeway::heap {

template <class Env, class Backing> class Strips {
 public:
  using RunOf = Run<Env>;
  using RecordOf = Record<Env>;
  using Kind = typename Env::template Atomic<u8>;

  void init(Backing* backing) { backing_ = backing; }

  FREEWAY_INLINE RunOf& at(u32 index) const { return *static_cast<RunOf*>(backing_->at(index)); }
  static RecordOf& heap_of(const RunOf& run) { return *reinterpret_cast<RecordOf*>(run.heap.load_relaxed()); }

  // --- Strips. -------------------------------------------------------------------------------------------------------

  // A new strip; it is open, and in the caller's hands. Null: no memory, or the limit.
  RunOf* make_strip(RecordOf& heap) {
    bool zero;
    RunOf* one = make_run(heap, kStrip, 1, 1, zero);
    if (one == nullptr) return nullptr;
    const uptr address = one->address.load_relaxed();
    one->end.store_relaxed(address + kFrameSize);
    one->kinds.store_relaxed(reinterpret_cast<uptr>(one + 1) - address / strip::kGranule);
    one->word.store_relaxed(strip::born());
    return one;
  }
  static Kind& kind_of(const RunOf& one, uptr block) {
    return *reinterpret_cast<Kind*>(one.kinds.load_relaxed() + block / strip::kGranule);
  }
  static u64 granules_of(unsigned c) { return kSizeClasses[c].size / strip::kGranule; }
  // The kind of what begins at the address, in that strip: 0 also where no block can. For readers, too, for whom nobody
  // keeps the strip: whichever frame the record has by now, no kind of another record is read.
  static u8 kind_at(const RunOf& one, uptr address) {
    const uptr offset = address - one.address.load_relaxed();
    if (FREEWAY_UNLIKELY(offset >= kFrameSize || offset % strip::kGranule != 0)) return 0;
    return reinterpret_cast<const Kind*>(&one + 1)[offset / strip::kGranule].load_relaxed();
  }
  // Where the block begins that the address, which is in the strip, lies in; 0: there is none. Neither the strip's word
  // nor what CPUs have in hand is asked: a block that lives is found whoever has the strip.
  static uptr begin_of(const RunOf& one, uptr address) {
    const uptr frame = one.address.load_relaxed();
    if (address - frame >= kFrameSize) return 0;  // it has another frame by now
    for (uptr block = align_down(address, strip::kGranule); block >= frame; block -= strip::kGranule)
      if (const u8 kind = kind_at(one, block)) return address - block < size_of(kind) ? block : 0;
    return 0;
  }
  static u32 size_of(u8 kind) { return kSizeClasses[strip::class_of(kind)].size; }

  // The owner of a live block only. From now on its free leaves the fast path, as a whole block's does anyway.
  static void follow(RunOf& run, uptr block) {
    if (run.is_whole.load_relaxed() != 0) return;
    Kind& kind = kind_of(run, block);
    kind.store_relaxed(kind.load_relaxed() | strip::kFollowed);
  }
  // By a thread that frees what may be such a block. Whether it was one; of two frees of one block at most one hears
  // so.
  static bool unfollow(RunOf& run, uptr block) {
    if (run.is_whole.load_relaxed() != 0) return true;
    u8 kind = kind_at(run, block);
    if (!strip::is_followed(kind)) return false;
    Env::step("strip.unfollowing");
    return kind_of(run, block).cas_relaxed(kind, static_cast<u8>(strip::class_of(kind)));
  }
  // f(block) for each of the run's blocks that is followed; while nobody uses them.
  template <class F> static void each_followed(const RunOf& run, F&& f) {
    const uptr begin = run.address.load_relaxed();
    if (run.is_whole.load_relaxed() != 0) return f(begin);
    for (uptr block = begin; block < begin + kFrameSize;) {
      const u8 kind = kind_at(run, block);
      if (strip::is_followed(kind)) f(block);
      block += kind != 0 ? size_of(kind) : strip::kGranule;
    }
  }

  // Frees a block of class `c`, which the caller owns, of the strip; false: it is free already.
  bool mark(RecordOf& heap, RunOf& one, uptr block, unsigned c) {
    const u32 index = one.self.load_relaxed();
    u8 kind = static_cast<u8>(c);
    Env::step("strip.marking");
    if (!kind_of(one, block).cas_release(kind, static_cast<u8>(c | strip::kMarked)))
      return false;  // [R1] pairs with [A1]
    Env::step("strip.marked");
    u64 seen = one.word.load_relaxed();
    strip::Next next;
    do {
      next = strip::marked(seen, granules_of(c));
    } while (!one.word.cas_release(seen, next.word));  // [R1] pairs with [A1]
    // LAST TOUCH: one
    Env::step("strip.counted");
    if (const u64 bit = u64{1} << c; (heap.marked.load_relaxed() & bit) == 0) heap.marked.fetch_or_relaxed(bit);
    if (next.duty == strip::Duty::kList) heap.strips.push(index, links());
    return true;
  }

  // Whoever has it open only: nothing will be taken off it any more, `next` is where the next block would begin.
  // Somebody may have stored its kind, and then not have taken it.
  void close(RecordOf& heap, RunOf& one, uptr next) {
    if (next < one.end.load_relaxed()) kind_of(one, next).store_relaxed(0);
    const u64 granules = (next - one.address.load_relaxed()) / strip::kGranule;
    leave(heap, one, [=](u64 word) { return strip::closed(word, granules); });
  }
  // Whether it is time to close an open one: all that was taken off it has come back; so much has that it is worth
  // looking through.
  enum When { kAlways, kIfUnused, kIfWorth };
  static bool is_time(When when, const RunOf& one, uptr next) {
    const u64 marked = strip::marked_of(one.word.load_relaxed()) * strip::kGranule;
    const u64 length = next - one.address.load_relaxed();
    return when == kAlways || (when == kIfUnused ? marked == length : marked * 4 >= length);
  }

  // Looks through a listed strip that may have a marked block of class `c`, and offers each marked block to f(block,
  // its class), which says whether it takes it; whether there was one. `all`: through all that are listed, whatever
  // they have.
  template <class F> bool gather(RecordOf& heap, unsigned c, bool all, F&& f) {
    const u64 bit = u64{1} << c;
    if (!all && (heap.marked.load_relaxed() & bit) == 0) return false;
    heap.marked.fetch_and_relaxed(~bit);
    bool found = false, has_had = false;
    const auto offer = [&](uptr block, unsigned of) {
      const bool is_taken = f(block, of);
      has_had |= is_taken && of == c;
      return is_taken;
    };
    const auto look = [&](u32 index) {
      found = true;
      RunOf& one = at(index);
      if (!strip::is_whole(hold(one))) take_marked(one, offer);
      leave(heap, one, strip::let_go);
    };
    if (all) heap.strips.take_all(links(), look);
    else if (const u32 index = heap.strips.pop(links())) look(index);
    if (has_had) heap.marked.fetch_or_relaxed(bit);
    return found;
  }

  // A marked block of class `c` of any listed strip; 0: none is found. Looks no further than that.
  uptr find(RecordOf& heap, unsigned c) {
    const u64 bit = u64{1} << c;
    if ((heap.marked.load_relaxed() & bit) == 0) return 0;
    heap.marked.fetch_and_relaxed(~bit);
    uptr found = 0;
    heap.strips.take_all(links(), [&](u32 index) {
      RunOf& one = at(index);
      if (!strip::is_whole(hold(one)) && found == 0) found = take_one(one, c);
      leave(heap, one, strip::let_go);
    });
    if (found != 0) heap.marked.fetch_or_relaxed(bit);
    return found;
  }

  // Gives back the listed strips of which nothing is live.
  void sweep(RecordOf& heap) {
    heap.strips.take_all(links(), [&](u32 index) {
      RunOf& one = at(index);
      hold(one);
      leave(heap, one, strip::let_go);
    });
  }

  // --- Blocks that are runs of frames. -------------------------------------------------------------------------------

  // Null: no memory, or the limit. `zero`: whether it reads as zero.
  RunOf* make_whole(RecordOf& heap, std::size_t frames, std::size_t alignment, bool& zero) {
    RunOf* run = make_run(heap, kWhole, frames, alignment, zero);
    if (run != nullptr) run->word.store_relaxed(kLive);
    return run;
  }
  // False: it was freed already.
  bool free_whole(RecordOf& heap, RunOf& run) {
    u64 live = kLive;
    if (!run.word.cas_relaxed(live, 0)) return false;
    give_back(heap, run);
    return true;
  }

  // --- All. ----------------------------------------------------------------------------------------------------------

  // For who destroys the heap: all its frames; f(run) sees each run before.
  template <class F> void give_all(RecordOf& heap, F&& f) {
    heap.runs.take_all(nexts(), [&](u32 index) {
      RunOf& run = at(index);
      if (const u32 frames = run.frames.load_relaxed()) {
        f(run);
        run.frames.store_relaxed(0);
        if (run.is_whole.load_relaxed() == 0) clear_kinds(run);
        run.word.store_relaxed(0);
        backing_->give_frames(run.address.load_relaxed(), frames);
      }
      Env::step("strip.recycling");
      spare_[run.is_whole.load_relaxed()].push(index, links());
    });
    heap.strips.take_all();
    for (auto& each : heap.vacant) each.take_all();
    heap.marked.store_relaxed(0);
  }

  template <class F> void each_run(const RecordOf& heap, F&& f) const {
    heap.runs.each(nexts(), [&](u32 index) {
      if (RunOf& run = at(index); run.frames.load_relaxed() != 0) f(run);
    });
  }

 private:
  enum Sort : u32 { kStrip, kWhole };  // a record's, for ever: a whole block's has no kinds
  static constexpr u64 kLive = 1;      // the word of a whole block

  auto links() const {
    return [this](u32 index) -> auto& { return at(index).link; };
  }
  auto nexts() const {
    return [this](u32 index) -> auto& { return at(index).next; };
  }

  // Its entry was popped: what its word was.
  u64 hold(RunOf& one) {
    u64 seen = one.word.load_relaxed();
    do {
      Env::step("strip.holding");
    } while (!one.word.cas_acquire(seen, strip::popped(seen)));  // [A2] pairs with [R2]
    return seen;
  }

  // Holder only. Takes no more than it has seen counted.
  template <class F> void take_marked(RunOf& one, F&& f) {
    u64 word = one.word.load_relaxed(), taken = 0;
    const uptr end = one.address.load_relaxed() + strip::length_of(word) * strip::kGranule;
    const u64 counted = strip::marked_of(word);
    u32 bytes;
    for (uptr block = one.address.load_relaxed(); block < end; block += bytes) {
      auto& kind = kind_of(one, block);
      const u8 seen = kind.load_acquire();  // [A1] pairs with [R1]
      const unsigned c = strip::class_of(seen);
      bytes = kSizeClasses[c].size;
      if (FREEWAY_UNLIKELY(bytes == 0)) break;  // somebody uses a heap that is gone
      const bool is_counted = taken + granules_of(c) <= counted;
      if (seen < strip::kMarked || !is_counted) continue;
      kind.store_relaxed(static_cast<u8>(c));
      Env::step("strip.gathered");
      if (f(block, c)) taken += granules_of(c);
      else kind.store_relaxed(seen);
    }
    while (!one.word.cas_relaxed(word, strip::taken(word, taken))) {}
  }
  // Holder only. 0: none of class `c` is marked and counted.
  uptr take_one(RunOf& one, unsigned c) {
    u64 word = one.word.load_relaxed();
    const uptr end = one.address.load_relaxed() + strip::length_of(word) * strip::kGranule;
    if (strip::marked_of(word) < granules_of(c)) return 0;
    u32 bytes;
    for (uptr block = one.address.load_relaxed(); block < end; block += bytes) {
      auto& kind = kind_of(one, block);
      const u8 seen = kind.load_acquire();  // [A1] pairs with [R1]
      bytes = size_of(seen);
      if (FREEWAY_UNLIKELY(bytes == 0)) break;  // somebody uses a heap that is gone
      if (seen != (c | strip::kMarked)) continue;
      kind.store_relaxed(static_cast<u8>(c));
      Env::step("strip.found");
      while (!one.word.cas_relaxed(word, strip::taken(word, granules_of(c)))) {}
      return block;
    }
    return 0;
  }
  // Whoever has it open, or holds it, only: moves its word as `move` says, and does what it says then.
  template <class Move> void leave(RecordOf& heap, RunOf& one, Move&& move) {
    const u32 index = one.self.load_relaxed();
    u64 seen = one.word.load_relaxed();
    strip::Next next;
    do {
      next = move(seen);
      Env::step("strip.leaving");
    } while (!one.word.cas_acq_rel(seen, next.word));  // [R2] [A1] pairs with [A2] [R1]
    Env::step("strip.left");
    if (next.duty == strip::Duty::kRetire) {
      clear_kinds(one);
      one.word.store_relaxed(0);
      Env::step("strip.retiring");
      return give_back(heap, one);
    }
    // LAST TOUCH: one
    if (next.duty == strip::Duty::kList) heap.strips.push(index, links());
  }

  // Of a strip that is the caller's: its bytes up to the last block.
  static void clear_kinds(RunOf& one) { __builtin_memset(static_cast<void*>(&one + 1), 0, RunOf::kKinds); }

  RunOf* make_run(RecordOf& heap, Sort sort, std::size_t frames, std::size_t alignment, bool& zero) {
    if (!heap.charge(frames)) return nullptr;
    RunOf* run = take_record(heap, sort);
    Env::step("strip.record");
    const uptr address = run == nullptr ? 0 : backing_->take_frames(frames, alignment, run->self.load_relaxed(), zero);
    if (address == 0) {
      if (run != nullptr) heap.vacant[sort].push(run->self.load_relaxed(), links());
      heap.uncharge(frames);
      return nullptr;
    }
    run->address.store_relaxed(address);
    run->frames.store_relaxed(static_cast<u32>(frames));
    return run;
  }
  // The frames are the caller's, and nothing in them is anybody's.
  void give_back(RecordOf& heap, RunOf& run) {
    const u32 frames = run.frames.load_relaxed(), index = run.self.load_relaxed(), sort = run.is_whole.load_relaxed();
    run.frames.store_relaxed(0);
    backing_->give_frames(run.address.load_relaxed(), frames);
    Env::step("strip.given");
    heap.uncharge(frames);
    heap.vacant[sort].push(index, links());
  }

  // A record without frames, in the caller's hands; null: no memory.
  RunOf* take_record(RecordOf& heap, Sort sort) {
    if (const u32 index = heap.vacant[sort].pop(links())) return &at(index);
    u32 index = spare_[sort].pop(links());
    const std::size_t bytes = sizeof(RunOf) + (sort == kStrip ? RunOf::kKinds : 0);
    if (index == 0 && (index = backing_->make(static_cast<u32>(bytes / 64))) == 0) return nullptr;
    RunOf& run = at(index);
    run.self.store_relaxed(index);
    run.is_whole.store_relaxed(sort);
    run.heap.store_relaxed(reinterpret_cast<u64>(&heap));
    heap.runs.push(index, nexts());
    return &run;
  }

  Backing* backing_ = nullptr;
  TaggedStack<Env> spare_[2];  // records that are no heap's
};

}  // namespace freeway::heap
