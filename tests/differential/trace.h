// SPDX-License-Identifier: MIT
//
// trace.h: a trace of malloc calls as bytes, and a machine that runs it on an allocator while checking every promise.
//
// A trace is a sequence of steps of 8 bytes. *Any* bytes are a trace, so the same machine replays random traces and a
// fuzzer's input.
//   byte 0     what to do (Action, modulo their number)
//   byte 1     which sizes (size_of), and which alignment
//   bytes 2-3  which slot (modulo their number)
//   bytes 4-7  a number, from which the size is made
//
// What is checked, of every block: it lies apart from all other live ones over its whole usable size (LiveSet); it is
// aligned; its usable size is at least what was asked for and does not change; calloc's is zero; its contents (a
// pattern over the whole usable size) are unchanged when it is freed, resized or looked at; realloc keeps them up to
// the smaller size.
#ifndef FREEWAY_TESTS_DIFFERENTIAL_TRACE_H
#define FREEWAY_TESTS_DIFFERENTIAL_TRACE_H

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <string>
#include <vector>

#include "live_set.h"

namespace freeway::test {

enum class Action : uint8_t { kMalloc, kFree, kCalloc, kRealloc, kAligned, kCheck, kTrim, kActions };

struct Step {
  uint8_t action;
  uint8_t shape;
  uint16_t slot;
  uint32_t number;
};
static_assert(sizeof(Step) == 8);

// What a shape's upper bits mean for sizes; the trace's author picks among them.
enum Shape : uint8_t { kTiny, kByteTable, kSmall, kBesideClasses, kBesidePowers, kLarge, kVeryLarge, kHuge, kShapes };

// A number of bytes of the kind that `shape` says. The logarithm is uniform where the range is wide.
inline size_t size_of(uint8_t shape, uint32_t number) {
  const auto scaled = [number](unsigned bits) {  // below 2^bits
    const unsigned length = number % (bits + 1);
    return size_t{(number >> 5) & ((uint32_t{1} << length) - 1)};
  };
  switch (shape % kShapes) {
    case kTiny:
      return number % 65;
    case kByteTable:
      return number % 1100;
    case kSmall:
      return scaled(15);
    case kBesideClasses:
      return (number % 2100) * 16 + (number >> 16) % 3 - (number % 2100 == 0 ? 0 : 1);
    case kBesidePowers:
      return (size_t{1} << (1 + number % 21)) + (number >> 8) % 3 - 1;
    case kLarge:
      return 32 * 1024 + scaled(18);
    case kVeryLarge:
      return scaled(23);
    default:
      return (number & 63) == 0 ? (size_t{256} << 20) + (number >> 6) % (64u << 20) : scaled(20);
  }
}

// A block as the oracle knows it.
struct Block {
  unsigned char* start = nullptr;
  size_t asked = 0;
  size_t usable = 0;
  uint32_t stamp = 0;
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
    memcpy(start + at, &value, to - at < 8 ? to - at : 8);
  }
}
// The offset of the first byte in [from, to) that differs from the pattern, or `to`.
inline size_t compare(const unsigned char* start, size_t from, size_t to, uint32_t stamp) {
  for (size_t at = from; at < to; at += 8) {
    const uint64_t value = word(stamp, at);
    const size_t length = to - at < 8 ? to - at : 8;
    if (memcmp(start + at, &value, length) == 0) continue;
    for (size_t i = 0; i < length; ++i)
      if (start[at + i] != reinterpret_cast<const unsigned char*>(&value)[i]) return at + i;
  }
  return to;
}

// Calls action(from, to) for each part of a block of `size` bytes that carries the pattern; stops when it returns
// false. The parts do not depend on anything but size and start at multiples of 8.
template <class Part>
bool each_part(size_t size, Part part) {
  if (size <= kWhole) return part(size_t{0}, size);
  for (size_t at = 0; at + kFrame < size; at += kFrame)
    if (!part(at, at + (at == 0 ? kEnd : kProbe))) return false;
  return part((size - kEnd) & ~size_t{7}, size);
}

}  // namespace pattern

// Runs steps on `Heap` for one thread. All machines of a test share one LiveSet.
template <class Heap>
class TraceMachine {
 public:
  struct Limits {
    size_t slots = 1024;
    size_t live_bytes = size_t{64} << 20;  // beyond this, sizes are cut to below 1 KiB
    bool huge = false;                     // whether blocks over 256 MiB may be asked for
  };

