// SPDX-License-Identifier: MIT
// pages_world.h: the world of the page layer's models: an Env with a pretended kernel, frames that have contents, and
// what scripts are made of.
//
// Memory    an arena of kChunks chunks at kArena, and kSlots places of 4 MiB for whatever is reserved or mapped.
//           Addresses lead nowhere; each frame has one plain word of contents, so two owners of a frame at once are a
//           race
// Kernel    reserve, map, release, move, move_out, resize and commit are one step each, ordered like the kernel's own
//           by its lock. What is accessible is a relaxed word: who touches memory because another thread committed it
//           needs an order from that thread. Memory that the templates follow (leaves, headers of arenas) comes from a
//           pool of the program's and holds garbage until the mapping thread has zeroed it
#pragma once

#include <gtest/gtest.h>
#include <sys/mman.h>

#include <cstdio>
#include <cstdlib>
#include <random>
#include <vector>

#include "base/space.h"
#include "size/size_classes.h"
#include "tests/explorer/explorer.h"
#include "tests/explorer/model_env.h"
#include "tests/explorer/scenarios.h"

namespace freeway::model {

class PagesKernel {
 public:
  static constexpr unsigned kChunks = 3;
  static constexpr unsigned kSlots = 6;
  static constexpr uptr kArena = (uptr{1} << 32) + 4 * kMiB;
  static constexpr uptr kPlaces = uptr{16} << 32;
  static constexpr std::size_t kSlotBytes = 4 * kMiB;
  static constexpr unsigned kRegions = kChunks + kSlots;

  // What is refused, the same in every execution of a program.
  std::size_t most_reserved = kSlotBytes;  // bytes in one call of reserve or map
  std::size_t most_committed = ~uptr{0};   // bytes in one call of commit
  std::size_t frames_in_place = 64;        // how far a mapping can be resized where it is
  bool purges = true;
  bool closes_pages = false;                                   // blocks have guards (pages/guarded_ends.h)
  bool may_refuse_releases = false, may_refuse_moves = false;  // each call is tried both ways
  // Mappings of exactly so many bytes come from `pool` (as many as there are pointers); fresh(memory) zeroes one.
  std::size_t pool_bytes = 0;
  uptr pool[3] = {};
  void (*fresh)(uptr memory) = nullptr;

  PagesKernel() {
    model_name(places_, "places");
    model_name(accessible_, "accessible");
    model_name(content_, "contents");
    model_name(closed_, "closed");
  }
  // Gives the places real memory, for templates that write links into memory of theirs. The same in every execution.
  static void back_places() {
    static void* const memory = mmap(reinterpret_cast<void*>(kPlaces), kSlots * kSlotBytes, PROT_READ | PROT_WRITE,
                                     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED_NOREPLACE, -1, 0);
    model_check(memory == reinterpret_cast<void*>(kPlaces), "the places can have memory");
  }
  // The setup is over: what is accessible now, every thread knows to be.
  void settle() {
    for (unsigned r = 0; r < kRegions; ++r) settled_[r] = accessible_[r].load_relaxed();
  }

