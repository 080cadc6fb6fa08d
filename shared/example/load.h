// SPDX-License-Identifier: MIT
//
// load.h: what the workers do with the cache, and how they know that it is right.
//
// Each worker has keys of its own, which only it writes and removes and all read; further keys are written by all. A
// value says whose it is and which version, and all of its bytes follow from that. A worker notes on its post, outside
// of the heap, what it is about to do: so its successor knows what its keys must hold; of the one key that it was busy
// with, two values are right.
#pragma once

#include <time.h>
#include <unistd.h>

#include <cstdio>
#include <vector>

#include "cache.h"

namespace cache {

constexpr unsigned kOwnKeys = 512;     // of each worker
constexpr unsigned kCommonKeys = 256;  // that all write

inline std::uint64_t now_ns() {
  timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<std::uint64_t>(now.tv_sec) * 1000000000 + static_cast<std::uint64_t>(now.tv_nsec);
}

class Random {  // SplitMix64
 public:
  explicit Random(std::uint64_t seed) : state_(seed) {}
  std::uint64_t next() { return mixed(state_ += 0x9e3779b97f4a7c15); }
  unsigned below(unsigned end) { return static_cast<unsigned>(next() >> 32) % end; }

  static std::uint64_t mixed(std::uint64_t x) {
    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9;
    x = (x ^ x >> 27) * 0x94d049bb133111eb;
    return x ^ x >> 31;
  }

