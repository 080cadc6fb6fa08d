// SPDX-License-Identifier: MIT
#include "process.h"

#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <map>

namespace freeway_command {
namespace {

namespace fs = std::filesystem;

fs::path folder_of(pid_t process) { return "/proc/" + std::to_string(process); }
fs::path folder_of(pid_t process, pid_t thread) { return folder_of(process) / "task" / std::to_string(thread); }

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

// The parent of a process; what is between the parentheses, its program's name, may be anything.
pid_t parent_of(pid_t process) {
  const std::string line = first_line(folder_of(process) / "stat");
  const std::size_t end = line.rfind(')');
  return end == std::string::npos || end + 4 > line.size() ? 0 : static_cast<pid_t>(std::atol(line.c_str() + end + 4));
}

}  // namespace

std::string first_line(const fs::path& path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return line;
}

std::vector<pid_t> threads_of(pid_t process) { return numbers_in(folder_of(process) / "task"); }

std::string thread_status(pid_t process, pid_t thread, const std::string& field) {
  std::ifstream file(folder_of(process, thread) / "status");
  for (std::string line; std::getline(file, line);) {
    if (!line.starts_with(field + ":")) continue;
    const std::size_t begin = line.find_first_not_of(" \t", field.size() + 1);
    return begin == std::string::npos ? "" : line.substr(begin);
  }
  return {};
}

// Where the hierarchies usually are: unified, beside those of the first version, or one of these.
bool is_frozen(pid_t process) {
  std::ifstream groups(folder_of(process) / "cgroup");
  for (std::string line; std::getline(groups, line);) {
    const std::size_t path = line.find(":/");
    if (path == std::string::npos) continue;
    const std::string group = line.substr(path + 1);
    if (line.starts_with("0::"))
      for (const std::string root : {"/sys/fs/cgroup", "/sys/fs/cgroup/unified"}) {
        std::ifstream events(root + group + "/cgroup.events");
        for (std::string event; std::getline(events, event);)
          if (event == "frozen 1") return true;
      }
    else if (line.find(":freezer:") != std::string::npos)
      if (const std::string state = first_line("/sys/fs/cgroup/freezer" + group + "/freezer.state");
          state == "FROZEN" || state == "FREEZING")
        return true;
  }
  return false;
}

// "Z (zombie)": nobody has asked for its status yet; "X (dead)": it is about to vanish.
bool has_ended(pid_t process, pid_t thread) {
  const std::string state = thread_status(process, thread, "State");
  return state.empty() || state[0] == 'Z' || state[0] == 'X';
}

std::vector<pid_t> processes_named(const std::string& name) {
  constexpr std::size_t kKept = 15;
  std::vector<pid_t> all;
  for (const pid_t each : numbers_in("/proc")) {
    std::error_code error;
    if (each != getpid() && !has_ended(each, each) &&
        (first_line(folder_of(each) / "comm") == name.substr(0, kKept) ||
         fs::read_symlink(folder_of(each) / "exe", error).filename() == name))
      all.push_back(each);
  }
  std::ranges::sort(all);
  return all;
}

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
