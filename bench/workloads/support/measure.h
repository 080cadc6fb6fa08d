// SPDX-License-Identifier: MIT
//
// measure.h: what every micro benchmark here shares: arguments, clocks, a random generator, memory that does not come
// from malloc, and the one line of JSON that is the program's result.
//
// A benchmark is a small program that knows nothing of the allocator it runs on: the allocator is LD_PRELOADed, so one
// binary measures all of them. Three rules make the figures comparable:
//   - the work is fixed by the arguments (never by the time it takes), so every allocator does exactly the same;
//   - the checksum depends on that work only, never on an address: it must be equal under every allocator, and a wrong
//     one means that a block was handed out twice or lost its contents;
//   - the arrays that hold the pointers are mapped, not malloc'ed, so they weigh the same under every allocator.
#ifndef FREEWAY_BENCH_SUPPORT_MEASURE_H
#define FREEWAY_BENCH_SUPPORT_MEASURE_H

#include <sys/mman.h>
#include <sys/resource.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <utility>
#include <vector>

#include "support/memory_use.h"

namespace bench {

// --- Arguments: --name value -----------------------------------------------------------------------------------------

// The value of `--name` or `fallback`. Unknown arguments are not an error: each program reads what it knows.
inline const char* text_argument(int argc, char** argv, const char* name, const char* fallback) {
  for (int i = 1; i + 1 < argc; ++i)
    if (argv[i][0] == '-' && argv[i][1] == '-' && std::strcmp(argv[i] + 2, name) == 0) return argv[i + 1];
  return fallback;
}

// `text` as the value of --name: a whole number from 1 up.
inline long positive_number(const char* name, const char* text) {
  char* end = nullptr;
  const long value = std::strtol(text, &end, 10);
  if (end == text || *end != '\0' || value < 1) {
    std::fprintf(stderr, "--%s wants a positive whole number, not '%s'\n", name, text);
    std::exit(2);
  }
  return value;
}

inline long number_argument(int argc, char** argv, const char* name, long fallback) {
  const char* text = text_argument(argc, argv, name, nullptr);
  return text == nullptr ? fallback : positive_number(name, text);
}

// `full` operations divided by --shrink (tests run the same programs in milliseconds), at least 1. Where --shrink is
// given more than once, by a workload's declaration and by whoever runs it, each of them divides.
inline long scaled(int argc, char** argv, long full) {
  long count = full;
  for (int i = 1; i + 1 < argc; ++i)
    if (std::strcmp(argv[i], "--shrink") == 0) count /= positive_number("shrink", argv[i + 1]);
  return count < 1 ? 1 : count;
}

// --- Against the optimiser -------------------------------------------------------------------------------------------

// The compiler must believe that somebody reads *block: it may then neither drop the malloc/free pair (the programs are
// built with -fno-builtin as well) nor the stores into the block.
inline void escape(void* block) { asm volatile("" : : "g"(block) : "memory"); }

[[noreturn]] inline void die(const char* what) {
  std::perror(what);
  std::exit(1);
}

// malloc that must not fail: a benchmark that quietly worked on less would win.
inline void* must_malloc(std::size_t size) {
  void* block = std::malloc(size);
  if (__builtin_expect(block == nullptr, 0)) die("malloc");
  return block;
}

// A block's first word carries a value, so that the checksum sees blocks that overlap or lose their contents.
inline void stamp(void* block, std::uint64_t value) { *static_cast<volatile std::uint64_t*>(block) = value; }
inline std::uint64_t stamp_of(void* block) { return *static_cast<volatile std::uint64_t*>(block); }

// The same in the first sizeof(Word) bytes, for blocks that may be smaller than eight.
template <class Word> void stamp_as(void* block, std::uint64_t value) {
  *static_cast<volatile Word*>(block) = static_cast<Word>(value);
}
template <class Word> std::uint64_t stamp_of_as(void* block) { return *static_cast<volatile Word*>(block); }

// --- Random numbers --------------------------------------------------------------------------------------------------

// xorshift64*: 1 ns a number, the same sequence everywhere.
class Random {
 public:
  explicit Random(std::uint64_t seed) : state_(seed * 0x9E3779B97F4A7C15u + 1) {}
  std::uint64_t next() {
    state_ ^= state_ >> 12;
    state_ ^= state_ << 25;
    state_ ^= state_ >> 27;
    return state_ * 0x2545F4914F6CDD1Du;
  }
  // In [0, bound), bound <= 2^32; a multiplication instead of a division, the bias does not matter here.
  std::uint64_t below(std::uint64_t bound) { return ((next() >> 32) * bound) >> 32; }
  std::uint64_t between(std::uint64_t low, std::uint64_t high) { return low + below(high - low + 1); }

