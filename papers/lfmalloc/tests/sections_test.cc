// SPDX-License-Identifier: MIT
//
// The restartable critical sections (sections.S): that they do what their twins in C++ do; the decision cases of the
// paper's Fig. 2; and every instruction of every section interrupted, with another operation on the same heap, a thread
// of the same CPU, or a migration in between.
#include <pthread.h>

#include <atomic>
#include <cstring>
#include <random>
#include <set>
#include <thread>

#include "papers/lfmalloc/tests/cpu_world.h"
#include "papers/lfmalloc/tests/interrupt.h"

extern "C" {
extern const freeway::lfmalloc::test::Section freeway_section_lfmalloc_pop __attribute__((visibility("hidden")));
extern const freeway::lfmalloc::test::Section freeway_section_lfmalloc_push __attribute__((visibility("hidden")));
extern const freeway::lfmalloc::test::Section freeway_section_lfmalloc_install __attribute__((visibility("hidden")));
}

namespace freeway::lfmalloc::test {
namespace {

u64 restarts() { return *const_cast<volatile u64*>(&freeway_lfmalloc_restarts); }

using Sections = CpuWorld;

TEST_F(Sections, DoWhatTheirTwinsDo) {
  const char* given = std::getenv("FREEWAY_TEST_SEED");
  const unsigned seed = given ? static_cast<unsigned>(std::strtoul(given, nullptr, 10)) : std::random_device{}();
  std::printf("FREEWAY_TEST_SEED=%u\n", seed);
  std::mt19937 random(seed);
  // Two worlds: [0] is this CPU's, with an empty superblock beside its own; [1] the twins'.
  OneSuperblock twin, others[2] = {OneSuperblock(false), OneSuperblock(false)};
  LocalHeap<Product> twin_heap;
  twin_heap.online[kClass].store_relaxed(&twin.header);
  std::vector<std::pair<uptr, uptr>> taken;
  for (int step = 0; step < 200000; ++step) {
    switch (random() % 8) {
      case 0: {
        const bool forth = random() % 2 == 0;
        const u64 was = freeway_lfmalloc_install(kClass, forth ? &here().header : &others[0].header,
                                                 forth ? &others[0].header : &here().header);
        Block* twin_was = alone::install(twin_heap, kClass, forth ? &twin.header : &others[1].header,
                                         forth ? &others[1].header : &twin.header);
        ASSERT_EQ(was == reinterpret_cast<u64>(&here().header), twin_was == &twin.header);
        break;
      }
      case 1:
      case 2:
      case 3: {
        const SectionAnswer got = freeway_lfmalloc_pop(kClass);
        const Popped<Product> expected = alone::pop(twin_heap, kClass);
        ASSERT_EQ(got.first != 0, expected.block != 0);
        if (got.first != 0) {
          ASSERT_EQ(got.first - here().base(), expected.block - twin.base());
          taken.emplace_back(got.first, expected.block);
        } else {
          ASSERT_EQ(got.second == reinterpret_cast<uptr>(&here().header), expected.seen == &twin.header);
        }
        break;
      }
      default: {
        if (taken.empty()) break;
        const std::size_t which = random() % taken.size();
        const auto [block, twin_block] = taken[which];
        const u64 done = freeway_lfmalloc_push(kClass, &here().header, block);
        ASSERT_EQ(done == 1, alone::push(twin_heap, kClass, &twin.header, twin_block));
        if (done == 1) {
          taken[which] = taken.back();
          taken.pop_back();
        }
      }
    }
    ASSERT_EQ(here().header.local.load_relaxed(), twin.header.local.load_relaxed()) << "step " << step;
  }
}

TEST_F(Sections, SayWhatIsMissing) {
  OneSuperblock other;
  freeway_lfmalloc_heaps[cpus[0]] = nullptr;
  EXPECT_EQ(freeway_lfmalloc_pop(kClass).first, kNoHeap);
  EXPECT_EQ(freeway_lfmalloc_push(kClass, &here().header, here().block(0)), kNoHeap);
  freeway_lfmalloc_heaps[cpus[0]] = &heap(cpus[0]);
  EXPECT_EQ(freeway_lfmalloc_pop(kClass + 1).first, 0U) << "no superblock of that class";
  EXPECT_EQ(freeway_lfmalloc_pop(kClass + 1).second, 0U);
  EXPECT_EQ(freeway_lfmalloc_push(kClass, &other.header, other.block(0)), 0U) << "not on line here";
  // A decoy that says "not registered", as in threads that libc did not register.
  alignas(32) static thread_local int decoy[8] = {0, -1};
  const u64 place = freeway_rseq.area;
  freeway_rseq.area = reinterpret_cast<u64>(&decoy) - reinterpret_cast<u64>(__builtin_thread_pointer());
  EXPECT_EQ(freeway_lfmalloc_pop(kClass).first, kNotRegistered);
  EXPECT_EQ(freeway_lfmalloc_push(kClass, &here().header, here().block(0)), kNotRegistered);
  EXPECT_EQ(freeway_lfmalloc_install(kClass, nullptr, nullptr), kNotRegistered);
  freeway_rseq.area = place;
}

// Fig. 2. A: no preemption. The section returns, nothing is restarted.
TEST_F(Sections, CaseANoPreemptionNoRestart) {
  int undisturbed = 0;
  for (int i = 0; i < 2000; ++i) {
    const long switched = switches();
    const u64 before = restarts();
    const uptr block = freeway_lfmalloc_pop(kClass).first;
    ASSERT_EQ(freeway_lfmalloc_push(kClass, &here().header, block), 1U);
    const u64 after = restarts();
    if (switches() != switched) continue;
    EXPECT_EQ(after, before);
    ++undisturbed;
  }
  EXPECT_GT(undisturbed, 0);
}

// What another thread of the same CPU does while this one is off it: its heap is not what it was.
struct Neighbour {
  explicit Neighbour(int cpu)
      : thread([this, cpu] {
          stay_on(cpu);
          while (!end.load()) {
            if (wanted.load() != 0) {
              got.store(freeway_lfmalloc_pop(kClass).first);
              wanted.store(0);
            }
            ::sched_yield();
          }
        }) {}
  ~Neighbour() {
    end.store(true);
    thread.join();
  }
  uptr pop() {
    wanted.store(1);
    while (wanted.load() != 0) ::sched_yield();  // off the CPU, until the other one was on it
    return got.load();
  }
  std::atomic<int> wanted{0};
  std::atomic<uptr> got{0};
  std::atomic<bool> end{false};
  std::thread thread;
};

// B: preemption, and related threads run. Before the section, or between two of them, it is the next section that sees
// what they did; in it, see D.
TEST_F(Sections, CaseBPreemptionOutsideShowsInTheNextSection) {
  Neighbour neighbour(cpus[0]);
  const uptr first = here().top();
  EXPECT_EQ(neighbour.pop(), first);
  const uptr second = freeway_lfmalloc_pop(kClass).first;
  EXPECT_NE(second, first);
  EXPECT_EQ(here().count(), kClasses[kClass].blocks - 2);
}

// C: interrupted, but not in a critical section: simple return. Before its first instruction, and after its store.
TEST_F(Sections, CaseCOutsideASectionNothingIsRestarted) {
  Interrupt interrupt;
  for (const u64 address : {reinterpret_cast<u64>(&freeway_lfmalloc_pop),
                            freeway_section_lfmalloc_pop.start + freeway_section_lfmalloc_pop.length}) {
    const u32 before_count = here().count();
    const u64 before = restarts();
    const long switched = switches();
    interrupt.at(address, freeway_section_lfmalloc_pop, [] {});
    EXPECT_NE(freeway_lfmalloc_pop(kClass).first, 0U);
    const u64 after = restarts();
    EXPECT_TRUE(interrupt.arrived && !interrupt.aborted);
    if (switches() == switched) { EXPECT_EQ(after, before); }
    EXPECT_EQ(here().count(), before_count - 1);
  }
}

// D: interrupted in the section: restart, at each of its instructions, in four ways. What was read before is stale, and
// must not be committed.
enum class Way { kNothing, kHandler, kNeighbour, kMigration };

class EveryInstruction : public Sections {
 protected:
  // Calls `run` with an interruption at each instruction of `section`, on its way through it; `undo` afterwards.
  template <class Run> void everywhere(const Section& section, Way way, Run&& run) {
    Interrupt interrupt;
    std::unique_ptr<Neighbour> neighbour;
    if (way == Way::kNeighbour) neighbour = std::make_unique<Neighbour>(cpus[0]);
    const std::vector<u64> all = instructions(section.start, section.start + section.length);
    ASSERT_GT(all.size(), 3U) << "objdump (Debian package binutils) gave no instructions";
    int arrived = 0;
    for (const u64 address : all) {
      ASSERT_TRUE(stay_on(cpus[0]));
      popped_meanwhile = 0;
      const u64 before = restarts();
      interrupt.at(address, section, [&] {
        if (way == Way::kHandler) popped_meanwhile = freeway_lfmalloc_pop(kClass).first;
        if (way == Way::kNeighbour) popped_meanwhile = neighbour->pop();
        if (way == Way::kMigration) stay_on(cpus[1]);
      });
      run();
      ASSERT_TRUE(interrupt.arrived) << "the instruction at " << address - section.start << " was not reached";
      EXPECT_TRUE(interrupt.aborted) << address - section.start;
      EXPECT_GE(restarts(), before + 1);
      ++arrived;
    }
    std::printf("  %d instructions interrupted\n", arrived);
  }
  void put_back(uptr block) {
    ASSERT_TRUE(stay_on(cpus[0]));
    for (const int cpu : cpus)
      if (align_down(block, kSuperblockBytes) == superblock(cpu).base()) {
        ASSERT_TRUE(stay_on(cpu));
        ASSERT_EQ(freeway_lfmalloc_push(kClass, &superblock(cpu).header, block), 1U);
      }
  }
  // All blocks are in the local lists, each once.
  void check_lists() {
    for (const int cpu : cpus) {
      std::set<uptr> seen;
      uptr block = superblock(cpu).top();
      for (u32 i = 0; i < kClasses[kClass].blocks; ++i) {
        ASSERT_TRUE(seen.insert(block).second) << "twice in the list";
        block = block_at(superblock(cpu).base(), static_cast<u32>(Product::link(block).load_relaxed()));
      }
      ASSERT_EQ(superblock(cpu).count(), kClasses[kClass].blocks);
      ASSERT_EQ(block, superblock(cpu).base()) << "the list ends";
    }
  }
  void pops(Way way) {
    everywhere(freeway_section_lfmalloc_pop, way, [&] {
      const uptr block = freeway_lfmalloc_pop(kClass).first;
      ASSERT_NE(block, 0U);
      ASSERT_NE(block, popped_meanwhile) << "a stale block was handed out";
      if (way == Way::kMigration) { EXPECT_EQ(align_down(block, kSuperblockBytes), superblock(cpus[1]).base()); }
      put_back(block);
      if (popped_meanwhile != 0) put_back(popped_meanwhile);
      check_lists();
    });
  }
  void pushes(Way way) {
    everywhere(freeway_section_lfmalloc_push, way, [&] {
      // The block, taken before the breakpoint can be reached: the push section only.
      const uptr block = freeway_lfmalloc_pop(kClass).first;
      const u64 done = freeway_lfmalloc_push(kClass, &here().header, block);
      ASSERT_EQ(done, way == Way::kMigration ? 0U : 1U) << "after a migration the block is remote";
      if (done == 0) put_back(block);
      if (popped_meanwhile != 0) put_back(popped_meanwhile);
      check_lists();
    });
  }
  void installs(Way way) {
    OneSuperblock other;
    everywhere(freeway_section_lfmalloc_install, way, [&] {
      const uptr was = freeway_lfmalloc_install(kClass, &here().header, &other.header);
      const bool done = was == reinterpret_cast<uptr>(&here().header);
      ASSERT_EQ(done, way != Way::kMigration) << "another CPU has another superblock on line";
      ASSERT_TRUE(stay_on(cpus[0]));
      if (done) freeway_lfmalloc_install(kClass, &other.header, &here().header);
      if (popped_meanwhile != 0) put_back(popped_meanwhile);
      check_lists();
    });
  }
  uptr popped_meanwhile = 0;
};

TEST_F(EveryInstruction, CaseDRestarts) {
  for (const Way way : {Way::kNothing, Way::kHandler}) {
    pops(way);
    pushes(way);
    installs(way);
  }
}
TEST_F(EveryInstruction, CaseDRestartsWhenAThreadOfTheSameCpuRan) {
  pops(Way::kNeighbour);
  pushes(Way::kNeighbour);
  installs(Way::kNeighbour);
}
TEST_F(EveryInstruction, CaseDRestartsOnAnotherCpu) {
  if (cpus.size() < 2) GTEST_SKIP() << "one CPU only";
  pops(Way::kMigration);
  pushes(Way::kMigration);
  installs(Way::kMigration);
}

// Many threads, all CPUs: no block in two hands.
TEST_F(Sections, ThreadsNeverGetTheSameBlock) {
  std::vector<std::thread> threads;
  std::atomic<int> twice{0};
  for (int id = 0; id < 4; ++id)
    threads.emplace_back([&, id] {
      std::vector<uptr> mine;
      for (int i = 0; i < 20000; ++i) {
        if (const uptr block = freeway_lfmalloc_pop(kClass).first; block != 0 && block < kNoHeap) {
          auto* owner = reinterpret_cast<std::atomic<int>*>(block + 8);
          if (owner->exchange(id + 1) != 0) twice.fetch_add(1);
          mine.push_back(block);
        }
        if (mine.size() > 16) {
          const uptr block = mine[static_cast<std::size_t>(i) % mine.size()];
          reinterpret_cast<std::atomic<int>*>(block + 8)->store(0);
          bool done = false;
          for (const int cpu : cpus)
            done |= !done && align_down(block, kSuperblockBytes) == superblock(cpu).base() &&
                    freeway_lfmalloc_push(kClass, &superblock(cpu).header, block) == 1;
          if (!done) reinterpret_cast<std::atomic<int>*>(block + 8)->store(id + 1);
          if (done) mine.erase(mine.begin() + i % static_cast<long>(mine.size()));
        }
      }
    });
  for (std::thread& each : threads) each.join();
  EXPECT_EQ(twice.load(), 0);
}

}  // namespace
}  // namespace freeway::lfmalloc::test
