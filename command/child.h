// SPDX-License-Identifier: MIT
// child.h: this command once more, under the library: does it load, and what does it say?
#pragma once

#include <string>
#include <vector>

#include "library.h"

namespace freeway_command {

inline constexpr const char* kVforkIsReal = "the child runs on its parent's memory";
inline constexpr const char* kVforkIsFork = "a fork: the child has a copy";

struct Said {
  int status = -1;     // exit status of the child, 128 + signal if one ended it, -1 if it could not be started
  std::string output;  // its fd 1
  std::string errors;  // its fd 2: what the library and the loader say
  std::string complaint() const;  // the same without the last line's end
};

// What the program at `path` says to `arguments` (the first is its name), with `variables` ("NAME=value", or "NAME" to
// leave NAME out) in its environment.
Said said_by(const std::string& path, std::vector<std::string> arguments, const std::vector<std::string>& variables);

// Runs `freeway probe` under the library, likewise.
Said run_probe(const Library& library, const std::vector<std::string>& variables);

}  // namespace freeway_command
