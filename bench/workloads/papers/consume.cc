// SPDX-License-Identifier: MIT
//
// consume: one thread allocates, others free. The producer fills an array with blocks for each consumer in turn; each
// consumer frees what is in its array, while the producer fills those of the others. Nobody frees what he allocated.
//   streamflow      Streamflow 2006, section 4.2.2 (Table 1, Fig. 3): 6000 blocks of 4 bytes an array, 5000 iterations;
//                   with 8 consumers 240 million blocks, and the arrays are the 8 large objects of Table 1
//   hmalloc         HMalloc 2020, section 4.3 (Fig. 11e, "Producer-consumer"): 1,000,000 blocks of 8 bytes for each of
//                   1 to 15 consumers. Handed over 64 at a time, at most 4096 ahead (not printed): one at a time,
//                   it would be the threads' waiting for each other that is measured
//   hmalloc-table1  the same as its Table 1 has it: a buffer of 60,000 bytes, 5000 iterations: 7500 blocks of 8 bytes
// Unlike the originals each block is stamped, and read before it is freed.
//
// One operation is one malloc and one free. --threads (consumers; the producer is beside them), --size (bytes, at least
// 4), --blocks (a hand-over), --ahead (hand-overs to one consumer), --iterations, --seconds, --shrink (iterations).
#include "papers/routes.h"
#include "support/handover.h"
#include "support/plan.h"
#include "support/thread_team.h"

namespace {

struct Plan {
  long threads, size, blocks, ahead, iterations;
};
constexpr bench::Preset<Plan> kPresets[] = {
    {"streamflow", {.threads = 8, .size = 4, .blocks = 6000, .ahead = 1, .iterations = 5000}},
    {"hmalloc", {.threads = 15, .size = 8, .blocks = 64, .ahead = 64, .iterations = 15'625}},
    {"hmalloc-table1", {.threads = 15, .size = 8, .blocks = 7500, .ahead = 1, .iterations = 5000}},
};
constexpr bench::Parameter<Plan> kParameters[] = {{"threads", &Plan::threads},
                                                  {"size", &Plan::size},
                                                  {"blocks", &Plan::blocks},
                                                  {"ahead", &Plan::ahead},
                                                  {"iterations", &Plan::iterations}};

struct Consumer {
  explicit Consumer(long ahead) : handover(static_cast<int>(ahead)) {}
  bench::Handover handover;
  void** blocks = nullptr;  // `ahead` times `blocks` of them, malloc'ed as in the original
  long freed = 0;
  std::uint64_t checksum = 0;
};

template <class Blocks>
void produce(const bench::ThreadTeam& team, const Plan& plan, bench::MappedArray<Consumer>& consumers) {
  const auto size = static_cast<std::size_t>(plan.size);
  for (Consumer& consumer : consumers) {
    const auto places = static_cast<std::size_t>(plan.ahead * plan.blocks);
    consumer.blocks = static_cast<void**>(Blocks::allocate(places * sizeof(void*)));
  }
  team.repeat(plan.iterations, [&](long iteration) {
    for (std::size_t t = 0; t < consumers.size(); ++t) {
      void** blocks = consumers[t].blocks + consumers[t].handover.reserve() * plan.blocks;
      for (long i = 0; i < plan.blocks; ++i)
        bench::stamp_as<std::uint32_t>(blocks[i] = Blocks::allocate(size),
                                       static_cast<std::uint64_t>(iteration * plan.blocks + i) ^ (t << 24));
      consumers[t].handover.publish();
    }
  });
  for (Consumer& consumer : consumers) consumer.handover.finish();
}

template <class Blocks> void consume(const Plan& plan, Consumer& own) {
  std::uint64_t checksum = 0;
  long freed = 0;
  const auto one = [&](long place) {
    void** blocks = own.blocks + place * plan.blocks;
    for (long i = 0; i < plan.blocks; ++i) {
      checksum += bench::stamp_of_as<std::uint32_t>(blocks[i]);
      Blocks::free(blocks[i]);
    }
    freed += plan.blocks;
  };
  while (own.handover.take(one)) {}
  Blocks::free(own.blocks);
  own.freed = freed;
  own.checksum = checksum;
}

template <class Blocks> void measure(const Plan& plan, double seconds) {
  bench::MappedArray<Consumer> consumers(static_cast<std::size_t>(plan.threads));
  for (Consumer& consumer : consumers) new (&consumer) Consumer(plan.ahead);
  bench::ThreadTeam team(consumers.size() + 1, seconds);
  bench::Stopwatch watch;
  team.run(watch, [&](std::size_t t) {
    if (t == consumers.size()) produce<Blocks>(team, plan, consumers);
    else consume<Blocks>(plan, consumers[t]);
  });
  long ops = 0;
  std::uint64_t checksum = 0;
  for (const Consumer& consumer : consumers) {
    ops += consumer.freed;
    checksum += consumer.checksum;
  }
  bench::report("consume", static_cast<double>(ops), watch, checksum, bench::profile_extras<Blocks>());
}

}  // namespace

int main(int argc, char** argv) {
  Plan plan = bench::plan_argument(argc, argv, kPresets, kParameters);
  plan.iterations = bench::scaled(argc, argv, plan.iterations);
  const double seconds = bench::seconds_argument(argc, argv);
  bench::with_routes(argc, argv, [&](auto blocks) { measure<decltype(blocks)>(plan, seconds); });
}
