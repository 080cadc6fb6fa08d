// SPDX-License-Identifier: MIT
// settings.h: the settings in FREEWAY_PROFILE.
//
//   FREEWAY_PROFILE=512k[,prefix=PATH][,dump=exit|peak|signal:USR1|every:1g|hold:SOCKET]...
//     [,stacks=N][,blocks=N][,copy=8k]
#pragma once

#include "base/integers.h"

namespace freeway::profile {

constexpr std::size_t kLongestHold = 107;  // bytes of a path that names a socket
constexpr u64 kUsualCopy = 8 * kKiB, kMostCopy = 1024 * kKiB;

struct Settings {
  u64 interval = 0;              // bytes
  const char* prefix = nullptr;  // not terminated
  std::size_t prefix_length = 0;
  bool at_exit = false;
  bool peak = false;           // dumps also say what was live when most was
  const char* hold = nullptr;  // path of a socket, not terminated
  std::size_t hold_length = 0;
  int signal = 0;             // 0: none
  u64 every = 0;              // bytes that are allocated between two dumps; 0: no such dumps
  u32 sites = 0, blocks = 0;  // 0: as usual; powers of two
  u64 copy = kUsualCopy;      // bytes kept of a stack without frame pointers; 0: none
};

constexpr const char* kSettingForm =
    "BYTES[,prefix=PATH][,dump=exit|peak|signal:USR1|every:1g|hold:SOCKET][,stacks=N][,blocks=N][,copy=BYTES]";

// Whether `text` has that form. It must stay in place: the prefix and the socket's path point into it. If it names no
// time of a dump, that is the exit; `peak` says what dumps hold.
bool parse_settings(const char* text, Settings* settings);

}  // namespace freeway::profile