  // --- The kernel. ---
  uptr reserve(std::size_t bytes, std::size_t) {
    if (bytes > most_reserved || bytes > kSlotBytes) return 0;
    const unsigned slot = take_place(places_, kSlots);
    return slot == kSlots ? 0 : kPlaces + slot * kSlotBytes;
  }
  uptr map(std::size_t bytes, std::size_t alignment) {
    if (bytes == pool_bytes) {
      const unsigned n = take_place(pooled_, 3);
      if (n == 3 || pool[n] == 0) return 0;
      fresh(pool[n]);
      return pool[n];
    }
    const uptr address = reserve(bytes, alignment);
    if (address != 0) each_frame(address, bytes, [](auto& content) { content.set(0); });
    return address;
  }
  bool commit(uptr address, std::size_t bytes) {
    if (bytes > most_committed) return false;
    for (uptr at = address; at < address + bytes;) {
      const unsigned r = region(at);
      // The kernel knows; but a thread that makes memory accessible has to know, too.
      if (r >= kChunks)
        model_check((places_.load_relaxed() >> (r - kChunks) & 1) != 0, "what is made accessible has been reserved");
      const uptr end = address + bytes < start_of(r) + kSlotBytes ? address + bytes : start_of(r) + kSlotBytes;
      const u64 last = (end - 1 - start_of(r)) / kFrameSize;
      accessible_[r].fetch_or_acq_rel(low_bits(static_cast<unsigned>(last) + 1) &
                                      ~low_bits(static_cast<unsigned>((at - start_of(r)) / kFrameSize)));
      at = end;
    }
    return true;
  }
  // A place of frames in one region; what is mapped there is what is accessible.
  Extended extend(uptr address, std::size_t bytes) {
    if (bytes > most_committed) return Extended::kRefused;
    const unsigned r = region(address);
    const u64 first = (address - start_of(r)) / kFrameSize;
    const u64 bits = low_bits(static_cast<unsigned>(bytes / kFrameSize)) << first;
    u64 seen = accessible_[r].load_relaxed();
    do {
      if ((seen & bits) != 0) return Extended::kOccupied;
    } while (!accessible_[r].cas_acq_rel(seen, seen | bits));
    return Extended::kDone;
  }
  // What of the first 64 frames from there on is accessible, as bits.
  u64 accessible(uptr address) const { return accessible_[region(address)].load_relaxed(); }
  // Another's mapping; and the end of a piece's.
  void occupy(uptr address, std::size_t frames) {
    model_check(extend(address, frames * kFrameSize) == Extended::kDone, "there is room for another's mapping");
  }
  void unmap_piece(uptr address, std::size_t bytes) {
    const unsigned r = region(address);
    const u64 bits = low_bits(static_cast<unsigned>(bytes / kFrameSize)) << ((address - start_of(r)) / kFrameSize);
    model_check((accessible_[r].fetch_and_acq_rel(~bits) & bits) == bits, "a piece is unmapped once");
  }
  // Pages of blocks' ends, here whole frames.
  bool forbid(uptr address, std::size_t bytes) {
    closed_[region(address)].fetch_or_acq_rel(bits_of(address, bytes));
    return true;
  }
  bool open(uptr address, std::size_t bytes) {
    closed_[region(address)].fetch_and_acq_rel(~bits_of(address, bytes));
    return true;
  }
  bool is_open(uptr address, std::size_t bytes) const {
    return (closed_[region(address)].load_relaxed() & bits_of(address, bytes)) == 0;
  }
  bool purge(uptr address, std::size_t bytes) {
    if (purges) each_frame(address, bytes, [](auto& content) { content.set(0); });
    return purges;
  }
  bool release(uptr address, std::size_t bytes) {
    if (address - kArena < kChunks * kSlotBytes) return unmap_piece(address, bytes), true;
    for (unsigned n = 0; n < 3; ++n)
      if (address == pool[n]) return pooled_.fetch_and_acq_rel(~(u32{1} << n)), true;
    if (address >= kPlaces && address % kSlotBytes != kPlaces % kSlotBytes) return true;  // the end of one that is kept
    each_frame(address, bytes, [](auto& content) { content.set(0); });
    if (may_refuse_releases && model_choose(2) == 1) return false;
    if (closes_pages) open(address, bytes);
    free_place(address);
    return true;
  }
  // A refused move may have ended the reservation that it was to replace.
  bool move(uptr from, std::size_t old_bytes, uptr to, std::size_t new_bytes) {
    if (may_refuse_moves && model_choose(2) == 1) return free_place(to), false;
    model_check(!closes_pages || is_open(from, old_bytes), "what is moved is one mapping");
    for (std::size_t at = 0; at < new_bytes; at += kFrameSize)
      content(to + at).set(at < old_bytes ? content(from + at).get() : 0);
    each_frame(from, old_bytes, [](auto& content) { content.set(0); });
    free_place(from);
    return true;
  }
  bool move_out(uptr from, std::size_t bytes, uptr to) {
    if (may_refuse_moves && model_choose(2) == 1) return free_place(to), false;
    copy(to, from, bytes);
    each_frame(from, bytes, [](auto& content) { content.set(0); });
    return true;
  }
  void copy(uptr to, uptr from, std::size_t bytes) {
    for (std::size_t at = 0; at < bytes; at += kFrameSize) content(to + at).set(content(from + at).get());
  }
  bool resize(uptr address, std::size_t old_bytes, std::size_t new_bytes) {
    if (new_bytes > frames_in_place * kFrameSize) return false;
    if (new_bytes > old_bytes)
      each_frame(address + old_bytes, new_bytes - old_bytes, [](auto& content) { content.set(0); });
    else each_frame(address + new_bytes, old_bytes - new_bytes, [](auto& content) { content.set(0); });
    return true;
  }

