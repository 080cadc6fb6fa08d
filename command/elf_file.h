// SPDX-License-Identifier: MIT
// elf_file.h: what an executable file says of how it wants to be loaded.
#pragma once

#include <fstream>
#include <string>

namespace freeway_command {

struct ElfFile {
  std::string loader;           // empty: linked statically
  unsigned processor = 0;       // EM_… of elf.h; 0: not known
  bool exports_malloc = false;  // other files' calls of malloc may come to this one's
  bool has_malloc = false;      // its own calls may go to one of its own, which may be for itself alone
  std::string dynamic_strings;  // names of its dynamic symbols and of the libraries that it needs, a NUL after each
};

// Reads `file`, which begins with ELF's magic number. Of another word size or byte order: only says so, as `loader`.
ElfFile read_elf(std::ifstream& file);
ElfFile read_elf(const std::string& path);

}  // namespace freeway_command
