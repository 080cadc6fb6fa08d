// SPDX-License-Identifier: MIT
//
// Tests of os/process.h: bounds that no CPU number may reach, and who is still there after a fork, also after one that
// libc does not know of.
#include "os/process.h"

#include <gtest/gtest.h>
#include <sched.h>
#include <signal.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <barrier>
#include <fstream>
#include <functional>
#include <string>
#include <thread>

#include "arch/rseq_layout.h"
#include "os/machine.h"
#include "sync/lives.h"
#include "tests/support/acting_fault.h"

extern "C" {
extern const unsigned int __rseq_size __attribute__((weak));
extern const std::ptrdiff_t __rseq_offset __attribute__((weak));
}

namespace freeway::test {
namespace {

long libc_fork() { return fork(); }
long raw_fork() {
#ifdef SYS_fork
  return syscall(SYS_fork);
#else
  return syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0);
#endif
}

// What `f` answers in a child that `make` made; ~0 if the child fails.
u64 in_child(long (*make)(), const std::function<u64()>& f) {
  int ends[2];
  if (pipe(ends) != 0) return ~u64{0};
  const long child = make();
  if (child == 0) {
    const u64 answer = f();
    _exit(write(ends[1], &answer, sizeof(answer)) == sizeof(answer) ? 0 : 1);
  }
  close(ends[1]);
  u64 answer = ~u64{0};
  if (read(ends[0], &answer, sizeof(answer)) != sizeof(answer)) answer = ~u64{0};
  close(ends[0]);
  waitpid(static_cast<pid_t>(child), nullptr, 0);
  return answer;
}

unsigned read_area(unsigned offset) {
  const auto* area = static_cast<const char*>(__builtin_thread_pointer()) + process::rseq().offset;
  return *reinterpret_cast<const volatile unsigned*>(area + offset);
}

TEST(Process, NodesAreThoseOfTheKernel) {
  std::ifstream online("/sys/devices/system/node/online");
  std::string text;
  if (online >> text) { EXPECT_EQ(process::nodes() > 1, text.find_first_of("-,") != std::string::npos) << text; }
  cpu_set_t before, one;
  ASSERT_EQ(sched_getaffinity(0, sizeof(before), &before), 0);
  const auto rseq = process::rseq();
  for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
    if (!CPU_ISSET(cpu, &before)) continue;
    CPU_ZERO(&one);
    CPU_SET(cpu, &one);
    ASSERT_EQ(sched_setaffinity(0, sizeof(one), &one), 0);
    unsigned node = ~0u;
    ASSERT_EQ(syscall(SYS_getcpu, nullptr, &node, nullptr), 0);
    EXPECT_EQ(process::node(0), node) << cpu;
    if (rseq.registered && rseq.has_mm_cid) { EXPECT_EQ(process::node(static_cast<u64>(rseq.offset)), node) << cpu; }
  }
  sched_setaffinity(0, sizeof(before), &before);
}

TEST(Process, RseqIsWhatLibcRegistered) {
  const process::Rseq rseq = process::rseq();
  if (&__rseq_size == nullptr || __rseq_size == 0) {
    EXPECT_FALSE(rseq.registered);
    return;
  }
  EXPECT_TRUE(rseq.registered);
  EXPECT_EQ(rseq.offset, __rseq_offset);
  EXPECT_GE(rseq.bytes, __rseq_size);
  // Registering once more is refused in one way if the length is the right one, and in another if it is not.
  char* area = static_cast<char*>(__builtin_thread_pointer()) + rseq.offset;
  errno = 0;
  EXPECT_EQ(syscall(SYS_rseq, area, rseq.bytes, 0, RSEQ_SIGNATURE), -1);
  EXPECT_EQ(errno, EBUSY) << "libc registered with another length than " << rseq.bytes;
  EXPECT_EQ(rseq.has_mm_cid, getauxval(27 /* AT_RSEQ_FEATURE_SIZE */) >= RSEQ_MM_CID + 4);
  bool in_thread = false;
  std::thread([&] { in_thread = process::rseq().registered; }).join();
  EXPECT_TRUE(in_thread) << "each thread is";
}

