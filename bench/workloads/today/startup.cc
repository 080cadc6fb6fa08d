// SPDX-License-Identifier: MIT
//
// startup: what the allocator adds to the smallest program. Runs `hello`, which lies beside it, many times under the
// same environment: microseconds from spawn to exit (median and 10th percentile) and hello's anonymous resident memory.
//
// One operation is one process. --runs (300), --shrink.
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <string>

#include "support/measure.h"

extern char** environ;

namespace {

// Runs `path` with standard output into `out`, waits, and returns the microseconds it took.
double run(const std::string& path, const char* argument, int out) {
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, out, 1);
  char* argv[] = {const_cast<char*>(path.c_str()), const_cast<char*>(argument), nullptr};
  const double start = bench::clock_seconds(CLOCK_MONOTONIC);
  pid_t child = 0;
  if (posix_spawn(&child, path.c_str(), &actions, nullptr, argv, environ) != 0) bench::die("posix_spawn hello");
  int status = 0;
  if (waitpid(child, &status, 0) != child || status != 0) {
    std::fprintf(stderr, "hello failed: status %d\n", status);
    std::exit(1);
  }
  const double end = bench::clock_seconds(CLOCK_MONOTONIC);
  posix_spawn_file_actions_destroy(&actions);
  return (end - start) * 1e6;
}

}  // namespace

int main(int argc, char** argv) {
  const long runs = bench::scaled(argc, argv, bench::number_argument(argc, argv, "runs", 300));
  char self[4096];
  const ssize_t length = readlink("/proc/self/exe", self, sizeof self - 1);
  if (length < 0) bench::die("readlink");
  self[length] = '\0';
  std::string hello(self);
  hello.replace(hello.rfind('/') + 1, std::string::npos, "hello");
  int ends[2];
  if (pipe(ends) != 0) bench::die("pipe");

  run(hello, "--memory", ends[1]);
  char text[128] = {};
  if (read(ends[0], text, sizeof text - 1) <= 0) bench::die("read");
  long hello_kib = 0;
  if (std::sscanf(text, "hello, world\nanonymous_kib %ld", &hello_kib) != 1) {
    std::fprintf(stderr, "hello said: %s\n", text);
    return 1;
  }
  std::vector<double> times;
  bench::Stopwatch watch;
  watch.start();
  for (long i = 0; i < runs; ++i) {
    times.push_back(run(hello, nullptr, ends[1]));
    // Emptied each time: a full pipe would block hello.
    if (read(ends[0], text, sizeof text) != 13) bench::die("hello said something else");
  }
  watch.stop();
  std::sort(times.begin(), times.end());
  bench::report("startup", static_cast<double>(runs), watch, static_cast<std::uint64_t>(runs),
                {{"startup_us", times[times.size() / 2]},
                 {"startup_p10_us", times[times.size() / 10]},
                 {"hello_anonymous_kib", static_cast<double>(hello_kib)}});
}
