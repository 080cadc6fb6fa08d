// SPDX-License-Identifier: MIT
#include "helper_thread.h"

#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>

#include "background/bare_thread.h"

namespace freeway_command {
namespace {

namespace fs = std::filesystem;

constexpr std::uint64_t kItsSignal = std::uint64_t{1} << (freeway::bare_thread::kSignal - 1);
// All signals are blocked in it but those that cannot be, and, while it waits for it, its own.
constexpr std::uint64_t kBlocked = ~(std::uint64_t{1} << (SIGKILL - 1) | std::uint64_t{1} << (SIGSTOP - 1));

// The numbers that name entries of a folder of /proc.
std::vector<pid_t> numbers_in(const fs::path& folder) {
  std::vector<pid_t> all;
  std::error_code error;
  for (fs::directory_iterator entry(folder, error), end; !error && entry != end; entry.increment(error)) {
    char* rest = nullptr;
    const std::string name = entry->path().filename();
    const long number = std::strtol(name.c_str(), &rest, 10);
    if (number > 0 && *rest == 0) all.push_back(static_cast<pid_t>(number));
  }
  return all;
}

fs::path thread_folder(pid_t process, pid_t thread) {
  return fs::path("/proc") / std::to_string(process) / "task" / std::to_string(thread);
}

std::string first_line(const fs::path& path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return line;
}

std::uint64_t signals(pid_t process, pid_t thread, const char* field) {
  return std::strtoull(thread_status(process, thread, field).c_str(), nullptr, 16);
}

// The parent of a process; what is between the parentheses, its program's name, may be anything.
pid_t parent_of(pid_t process) {
  const std::string line = first_line(fs::path("/proc") / std::to_string(process) / "stat");
  const std::size_t end = line.rfind(')');
  return end == std::string::npos || end + 4 > line.size() ? 0 : static_cast<pid_t>(std::atol(line.c_str() + end + 4));
}

}  // namespace

std::string thread_status(pid_t process, pid_t thread, const std::string& field) {
  std::ifstream file(thread_folder(process, thread) / "status");
  for (std::string line; std::getline(file, line);) {
    if (!line.starts_with(field + ":")) continue;
    const std::size_t begin = line.find_first_not_of(" \t", field.size() + 1);
    return begin == std::string::npos ? "" : line.substr(begin);
  }
  return {};
}

// A thread of that name that could not take the signal would end its process: so its mask is looked at, too, and that
// it is confined.
pid_t helper_of(pid_t process) {
  for (const pid_t thread : numbers_in(fs::path("/proc") / std::to_string(process) / "task"))
    if (thread != process && first_line(thread_folder(process, thread) / "comm") == "freeway" &&
        thread_status(process, thread, "Seccomp") == "2" &&
        (signals(process, thread, "SigBlk") | kItsSignal) == kBlocked)
      return thread;
  return 0;
}

int order_trim(pid_t process, pid_t helper, std::size_t keep) {
  siginfo_t info{};
  info.si_signo = freeway::bare_thread::kSignal;
  info.si_code = SI_QUEUE;
  info.si_pid = getpid();
  info.si_uid = getuid();
  info.si_value.sival_ptr = reinterpret_cast<void*>(keep * 2 + 1);
  return syscall(SYS_rt_tgsigqueueinfo, process, helper, info.si_signo, &info) == 0 ? 0 : errno;
}

bool is_done(pid_t process, pid_t helper) {
  return (signals(process, helper, "SigPnd") & kItsSignal) == 0 &&
         (signals(process, helper, "SigBlk") & kItsSignal) == 0;
}

bool has_order(pid_t process, pid_t helper) { return (signals(process, helper, "SigPnd") & kItsSignal) != 0; }

std::vector<pid_t> family_of(pid_t process) {
  std::multimap<pid_t, pid_t> children;
  for (const pid_t each : numbers_in("/proc")) children.emplace(parent_of(each), each);
  std::vector<pid_t> family = {process};
  for (std::size_t i = 0; i < family.size(); ++i) {
    const auto [begin, end] = children.equal_range(family[i]);
    for (auto child = begin; child != end; ++child) family.push_back(child->second);
  }
  return family;
}

}  // namespace freeway_command
