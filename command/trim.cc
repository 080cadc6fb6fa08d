// SPDX-License-Identifier: MIT
// trim.cc: `freeway trim`: has a running process give back what it does not need.
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <optional>
#include <string>

#include "heap/memory.h"
#include "helper_thread.h"
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

// Whether the process has the library loaded; none if this may not be looked at.
std::optional<bool> is_under_freeway(pid_t process) {
  std::ifstream file("/proc/" + std::to_string(process) + "/maps");
  std::string line;
  bool any = false;
  for (; std::getline(file, line); any = true)
    if (line.find("libfreeway") != std::string::npos) return true;
  return any ? std::optional<bool>(false) : std::nullopt;
}

// Why the process has no helper, as a sentence.
std::string why_none(pid_t process) {
  const std::string name = "process " + std::to_string(process);
  std::error_code error;
  if (!std::filesystem::exists("/proc/" + std::to_string(process), error)) return "there is no " + name;
  const std::optional<bool> under = is_under_freeway(process);
  if (under && !*under) return name + " does not run under libfreeway.so";
  return name + (under ? "" : ", if it runs under Freeway,") +
         " has no background thread: start it with FREEWAY_BACKGROUND=1 (a process that has used less than 4 MiB has "
         "none)";
}

double mib(std::size_t bytes) { return static_cast<double>(bytes) / (1 << 20); }

int wait_and_report(pid_t process, pid_t helper, std::size_t before) {
  if (thread_status(process, process, "State").starts_with("T")) {
    std::printf("process %d is stopped: it will give back what it can when it goes on\n", process);
    return kOk;
  }
  bool done = false;
  for (int i = 0; i < kMostLooks && !done; ++i) {
    usleep(kLookMs * 1000);
    done = is_done(process, helper);
  }
  const std::size_t after = resident(process);
  if (after == 0) return fail(kCannot, "process " + std::to_string(process) + " ended meanwhile");
  std::printf("process %d: %.1f MiB of %.1f MiB went back%s\n", process, mib(before > after ? before - after : 0),
              mib(before), done ? "" : " so far");
  return kOk;
}

}  // namespace

int trim(const Arguments& arguments) {
  const std::string text = arguments.value("--keep", "0");
  const std::optional<std::size_t> keep = bytes_of(text.c_str());
  if (!keep) arguments.refuse("--keep wants bytes, such as 300, 64K or 1G, not '" + text + "'");
  const pid_t process = process_of(arguments.others()[0]);
  if (process == 0) throw Failure(kCannot, "trim: a core file has no memory to return");
  const pid_t helper = helper_of(process);
  if (helper == 0) throw Failure(kCannot, why_none(process));
  const std::size_t before = resident(process);
  if (const int error = order_trim(process, helper, *keep); error != 0)
    throw Failure(kCannot, "process " + std::to_string(process) +
                               (error == EPERM ? " is somebody else's" : std::string(": ") + std::strerror(error)));
  return wait_and_report(process, helper, before);
}

}  // namespace freeway_command
