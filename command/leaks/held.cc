// SPDX-License-Identifier: MIT
#include "leaks/held.h"

#include <poll.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>

#include "attend.h"

namespace freeway_command {
namespace {

namespace fs = std::filesystem;

constexpr int kLookMs = 100;  // where the kernel does not say that a child has ended

// The folder for temporary files, if FREEWAY_PROFILE can name a socket there.
std::string folder_for_sockets() {
  std::error_code error;
  const std::string usual = fs::absolute(fs::temp_directory_path(error), error).native();
  constexpr std::size_t kLongest = sizeof(sockaddr_un::sun_path) - sizeof("/freeway-XXXXXX/leaks");
  return error || usual.size() > kLongest || usual.find(',') != usual.npos ? "/tmp" : usual;
}

}  // namespace

Held::Held() {
  std::string folder = folder_for_sockets() + "/freeway-XXXXXX";
  sockaddr_un address{};
  if (mkdtemp(folder.data()) != nullptr) {
    folder_ = folder;
    path_ = folder + "/leaks";
    address.sun_family = AF_UNIX;
    std::strncpy(address.sun_path, path_.c_str(), sizeof(address.sun_path) - 1);
    listener_ = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (listener_ >= 0 && bind(listener_, reinterpret_cast<const sockaddr*>(&address), sizeof(address)) == 0 &&
        listen(listener_, SOMAXCONN) == 0)
      return;
  }
  fault_ = "no socket can be made in " + folder + ": " + std::strerror(errno);
}

Held::~Held() {
  std::error_code ignored;
  if (listener_ >= 0) close(listener_);
  if (!folder_.empty()) fs::remove_all(folder_, ignored);
}

// The kernel says who it is, by this command's own numbers.
bool Held::look_at_next(const std::function<void(pid_t)>& f) const {
  const int connection = accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC);
  if (connection < 0) return errno == EINTR;
  ucred who{};
  socklen_t bytes = sizeof(who);
  if (getsockopt(connection, SOL_SOCKET, SO_PEERCRED, &who, &bytes) == 0 && who.pid > 0) f(who.pid);
  close(connection);
  return true;
}

void Held::look_while(pid_t child, const std::function<void(pid_t)>& f) const {
  const auto end = static_cast<int>(syscall(SYS_pidfd_open, child, 0));
  pollfd waited[] = {{listener_, POLLIN, 0}, {end, POLLIN, 0}};
  while (!has_ended(child)) {
    if (poll(waited, 2, end < 0 ? kLookMs : -1) <= 0 || (waited[0].revents & POLLIN) == 0) continue;
    look_at_next(f);
  }
  while (look_at_next(f)) {  // its children that wait already
  }
  if (end >= 0) close(end);
}

}  // namespace freeway_command
