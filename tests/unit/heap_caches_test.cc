// SPDX-License-Identifier: MIT
//
// Tests of heap/caches.h and heap/heaps.h: threads that end for ever, are interrupted by handlers, or move to another CPU at each
// step, and then go on with the same heap and size. A block is in one pair of hands, and lies in a frame that its heap has.
#include "heap/heaps.h"

#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "unit/test_env.h"

namespace freeway {
namespace {

using heap::Freed;
using heap::Laid;
using test::ended_at;
using test::TestEnv;

constexpr std::size_t kFrame = std::size_t{64} << 10;
constexpr u32 kIds = 4;

// Records, frames, and CPUs, of which the thread is on one at a time. A section is a function here: nothing happens in it.
class World {
 public:
  using RecordOf = heap::Record<TestEnv>;
  using CacheOf = heap::Cache<TestEnv>;
  using Word = TestEnv::Atomic<u64>;

  World() : units_(new Unit[kUnits]()), frames_(new Frame[kFrames]()) {}

  void* at(u32 index) const { return &units_[index]; }
  u32 make(u32 units) {
    const u32 index = next_unit_;
    if (index + units > kUnits) return 0;
    next_unit_ += units;
    return index;
  }
  uptr take_frames(std::size_t frames, std::size_t, u32 index, bool& zero) {
    zero = false;
    for (std::size_t at = 0; frames == 1 && at < kFrames; ++at)
      if (owner_.emplace(address_of(at), index).second) return address_of(at);
    return 0;
  }
  void give_frames(uptr address, std::size_t) { owner_.erase(address); }
  u32 region_at(uptr block) const {
    const auto found = owner_.find(align_down(block, kFrame));
    return found == owner_.end() ? 0 : found->second;
  }

  u32 cpu() const { return on; }
  process::Claimant claimant() const { return {process::Claimant::name(thread, forks), process::Claimant::name(first, forks)}; }
  bool interrupt_sections() const { return true; }
  bool store_if(const Word& owner, Word& word, u64 expected, const Word& other, u64 others, u64 value) const {
    if (owner.load_relaxed() != on || other.load_relaxed() != others || word.load_relaxed() != expected) return false;
    word.store_relaxed(value);
    return true;
  }
  u64 pop(const Word& owner, Word& top) const { return owner.load_relaxed() == on ? pop_from(top) : 0; }
  u64 give(RecordOf& record, unsigned c) const {
    auto* cache = cache_of(record);
    if (cache == nullptr) return 0;
    auto* entry = &cache->entries[c];
    if (const u64 block = pop_from(entry->top)) return block;
    const u64 base = entry->base.load_relaxed(), free = entry->free.load_relaxed();
    if (base == 0) return give_of_strip(cache->strip, *entry);
    if (free == 0) return 0;
    entry->free.store_relaxed(free & (free - 1));
    const auto& slice = *reinterpret_cast<const heap::Slice<TestEnv>*>(base);
    return slice.address.load_relaxed() + u64{lowest_bit(free)} * slice.size.load_relaxed();
  }
  Laid lay(RecordOf& record, unsigned c, const heap::Slice<TestEnv>* slice, uptr address, u64 block) const {
    auto* cache = cache_of(record);
    if (cache == nullptr) return Laid::kNot;
    auto* entry = &cache->entries[c];
    const u64 top = entry->top.load_relaxed();
    const bool is_slices = entry->base.load_relaxed() == reinterpret_cast<u64>(slice);
    if (slot(top - 8).load_relaxed() == address || (is_slices && (entry->free.load_relaxed() & block) != 0)) return Laid::kTwice;
    if (slot(top).load_relaxed() == 0) return Laid::kNot;
    slot(top).store_relaxed(address);
    entry->top.store_relaxed(top + 8);
    return Laid::kDone;
  }

  u32 on = 0;
  u64 thread = 5, first = 5, forks = 1;  // which one runs, of those of which process

 private:
  static constexpr u32 kUnits = 1 << 18, kFrames = 64;
  struct alignas(64) Unit {
    unsigned char bytes[64];
  };
  struct alignas(kFrame) Frame {
    unsigned char bytes[kFrame];
  };

