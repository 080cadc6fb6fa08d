// SPDX-License-Identifier: MIT
//
// The loader takes the first malloc of the program, what is preloaded, and the libraries, in the order in which it
// loads them. That order it says itself (ld.so --list), without executing the program.
#include "binding.h"

#include <algorithm>
#include <filesystem>
#include <sstream>
#include <string_view>

#include "child.h"
#include "content.h"
#include "elf_file.h"
#include "freeway/debug.h"
#include "program.h"

namespace freeway_command {
namespace {

constexpr const char* kGo = "Go's runtime";

// A text that each build of an allocator has in it, released or not stripped or not.
struct Mark {
  const char* allocator;
  std::string_view text;
};
constexpr Mark kMarks[] = {{"Freeway", FREEWAY_DEBUG_MAGIC},
                           {"jemalloc", "<jemalloc>: "},
                           {"mimalloc", "mimalloc: "},
                           {"tcmalloc", "tcmalloc: "},
                           {"tcmalloc", "TCMALLOC_"},
                           {"snmalloc", "snmalloc"},
                           {"Scudo", "Scudo ERROR: "},
                           {"PartitionAlloc", "PartitionAlloc"},
                           {"rpmalloc", "rpmalloc"},
                           {"AddressSanitizer", "AddressSanitizer: "},
                           {kGo, "Go buildinf:"}};

bool is_c_library(const std::string& path) {
  const std::string name = std::filesystem::path(path).filename().native();
  return name == "libc.so.6" || name.starts_with("ld-linux-") || name.starts_with("ld-musl-") ||
         name.starts_with("libc.musl-");
}

// The files of a process of the program, in the order in which the loader looks for malloc in them. LD_PRELOAD as it is
// in `variables`.
std::vector<std::string> loaded_files(const std::string& program, const std::vector<std::string>& variables) {
  std::vector<std::string> files = {program};
  const std::string loader = read_elf(program).loader;
  if (loader.empty()) return files;
  std::istringstream lines(said_by(loader, {loader, "--list", program}, variables).output);
  // "  libc.so.6 => /lib/libc.so.6 (0x…)", or "  /lib/ld-linux.so.2 (0x…)".
  for (std::string line; std::getline(lines, line);) {
    const std::size_t arrow = line.find("=> "), end = line.rfind(" (");
    const std::size_t begin = arrow != std::string::npos ? arrow + 3 : line.find('/');
    if (begin == std::string::npos || end == std::string::npos || end <= begin || line[begin] != '/') continue;
    files.push_back(line.substr(begin, end - begin));
  }
  return files;
}

MallocFile first_malloc(const std::vector<std::string>& files) {
  for (const std::string& file : files)
    if (exports_malloc(file)) return {file, is_c_library(file) ? "the C library" : allocator_in(file)};
  return {};
}

bool same_file(const std::string& one, const std::string& other) {
  std::error_code error;
  return std::filesystem::equivalent(one, other, error);
}

}  // namespace

std::string allocator_in(const std::string& path) {
  const std::string content = content_of(path);
  for (const Mark& mark : kMarks)
    if (content.find(mark.text) != std::string::npos) return mark.allocator;
  return {};
}

Binding binding_of(const std::string& path, const Library& library) {
  Binding found;
  const std::string program = executed_file(path);
  found.obstacle = obstacle(path);
  if (read_elf(program).loader.empty()) {
    found.alone = {program, allocator_in(program)};
    return found;
  }
  const std::vector<std::string> files = loaded_files(program, {});
  found.alone = first_malloc(files);
  found.preloaded = first_malloc(loaded_files(program, {"LD_PRELOAD=" + preload_with(library)}));
  found.takes = found.obstacle.empty() && same_file(found.preloaded.path, library.path);
  for (const std::string& file : files) {
    if (is_c_library(file) || file == found.alone.path) continue;
    const std::string allocator = allocator_in(file);
    if (!allocator.empty() || has_malloc(file)) found.further.push_back({file, allocator});
  }
  return found;
}

std::string why_not_taken(const std::string& path, const Binding& binding) {
  if (binding.takes) return {};
  const std::string program = executed_file(path);
  if (binding.alone.allocator == kGo)
    return program + " is Go's, whose runtime allocates by itself: no malloc is called";
  if (!binding.obstacle.empty()) return binding.obstacle;
  const std::string whose = binding.preloaded.path, name = binding.preloaded.allocator;
  if (whose.empty()) return program + ": the loader cannot say whose malloc it would get";
  const std::string what = name.empty() ? "a malloc" : name;
  if (same_file(whose, program))
    return program + " has " + what + " built in, which goes before what is preloaded: build it without, or link it "
                     "with libfreeway.a in its place";
  return program + " gets its malloc from " + whose + (name.empty() ? "" : " (" + name + ")") +
         ", which is loaded before Freeway: take it out of LD_PRELOAD or /etc/ld.so.preload";
}

}  // namespace freeway_command
