// SPDX-License-Identifier: MIT
//
// trace.h: a trace of malloc calls as bytes, and a machine that runs it on an allocator while checking every promise.
//
// A trace is a sequence of steps of 8 bytes. *Any* bytes are a trace, so the same machine replays random traces and a
// fuzzer's input.
//   byte 0     bits 0-6: what to do (Action, modulo their number); bit 7: which of two threads does it (turns.h)
//   byte 1     which sizes (size_of), and which alignment
//   bytes 2-3  which slot (modulo their number)
//   bytes 4-7  a number, from which the size is made
//
// What is checked, of every block: it lies apart from all other live ones over its whole usable size (LiveSet); it is
// aligned; its usable size is at least what was asked for and does not change; calloc's is zero; its contents (a
// pattern over the whole usable size) are unchanged when it is freed, resized or looked at; realloc keeps them up to
// the smaller size. Of the whole: requests that no memory can meet are refused with the right errno and leave what is
// there alone; where nobody else allocates, the statistics count exactly the blocks of the trace; the audit finds no
// error.
#ifndef FREEWAY_TESTS_DIFFERENTIAL_TRACE_H
#define FREEWAY_TESTS_DIFFERENTIAL_TRACE_H

#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <string>
#include <vector>

#include "heaps.h"
#include "live_set.h"
#include "turns.h"

