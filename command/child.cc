// SPDX-License-Identifier: MIT
#include "child.h"

#include <dlfcn.h>
#include <linux/memfd.h>
#include <spawn.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "freeway/freeway.h"
#include "report.h"
#include "subcommands.h"

extern char** environ;

namespace freeway_command {
namespace {

// A file without a name that collects what a child writes, however much that is.
class Collector {
 public:
  // The C library's function of that name came with glibc 2.27; the command runs with 2.17.
  Collector() : fd_(static_cast<int>(syscall(SYS_memfd_create, "freeway", MFD_CLOEXEC))) {}
  ~Collector() { close(fd_); }
  Collector(const Collector&) = delete;
  Collector& operator=(const Collector&) = delete;

  int fd() const { return fd_; }
  std::string text() const {
    std::string all;
    char part[4096];
    lseek(fd_, 0, SEEK_SET);
    for (ssize_t n; (n = read(fd_, part, sizeof(part))) > 0;) all.append(part, static_cast<std::size_t>(n));
    return all;
  }

 private:
  int fd_;
};

std::string name_of(const std::string& variable) { return variable.substr(0, variable.find('=')); }

// This process's environment, changed by `variables`.
std::vector<std::string> environment_with(const std::vector<std::string>& variables) {
  std::vector<std::string> all;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    bool replaced = false;
    for (const std::string& variable : variables) replaced |= name_of(variable) == name_of(*entry);
    if (!replaced) all.emplace_back(*entry);
  }
  for (const std::string& variable : variables)
    if (variable.find('=') != std::string::npos) all.push_back(variable);
  return all;
}

std::vector<char*> pointers_to(std::vector<std::string>& strings) {
  std::vector<char*> pointers;
  for (std::string& s : strings) pointers.push_back(s.data());
  pointers.push_back(nullptr);
  return pointers;
}

// A function of the preloaded library, null if it is not there.
template <class Function> Function* preloaded(const char* name) {
  return reinterpret_cast<Function*>(dlsym(RTLD_DEFAULT, name));
}

// The object that `function` lies in.
const void* object_of(const void* function) {
  Dl_info info{};
  return dladdr(function, &info) != 0 ? info.dli_fbase : nullptr;
}

// Allocates, fills, checks and frees blocks from bytes to megabytes.
bool allocation_works() {
  for (std::size_t size = 1; size <= std::size_t{4} << 20; size *= 2) {
    auto* block = static_cast<unsigned char*>(std::malloc(size));
    if (block == nullptr) return false;
    std::memset(block, 0x5a, size);
    const bool kept = block[0] == 0x5a && block[size - 1] == 0x5a;
    std::free(block);
    if (!kept) return false;
  }
  return true;
}

// Whether a child of vfork runs on its parent's memory. It is a fork where its thread could not leave rseq for it.
bool vfork_shares_memory() {
  static volatile bool seen = false;
  // NOLINTNEXTLINE(bugprone-unsafe-functions): it is what is asked about
  const pid_t child = vfork();
  if (child == 0) {
    seen = true;
    _exit(0);
  }
  if (child > 0) waitpid(child, nullptr, 0);
  return seen;
}

}  // namespace

std::string Said::complaint() const {
  std::string text = errors;
  while (text.ends_with('\n')) text.pop_back();
  return text;
}

Said said_by(const std::string& path, std::vector<std::string> arguments, const std::vector<std::string>& variables) {
  std::vector<std::string> environment = environment_with(variables);
  Collector output, errors;
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, output.fd(), 1);
  posix_spawn_file_actions_adddup2(&actions, errors.fd(), 2);
  Said said;
  pid_t child = -1;
  int status = 0;
  const int refused = posix_spawn(&child, path.c_str(), &actions, nullptr, pointers_to(arguments).data(),
                                  pointers_to(environment).data());
  posix_spawn_file_actions_destroy(&actions);
  if (refused != 0 || waitpid(child, &status, 0) != child) return said;
  said.status = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  said.output = output.text();
  said.errors = errors.text();
  return said;
}

Said run_probe(const Library& library, const std::vector<std::string>& variables) {
  std::vector<std::string> all = variables;
  all.push_back("LD_PRELOAD=" + preload_with(library));
  return said_by("/proc/self/exe", {"freeway", "probe"}, all);
}

int probe(const Arguments&) {
  auto* version = preloaded<decltype(freeway_version)>("freeway_version");
  auto* audit = preloaded<decltype(freeway_audit)>("freeway_audit");
  if (version == nullptr || audit == nullptr) return fail(kCannot, "the loader did not load the library");
  if (object_of(dlsym(RTLD_DEFAULT, "malloc")) != object_of(reinterpret_cast<const void*>(version)))
    return fail(kCannot, "malloc is another library's: is one preloaded before Freeway?");
  if (!allocation_works()) return fail(kCannot, "malloc failed or lost what was written");
  freeway_audit_t account{};
  if (audit(&account, sizeof(account)) != 0) return fail(kCannot, "the heap does not add up");
  std::puts(version());
  std::puts(vfork_shares_memory() ? kVforkIsReal : kVforkIsFork);
  return kOk;
}

}  // namespace freeway_command