  // --- What owners do with their memory. ---
  // Fails if the memory is not known to be accessible.
  void touch(uptr address) {
    const unsigned r = region(address);
    const u64 bit = u64{1} << ((address - start_of(r)) / kFrameSize);
    if ((settled_[r] & bit) == 0) model_check((accessible_[r].load_relaxed() & bit) != 0, "what is used is accessible");
  }
  // The frame's contents belong to whoever owns the frame.
  ModelEnv::Plain<u32>& content(uptr address) {
    const unsigned r = region(address);
    return content_[r][(address - start_of(r)) / kFrameSize];
  }
  template <class F> void each_frame(uptr address, std::size_t bytes, F&& f) {
    for (uptr at = address; at < address + bytes; at += kFrameSize) f(content(at));
  }
  // A run that has just been taken, of which `dirty` frames may hold something: writes to all of it.
  void write_fresh(uptr address, std::size_t frames, std::size_t dirty) {
    for (std::size_t f = 0; f < frames; ++f) touch(address + f * kFrameSize);
    fill(address, frames, dirty);
  }
  // The same where it is accessible anyway: a mapping.
  void fill(uptr address, std::size_t frames, std::size_t dirty) {
    std::size_t found = 0;
    each_frame(address, frames * kFrameSize, [&](auto& content) {
      found += content.get() != 0;
      content.set(1);
    });
    model_check(found <= dirty, "free frames that are said to be zero are");
  }
  void write(uptr address, std::size_t frames) {
    each_frame(address, frames * kFrameSize, [](auto& content) { content.set(2); });
  }
  // Places that somebody has, as bits.
  u64 places_taken() const { return places_.load_relaxed(); }
  u64 pool_taken() const { return pooled_.load_relaxed(); }

 private:
  static u64 bits_of(uptr address, std::size_t bytes) {
    const uptr first = (address - start_of(region(address))) / kFrameSize;
    return low_bits(static_cast<unsigned>(bytes / kFrameSize)) << first;
  }
  static uptr start_of(unsigned r) {
    return r < kChunks ? kArena + r * kSlotBytes : kPlaces + (r - kChunks) * kSlotBytes;
  }
  static unsigned region(uptr address) {
    const bool arena = address - kArena < kChunks * kSlotBytes;
    model_check(arena || address - kPlaces < kSlots * kSlotBytes, "an address that there is");
    return static_cast<unsigned>(arena ? (address - kArena) / kSlotBytes : kChunks + (address - kPlaces) / kSlotBytes);
  }
  static unsigned take_place(ModelEnv::Atomic<u32>& word, unsigned places) {
    u32 seen = word.load_relaxed();
    do {
      if (seen == low_bits(places)) return places;
    } while (!word.cas_acq_rel(seen, seen | (u32{1} << lowest_bit(~seen))));
    return lowest_bit(~seen);
  }
  void free_place(uptr address) {
    const u32 bit = u32{1} << (region(address) - kChunks);
    model_check((places_.fetch_and_acq_rel(~bit) & bit) != 0, "memory is released once");
  }

  ModelEnv::Atomic<u32> places_, pooled_;
  ModelEnv::Atomic<u64> accessible_[kRegions];
  u64 settled_[kRegions] = {};
  ModelEnv::Plain<u32> content_[kRegions][64];
  ModelEnv::Atomic<u64> closed_[kRegions];
};

struct PagesEnv : ModelEnv {
  static inline PagesKernel* kernel = nullptr;  // of the program that runs