  uptr address_of(std::size_t frame) const { return reinterpret_cast<uptr>(&frames_[frame]); }
  static Word& slot(u64 at) { return *reinterpret_cast<Word*>(at); }
  static u64 pop_from(Word& top) {
    const u64 at = top.load_relaxed(), block = slot(at - 8).load_relaxed();
    if (block != 0) top.store_relaxed(at - 8);
    return block;
  }
  static u64 give_of_strip(heap::Hand<TestEnv>& hand, const heap::Entry<TestEnv>& entry) {
    const u64 base = hand.base.load_relaxed(), block = hand.free.load_relaxed();
    if (base == 0) return 0;
    const auto& strip = *reinterpret_cast<const heap::Slice<TestEnv>*>(base);
    if (block + entry.size.load_relaxed() > strip.end.load_relaxed()) return 0;
    heap::Slices<TestEnv, World>::kind_of(strip, block).store_relaxed(static_cast<u8>(entry.size_class.load_relaxed()));
    hand.free.store_relaxed(block + entry.size.load_relaxed());
    return block;
  }
  CacheOf* cache_of(RecordOf& record) const {
    return on == heap::kNoCpu ? nullptr : reinterpret_cast<CacheOf*>((&record.cache_of[0])[on].load_relaxed());
  }

  std::unique_ptr<Unit[]> units_;
  std::unique_ptr<Frame[]> frames_;
  u32 next_unit_ = 1;
  std::map<uptr, u32> owner_;  // of each frame that is somebody's: its region
};

constexpr const char* kSteps[] = {"own.cache",   "own.cached", "own.taken_out", "own.refilling", "own.putting_in", "own.cut",
                                  "own.kept",    "own.taking", "own.holding",   "own.freeing",   "own.freed",      "own.letting_go",
                                  "own.let_go",  "own.record", "own.adding",    "own.retiring",  "own.given",      "stack.push",
                                  "stack.pop",   "stack.take_all",
                                  // Of strips.
                                  "own.opening", "own.marking", "own.marked",   "own.counted",   "own.gathered",
                                  "own.closing", "own.leaving", "own.left",
                                  // Of caches that are taken apart.
                                  "own.seized", "own.out_of_place", "own.popped", "own.emptied", "own.replacing", "own.in_place"};

class HeapCaches : public testing::TestWithParam<const char*> {
 protected:
  using Own = heap::Heaps<TestEnv, World>;
  static constexpr unsigned kClasses[] = {class_of_size(2 * kKiB), class_of_size(2 * kKiB),  // of strips
                                           class_of_size(4 * kKiB)};                          // of slices alone

  HeapCaches() : own_(std::make_unique<Own>()) {
    own_->init(&world_, kIds, /*direct=*/false);
    handle_ = own_->create(0, nullptr);
  }

  void* allocate() {
    const unsigned c = kClasses[turn_++ % std::size(kClasses)];
    void* block = own_->allocate(*Own::find(handle_), c);
    EXPECT_NE(block, nullptr);
    EXPECT_NE(world_.region_at(reinterpret_cast<uptr>(block)), 0u) << "in a frame that is not the heap's";
    const auto begin = static_cast<char*>(block), end = begin + kSizeClasses[c].size;
    const auto above = live_.lower_bound(begin);
    EXPECT_TRUE(above == live_.end() || end <= above->first) << "a part of it is another block's";
    EXPECT_TRUE(above == live_.begin() || std::prev(above)->second <= begin) << "a part of it is another block's";
    live_.emplace(begin, end);
    return block;
  }
  void release(void* block) {
    const auto address = reinterpret_cast<uptr>(block);
    EXPECT_EQ(live_.erase(static_cast<char*>(block)), 1u);
    bool was_whole = false;
    EXPECT_EQ(own_->free(world_.region_at(address), address, was_whole), Freed::kOk);
  }
  // Allocates and frees so many that magazines and slices come and go, one of them without a CPU.
  void work(unsigned blocks) {
    for (const auto& [begin, end] : live_) {  // whoever is in the middle of what
      const auto address = reinterpret_cast<uptr>(begin);
      const auto found = own_->block_around(world_.region_at(address), address + 1);
      EXPECT_EQ(found.address, address) << "a block that lives is known";
      EXPECT_EQ(found.bytes, static_cast<std::size_t>(end - begin));
      EXPECT_FALSE(found.is_free);
    }
    std::vector<void*> mine;
    for (unsigned i = 0; i < blocks; ++i) mine.push_back(allocate());
    const u32 cpu = std::exchange(world_.on, heap::kNoCpu);
    mine.push_back(allocate());
    world_.on = cpu;
    for (void* block : mine) release(block);
    own_->trim(*Own::find(handle_));
    for (unsigned i = 0; i < blocks; i += 3) kept_.push_back(allocate());
  }
  void destroy_and_make() {
    EXPECT_TRUE(own_->destroy(handle_, [](auto&) {}));
    live_.clear();
    kept_.clear();
    handle_ = own_->create(0, nullptr);
  }
  void release_kept() {
    for (void* block : kept_) release(block);
    kept_.clear();
  }
  // Nobody else uses the heap: whichever CPU had what in hand, a trim on any finds it.
  void expect_nothing_held() {
    release_kept();
    const u32 cpu = std::exchange(world_.on, kIds - 1);
    own_->trim(*Own::find(handle_));
    world_.on = cpu;
    EXPECT_EQ(own_->figures(*Own::find(handle_)).held_bytes, 0u);
  }

