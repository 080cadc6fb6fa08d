// SPDX-License-Identifier: MIT
#include "heap/heap.h"

#include <algorithm>

#include "cache/slots.h"

namespace freeway_command {

using std::uint32_t, std::uint64_t;

Heap::Heap(const Memory& memory) : description_(memory), walk_(description_), accounts_(layout().class_count) {
  walk_.each_superblock([&](const Walk::Descriptor& each) { add_superblock(each); });
  walk_.each_slab(
      [&](const char* kind, uint32_t number, const Object& slab) { add_slab(kind + std::to_string(number), slab); });
  walk_.each_arena([&](const ArenaView& each) { arenas_.push_back(each); });
  walk_.each_guard_slot([&](const Object& slots, uint32_t i) {
    const freeway_debug_t& d = layout();
    const auto word = [&](const freeway_debug_field_t& field) { return freeway::look::word(slots, field, i); };
    guard_slots_.push_back({.word = word(d.guard_word),
                            .birth = {word(d.guard_address),
                                      word(d.guard_size),
                                      {word(d.guard_allocated_by), word(d.guard_allocated_in)},
                                      word(d.guard_owner)},
                            .death = {word(d.guard_freed_by), word(d.guard_freed_in)},
                            .stable = true});
  });
  assign_cached();
}

void Heap::add_superblock(const Walk::Descriptor& found) {
  by_span_.emplace(found.span(), superblocks_.size());
  by_descriptor_.emplace(found.index(), superblocks_.size());
  superblocks_.push_back({.descriptor = found.index(),
                          .size_class = found.size_class(),
                          .node = found.node(),
                          .free = found.free_blocks(),
                          .cached = 0,
                          .anchor = found.anchor(),
                          .span = found.span(),
                          .words = words_.size()});
  for (unsigned w = 0; w < found.shape().words; ++w) words_.push_back(found.bits(w));
  accounts_[found.size_class()].add(found);
}

void Heap::add_slab(const std::string& name, const Object& slab) {
  slabs_.push_back({name, slab.address()});
  const auto number = static_cast<uint32_t>(slabs_.size() - 1);
  for (unsigned c = 1; c < layout().class_count; ++c) {
    walk_.each_cached(slab, c, [&](uint64_t slot, bool rests) {
      cached_.push_back({reinterpret_cast<uint64_t>(freeway::slots::block_of(slot)), c, number, rests});
    });
    accounts_[c].add_counters(walk_, slab, c);
  }
}

// Which superblocks the cached blocks are of. What is none's block (a slot that was half written, a damaged heap)
// counts as cached, but in no superblock.
void Heap::assign_cached() {
  for (const CachedBlock& each : cached_) {
    ++accounts_[each.size_class].cached;
    const auto found = by_span_.find(description_.size_class(each.size_class).span_of(each.address));
    if (found == by_span_.end()) continue;
    Superblock& superblock = superblocks_[found->second];
    const uint32_t taken = description_.size_class(superblock.size_class).blocks - superblock.free;
    if (superblock.size_class == each.size_class && superblock.cached < taken) ++superblock.cached;
  }
}

const Superblock* Heap::superblock_at(uint64_t span) const {
  const auto found = by_span_.find(span);
  return found == by_span_.end() ? nullptr : &superblocks_[found->second];
}

const Superblock* Heap::superblock_of(uint32_t descriptor) const {
  const auto found = by_descriptor_.find(descriptor);
  return found == by_descriptor_.end() ? nullptr : &superblocks_[found->second];
}

std::vector<uint32_t> Heap::entries(uint64_t address, std::size_t frames) const {
  const freeway_debug_t& d = layout();
  const uint64_t primary = word(d.heap_map_primary), count = word(d.heap_map_frames), infos = word(d.heap_map_infos);
  const uint64_t leaf_frames = uint64_t{1} << d.leaf_shift;
  std::vector<uint32_t> all;
  for (uint64_t frame = address >> d.frame_shift; frames > 0;) {
    const uint64_t inside = frame - (primary >> d.frame_shift);
    uint64_t here, from = 0;
    if (inside < count) {
      here = std::min<uint64_t>(frames, count - inside);
      from = infos + 4 * inside;
    } else {
      here = std::min<uint64_t>(frames, leaf_frames - frame % leaf_frames);
      if (inside + here < inside) here = std::min(here, ~inside + 1);  // up to where the primary arena begins
      const uint64_t root = frame >> d.leaf_shift;
      if (root < d.heap_map_roots.count) {
        freeway_debug_field_t slot = d.heap_map_roots;
        slot.offset += static_cast<uint32_t>(root * slot.stride);
        const uint64_t leaf = word(slot);
        if (leaf != 0) from = leaf + 4 * (frame % leaf_frames);
      }
    }
    const std::size_t known = all.size();
    all.resize(known + here);
    if (from != 0) read_or_throw(memory(), from, &all[known], here * 4);
    frame += here;
    frames -= here;
  }
  return all;
}

std::vector<std::pair<uint64_t, uint32_t>> Heap::outside() const {
  std::vector<std::pair<uint64_t, uint32_t>> found;
  if (!is_started()) return found;
  const freeway_debug_t& d = layout();
  const uint64_t leaf_frames = uint64_t{1} << d.leaf_shift;
  walk_.each_word(d.heap_map_roots, [&](uint32_t root, uint64_t address) {
    if (address == 0) return;
    const auto leaf = read_row<uint32_t>(memory(), address, leaf_frames);
    for (uint64_t i = 0; i < leaf_frames; ++i)
      if (leaf[i] != 0) found.emplace_back((root * leaf_frames + i) << d.frame_shift, leaf[i]);
  });
  return found;
}

}  // namespace freeway_command
