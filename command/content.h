// SPDX-License-Identifier: MIT
// content.h: all that is in a file.
#pragma once

#include <fstream>
#include <iterator>
#include <string>

namespace freeway_command {

// Of a file of /proc, too; empty where it cannot be read.
inline std::string content_of(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

}  // namespace freeway_command
