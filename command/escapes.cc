// SPDX-License-Identifier: MIT
#include "escapes.h"

#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <filesystem>

#include "attend.h"
#include "binding.h"
#include "content.h"
#include "process.h"

namespace freeway_command {
namespace {

namespace fs = std::filesystem;

std::string folder_of(pid_t process) { return "/proc/" + std::to_string(process); }

bool has_preload(pid_t process, const Library& library) {
  const std::string environment = '\0' + content_of(folder_of(process) + "/environ");
  const std::size_t at = environment.find(std::string("\0LD_PRELOAD=", 12));
  return at != std::string::npos &&
         std::string(environment.c_str() + at + 1).find(library.path.native()) != std::string::npos;
}

}  // namespace

void Escapes::watch_while(pid_t child) {
  constexpr useconds_t kPause = 100000;
  while (!has_ended(child)) {
    for (const pid_t process : family_of(child)) look_at(process);
    usleep(kPause);
  }
}

void Escapes::look_at(pid_t process) {
  std::error_code error;
  std::string file = fs::read_symlink(folder_of(process) + "/exe", error).native();
  const bool hidden = error.value() == EACCES || error.value() == EPERM;
  if (error && !hidden) return;  // it has ended
  if (hidden) file = "a program named " + thread_status(process, process, "Name");
  Seen& seen = seen_[process];
  if (seen.file != file) seen = {file};
  // In the first look after an exec the loader may not have come to the library yet.
  if (++seen.looks != 2 || told_.contains(file)) return;
  const std::string why =
      hidden ? "it has rights that you have not, so the loader ignores LD_PRELOAD" : reason(process, file);
  if (why.empty()) return;
  told_.insert(file);
  std::fprintf(stderr, "freeway: process %d runs without Freeway: %s: %s\n", process, file.c_str(), why.c_str());
}

// Why a process that executes `file` has not the library; empty: it has, or has ended.
std::string Escapes::reason(pid_t process, const std::string& file) const {
  std::error_code error;
  const fs::path name =
      fs::canonical(library_.path, error).filename();  // mount namespaces may have it in another folder
  const std::string maps = content_of(folder_of(process) + "/maps");
  const Binding binding = binding_of(file, library_);
  const bool is_linked = binding.alone.path == file && binding.alone.allocator == "Freeway";
  if (maps.empty() || is_linked || (binding.takes && maps.find("/" + name.native()) != std::string::npos)) return {};
  if (const std::string why = why_not_taken(file, binding); !why.empty()) return why;
  return has_preload(process, library_) ? "" : "its environment has no LD_PRELOAD with Freeway in it";
}

}  // namespace freeway_command
