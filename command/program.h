// SPDX-License-Identifier: MIT
// program.h: finding a program, and whether a library can be preloaded into it.
#pragma once

#include <string>

namespace freeway_command {

struct Program {
  std::string path;  // what to execute
  int status = 0;    // 0, or kNotFound or kNotExecutable: then `path` is what was looked for
};

// Finds `name` as a shell does: by path if it has a slash, else in PATH.
Program find_program(const std::string& name);

// What the kernel executes for the program at `path`: itself, or of a script the program that reads it.
std::string executed_file(const std::string& path);

// Why nothing can be preloaded into the program at `path`, as a sentence; empty if it can be, or nobody knows. Scripts
// are judged by their interpreter.
std::string obstacle(const std::string& path);

// The sanitizer that the program at `path` was built with; empty if there is none, or it is known by no dynamic symbol
// and no library (GCC's, linked statically). Scripts likewise.
std::string sanitizer_of(const std::string& path);

// Whether the program at `path` is a script.
bool is_script(const std::string& path);

}  // namespace freeway_command
