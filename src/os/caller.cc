// SPDX-License-Identifier: MIT
#include "os/caller.h"

#include <elf.h>
#include <sys/auxv.h>

#include "os/mapping.h"
#include "os/process.h"
#include "os/syscall.h"
#include "os/text_file.h"

namespace freeway {

namespace {

u64 hash_of(const char* text) {
  u64 hash = 0xcbf29ce484222325;  // FNV-1a
  for (; *text != 0; ++text) hash = (hash ^ static_cast<unsigned char>(*text)) * 0x100000001b3;
  return hash;
}

// Whether the program is where its file says. Then its first page is the one with the program headers.
bool is_program_in_place(uptr first_page) {
  const uptr headers = getauxval(AT_PHDR);
  if (headers - first_page >= 4 * kKiB) return false;
  const auto* header = reinterpret_cast<const Elf64_Phdr*>(headers);
  for (u64 i = 0; i < getauxval(AT_PHNUM); ++i)
    if (header[i].p_type == PT_LOAD && header[i].p_offset == 0) return header[i].p_vaddr == first_page;
  return false;
}

}  // namespace

// Not inlined: handlers' stacks are small.
FREEWAY_NOINLINE Line& put_code(Line& line, uptr address) {
  line.hex(address);
  TextLines maps("/proc/self/maps");
  char text[200];
  u64 first = 0, first_file = 0;  // the last file's first page
  while (maps.next(text, sizeof(text))) {
    const Mapping mapping = parse_mapping(text);
    const u64 file = hash_of(mapping.file);
    if (mapping.offset == 0) first = mapping.begin, first_file = file;
    if (address < mapping.begin || address >= mapping.end) continue;
    if (*mapping.file == 0) break;
    const uptr base = file == first_file ? first : mapping.begin - mapping.offset;
    line.text(" (").quoted(mapping.file);
    if (!is_program_in_place(base)) line.text("+").hex(address - base);
    return line.text(")");
  }
  return line;
}

Line& put_thread(Line& line) {
  line.text(" in thread ").number(static_cast<u64>(raw_syscall(SYS_gettid)));
  return line.text(" of ").quoted(process::program_name(), 40).text(" (").number(process::id()).text(")");
}

}  // namespace freeway
