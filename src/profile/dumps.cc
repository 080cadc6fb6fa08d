// SPDX-License-Identifier: MIT
#include "profile/dumps.h"

#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>

#include "os/options.h"
#include "os/output_file.h"
#include "os/process.h"
#include "os/report.h"
#include "os/signal_action.h"
#include "os/syscall.h"
#include "profile/dump.h"
#include "profile/profiler.h"
#include "profile/settings.h"

namespace freeway::profile {
namespace {

constinit Settings chosen;  // written by initialisation: all threads that take part store the same values
constinit Atomic<u64> number, volume, due;

void write_file() {
  constexpr const char* kUsualPrefix = "freeway";
  constexpr std::size_t kLongestEnd = 64;
  char path[512];
  const char* prefix = chosen.prefix != nullptr ? chosen.prefix : kUsualPrefix;
  const std::size_t length = chosen.prefix != nullptr ? chosen.prefix_length : strlen(kUsualPrefix);
  if (length + kLongestEnd > sizeof(path))
    return Line().text("freeway: FREEWAY_PROFILE: the prefix is too long").write(), void();
  memcpy(path, prefix, length);
  const long fd = output_file::create_first(output_file::kOwnersAlone, [&] {
    Line end;
    end.text(".").number(process::id()).text(".").number(number.fetch_add_relaxed(1) + 1).text(".heap");
    memcpy(path + length, end.data(), end.size());
    path[length + end.size()] = 0;
    return static_cast<const char*>(path);
  });
  const int error = fd < 0 ? static_cast<int>(-fd) : dump(static_cast<int>(fd));
  if (fd >= 0) raw_syscall(SYS_close, static_cast<u64>(fd));
  if (error != 0)
    Line()
        .text("freeway: cannot write the profile to ")
        .quoted(path, 120)
        .text(": error ")
        .number(static_cast<u64>(error))
        .write();
}

void on_signal(int) {
  const int error = errno;
  write_file();
  errno = error;
}

// The program's own handler for that signal comes first, now or later.
void watch_signal(int wanted) {
  SignalAction before;
  if (!signal_action(wanted, nullptr, &before) || before.handler != 0) return;
  SignalAction action;
  action.handler = reinterpret_cast<u64>(&on_signal);
  action.flags = SA_RESTART | SA_ONSTACK;
  signal_action(wanted, &action, nullptr);
}

// Connects to the process that wants to look into this one, and waits until that answers or goes. Leftovers on this
// stack could be taken for the program's pointers: so all of it is written.
FREEWAY_NOINLINE void hold() {
  sockaddr_un address{};
  static_assert(kLongestHold < sizeof(address.sun_path));
  address.sun_family = AF_UNIX;
  memcpy(address.sun_path, chosen.hold, chosen.hold_length);
  const long fd = raw_syscall(SYS_socket, AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (fd < 0) return;
  const auto end = static_cast<u64>(fd);
  long got;
  do got = raw_syscall(SYS_connect, end, reinterpret_cast<u64>(&address), sizeof(address));
  while (got == -EINTR);
  if (got == 0) {
    const u64 self = process::id();
    raw_syscall(SYS_sendto, end, reinterpret_cast<u64>(&self), sizeof(self), MSG_NOSIGNAL, 0, 0);
    char answer = 0;
    do got = raw_syscall(SYS_read, end, reinterpret_cast<u64>(&answer), sizeof(answer));
    while (got == -EINTR);
  }
  raw_syscall(SYS_close, end);
}

}  // namespace

u64 read_setting() {
  const char* text = option_text("PROFILE");
  if (text == nullptr) return 0;
  Settings found;
  if (!parse_settings(text, &found)) return complain_of_option("PROFILE", text, kSettingForm), 0;
  chosen = found;
  if (found.sites != 0 || found.blocks != 0)
    set_sizes(found.sites != 0 ? found.sites : kUsualSites, found.blocks != 0 ? found.blocks : kUsualBlocks);
  set_copy(found.copy);
  due.store_relaxed(found.every);
  if (found.peak) keep_peak(found.interval);
  if (found.signal != 0) watch_signal(found.signal);
  return found.interval;
}

void dump_at_exit() {
  if (chosen.at_exit) write_file();
  if (chosen.hold != nullptr) hold();
}

void dump_if_due(u64 bytes) {
  if (chosen.every == 0) return;
  const u64 now = volume.fetch_add_relaxed(bytes) + bytes;
  u64 seen = due.load_relaxed();
  if (now >= seen && due.cas_relaxed(seen, now + chosen.every)) write_file();
}

}  // namespace freeway::profile
