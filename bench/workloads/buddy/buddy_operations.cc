// SPDX-License-Identifier: MIT
//
// buddy_operations: the test program of Scarselli 2017, chapter 4: ten million operations, each an allocation or a free
// with probability 1/2, of 2^i smallest blocks with i in 0..11, on a buddy of freeway/buddy.h or on malloc (Figs
// 4.1 to 4.6). The operations are shared out over T threads, or over P processes that use one tree (MAP_SHARED).
//
// One operation is one allocation or one free. The time is the wall time until the last worker has ended.
//   --levels 28|20|16   configuration of Table 4.1 (28): smallest block 8, 2048, 128 bytes; --min overrides (bytes)
//   --over buddy|malloc (buddy)
//   --tree 1|3|4        levels of the tree in one word (4)
//   --form corrected|published|locked|up   corrected as the library does by default; published: as printed, which can
//                                          hand
//                       out a block twice (overlaps are counted, not fatal); locked: a spin lock around each operation,
//                       the paper's twin for one level; up: climbs that may end early (ours)
//   --threads (1), or --processes (none): workers
//   --stamps first|all  what of a block is written and checked: its first word, or (tests) that of each smallest block
//                       in it
//   --library           where the buddy is; default: among what is loaded, so preload it. None: "missing", exit status
//                       77
//   --shrink
// Extras: allocations, refused (of those: nothing was free), overlaps; when the first worker ended as a share of when
// the last did (first_over_last) and the coefficient of variation of all those times (finish_cv): the paper's fairness;
// live_bytes at the end; metadata_bytes and metadata_per_byte managed.
//
// Left open by the paper and chosen here: a free takes a random live block of the worker's own; without one, the
// operation is an allocation; an allocation that is refused is an operation; each worker starts searching at a place of
// its own. The paper does not say whether it wrote to blocks; here it is one word. What a worker draws for an operation
// depends on the operation's number only, so the checksum is the same for every number of workers.
#include <pthread.h>
#include <sys/wait.h>

#include <atomic>
#include <cmath>
#include <thread>

#include "buddy/configurations.h"
#include "buddy/heap.h"
#include "support/measure.h"

namespace {

using bench::Configuration;

struct Plan {
  Configuration configuration;
  long operations;
  std::size_t workers;
  bool stamp_all;
  std::size_t live_limit;  // blocks a worker may have: no random walk of this length comes near
};

// What a worker reports; in shared memory, since it may be a process.
struct alignas(128) Outcome {
  double finished;  // seconds, monotonic clock
  double cpu;
  std::uint64_t checksum;
  long allocations, refused, overlaps;
  std::size_t live_bytes;
};

struct Shared {
  pthread_barrier_t ready, ended;
};

struct Live {
  char* block;
  std::uint64_t value;
  unsigned size;  // i: 2^i smallest blocks
};

// What is drawn for operation `number` (splitmix64).
std::uint64_t bits_of(long number) {
  auto z = static_cast<std::uint64_t>(number + 1) * 0x9E3779B97F4A7C15u;
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
  return z ^ (z >> 31);
}

class Worker {
 public:
  Worker(const Plan& plan, const bench::Heap& heap, Live* live) : plan_(plan), heap_(heap), live_(live) {}

  void run(std::size_t index, Outcome& outcome) {
    const long first = share(index);
    const long last = share(index + 1);
    for (long number = first; number < last; ++number) {
      const std::uint64_t bits = bits_of(number);
      outcome_.checksum += bits;
      if (((bits & 1) != 0 || count_ == 0) && count_ < plan_.live_limit) allocate(bits);
      else release(((bits >> 32) * count_) >> 32);
    }
    outcome_.finished = bench::clock_seconds(CLOCK_MONOTONIC);
    outcome_.cpu = bench::clock_seconds(CLOCK_THREAD_CPUTIME_ID);
    for (std::size_t i = 0; i < count_; ++i) outcome_.live_bytes += plan_.configuration.min_block << live_[i].size;
    outcome = outcome_;
  }

  // After the timed part.
  void free_rest(Outcome& outcome) {
    while (count_ > 0) release(count_ - 1);
    outcome.overlaps = outcome_.overlaps;
  }

 private:
  long share(std::size_t index) const {
    return static_cast<long>(
        static_cast<double>(plan_.operations) / static_cast<double>(plan_.workers) * static_cast<double>(index) + 0.5);
  }

  void allocate(std::uint64_t bits) {
    const auto size = static_cast<unsigned>(((bits >> 1 & 0xffff) * bench::kSizes) >> 16);
    ++outcome_.allocations;
    void* block = heap_.alloc(plan_.configuration.min_block << size);
    if (block == nullptr) {
      ++outcome_.refused;
      return;
    }
    Live& made = live_[count_++] = {static_cast<char*>(block), bits, size};
    for (std::size_t at = 0; at < stamped(made); at += plan_.configuration.min_block)
      bench::stamp(made.block + at, bits + at);
  }