 private:
  std::uint64_t state_;
};

// --- Memory that is not the allocator's ------------------------------------------------------------------------------

// An array straight from mmap, every page touched, so that its faults lie outside the timed part.
template <class T> class MappedArray {
 public:
  explicit MappedArray(std::size_t count, int sharing = MAP_PRIVATE) : count_(count) {
    void* memory = mmap(nullptr, bytes(), PROT_READ | PROT_WRITE, sharing | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
    if (memory == MAP_FAILED) die("mmap");
    data_ = static_cast<T*>(memory);
  }
  ~MappedArray() { munmap(data_, bytes()); }
  MappedArray(const MappedArray&) = delete;
  MappedArray& operator=(const MappedArray&) = delete;

  T& operator[](std::size_t i) { return data_[i]; }
  T* begin() { return data_; }
  T* end() { return data_ + count_; }
  std::size_t size() const { return count_; }
  void shuffle(Random& random) {
    for (std::size_t i = count_; i > 1; --i) std::swap(data_[i - 1], data_[random.below(i)]);
  }

 private:
  std::size_t bytes() const { return (count_ ? count_ : 1) * sizeof(T); }
  T* data_;
  std::size_t count_;
};

// --- Clocks and the result -------------------------------------------------------------------------------------------

inline double clock_seconds(clockid_t clock) {
  timespec now;
  clock_gettime(clock, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

// Wall and CPU time (user and system, all threads) between start and stop; several intervals add up.
class Stopwatch {
 public:
  void start() {
    wall_ -= clock_seconds(CLOCK_MONOTONIC);
    cpu_ -= clock_seconds(CLOCK_PROCESS_CPUTIME_ID);
  }
  void stop() {
    cpu_ += clock_seconds(CLOCK_PROCESS_CPUTIME_ID);
    wall_ += clock_seconds(CLOCK_MONOTONIC);
  }
  // Time that this process's clocks do not see: its children's, as they measured it.
  void add(double wall, double cpu) {
    wall_ += wall;
    cpu_ += cpu;
  }
  double wall() const { return wall_; }
  double cpu() const { return cpu_; }

 private:
  double wall_ = 0;
  double cpu_ = 0;
};

// A further figure of one program, printed under its own key.
struct Extra {
  const char* key;
  double value;
};

// Prints the result. `ops` is what one figure in ns is divided by; what counts as one is said in each program's head.
inline void report(const char* name, double ops, const Stopwatch& watch, std::uint64_t checksum,
                   const std::vector<Extra>& extras = {}) {
  rusage usage;
  getrusage(RUSAGE_SELF, &usage);
  std::printf("{\"name\": \"%s\", \"ops\": %.0f, \"seconds\": %.6f, \"cpu_seconds\": %.6f, \"checksum\": \"%016llx\", "
              "\"rss_peak_kib\": %ld, \"vm_peak_kib\": %ld, \"minor_faults\": %ld",
              name, ops, watch.wall(), watch.cpu(), static_cast<unsigned long long>(checksum), peak_kib(),
              virtual_peak_kib(), usage.ru_minflt);
  for (const Extra& extra : extras) std::printf(", \"%s\": %.12g", extra.key, extra.value);
  std::printf("}\n");
}

inline double ns_each(double seconds, double count) { return seconds * 1e9 / count; }

}  // namespace bench

#endif  // FREEWAY_BENCH_SUPPORT_MEASURE_H
