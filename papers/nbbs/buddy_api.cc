// SPDX-License-Identifier: MIT
// buddy_api.cc: the functions of freeway/buddy.h that concern one buddy.
#include <errno.h>
#include <string.h>

#include "base/compiler.h"
#include "papers/nbbs/scatter.h"
#include "papers/nbbs/shared_buddy.h"

namespace freeway::nbbs {

bool SharedBuddy::read(const freeway_buddy_options_t& options, Settings* settings) {
  constexpr unsigned kFlags = FREEWAY_BUDDY_UP | FREEWAY_BUDDY_PUBLISHED | FREEWAY_BUDDY_SPIN | FREEWAY_BUDDY_ZEROED;
  const bool up = (options.flags & FREEWAY_BUDDY_UP) != 0;
  const bool published = (options.flags & FREEWAY_BUDDY_PUBLISHED) != 0;
  const bool spin = (options.flags & FREEWAY_BUDDY_SPIN) != 0;
  if ((options.flags & ~kFlags) != 0 || up + published + spin > 1) return false;
  if (options.levels < 1 || options.levels > kMostLevels || !is_power_of_two(options.min_block)) return false;
  if (options.max_block != 0 && !is_power_of_two(options.max_block)) return false;
  const unsigned min_shift = log2_floor(options.min_block);
  const unsigned max_shift = options.max_block == 0 ? min_shift + options.levels - 1 : log2_floor(options.max_block);
  const Kind kind = up ? Kind::kCorrectedUp : published ? Kind::kPublished : spin ? Kind::kSpin : Kind::kCorrected;
  *settings = {options.levels, min_shift, max_shift, options.levels_per_word, kind};
  return settings->valid();
}

int SharedBuddy::take(std::size_t size, void** block) {
  const Settings& s = settings();
  if (size > std::size_t{1} << s.max_shift) return ENOMEM;
  const unsigned level = level_for(s, size);
  const Node n = tree().take(level, starting_node(level, thread_hash()));
  if (n == 0) return ENOMEM;
  *block = memory() + offset_of(s, n);
  return 0;
}

Node SharedBuddy::node_for(const void* address, std::size_t size, int* error) {
  const Settings& s = settings();
  const std::size_t offset = reinterpret_cast<uptr>(address) - reinterpret_cast<uptr>(memory());
  if (size > std::size_t{1} << s.max_shift) {
    *error = ENOMEM;
    return 0;
  }
  const unsigned level = level_for(s, size);
  if (offset >= s.managed() || offset % (s.managed() >> level) != 0) {
    *error = EINVAL;
    return 0;
  }
  return node_at(s, offset, level);
}

int SharedBuddy::take_at(const void* address, std::size_t size, void** block) {
  int error = 0;
  const Node n = node_for(address, size, &error);
  if (n == 0) return error;
  if (!tree().take_node(n)) return EBUSY;
  *block = memory() + offset_of(settings(), n);
  return 0;
}

Node SharedBuddy::node_of(const void* block) {
  if (!manages(block)) return 0;
  const std::size_t offset = static_cast<std::size_t>(static_cast<const char*>(block) - memory());
  if (offset % (std::size_t{1} << settings().min_shift) != 0) return 0;
  const Node n = tree().block_at(offset);
  return n != 0 && offset_of(settings(), n) == offset ? n : 0;
}

int SharedBuddy::give(const void* block) {
  const Node n = node_of(block);
  return n != 0 && tree().give(n) ? 0 : EINVAL;
}

}  // namespace freeway::nbbs

using freeway::nbbs::Node;
using freeway::nbbs::Settings;
using freeway::nbbs::SharedBuddy;

namespace {

SharedBuddy& of(freeway_buddy_t* buddy) { return *reinterpret_cast<SharedBuddy*>(buddy); }

// The result of a function that reports by NULL or by -1.
void* answer(int error, void* block) {
  if (error == 0) return block;
  errno = error;
  return nullptr;
}
int answer(int error) {
  if (error == 0) return 0;
  errno = error;
  return -1;
}

}  // namespace