  void release(std::size_t which) {
    Live gone = live_[which];
    live_[which] = live_[--count_];
    bool intact = true;
    for (std::size_t at = 0; at < stamped(gone); at += plan_.configuration.min_block)
      intact &= bench::stamp_of(gone.block + at) == gone.value + at;
    intact &= heap_.free(gone.block);
    outcome_.overlaps += intact ? 0 : 1;
  }

  std::size_t stamped(const Live& one) const { return plan_.stamp_all ? plan_.configuration.min_block << one.size : 1; }

  const Plan& plan_;
  const bench::Heap& heap_;
  Live* live_;
  std::size_t count_ = 0;
  Outcome outcome_{};
};

// One worker, from the start that all have in common to the end.
void work(const Plan& plan, const bench::Heap& heap, Shared& shared, std::size_t index, Live* live, Outcome& outcome) {
  Worker worker(plan, heap, live);
  heap.begin(index);
  const double cpu_before = bench::clock_seconds(CLOCK_THREAD_CPUTIME_ID);
  pthread_barrier_wait(&shared.ready);
  worker.run(index, outcome);
  outcome.cpu -= cpu_before;
  pthread_barrier_wait(&shared.ended);
  worker.free_rest(outcome);
}

// The same barriers for threads and for processes.
void prepare(Shared& shared, std::size_t workers) {
  pthread_barrierattr_t attributes;
  pthread_barrierattr_init(&attributes);
  pthread_barrierattr_setpshared(&attributes, PTHREAD_PROCESS_SHARED);
  pthread_barrier_init(&shared.ready, &attributes, static_cast<unsigned>(workers + 1));
  pthread_barrier_init(&shared.ended, &attributes, static_cast<unsigned>(workers + 1));
}

struct Lanes {
  explicit Lanes(const Plan& plan)
      : outcomes(plan.workers, MAP_SHARED), live(plan.workers * plan.live_limit, MAP_SHARED), limit(plan.live_limit) {}
  bench::MappedArray<Outcome> outcomes;
  bench::MappedArray<Live> live;
  std::size_t limit;
};

// Starts the clock when all are there, stops it when all have ended; returns the starting time.
double time_them(Shared& shared, bench::Stopwatch& watch) {
  watch.start();
  const double began = bench::clock_seconds(CLOCK_MONOTONIC);
  pthread_barrier_wait(&shared.ready);
  pthread_barrier_wait(&shared.ended);
  watch.stop();
  return began;
}

double run_threads(const Plan& plan, const bench::Heap& heap, Shared& shared, Lanes& lanes, bench::Stopwatch& watch) {
  std::vector<std::thread> workers;
  for (std::size_t i = 0; i < plan.workers; ++i)
    workers.emplace_back([&, i] { work(plan, heap, shared, i, &lanes.live[i * lanes.limit], lanes.outcomes[i]); });
  const double began = time_them(shared, watch);
  for (auto& worker : workers) worker.join();
  return began;
}

double run_processes(const Plan& plan, const bench::Heap& heap, Shared& shared, Lanes& lanes, bench::Stopwatch& watch) {
  std::vector<pid_t> children;
  for (std::size_t i = 0; i < plan.workers; ++i) {
    const pid_t child = fork();
    if (child < 0) bench::die("fork");
    if (child == 0) {
      work(plan, heap, shared, i, &lanes.live[i * lanes.limit], lanes.outcomes[i]);
      _exit(0);
    }
    children.push_back(child);
  }
  const double began = time_them(shared, watch);
  for (const pid_t child : children) {
    int status = 0;
    if (waitpid(child, &status, 0) != child || status != 0) bench::die("a worker process failed");
  }
  for (const Outcome& outcome : lanes.outcomes) watch.add(0, outcome.cpu);
  return began;
}

[[noreturn]] void refuse(const char* what) {
  std::fprintf(stderr, "%s\n", what);
  std::exit(2);
}

Configuration read_configuration(int argc, char** argv) {
  const auto levels = static_cast<unsigned>(bench::number_argument(argc, argv, "levels", 28));
  std::size_t min_block = 8;
  for (const Configuration& known : bench::kConfigurations)
    if (known.levels == levels) min_block = known.min_block;
  min_block = static_cast<std::size_t>(bench::number_argument(argc, argv, "min", static_cast<long>(min_block)));
  if (levels < bench::kSizes || levels > 34 || min_block < 8) refuse("--levels: 12 to 34; --min: 8 or more");
  return {levels, min_block};
}

unsigned read_form(const char* form) {
  if (std::strcmp(form, "corrected") == 0) return 0;
  if (std::strcmp(form, "published") == 0) return FREEWAY_BUDDY_PUBLISHED;
  if (std::strcmp(form, "locked") == 0) return FREEWAY_BUDDY_SPIN;
  if (std::strcmp(form, "up") == 0) return FREEWAY_BUDDY_UP;
  refuse("--form: corrected, published, locked or up");
}

// Exit status 77 ("not installed"), if the buddy is wanted and nowhere.
bench::Heap open_heap(int argc, char** argv, const Configuration& configuration, unsigned flags) {
  const char* over = bench::text_argument(argc, argv, "over", "buddy");
  if (std::strcmp(over, "malloc") == 0) return {};
  if (std::strcmp(over, "buddy") != 0) refuse("--over: buddy or malloc");
  bench::BuddyLibrary library{};
  if (!library.find(bench::text_argument(argc, argv, "library", nullptr))) {
    std::fprintf(stderr, "missing: no freeway_buddy_* here; preload libfreeway-nbbs.so or name it with --library\n");
    std::exit(77);
  }
  const auto tree = static_cast<unsigned>(bench::number_argument(argc, argv, "tree", 4));
  return {library, configuration, tree, flags};
}

struct Totals {
  std::uint64_t checksum = 0;
  double allocations = 0, refused = 0, overlaps = 0, live_bytes = 0;
  double first = 0, last = 0, cv = 0;  // of finishing times
};

Totals sum_up(Lanes& lanes, double began) {
  Totals totals;
  double mean = 0;
  double squares = 0;
  const auto count = static_cast<double>(lanes.outcomes.size());
  for (const Outcome& o : lanes.outcomes) {
    const double finished = o.finished - began;
    totals.first = totals.first == 0 || finished < totals.first ? finished : totals.first;
    totals.last = finished > totals.last ? finished : totals.last;
    mean += finished / count;
    totals.checksum += o.checksum;
    totals.allocations += static_cast<double>(o.allocations);
    totals.refused += static_cast<double>(o.refused);
    totals.overlaps += static_cast<double>(o.overlaps);
    totals.live_bytes += static_cast<double>(o.live_bytes);
  }
  for (const Outcome& o : lanes.outcomes) squares += (o.finished - began - mean) * (o.finished - began - mean) / count;
  totals.cv = mean > 0 ? std::sqrt(squares) / mean : 0;
  return totals;
}

}  // namespace

