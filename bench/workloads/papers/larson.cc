// SPDX-License-Identifier: MIT
//
// larson: a server under load, after Larson and Krishnan, "Memory allocation for long-running server applications"
// (ISMM 1998): each of T lanes has an array of blocks; its thread frees one at random and allocates another in its
// place. In most forms a thread that has done its share hands its array to a thread that it starts, and ends: so blocks
// outlive the thread that made them. Main makes all blocks first and deals them out shuffled.
//   today       8-1000 bytes, 1000 blocks a lane, 50 threads one after another
//   michael     Michael 2004, section 4.1 (Table 1, Fig. 8e): 16-80 bytes, 1024 blocks a lane; main frees and allocates
//               at random first; 30 s; no succession
//   lfmalloc    Dice and Garthwaite 2002, section 4.1 (Fig. 1a): with a barrier, so that no thread is ahead of the
//               clock. No other parameter is printed: as `today`. With --no-malloc 1 the loop does the rest of its work
//               only (section 4.3)
//   streamflow  Streamflow 2006, section 4.2.2 (Table 1, Fig. 3): succession, 7 bytes, 5 s, 2.72 million blocks, all of
//               them freed by another thread, 96.8 % after the end of the one that allocated them. That all are is so
//               if each thread replaces each of its predecessor's blocks once (--once 1); 1000 blocks a lane, not
//               printed, as the original is usually called; 339 successions of 8 lanes make 2.72 million
//   hmalloc     HMalloc 2020, section 4.3 (Fig. 11f): 8-512 bytes, 10,000 blocks a lane, succession (how often is not
//               printed: 50 times), 10 s
// All forms have the barrier. Papers that count what is done in a fixed time get it with --seconds.
//
// One operation is one free and one malloc. --threads (lanes), --slots (blocks a lane), --min, --max (bytes; a stamp of
// 8, 4 or 1 bytes as --min allows), --generations (threads one after another in a lane), --steps (of all together),
// --once (1: a thread replaces each block once, whatever --steps), --warm (1: main replaces as many at random as there
// are), --no-malloc, --idle-thread (1: a thread is started and ended first), --seconds, --shrink (steps, or generations
// with --once).
#include "papers/routes.h"
#include "support/plan.h"
#include "support/thread_team.h"

