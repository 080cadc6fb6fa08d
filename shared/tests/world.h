// SPDX-License-Identifier: MIT
//
// world.h: the world of the models of shared/: a tiny heap that model threads share as processes would, which are
// killed, and what scripts are made of.
//
// Heap      1 … 4 frames; class 1: 2 blocks a frame, class 2: 3 blocks in a run of 2 frames (or of 1); magazines of 2
//           slots
// Deaths    a thread dies before its n-th store or RMW (a death before a load looks the same as before the next store):
//           an exception takes it to its end, where the kernel says so: a releasing store, that gone() acquires. A
//           participant may have died before the threads start, too: then its whole script is run before, as far as it
//           came
// Contents  each block and each frame has plain contents, which the owner writes: two owners at once, or one that does
//           not see what the owner before it did, are a race
// Memory    each frame has a page of the kernel's, or none, whose coming and going are stores: a thread dies before
//           them, too
// After it  all who are gone are recovered; then the audit must be clean and the program's blocks are all that is live.
//           Then all others leave, and what has no live block must be free frames. Frames in use have memory; after
//           trimming all, no other one has
#ifndef FREEWAY_TESTS_MODEL_SHARED_WORLD_H
#define FREEWAY_TESTS_MODEL_SHARED_WORLD_H

#include <algorithm>
#include <array>
#include <string>
#include <vector>

#include "shared/heap.h"
#include "tests/explorer/explorer.h"
#include "tests/explorer/model_env.h"
#include "tests/explorer/scenarios.h"

namespace freeway::model {

struct Died {};
void about_to_store();  // the running thread; throws Died

// ModelEnv, whose threads die before stores.
struct MortalEnv : ModelEnv {
  template <class T> class Atomic : public ModelEnv::Atomic<T> {
    using Base = ModelEnv::Atomic<T>;

   public:
    using Base::Base;
#define FREEWAY_MODEL_SITE const char *file = __builtin_FILE(), int line = __builtin_LINE()
#define FREEWAY_MORTAL(result, name)                             \
  result name(T value, FREEWAY_MODEL_SITE) {                     \
    about_to_store();                                            \
    return Base::name(value, file, line);                        \
  }
    FREEWAY_MORTAL(void, store_relaxed)
    FREEWAY_MORTAL(void, store_release)
    FREEWAY_MORTAL(T, fetch_or_relaxed)
    FREEWAY_MORTAL(T, fetch_or_acquire)
    FREEWAY_MORTAL(T, fetch_or_release)
    FREEWAY_MORTAL(T, fetch_and_relaxed)
#undef FREEWAY_MORTAL
#define FREEWAY_MORTAL_CAS(name)                                \
  bool name(T& expected, T desired, FREEWAY_MODEL_SITE) {       \
    about_to_store();                                           \
    return Base::name(expected, desired, file, line);           \
  }
    FREEWAY_MORTAL_CAS(cas_relaxed)
    FREEWAY_MORTAL_CAS(cas_acquire)
    FREEWAY_MORTAL_CAS(cas_release)
    FREEWAY_MORTAL_CAS(cas_acq_rel)
#undef FREEWAY_MORTAL_CAS
#undef FREEWAY_MODEL_SITE
  };
};

constexpr SizeClass class_of(u32 frames, u32 blocks) {
  SizeClass k{};
  k.size = static_cast<u32>((std::size_t{frames} << kFrameShift) / blocks);
  k.blocks = blocks;
  k.words = 1;
  k.span_frames = frames;
  k.magic = static_cast<u32>(((u64{1} << 35) + k.size - 1) / k.size);
  k.last_word = low_bits(blocks);
  return k;
}

// How large a program's heap is.
struct HeapSize {
  u32 frames = 1;        // that may be used from the start
  u32 capacity = 1;      // up to which it grows
  u32 span_frames = 1;   // of class 2
  bool refuses = false;  // the kernel may refuse memory, after some of it: each time both are tried
  bool keeps = false;    // the kernel may take no memory back, or say that it failed: each time all is tried
  u32 punched = 1;       // a run of so many frames loses its memory when it becomes free
};

class SharedProgram {
 public:
  using Env = MortalEnv;
  static constexpr int kThreads = 4;
  static constexpr u32 kSeats = 5;  // seat `thread + 1`; the last is the judge's
  static constexpr u32 kMostFrames = 4;

  struct Shape {
    static constexpr u32 kClasses = 3, kWords = 1, kBlocks = 3, kMagazine = 2, kSlots = 3 * kMagazine;
    static inline u32 span_frames = 1;  // of class 2, in the program that runs
    static const SizeClass& size_class(u32 c) {
      static constexpr SizeClass kOne = class_of(1, 2), kTwo = class_of(1, 3), kTwoLong = class_of(2, 3);
      return c == 1 ? kOne : span_frames == 1 ? kTwo : kTwoLong;
    }
    static u32 slots(u32) { return kMagazine; }
    static u32 first_slot(u32 c) { return c * kMagazine; }
  };
  using Tables = shared::Tables<Env, Shape>;

