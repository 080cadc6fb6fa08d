// SPDX-License-Identifier: MIT
// modules.h: the programs and libraries that a dump's process had mapped, as far as their files are still there.
#pragma once

#include <elfutils/libdwfl.h>

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "dump.h"

namespace freeway_profile {

// A file of the dump is found under its own name. A file that is missing, deleted, or no ELF file is no error: its
// addresses stay numbers.
class Modules {
 public:
  explicit Modules(const Dump& dump);
  ~Modules();
  Modules(const Modules&) = delete;
  Modules& operator=(const Modules&) = delete;

  Dwfl* dwfl() const { return dwfl_; }
  // Null if there is none at the address.
  Dwfl_Module* at(std::uint64_t address) const;
  // The build id of the file that is mapped at the address, in hexadecimal; empty if it has none.
  std::string build_id(std::uint64_t address) const;
  // An address in the process as one in the file, as tools on files count them; the offset in the file if that is no
  // ELF file.
  std::uint64_t address_in_file(const Mapping& mapping, std::uint64_t address) const;

 private:
  void report(const Mapping& mapping);
  Dwfl* dwfl_ = nullptr;
  std::map<std::pair<std::string, std::uint64_t>, bool> reported_;  // file and bias
};

}  // namespace freeway_profile
