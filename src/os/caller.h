// SPDX-License-Identifier: MIT
// caller.h: in reports: which code, thread and process it was.
//
// Asks the kernel alone (/proc/self/maps), never the dynamic linker, whose lock another thread may hold. All
// signal-safe.
#pragma once

#include "os/report.h"

namespace freeway {

// "0x7f2b5c0411e7 (/usr/lib/libfoo.so+0x411e7)": behind the plus the address as addr2line takes it. Without a plus the
// file's addresses are the process's; without brackets it is in no file, or there is no /proc.
Line& put_code(Line& line, uptr address);
// " in thread 1236 of server (1234)": the calling one.
Line& put_thread(Line& line);

}  // namespace freeway