int main(int argc, char** argv) {
  Plan plan{};
  plan.configuration = read_configuration(argc, argv);
  plan.operations = bench::scaled(argc, argv, bench::kOperations);
  const bool processes = bench::text_argument(argc, argv, "processes", nullptr) != nullptr;
  plan.workers = static_cast<std::size_t>(bench::number_argument(argc, argv, processes ? "processes" : "threads", 1));
  plan.stamp_all = std::strcmp(bench::text_argument(argc, argv, "stamps", "first"), "all") == 0;
  // Ten standard deviations of the walk: operations beyond it would be frees.
  plan.live_limit = 64 + static_cast<std::size_t>(
                             10 * std::sqrt(static_cast<double>(plan.operations) / static_cast<double>(plan.workers)));
  const unsigned flags = read_form(bench::text_argument(argc, argv, "form", "corrected"));
  const bench::Heap heap = open_heap(argc, argv, plan.configuration, flags);

  Lanes lanes(plan);
  bench::MappedArray<Shared> shared(1, MAP_SHARED);
  prepare(shared[0], plan.workers);
  bench::Stopwatch watch;
  const double began = (processes ? run_processes : run_threads)(plan, heap, shared[0], lanes, watch);
  const Totals totals = sum_up(lanes, began);

  const bool may_overlap = flags == FREEWAY_BUDDY_PUBLISHED;
  const freeway_buddy_stats_t left = heap.stats();
  if (totals.overlaps != 0 && !may_overlap) refuse("blocks overlap, or a free was refused");
  if (heap.is_buddy() && left.blocks != 0 && !may_overlap) refuse("all was freed, but blocks are left");
  const auto managed = static_cast<double>(plan.configuration.managed());
  const auto metadata = static_cast<double>(heap.metadata_bytes());
  bench::report("buddy_operations", static_cast<double>(plan.operations), watch, totals.checksum,
                {{"allocations", totals.allocations},
                 {"refused", totals.refused},
                 {"overlaps", totals.overlaps},
                 {"finish_first_s", totals.first},
                 {"finish_last_s", totals.last},
                 {"first_over_last", totals.first / totals.last},
                 {"finish_cv", totals.cv},
                 {"live_bytes", totals.live_bytes},
                 {"metadata_bytes", metadata},
                 {"metadata_per_byte", metadata / managed}});
}
