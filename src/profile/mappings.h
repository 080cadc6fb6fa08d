// SPDX-License-Identifier: MIT
// mappings.h: /proc/self/maps, read by open, read and close alone.
#pragma once

#include <fcntl.h>

#include "base/integers.h"
#include "os/syscall.h"

namespace freeway::profile {

// Calls f(data, bytes) for one piece after the other.
template <class F>
void each_piece_of_mappings(F&& f) {
  const long fd = raw_syscall(SYS_openat, static_cast<u64>(AT_FDCWD), reinterpret_cast<u64>("/proc/self/maps"),
                              O_RDONLY | O_CLOEXEC);
  if (fd < 0) return;
  char piece[256];
  for (;;) {
    const long got = raw_syscall(SYS_read, static_cast<u64>(fd), reinterpret_cast<u64>(piece), sizeof(piece));
    if (got <= 0) break;
    f(static_cast<const char*>(piece), static_cast<std::size_t>(got));
  }
  raw_syscall(SYS_close, static_cast<u64>(fd));
}

// Calls f(line, end) with the beginning of each line: addresses and rights.
template <class F>
void each_mapping(F&& f) {
  char line[64];
  std::size_t used = 0;
  each_piece_of_mappings([&](const char* data, std::size_t bytes) {
    for (std::size_t i = 0; i < bytes; ++i) {
      if (data[i] != '\n') {
        if (used < sizeof(line)) line[used++] = data[i];
        continue;
      }
      f(static_cast<const char*>(line), line + used);
      used = 0;
    }
  });
}

}  // namespace freeway::profile
