// SPDX-License-Identifier: MIT
//
// lru_store.h: keys and values under a limit of bytes; what was used least recently goes first. A part of kv_cache,
// built as such caches are: for each item three blocks, the entry, the key and the value.
//
// Not for several threads at once: kv_cache has a lock for each of many stores.
#ifndef FREEWAY_BENCH_TODAY_LRU_STORE_H
#define FREEWAY_BENCH_TODAY_LRU_STORE_H

#include "support/measure.h"

namespace bench {

class LruStore {
 public:
  struct Item {
    Item* chain;          // the next one in the bucket
    Item *newer, *older;  // in order of use
    std::uint64_t id;
    char *key, *value;
    std::uint32_t key_size, value_size;
  };
  static constexpr std::uint32_t kLeastValue = 16;  // a value holds its mark twice

  // `buckets`: a power of two of them, all null; they stay the caller's.
  void open(Item** buckets, std::size_t count, std::size_t limit) {
    buckets_ = buckets;
    mask_ = count - 1;
    limit_ = limit;
  }

  // The item, which is now the one used last; null if there is none.
  Item* find(std::uint64_t id) {
    for (Item* item = bucket(id); item != nullptr; item = item->chain)
      if (item->id == id) {
        unlink_use(item);
        link_newest(item);
        return item;
      }
    return nullptr;
  }

  // Sets a value of `size` bytes (at least kLeastValue), which makes it the one used last. What must go for it goes
  // before, so the limit always holds. False if it is larger than the limit: then there is no such item any more.
  bool set(std::uint64_t id, std::uint32_t size) {
    Item* item = find(id);
    if (item != nullptr && charge_of(item->key_size, size) <= limit_) {
      used_ -= item->value_size;
      make_room(size, item);
      used_ += size;
      // The new value comes before the old one goes: it arrives in a buffer of its own.
      char* old = item->value;
      item->value = filled(id, size);
      item->value_size = size;
      std::free(old);
      return true;
    }
    if (item != nullptr) erase(item);
    const std::uint32_t key_size = key_size_of(id);
    const std::size_t charge = charge_of(key_size, size);
    if (charge > limit_) return false;
    make_room(charge, nullptr);
    insert(id, key_size, size);
    used_ += charge;
    ++count_;
    return true;
  }

  void erase(Item* item) {
    Item** link = &bucket(item->id);
    while (*link != item) link = &(*link)->chain;
    *link = item->chain;
    unlink_use(item);
    used_ -= charge_of(item->key_size, item->value_size);
    --count_;
    broken_ += intact(*item) ? 0 : 1;
    std::free(item->value);
    std::free(item->key);
    std::free(item);
  }

  void clear() {
    while (oldest_ != nullptr) erase(oldest_);
  }

  // Both ends of the value, and the key's, are what was written.
  static bool intact(const Item& item) {
    return word_at(item.value) == mark_of(item.id, item.value_size) &&
           word_at(item.value + item.value_size - 8) == mark_of(item.id, item.value_size) &&
           word_at(item.key) == mark_of(item.id, item.key_size);
  }

  std::size_t used() const { return used_; }  // bytes asked of malloc for all items
  std::size_t limit() const { return limit_; }
  std::size_t count() const { return count_; }
  std::size_t evicted() const { return evicted_; }
  std::size_t broken() const { return broken_; }  // items that were not intact when they went
  const Item* oldest() const { return oldest_; }

  // 16 to 47 bytes, always the same for a key.
  static std::uint32_t key_size_of(std::uint64_t id) { return 16 + static_cast<std::uint32_t>(hash(id) >> 59); }
  static std::size_t charge_of(std::uint32_t key_size, std::size_t value_size) {
    return sizeof(Item) + key_size + value_size;
  }

 private:
  static std::uint64_t hash(std::uint64_t id) { return (id ^ (id >> 31)) * 0x9E3779B97F4A7C15u; }
  static std::uint64_t mark_of(std::uint64_t id, std::uint64_t size) { return hash(id) ^ size; }
  Item*& bucket(std::uint64_t id) { return buckets_[(hash(id) >> 20) & mask_]; }

  static std::uint64_t word_at(const char* at) {
    std::uint64_t word;
    std::memcpy(&word, at, sizeof word);
    return word;
  }

  // All of it is written, as if it had come over the network.
  static char* filled(std::uint64_t id, std::uint32_t size) {
    auto* bytes = static_cast<char*>(must_malloc(size));
    const std::uint64_t mark = mark_of(id, size);
    std::memset(bytes, static_cast<int>(id), size);
    std::memcpy(bytes + size - 8, &mark, 8);
    std::memcpy(bytes, &mark, 8);
    escape(bytes);
    return bytes;
  }

  void insert(std::uint64_t id, std::uint32_t key_size, std::uint32_t size) {
    auto* item = static_cast<Item*>(must_malloc(sizeof(Item)));
    Item*& first = bucket(id);
    *item = {first, nullptr, nullptr, id, filled(id, key_size), filled(id, size), key_size, size};
    first = item;
    link_newest(item);
  }

  // Oldest first; `spared` is the newest one, so it is reached only if all others are gone, and then it fits.
  void make_room(std::size_t bytes, const Item* spared) {
    while (used_ + bytes > limit_ && oldest_ != spared) {
      erase(oldest_);
      ++evicted_;
    }
  }

  void unlink_use(Item* item) {
    (item->newer != nullptr ? item->newer->older : newest_) = item->older;
    (item->older != nullptr ? item->older->newer : oldest_) = item->newer;
  }
  void link_newest(Item* item) {
    item->newer = nullptr;
    item->older = newest_;
    (newest_ != nullptr ? newest_->newer : oldest_) = item;
    newest_ = item;
  }

  Item** buckets_ = nullptr;
  std::size_t mask_ = 0, limit_ = 0, used_ = 0, count_ = 0, evicted_ = 0, broken_ = 0;
  Item *newest_ = nullptr, *oldest_ = nullptr;
};

}  // namespace bench

#endif  // FREEWAY_BENCH_TODAY_LRU_STORE_H