extern "C" {

FREEWAY_EXPORT size_t freeway_buddy_metadata_size(const freeway_buddy_options_t* options) {
  Settings settings;
  if (options != nullptr && SharedBuddy::read(*options, &settings)) return SharedBuddy::bytes(settings);
  errno = EINVAL;
  return 0;
}

FREEWAY_EXPORT freeway_buddy_t* freeway_buddy_create(void* metadata, size_t metadata_bytes, void* memory,
                                                     const freeway_buddy_options_t* options) {
  Settings settings;
  if (options == nullptr || !SharedBuddy::read(*options, &settings) || memory == nullptr || metadata == nullptr ||
      reinterpret_cast<freeway::uptr>(metadata) % alignof(SharedBuddy) != 0 ||
      metadata_bytes < SharedBuddy::bytes(settings)) {
    errno = EINVAL;
    return nullptr;
  }
  if ((options->flags & FREEWAY_BUDDY_ZEROED) == 0) memset(metadata, 0, SharedBuddy::bytes(settings));
  static_cast<SharedBuddy*>(metadata)->init(settings, memory);
  return static_cast<freeway_buddy_t*>(metadata);
}

FREEWAY_EXPORT freeway_buddy_t* freeway_buddy_attach(void* metadata) {
  const bool intact = SharedBuddy::is_one(metadata) && static_cast<SharedBuddy*>(metadata)->is_intact();
  return static_cast<freeway_buddy_t*>(answer(intact ? 0 : EINVAL, metadata));
}

FREEWAY_EXPORT void* freeway_buddy_alloc(freeway_buddy_t* buddy, size_t bytes) {
  if (!SharedBuddy::is_one(buddy)) return answer(EINVAL, nullptr);
  void* block = nullptr;
  const int error = of(buddy).take(bytes, &block);
  return answer(error, block);
}

FREEWAY_EXPORT void* freeway_buddy_alloc_at(freeway_buddy_t* buddy, void* address, size_t bytes) {
  if (!SharedBuddy::is_one(buddy)) return answer(EINVAL, nullptr);
  void* block = nullptr;
  const int error = of(buddy).take_at(address, bytes, &block);
  return answer(error, block);
}

FREEWAY_EXPORT void* freeway_buddy_extend(freeway_buddy_t* buddy, void* block, size_t bytes) {
  const Node n = SharedBuddy::is_one(buddy) ? of(buddy).node_of(block) : 0;
  if (n == 0) return answer(EINVAL, nullptr);
  void* next = nullptr;
  const int error = of(buddy).take_at(static_cast<char*>(block) + bytes_of(of(buddy).settings(), n), bytes, &next);
  return answer(error, next);
}

FREEWAY_EXPORT int freeway_buddy_free(freeway_buddy_t* buddy, void* block) {
  if (!SharedBuddy::is_one(buddy)) return answer(EINVAL);
  return block == nullptr ? 0 : answer(of(buddy).give(block));
}

FREEWAY_EXPORT size_t freeway_buddy_usable_size(freeway_buddy_t* buddy, void* block) {
  const Node n = SharedBuddy::is_one(buddy) ? of(buddy).node_of(block) : 0;
  if (n != 0) return bytes_of(of(buddy).settings(), n);
  errno = EINVAL;
  return 0;
}

FREEWAY_EXPORT int freeway_buddy_stats(freeway_buddy_t* buddy, freeway_buddy_stats_t* stats) {
  if (!SharedBuddy::is_one(buddy) || stats == nullptr) return answer(EINVAL);
  SharedBuddy& b = of(buddy);
  const Settings& s = b.settings();
  *stats = {s.managed(), 0, 0, 0, SharedBuddy::bytes(s)};
  b.tree().each_block([&](Node n) {
    ++stats->blocks;
    stats->used += bytes_of(s, n);
  });
  if (s.kind != freeway::nbbs::Kind::kPublished) {
    const unsigned level = b.tree().largest_free_level();
    if (level < s.levels) stats->largest_free = s.managed() >> level;
  }
  return 0;
}

FREEWAY_EXPORT int freeway_buddy_repair(freeway_buddy_t* buddy, void* address, size_t bytes) {
  if (!SharedBuddy::is_one(buddy)) return answer(EINVAL);
  SharedBuddy& b = of(buddy);
  if (address == nullptr) {
    b.tree().repair_all();
    return 0;
  }
  int error = 0;
  const Node n = b.node_for(address, bytes, &error);
  if (n == 0) return answer(EINVAL);
  b.tree().repair(n);
  return 0;
}

FREEWAY_EXPORT void freeway_buddy_scatter(unsigned long number) { freeway::nbbs::set_thread_hash(number); }

}  // extern "C"
