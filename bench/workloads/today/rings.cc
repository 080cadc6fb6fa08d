// SPDX-License-Identifier: MIT
//
// rings: T threads, each with a ring of slots. A round fills the ring's empty slots with blocks of mostly 8, 16 and 48
// bytes; then the blocks of its lower half are freed upwards and those of its upper half downwards. Every fifth block
// is kept to the next round, another fifth each time: runs of neighbours, but with holes.
//
// One operation is one malloc and one free. --threads (4), --slots (a ring, 20000), --rounds (of all threads, 1000),
// --shrink.
#include "support/measure.h"
#include "support/thread_team.h"

namespace {

constexpr std::size_t kKept = 5;  // one of so many stays

// Blocks of each size in 64.
constexpr struct {
  std::size_t size, share;
} kSizes[] = {{8, 16}, {16, 20}, {48, 20}, {96, 4}, {320, 2}, {1024, 1}, {4000, 1}};

class Sizes {
 public:
  Sizes() {
    std::size_t at = 0;
    for (const auto& row : kSizes)
      for (std::size_t i = 0; i < row.share; ++i) of_[at++] = row.size;
    if (at != 64) bench::die("the shares are not 64");
  }
  std::size_t draw(std::uint64_t bits) const { return of_[bits >> 58]; }

 private:
  std::size_t of_[64];
};

class Ring {
 public:
  Ring(std::size_t slots, std::uint64_t seed) : random_(seed), blocks_(slots) {}

  void fill() {
    for (auto& block : blocks_) {
      if (block != nullptr) continue;
      const std::uint64_t bits = random_.next();
      block = bench::must_malloc(sizes_.draw(bits));
      bench::stamp(block, bits);
      ++made_.count;
    }
  }
  void empty(std::size_t round, std::size_t kept) {
    const std::size_t middle = blocks_.size() / 2;
    for (std::size_t i = 0; i < middle; ++i) drop(i, round, kept);
    for (std::size_t i = blocks_.size(); i > middle; --i) drop(i - 1, round, kept);
  }
  const bench::Done& made() const { return made_; }

 private:
  void drop(std::size_t i, std::size_t round, std::size_t kept) {
    if (blocks_[i] == nullptr || (kept != 0 && (i + round) % kept == 0)) return;
    made_.checksum += bench::stamp_of(blocks_[i]);
    std::free(blocks_[i]);
    blocks_[i] = nullptr;
  }

  Sizes sizes_;
  bench::Random random_;
  bench::MappedArray<void*> blocks_;
  bench::Done made_;
};

}  // namespace

int main(int argc, char** argv) {
  const long threads = bench::number_argument(argc, argv, "threads", 4);
  const auto slots = static_cast<std::size_t>(bench::number_argument(argc, argv, "slots", 20'000));
  const long all_rounds = bench::number_argument(argc, argv, "rounds", 1000);
  const auto rounds = static_cast<std::size_t>(bench::scaled(argc, argv, all_rounds / threads));
  const auto team_size = static_cast<std::size_t>(threads);
  bench::MappedArray<bench::Padded<bench::Done>> done(team_size);
  bench::ThreadTeam team(team_size);
  bench::Stopwatch watch;
  team.run(watch, [&](std::size_t t) {
    Ring ring(slots, t + 1);
    for (std::size_t round = 0; round < rounds; ++round) {
      ring.fill();
      ring.empty(round, kKept);
    }
    ring.empty(0, 0);
    done[t].value = ring.made();
  });
  const bench::Done all = bench::total_of(done);
  bench::report("rings", static_cast<double>(all.count), watch, all.checksum);
}
