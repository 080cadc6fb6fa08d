// SPDX-License-Identifier: MIT
// slabs.cc: the blocks that slabs hold.
#include <algorithm>

#include "heap/heap.h"

namespace freeway_command {

using std::uint32_t, std::uint64_t;

namespace {
constexpr uint64_t kAddress = ~(uint64_t{1} << 63);  // cache/slots.h: the highest bit marks far blocks
}

void Heap::read_slabs() {
  const freeway_debug_t& d = layout();
  const struct {
    const char* name;
    const freeway_debug_field_t& row;
  } kinds[] = {
      {"CPU ", d.heap_cpu_slabs}, {"claimed slab ", d.heap_claimed_slabs}, {"owned slab ", d.heap_owned_slabs}};
  for (const auto& kind : kinds) {
    const auto addresses = description_.heap_row(memory_, kind.row);
    for (std::size_t i = 0; i < addresses.size(); ++i)
      if (addresses[i] != 0) read_slab(kind.name + std::to_string(i), addresses[i]);
  }
}

// The words of each class and the first magazines are read at once; grown ones as far as they are filled.
void Heap::read_slab(const std::string& name, uint64_t address) {
  const freeway_debug_t& d = layout();
  uint64_t head_bytes = d.slab_bytes;
  for (unsigned c = 1; c < d.class_count; ++c)
    if (d.classes[c].big_slots != d.classes[c].small_slots)
      head_bytes = std::min<uint64_t>(head_bytes, uint64_t{d.classes[c].big} * 8);
  const Object head(memory_, address, head_bytes);
  slabs_.push_back({name, address});
  for (unsigned c = 1; c < d.class_count; ++c) {
    const freeway_debug_class_t& k = d.classes[c];
    const uint64_t top = head.word(d.slab_tops, c), at = (top - address) / 8;
    if (at >= k.small && at <= k.small + k.small_slots)
      read_magazine(head, top, c, k.small, k.small_slots, false);
    else if (k.big_slots != k.small_slots)
      read_magazine(head, top, c, k.big, k.big_slots, false);
    if (has_beds_) read_beds(head, c);
  }
  slab_heads_.push_back(head);
}

// The blocks between the magazine's beginning (or the last 0 above it) and `top`; none if `top` lies elsewhere: the
// class has no magazine there.
void Heap::read_magazine(const Object& head, uint64_t top, unsigned c, uint32_t area, uint32_t slots, bool rests) {
  const uint64_t begin = head.address() + uint64_t{area} * 8;
  if (top <= begin || (top - begin) / 8 > slots || (top - begin) % 8 != 0) return;
  const auto blocks = read_row<uint64_t>(memory_, begin, (top - begin) / 8);
  const auto slab = static_cast<uint32_t>(slabs_.size() - 1);
  for (auto each = blocks.rbegin(); each != blocks.rend() && *each != 0; ++each)
    cached_.push_back({*each & kAddress, c, slab, rests});
}

void Heap::read_beds(const Object& head, unsigned c) {
  const freeway_debug_t& d = layout();
  const freeway_debug_class_t& k = d.classes[c];
  const uint64_t bed_bytes = uint64_t{k.bed_slots} * k.size;
  const uint64_t beds = std::min<uint64_t>(bed_bytes == 0 ? 0 : word(d.heap_quarantine) / bed_bytes, d.beds);
  std::vector<uint64_t> tops{head.word(d.slab_rests, c)};
  const uint64_t row = head.address() + d.slab_beds.offset + uint64_t{c} * d.slab_beds.stride;
  for (const uint64_t top : read_row<uint64_t>(memory_, row, beds)) tops.push_back(top);
  for (std::size_t bed = 0; bed < tops.size(); ++bed)
    read_magazine(head, tops[bed], c, static_cast<uint32_t>(k.beds + bed * (k.bed_slots + 1)), k.bed_slots, true);
}

// Which superblocks the cached blocks are of. What is none's block (a slot that was half written, a damaged heap)
// counts as cached, but in no superblock.
void Heap::assign_cached() {
  for (const CachedBlock& each : cached_) {
    const auto found = by_span_.find(description_.size_class(each.size_class).span_of(each.address));
    if (found == by_span_.end()) continue;
    Superblock& superblock = superblocks_[found->second];
    const uint32_t taken = description_.size_class(superblock.size_class).blocks - superblock.free;
    if (superblock.size_class == each.size_class && superblock.cached < taken) ++superblock.cached;
  }
}

uint64_t Heap::counted(const freeway_debug_field_t& counter, unsigned only) const {
  uint64_t sum = 0;
  for (const Object& slab : slab_heads_)
    for (unsigned c = 1; c < layout().class_count; ++c)
      if (only == 0 || c == only) sum += slab.word(counter, c);
  return sum;
}

}  // namespace freeway_command
