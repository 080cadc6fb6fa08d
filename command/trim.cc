// SPDX-License-Identifier: MIT
// trim.cc: `freeway trim`: has a running process give back what it does not need.
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <memory>
#include <optional>
#include <string>

#include "heap/memory.h"
#include "helper_thread.h"
#include "injected_call.h"
#include "process.h"
#include "report.h"
#include "subcommands.h"

namespace freeway_command {
namespace {

constexpr int kLookMs = 20;
constexpr int kMostLooks = 60'000 / kLookMs;

// "300", "64K", "1M", "2G"; none if it is nothing of the kind.
std::optional<std::size_t> bytes_of(const char* text) {
  char* rest = nullptr;
  errno = 0;
  const unsigned long long number = std::strtoull(text, &rest, 10);
  if (*text < '0' || *text > '9' || errno != 0) return {};
  const char* const units = "KMG";
  unsigned shift = 0;
  if (*rest != 0) {
    const char* unit = std::strchr(units, *rest);
    if (unit == nullptr || rest[1] != 0) return {};
    shift = 10 * static_cast<unsigned>(unit - units + 1);
  }
  if (number > (SIZE_MAX / 4 >> shift)) return {};
  return number << shift;
}

// Bytes of the process that are in memory; 0 if there is no such process.
std::size_t resident(pid_t process) {
  std::ifstream file("/proc/" + std::to_string(process) + "/statm");
  std::size_t all = 0, pages = 0;
  file >> all >> pages;
  return pages * static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
}

double mib(std::size_t bytes) { return static_cast<double>(bytes) / (1 << 20); }

// What has gone back since `before`; `so_far` or nothing behind it.
int report(pid_t process, std::size_t before, const char* so_far) {
  const std::size_t after = resident(process);
  if (after == 0) throw Failure(kCannot, "process " + std::to_string(process) + " ended meanwhile");
  std::printf("process %d: %.1f MiB of %.1f MiB went back%s\n", process, mib(before > after ? before - after : 0),
              mib(before), so_far);
  return kOk;
}

// By the thread that it has for this.
int trim_by_helper(pid_t process, pid_t helper, std::size_t keep) {
  const std::size_t before = resident(process);
  if (const int error = order_trim(process, helper, keep); error != 0)
    throw Failure(kCannot, "process " + std::to_string(process) +
                               (error == EPERM ? " is somebody else's" : std::string(": ") + std::strerror(error)));
  if (thread_status(process, process, "State").starts_with("T")) {
    std::printf("process %d is stopped: it will give back what it can when it goes on\n", process);
    return kOk;
  }
  bool done = false;
  for (int i = 0; i < kMostLooks && !done; ++i) {
    usleep(kLookMs * 1000);
    done = is_done(process, helper);
  }
  return report(process, before, done ? "" : " so far");
}

}  // namespace

int trim(const Arguments& arguments) {
  const std::string text = arguments.value("--keep", "0");
  const std::optional<std::size_t> keep = bytes_of(text.c_str());
  if (!keep) arguments.refuse("--keep wants bytes, such as 300, 64K or 1G, not '" + text + "'");
  const pid_t process = process_of(arguments.others()[0]);
  if (process == 0) throw Failure(kCannot, "trim: a core file has no memory to return");
  if (const pid_t helper = helper_of(process); helper != 0) return trim_by_helper(process, helper, *keep);
  const std::unique_ptr<Memory> memory = live_memory(process);
  const std::size_t before = resident(process);
  call_in(*memory, "freeway_trim", *keep, "start it with FREEWAY_BACKGROUND=1 (`freeway run --background`)");
  return report(process, before, "");
}

}  // namespace freeway_command