  // What is under test is given this: the World of shared/tables.h.
  struct World {
    using Env = SharedProgram::Env;
    using Shape = SharedProgram::Shape;
    using Tables = SharedProgram::Tables;
    Tables tables;
    SharedProgram* program;

    bool gone(u32 token) { return program->dead_[token].load_acquire() != 0; }
    u32 frames() const { return program->frames_.load_acquire(); }
    bool grow(u32) {
      u32 seen = program->frames_.load_acquire();
      if (seen == tables.capacity) return false;
      program->frames_.cas_acq_rel(seen, seen + 1);
      return true;
    }
    bool back(u32 first, u32 n) {
      program->use_frames(first, n);
      const bool refused = program->size_.refuses && model_choose(2) == 1;
      for (u32 f = first; f < first + n - refused; ++f) program->pages_[f].store_relaxed(1);
      return !refused;
    }
    bool back_tables(u32) const { return true; }
    bool is_punched_at_once(u32 n) const { return n >= program->size_.punched; }
    shared::Punched punch(u32 first, u32 n) {
      program->use_frames(first, n);
      const int answer = program->size_.keeps ? model_choose(3) : 0;
      if (answer == 2) return shared::Punched::kNothing;
      for (u32 f = first; f < first + n - (answer == 1); ++f) program->pages_[f].store_relaxed(0);
      return answer == 0 ? shared::Punched::kDone : shared::Punched::kFailed;
    }
    Env::Atomic<u64>* slot(u64 at) { return at - 1 < kThreads ? &program->slots_[at - 1] : nullptr; }
  };

  // `before[t]`: what thread t does before the threads start; `script[t]`: then. Letters:
  //   m M   malloc of class 1, 2        f   free of the oldest block       l   malloc of 2 frames
  //   g     hand the oldest block to whoever takes it    t h   take such a block and free it, keep it
  //   d     all that the seat has in its magazines goes back               x   free the oldest block twice
  //   a A   alloc_into the own slot, class 1, a frame                      z   free_from it
  //   r     recover all that are gone   j   leave, and sit down again      T   trim frame 0
  //   b     recover seat 2 alone
  //   s     sit down at seat 2          S   sit down at seat 1, allocate and free there, leave      q   leave
  struct Scripts {
    std::array<const char*, kThreads> before = {}, script = {};  // null: nothing
    HeapSize size = {};
    // Before which of its stores each dies: of its script, of what it does before. -1: it does not.
    std::array<int, kThreads> dies = {-1, -1, -1, -1}, died = {-1, -1, -1, -1};
  };

  explicit SharedProgram(const Scripts& scripts);
  void thread(int id);
  void finish();
  void count_store();

  // The most stores that the thread made in its script, and in what it does before, in any execution.
  static inline int most_stores[kThreads], most_stores_before[kThreads];

 private:
  static constexpr u32 kMostBlocks = 6;
  struct Hands {
    u64 blocks[kMostBlocks];
    u32 count;
    u32 uncertain;  // blocks that are LIVE or not: killed in malloc or free
  };

  void run(int id, const char* script);
  void act(int id, char letter);
  void malloc(int id, u32 c);
  void malloc_large(int id, u32 frames);
  void free(int id, u64 block);
  u64 oldest(int id);
  void use(u64 block);
  void use_frames(u32 first, u32 n);
  void check_memory(bool trimmed);
  void check_audit();

  Scripts scripts_;
  HeapSize size_;
  World world_;
  bool is_dead_[kThreads] = {};
  int running_ = -1, stores_[kThreads] = {};
  Hands hands_[kThreads] = {};
  Env::Atomic<u64> entries_[kMostFrames], bits_[kMostFrames], hints_[Shape::kClasses], participants_[kSeats];
  Env::Atomic<u8> states_[kMostFrames * Shape::kBlocks], backing_[kMostFrames];
  Env::Atomic<u32>
      pages_[kMostFrames];  // the kernel's: whether the frame has memory. The threads die while it is given or taken
  Tables::Slab slabs_[kSeats];
  Env::Atomic<u64> slots_[kThreads];
  // What is not under test does not die.
  ModelEnv::Atomic<u32> frames_;
  ModelEnv::Atomic<u32> dead_[kSeats];
  ModelEnv::Atomic<u64> handed_;
  ModelEnv::Plain<u32> contents_[kMostFrames][Shape::kBlocks];
};

using Scripts = SharedProgram::Scripts;

Scenario shared_scenario(const Scripts& scripts);
std::vector<Scenario> shared_scenarios(const std::vector<Scripts>& programs);
// Each program as it is, and with `thread` killed before each of the stores of its script, in turn.
std::vector<Scripts> with_deaths(const std::vector<Scripts>& programs, std::size_t thread);
// Each program with `thread` killed before each of the stores of what it does before, in turn.
std::vector<Scripts> with_deaths_before(const std::vector<Scripts>& programs, std::size_t thread);

}  // namespace freeway::model

#endif  // FREEWAY_TESTS_MODEL_SHARED_WORLD_H
