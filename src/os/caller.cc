// SPDX-License-Identifier: MIT
#include "os/caller.h"

#include <elf.h>
#include <sys/auxv.h>

#include "os/process.h"
#include "os/syscall.h"
#include "os/text_file.h"

namespace freeway {

namespace {

// A line of /proc/self/maps: "7f…-7f… r-xp 00001000 fe:01 1234   /usr/lib/libfoo.so".
struct Mapping {
  u64 begin = 0, end = 0, offset = 0;
  const char* file = "";  // empty: in none
};

u64 take_hex(const char*& at) {
  u64 value = 0;
  for (;; ++at) {
    if (*at >= '0' && *at <= '9') value = value * 16 + static_cast<u64>(*at - '0');
    else if (*at >= 'a' && *at <= 'f') value = value * 16 + static_cast<u64>(*at - 'a' + 10);
    else return value;
  }
}

// Behind the word that `at` is in, or before.
const char* past_word(const char* at) {
  while (*at == ' ') ++at;
  while (*at != 0 && *at != ' ') ++at;
  return at;
}

Mapping parse(const char* line) {
  Mapping mapping;
  mapping.begin = take_hex(line);
  if (*line == '-') mapping.end = take_hex(++line);
  line = past_word(line);
  while (*line == ' ') ++line;
  mapping.offset = take_hex(line);
  line = past_word(past_word(line));  // device, inode
  while (*line == ' ') ++line;
  if (*line == '/') mapping.file = line;
  return mapping;
}

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
    const Mapping mapping = parse(text);
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
