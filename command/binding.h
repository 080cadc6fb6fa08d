// SPDX-License-Identifier: MIT
// binding.h: to whose malloc a program's calls will go, judged from its files: nothing of the program is executed.
#pragma once

#include <string>
#include <vector>

#include "library.h"

namespace freeway_command {

// A file that a process of the program would have, and serves calls of malloc.
struct MallocFile {
  std::string path;
  std::string allocator;  // "jemalloc"; empty: not known by any text in it
};

struct Binding {
  std::string obstacle;  // why nothing can be preloaded (program.h); empty: it can be
  MallocFile alone;      // whose malloc it has by itself, and with the library preloaded; no path: nobody knows
  MallocFile preloaded;
  bool takes = false;               // that is the library's
  std::vector<MallocFile> further;  // other files with an allocator in them, which serves who calls it by another name
};

// Of the program at `path`, which may be a script.
Binding binding_of(const std::string& path, const Library& library);

// The allocator whose texts are in the file at `path`; empty: none that is known.
std::string allocator_in(const std::string& path);

// Why calls of malloc will not come to the library, as a sentence with advice; empty: they will.
std::string why_not_taken(const std::string& path, const Binding& binding);

}  // namespace freeway_command
