// SPDX-License-Identifier: MIT
// elf_file.h: what an executable file says of how it wants to be loaded.
#pragma once

#include <fstream>
#include <string>

namespace freeway_command {

struct ElfFile {
  std::string loader;           // empty: linked statically
  unsigned processor = 0;       // EM_… of elf.h; 0: not known
  std::string dynamic_strings;  // names of its dynamic symbols and of the libraries that it needs, a NUL after each
};

// Reads `file`; nothing of one that does not begin with ELF's magic number. Of another word size or byte order: only
// says so, as `loader`.
ElfFile read_elf(std::ifstream& file);
ElfFile read_elf(const std::string& path);

// Whether other files' calls of malloc may come to one in the file at `path`.
bool exports_malloc(const std::string& path);
// The same, or its own calls may go to one that is for itself alone.
bool has_malloc(const std::string& path);

}  // namespace freeway_command
