// SPDX-License-Identifier: MIT
//
// LibraryText: the machine instructions of the library that provides malloc in this process, and its restartable
// sections: where each instruction starts, in which function, and what the descriptors in the ELF section __rseq_cs
// say. Instruction boundaries come from objdump, which decodes them as the processor does; the rest is read from the
// ELF file. Load it before anything is patched or interrupted.
#ifndef FREEWAY_TESTS_SIGNAL_SUPPORT_LIBRARY_TEXT_H
#define FREEWAY_TESTS_SIGNAL_SUPPORT_LIBRARY_TEXT_H

#include <dlfcn.h>
#include <elf.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "tests/whole/signal/support/failure.h"

namespace freeway_test {

struct Instruction {
  uintptr_t address;  // in this process
  uint32_t function;  // index into LibraryText::functions
  bool is_padding;    // does nothing: between loops and functions
};

// struct rseq_cs of <linux/rseq.h>, with the name of the symbol that stands on it.
struct RestartableSection {
  std::string name;
  uintptr_t start, post_commit, abort;
  bool contains(uintptr_t ip) const { return ip >= start && ip < post_commit; }
};

class LibraryText {
 public:
  std::vector<Instruction> instructions;  // in ascending order
  std::vector<std::string> functions;
  std::vector<RestartableSection> sections;
  uintptr_t begin = 0, end = 0;  // the text, in this process

  void load() {
    Dl_info info;
    void* malloc_address = ::dlsym(RTLD_DEFAULT, "malloc");
    require(malloc_address != nullptr && ::dladdr(malloc_address, &info) != 0, "where malloc is");
    path_ = info.dli_fname;
    base_ = reinterpret_cast<uintptr_t>(info.dli_fbase);
    read_elf();
    read_instructions();
    require(!instructions.empty(), "objdump (Debian package binutils) gave no instructions");
  }

  bool is_abort_address(uintptr_t ip) const {
    for (const RestartableSection& section : sections)
      if (section.abort == ip) return true;
    return false;
  }
  const std::string& function_of(const Instruction& instruction) const { return functions[instruction.function]; }
  // Where a variable of the library is in this process; 0 if it has none of that name, or no symbol table.
  uintptr_t variable(const char* name) const {
    for (const auto& [known, address] : variables_)
      if (known == name) return address;
    return 0;
  }

 private:
  void read_elf() {
    const int fd = ::open(path_.c_str(), O_RDONLY | O_CLOEXEC);
    struct stat status;
    require(fd >= 0 && ::fstat(fd, &status) == 0, "cannot open the library");
    const size_t bytes = static_cast<size_t>(status.st_size);
    void* memory = ::mmap(nullptr, bytes, PROT_READ, MAP_PRIVATE, fd, 0);
    ::close(fd);
    require(memory != MAP_FAILED, "cannot map the library's file");
    const char* file = static_cast<const char*>(memory);
    const auto* header = reinterpret_cast<const Elf64_Ehdr*>(file);
    const auto* table = reinterpret_cast<const Elf64_Shdr*>(file + header->e_shoff);
    const char* names = file + table[header->e_shstrndx].sh_offset;
    for (size_t i = 0; i < header->e_shnum; i++) {
      const char* name = names + table[i].sh_name;
      if (std::strcmp(name, ".text") == 0) {
        begin = base_ + table[i].sh_addr;
        end = begin + table[i].sh_size;
      } else if (std::strcmp(name, "__rseq_cs") == 0) {
        read_sections(base_ + table[i].sh_addr, table[i].sh_size / 32);
      }
    }
    for (size_t i = 0; i < header->e_shnum; i++)
      if (table[i].sh_type == SHT_SYMTAB)
        name_sections(reinterpret_cast<const Elf64_Sym*>(file + table[i].sh_offset),
                      table[i].sh_size / sizeof(Elf64_Sym), file + table[table[i].sh_link].sh_offset);
    ::munmap(memory, bytes);
  }

  // From memory, where the loader has put in the addresses.
  void read_sections(uintptr_t first, size_t count) {
    for (size_t i = 0; i < count; i++) {
      const auto* words = reinterpret_cast<const uint64_t*>(first + 32 * i);
      descriptors_.push_back(first + 32 * i);
      sections.push_back({"section " + std::to_string(i), words[1], words[1] + words[2], words[3]});
    }
  }

  void name_sections(const Elf64_Sym* symbols, size_t count, const char* names) {
    for (size_t i = 0; i < count; i++) {
      if (ELF64_ST_TYPE(symbols[i].st_info) != STT_OBJECT) continue;
      variables_.emplace_back(names + symbols[i].st_name, base_ + symbols[i].st_value);
      for (size_t s = 0; s < sections.size(); s++)
        if (variables_.back().second == descriptors_[s]) sections[s].name = variables_.back().first;
    }
  }

  // Lines of objdump: "0000000000001234 <name>:" and "    1234:\tinstruction". A line "(bad)" is data. A name that
  // begins with freeway_inside_ is a place in the function before it. Where there is no objdump,
  // FREEWAY_TEST_DISASSEMBLY names a file with what it says elsewhere.
  void read_instructions() {
    const char* file = std::getenv("FREEWAY_TEST_DISASSEMBLY");
    const std::string command = "objdump -d -w --no-show-raw-insn -j .text '" + path_ + "' 2>/dev/null";
    FILE* pipe = file != nullptr ? std::fopen(file, "re") : ::popen(command.c_str(), "re");
    require(pipe != nullptr, "objdump");
    char line[1024];
    while (std::fgets(line, sizeof line, pipe) != nullptr) {
      char* after = nullptr;
      const uint64_t address = std::strtoull(line, &after, 16);
      if (after == line) continue;
      if (char* name = std::strstr(after, " <"); name == after) {
        if (std::strncmp(name + 2, "freeway_inside_", 15) == 0) continue;
        functions.emplace_back(name + 2, std::strcspn(name + 2, ">"));
      } else if (*after == ':' && after[1] == '\t' && std::strstr(after, "(bad)") == nullptr && !functions.empty()) {
        const bool padding = std::strstr(after, "nop") != nullptr || std::strstr(after, "xchg   %ax,%ax") != nullptr;
        instructions.push_back({base_ + address, static_cast<uint32_t>(functions.size() - 1), padding});
      }
    }
    file != nullptr ? std::fclose(pipe) : ::pclose(pipe);
  }

  std::string path_;
  uintptr_t base_ = 0;
  std::vector<uintptr_t> descriptors_;
  std::vector<std::pair<std::string, uintptr_t>> variables_;
};

}  // namespace freeway_test
#endif