namespace freeway::test {

enum class Action : uint8_t {
  kMalloc,
  kFree,
  kCalloc,
  kRealloc,
  kAligned,
  kCheck,
  kTrim,
  kReallocarray,
  kSizedFree,
  kPages,      // valloc, pvalloc
  kBatch,      // into this slot and those behind it
  kFreeBatch,  // of them
  kAccount,    // statistics and audit
  kRefused,    // what no memory can meet
  kNewThread,  // the second thread ends and another takes its place (replay)
  kActions
};

struct Step {
  uint8_t action;
  uint8_t shape;
  uint16_t slot;
  uint32_t number;
};
static_assert(sizeof(Step) == 8);

inline Action action_of(const Step& step) {
  return static_cast<Action>((step.action & 0x7f) % static_cast<uint8_t>(Action::kActions));
}
inline unsigned thread_of(const Step& step) { return step.action >> 7; }

// What a shape's upper bits mean for sizes; the trace's author picks among them.
enum Shape : uint8_t { kTiny, kByteTable, kSmall, kBesideClasses, kBesidePowers, kLarge, kVeryLarge, kHuge, kShapes };

// A number of bytes of the kind that `shape` says. The logarithm is uniform where the range is wide.
inline size_t size_of(uint8_t shape, uint32_t number) {
  const auto scaled = [number](unsigned bits) {  // below 2^bits
    const unsigned length = number % (bits + 1);
    return size_t{(number >> 5) & ((uint32_t{1} << length) - 1)};
  };
  switch (shape % kShapes) {
    case kTiny: return number % 65;
    case kByteTable: return number % 1100;
    case kSmall: return scaled(15);
    case kBesideClasses: return (number % 2100) * 16 + (number >> 16) % 3 - (number % 2100 == 0 ? 0 : 1);
    case kBesidePowers: return (size_t{1} << (1 + number % 21)) + (number >> 8) % 3 - 1;
    case kLarge: return 32 * 1024 + scaled(18);
    case kVeryLarge: return scaled(23);
    default: return (number & 63) == 0 ? (size_t{256} << 20) + (number >> 6) % (64u << 20) : scaled(20);
  }
}

// A block as the oracle knows it.
struct Block {
  unsigned char* start = nullptr;
  size_t asked = 0;
  size_t usable = 0;
  uint32_t stamp = 0;
  size_t alignment = 1;  // that was asked for
};

// Patterns. Up to 64 KiB every byte is written and looked at; of bigger blocks the first and last 4 KiB, and 64 bytes
// at each frame.
namespace pattern {

inline constexpr size_t kWhole = 64 << 10;
inline constexpr size_t kEnd = 4 << 10;
inline constexpr size_t kFrame = 64 << 10;
inline constexpr size_t kProbe = 64;

inline uint64_t word(uint32_t stamp, size_t offset) {
  return (uint64_t{stamp} + 1) * 0x9e3779b97f4a7c15 ^ offset * 0xd6e8feb86659fd93;
}

inline void write(unsigned char* start, size_t from, size_t to, uint32_t stamp) {
  for (size_t at = from; at < to; at += 8) {
    const uint64_t value = word(stamp, at);
    if (to - at >= sizeof value) memcpy(start + at, &value, sizeof value);
    else memcpy(start + at, &value, to - at);
  }
}
// The offset of the first byte in [from, to) that differs from the pattern, or `to`.
inline size_t compare(const unsigned char* start, size_t from, size_t to, uint32_t stamp) {
  for (size_t at = from; at < to; at += 8) {
    const uint64_t value = word(stamp, at);
    uint64_t there;
    if (to - at >= sizeof there) {
      memcpy(&there, start + at, sizeof there);
      if (there == value) continue;
    }
    const size_t length = to - at < 8 ? to - at : 8;
    if (memcmp(start + at, &value, length) == 0) continue;
    for (size_t i = 0; i < length; ++i)
      if (start[at + i] != reinterpret_cast<const unsigned char*>(&value)[i]) return at + i;
  }
  return to;
}

// Calls action(from, to) for each part of a block of `size` bytes that carries the pattern; stops when it returns
// false. The parts do not depend on anything but size and start at multiples of 8.
template <class Part> bool each_part(size_t size, Part part) {
  if (size <= kWhole) return part(size_t{0}, size);
  for (size_t at = 0; at + kFrame < size; at += kFrame)
    if (!part(at, at + (at == 0 ? kEnd : kProbe))) return false;
  return part((size - kEnd) & ~size_t{7}, size);
}

}  // namespace pattern

// Runs steps on `Heap` for one thread. All machines of a test share one LiveSet.
template <class Heap> class TraceMachine {
 public:
  struct Limits {
    size_t slots = 1024;
    size_t live_bytes = size_t{64} << 20;  // beyond this, sizes are cut to below 1 KiB
    bool huge = false;                     // whether blocks over 256 MiB may be asked for
    bool alone = false;                    // whether nobody else in the process allocates meanwhile
  };

  TraceMachine(LiveSet& live, uint32_t first_stamp, Limits limits)
      : live_(live), limits_(limits), stamp_(first_stamp), slots_(limits.slots) {
    rebase();
  }

  // False: a promise was broken; fault() says which. The machine must not be used any further then.
  bool run(const Step& step) {
    Block& slot = slots_[step.slot % slots_.size()];
    ++steps_;
    switch (action_of(step)) {
      case Action::kMalloc: return vacate(slot) && fill_slot(slot, asked_size(step), 16, kPlain);
      case Action::kCalloc: return vacate(slot) && fill_slot(slot, asked_size(step), 16, kZeroed);
      case Action::kAligned: {
        const size_t alignment = size_t{1} << ((step.number >> 24) % (step.shape >= 250 ? 23 : 14));
        return vacate(slot) && fill_slot(slot, asked_size(step), alignment, Way(kAlignedAlloc + step.shape % 3));
      }
      case Action::kPages:
        return vacate(slot) && fill_slot(slot, asked_size(step), page_size(), step.shape % 2 == 0 ? kValloc : kPvalloc);
      case Action::kRealloc: return resize(slot, asked_size(step), 0);
      case Action::kReallocarray: {
        const size_t count = 1 + (step.number >> 20) % 64;
        return resize(slot, (asked_size(step) + count - 1) / count * count, count);
      }
      case Action::kFree: return vacate(slot);
      case Action::kSizedFree: return vacate(slot, true);
      case Action::kBatch: return fill_batch(step);
      case Action::kFreeBatch: return free_batch(step);
      case Action::kAccount: return accounts_agree();
      case Action::kRefused: return impossible_is_refused(slot, step);
      case Action::kCheck: return slot.start == nullptr || intact(slot, "looked at");
      case Action::kTrim:
        if (step.number % 64 == 0) Heap::trim();
        return true;
      default: return true;
    }
  }

  // Frees all.
  bool finish() {
    for (Block& slot : slots_)
      if (!vacate(slot)) return false;
    return accounts_agree();
  }

  // From here on the statistics are compared with what is there now: somebody else allocated or freed.
  void rebase() {
    if (limits_.alone) others_ = Heap::stats().live_blocks - blocks_;
  }

  // For handing blocks to another thread's machine: takes the block out of a slot; puts one into a slot, freeing what
  // was there.
  Block take(size_t slot) {
    Block block = slots_[slot % slots_.size()];
    slots_[slot % slots_.size()] = {};
    live_bytes_ -= block.usable;
    blocks_ -= block.start != nullptr;
    return block;
  }
  bool put(size_t slot, const Block& block) {
    Block& place = slots_[slot % slots_.size()];
    if (!vacate(place)) return false;
    place = block;
    live_bytes_ += block.usable;
    blocks_ += block.start != nullptr;
    return intact(place, "received");
  }

  const std::string& fault() const { return fault_; }
  size_t live_bytes() const { return live_bytes_; }
  size_t steps() const { return steps_; }

 private:
  enum Way { kPlain, kZeroed, kAlignedAlloc, kMemalign, kPosixMemalign, kValloc, kPvalloc };
  static constexpr size_t kMostInBatch = 256;
  static constexpr size_t kBatchBytes = size_t{1} << 20;

  static size_t page_size() { return static_cast<size_t>(sysconf(_SC_PAGESIZE)); }

  size_t asked_size(const Step& step) const {
    size_t size = size_of(step.shape, step.number);
    if (size > limits_.live_bytes && !limits_.huge) size %= 1 << 20;
    if (live_bytes_ > limits_.live_bytes && size < (size_t{256} << 20)) size %= 1024;
    if (live_bytes_ > (size_t{1} << 30)) size %= 1024;  // some huge ones are alive already
    return size;
  }

  [[nodiscard]] bool broken(const char* promise, const Block& block, size_t detail = 0) {
    char text[256];
    snprintf(text, sizeof text, "step %zu: %s (block %p, asked %zu, usable %zu, detail %zu)", steps_, promise,
             static_cast<void*>(block.start), block.asked, block.usable, detail);
    fault_ = text;
    return false;
  }

  bool fill_slot(Block& slot, size_t size, size_t alignment, Way way) {
    void* pointer = nullptr;
    switch (way) {
      case kPlain: pointer = Heap::malloc(size); break;
      case kZeroed: pointer = stamp_ % 2 == 0 ? Heap::calloc(1, size) : Heap::calloc(size, 1); break;
      case kAlignedAlloc: pointer = Heap::aligned_alloc(alignment, size); break;
      case kMemalign: pointer = Heap::memalign(alignment, size); break;
      case kPosixMemalign:
        if (alignment < sizeof(void*)) alignment = sizeof(void*);
        if (Heap::posix_memalign(&pointer, alignment, size) != 0) pointer = nullptr;
        break;
      case kValloc: pointer = Heap::valloc(size); break;
      case kPvalloc:
        pointer = Heap::pvalloc(size);
        size = (size + page_size() - 1) / page_size() * page_size();
        break;
    }
    slot = {static_cast<unsigned char*>(pointer), size, 0, stamp_++, alignment};
    if (pointer == nullptr) return broken("refused", slot);
    if (reinterpret_cast<uintptr_t>(pointer) % (alignment < 16 ? 16 : alignment) != 0)
      return broken("not aligned", slot, alignment);
    if (!enter(slot)) return false;
    if (way == kZeroed && !zeroed(slot)) return false;
    return write(slot);
  }

  // Notes a block that has just been handed out.
  bool enter(Block& slot) {
    slot.usable = Heap::usable_size(slot.start);
    if (slot.usable < slot.asked) return broken("usable size is less than asked", slot);
    if (slot.usable > 0 && !live_.add(slot.start, slot.usable)) return broken("overlaps a live block", slot);
    live_bytes_ += slot.usable;
    ++blocks_;
    return true;
  }
  // Notes that a block is about to be given back. Before the call that does so: afterwards its memory may be anybody's.
  bool leave(Block& slot) {
    if (slot.usable > 0 && !live_.remove(slot.start, slot.usable)) return broken("the oracle lost it", slot);
    live_bytes_ -= slot.usable;
    --blocks_;
    return true;
  }

  bool zeroed(const Block& slot) {
    return pattern::each_part(slot.asked, [&](size_t from, size_t to) {
      for (size_t at = from; at < to; ++at)
        if (slot.start[at] != 0) return broken("calloc gave a byte that is not 0", slot, at);
      return true;
    });
  }
  bool write(Block& slot) {
    return pattern::each_part(slot.usable, [&](size_t from, size_t to) {
      pattern::write(slot.start, from, to, slot.stamp);
      return true;
    });
  }
  bool intact(const Block& slot, const char* when) {
    if (Heap::usable_size(slot.start) != slot.usable)
      return broken("its usable size changed", slot, Heap::usable_size(slot.start));
    const bool same = pattern::each_part(slot.usable, [&](size_t from, size_t to) {
      const size_t at = pattern::compare(slot.start, from, to, slot.stamp);
      return at == to || broken("contents changed", slot, at);
    });
    if (!same) fault_ += std::string(", found when ") + when;
    return same;
  }

  bool vacate(Block& slot, bool say_size = false) {
    if (slot.start == nullptr) return true;
    if (!intact(slot, "freed") || !leave(slot)) return false;
    if (!say_size) Heap::free(slot.start);
    else if (slot.alignment <= 16 && slot.asked % 2 == 0) Heap::free_sized(slot.start, slot.asked);
    else Heap::free_aligned_sized(slot.start, slot.alignment, slot.asked);
    slot = {};
    return true;
  }

  // `count`: by reallocarray of so many; 0: by realloc.
  bool resize(Block& slot, size_t size, size_t count) {
    const Block old = slot;
    if (old.start != nullptr && (!intact(old, "resized") || !leave(slot))) return false;
    void* pointer = count == 0 ? Heap::realloc(old.start, size) : Heap::reallocarray(old.start, count, size / count);
    if (old.start != nullptr && size == 0) {  // glibc's rule
      slot = {};
      return pointer == nullptr || broken("realloc to 0 gave a block", old);
    }
    slot = {static_cast<unsigned char*>(pointer), size, 0, stamp_++};
    if (pointer == nullptr) return broken("realloc refused", slot);
    if (reinterpret_cast<uintptr_t>(pointer) % 16 != 0) return broken("realloc: not aligned", slot);
    if (!enter(slot)) return false;
    // What both sizes promise to keep; the old pattern covers the old usable size, of which asked bytes are kept.
    const size_t kept = old.asked < size ? old.asked : size;
    const bool same = pattern::each_part(old.usable, [&](size_t from, size_t to) {
      if (to > kept) to = kept;
      const size_t at = from < to ? pattern::compare(slot.start, from, to, old.stamp) : to;
      return at == to || broken("realloc lost contents", slot, at);
    });
    return same && write(slot);
  }

  // The slot that lies `further` behind the step's.
  Block& slot_behind(const Step& step, size_t further) { return slots_[(step.slot + further) % slots_.size()]; }
  size_t batch_length(const Step& step) const {
    const size_t length = 1 + (step.number >> 24) % kMostInBatch;
    return length < slots_.size() ? length : slots_.size();
  }

  bool fill_batch(const Step& step) {
    const size_t size = asked_size(step) % kBatchBytes;
    size_t count = batch_length(step);
    if (count * size > kBatchBytes) count = kBatchBytes / size;
    for (size_t i = 0; i < count; ++i)
      if (!vacate(slot_behind(step, i))) return false;
    void* blocks[kMostInBatch];
    const size_t got = Heap::malloc_batch(size, count, blocks);
    for (size_t i = 0; i < got; ++i) {
      Block& slot = slot_behind(step, i);
      slot = {static_cast<unsigned char*>(blocks[i]), size, 0, stamp_++};
      if (reinterpret_cast<uintptr_t>(blocks[i]) % 16 != 0) return broken("batch: not aligned", slot);
      if (!enter(slot) || !write(slot)) return false;
    }
    return got == count || broken("batch refused", {}, got);
  }
  bool free_batch(const Step& step) {
    const size_t count = batch_length(step);
    void* blocks[kMostInBatch];
    for (size_t i = 0; i < count; ++i) {
      Block& slot = slot_behind(step, i);
      blocks[i] = slot.start;
      if (slot.start != nullptr && (!intact(slot, "freed in a batch") || !leave(slot))) return false;
      slot = {};
    }
    Heap::free_batch(count, blocks);
    return true;
  }

  // Exact while no other thread is inside the allocator.
  bool accounts_agree() {
    if (!limits_.alone) return true;
    const freeway_stats_t stats = Heap::stats();
    if (stats.live_blocks - others_ != blocks_)
      return broken("the statistics count other blocks than there are", {}, stats.live_blocks - others_ - blocks_);
    if (stats.live < live_bytes_) return broken("the statistics count fewer bytes than are live", {}, stats.live);
    const freeway_audit_t audit = Heap::audit();
    if (audit.errors != 0) return broken("the audit found errors", {}, audit.errors);
    return audit.frames_stranded == 0 || broken("frames are stranded", {}, audit.frames_stranded);
  }

  // Sizes of PTRDIFF_MAX and more, wholly overflowing products, alignments that are none.
  bool impossible_is_refused(Block& slot, const Step& step) {
    // volatile: else the compiler warns of what is done here on purpose.
    const volatile size_t size =
        step.number % 2 == 0 ? size_t{PTRDIFF_MAX} + step.number / 2 : SIZE_MAX - step.number / 2;
    const size_t bad_alignment = size_t{step.number} * 2 + 3;
    void* pointer = nullptr;
    int expected = ENOMEM;
    errno = 0;
    switch (step.shape % 8) {
      case 0: pointer = Heap::malloc(size); break;
      case 1: pointer = Heap::calloc(2 + step.number % 7, size); break;
      case 2: pointer = Heap::realloc(slot.start, size); break;
      case 3: pointer = Heap::reallocarray(slot.start, 2 + step.number % 7, size); break;
      case 4: pointer = Heap::aligned_alloc(size_t{1} << (step.number >> 8) % 63, size); break;
      case 5:
        expected = EINVAL;
        pointer = Heap::aligned_alloc(bad_alignment, 100);
        break;
      case 6:
        expected = 0;
        if (Heap::posix_memalign(&pointer, bad_alignment, 100) != EINVAL) return broken("not refused", slot, 6);
        break;
      default: {
        void* blocks[2];
        if (Heap::malloc_batch(size, 2, blocks) != 0) return broken("not refused", slot, 7);
      }
    }
    if (pointer != nullptr) return broken("not refused", slot, step.shape % 8);
    if (errno != expected) return broken("refused with another errno", slot, static_cast<size_t>(errno));
    return slot.start == nullptr || intact(slot, "refused to be resized");
  }

  LiveSet& live_;
  const Limits limits_;
  uint32_t stamp_;
  size_t live_bytes_ = 0;
  size_t blocks_ = 0;  // live ones in the slots
  size_t others_ = 0;  // what the statistics count beside them
  size_t steps_ = 0;
  std::vector<Block> slots_;
  std::string fault_;
};

// How a replay went.
struct Replayed {
  std::string fault;  // "" or what was broken
  size_t steps = 0;
};

// Runs any bytes as a trace (a rest of less than a step is ignored), each step by the thread that it names, and frees
// all. Nobody else in the process allocates meanwhile.
template <class Heap> Replayed replay(const uint8_t* bytes, size_t size, Turns& turns) {
  constexpr uint32_t kRarely = 8;  // what starts a thread or walks all of the heap takes longer than anything else
  static LiveSet live;
  TraceMachine<Heap> machine(live, 1, {.alone = true});
  const size_t steps = size / sizeof(Step);
  const auto step_at = [&](size_t i) {
    Step step;
    memcpy(&step, bytes + i * sizeof step, sizeof step);
    return step;
  };
  // The steps from `first` on that are the same thread's.
  bool sound = true;
  const auto run_from = [&](size_t first) {
    const unsigned thread = thread_of(step_at(first));
    size_t i = first;
    for (; sound && i < steps; ++i) {
      const Step step = step_at(i);
      const bool renews = action_of(step) == Action::kNewThread;
      if (thread_of(step) != thread || (renews && i > first)) break;
      if (renews || (action_of(step) == Action::kAccount && step.number % kRarely != 0)) continue;
      sound = machine.run(step);
    }
    return i;
  };
  for (size_t i = 0; sound && i < steps;) {
    const Step step = step_at(i);
    if (action_of(step) == Action::kNewThread && step.number % kRarely == 0) {
      turns.replace_second();
      machine.rebase();
    }
    turns.run(thread_of(step), [&] { i = run_from(i); });
  }
  if (sound) machine.finish();
  return {machine.fault(), machine.steps()};
}

}  // namespace freeway::test

#endif  // FREEWAY_TESTS_DIFFERENTIAL_TRACE_H
