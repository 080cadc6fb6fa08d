// SPDX-License-Identifier: MIT
//
// helper_process.h: finding a process's helper thread, and speaking to it as `freeway trim` does; and programs that
// have something to give back. For scenarios (abi/scenario.h).
#ifndef FREEWAY_TESTS_BACKGROUND_HELPER_PROCESS_H
#define FREEWAY_TESTS_BACKGROUND_HELPER_PROCESS_H

#include <dirent.h>
#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <fstream>
#include <functional>
#include <sstream>
#include <string>
#include <vector>

#include "freeway/freeway.h"
#include "tests/abi/abi_test.h"
#include "tests/abi/scenario.h"

namespace freeway::test {

constexpr int kHelperSignal = 33;
constexpr int kPatience = 3000;  // looks, 10 ms apart

// Whether it comes true before patience ends.
inline bool comes_true(const std::function<bool()>& condition) {
  for (int i = 0; i < kPatience; ++i) {
    if (condition()) return true;
    usleep(10'000);
  }
  return false;
}

inline std::vector<pid_t> threads_of(pid_t process) {
  std::vector<pid_t> all;
  DIR* folder = opendir(("/proc/" + std::to_string(process) + "/task").c_str());
  if (folder == nullptr) return all;
  while (const dirent* entry = readdir(folder))
    if (entry->d_name[0] != '.') all.push_back(atoi(entry->d_name));
  closedir(folder);
  return all;
}

inline std::string thread_file(pid_t process, pid_t thread, const char* name) {
  std::ifstream file("/proc/" + std::to_string(process) + "/task/" + std::to_string(thread) + "/" + name);
  std::ostringstream text;
  text << file.rdbuf();  // nothing, if the thread is gone meanwhile
  return text.str();
}

// What /proc says of a thread's field, as text.
inline std::string status_of(pid_t process, pid_t thread, const std::string& field) {
  const std::string all = "\n" + thread_file(process, thread, "status");
  const size_t at = all.find("\n" + field + ":\t");
  if (at == std::string::npos) return {};
  const size_t begin = at + field.size() + 3;
  return all.substr(begin, all.find('\n', begin) - begin);
}

inline std::vector<pid_t> helpers_of(pid_t process) {
  std::vector<pid_t> all;
  for (const pid_t thread : threads_of(process))
    if (thread_file(process, thread, "comm") == "freeway\n") all.push_back(thread);
  return all;
}

inline pid_t helper_of(pid_t process) {
  const std::vector<pid_t> all = helpers_of(process);
  return all.empty() ? 0 : all[0];
}

// Has the helper give back all but `keep` bytes; false: it is gone.
inline bool order_trim(pid_t process, pid_t helper, size_t keep) {
  siginfo_t info = {};
  info.si_signo = kHelperSignal;
  info.si_code = SI_QUEUE;
  info.si_value.sival_ptr = reinterpret_cast<void*>(keep * 2 + 1);
  return syscall(SYS_rt_tgsigqueueinfo, process, helper, kHelperSignal, &info) == 0;
}

// Takes so many bytes in small blocks, writes to them, and gives them all back.
inline void burst(size_t bytes, size_t size = 200) {
  const size_t count = bytes / size;
  void** blocks = static_cast<void**>(hide(malloc(count * sizeof(void*))));
  for (size_t i = 0; i < count; ++i) memset(blocks[i] = hide(malloc(size)), 1, size);
  for (size_t i = 0; i < count; ++i) free(blocks[i]);
  free(blocks);
}

// A burst, after which the process has its helper.
inline pid_t begin_helper() {
  burst(16 * kMiB);
  require(comes_true([] { return helper_of(getpid()) != 0; }), "a helper");
  return helper_of(getpid());
}

// The heap adds up; the helper may be at work at one look or another.
inline void require_sound() {
  require(comes_true([] { return freeway_audit(nullptr, 0) == 0; }), "a sound heap");
}

}  // namespace freeway::test

#endif  // FREEWAY_TESTS_BACKGROUND_HELPER_PROCESS_H
