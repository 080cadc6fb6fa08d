// SPDX-License-Identifier: MIT
//
// passive_false: does the allocator let a thread use again what lay in another thread's cache line? One thread
// allocates a block for each of the others, neighbours probably; each frees its block and goes on as in active_false:
// it allocates a block, writes every byte and frees it. From the Hoard distribution, as two papers use it:
//   michael   Michael 2004, section 4.1 (Fig. 8d): one round, then 10,000 pairs of 8 bytes with 1,000 writes to each
//             byte
//   hmalloc   HMalloc 2020, section 4.4 (Fig. 11h; 8 writes in Table 1): 10,000,000 rounds, after each one pair of 8
//             bytes and one write to each byte. Half of the blocks are for others (shared), half for oneself (local)
// The thread that makes the blocks is beside the --threads that use them. It hands over up to 64 rounds at a time and
// is at most four of these ahead, so that the hand-over costs little.
//
// One operation is one malloc and one free. --threads, --size (bytes), --rounds, --pairs (after each round, each
// thread), --writes (to each byte), --idle-thread (1: a thread is started and ended first), --seconds, --shrink (rounds
// if there are many, else pairs).
#include <algorithm>

#include "papers/routes.h"
#include "papers/writes.h"
#include "support/handover.h"
#include "support/plan.h"
#include "support/thread_team.h"

namespace {

struct Plan {
  long threads, size, rounds, pairs, writes, idle_thread;
};
constexpr bench::Preset<Plan> kPresets[] = {
    {"michael", {.threads = 16, .size = 8, .rounds = 1, .pairs = 10'000, .writes = 1'000, .idle_thread = 1}},
    {"hmalloc", {.threads = 16, .size = 8, .rounds = 10'000'000, .pairs = 1, .writes = 1, .idle_thread = 0}},
};
constexpr bench::Parameter<Plan> kParameters[] = {{"threads", &Plan::threads}, {"size", &Plan::size},
                                                  {"rounds", &Plan::rounds},   {"pairs", &Plan::pairs},
                                                  {"writes", &Plan::writes},   {"idle-thread", &Plan::idle_thread, 0}};

constexpr int kTogether = 64, kAhead = 4;

struct Receiver {
  bench::Handover handover{kAhead};
  struct {
    long rounds;
    void* blocks[kTogether];
  } places[kAhead];
  long freed = 0;  // with the pairs: what this thread did
  std::uint64_t checksum = 0;
};

template <class Blocks>
void produce(const bench::ThreadTeam& team, const Plan& plan, bench::MappedArray<Receiver>& receivers) {
  const long most = std::min<long>(kTogether, plan.rounds);
  long left = plan.rounds;
  team.repeat((plan.rounds + kTogether - 1) / kTogether, [&](long) {
    const long together = team.timed() ? most : std::min(most, left);
    int place = 0;  // the same for all: they get the same number of rounds
    for (Receiver& receiver : receivers) place = receiver.handover.reserve();
    for (long round = 0; round < together; ++round)
      for (std::size_t t = 0; t < receivers.size(); ++t) {
        void* block = Blocks::allocate(static_cast<std::size_t>(plan.size));
        bench::stamp_as<unsigned char>(block, bench::mark_of(t, round));
        receivers[t].places[place].blocks[round] = block;
      }
    for (Receiver& receiver : receivers) {
      receiver.places[place].rounds = together;
      receiver.handover.publish();
    }
    left -= together;
  });
  for (Receiver& receiver : receivers) receiver.handover.finish();
}

template <class Blocks>
void receive(const bench::ThreadTeam& team, const Plan& plan, std::size_t thread, Receiver& own) {
  const auto size = static_cast<std::size_t>(plan.size);
  std::uint64_t checksum = 0;
  long freed = 0;
  const auto rounds = [&](int place) {
    const auto& given = own.places[place];
    for (long round = 0; round < given.rounds; ++round) {
      checksum += bench::stamp_of_as<unsigned char>(given.blocks[round]);
      Blocks::free(given.blocks[round]);
      long pair = 0;
      for (; pair < plan.pairs && team.running(); ++pair) {
        void* block = Blocks::allocate_local(size);
        checksum += bench::write_bytes(block, size, plan.writes, bench::mark_of(thread, pair));
        Blocks::free(block);
      }
      freed += 1 + pair;
    }
  };
  while (own.handover.take(rounds)) {}
  own.freed = freed;
  own.checksum = checksum;
}

template <class Blocks> void measure(const Plan& plan, double seconds) {
  if (plan.idle_thread != 0) bench::start_and_end_idle_thread();
  bench::MappedArray<Receiver> receivers(static_cast<std::size_t>(plan.threads));
  for (Receiver& receiver : receivers) new (&receiver) Receiver;
  bench::ThreadTeam team(receivers.size() + 1, seconds);
  bench::Stopwatch watch;
  team.run(watch, [&](std::size_t t) {
    if (t == receivers.size()) produce<Blocks>(team, plan, receivers);
    else receive<Blocks>(team, plan, t, receivers[t]);
  });
  long ops = 0;
  std::uint64_t checksum = 0;
  for (const Receiver& receiver : receivers) {
    ops += receiver.freed;
    checksum += receiver.checksum;
  }
  bench::report("passive_false", static_cast<double>(ops), watch, checksum, bench::profile_extras<Blocks>());
}

}  // namespace

int main(int argc, char** argv) {
  Plan plan = bench::plan_argument(argc, argv, kPresets, kParameters);
  long& most = plan.rounds > plan.pairs ? plan.rounds : plan.pairs;
  most = bench::scaled(argc, argv, most);
  const double seconds = bench::seconds_argument(argc, argv);
  bench::with_routes(argc, argv, [&](auto blocks) { measure<decltype(blocks)>(plan, seconds); });
}
