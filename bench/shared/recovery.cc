// SPDX-License-Identifier: MIT
//
// recovery: how long freeway_shared_recover takes for one dead process, by how many blocks there are.
//
//   recovery [--mib N] [--deaths N]
//
// A process fills the heap with N MiB of blocks of 16 to 1024 bytes, and stays idle. Then others, one after the other,
// allocate and free until they are killed. Prints the median and the longest time of a recovery, and what the audit
// says, as JSON.
#include <freeway/shared.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>

#include "support/measure.h"

namespace {

freeway_shared_t* make_heap(std::size_t bytes) {
  freeway_shared_options_t options = {};
  options.capacity = bytes + bytes / 2 + (std::size_t{64} << 20);
  freeway_shared_t* heap = freeway_shared_create(memfd_create("recovery", MFD_CLOEXEC), &options, sizeof(options));
  if (heap == nullptr) std::perror("freeway_shared_create"), std::exit(1);
  return heap;
}

std::size_t next_size(std::uint64_t& state) {
  state ^= state << 13, state ^= state >> 7, state ^= state << 17;
  return 16 + (state >> 20) % 1009;
}

void fill(freeway_shared_t* heap, std::size_t bytes) {
  std::uint64_t state = 1;
  for (std::size_t done = 0; done < bytes;) {
    const std::size_t size = next_size(state);
    if (freeway_shared_malloc(heap, size) == nullptr) std::perror("freeway_shared_malloc"), std::exit(1);
    done += size;
  }
}

[[noreturn]] void work(freeway_shared_t* heap, int ready) {
  std::uint64_t state = static_cast<std::uint64_t>(getpid());
  void* blocks[256] = {};
  for (unsigned i = 0;; ++i) {
    void*& block = blocks[i % 256];
    freeway_shared_free(heap, block);
    block = freeway_shared_malloc(heap, next_size(state));
    if (i == 4096 && write(ready, "", 1) != 1) _exit(1);
  }
}

double milliseconds() {
  timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<double>(now.tv_sec) * 1e3 + static_cast<double>(now.tv_nsec) / 1e6;
}

// How long the recovery takes of a process that is killed.
double recover_one(freeway_shared_t* heap) {
  int ready[2];
  if (pipe(ready) != 0) std::perror("pipe"), std::exit(1);
  const pid_t child = fork();
  if (child == 0) work(heap, ready[1]);
  char byte;
  const bool began = child > 0 && read(ready[0], &byte, 1) == 1;
  kill(child, SIGKILL);
  waitpid(child, nullptr, 0);
  close(ready[0]), close(ready[1]);
  const double begin = milliseconds();
  const int seats = freeway_shared_recover(heap);
  const double took = milliseconds() - begin;
  if (!began || seats != 1) std::fprintf(stderr, "%d seats were recovered, not one\n", seats), std::exit(1);
  return took;
}

}  // namespace

int main(int argc, char** argv) {
  const long mib = bench::number_argument(argc, argv, "mib", 16),
             deaths = bench::number_argument(argc, argv, "deaths", 9);
  freeway_shared_t* heap = make_heap(static_cast<std::size_t>(mib) << 20);
  fill(heap, static_cast<std::size_t>(mib) << 20);
  std::vector<double> times;
  for (long i = 0; i < deaths; ++i) times.push_back(recover_one(heap));
  std::sort(times.begin(), times.end());
  freeway_shared_audit_t audit = {};
  const std::size_t wrong = freeway_shared_audit(heap, &audit, sizeof(audit));
  std::printf("{\"mib\": %ld, \"blocks\": %zu, \"median_ms\": %.3f, \"longest_ms\": %.3f, \"lost\": %zu}\n", mib,
              audit.blocks, times[times.size() / 2], times.back(), wrong);
  return wrong == 0 ? 0 : 1;
}
