// SPDX-License-Identifier: MIT
//
// Machines of all shapes (pretended_kernel.h): one CPU and thousands, numbers with holes, CPUs that appear later, masks
// that are refused, too small or widened later, kernels with and without concurrency ids, pages of 4, 16 and 64 KiB. In
// each of them every CPU gets a cache of its own where the engine has those, every thread gets memory, blocks stay
// whole, and an audit adds up.
//
// Each machine is a process of its own: a child in which the heap has not been used before.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <memory>
#include <ostream>
#include <string>
#include <thread>
#include <vector>

#include "freeway/freeway.h"
#include "os/process.h"
#include "tests/support/proof.h"
#include "tests/support/random.h"
#include "tests/whole/machines/own_cache.h"
#include "tests/whole/machines/pretended_kernel.h"
#include "tests/whole/signal/support/patterned_block.h"

namespace freeway::test {
namespace {

using freeway_test::require;
using Numbers = std::vector<unsigned>;

struct Shape {
  std::string name;
  void (*make)(PretendedKernel&);
  Numbers cpus;            // numbers that threads run on, and their concurrency ids
  Numbers later = {};      // those of CPUs that appear while they run
  bool own_caches = true;  // whether each of them gets one, in engines that have caches of CPUs
  unsigned threads = 12;
};
void PrintTo(const Shape& shape, std::ostream* out) { *out << shape.name; }

Numbers each(unsigned from, unsigned to, unsigned step = 1) {
  Numbers all;
  for (unsigned n = from; n < to; n += step) all.push_back(n);
  return all;
}
Numbers operator+(Numbers a, const Numbers& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

// A kernel with numbers below `possible`, of which the process may use the first `allowed`.
template <unsigned possible, unsigned allowed> void plain(PretendedKernel& kernel) {
  kernel.possible = possible;
  for (unsigned cpu = 0; cpu < allowed; ++cpu) kernel.allowed.set(cpu);
}
// The same before concurrency ids.
template <unsigned possible, unsigned allowed> void old(PretendedKernel& kernel) {
  plain<possible, allowed>(kernel);
  kernel.feature_size = 20;
}
template <int error> void refusing(PretendedKernel& kernel) {
  kernel.possible = 128;
  kernel.affinity_error = error;
}
template <unsigned size, unsigned features, unsigned alignment, unsigned registered = 32>
void sized(PretendedKernel& kernel) {
  plain<64, 8>(kernel);
  kernel.rseq_size = size;
  kernel.feature_size = features;
  kernel.alignment = alignment;
  kernel.registered = registered;
}
// NUMA nodes with the numbers 0, `step`, 2 * `step` and so on, of which the CPUs are by turns.
template <unsigned count, unsigned step, unsigned features = 28> void nodes(PretendedKernel& kernel) {
  plain<64, 32>(kernel);
  kernel.feature_size = features;
  for (unsigned i = 0; i < count; ++i) kernel.nodes.set(i * step);
  kernel.node_of_cpu = [](unsigned cpu) { return cpu % count * step; };
}
template <std::size_t page> void paged(PretendedKernel& kernel) {
  plain<64, 8>(kernel);
  kernel.page = page;
}

const Numbers kHoles = {0, 2, 3, 7, 8, 31, 32, 62, 63, 64, 65, 100, 127};

const Shape kShapes[] = {
    {"1 CPU", plain<1, 1>, {0}},
    {"1 CPU, by cpu_id", old<1, 1>, {0}},
    {"2 CPUs", plain<2, 2>, {0, 1}},
    {"32 CPUs", plain<32, 32>, each(0, 32)},
    {"32 CPUs, by cpu_id", old<32, 32>, each(0, 32)},
    {"holes in the CPU numbers", plain<128, 4>, kHoles},
    {"holes in the CPU numbers, by cpu_id", old<128, 4>, kHoles},
    {"256 CPUs", plain<256, 256>, each(0, 256)},
    {"256 CPUs, by cpu_id", old<256, 256>, each(0, 256)},
    {"1024 CPUs", plain<1024, 1024>, each(0, 1024, 7) + Numbers{1023}},
    {"8192 CPUs", plain<8192, 8192>, each(0, 8192, 61) + Numbers{8191}},
    {"more CPUs than there is room for", old<16384, 16384>, each(0, 16384, 300) + Numbers{16383}, {}, false},
    {"CPUs that appear later", plain<256, 2>, {0, 1}, each(2, 256, 5) + Numbers{255}},
    {"CPUs that appear later, by cpu_id", old<256, 2>, {0, 1}, each(2, 256, 5) + Numbers{255}},
    {"restored on a machine with more CPUs", plain<8, 8>, each(0, 8), each(64, 256, 3)},
    {"restored on a machine with more CPUs, by cpu_id", old<8, 8>, each(0, 8), each(64, 256, 3)},
    {"the affinity is not told", refusing<ENOSYS>, kHoles},
    {"the affinity is refused", refusing<EPERM>, kHoles},
    {"one CPU allowed, more later", plain<64, 1>, {0}, each(1, 64)},
    {"__rseq_size 20, features 20", sized<20, 20, 32>, each(0, 8)},
    {"__rseq_size 20, features 28", sized<20, 28, 32>, each(0, 8)},
    {"__rseq_size 28, features 28", sized<28, 28, 32>, each(0, 8)},
    {"__rseq_size 32, features not told", sized<32, 0, 0>, each(0, 8)},
    {"__rseq_size 32, features 33", sized<32, 33, 64>, each(0, 8)},      // Linux 7.0; glibc 2.35
    {"__rseq_size 20, features 33", sized<20, 33, 64>, each(0, 8)},      // glibc 2.40
    {"__rseq_size 33, features 33", sized<33, 33, 64, 33>, each(0, 8)},  // glibc 2.41
    {"rseq not registered", [](PretendedKernel& kernel) { kernel.registers_rseq = false; }, each(0, 8), {}, false},
    {"membarrier refused", [](PretendedKernel& kernel) { kernel.has_membarrier = false; }, each(0, 64)},
    {"4 nodes", nodes<4, 1>, each(0, 32)},
    {"4 nodes, by cpu_id", nodes<4, 1, 20>, each(0, 32)},
    {"nodes 0, 3 and 6", nodes<3, 3>, each(0, 32)},
    {"24 nodes", nodes<24, 5>, each(0, 32)},
    {"pages of 16 KiB", paged<16384>, each(0, 8)},
    {"pages of 64 KiB", paged<65536>, each(0, 8)},
};

// --- Who is on which CPU
// ----------------------------------------------------------------------------------------------

std::atomic<bool> taken[PretendedKernel::kMostCpus];

// Makes the calling thread the one on CPU `cpu`; false: there is one.
bool enter(unsigned cpu) {
  bool free = false;
  if (!taken[cpu].compare_exchange_strong(free, true, std::memory_order_acquire)) return false;
  run_on(cpu, cpu);
  return true;
}
void leave(unsigned cpu) {
  run_unregistered();
  taken[cpu].store(false, std::memory_order_release);
}

// --- What threads do
// --------------------------------------------------------------------------------------------------

constexpr std::size_t kMailboxes = 128;
constexpr unsigned kBursts = 300, kBurst = 40;
std::atomic<void*> mailboxes[kMailboxes];
std::atomic<std::uint64_t> operations;
std::atomic<std::uint32_t> serial;

void* obtain(Random& random) {
  const std::uint64_t roll = random.below(100);
  const std::size_t size = 16 + (roll < 90   ? random.below(500)
                                 : roll < 99 ? random.below(20000)
                                             : random.below(200000));
  void* block = freeway_malloc(size);
  require(block != nullptr, "no memory", size);
  freeway_test::stamp(block, size, serial.fetch_add(1, std::memory_order_relaxed));
  return block;
}
void release(void* block) {
  freeway_test::verify(block, "a block that was kept");
  freeway_test::unstamp(block);
  freeway_free(block);
}

// Some allocations and frees on the CPU that the thread is on. What it cannot keep it hands on, or gives back.
void burst(Random& random, std::vector<void*>& table) {
  for (unsigned i = 0; i < kBurst; ++i) {
    void*& slot = table[random.below(table.size())];
    if (slot == nullptr) {
      slot = obtain(random);
    } else if (random.chance(30)) {
      slot = mailboxes[random.below(kMailboxes)].exchange(slot, std::memory_order_acq_rel);
    } else {
      release(slot);
      slot = nullptr;
    }
  }
  operations.fetch_add(kBurst, std::memory_order_relaxed);
}

void work(const Shape& shape, std::uint64_t seed) {
  Random random(seed);
  std::vector<void*> table(200);
  const Numbers both = shape.cpus + shape.later;
  for (unsigned i = 0; i < kBursts; ++i) {
    const Numbers& numbers = i < kBursts / 2 ? shape.cpus : both;
    const unsigned cpu = numbers[random.below(numbers.size())];
    const bool here = !random.chance(10) && enter(cpu);  // else as a thread that libc could not register
    burst(random, table);
    if (here) leave(cpu);
  }
  for (void* block : table)
    if (block != nullptr) release(block);
}

// A few blocks of each size on each CPU, one after the other.
void visit(const Shape& shape, Random& random) {
  for (const unsigned cpu : shape.cpus + shape.later) {
    require(enter(cpu), "nobody is there");
    std::vector<void*> blocks;
    for (int i = 0; i < 20; ++i) blocks.push_back(obtain(random));
    for (void* block : blocks) release(block);
    operations += 40;
    if (kHasOwnCaches && shape.own_caches) require(has_own_cache(cpu), "a CPU without a cache", cpu);
    leave(cpu);
  }
}

void run(const Shape& shape, std::uint64_t seed) {
  shape.make(pretended_kernel());
  boot();
  enter(shape.cpus[0]);
  Random random(seed);
  release(obtain(random));
  const process::Rseq rseq = process::rseq();
  require(!rseq.registered || rseq.bytes == pretended_kernel().registered, "another length than libc's", rseq.bytes);
  leave(shape.cpus[0]);
  std::vector<std::thread> threads;
  for (unsigned t = 1; t <= shape.threads; ++t) threads.emplace_back(work, std::cref(shape), seed + t * 7919);
  for (std::thread& thread : threads) thread.join();
  visit(shape, random);
  for (auto& mailbox : mailboxes)
    if (void* block = mailbox.exchange(nullptr)) release(block);

  // Nobody else is in a section now, so trims may take caches away. The first one finds pages between live blocks.
  enter(shape.cpus[0]);
  std::vector<void*> scattered;
  for (int i = 0; i < 4000; ++i) scattered.push_back(obtain(random));
  for (std::size_t i = 0; i < scattered.size(); ++i)
    if (i % 40 != 0) release(scattered[i]);
  freeway_trim(0);
  for (std::size_t i = 0; i < scattered.size(); i += 40) release(scattered[i]);
  freeway_trim(0);
  freeway_audit_t audit{};
  require(freeway_audit(&audit, sizeof audit) == 0, "the audit found errors");
  require(audit.blocks_live == 0, "blocks were lost", audit.blocks_live);
  require(audit.frames_stranded == 0 && audit.superblocks_held == audit.superblocks_held_by_slabs, "memory was lost",
          audit.frames_stranded, audit.superblocks_held);
  require(pretended_kernel().misaligned == 0, "a memory call was not in whole pages");
  proof("machines", shape.name.c_str(), "threads", shape.threads);
  proof("machines", shape.name.c_str(), "operations", operations);
  proof("machines", shape.name.c_str(), "CPUs", shape.cpus.size() + shape.later.size());
}

class Machines : public testing::TestWithParam<Shape> {};

TEST_P(Machines, EveryThreadGetsMemoryAndTheAuditAddsUp) {
  const std::uint64_t seed = test_seed();
  const pid_t child = fork();
  if (child == 0) {
    run(GetParam(), seed);
    _exit(0);
  }
  int status = -1;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << "status " << status << ", FREEWAY_TEST_SEED=" << seed;
}

INSTANTIATE_TEST_SUITE_P(All, Machines, testing::ValuesIn(kShapes));

}  // namespace
}  // namespace freeway::test
