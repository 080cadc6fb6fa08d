// SPDX-License-Identifier: MIT
// engine.cc: see engine.h.
#include "papers/nbbs/engine.h"

#include "papers/nbbs/scatter.h"

namespace freeway {
constinit Front<nbbs::Engine> process_heap;
}  // namespace freeway

namespace freeway::nbbs {

namespace {

// slot + 1 : 24 | node : 40; 0 = this thread has not been at this level.
struct Place {
  u64 bits;
  static constexpr Place at(u32 slot, Node node) { return {u64{slot + 1} << 40 | node}; }
  constexpr u32 slot() const { return static_cast<u32>(bits >> 40) - 1; }
  constexpr Node node() const { return bits & low_bits(40); }
};

thread_local constinit u64 places[kMostLevels] = {};

bool has_own_mapping(const Settings& s) { return Engine::Region::bytes(s) > Metadata<Machine>::kMinSegmentBytes / 2; }

constexpr unsigned kLevelsPerWord[] = {1, 3, 4};
constexpr Kind kForms[] = {Kind::kCorrected, Kind::kPublished, Kind::kSpin};

}  // namespace

bool Engine::start(Substrate& substrate) {
  const auto option = [](const char* name) { return static_cast<unsigned>(engine_option(kName, name)); };
  Settings s{option("LEVELS"), 4 + option("MIN"), 16 + option("MAX"), kLevelsPerWord[option("LEVELS_PER_WORD")],
             kForms[option("FORM")]};
  if (s.kind == Kind::kCorrected && option("UP") == 0) s.kind = Kind::kCorrectedUp;
  if (s.max_shift > s.root_shift()) s.max_shift = s.root_shift();
  FREEWAY_CHECK(s.valid() && s.managed() >= kFrameSize);
  settings_ = s;
  substrate_ = &substrate;
  return true;
}

void* Engine::allocate(std::size_t bytes) {
  if (bytes > largest()) return nullptr;
  const unsigned level = level_for(settings_, bytes);
  if (void* block = take_recent(level)) return block;
  const Place last{places[level]};
  if (last.bits == 0) return take_anywhere(level, kMostRegions);
  if (void* block = take_from(last.slot(), level, last.node(), kFollowed)) return block;
  return take_anywhere(level, last.slot());
}

// Where one was freed lately, or a bigger one.
void* Engine::take_recent(unsigned level) {
  constexpr unsigned kTries = 4, kBigger = 3;
  Recent<Machine>* shard = recent_[thread_hash() % kShards];
  for (unsigned tries = 0; tries < kTries; ++tries) {
    const Place place{shard[level].pop()};
    if (place.bits == 0) break;
    Region* r = region(place.slot());
    if (r->is_open() && r->tree().take_node(place.node())) return taken(place.slot(), place.node());
  }
  for (unsigned up = 1; up <= kBigger && up <= level; ++up) {
    const Place place{shard[level - up].pop()};
    if (place.bits == 0) continue;
    Region* r = region(place.slot());
    const Node first = place.node() << up;
    const Node n = r->is_open() ? r->tree().take_within(first, first + low_bits(up)) : 0;
    if (n == 0) continue;
    places[level] = Place::at(place.slot(), n == last_of(level) ? first_of(level) : n + 1).bits;
    return taken(place.slot(), n);
  }
  return nullptr;
}

// The address of a node that is ours: its region cannot go away.
void* Engine::taken(u32 slot, Node n) {
  return reinterpret_cast<void*>(region(slot)->base() + offset_of(settings_, n));
}

// In the region of that slot, from `start` on.
void* Engine::take_from(u32 slot, unsigned level, Node start, Hints hints) {
  Region* r = region(slot);
  if (r == nullptr || !r->is_open() || (hints == kFollowed && r->seems_full(level))) return nullptr;
  const Node n = r->take(level, start);
  if (n == 0) return nullptr;
  places[level] = Place::at(slot, n == last_of(level) ? first_of(level) : n + 1).bits;
  return taken(slot, n);
}

// In any region but `except`.
void* Engine::take_anywhere(unsigned level, u32 except) {
  const Node start = starting_node(level, thread_hash());
  if (void* block = take_from_open(level, except, start, kFollowed)) return block;
  if (opened_.fetch_add_relaxed(1) % 16 != 15)
    if (void* block = take_from_closed(level, start)) return block;
  if (void* block = take_from_open(level, kMostRegions, start, kIgnored)) return block;
  return take_from_closed(level, start);
}

void* Engine::take_from_open(unsigned level, u32 except, Node start, Hints hints) {
  u32 first = hints == kFollowed ? first_[level].load_relaxed() : 0;
  for (u32 slot = first; slot < regions(); ++slot) {
    Region* r = region(slot);
    if (slot == except || r == nullptr) continue;
    if (void* block = take_from(slot, level, r->start(level, start), hints)) {
      if (hints == kFollowed) first_[level].cas_relaxed(first, slot);
      return block;
    }
  }
  return nullptr;
}

// In a region that is opened for it.
void* Engine::take_from_closed(unsigned level, Node start) {
  for (u32 slot = closed_.load_relaxed() == 0 ? regions() : 0; slot < kMostRegions; ++slot) {
    Region* r = region(slot);
    if (r == nullptr && (r = add_region()) == nullptr) return nullptr;
    if (!r->is_closed() || region(slot) != r) continue;  // another's; it may have been put into a later slot
    if (!r->open(*substrate_, slot + 1)) {
      if (r->is_closed()) return nullptr;  // no memory
      continue;
    }
    closed_.fetch_sub_relaxed(1);
    look_again_from(slot, 0);
    if (void* block = take_from(slot, level, start, kIgnored)) return block;
  }
  return nullptr;
}

// There may be blocks of this level, and smaller ones, in this region now.
void Engine::look_again_from(u32 slot, unsigned level) {
  for (; level < settings_.levels; ++level)
    if (first_[level].load_relaxed() > slot) first_[level].store_relaxed(slot);
}

// A new region in the first empty slot; null if there is no memory for its tree.
Engine::Region* Engine::add_region() {
  Region* fresh = make_region();
  if (fresh == nullptr) return nullptr;
  closed_.fetch_add_relaxed(1);
  return table_.add(fresh) ? fresh : nullptr;
}

// Closed. Trees that a small segment of metadata could not hold have a mapping each.
Engine::Region* Engine::make_region() {
  const std::size_t bytes = Region::bytes(settings_);
  uptr memory = 0;
  if (has_own_mapping(settings_)) {
    memory = Machine::map(align_up(bytes, kFrameSize), kFrameSize);
  } else {
    Metadata<Machine>& metadata = substrate_->metadata();
    const u32 unit = metadata.take(static_cast<u32>(ceil_div(bytes, Metadata<Machine>::kUnit)));
    if (unit != 0) memory = reinterpret_cast<uptr>(metadata.at(unit));
  }
  if (memory == 0) return nullptr;
  auto* made = reinterpret_cast<Region*>(memory);
  made->init(settings_);
  return made;
}

Engine::Found Engine::find(uptr address, u32 value) {
  Region* r = region(value - 1);
  const std::size_t offset = address - r->base();
  if (offset >= settings_.managed()) return {r, 0};
  const Node n = r->tree().block_at(offset);
  return {r, n};
}

Verdict Engine::free(uptr address, u32 value) {
  const Found found = find(address, value);
  if (found.node == 0 || offset_of(settings_, found.node) != address - found.region->base()) return Verdict::kInterior;
  unsigned free_level;
  if (!found.region->give(found.node, &free_level)) return Verdict::kDoubleFree;
  look_again_from(value - 1, free_level);
  recent_[thread_hash() % kShards][level_of(found.node)].push(Place::at(value - 1, found.node).bits);
  if (found.region->tree().is_empty()) close_unless_spare(value - 1);
  return Verdict::kOk;
}

// One empty region is kept.
bool Engine::close_unless_spare(u32 slot) {
  const u32 spare = spare_.load_relaxed();
  if (spare == slot + 1) return false;
  Region* other = spare == 0 ? nullptr : region(spare - 1);
  if (other == nullptr || !other->is_open() || !other->tree().is_empty()) {
    spare_.store_relaxed(slot + 1);
    return false;
  }
  return close(*region(slot));
}

bool Engine::close(Region& region) {
  if (!region.close(*substrate_)) return false;
  closed_.fetch_add_relaxed(1);
  return true;
}

std::size_t Engine::usable(uptr address, u32 value) {
  const Found found = find(address, value);
  if (found.node == 0 || offset_of(settings_, found.node) != address - found.region->base()) return 0;
  return bytes_of(settings_, found.node);
}

bool Engine::begins_block(uptr address, u32 value) {
  const Found found = find(address, value);
  const std::size_t offset = address - found.region->base();
  if (found.node == 0) return offset % (std::size_t{1} << settings_.min_shift) == 0;  // a free one does
  return offset_of(settings_, found.node) == offset;
}

bool Engine::owns(u32 value, uptr address) {
  if (value == 0 || value > kMostRegions) return false;
  Region* r = region(value - 1);
  return r != nullptr && r->is_open() && address - r->base() < settings_.managed();
}

// Heals what vanished threads left, gives empty regions back, and the pages of free blocks in the others.
void Engine::trim() {
  for (u32 slot = 0; slot < regions(); ++slot) {
    Region* r = region(slot);
    if (r == nullptr || !r->is_open()) continue;
    r->tree().repair_all();
    if (!close(*r)) purge(*r, 1);
  }
}

// Pages below node n, each part in hands while it is purged.
void Engine::purge(Region& region, Node n) {
  const std::size_t bytes = bytes_of(settings_, n);
  if (region.tree().take_node(n)) {
    const uptr address = region.base() + offset_of(settings_, n);
    const std::size_t backed = Machine::resident(address, bytes);
    if (backed != 0 && Machine::purge(address, bytes)) substrate_->frames().policy().on_purge_bytes(backed);
    unsigned free_level;
    region.give(n, &free_level);
    return;
  }
  if (bytes / 2 < vm::page_size() || level_of(n) + 1 == settings_.levels) return;
  const Node block = region.tree().block_at(offset_of(settings_, n));
  if (block != 0 && level_of(block) <= level_of(n)) return;
  purge(region, 2 * n);
  purge(region, 2 * n + 1);
}

void Engine::account(Account& account) {
  for (u32 slot = 0; slot < regions(); ++slot) {
    Region* r = region(slot);
    if (r == nullptr) continue;
    if (has_own_mapping(settings_)) account.metadata_bytes += Region::bytes(settings_);
    if (!r->is_open()) continue;
    ++account.superblocks;
    u64 live = 0;
    r->tree().each_block([&](Node n) {
      ++account.live_blocks;
      live += bytes_of(settings_, n);
      if (r->tree().block_at(offset_of(settings_, n)) != n) ++account.errors;
    });
    account.live_bytes += live;
    account.free_bytes += settings_.managed() - live;
  }
  if (!account.audit) account.errors = 0;
  else if (account.errors != 0)
    Line().text("freeway: audit: nbbs: blocks within blocks: ").number(account.errors).write();
}

const char* Engine::mode() const {
  switch (settings_.kind) {
    case Kind::kPublished: return "nbbs, as published";
    case Kind::kSpin: return "nbbs, with a spin lock";
    default: return "nbbs, lock-free";
  }
}

}  // namespace freeway::nbbs
