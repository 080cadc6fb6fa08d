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

// The library of `engine`; "freeway" is the flagship, libfreeway.so.0, others are libfreeway-<engine>.so.0. FREEWAY_LIB
// names the flagship, and its folder the others'; else they are looked for beside the command (a build directory),
// where installing put them as seen from the command (so that the tree may be moved), and where installing put them.
Library find_library(const std::string& engine = "freeway");

// This process's LD_PRELOAD with the library at its end: a preloaded wrapper of malloc goes on working, with Freeway
// behind it.
std::string preload_with(const Library& library);

}  // namespace freeway_command