  World world_;
  std::unique_ptr<Own> own_;
  u64 handle_;
  std::map<char*, char*> live_;  // where blocks begin, and end
  unsigned turn_ = 0;
  std::vector<void*> kept_;
};

TEST_P(HeapCaches, AHandlerUsesTheSame) {
  bool is_reached = false;
  for (unsigned skips = 0; skips < 60; ++skips)
    for (const unsigned inside : {1u, 5u, 40u}) {
      TestEnv::at_step(GetParam(), [&] { work(inside); }, skips);
      for (int i = 0; i < 4; ++i, world_.on ^= 1) work(40);  // strips are filled, some blocks of which live
      is_reached |= !TestEnv::step_left();
      expect_nothing_held();
      if (skips % 7 == 0) destroy_and_make();
    }
  EXPECT_TRUE(is_reached);
}

TEST_P(HeapCaches, AThreadMovesAndAnotherUsesWhatItHad) {
  for (unsigned skips = 0; skips < 60; ++skips)
    for (const bool comes_back : {false, true}) {
      world_.on = 0;
      const auto move = [&] {
        world_.thread = 6;
        work(25);
        world_.on = 1;
        work(25);
        if (comes_back) world_.on = 0;
        world_.thread = 5;
      };
      TestEnv::at_step(GetParam(), move, skips);
      for (u32 cpu : {0u, 1u, 0u}) {  // caches are taken apart that others have filled
        work(30);
        world_.on = cpu;
      }
      TestEnv::step_left();
      expect_nothing_held();
      if (skips % 7 == 0) destroy_and_make();
    }
}

// What it had in hand is lost until the heap is destroyed; a heap in the same place has nothing of that.
TEST_P(HeapCaches, AThreadEndsForEver) {
  for (unsigned skips = 0; skips < 60; ++skips) {
    world_.on = 0;
    if (ended_at(GetParam(), [&] { work(30); }, skips)) kept_.clear();
    work(40);
    destroy_and_make();
    work(40);
    destroy_and_make();
  }
}

// The other threads are not in it: what they had seized is its CPU's again.
TEST_P(HeapCaches, AChildOfAForkHasTheCaches) {
  for (unsigned skips = 0; skips < 60; ++skips) {
    for (u32 cpu : {1u, 0u}) {
      world_.on = cpu;
      for (int i = 0; i < 10; ++i) kept_.push_back(allocate());
    }
    const u64 others = world_.thread;
    if (ended_at(GetParam(), [&] { work(30); }, skips)) kept_.clear();
    world_.thread = world_.first = others + 1;
    ++world_.forks;
    for (u32 cpu : {0u, 1u}) {
      world_.on = cpu;
      work(40);
      auto& heap = *Own::find(handle_);
      const u64 there = (&heap.cache_of[0])[cpu].load_relaxed();
      ASSERT_NE(there, 0u) << "a cache is in its place";
      EXPECT_EQ(reinterpret_cast<World::CacheOf*>(there)->owner.load_relaxed(), cpu) << "it is its CPU's";
    }
    destroy_and_make();
  }
}

std::string name_of(const testing::TestParamInfo<const char*>& info) {
  std::string name = info.param;
  name[name.find('.')] = '_';
  return name;
}
INSTANTIATE_TEST_SUITE_P(Steps, HeapCaches, testing::ValuesIn(kSteps), name_of);

TEST(HeapLimits, MoreThanCanBeCountedIsNone) {
  World world;
  const auto own = std::make_unique<heap::Heaps<TestEnv, World>>();
  own->init(&world, kIds, /*direct=*/false);
  for (const u64 limit : {limit_word::kMostHard + 1, limit_word::kMostHard + 2, ~u64{0}}) {
    const auto* record = own->find(own->create(limit, nullptr));
    ASSERT_NE(record, nullptr);
    EXPECT_EQ(own->figures(*record).limit, 0u);
  }
}

}  // namespace
}  // namespace freeway
