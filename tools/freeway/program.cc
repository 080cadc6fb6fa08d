// SPDX-License-Identifier: MIT
#include "program.h"

#include <elf.h>
#include <link.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <vector>

#include "report.h"

namespace freeway_command {
namespace {

namespace fs = std::filesystem;

// What a file asks the kernel for in order to be run.
struct Header {
  enum Kind { kUnknown, kScript, kElf } kind = kUnknown;
  std::string interpreter;  // of a script: the program that reads it; of ELF: the loader, empty if it has none (static)
};

Header read_elf(std::ifstream& file, const ElfW(Ehdr)& elf) {
  // The sizes of another class or byte order are not ours: such a file has no loader that would do.
  const bool ours = elf.e_ident[EI_CLASS] == (sizeof(void*) == 8 ? ELFCLASS64 : ELFCLASS32) &&
                    elf.e_phentsize == sizeof(ElfW(Phdr));
  if (!ours) return {Header::kElf, "of another word size"};
  std::vector<ElfW(Phdr)> parts(elf.e_phnum);
  file.seekg(static_cast<std::streamoff>(elf.e_phoff));
  if (!file.read(reinterpret_cast<char*>(parts.data()), static_cast<std::streamsize>(parts.size() * sizeof(parts[0]))))
    return {};
  for (const auto& part : parts) {
    if (part.p_type != PT_INTERP) continue;
    std::string name(part.p_filesz, 0);
    file.seekg(static_cast<std::streamoff>(part.p_offset));
    file.read(name.data(), static_cast<std::streamsize>(name.size()));
    return {Header::kElf, name.c_str()};
  }
  return {Header::kElf, {}};
}

Header read_header(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  ElfW(Ehdr) elf{};
  file.read(reinterpret_cast<char*>(&elf), sizeof(elf));
  if (file.gcount() == sizeof(elf) && memcmp(elf.e_ident, ELFMAG, SELFMAG) == 0) return read_elf(file, elf);
  if (file.gcount() < 2 || memcmp(elf.e_ident, "#!", 2) != 0) return {};
  file.clear();
  file.seekg(2);
  std::string line, interpreter;
  std::getline(file, line);
  std::istringstream(line) >> interpreter;
  return {Header::kScript, interpreter};
}

// Whether executing the file gives the process rights that its caller lacks: the loader then ignores LD_PRELOAD.
bool gains_rights(const std::string& path) {
  struct stat file {};
  if (stat(path.c_str(), &file) != 0) return false;
  if ((file.st_mode & S_ISUID) != 0 && file.st_uid != getuid()) return true;
  if ((file.st_mode & S_ISGID) != 0 && file.st_gid != getgid()) return true;
  return getuid() != 0 && getxattr(path.c_str(), "security.capability", nullptr, 0) > 0;
}

bool is_executable(const std::string& path) {
  std::error_code error;
  return fs::is_regular_file(path, error) && access(path.c_str(), X_OK) == 0;
}

std::string file_name(const std::string& path) { return fs::path(path).filename().native(); }

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

std::string obstacle(const std::string& path) {
  constexpr int kInterpreters = 5;  // the kernel follows no more scripts of scripts
  std::string program = path;
  Header header = read_header(program);
  for (int i = 0; header.kind == Header::kScript && i < kInterpreters; ++i) {
    program = header.interpreter;
    header = read_header(program);
  }
  if (header.kind != Header::kElf) return {};  // not readable, or the kernel knows more than we do
  if (header.interpreter.empty())
    return program + " is statically linked: no library can be preloaded into it (link it with libfreeway.a instead)";
  const std::string loader = file_name(header.interpreter), ours = file_name(read_header("/proc/self/exe").interpreter);
  if (loader != ours)
    return program + " is for another C library or processor than Freeway: its loader is " + loader + ", ours is " + ours;
  if (gains_rights(program))
    return program + " runs with more rights than you have (setuid, setgid or capabilities), so the loader ignores "
                     "LD_PRELOAD; start `freeway run` from inside it instead";
  return {};
}

}  // namespace freeway_command
