// SPDX-License-Identifier: MIT
#include "modules.h"

#include <fcntl.h>
#include <gelf.h>
#include <libelf.h>
#include <sys/stat.h>
#include <unistd.h>

#include <optional>

namespace freeway_profile {
namespace {

constexpr std::size_t kMostModules = 4096;

char* debug_folders = nullptr;  // null: the library's own list
const Dwfl_Callbacks kCallbacks = {dwfl_build_id_find_elf, dwfl_standard_find_debuginfo, nullptr, &debug_folders};

// A dump may name anything: what is no plain file is not opened for good, nor waited for.
int open_plain_file(const std::string& path) {
  const int file = open(path.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC);
  struct stat facts;
  if (file >= 0 && (fstat(file, &facts) != 0 || !S_ISREG(facts.st_mode))) {
    close(file);
    return -1;
  }
  return file;
}

// What is to be added to the addresses in this file to get those in the process; none if it is no ELF file with a
// segment at the mapping's offset.
std::optional<std::uint64_t> bias_of(int file, const Mapping& mapping) {
  std::optional<std::uint64_t> bias;
  Elf* elf = elf_begin(file, ELF_C_READ, nullptr);
  std::size_t count = 0;
  if (elf != nullptr && elf_kind(elf) == ELF_K_ELF && elf_getphdrnum(elf, &count) == 0) {
    for (std::size_t i = 0; i < count && !bias; ++i) {
      GElf_Phdr segment;
      if (gelf_getphdr(elf, static_cast<int>(i), &segment) == nullptr || segment.p_type != PT_LOAD) continue;
      const std::uint64_t align = segment.p_align > 1 ? segment.p_align : 1;
      const std::uint64_t first = segment.p_offset - segment.p_offset % align;
      if ((segment.p_flags & PF_X) == 0 || mapping.offset < first ||
          mapping.offset >= segment.p_offset + segment.p_filesz)
        continue;
      bias = mapping.start - (segment.p_vaddr + mapping.offset - segment.p_offset);
    }
  }
  elf_end(elf);
  return bias;
}

}  // namespace

Modules::Modules(const Dump& dump) {
  elf_version(EV_CURRENT);
  dwfl_ = dwfl_begin(&kCallbacks);
  if (dwfl_ == nullptr) throw DumpError(std::string("cannot be looked at: ") + dwfl_errmsg(-1));
  dwfl_report_begin(dwfl_);
  for (const Mapping& mapping : dump.mappings)
    if (mapping.is_executable && !mapping.is_deleted && mapping.file.starts_with('/')) report(mapping);
  dwfl_report_end(dwfl_, nullptr, nullptr);
}

Modules::~Modules() { dwfl_end(dwfl_); }

void Modules::report(const Mapping& mapping) {
  if (reported_.size() == kMostModules) return;
  const int file = open_plain_file(mapping.file);
  if (file < 0) return;
  const std::optional<std::uint64_t> bias = bias_of(file, mapping);
  const char* const name = mapping.file.c_str();
  // The file is the module's from here on, if there comes to be one.
  if (!bias || !reported_.emplace(std::pair(mapping.file, *bias), true).second ||
      dwfl_report_elf(dwfl_, name, name, file, *bias, true) == nullptr)
    close(file);
}

Dwfl_Module* Modules::at(std::uint64_t address) const { return dwfl_addrmodule(dwfl_, address); }

std::string Modules::build_id(std::uint64_t address) const {
  Dwfl_Module* module = at(address);
  const unsigned char* bits = nullptr;
  GElf_Addr place;
  const int size = module == nullptr ? 0 : dwfl_module_build_id(module, &bits, &place);
  std::string id;
  for (int i = 0; i < size; ++i) {
    constexpr char kDigits[] = "0123456789abcdef";
    id += kDigits[bits[i] >> 4];
    id += kDigits[bits[i] & 15];
  }
  return id;
}

std::uint64_t Modules::address_in_file(const Mapping& mapping, std::uint64_t address) const {
  GElf_Addr bias = 0;
  Dwfl_Module* module = at(address);
  if (module == nullptr || dwfl_module_getelf(module, &bias) == nullptr)
    return address - mapping.start + mapping.offset;
  return address - bias;
}

}  // namespace freeway_profile