  TraceMachine(LiveSet& live, uint32_t first_stamp, Limits limits)
      : live_(live), limits_(limits), stamp_(first_stamp), slots_(limits.slots) {}

  // False: a promise was broken; fault() says which. The machine must not be used any further then.
  bool run(const Step& step) {
    Block& slot = slots_[step.slot % slots_.size()];
    ++steps_;
    switch (static_cast<Action>(step.action % uint8_t(Action::kActions))) {
      case Action::kMalloc:
        return vacate(slot) && fill_slot(slot, asked_size(step), 16, kPlain);
      case Action::kCalloc:
        return vacate(slot) && fill_slot(slot, asked_size(step), 16, kZeroed);
      case Action::kAligned: {
        const size_t alignment = size_t{1} << ((step.number >> 24) % (step.shape >= 250 ? 23 : 14));
        return vacate(slot) && fill_slot(slot, asked_size(step), alignment, Way(kAlignedAlloc + step.shape % 3));
      }
      case Action::kRealloc:
        return resize(slot, asked_size(step));
      case Action::kFree:
        return vacate(slot);
      case Action::kCheck:
        return slot.start == nullptr || intact(slot, "looked at");
      case Action::kTrim:
        if (step.number % 64 == 0) Heap::trim();
        return true;
      default:
        return true;
    }
  }

  // Frees all.
  bool finish() {
    for (Block& slot : slots_)
      if (!vacate(slot)) return false;
    return true;
  }

  // For handing blocks to another thread's machine: takes the block out of a slot; puts one into a slot, freeing what
  // was there.
  Block take(size_t slot) {
    Block block = slots_[slot % slots_.size()];
    slots_[slot % slots_.size()] = {};
    live_bytes_ -= block.usable;
    return block;
  }
  bool put(size_t slot, const Block& block) {
    Block& place = slots_[slot % slots_.size()];
    if (!vacate(place)) return false;
    place = block;
    live_bytes_ += block.usable;
    return intact(place, "received");
  }

  const std::string& fault() const { return fault_; }
  size_t live_bytes() const { return live_bytes_; }

 private:
  enum Way { kPlain, kZeroed, kAlignedAlloc, kMemalign, kPosixMemalign };

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
      case kPlain:
        pointer = Heap::malloc(size);
        break;
      case kZeroed:
        pointer = stamp_ % 2 == 0 ? Heap::calloc(1, size) : Heap::calloc(size, 1);
        break;
      case kAlignedAlloc:
        pointer = Heap::aligned_alloc(alignment, size);
        break;
      case kMemalign:
        pointer = Heap::memalign(alignment, size);
        break;
      case kPosixMemalign:
        if (alignment < sizeof(void*)) alignment = sizeof(void*);
        if (Heap::posix_memalign(&pointer, alignment, size) != 0) pointer = nullptr;
        break;
    }
    slot = {static_cast<unsigned char*>(pointer), size, 0, stamp_++};
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
    return true;
  }
  // Notes that a block is about to be given back. Before the call that does so: afterwards its memory may be anybody's.
  bool leave(Block& slot) {
    if (slot.usable > 0 && !live_.remove(slot.start, slot.usable)) return broken("the oracle lost it", slot);
    live_bytes_ -= slot.usable;
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

  bool vacate(Block& slot) {
    if (slot.start == nullptr) return true;
    if (!intact(slot, "freed") || !leave(slot)) return false;
    Heap::free(slot.start);
    slot = {};
    return true;
  }

  bool resize(Block& slot, size_t size) {
    const Block old = slot;
    if (old.start != nullptr && (!intact(old, "resized") || !leave(slot))) return false;
    void* pointer = Heap::realloc(old.start, size);
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

  LiveSet& live_;
  const Limits limits_;
  uint32_t stamp_;
  size_t live_bytes_ = 0;
  size_t steps_ = 0;
  std::vector<Block> slots_;
  std::string fault_;
};

// Runs any bytes as a trace (a rest of less than a step is ignored) and frees all. "" or what was broken.
template <class Heap>
std::string replay(const uint8_t* bytes, size_t size) {
  LiveSet live;
  TraceMachine<Heap> machine(live, 1, {});
  for (size_t at = 0; at + sizeof(Step) <= size; at += sizeof(Step)) {
    Step step;
    memcpy(&step, bytes + at, sizeof step);
    if (!machine.run(step)) return machine.fault();
  }
  return machine.finish() ? "" : machine.fault();
}

}  // namespace freeway::test

#endif  // FREEWAY_TESTS_DIFFERENTIAL_TRACE_H
