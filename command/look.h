// SPDX-License-Identifier: MIT
// look.h: what the subcommands that look into a process share: how they write.
#pragma once

#include <string>

#include "heap/memory.h"

namespace freeway_command {

// Says on fd 2 what a reader of the answer should know.
void warn_of(const Memory& memory);

// A string of JSON, with its quotes.
std::string json_text(const std::string& text);
// "12.3 MiB".
std::string in_units(std::uint64_t bytes);
// Nanoseconds since 1970.
std::uint64_t now_ns();

}  // namespace freeway_command
