// SPDX-License-Identifier: MIT
//
// realloc_growth: things that grow while others do: vectors that grow by half or to twice their size, and strings to
// which a few bytes are appended at a time, each append a realloc, as by programs that trust their malloc. A few
// hundred grow in turns, so that seldom one has room behind it.
//
//   in_place_percent   of the reallocs left the block where it was
// One operation is one realloc. --growth half|double|append (double), --things (256), --most (bytes a thing grows to at
// most: 1 MiB, append: 4096), --rounds (how often each grows up: 60, append: 300), --shrink (divides rounds and
// things). All bytes are written; the marks at both ends of what was there are checked after each realloc.
#include "support/measure.h"

namespace {

enum class Growth { kHalf, kDouble, kAppend };

struct Thing {
  char* block;
  std::size_t size, goal;
  std::uint64_t mark;
};

struct Work {
  Growth growth;
  std::size_t most;
  std::uint64_t checksum = 0;
  double reallocs = 0, in_place = 0;
};

std::size_t next_size(const Work& work, std::size_t size, bench::Random& random) {
  if (work.growth == Growth::kAppend) return size + 1 + random.below(16);
  return work.growth == Growth::kDouble ? size * 2 : size + size / 2;
}

std::uint64_t word_at(const char* place) {
  std::uint64_t word;
  std::memcpy(&word, place, 8);
  return word;
}

// Both ends of the first `size` bytes.
void check(Work& work, const Thing& thing) {
  if (word_at(thing.block) != thing.mark || word_at(thing.block + thing.size - 8) != thing.mark) {
    std::fprintf(stderr, "realloc lost what was in a block of %zu bytes\n", thing.size);
    std::exit(1);
  }
  work.checksum += thing.mark ^ thing.size;
}

void fill(Thing& thing, std::size_t from) {
  std::memset(thing.block + from, static_cast<int>(thing.size), thing.size - from);
  std::memcpy(thing.block + thing.size - 8, &thing.mark, 8);
  std::memcpy(thing.block, &thing.mark, 8);
}

void begin(const Work& work, Thing& thing, bench::Random& random) {
  // Goals: each doubling up to the most equally often.
  std::size_t doublings = 0;
  while ((std::size_t{64} << doublings) < work.most) ++doublings;
  thing = {static_cast<char*>(bench::must_malloc(16)), 16, std::size_t{64} << random.below(doublings + 1),
           random.next()};
  thing.goal = thing.goal < work.most ? thing.goal : work.most;
  fill(thing, 0);
}

// One realloc; false, when the thing has grown up (and is gone).
bool grow(Work& work, Thing& thing, bench::Random& random) {
  const std::size_t size = next_size(work, thing.size, random);
  if (size > thing.goal) {
    check(work, thing);
    std::free(thing.block);
    thing.block = nullptr;
    return false;
  }
  const auto before = reinterpret_cast<std::uintptr_t>(thing.block);
  thing.block = static_cast<char*>(std::realloc(thing.block, size));
  if (thing.block == nullptr) bench::die("realloc");
  work.reallocs += 1;
  work.in_place += reinterpret_cast<std::uintptr_t>(thing.block) == before ? 1 : 0;
  check(work, thing);
  const std::size_t old = thing.size;
  thing.size = size;
  fill(thing, old);
  return true;
}

Growth read_growth(int argc, char** argv) {
  const char* growth = bench::text_argument(argc, argv, "growth", "double");
  if (std::strcmp(growth, "half") == 0) return Growth::kHalf;
  if (std::strcmp(growth, "double") == 0) return Growth::kDouble;
  if (std::strcmp(growth, "append") == 0) return Growth::kAppend;
  std::fprintf(stderr, "--growth: half, double or append\n");
  std::exit(2);
}

}  // namespace

int main(int argc, char** argv) {
  Work work{read_growth(argc, argv), 0};
  const bool append = work.growth == Growth::kAppend;
  work.most = static_cast<std::size_t>(bench::number_argument(argc, argv, "most", append ? 4096 : 1 << 20));
  if (work.most < 64) {
    std::fprintf(stderr, "--most: at least 64\n");
    return 2;
  }
  const long rounds = bench::scaled(argc, argv, bench::number_argument(argc, argv, "rounds", append ? 300 : 60));
  const auto count =
      static_cast<std::size_t>(bench::scaled(argc, argv, bench::number_argument(argc, argv, "things", 256)));
  bench::MappedArray<Thing> things(count);
  bench::MappedArray<std::uint32_t> growing(count);
  bench::Random random(41);
  bench::Stopwatch watch;
  watch.start();
  for (long round = 0; round < rounds; ++round) {
    std::size_t left = count;
    for (std::size_t i = 0; i < count; ++i) {
      begin(work, things[i], random);
      growing[i] = static_cast<std::uint32_t>(i);
    }
    while (left > 0) {
      const std::size_t turn = random.below(left);
      if (!grow(work, things[growing[turn]], random)) growing[turn] = growing[--left];
    }
  }
  watch.stop();
  bench::report("realloc_growth", work.reallocs, watch, work.checksum,
                {{"in_place_percent", 100 * work.in_place / work.reallocs}});
}