namespace {

struct Plan {
  long threads, slots, min, max, generations, steps, once, warm, no_malloc, idle_thread, paper_seconds;
};
constexpr Plan kToday{.threads = 2,
                      .slots = 1000,
                      .min = 8,
                      .max = 1000,
                      .generations = 50,
                      .steps = 48'000'000,
                      .once = 0,
                      .warm = 0,
                      .no_malloc = 0,
                      .idle_thread = 0,
                      .paper_seconds = 0};
constexpr Plan michael() {
  Plan plan = kToday;
  plan.threads = 16;
  plan.slots = 1024;
  plan.min = 16;
  plan.max = 80;
  plan.generations = 1;
  plan.warm = 1;
  plan.idle_thread = 1;
  plan.paper_seconds = 30;
  return plan;
}
constexpr Plan lfmalloc() {
  Plan plan = kToday;
  plan.threads = 16;
  return plan;
}
constexpr Plan streamflow() {
  Plan plan = kToday;
  plan.threads = 8;
  plan.min = 7;
  plan.max = 7;
  plan.generations = 339;
  plan.steps = 0;
  plan.once = 1;
  plan.paper_seconds = 5;
  return plan;
}
constexpr Plan hmalloc() {
  Plan plan = kToday;
  plan.threads = 16;
  plan.slots = 10'000;
  plan.max = 512;
  plan.paper_seconds = 10;
  return plan;
}
constexpr bench::Preset<Plan> kPresets[] = {{"today", kToday},
                                            {"michael", michael()},
                                            {"lfmalloc", lfmalloc()},
                                            {"streamflow", streamflow()},
                                            {"hmalloc", hmalloc()}};
constexpr bench::Parameter<Plan> kParameters[] = {{"threads", &Plan::threads},
                                                  {"slots", &Plan::slots},
                                                  {"min", &Plan::min},
                                                  {"max", &Plan::max},
                                                  {"generations", &Plan::generations},
                                                  {"steps", &Plan::steps, 0},
                                                  {"once", &Plan::once, 0},
                                                  {"warm", &Plan::warm, 0},
                                                  {"no-malloc", &Plan::no_malloc, 0},
                                                  {"idle-thread", &Plan::idle_thread, 0},
                                                  {"paper-seconds", &Plan::paper_seconds, 0}};

// What one thread of a lane hands to the next.
struct alignas(128) Lane {
  void** blocks = nullptr;
  bench::Random random{0};
  std::uint64_t checksum = 0;
  long replaced = 0;
};

// With --once the places are start, start + p, start + 2p … with this prime p: each of them once, start is random.
constexpr std::uint64_t kStride = 1'000'003;

template <class Blocks, class Word> class Server {
 public:
  Server(const Plan& plan, double seconds)
      : plan_(plan),
        seconds_(seconds),
        steps_each_(plan.once != 0 ? plan.slots : std::max(1L, plan.steps / plan.threads / plan.generations)),
        lanes_(static_cast<std::size_t>(plan.threads)),
        blocks_(lanes_.size() * static_cast<std::size_t>(plan.slots)),
        ready_(plan.threads),
        done_(plan.threads) {}

  void fill() {
    bench::Random random(7);
    for (auto& block : blocks_)
      bench::stamp_as<Word>(block = Blocks::allocate(random.between(low(), static_cast<std::uint64_t>(plan_.max))), 1);
    if (plan_.warm != 0)
      for (std::size_t i = 0; i < blocks_.size(); ++i) replace(blocks_[random.below(blocks_.size())], random.next());
    blocks_.shuffle(random);
    for (std::size_t t = 0; t < lanes_.size(); ++t) {
      new (&lanes_[t]) Lane;
      lanes_[t].blocks = &blocks_[t * static_cast<std::size_t>(plan_.slots)];
      lanes_[t].random = bench::Random(t + 100);
    }
  }

  void run(bench::Stopwatch& watch) {
    for (Lane& lane : lanes_)
      std::thread([this, &lane] {
        ready_.count_down();
        gate_.wait();
        live(lane, 0);
      }).detach();
    ready_.wait();
    watch.start();
    gate_.count_down();
    if (seconds_ > 0) {
      bench::sleep_seconds(seconds_);
      stop_.store(true, std::memory_order_relaxed);
    }
    done_.wait();
    watch.stop();
  }

  // Frees all blocks; what was replaced, and the checksum.
  std::pair<long, std::uint64_t> finish() {
    std::uint64_t checksum = 0;
    long replaced = 0;
    for (void* block : blocks_) {
      checksum += bench::stamp_of_as<Word>(block);
      Blocks::free(block);
    }
    for (const Lane& lane : lanes_) {
      checksum += lane.checksum;
      replaced += lane.replaced;
    }
    return {replaced, checksum};
  }

 private:
  std::uint64_t low() const { return static_cast<std::uint64_t>(plan_.min); }

  // Another block in place of `block`, its size and stamp from `bits`. Returns the old one's stamp.
  std::uint64_t replace(void*& block, std::uint64_t bits) {
    const std::uint64_t stamp = bench::stamp_of_as<Word>(block);
    if (plan_.no_malloc == 0) {
      const auto spread = static_cast<std::uint64_t>(plan_.max - plan_.min + 1);
      Blocks::free(block);
      block = Blocks::allocate(low() + (((bits >> 32) * spread) >> 32));
    }
    bench::stamp_as<Word>(block, bits);
    return stamp;
  }

  void run_generation(Lane& lane) {
    const auto slots = static_cast<std::uint64_t>(plan_.slots);
    bench::Random random = lane.random;
    std::uint64_t checksum = lane.checksum;
    const bool timed = seconds_ > 0;
    long done = 0;
    if (plan_.once != 0) {
      std::uint64_t place = random.below(slots);
      for (; done < steps_each_; ++done, place = (place + kStride) % slots)
        checksum += replace(lane.blocks[place], random.next());
    } else {
      for (; done < steps_each_ && !(timed && stop_.load(std::memory_order_relaxed)); ++done) {
        const std::uint64_t bits = random.next();
        checksum += replace(lane.blocks[((bits & 0xffff'ffffu) * slots) >> 32], bits);
      }
    }
    lane.random = random;
    lane.checksum = checksum;
    lane.replaced += done;
  }

  // Each generation starts the next one and ends; only the last of a lane reports to main.
  void live(Lane& lane, long generation) {
    run_generation(lane);
    const bool last = seconds_ > 0 ? stop_.load(std::memory_order_relaxed) : generation + 1 == plan_.generations;
    if (last) done_.count_down();
    else std::thread([this, &lane, generation] { live(lane, generation + 1); }).detach();
  }

  const Plan& plan_;
  const double seconds_;
  const long steps_each_;
  bench::MappedArray<Lane> lanes_;
  bench::MappedArray<void*> blocks_;
  std::latch ready_, gate_{1}, done_;
  std::atomic<bool> stop_{false};
};

template <class Blocks, class Word> void measure(const Plan& plan, double seconds) {
  if (plan.idle_thread != 0) bench::start_and_end_idle_thread();
  Server<Blocks, Word> server(plan, seconds);
  const bench::HeapGrowth heap;
  server.fill();
  bench::Stopwatch watch;
  server.run(watch);
  const auto [replaced, checksum] = server.finish();
  bench::report("larson", static_cast<double>(replaced), watch, checksum,
                bench::profile_extras<Blocks>({{"heap_kib", heap.kib()}}));
}

}  // namespace

int main(int argc, char** argv) {
  Plan plan = bench::plan_argument(argc, argv, kPresets, kParameters);
  long& work = plan.once != 0 ? plan.generations : plan.steps;
  work = bench::scaled(argc, argv, work);
  if (plan.min > plan.max || plan.slots % kStride == 0) bench::die("--min, --max or --slots");
  const double seconds = bench::seconds_argument(argc, argv);
  bench::with_routes(argc, argv, [&](auto blocks) {
    using Blocks = decltype(blocks);
    if (plan.min >= 8) measure<Blocks, std::uint64_t>(plan, seconds);
    else if (plan.min >= 4) measure<Blocks, std::uint32_t>(plan, seconds);
    else measure<Blocks, unsigned char>(plan, seconds);
  });
}
