// SPDX-License-Identifier: MIT
#include "program.h"

#include <elf.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string_view>

#include "elf_file.h"
#include "report.h"

namespace freeway_command {
namespace {

namespace fs = std::filesystem;

std::string file_name(const std::string& path) { return fs::path(path).filename().native(); }

// What a file asks the kernel for in order to be run.
struct Header {
  enum Kind { kUnknown, kScript, kElf } kind = kUnknown;
  std::string interpreter;  // of a script: the program that reads it, also where env(1) has to find it
  ElfFile elf = {};         // of an executable file
};

Header read_header(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  char magic[SELFMAG] = {};
  file.read(magic, sizeof(magic));
  if (file.gcount() == sizeof(magic) && memcmp(magic, ELFMAG, SELFMAG) == 0) return {Header::kElf, {}, read_elf(file)};
  if (file.gcount() < 2 || memcmp(magic, "#!", 2) != 0) return {};
  file.clear();
  file.seekg(2);
  std::string line, interpreter;
  std::getline(file, line);
  std::istringstream words(line);
  words >> interpreter;
  if (file_name(interpreter) == "env")
    for (std::string word; words >> word;)
      if (word[0] != '-' && word.find('=') == std::string::npos) return {Header::kScript, find_program(word).path};
  return {Header::kScript, interpreter};
}

// Whether executing the file gives the process rights that its caller lacks: the loader then ignores LD_PRELOAD.
bool gains_rights(const std::string& path) {
  struct stat file{};
  if (stat(path.c_str(), &file) != 0) return false;
  if ((file.st_mode & S_ISUID) != 0 && file.st_uid != getuid()) return true;
  if ((file.st_mode & S_ISGID) != 0 && file.st_gid != getgid()) return true;
  return getuid() != 0 && getxattr(path.c_str(), "security.capability", nullptr, 0) > 0;
}

bool is_executable(const std::string& path) {
  std::error_code error;
  return fs::is_regular_file(path, error) && access(path.c_str(), X_OK) == 0;
}

// What the kernel executes for the program at `path`, which may be a script.
struct Executed {
  std::string path;
  Header header;
};

Executed executed(const std::string& path) {
  constexpr int kInterpreters = 5;  // the kernel follows no more scripts of scripts
  Executed found{path, read_header(path)};
  for (int i = 0; found.header.kind == Header::kScript && i < kInterpreters; ++i) {
    found.path = found.header.interpreter;
    found.header = read_header(found.path);
  }
  return found;
}

// The library is the same file for glibc and for musl.
bool is_known(const std::string& loader) { return loader.starts_with("ld-linux-") || loader.starts_with("ld-musl-"); }

}  // namespace

Program find_program(const std::string& name) {
  std::error_code error;
  if (name.find('/') != std::string::npos) {
    if (is_executable(name)) return {name};
    return {name, fs::exists(name, error) ? kNotExecutable : kNotFound};
  }
  Program found{name, kNotFound};
  const char* path = std::getenv("PATH");
  std::istringstream folders(path != nullptr ? path : "/usr/local/bin:/usr/bin:/bin");
  for (std::string folder; std::getline(folders, folder, ':');) {
    const std::string candidate = (folder.empty() ? "." : folder) + "/" + name;
    if (is_executable(candidate)) return {candidate};
    if (fs::is_regular_file(candidate, error) && found.status == kNotFound) found = {candidate, kNotExecutable};
  }
  return found;
}

bool is_script(const std::string& path) { return read_header(path).kind != Header::kElf; }

std::string executed_file(const std::string& path) { return executed(path).path; }

std::string obstacle(const std::string& path) {
  const auto [program, header] = executed(path);
  if (header.kind != Header::kElf) return {};  // not readable, or the kernel knows more than we do
  if (header.elf.loader.empty())
    return program + " is statically linked: no library can be preloaded into it (link it with libfreeway.a instead)";
  const ElfFile self = read_header("/proc/self/exe").elf;
  const std::string loader = file_name(header.elf.loader), ours = file_name(self.loader);
  if (loader != ours && (header.elf.processor != self.processor || !is_known(loader)))
    return program + " is for another C library or processor than Freeway: its loader is " + loader + ", ours is " +
           ours;
  if (gains_rights(program))
    return program + " runs with more rights than you have (setuid, setgid or capabilities), so the loader ignores "
                     "LD_PRELOAD; start `freeway run` from inside it instead";
  return {};
}

std::string sanitizer_of(const std::string& path) {
  struct Sanitizer {
    const char* name;
    std::string_view start;    // what programs built with it call first
    std::string_view library;  // where it is a library of its own
  };
  static constexpr Sanitizer kSanitizers[] = {{"ThreadSanitizer", "__tsan_init", "libtsan.so"},
                                              {"AddressSanitizer", "__asan_init", "libasan.so"},
                                              {"LeakSanitizer", "__lsan_init", "liblsan.so"},
                                              {"MemorySanitizer", "__msan_init", "libmsan.so"}};
  const std::string names = executed(path).header.elf.dynamic_strings;
  for (std::size_t at = 0; at < names.size(); at = names.find('\0', at) + 1) {
    const std::string_view name = names.c_str() + at;
    for (const Sanitizer& sanitizer : kSanitizers)
      if (name == sanitizer.start || name.starts_with(sanitizer.library)) return sanitizer.name;
    if (names.find('\0', at) == std::string::npos) break;
  }
  return {};
}

}  // namespace freeway_command
