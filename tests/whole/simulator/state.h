// SPDX-License-Identifier: MIT
//
// state.h: the program of a seed: what it is to do, and what it knows of its blocks.
#ifndef FREEWAY_SIMULATOR_STATE_H
#define FREEWAY_SIMULATOR_STATE_H

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "freeway/freeway.h"
#include "freeway/heap.h"
#include "tests/whole/simulator/random.h"

namespace freeway::sim {

using Address = std::uintptr_t;

constexpr std::size_t kFrame = 64 * 1024;
constexpr std::size_t kUnknown = ~std::size_t{0};
constexpr unsigned kMostBlocks = 400;
constexpr int kMostHeaps = 3;

struct Block {
  Address address = 0;
  std::size_t size = 0;
  std::uint64_t pattern = 0;
  int heap = -1;  // of the program's
  int owner = 0;
  bool sampled = false;   // by a profile of every block
  std::size_t asked = 0;  // its first size, which a profile has
};

struct OwnHeap {
  freeway_heap_t handle = nullptr;
  unsigned users = 0;  // calls on it
  bool ends = false;
};

enum Call {
  kMalloc,
  kFree,
  kRealloc,
  kCalloc,
  kAligned,
  kBatch,
  kTrim,
  kTrimStep,
  kIdle,
  kLimit,
  kProfile,
  kReserve,
  kHeapNew,
  kHeapMalloc,
  kHeapTrim,
  kHeapDestroy,
  kAsk,
  kMove,
  kCalls
};

// What the seed chose: each seed leaves many kinds of things out, so that the others come close together.
struct Plan {
  int threads = 1;
  unsigned calls = 100;  // of each thread
  std::uint64_t weights[kCalls] = {};
  std::size_t sizes[4] = {};
  unsigned size_count = 1;
  std::uint64_t large_one_in = 0, any_size_one_in = 0;
  std::size_t largest = 300 * 1024;  // of most of the large ones
  std::uint64_t remote = 50;         // percent of frees
  unsigned most_blocks = 100;
  std::size_t ballast = 0;   // bytes of a block that lives as long as the program
  bool every_block = false;  // profiles are of every block
  bool limits = false, hardened = false, guarded = false;
  std::vector<std::string> options;
};

struct State {
  Plan plan;
  Random random;
  std::vector<Block> blocks;
  std::map<Address, Address> places;  // of live blocks: begin, end
  OwnHeap heaps[kMostHeaps];
  void* ballast = nullptr;
  unsigned next_thread = 0;
  std::uint64_t patterns = 0;
  bool every_block = false;      // a profile of every block is on, as far as is known
  unsigned profile_changes = 0;  // that are under way, or may have been left there
  unsigned profiles = 0;
  bool other_profiles = false, near_profiles = false;
  bool no_block = false;  // a profile is on that samples none, by all odds
  std::uint64_t samples = 0;
  std::uint64_t last_hard = 0, last_held = 0;  // frames
  std::vector<char*> environment;
};
extern State state;

// plan.cc: all that the seed decides before it begins.
enum Theme { kMixed, kHeaps, kSpare, kPages, kLimits, kGuards, kProfiles, kStart, kSmallSpace, kSuperblocks, kThemes };
void make_plan(std::uint64_t seed);

// calls.cc: a call of the malloc, or a few, with what must hold of its result.
void call_malloc();
void make_call(const std::uint64_t (&weights)[kCalls]);
// Takes block `index` out of those that are known.
Block leave(std::size_t index);
// Whether its first `size` bytes, which may have been copied to `at`, are what was written; else the seed fails.
void verify(const Block& b, std::size_t size, Address at);
[[noreturn]] void failed(const char* what, const Block& b);
// Whether a call may find no memory.
bool may_fail();
// Whether no other call is under way.
bool is_alone();

// checks.cc: at any moment, with all threads stopped where they are; now and then, when no call is under way; between
// two calls.
void look();
void check_when_alone();
void check_limit();
// A thread's: the last one, when all others have ended or stopped for ever, looks, frees everything, and looks again.
void finish(int thread);

}  // namespace freeway::sim

#endif  // FREEWAY_SIMULATOR_STATE_H