TEST(Process, NoCpuOrConcurrencyIdReachesTheBound) {
  const unsigned bound = process::cpus().id_bound;
  EXPECT_GE(bound, 1u);
  cpu_set_t before;
  ASSERT_EQ(sched_getaffinity(0, sizeof(before), &before), 0);
  for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
    if (!CPU_ISSET(cpu, &before)) continue;
    EXPECT_LT(static_cast<unsigned>(cpu), bound);
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(cpu, &one);
    ASSERT_EQ(sched_setaffinity(0, sizeof(one), &one), 0);
    EXPECT_EQ(sched_getcpu(), cpu);
    EXPECT_EQ(process::cpus().id_bound, bound) << "it does not depend on where the process may run";
    if (process::rseq().registered) {
      EXPECT_LT(read_area(RSEQ_CPU_ID), bound);
      if (process::rseq().has_mm_cid) { EXPECT_LT(read_area(RSEQ_MM_CID), bound); }
    }
  }
  ASSERT_EQ(sched_setaffinity(0, sizeof(before), &before), 0);
  // "0-3,8-11": the last number is the highest CPU that this machine can ever have.
  std::string possible;
  std::ifstream("/sys/devices/system/cpu/possible") >> possible;
  if (!possible.empty()) { EXPECT_LT(std::stoul(possible.substr(possible.find_last_of(",-") + 1)), bound); }
}

TEST(Process, UsableCpusAreThoseOfTheAffinity) {
  cpu_set_t set;
  ASSERT_EQ(sched_getaffinity(0, sizeof(set), &set), 0);
  EXPECT_EQ(process::cpus().usable, static_cast<unsigned>(CPU_COUNT(&set)));
  EXPECT_EQ(in_child(libc_fork,
                     [] {
                       cpu_set_t one;
                       CPU_ZERO(&one);
                       CPU_SET(sched_getcpu(), &one);
                       sched_setaffinity(0, sizeof(one), &one);
                       return u64{process::cpus().usable};
                     }),
            1u);
}

// --- Who holds what, after a fork -----------------------------------------------------------------------------------

using process::claimant;

u64 own_thread() { return reinterpret_cast<u64>(__builtin_thread_pointer()) / Claimant::kThreadUnit; }

TEST(Claimant, AWordHasItsThreadAndItsEpoch) {
  for (u64 thread : {u64{1}, u64{0x1234567}, low_bits(43)})
    for (u64 epoch : {u64{1}, u64{77}, low_bits(20)})
      for (u64 mark : {u64{0}, Claimant::kSpareBit}) {
        EXPECT_EQ(Claimant::name(thread, epoch) & Claimant::kSpareBit, 0u);
        EXPECT_EQ(Claimant::thread(Claimant::name(thread, epoch) | mark), thread);
        EXPECT_EQ(Claimant::epoch(Claimant::name(thread, epoch) | mark), epoch);
      }
}

TEST(Claimant, OnlyWhatNobodyInThisProcessCanHoldMayBeReplaced) {
  for (u64 thread = 1; thread < 6; ++thread)
    for (u64 epoch = 1; epoch < 6; ++epoch) {
      const u64 seen = Claimant::name(thread, epoch);
      // A thread of epoch 3, in a process that began with thread 2. What bears a later epoch was claimed by a thread
      // that a handler started in this process, after it had forked, while `who` was held.
      const Claimant who = {Claimant::name(4, 3), Claimant::name(2, 3)};
      const bool left_behind = epoch < 3 && thread != 2;
      ASSERT_EQ(who.may_replace(seen), left_behind) << thread << " " << epoch;
      ASSERT_TRUE(who.may_replace(0));
      // Where it is not known whom the process began with.
      ASSERT_FALSE((Claimant{who.self, 3}.may_replace(seen)));
      ASSERT_TRUE((Claimant{who.self, 3}.may_replace(0)));
    }
}

