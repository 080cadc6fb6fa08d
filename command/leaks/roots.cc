// SPDX-License-Identifier: MIT
#include "leaks/roots.h"

#include <algorithm>

#include "harden/births.h"
#include "harden/guard_word.h"
#include "heap/registers.h"
#include "os/window.h"
#include "pages/page_map.h"

namespace freeway_command {

using freeway::FrameInfo;
using std::uint32_t, std::uint64_t;

namespace {

class Ranges {
 public:
  void add(uint64_t begin, uint64_t bytes) {
    if (begin != 0 && bytes != 0 && begin + bytes > begin) all_.push_back({begin, begin + bytes});
  }
  void add(const Range& range) { add(range.begin, range.end - range.begin); }
  // By address, without overlaps.
  std::vector<Range> merged() const {
    std::vector<Range> sorted = all_, merged;
    std::sort(sorted.begin(), sorted.end(), [](const Range& a, const Range& b) { return a.begin < b.begin; });
    for (const Range& each : sorted) {
      if (!merged.empty() && each.begin <= merged.back().end) merged.back().end = std::max(merged.back().end, each.end);
      else merged.push_back(each);
    }
    return merged;
  }

 private:
  std::vector<Range> all_;
};

// What is in `from` and not in `what`; both by address, without overlaps.
std::vector<Range> without(const std::vector<Range>& from, const std::vector<Range>& what) {
  std::vector<Range> left;
  std::size_t i = 0;
  for (const Range& each : from) {
    uint64_t at = each.begin;
    while (i < what.size() && what[i].end <= at) ++i;
    for (std::size_t j = i; j < what.size() && what[j].begin < each.end; ++j) {
      if (what[j].begin > at) left.push_back({at, what[j].begin});
      at = std::max(at, what[j].end);
    }
    if (at < each.end) left.push_back({at, each.end});
  }
  return left;
}

// Bytes of a slab, with its beds if blocks rest.
uint64_t slab_bytes(const Heap& heap) {
  const freeway_debug_t& d = heap.layout();
  uint64_t bytes = d.slab_bytes;
  for (unsigned c = 1; c < d.class_count; ++c) {
    const freeway_debug_class_t& k = d.classes[c];
    bytes = std::max({bytes, (uint64_t{k.small} + k.small_slots) * 8, (uint64_t{k.big} + k.big_slots) * 8});
    if (heap.word(d.heap_harden) != 0)
      bytes = std::max(bytes, (k.beds + (uint64_t{d.beds} + 1) * (k.bed_slots + 1)) * 8);
  }
  return freeway::align_up(bytes, heap.description().frame_bytes());
}

// The part of the address space that is Freeway's alone (os/window.h), and the word that says where it is: which is the
// address of the first block, too.
void add_window(const Heap& heap, Ranges& own) {
  namespace window = freeway::window;
  const auto at = reinterpret_cast<uint64_t>(heap.layout().window);
  uint64_t word = 0;
  read_or_throw(heap.memory(), at, &word, sizeof(word));
  const auto bits = static_cast<unsigned>(word % window::kGranule);
  own.add(at, sizeof(word));
  if (bits >= window::kLeastBits && bits <= window::kMostBits) own.add(word - bits, window::bytes(bits));
}

// Blocks, and Freeway's tables: in many of these lie addresses of blocks that nobody else has.
void add_own(const Heap& heap, const Samples& samples, Ranges& own) {
  const freeway_debug_t& d = heap.layout();
  const auto address_of = [](const void* object) { return reinterpret_cast<uint64_t>(object); };
  add_window(heap, own);
  for (const ArenaView& each : heap.arenas()) own.add(each.base(), each.bytes());
  for (const auto& [address, entry] : heap.outside())
    if (const FrameInfo info{entry}; info.kind() == FrameInfo::kLarge || info.kind() == FrameInfo::kHuge)
      own.add(address, info.frames() * heap.description().frame_bytes());
  heap.walk().each_segment([&](uint32_t, uint64_t begin, uint64_t bytes) { own.add(begin, bytes); });
  for (const SlabView& each : heap.slabs()) own.add(each.address, slab_bytes(heap));
  own.add(heap.guard_begin(), heap.guard_bytes());
  own.add(address_of(d.heap), d.heap_bytes);
  own.add(address_of(d.hot), d.hot_bytes);
  own.add(address_of(d.guard_slots) + d.guard_address.offset, uint64_t{d.guard_address.stride} * d.guard_slot_count);
  own.add(heap.word(d.heap_map_infos), heap.word(d.heap_map_frames) * 4);
  own.add(heap.word(d.heap_births_place), freeway::birth::place_bytes(heap.word(d.heap_births_bytes)));
  heap.walk().each_word(d.heap_map_roots, [&](uint32_t, uint64_t leaf) { own.add(leaf, uint64_t{4} << d.leaf_shift); });
  samples.each_table([&](uint64_t begin, uint64_t bytes) { own.add(begin, bytes); });
}

// Frames of heaps of the program (freeway/heap.h), which lie in arenas, and their guarded blocks: to blocks of malloc
// they are as variables. Which of their own blocks are live is not asked: what free ones hold counts, too.
void add_heaps(const Heap& heap, Ranges& heaps) {
  const uint64_t frame_bytes = heap.description().frame_bytes();
  const auto add = [&](uint64_t address, uint32_t entry) {
    if (FrameInfo{entry}.is_of_heap()) heaps.add(address, frame_bytes);
  };
  for (const GuardSlot& each : heap.guard_slots())
    if (freeway::guard::slot_word::is_live(each.word) && each.birth.owner != 0)
      heaps.add(each.birth.address, each.birth.size);
  if (!heap.is_started()) return;
  const ArenaView& primary = heap.arenas()[0];
  const auto entries = heap.entries(primary.base(), primary.committed() / frame_bytes);
  for (std::size_t i = 0; i < entries.size(); ++i) add(primary.base() + i * frame_bytes, entries[i]);
  for (const auto& [address, entry] : heap.outside()) add(address, entry);
}

class Stacks {
 public:
  Stacks(const Memory& memory, const std::vector<Thread>& threads) : memory_(memory), threads_(threads) {}

