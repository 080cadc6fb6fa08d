// SPDX-License-Identifier: MIT
#include "elf_file.h"

#include <elf.h>
#include <link.h>

#include <cstring>
#include <vector>

namespace freeway_command {
namespace {

constexpr std::size_t kMost = 1 << 26;  // bytes of a piece; a longer one is a damaged file

// `count` of what lies at `offset`; none if the file ends before.
template <class T> std::vector<T> pieces(std::ifstream& file, std::size_t offset, std::size_t count) {
  if (count > kMost / sizeof(T)) return {};
  std::vector<T> all(count);
  file.clear();
  file.seekg(static_cast<std::streamoff>(offset));
  if (!file.read(reinterpret_cast<char*>(all.data()), static_cast<std::streamsize>(count * sizeof(T)))) return {};
  return all;
}

std::string text(std::ifstream& file, std::size_t offset, std::size_t bytes) {
  const std::vector<char> all = pieces<char>(file, offset, bytes);
  return {all.begin(), all.end()};
}

std::string dynamic_strings(std::ifstream& file, const std::vector<ElfW(Phdr)>& parts, const ElfW(Phdr) & dynamic) {
  std::size_t address = 0, bytes = 0;
  for (const auto& entry : pieces<ElfW(Dyn)>(file, dynamic.p_offset, dynamic.p_filesz / sizeof(ElfW(Dyn)))) {
    if (entry.d_tag == DT_STRTAB) address = entry.d_un.d_ptr;
    if (entry.d_tag == DT_STRSZ) bytes = entry.d_un.d_val;
  }
  for (const auto& part : parts)
    if (part.p_type == PT_LOAD && address >= part.p_vaddr && address - part.p_vaddr < part.p_filesz)
      return text(file, part.p_offset + (address - part.p_vaddr), bytes);
  return {};
}

// Whether a symbol table of this kind has a function `malloc` in it that lies in the file.
bool defines_malloc(const std::string& path, unsigned kind) {
  std::ifstream file(path, std::ios::binary);
  const auto headers = pieces<ElfW(Ehdr)>(file, 0, 1);
  if (headers.empty() || headers[0].e_shentsize != sizeof(ElfW(Shdr))) return false;
  const auto sections = pieces<ElfW(Shdr)>(file, headers[0].e_shoff, headers[0].e_shnum);
  for (const auto& section : sections) {
    if (section.sh_type != kind || section.sh_link >= sections.size()) continue;
    const auto& strings = sections[section.sh_link];
    const std::string names = text(file, strings.sh_offset, strings.sh_size);
    for (const auto& symbol : pieces<ElfW(Sym)>(file, section.sh_offset, section.sh_size / sizeof(ElfW(Sym))))
      if (symbol.st_shndx != SHN_UNDEF && symbol.st_name < names.size() &&
          std::strcmp(names.c_str() + symbol.st_name, "malloc") == 0)
        return true;
  }
  return false;
}

}  // namespace

ElfFile read_elf(std::ifstream& file) {
  const auto headers = pieces<ElfW(Ehdr)>(file, 0, 1);
  if (headers.empty() || std::memcmp(headers[0].e_ident, ELFMAG, SELFMAG) != 0) return {};
  const ElfW(Ehdr)& elf = headers[0];
  // The sizes of another class or byte order are not ours: such a file has no loader that would do.
  const bool ours =
      elf.e_ident[EI_CLASS] == (sizeof(void*) == 8 ? ELFCLASS64 : ELFCLASS32) && elf.e_phentsize == sizeof(ElfW(Phdr));
  ElfFile found;
  if (!ours) {
    found.loader = "of another word size";
    return found;
  }
  found.processor = elf.e_machine;
  const auto parts = pieces<ElfW(Phdr)>(file, elf.e_phoff, elf.e_phnum);
  for (const auto& part : parts) {
    if (part.p_type == PT_INTERP) found.loader = text(file, part.p_offset, part.p_filesz).c_str();
    if (part.p_type == PT_DYNAMIC) found.dynamic_strings = dynamic_strings(file, parts, part);
  }
  return found;
}

ElfFile read_elf(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return read_elf(file);
}

bool exports_malloc(const std::string& path) { return defines_malloc(path, SHT_DYNSYM); }
bool has_malloc(const std::string& path) { return exports_malloc(path) || defines_malloc(path, SHT_SYMTAB); }

}  // namespace freeway_command
