// SPDX-License-Identifier: MIT
//
// What a stuck or crashed test was doing: for every process of its group and every thread the state, the kernel
// function it sleeps in, its system call, and a backtrace where gdb is installed. Called by the supervising process,
// never by the test itself.
#ifndef FREEWAY_TESTS_SIGNAL_SUPPORT_HANG_REPORT_H
#define FREEWAY_TESTS_SIGNAL_SUPPORT_HANG_REPORT_H

#include <dirent.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cctype>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

namespace freeway_test {

inline std::string first_line(const std::string& path) {
  char text[256] = "";
  if (FILE* file = std::fopen(path.c_str(), "re")) {
    const size_t n = std::fread(text, 1, sizeof text - 1, file);
    text[n] = '\0';
    std::fclose(file);
  }
  std::string line = text;
  return line.substr(0, line.find('\n'));
}

inline std::vector<pid_t> numeric_entries(const std::string& folder) {
  std::vector<pid_t> found;
  if (DIR* dir = ::opendir(folder.c_str())) {
    while (const dirent* entry = ::readdir(dir))
      if (std::isdigit(static_cast<unsigned char>(entry->d_name[0]))) found.push_back(std::atoi(entry->d_name));
    ::closedir(dir);
  }
  return found;
}

// The fields of /proc/<pid>/stat after the name, which may itself hold blanks and brackets.
inline bool in_process_group(pid_t pid, pid_t group) {
  const std::string stat = first_line("/proc/" + std::to_string(pid) + "/stat");
  const size_t after_name = stat.rfind(')');
  if (after_name == std::string::npos) return false;
  char state;
  int parent, process_group;
  return std::sscanf(stat.c_str() + after_name + 1, " %c %d %d", &state, &parent, &process_group) == 3 &&
         process_group == group;
}

inline void print_threads(pid_t pid) {
  const std::string tasks = "/proc/" + std::to_string(pid) + "/task";
  for (const pid_t tid : numeric_entries(tasks)) {
    const std::string task = tasks + "/" + std::to_string(tid);
    const std::string stat = first_line(task + "/stat");
    const size_t after_name = stat.rfind(')');
    std::fprintf(stderr, "    thread %d  state %c  waits in %s  system call %s\n", tid,
                 after_name == std::string::npos ? '?' : stat[after_name + 2], first_line(task + "/wchan").c_str(),
                 first_line(task + "/syscall").c_str());
  }
}

inline void print_backtrace(pid_t pid) {
  std::fflush(stderr);
  const pid_t child = ::fork();
  if (child == 0) {
    ::unsetenv("LD_PRELOAD");
    ::dup2(2, 1);
    const std::string target = std::to_string(pid);
    ::execlp("timeout", "timeout", "-k", "5", "60", "gdb", "-p", target.c_str(), "-batch", "-nx", "-ex",
             "set pagination off", "-ex", "thread apply all backtrace 16", static_cast<char*>(nullptr));
    ::_exit(127);
  }
  int status = 0;
  if (child > 0) ::waitpid(child, &status, 0);
}

// At most `most` backtraces: one takes a second or two.
inline void report_process_group(pid_t group, int most = 3) {
  for (const pid_t pid : numeric_entries("/proc")) {
    if (!in_process_group(pid, group)) continue;
    std::fprintf(stderr, "  process %d (%s)\n", pid, first_line("/proc/" + std::to_string(pid) + "/comm").c_str());
    print_threads(pid);
    if (most-- > 0) print_backtrace(pid);
  }
}

}  // namespace freeway_test
#endif