  // Adds what of stacks holds nothing.
  void add_unused(Ranges& unused) {
    const auto& mappings = memory_.mappings();
    for (std::size_t i = 0; i < mappings.size(); ++i) {
      if (!mappings[i].writable || !mappings[i].readable || !mappings[i].file.empty()) continue;
      const bool has_fence = i > 0 && mappings[i - 1].end == mappings[i].begin && !mappings[i - 1].readable;
      const bool is_main = memory_.main_stack() - mappings[i].begin < mappings[i].end - mappings[i].begin;
      // gcore leaves inaccessible memory out.
      if (has_fence || is_main || (!memory_.is_live() && i > 0 && mappings[i - 1].end < mappings[i].begin))
        add_unused_of(mappings[i], has_fence || is_main, unused);
    }
  }

 private:
  void add_unused_of(const Mapping& mapping, bool is_stack, Ranges& unused) const {
    const uint64_t bytes = mapping.end - mapping.begin;
    Range stack{mapping.begin, mapping.end};
    const bool is_known = find_bounds(mapping, stack);
    bool is_used = false;
    for (const Thread& each : threads_) {
      is_used |= each.stack - stack.begin < stack.end - stack.begin || each.own - stack.begin < stack.end - stack.begin;
      if (each.stack - mapping.begin >= bytes || each.stack >= stack.end || (!is_stack && !is_known)) continue;
      is_used = true;
      if (each.stack - stack.begin > kRedZone) unused.add({stack.begin, each.stack - kRedZone});
    }
    if (is_known && !is_used) unused.add(stack);
  }

  // glibc keeps stacks of threads that have ended, for others to come, with what lies on them. It knows each by a
  // record at its end: {begin, bytes, bytes of the fence, ...}. The mapping begins behind the fence.
  bool find_bounds(const Mapping& mapping, Range& stack) const {
    constexpr uint64_t kFurthest = 64 << 10;  // from the record to the stack's end
    bool is_known = false;
    memory_.each_filled(mapping.begin, mapping.end, [&](uint64_t from, uint64_t to) {
      is_known =
          is_known || any_piece(from, to, kPiece, [&](uint64_t at, uint64_t bytes) {
            std::vector<uint64_t> words(std::min(bytes + 16, to - at) / 8);  // the next piece's first two words, too
            if (!memory_.read(at, words.data(), words.size() * 8)) return false;
            for (std::size_t i = 0; i + 2 < words.size(); ++i) {
              const uint64_t here = at + i * 8, length = words[i + 1], fence = words[i + 2], end = words[i] + length;
              if (fence == 0 || fence >= length || words[i] + fence != mapping.begin || end > mapping.end ||
                  end <= here || end - here > kFurthest)
                continue;
              stack.end = end;
              return true;
            }
            return false;
          });
    });
    return is_known;
  }

  static constexpr uint64_t kPiece = 1 << 20;
  const Memory& memory_;
  const std::vector<Thread>& threads_;
};

}  // namespace

std::vector<Range> roots_of(const Heap& heap, const Samples& samples, const std::vector<Thread>& threads) {
  Ranges writable, others, heaps;
  for (const Mapping& each : heap.memory().mappings())
    if (each.writable && each.readable) writable.add({each.begin, each.end});
  add_own(heap, samples, others);
  Stacks(heap.memory(), threads).add_unused(others);
  add_heaps(heap, heaps);
  return without(writable.merged(), without(others.merged(), heaps.merged()));
}

}  // namespace freeway_command