TEST(Claimant, BearsTheThreadThatAsksAndTheEpochOfItsProcess) {
  const Claimant mine = claimant();
  EXPECT_EQ(Claimant::thread(mine.self), own_thread());
  EXPECT_NE(Claimant::epoch(mine.self), 0u);
  EXPECT_EQ(Claimant::epoch(mine.self), Claimant::epoch(mine.survivor));
  EXPECT_EQ(claimant().self, mine.self);
  std::thread([&] {
    const Claimant other = claimant();
    EXPECT_EQ(Claimant::thread(other.self), own_thread());
    EXPECT_NE(other.self, mine.self);
    EXPECT_EQ(other.survivor, mine.survivor);
    EXPECT_FALSE(other.may_replace(mine.self));
    EXPECT_FALSE(mine.may_replace(other.self)) << "they are in one process";
  }).join();
}

TEST(Claimant, InAChildWhatItsThreadHeldIsHeldAndWhatOthersHeldIsNot) {
  if (FREEWAY_EMULATED) GTEST_SKIP() << "no page is wiped here";
  const u64 mine = claimant().self;
  u64 others = 0;
  std::thread([&] { others = claimant().self; }).join();  // a thread that the child does not have
  for (auto make : {libc_fork, raw_fork}) {
    EXPECT_EQ(in_child(make,
                       [&] {
                         const Claimant child = claimant();
                         return u64{child.self == child.survivor && child.self != mine &&
                                    Claimant::thread(child.self) == own_thread() && !child.may_replace(mine) &&
                                    child.may_replace(others)};
                       }),
              1u);
    EXPECT_EQ(claimant().self, mine) << "the parent's does not change";
  }
}

TEST(Claimant, InTheChildOfAThreadWhatTheMainThreadHeldIsNotHeld) {
  if (FREEWAY_EMULATED) GTEST_SKIP() << "no page is wiped here";
  const u64 of_main = claimant().self;
  std::thread([&] {
    const u64 mine = claimant().self;
    for (auto make : {libc_fork, raw_fork})
      for (int i = 0; i < 20; ++i)
        ASSERT_EQ(in_child(make,
                           [&] {
                             const Claimant child = claimant();
                             return u64{child.may_replace(of_main) && !child.may_replace(mine)};
                           }),
                  1u);
  }).join();
}

TEST(Claimant, EachDescendantHasAnotherEpochThanAllItsAncestors) {
  if (FREEWAY_EMULATED) GTEST_SKIP() << "no page is wiped here";
  auto epoch = [] { return Claimant::epoch(claimant().self); };
  const u64 here = epoch();
  EXPECT_EQ(in_child(libc_fork,
                     [&] {
                       const u64 child = epoch();
                       return in_child(raw_fork, [&] {
                         const u64 grandchild = epoch();
                         const u64 last = in_child(libc_fork, epoch);
                         return u64{child != here && grandchild != child && grandchild != here && last != grandchild &&
                                    last != child && last != here && here * child * grandchild * last != 0};
                       });
                     }),
            1u);
}

// A handler that forked may start threads in the child before it returns into the call that it interrupted.
TEST(Claimant, AThreadThatAsksBeforeTheOneThatForkedTakesNothingFromIt) {
  if (FREEWAY_EMULATED) GTEST_SKIP() << "no page is wiped here";
  const u64 mine = claimant().self;  // held, as by the interrupted call
  for (auto make : {libc_fork, raw_fork}) {
    EXPECT_EQ(in_child(make,
                       [&] {
                         Claimant made;
                         std::thread([&] { made = claimant(); }).join();
                         const Claimant child = claimant();
                         return u64{!made.may_replace(mine) && !child.may_replace(mine) &&
                                    !made.may_replace(child.self) && !child.may_replace(made.self) &&
                                    Claimant::epoch(made.self) == Claimant::epoch(child.self) &&
                                    Claimant::epoch(made.self) != Claimant::epoch(mine)};
                       }),
              1u);
  }
}

