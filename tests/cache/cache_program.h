// SPDX-License-Identifier: MIT
// cache_program.h: src/cache over src/superblock in the smallest world around them, and threads that follow scripts.
//
// World     one size class, that of the largest blocks, whose magazines have four slots and are filled by two; two
//           spans, three descriptors, two slabs. A block's owner writes to it, so that a block in two hands is a race
// Modes     kClaimed: spare slabs (spare_slabs.h) for single calls, as many as the script says.   kKept: threads keep
//           them between calls, and one that keeps none looks for one at each call; one more is for single calls, of
//           threads that
//           find none, and of handlers.   kSections: one slab a CPU (cpu_slabs.h), entered by restartable
//           sections (explorer.h), which do what PlainSlab does, as tests/cache/rseq shows of the ones in assembly; the
//           load of a CPU's entry is an acquire here, where the machine orders it by the address that it yields
// Scripts   one letter an action:
//             m malloc    f free the oldest block    > go to the other CPU
//             w clear the way: free blocks of the first span, which is worth leaving, go from the magazine's top
//             (way.h) h send home: the second block of each superblock is foreign to all
//             d drain: empty a slab that another may be using, the first that there is; D where membarrier is refused
//             c claim a slab, or enter the kept one, and stay in it         u malloc, v free in it         r release it
//             a look at a slab, as accounts do
//             F fork: the others stay behind; c … F … r is a handler that forks within a call
//             K the kernel refuses this thread's barriers from now on
//             T make the thread that is not there from the start
//           in the setup also: 0 1 2 give the oldest block to that thread
// Promises  checked by finish(): every block is free once, in one slab once, or in one pair of hands; every superblock
//           is within reach; when all is freed and the slabs are emptied, every span has been given back. With a thread
//           stopped for ever, or left behind by a fork: nothing is in two places; out of reach is what it had in hand:
//           one superblock, and one batch
#pragma once

#include <cstddef>
#include <new>

#include "cache/cpu_slabs.h"
#include "cache/magazines.h"
#include "cache/spare_slabs.h"
#include "cache/way.h"
#include "superblock/superblocks.h"
#include "sync/lives.h"
#include "tests/explorer/explorer.h"
#include "tests/explorer/model_env.h"

namespace freeway::model {

constexpr unsigned kCacheClass = kClassCount - 1;
constexpr u32 kCacheDescriptors = 3, kCacheSpans = 2, kCacheSlabs = 3, kMostOfASpan = 4;
constexpr std::size_t kSpanBytes = kSizeClasses[kCacheClass].span_bytes();
constexpr uptr kFirstCacheSpan = 16 * kSpanBytes;
static_assert(kMagazines[kCacheClass].small == 4);

struct CacheBacking {
  SizeClass shape;  // that of the class, with fewer blocks
  ModelEnv::Atomic<u32> made;
  ModelEnv::Atomic<u64> used;  // spans, as bits
  ModelEnv::Atomic<u32> map[kCacheSpans];
  ModelEnv::Plain<u32> content[kCacheSpans][kMostOfASpan];
  alignas(64) std::byte descriptors[kCacheDescriptors + 1][256];

  const SizeClass& size_class(unsigned) const { return shape; }
  Descriptor<ModelEnv>& descriptor(u32 index);
  u32 make_descriptor(unsigned c);
  uptr take_span(unsigned c, u32 d);
  u32 descriptor_at(uptr address, unsigned c);
  void give_span(uptr address, unsigned c);
  static unsigned node() { return 0; }
  static u32 span_index(uptr address);
  ModelEnv::Plain<u32>& content_of(uptr block);
};

enum class CacheMode { kClaimed, kKept, kSections };

struct CacheScript {
  CacheMode mode;
  u32 blocks;  // in a superblock
  u32 slabs;   // kClaimed: how many there are to claim; kKept: to keep
  const char* setup;
  const char* thread[3];
  int cpu[3] = {0, 0, 1};
};

// Where a process's life is written down (sync/lives.h): in the program.
struct LifeEnv : ModelEnv {
  static u64 wiped_page();
  static void drop_page(u64 page);
  static bool is_first_thread();
};

class CacheProgram {
 public:
  static constexpr int kThreads = 3;  // a thread with an empty script ends at once
  using Env = ModelEnv;

  explicit CacheProgram(CacheScript s);
  void thread(int id);
  void finish();

  // What magazines ask of a heap.
  Superblocks<ModelEnv, CacheBacking>& superblocks() { return superblocks_; }
  u64 closed() const;
  Place place_of(unsigned c, const SizeClass& k, void* block);
  void free_group(unsigned c, const SizeClass& k, const Group& group, void* block);
  static bool is_far(uptr) { return false; }
  static bool is_foreign(const Slab&, unsigned, const void* block);
  static bool has_nodes() { return false; }
  static bool is_away(const Slab&, unsigned, const void*) { return false; }
  static void settle_home(const Slab&, unsigned, u32) {}
  // And a way.
  static bool is_left(unsigned, const void* block) {
    return CacheBacking::span_index(reinterpret_cast<uptr>(block)) == 0;
  }
  u32 free_in(u32 d);

 private:
  friend struct LifeEnv;
  friend class SectionAccess;
  struct Revoker;
  static constexpr unsigned kMost = 8;

  using Spare = SpareSlabs<ModelEnv>;

  struct Hands {
    void* blocks[kMost] = {};
    unsigned from = 0, to = 0;
    Spare::Taken taken = {};  // stayed in
    int cpu = 0;
  };

  // The thread that runs; the main one is that which the process began with.
  static int id() { return model_thread() < 0 ? 0 : model_thread(); }
  void act(char move, Hands& mine);
  void take(Hands& mine, void* block);
  void* give(Hands& mine);
  void* allocate(Hands& mine);
  void release(Hands& mine, void* block);
  void* direct();
  template <class F> bool with_spare(F&& f);
  Spare::Taken take_spare();
  Slab* own_slab(int cpu);
  Slab* make_slab(unsigned cpu);
  Slab* new_slab();
  Slab& use(Slab* slab);
  void send_home(Hands& mine);
  void clear_way(Hands& mine);
  void drain();
  void drain_own(Hands& mine);
  Claimant who();
  void look_at_a_slab();
  void fork();
  void check_places();
  void empty_all();

  CacheScript script_;
  CacheBacking backing_;
  Superblocks<ModelEnv, CacheBacking> superblocks_;
  Magazines<CacheProgram> magazines_;
  Way<CacheProgram> way_;
  Spare spare_;
  Spare::Own own_[kThreads];
  bool refused_[kThreads] = {};
  CpuSlabs<ModelEnv> cpu_slabs_;
  ModelEnv::Atomic<Slab*> entries_[2];
  ModelEnv::Atomic<u32> slabs_made_;
  bool made_for_[kCacheSlabs] = {};
  ModelEnv::Plain<u32> made_[kCacheSlabs];  // written by a slab's maker: whoever uses it must have seen that
  Lives<LifeEnv> lives_;
  ModelEnv::Atomic<u64> pages_[3];
  ModelEnv::Atomic<u32> pages_made_;
  Hands hands_[kThreads], main_;
  int first_thread_ = 0, forked_ = -1;
};

// With a thread that is not there from the start.
class CacheProgramWithChild : public CacheProgram {
 public:
  static constexpr unsigned kMadeLater = 1U << 2;
  using CacheProgram::CacheProgram;
};

}  // namespace freeway::model
