// SPDX-License-Identifier: MIT
#include "pressure.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <fstream>

#include "attend.h"
#include "helper_thread.h"
#include "process.h"

#ifndef SYS_pidfd_open
#define SYS_pidfd_open 434
#endif

namespace freeway_command {
namespace {

// Some task waited for memory for a tenth of 2 s. Who has no privileges may only ask for windows of a multiple of 2 s.
constexpr const char* kOrder = "some 200000 2000000";
constexpr int kLookMs = 500;  // where the kernel does not tell when a process ends (before Linux 5.3)

std::string decoded(const char* base64) {
  static constexpr const char* kDigits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string all;
  unsigned bits = 0, value = 0;
  for (; *base64 != 0 && *base64 != '='; ++base64) {
    const char* digit = std::strchr(kDigits, *base64);
    if (digit == nullptr) break;
    value = value << 6 | static_cast<unsigned>(digit - kDigits);
    bits += 6;
    if (bits < 8) continue;
    bits -= 8;
    all.push_back(static_cast<char>(value >> bits & 0xff));
  }
  return all;
}

// This process's control group's file; empty where there is no unified hierarchy.
std::string group_file() {
  std::ifstream file("/proc/self/cgroup");
  for (std::string line; std::getline(file, line);)
    if (line.starts_with("0::/")) return "/sys/fs/cgroup" + line.substr(3) + "/memory.pressure";
  return {};
}

int connected(const std::string& path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path.size() >= sizeof(address.sun_path)) return -1;
  std::memcpy(address.sun_path, path.c_str(), path.size());
  const int file = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (file >= 0 && connect(file, reinterpret_cast<const sockaddr*>(&address), sizeof(address)) == 0) return file;
  if (file >= 0) close(file);
  return -1;
}

}  // namespace

Pressure::Pressure() {
  if (const char* path = std::getenv("MEMORY_PRESSURE_WATCH"); path != nullptr && *path != 0) {
    const char* order = std::getenv("MEMORY_PRESSURE_WRITE");
    if (std::strcmp(path, "/dev/null") == 0) fault_ = "MEMORY_PRESSURE_WATCH forbids it";
    else if (!open_file(path, order != nullptr ? decoded(order) : ""))
      fault_ = std::string(path) + ": " + std::strerror(errno);
    return;
  }
  const std::string group = group_file();
  if (!group.empty() && open_file(group, kOrder)) return;
  if (!open_file("/proc/pressure/memory", kOrder))
    fault_ = std::string("/proc/pressure/memory: ") + std::strerror(errno);
}

Pressure::~Pressure() {
  if (file_ >= 0) close(file_);
}

// The kernel's files say it as an exceptional condition; pipes and sockets by something to read.
bool Pressure::open_file(const std::string& path, const std::string& order) {
  struct stat facts{};
  if (stat(path.c_str(), &facts) != 0) return false;
  const bool is_file = S_ISREG(facts.st_mode);
  const int how = is_file || S_ISFIFO(facts.st_mode) ? O_RDWR : O_RDONLY;
  file_ = S_ISSOCK(facts.st_mode) ? connected(path) : open(path.c_str(), how | O_CLOEXEC | O_NONBLOCK);
  event_ = is_file ? POLLPRI : POLLIN;
  if (file_ < 0) return false;
  if (order.empty() || write(file_, order.data(), order.size()) >= 0) return true;
  const int error = errno;
  close(file_);
  file_ = -1;
  errno = error;
  return false;
}

void Pressure::relieve_while(pid_t child) const {
  const auto end = static_cast<int>(syscall(SYS_pidfd_open, child, 0));
  pollfd waited[] = {{file_, event_, 0}, {end, POLLIN, 0}};
  while (!has_ended(child)) {
    if (poll(waited, 2, end < 0 ? kLookMs : -1) <= 0) continue;
    if ((waited[0].revents & (POLLERR | POLLHUP | POLLNVAL)) != 0) waited[0].fd = -1;  // it says nothing any more
    if ((waited[0].revents & event_) == 0) continue;
    char words[256];
    ssize_t got = 1;
    while (event_ == POLLIN && got > 0) got = read(file_, words, sizeof(words));
    if (got == 0) {  // the other side has said its last
      waited[0].fd = -1;
      continue;
    }
    for (const pid_t process : family_of(child))
      if (const pid_t helper = helper_of(process); helper != 0 && !has_order(process, helper))
        order_trim(process, helper, 0);
  }
  if (end >= 0) close(end);
}

}  // namespace freeway_command
