// SPDX-License-Identifier: MIT
//
// lockfree_producer_consumer: one thread makes tasks, the others do them; in between lies a lock-free queue whose nodes
// are malloc'ed too.
//   michael   Michael 2004, section 4.1 (Fig. 8f-h): a database of 1 million items. The producer picks 10 to 20 random
//             indexes and allocates 40 to 80 bytes for them, a task of 32 bytes and a queue node of 16 bytes. A
//             consumer makes a histogram of the items (in a block of its own), does `work` steps of local work, as in
//             Hoard's threadtest, and frees all four. With more than 1000 tasks in the queue the producer does one
//             itself. Work is 500, 750 and 1000; the paper counts tasks in 30 seconds (--seconds 30), here so many
//             tasks are done
// Not printed, so ours: the histogram's size (16 counts, 64 bytes), what the items are (random numbers), and that a
// consumer who finds the queue empty yields. The producer counts with one shared counter how many tasks wait.
//
// One operation is one task: four mallocs and four frees. --threads (one of them produces), --items, --work (steps a
// task), --queue (tasks), --tasks, --idle-thread (1: a thread is started and ended first), --seconds, --shrink (tasks).
#include <sched.h>

#include "papers/routes.h"
#include "support/lock_free_fifo.h"
#include "support/plan.h"
#include "support/thread_team.h"

namespace {

struct Plan {
  long threads, items, work, queue, tasks, idle_thread;
};
constexpr bench::Preset<Plan> kPresets[] = {
    {"michael", {.threads = 16, .items = 1'000'000, .work = 500, .queue = 1000, .tasks = 1'000'000, .idle_thread = 1}},
};
constexpr bench::Parameter<Plan> kParameters[] = {{"threads", &Plan::threads}, {"items", &Plan::items},
                                                  {"work", &Plan::work},       {"queue", &Plan::queue},
                                                  {"tasks", &Plan::tasks},     {"idle-thread", &Plan::idle_thread, 0}};

constexpr std::uint64_t kLeastIndexes = 10, kMostIndexes = 20, kBuckets = 16;

struct Task {
  std::uint32_t* indexes;
  std::uint64_t count;
  std::uint64_t number;
  std::uint64_t unused;
};
static_assert(sizeof(Task) == 32);

template <class Blocks> struct Shared {
  Shared(const Plan& of, bench::ThreadTeam& members)
      : plan(of),
        team(members),
        items(static_cast<std::size_t>(of.items)),
        queue(members.size()),
        tallies(members.size()) {
    bench::Random random(3);
    for (std::uint32_t& item : items) item = static_cast<std::uint32_t>(random.next() >> 32);
  }
  struct Tally {
    long tasks = 0;
    std::uint64_t checksum = 0;
  };
  const Plan& plan;
  bench::ThreadTeam& team;
  bench::MappedArray<std::uint32_t> items;
  bench::LockFreeFifo<Blocks> queue;
  bench::MappedArray<bench::Padded<Tally>> tallies;
  alignas(128) std::atomic<long> waiting{0};
  alignas(128) std::atomic<bool> all_made{false};
};

// The local work of Hoard's threadtest: arithmetic that the compiler must not leave out.
void spend(long steps) {
  for (long step = 0; step < steps; ++step) {
    volatile long value = 1;
    value = value + value;
    value = value * value;
    value = value + value;
    value = value * value;
  }
}

template <class Blocks> Task* make_task(Shared<Blocks>& shared, bench::Random& random, long number) {
  const std::uint64_t count = random.between(kLeastIndexes, kMostIndexes);
  auto* indexes = static_cast<std::uint32_t*>(Blocks::allocate(count * sizeof(std::uint32_t)));
  for (std::uint64_t i = 0; i < count; ++i) indexes[i] = static_cast<std::uint32_t>(random.below(shared.items.size()));
  auto* task = static_cast<Task*>(Blocks::allocate(sizeof(Task)));
  *task = {indexes, count, static_cast<std::uint64_t>(number), 0};
  return task;
}

// Takes one task and does it; false if there is none. The checksum is a sum over tasks: who does them does not matter.
template <class Blocks> bool do_task(Shared<Blocks>& shared, std::size_t self) {
  auto* task = static_cast<Task*>(shared.queue.dequeue(self));
  if (task == nullptr) return false;
  shared.waiting.fetch_sub(1, std::memory_order_relaxed);
  auto* histogram = static_cast<std::uint32_t*>(Blocks::allocate_local(kBuckets * sizeof(std::uint32_t)));
  std::memset(histogram, 0, kBuckets * sizeof(std::uint32_t));
  for (std::uint64_t i = 0; i < task->count; ++i) ++histogram[shared.items[task->indexes[i]] % kBuckets];
  spend(shared.plan.work);
  std::uint64_t sum = task->number;
  for (std::uint64_t bucket = 0; bucket < kBuckets; ++bucket) sum = sum * 31 + histogram[bucket];
  auto& tally = shared.tallies[self].value;
  tally.checksum += sum;
  ++tally.tasks;
  Blocks::free(task->indexes);
  Blocks::free(task);
  Blocks::free(histogram);
  return true;
}

template <class Blocks> void produce(Shared<Blocks>& shared, std::size_t self) {
  bench::Random random(5);
  shared.team.repeat(shared.plan.tasks, [&](long number) {
    Task* task = make_task(shared, random, number);
    // Counted first: a consumer may be done with it before the producer comes to count.
    const long waiting = shared.waiting.fetch_add(1, std::memory_order_relaxed) + 1;
    shared.queue.enqueue(self, task);
    if (waiting > shared.plan.queue) do_task(shared, self);
  });
  shared.all_made.store(true);
}

template <class Blocks> void measure(const Plan& plan, double seconds) {
  if (plan.idle_thread != 0) bench::start_and_end_idle_thread();
  bench::ThreadTeam team(static_cast<std::size_t>(plan.threads), seconds);
  Shared<Blocks> shared(plan, team);
  const bench::HeapGrowth heap;
  bench::Stopwatch watch;
  team.run(watch, [&](std::size_t t) {
    if (t == 0) produce(shared, t);
    for (;;) {
      const bool last = shared.all_made.load();  // before the queue is seen empty, or a task could be missed
      if (do_task(shared, t)) continue;
      if (last) break;
      sched_yield();
    }
  });
  long tasks = 0;
  std::uint64_t checksum = 0;
  for (const auto& tally : shared.tallies) {
    tasks += tally.value.tasks;
    checksum += tally.value.checksum;
  }
  const auto extras = bench::profile_extras<Blocks>(
      {{"tasks_per_second", static_cast<double>(tasks) / watch.wall()}, {"heap_kib", heap.kib()}});
  bench::report("lockfree_producer_consumer", static_cast<double>(tasks), watch, checksum, extras);
}

}  // namespace

int main(int argc, char** argv) {
  Plan plan = bench::plan_argument(argc, argv, kPresets, kParameters);
  plan.tasks = bench::scaled(argc, argv, plan.tasks);
  const double seconds = bench::seconds_argument(argc, argv);
  bench::with_routes(argc, argv, [&](auto blocks) { measure<decltype(blocks)>(plan, seconds); });
}