 private:
  std::uint64_t state_;
};

// --- Values ----------------------------------------------------------------------------------------------------------

struct Stamp {
  Word key, version;  // the key's hash
};

// Of one in 64 values the block is a large one.
inline std::size_t value_bytes(Word key, Word version) {
  Random random(key ^ Random::mixed(version));
  const unsigned kind = random.below(64);
  const unsigned most = kind == 0 ? 100000 : kind < 8 ? 4000 : 200;
  return sizeof(Stamp) + random.below(most);
}

inline void make_value(Word key, Word version, std::string& value) {
  value.resize(value_bytes(key, version));
  const Stamp stamp = {key, version};
  std::memcpy(value.data(), &stamp, sizeof(stamp));
  Random random(key + version);
  std::size_t at = sizeof(stamp);
  for (; at + sizeof(Word) <= value.size(); at += sizeof(Word)) {
    const Word word = random.next();
    std::memcpy(value.data() + at, &word, sizeof(word));
  }
  for (; at < value.size(); ++at) value[at] = static_cast<char>(at);
}

// The version of a value that is right in all its bytes; 0: it is not.
inline Word version_of(Word key, const std::string& value) {
  Stamp stamp = {};
  if (value.size() < sizeof(stamp)) return 0;
  std::memcpy(&stamp, value.data(), sizeof(stamp));
  std::string right;
  if (stamp.key == key) make_value(key, stamp.version, right);
  return right == value ? stamp.version : 0;
}

// --- Posts -----------------------------------------------------------------------------------------------------------

enum Doing : unsigned { kElsewhere, kInMalloc, kInFree };

// What is known of a worker from outside. It stays for the next one.
struct Post {
  Word operations, longest_pause_ns;
  std::atomic<unsigned> doing;  // Doing
  Word busy, key, next;         // 1: of its own key it is making version `next`; 0 is none
  Word versions[kOwnKeys];      // what the keys hold; 0: nothing
  Word last[kOwnKeys];          // the latest version that there was
};

struct Board {
  std::atomic<bool> over;
  Post posts[kMaxWorkers];
};

// Notes on the post where the worker is.
template <class Heap> class Watched {
 public:
  Watched(Heap& heap, Post& post) : heap_(heap), post_(post) {}

  std::uint64_t offset(const void* block) { return heap_.offset(block); }
  void* pointer(std::uint64_t offset) { return heap_.pointer(offset); }
  void* alloc_into(std::uint64_t* slot, std::size_t bytes) {
    post_.doing = kInMalloc;
    void* block = heap_.alloc_into(slot, bytes);
    post_.doing = kElsewhere;
    return block;
  }
  bool free_from(std::uint64_t* slot) {
    post_.doing = kInFree;
    const bool freed = heap_.free_from(slot);
    post_.doing = kElsewhere;
    return freed;
  }

 private:
  Heap& heap_;
  Post& post_;
};

// --- A worker --------------------------------------------------------------------------------------------------------

constexpr int kWrong = 3;  // exit status of who has found something wrong

template <class Heap> class Worker {
 public:
  Worker(Heap& heap, Word table, Board& board, unsigned number, unsigned workers, std::uint64_t seed)
      : post_(board.posts[number]),
        board_(board),
        heap_(heap, post_),
        cache_(heap_, table, number),
        number_(number),
        workers_(workers),
        random_(seed),
        seen_(workers * kOwnKeys) {}

  // Takes the place of the one before.
  void take_over() {
    cache_.settle();
    if (load(post_.busy) == 0) return;
    const Word found = look(number_, post_.key);
    if (found != post_.next && found != post_.versions[post_.key] && !may_be_gone(number_, post_.key, found))
      wrong("a key that its last worker was busy with has neither value", number_, post_.key, found);
    store(post_.versions[post_.key], found);
    store(post_.busy, 0);
  }

  void work() {
    for (Word before = now_ns(); !board_.over.load(std::memory_order_relaxed);) {
      operate();
      const Word now = now_ns(), pause = now - before;
      if (pause > load(post_.longest_pause_ns)) store(post_.longest_pause_ns, pause);
      store(post_.operations, post_.operations + 1);
      before = now;
    }
  }

  // All own keys hold what they must.
  void check() {
    for (unsigned i = 0; i < kOwnKeys; ++i) check_own(i);
  }
  void drain() { cache_.drain(); }
  template <class F> void for_each_block(F&& f) { cache_.for_each_block(f); }

 private:
  static std::string name(unsigned owner, Word index) {
    return "worker " + std::to_string(owner) + ", key " + std::to_string(index);
  }
  static std::string common_name(Word index) { return "common key " + std::to_string(index); }

  void operate() {
    const unsigned what = random_.below(100);
    if (what < 50) read(random_.below(workers_), random_.below(kOwnKeys));
    else if (what < 60) check_own(random_.below(kOwnKeys));
    else if (what < 80) write(random_.below(kOwnKeys), /*removes=*/false);
    else if (what < 85) write(random_.below(kOwnKeys), /*removes=*/true);
    else common(random_.below(kCommonKeys), random_.below(5));
  }

  // The version that a worker's key holds; 0: none.
  Word look(unsigned owner, Word index) {
    const std::string key = name(owner, index);
    if (!cache_.get(key, value_)) return 0;
    const Word version = version_of(hash_of(key), value_);
    if (version == 0) wrong("a value has wrong bytes", owner, index, 0);
    return version;
  }

  // An entry may have had to make room for another.
  bool may_be_gone(unsigned owner, Word index, Word found) {
    return found == 0 && cache_.evictions(name(owner, index)) != 0;
  }

  void check_own(unsigned index) {
    const Word found = look(number_, index);
    if (found != post_.versions[index] && !may_be_gone(number_, index, found))
      wrong("a worker's own key has another value than it wrote", number_, index, found);
  }

  // Versions of one key only grow.
  void read(unsigned owner, unsigned index) {
    const Word found = look(owner, index);
    Word& seen = seen_[owner * kOwnKeys + index];
    if (found != 0 && found < seen) wrong("a key has an older value than before", owner, index, found);
    if (found != 0) seen = found;
  }

  void write(unsigned index, bool removes) {
    const std::string key = name(number_, index);
    const Word version = removes ? 0 : post_.last[index] + 1;
    if (!removes) make_value(hash_of(key), version, value_), store(post_.last[index], version);
    store(post_.key, index);
    store(post_.next, version);
    store(post_.busy, 1);
    if (removes ? cache_.remove(key) != Change::kNoMemory : cache_.put(key, value_))
      store(post_.versions[index], version);
    store(post_.busy, 0);
  }

  void common(unsigned index, unsigned what) {
    const std::string key = common_name(index);
    const Word hash = hash_of(key);
    if (what < 2) {
      make_value(hash, random_.next() | 1, value_);
      cache_.put(key, value_);
    } else if (what < 3) {
      cache_.remove(key);
    } else if (cache_.get(key, value_) && version_of(hash, value_) == 0) {
      wrong("a common key has wrong bytes", number_, index, 0);
    }
  }

  [[noreturn]] void wrong(const char* what, unsigned owner, Word index, Word found) {
    std::fprintf(stderr, "worker %u: %s: key %llu of %u holds version %llu; %llu was written, %llu was on its way\n",
                 number_, what, static_cast<unsigned long long>(index), owner, static_cast<unsigned long long>(found),
                 static_cast<unsigned long long>(board_.posts[owner].versions[index % kOwnKeys]),
                 static_cast<unsigned long long>(board_.posts[owner].next));
    _exit(kWrong);
  }

  Post& post_;
  Board& board_;
  Watched<Heap> heap_;
  Cache<Watched<Heap>> cache_;
  unsigned number_, workers_;
  Random random_;
  std::vector<Word> seen_;
  std::string value_;
};

}  // namespace cache
