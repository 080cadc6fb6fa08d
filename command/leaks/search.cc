// SPDX-License-Identifier: MIT
#include "leaks/search.h"

#include <algorithm>
#include <bit>

#include "harden/guard_word.h"
#include "pages/page_map.h"

namespace freeway_command {

using freeway::FrameInfo;
using std::uint32_t, std::uint64_t;

Search::Search(const Heap& heap) : memory_(heap.memory()), frame_shift_(heap.layout().frame_shift) {
  add_superblocks(heap);
  const uint64_t frame_bytes = heap.description().frame_bytes();
  if (heap.is_started()) {
    const ArenaView& primary = heap.arenas()[0];
    const auto entries = heap.entries(primary.base(), primary.committed() >> frame_shift_);
    for (std::size_t i = 0; i < entries.size(); ++i) add_large(heap, primary.base() + i * frame_bytes, entries[i]);
    arena_ = primary.base();
    by_frame_.resize(entries.size());
  }
  for (const auto& [address, entry] : heap.outside())
    if (address - arena_ >= by_frame_.size() << frame_shift_) add_large(heap, address, entry);
  for (const GuardSlot& each : heap.guard_slots())
    if (freeway::guard::slot_word::is_live(each.word) && each.birth.owner == 0) {
      const uint64_t bytes = std::max<uint64_t>(each.birth.size, 1);
      add(each.birth.address, bytes, bytes, 1);
      live_[areas_.back().bits] = 1;
    }
  sort_areas();
  // Cached blocks are live to their superblock.
  for (const CachedBlock& each : heap.cached()) {
    const Block block = block_at(each.address);
    if (block.area == kNone || areas_[block.area].block_bytes != heap.description().size_class(each.size_class).size)
      continue;
    live_[areas_[block.area].bits + block.index / 64] &= ~(uint64_t{1} << (block.index % 64));
  }
  reached_.resize(live_.size());
  waiting_.resize(live_.size());
  held_.resize(live_.size());
  is_queued_.resize(areas_.size());
}

void Search::add(uint64_t begin, uint64_t bytes, uint64_t block_bytes, uint32_t blocks) {
  areas_.push_back({begin, begin + bytes, block_bytes, blocks, live_.size()});
  live_.resize(live_.size() + (blocks + 63) / 64);
}

void Search::add_superblocks(const Heap& heap) {
  for (const Superblock& each : heap.superblocks()) {
    const freeway::SizeClass& k = heap.description().size_class(each.size_class);
    if (heap.superblock_at(each.span) != &each) continue;  // a damaged heap: two of one place
    add(each.span, uint64_t{k.blocks} * k.size, k.size, k.blocks);
    for (uint32_t i = 0; i < k.blocks; ++i)
      if (!heap.is_free(each, i)) live_[areas_.back().bits + i / 64] |= uint64_t{1} << (i % 64);
  }
}

void Search::add_large(const Heap& heap, uint64_t address, uint32_t entry) {
  const FrameInfo info{entry};
  if (info.kind() != FrameInfo::kLarge && info.kind() != FrameInfo::kHuge) return;
  const uint64_t fence = info.is_guarded() ? heap.word(heap.layout().heap_guard_bytes) : 0;
  const uint64_t bytes = info.frames() * heap.description().frame_bytes();
  if (bytes <= fence || address + bytes < address) return;
  add(address, bytes - fence, bytes - fence, 1);
  live_[areas_.back().bits] = 1;
}

void Search::sort_areas() {
  std::sort(areas_.begin(), areas_.end(), [](const Area& a, const Area& b) { return a.begin < b.begin; });
  for (std::size_t i = 0; i < areas_.size(); ++i) {
    highest_ = std::max(highest_, areas_[i].end);
    const uint64_t first = (areas_[i].begin - arena_) >> frame_shift_,
                   last = (areas_[i].end - 1 - arena_) >> frame_shift_;
    for (uint64_t frame = first; frame <= last && frame < by_frame_.size(); ++frame)
      by_frame_[frame] = static_cast<uint32_t>(i + 1);
  }
  if (!areas_.empty()) lowest_ = areas_.front().begin;
}

Search::Block Search::block_at(uint64_t address) const {
  if (address - lowest_ >= highest_ - lowest_) return {};
  uint32_t found;
  if (const uint64_t frame = (address - arena_) >> frame_shift_; frame < by_frame_.size()) {
    if (by_frame_[frame] == 0) return {};
    found = by_frame_[frame] - 1;
  } else {
    const auto behind = std::upper_bound(areas_.begin(), areas_.end(), address,
                                         [](uint64_t wanted, const Area& area) { return wanted < area.begin; });
    if (behind == areas_.begin()) return {};
    found = static_cast<uint32_t>(behind - areas_.begin() - 1);
  }
  const Area& area = areas_[found];
  const uint64_t offset = address - area.begin;
  if (offset >= area.end - area.begin) return {};
  return {found, static_cast<uint32_t>(offset / area.block_bytes)};
}

void Search::reach(uint64_t word) {
  const Block block = block_at(word);
  if (block.area == kNone || !is_set(live_, block) || is_set(reached_, block)) return;
  set(reached_, block);
  set(waiting_, block);
  if (is_queued_[block.area]) return;
  is_queued_[block.area] = true;
  queue_.push_back(block.area);
}

// Calls f(word) for each word of [begin, end) that can be read.
template <class F> void Search::read_words(uint64_t begin, uint64_t end, F&& f) const {
  constexpr uint64_t kPiece = 1 << 20;
  memory_.each_filled(freeway::align_up(begin, 8), freeway::align_down(end, 8), [&](uint64_t from, uint64_t to) {
    std::vector<uint64_t> words;
    const auto read = [&](uint64_t at, uint64_t bytes) {
      words.resize(bytes / 8);
      if (!memory_.read(at, words.data(), words.size() * 8)) return false;
      for (const uint64_t word : words) f(word);
      return true;
    };
    any_piece(from, to, kPiece, [&](uint64_t at, uint64_t bytes) {
      // Of a piece that cannot be read at once, the pages that can.
      if (!read(at, bytes))
        any_piece(at, at + bytes, memory_.page_size(), [&](uint64_t p, uint64_t some) { return read(p, some), false; });
      return false;
    });
  });
}

// Calls f(block's index, word) for each word of the chosen blocks of an area, which is read at once as far as it is
// needed.
template <class F> void Search::each_block_words(const Area& area, const Bits& chosen, F&& f) const {
  if (area.blocks == 1) {
    if ((chosen[area.bits] & 1) != 0) read_words(area.begin, area.end, [&](uint64_t word) { f(0u, word); });
    return;
  }
  const auto is_chosen = [&](uint32_t i) { return (chosen[area.bits + i / 64] >> (i % 64) & 1) != 0; };
  uint32_t first = 0, last = area.blocks;
  while (first < area.blocks && !is_chosen(first)) ++first;
  while (last > first && !is_chosen(last - 1)) --last;
  if (first == last) return;
  const uint64_t begin = area.begin + first * area.block_bytes;
  std::vector<uint64_t> words((last - first) * area.block_bytes / 8);
  const bool at_once = memory_.read(begin, words.data(), words.size() * 8);
  for (uint32_t i = first; i < last; ++i) {
    if (!is_chosen(i)) continue;
    const uint64_t words_each = area.block_bytes / 8, from = (i - first) * words_each;
    if (!at_once)
      read_words(area.begin + i * area.block_bytes, area.begin + (i + 1) * area.block_bytes,
                 [&](uint64_t word) { f(i, word); });
    else
      for (uint64_t w = 0; w < words_each; ++w) f(i, words[from + w]);
  }
}

void Search::follow() {
  Bits chosen;
  while (!queue_.empty()) {
    const uint32_t number = queue_.back();
    queue_.pop_back();
    is_queued_[number] = false;
    Area area = areas_[number];
    const std::size_t rows = (area.blocks + 63) / 64;
    // What is reached while they are read waits for the next turn.
    const auto first = waiting_.begin() + static_cast<std::ptrdiff_t>(area.bits);
    chosen.assign(first, first + static_cast<std::ptrdiff_t>(rows));
    std::fill_n(first, rows, 0);
    area.bits = 0;
    each_block_words(area, chosen, [this](uint32_t, uint64_t word) { reach(word); });
  }
}

void Search::reach_from(const std::vector<Range>& roots) {
  for (const Range& each : roots) {
    read_words(each.begin, each.end, [this](uint64_t word) { reach(word); });
    follow();
  }
}

void Search::reach_from(const std::vector<uint64_t>& words) {
  for (const uint64_t word : words) reach(word);
  follow();
}

// As LeakSanitizer does: pointers of a block to itself do not count, and of blocks in a ring all are held.
void Search::follow_unreached() {
  Bits unreached = live_;
  for (std::size_t i = 0; i < unreached.size(); ++i) unreached[i] &= ~reached_[i];
  for (uint32_t number = 0; number < areas_.size(); ++number)
    each_block_words(areas_[number], unreached, [&](uint32_t index, uint64_t word) {
      const Block block = block_at(word);
      if (block.area == kNone || !is_set(unreached, block) || (block.area == number && block.index == index)) return;
      set(held_, block);
    });
}

Search::Found Search::look(uint64_t address) const {
  const Block block = block_at(address);
  if (block.area == kNone || !is_set(live_, block)) return Found::kNoBlock;
  if (is_set(reached_, block)) return Found::kReached;
  return is_set(held_, block) ? Found::kHeld : Found::kUnreached;
}

uint64_t Search::live_blocks() const {
  uint64_t sum = 0;
  for (const uint64_t each : live_) sum += static_cast<uint64_t>(std::popcount(each));
  return sum;
}

}  // namespace freeway_command
