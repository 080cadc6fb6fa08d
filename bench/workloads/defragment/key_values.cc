// SPDX-License-Identifier: MIT
//
// key_values: a store whose values are moved so that memory goes back (docs/decisions/039-hints-for-moving.md).
//
// It is filled with --count values (10^6; keys are 0, 1, …) of --min to --max bytes (16 to 1024, each size as likely as
// its logarithm says), --delete percent of them are deleted at random (80), then the store asks freeway_should_move
// about each value, in the order of keys, and moves those that it should: malloc, memcpy, free; --passes times (3), or
// until nothing is moved. Memory is anonymous memory over that at the start:
//
//   full_kib, live_kib          with all values; bytes of those that are left (as malloc rounds them)
//   deleted_kib, trimmed_kib    when they are deleted; after malloc_trim(0)
//   moved_kib, end_kib          after the passes; and after malloc_trim(0)
//   waste_given_back            share of trimmed_kib - live_kib that went by moving
//   moves, passes               values that were moved in all of them
//   first_pass_ns, last_pass_ns time of a pass by values: in the first one most are moved, in the last one few or none
//   plain_moves_ns              the same where each value is moved without asking
// One operation is one value asked about. Without the hint (another allocator preloaded) nothing is moved.
#include <cmath>

#include "support/measure.h"
#include "support/memory_use.h"

namespace {

using Hint = int (*)(const void*);

struct Value {
  char* block;
  std::uint32_t size;
};

// Its contents tell which key it belongs to.
void write(const Value& value, std::uint64_t key) {
  std::memset(value.block, static_cast<int>(key * 31 + 7), value.size);
  bench::stamp(value.block, key);
}
bool holds(const Value& value, std::uint64_t key) {
  for (std::size_t at = 8; at < value.size; ++at)
    if (value.block[at] != static_cast<char>(key * 31 + 7)) return false;
  return bench::stamp_of(value.block) == key;
}

void move(Value& value) {
  char* other = static_cast<char*>(bench::must_malloc(value.size));
  std::memcpy(other, value.block, value.size);
  std::free(value.block);
  value.block = other;
}

struct Pass {
  std::uint64_t asked = 0, moves = 0;
  double seconds = 0;
  double ns() const { return bench::ns_each(seconds, static_cast<double>(asked)); }
};

// Asks about all values, and moves those that the hint says; without a hint, all of them.
Pass defragment(bench::MappedArray<Value>& values, Hint should_move) {
  Pass pass;
  pass.seconds = -bench::clock_seconds(CLOCK_MONOTONIC);
  for (Value& value : values) {
    if (value.block == nullptr) continue;
    ++pass.asked;
    if (should_move != nullptr && should_move(value.block) == 0) continue;
    ++pass.moves;
    move(value);
  }
  pass.seconds += bench::clock_seconds(CLOCK_MONOTONIC);
  return pass;
}

}  // namespace

int main(int argc, char** argv) {
  const auto count = static_cast<std::size_t>(bench::scaled(argc, argv, 1'000'000));
  const auto min = static_cast<double>(bench::number_argument(argc, argv, "min", 16));
  const auto max = static_cast<double>(bench::number_argument(argc, argv, "max", 1024));
  const auto percent = static_cast<std::uint64_t>(bench::number_argument(argc, argv, "delete", 80));
  const long most = bench::number_argument(argc, argv, "passes", 3);
  const auto hint = reinterpret_cast<Hint>(dlsym(RTLD_DEFAULT, "freeway_should_move"));

  bench::MappedArray<Value> values(count);
  bench::Random random(5);
  const long before = bench::rollup_kib("Anonymous:");
  const auto more = [before] { return static_cast<double>(bench::rollup_kib("Anonymous:") - before); };
  for (std::size_t key = 0; key < count; ++key) {
    const double part = static_cast<double>(random.between(0, 1 << 20)) / (1 << 20);
    values[key].size = static_cast<std::uint32_t>(min * std::pow(max / min, part));
    values[key].block = static_cast<char*>(bench::must_malloc(values[key].size));
    write(values[key], key);
  }
  const double full = more();
  for (std::size_t key = 0; key < count; ++key) {
    if (random.between(1, 100) > percent) continue;
    std::free(values[key].block);
    values[key].block = nullptr;
  }
  const double deleted = more();
  bench::trim_all();
  const double trimmed = more();

  Pass first, last;
  std::uint64_t asked = 0, moves = 0;
  long passes = 0;
  bench::Stopwatch working;
  working.start();
  while (hint != nullptr && passes < most) {
    last = defragment(values, hint);
    if (passes++ == 0) first = last;
    asked += last.asked;
    moves += last.moves;
    if (last.moves == 0) break;
  }
  working.stop();
  const double moved = more();
  bench::trim_all();
  const double end = more();

  std::uint64_t live = 0, checksum = 0;
  for (std::size_t key = 0; key < count; ++key) {
    if (values[key].block == nullptr) continue;
    if (!holds(values[key], key)) bench::die("a value's contents are lost");
    live += malloc_usable_size(values[key].block);
    checksum += key;
  }
  const double live_kib = static_cast<double>(live) / 1024;
  bench::report("key_values", static_cast<double>(asked), working, checksum,
                {{"full_kib", full},
                 {"live_kib", live_kib},
                 {"deleted_kib", deleted},
                 {"trimmed_kib", trimmed},
                 {"moved_kib", moved},
                 {"end_kib", end},
                 {"waste_given_back", (trimmed - end) / (trimmed - live_kib)},
                 {"moves", static_cast<double>(moves)},
                 {"passes", static_cast<double>(passes)},
                 {"first_pass_ns", first.ns()},
                 {"last_pass_ns", last.ns()},
                 {"plain_moves_ns", defragment(values, nullptr).ns()}});
}