  static constexpr unsigned kTries = 2;
  static Space space(std::size_t bytes, std::size_t alignment) { return {kernel->reserve(bytes, alignment), true}; }
  static Extended extend(uptr address, std::size_t bytes) { return kernel->extend(address, bytes); }
  static uptr reserve(std::size_t bytes, std::size_t alignment) { return kernel->reserve(bytes, alignment); }
  static uptr map(std::size_t bytes, std::size_t alignment) { return kernel->map(bytes, alignment); }
  static bool commit(uptr address, std::size_t bytes) {
    return kernel->closes_pages && bytes == kFrameSize ? kernel->open(address, bytes) : kernel->commit(address, bytes);
  }
  static bool forbid(uptr address, std::size_t bytes) { return kernel->forbid(address, bytes); }
  static void touch(uptr) {}
  static bool purge(uptr address, std::size_t bytes) { return kernel->purge(address, bytes); }
  static bool release(uptr address, std::size_t bytes) { return kernel->release(address, bytes); }
  static bool move(uptr from, std::size_t old_bytes, uptr to, std::size_t new_bytes) {
    return kernel->move(from, old_bytes, to, new_bytes);
  }
  static bool move_out(uptr from, std::size_t bytes, uptr to) { return kernel->move_out(from, bytes, to); }
  static void copy(uptr to, uptr from, std::size_t bytes) { kernel->copy(to, from, bytes); }
  static bool resize(uptr address, std::size_t old_bytes, std::size_t new_bytes) {
    return kernel->resize(address, old_bytes, new_bytes);
  }
};

// As many random executions of each, for scripts too long to be searched: FREEWAY_TEST_SEED, else a new seed (printed).
inline std::vector<Scenario> walked(std::vector<Scenario> scenarios, std::uint64_t walks) {
  const char* given = std::getenv("FREEWAY_TEST_SEED");
  const std::uint64_t seed = given != nullptr ? std::strtoull(given, nullptr, 10) : std::random_device()();
  for (Scenario& each : scenarios) {
    each.options.random_walks = walks;
    each.options.seed = seed;
  }
  return scenarios;
}

// Searches of the smaller scenarios with sleep sets alone have the outcomes of those with source sets.
inline void expect_reductions_see_all(const std::vector<Scenario>& scenarios, int enough) {
  int compared = 0;
  for (const Scenario& each : scenarios) {
    Options options = each.options;
    options.reduction = Reduction::kSleep;
    options.max_executions = 2000;
    const Result all = explore_program(each.program, options);
    if (!all.exhausted || all.outcomes.size() < 2) continue;  // too large, or too small to tell
    EXPECT_EQ(explore_program(each.program, each.options).outcomes, all.outcomes) << each.name;
    ++compared;
  }
  std::printf("  %d programs whose search with sleep sets has up to 2000 executions\n", compared);
  EXPECT_GE(compared, enough);
}

// A letter of a script and the number behind it (1 if there is none).
struct Move {
  char letter;
  u32 number;
};

// Calls f(move) for each move of `script`, in order.
template <class F> void each_move(const char* script, F&& f) {
  while (*script != 0) {
    Move move{*script++, 0};
    while (*script >= '0' && *script <= '9') move.number = move.number * 10 + static_cast<u32>(*script++ - '0');
    if (move.number == 0) move.number = 1;
    if (move.letter != ' ') f(move);
  }
}

// What a thread owns, the oldest first.
template <class T> class Belongings {
 public:
  void add(const T& thing) {
    model_check(to_ < kMost, "the script fits");
    things_[to_++] = thing;
  }
  bool any() const { return from_ < to_; }
  T& oldest() { return things_[from_]; }
  T& newest() { return things_[to_ - 1]; }
  T remove() { return things_[from_++]; }
  T remove_newest() { return things_[--to_]; }
  template <class F> void each(F&& f) const {
    for (int i = from_; i < to_; ++i) f(things_[i]);
  }

 private:
  static constexpr int kMost = 8;
  T things_[kMost] = {};
  int from_ = 0, to_ = 0;
};

}  // namespace freeway::model
