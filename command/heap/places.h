// SPDX-License-Identifier: MIT
// places.h: where in which file an address of code lies.
#pragma once

#include <string>

#include "heap/memory.h"

namespace freeway_command {

// "libfoo.so+0x1234": from where the file's first page would lie; "0x7f..." if it is in no file.
std::string place_of(const std::vector<Mapping>& mappings, std::uint64_t address);

}  // namespace freeway_command
