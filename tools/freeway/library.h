// SPDX-License-Identifier: MIT
// library.h: where libfreeway.so is.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace freeway_command {

struct Library {
  std::filesystem::path path;  // absolute; empty if none was found
  std::string fault;           // why not, as a sentence
};

// FREEWAY_LIB names it; else it is looked for beside the command (a build directory), where installing put it as seen
// from the command (so that the tree may be moved), and where installing put it.
Library find_library();

// `previous` (an LD_PRELOAD) with the library at its end: a preloaded wrapper of malloc goes on working, with Freeway
// behind it.
std::string preload_with(const std::string& previous, const Library& library);

}  // namespace freeway_command