TEST(MayRead, ReadsWhatIsThereAndSurvivesWhatIsNot) {
  const long page = sysconf(_SC_PAGESIZE);
  void* memory =
      mmap(nullptr, static_cast<std::size_t>(page), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(memory, MAP_FAILED);
  auto* word = static_cast<u32*>(memory);
  const auto address = reinterpret_cast<uptr>(memory);
  EXPECT_TRUE(process::may_read(address, 0));
  *word = 7;
  EXPECT_TRUE(process::may_read(address, 7));
  EXPECT_FALSE(process::may_read(address, 0));
  ASSERT_EQ(mprotect(memory, static_cast<std::size_t>(page), PROT_NONE), 0);
  EXPECT_FALSE(process::may_read(address, 7));
  ASSERT_EQ(munmap(memory, static_cast<std::size_t>(page)), 0);
  EXPECT_FALSE(process::may_read(address, 7));
}

TEST(Barriers, CanBeMadeByAnyThread) {
  if (FREEWAY_EMULATED) GTEST_SKIP() << "the emulator's kernel may have none";
  ASSERT_TRUE(process::can_make_barriers());
  std::thread([] { EXPECT_TRUE(process::make_barrier()); }).join();
}

// A kernel that refuses the page the first time.
struct RefusingOnce : Machine {
  static inline int asked = 0;
  static inline u64 page = 0;
  static u64 wiped_page() { return asked++ == 0 ? 0 : reinterpret_cast<u64>(&page); }
  static void drop_page(u64) {}
  static bool is_first_thread() { return true; }
  static bool mutant(const char* name) { return fault_acts(name); }  // asked by planted headers alone
};

TEST(Claimant, APageThatIsRefusedIsAskedForAgain) {
  Lives<RefusingOnce> lives;
  const Claimant before = lives.claimant(77);
  EXPECT_EQ(Claimant::thread(before.survivor), 0u) << "nothing is taken over for now";
  const Claimant after = lives.claimant(78);
  EXPECT_EQ(RefusingOnce::asked, 2);
  EXPECT_EQ(after.survivor, after.self);
  EXPECT_EQ(RefusingOnce::page, after.self);
  EXPECT_FALSE(after.may_replace(before.self)) << "both are in one process";
}

TEST(Claimant, ThreadsThatAskAtOnceAreInOneEpoch) {
  for (int round = 0; round < 50; ++round)
    ASSERT_EQ(in_child(libc_fork,
                       [] {  // where nobody has asked yet
                         u64 survivors[4] = {};
                         std::thread threads[4];
                         std::barrier together(4);
                         for (int t = 0; t < 4; ++t)
                           threads[t] = std::thread([&, t] {
                             together.arrive_and_wait();
                             survivors[t] = claimant().survivor;
                           });
                         for (auto& thread : threads) thread.join();
                         return u64{survivors[0] != 0 && survivors[0] == survivors[1] && survivors[1] == survivors[2] &&
                                    survivors[2] == survivors[3]};
                       }),
              1u);
}

// --------------------------------------------------------------------------------------------------------------------

TEST(Process, SectionsCanBeInterruptedWhereTheKernelSaysSo) {
  if (!process::can_interrupt_sections()) GTEST_SKIP() << "no membarrier for rseq here";
  EXPECT_TRUE(process::interrupt_sections());
  EXPECT_TRUE(process::can_interrupt_sections()) << "asking twice is allowed";
}

TEST(Process, TimeGoesOnAndIsTheClocks) {
  auto exact = [] {
    timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return static_cast<u64>(now.tv_sec) * 1'000'000'000 + static_cast<u64>(now.tv_nsec);
  };
  u64 last = 0;
  const u64 start = exact();
  timespec resolution;
  clock_getres(CLOCK_MONOTONIC_COARSE, &resolution);
  while (last < start + 3 * static_cast<u64>(resolution.tv_nsec)) {  // some ticks long
    const u64 now = process::coarse_time_ns();
    ASSERT_GE(now, last);
    ASSERT_LE(now, exact());
    last = now;
  }
}

TEST(Process, LibcsFlagSaysWhetherThereIsOneThread) {
  const char* flag = process::single_threaded_flag();
  ASSERT_NE(flag, nullptr);
  u64 with_thread = 9;
  std::thread([&] { with_thread = static_cast<u64>(*flag); }).join();
  EXPECT_EQ(with_thread, 0u);
}

TEST(Process, ThisOneHasNoMoreRightsThanItsCaller) { EXPECT_EQ(process::is_privileged(), getauxval(AT_SECURE) != 0); }

}  // namespace
}  // namespace freeway::test
