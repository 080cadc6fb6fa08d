// SPDX-License-Identifier: MIT
// profile.cc: `freeway profile`: a program of its own, for the libraries that it needs. What it reads are dumps; of a
// process or a core file the dump is made here.
#include "profile.h"

#include <elf.h>
#include <fcntl.h>
#include <spawn.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <string>
#include <vector>

#include "attend.h"
#include "heap/dump_text.h"
#include "look.h"
#include "process.h"
#include "report.h"
#include "subcommands.h"

extern char** environ;

namespace freeway_command {

namespace {

constexpr const char* kName = "freeway-profile";

bool is_process_name(const std::string& name) {
  return name.find('/') == std::string::npos && !processes_named(name).empty();
}

// Whether there is a process or a core file of that name, and no dump. A program's file is none, and may well lie where
// its process was started.
bool is_target(const std::string& name) {
  namespace fs = std::filesystem;
  std::error_code error;
  if (name.empty()) return false;
  if (!fs::exists(name, error))
    return name.find_first_not_of("0123456789") == std::string::npos || is_process_name(name);
  Elf64_Ehdr head{};
  const int file = fs::is_regular_file(name, error) ? open(name.c_str(), O_RDONLY | O_CLOEXEC) : -1;
  const bool is_elf =
      file >= 0 && read(file, &head, sizeof(head)) == sizeof(head) && std::memcmp(head.e_ident, ELFMAG, SELFMAG) == 0;
  if (file >= 0) close(file);
  return is_elf && (head.e_type == ET_CORE || is_process_name(name));
}

// Its profile by now, as a file that a program which is executed can open. Throws Failure.
std::string dumped(const std::string& target) {
  const auto memory = memory_of(target);
  warn_of(*memory);
  const int file = file_of(profile_of(Heap(*memory)));
  if (file < 0) throw Failure(kCannot, "there is no memory for the profile");
  return "/proc/self/fd/" + std::to_string(file);
}

// The program that reads heap profiles; empty: there is none here.
std::string profile_program() {
  namespace fs = std::filesystem;
  std::error_code error;
  const fs::path folder = fs::read_symlink("/proc/self/exe", error).parent_path();
  // Beside this command in a build directory; where installing put it, as seen from this command; where installing put
  // it.
  for (const fs::path& place :
       {folder / kName, folder.parent_path() / "libexec/freeway" / kName, fs::path(FREEWAY_INSTALLED_LIBEXEC) / kName})
    if (fs::is_regular_file(place, error)) return place.native();
  return {};
}

// Environment for a program of this command's own: not under Freeway.
std::vector<char*> own_environment() {
  std::vector<char*> entries;
  for (char** each = environ; *each != nullptr; ++each)
    if (std::strncmp(*each, "LD_PRELOAD=", 11) != 0 && std::strncmp(*each, "FREEWAY_", 8) != 0)
      entries.push_back(*each);
  entries.push_back(nullptr);
  return entries;
}

}  // namespace

int file_of(const std::string& text) {
  // The C library's function of that name came with glibc 2.27; the command runs with 2.17.
  const int file = static_cast<int>(syscall(SYS_memfd_create, "profile", 0));
  if (file < 0) return -1;
  if (write(file, text.data(), text.size()) == static_cast<ssize_t>(text.size()) && lseek(file, 0, SEEK_SET) == 0)
    return file;
  close(file);
  return -1;
}

pid_t start_profile_program(std::vector<std::string> words, int in, int out, bool is_quiet) {
  const std::string program = profile_program();
  std::string name = kName;
  std::vector<char*> arguments{name.data()};
  for (std::string& each : words) arguments.push_back(each.data());
  arguments.push_back(nullptr);
  posix_spawn_file_actions_t files;
  posix_spawn_file_actions_init(&files);
  posix_spawn_file_actions_adddup2(&files, in, STDIN_FILENO);
  posix_spawn_file_actions_adddup2(&files, out, STDOUT_FILENO);
  if (is_quiet) posix_spawn_file_actions_addopen(&files, STDERR_FILENO, "/dev/null", O_WRONLY, 0);
  pid_t child = -1;
  const bool is_started = !program.empty() && posix_spawn(&child, program.c_str(), &files, nullptr, arguments.data(),
                                                          own_environment().data()) == 0;
  posix_spawn_file_actions_destroy(&files);
  return is_started ? child : -1;
}

int profile(char** argv) {
  const std::string program = profile_program();
  if (program.empty())
    return fail(kCannot,
                "there is no freeway-profile here: it is left out where protobuf, elfutils or zlib is missing when "
                "Freeway is built");
  std::vector<std::string> words;
  words.emplace_back(kName);
  bool is_value = false;  // of the option before it
  for (; *argv != nullptr; ++argv) {
    std::string word = *argv;
    const bool is_dump = !is_value && words.size() > 1;
    is_value = false;
    for (const char* option : {"-n", "-o", "--sample", "--format"}) is_value |= word == option;
    if (is_dump && is_target(word)) word = dumped(word);
    words.push_back(word);
  }
  std::vector<char*> arguments;
  for (std::string& word : words) arguments.push_back(word.data());
  arguments.push_back(nullptr);
  return become(program, arguments.data());
}

}  // namespace freeway_command
