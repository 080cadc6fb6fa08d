// SPDX-License-Identifier: MIT
// live_memory.cc: the memory of a running or stopped process. It is neither stopped nor told of anything.
#include <fcntl.h>
#include <sys/ioctl.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>

#include "heap/memory.h"
#include "process.h"
#include "report.h"

namespace freeway_command {
namespace {

// "7f…-7f… r-xp 00000000 fe:01 1234   /path with blanks (deleted)"
bool parse_mapping(const std::string& line, Mapping& mapping) {
  char access[5] = {};
  int path_at = 0;
  if (std::sscanf(line.c_str(), "%lx-%lx %4s %lx %*x:%*x %*u %n", &mapping.begin, &mapping.end, access, &mapping.offset,
                  &path_at) != 4)
    return false;
  mapping.readable = access[0] == 'r';
  mapping.writable = access[1] == 'w';
  mapping.executable = access[2] == 'x';
  if (path_at > 0 && line[static_cast<std::size_t>(path_at)] == '/')
    mapping.file = line.substr(static_cast<std::size_t>(path_at));
  constexpr const char kDeleted[] = " (deleted)";
  if (mapping.file.ends_with(kDeleted)) mapping.file.resize(mapping.file.size() - (sizeof(kDeleted) - 1));
  return true;
}

class LiveMemory : public Memory {
 public:
  explicit LiveMemory(int pid) {
    pid_ = pid;
    is_live_ = true;
    page_size_ = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
    const std::string folder = "/proc/" + std::to_string(pid);
    std::error_code error;
    if (!std::filesystem::exists(folder, error))
      throw Failure(kCannot, "there is no process " + std::to_string(pid) +
                                 " (ps -e lists them; in a container they have " "other numbers)");
    program_ = first_line(folder + "/comm");
    executable_ = std::filesystem::read_symlink(folder + "/exe", error).string();
    errno = 0;
    std::ifstream maps(folder + "/maps");
    std::string line;
    for (Mapping mapping; std::getline(maps, line); mapping = {}) {
      maps_ += line + "\n";
      if (!parse_mapping(line, mapping)) continue;
      if (line.ends_with("[stack]")) main_stack_ = mapping.begin;
      mappings_.push_back(mapping);
    }
    pages_ = open((folder + "/pagemap").c_str(), O_RDONLY | O_CLOEXEC);
    if (!mappings_.empty()) return;
    const bool is_forbidden = errno == EACCES || errno == EPERM;  // also of one's own that has ended
    if (is_forbidden && !has_ended(pid, pid)) throw Failure(kCannot, forbidden(pid));
    throw Failure(kCannot,
                  "process " + std::to_string(pid) + " has no memory: it has ended, or is a thread of the kernel");
  }

  LiveMemory(const LiveMemory&) = delete;
  LiveMemory& operator=(const LiveMemory&) = delete;
  ~LiveMemory() override {
    if (pages_ >= 0) close(pages_);
  }

  bool read(std::uint64_t address, void* to, std::size_t bytes) const override {
    while (bytes > 0) {
      const iovec here{to, bytes};
      const iovec there{reinterpret_cast<void*>(address), bytes};
      const ssize_t got = process_vm_readv(pid_, &here, 1, &there, 1, 0);
      if (got <= 0) {
        error_ = got == 0 ? EFAULT : errno;
        return false;
      }
      to = static_cast<char*>(to) + got;
      address += static_cast<std::uint64_t>(got);
      bytes -= static_cast<std::size_t>(got);
    }
    return true;
  }

  std::string why_unreadable() const override {
    if (error_ == EPERM) return forbidden(pid_);
    const std::string name = "process " + std::to_string(pid_);
    if (error_ == ESRCH) return name + " ended meanwhile";
    if (error_ == ENOSYS)
      return "this kernel has no process_vm_readv, or a filter (seccomp) forbids it; try it outside the container";
    return name +
           " has no memory where Freeway's heap should be: its heap is damaged, or it has just called exec; try again";
  }

  std::string maps() const override { return maps_; }

  // The kernel says of each page whether it is in memory, or was put out; of the others nobody has written to any.
  void each_filled(std::uint64_t begin, std::uint64_t end,
                   const std::function<void(std::uint64_t, std::uint64_t)>& f) const override {
    std::uint64_t from = begin;  // of the part that f is yet to be told of; it ends at `at`
    each_page(begin, end, [&](std::uint64_t at, std::uint64_t next, std::uint64_t entry) {
      if ((entry & (kPresent | kSwapped)) != 0) return;
      if (from < at) f(from, at);
      from = next;
    });
    if (from < end) f(from, end);
  }

  std::optional<std::uint64_t> resident(std::uint64_t begin, std::uint64_t end) const override {
    std::uint64_t bytes = 0;
    const bool known = each_page(begin, end, [&](std::uint64_t at, std::uint64_t next, std::uint64_t entry) {
      if ((entry & kPresent) != 0) bytes += next - at;
    });
    return known ? std::optional(bytes - std::min(bytes, zero_bytes(begin, end))) : std::nullopt;
  }

 private:
  static constexpr std::uint64_t kPresent = std::uint64_t{1} << 63, kSwapped = std::uint64_t{1} << 62;

  // Bytes of pages that were read and never written to: all of them are one page of zeros, which is nobody's memory.
  // Kernels before 6.7 do not tell.
  std::uint64_t zero_bytes(std::uint64_t begin, std::uint64_t end) const {
    // <linux/fs.h>: pm_scan_arg, page_region, PAGEMAP_SCAN, PAGE_IS_PFNZERO.
    struct Region {
      std::uint64_t begin, end, kinds;
    };
    struct {
      std::uint64_t bytes, flags, begin, end, walked_to, regions, region_count, most_pages, inverted, all_of, any_of,
          told;
    } scan{};
    constexpr unsigned long kScan = _IOC(_IOC_READ | _IOC_WRITE, 'f', 16, sizeof(scan));
    constexpr std::uint64_t kIsZero = 1 << 5;
    std::vector<Region> found(512);
    scan.bytes = sizeof(scan);
    scan.end = (end + page_size_ - 1) / page_size_ * page_size_;
    scan.regions = reinterpret_cast<std::uint64_t>(found.data());
    scan.region_count = found.size();
    scan.all_of = scan.told = kIsZero;
    std::uint64_t bytes = 0;
    for (std::uint64_t at = begin / page_size_ * page_size_; at < scan.end; at = scan.walked_to) {
      scan.begin = at;
      const int count = ioctl(pages_, kScan, &scan);
      if (count < 0 || scan.walked_to <= at) break;
      for (int i = 0; i < count; ++i)
        bytes += found[static_cast<std::size_t>(i)].end - found[static_cast<std::size_t>(i)].begin;
    }
    return bytes;
  }

  // Calls f(at, next, entry) for each page of [begin, end), with its entry in /proc/PID/pagemap; false: the rest is not
  // known.
  template <class F> bool each_page(std::uint64_t begin, std::uint64_t end, F&& f) const {
    constexpr std::size_t kPages = 4096;
    std::vector<std::uint64_t> entries(std::min<std::uint64_t>((end - begin) / page_size_ + 2, kPages));
    for (std::uint64_t at = begin; at < end;) {
      const std::uint64_t page = at / page_size_,
                          pages = std::min<std::uint64_t>((end - 1) / page_size_ - page + 1, entries.size());
      const ssize_t got = pread(pages_, entries.data(), pages * 8, static_cast<off_t>(page * 8));
      if (got < 8) return false;
      for (std::uint64_t i = 0; i < static_cast<std::uint64_t>(got) / 8; ++i) {
        const std::uint64_t next = std::min(end, (page + i + 1) * page_size_);
        f(at, next, entries[i]);
        at = next;
      }
    }
    return true;
  }

  mutable int error_ = 0;
  int pages_ = -1;
  std::string maps_;
};

// 0: it is a path.
int process_named(const std::string& name) {
  std::error_code error;
  if (name.empty() || name.find('/') != std::string::npos) return 0;
  const std::vector<pid_t> all = processes_named(name);
  if (all.size() == 1) return all[0];
  if (all.empty() && std::filesystem::exists(name, error)) return 0;
  if (all.empty()) throw Failure(kCannot, "there is no process and no core file " + name + " (ps -e lists processes)");
  std::string numbers;
  for (const pid_t each : all) numbers += (numbers.empty() ? "" : ", ") + std::to_string(each);
  throw Failure(kCannot, std::to_string(all.size()) + " processes are named " + name + ": say which by its number (" +
                             numbers + ")");
}

}  // namespace

std::string forbidden(int pid) {
  constexpr unsigned kSysPtrace = 19;  // capabilities(7)
  const std::string name = "process " + std::to_string(pid);
  const std::uint64_t rights = std::strtoull(thread_status(getpid(), getpid(), "CapEff").c_str(), nullptr, 16);
  if (geteuid() == 0 && (rights >> kSysPtrace & 1) == 0)
    return name + " may not be looked at, even by root: this container lacks the capability SYS_PTRACE (docker run "
                  "--cap-add SYS_PTRACE), or try it outside the container";
  if (geteuid() == 0)
    return name + " may not be looked at, even by root: it belongs to an outer user namespace, or a security module "
                  "(Yama, SELinux, AppArmor) forbids it";
  const std::string scope = first_line("/proc/sys/kernel/yama/ptrace_scope");
  std::string advice = "try it as root (sudo), or as the user whom it belongs to";
  if (!scope.empty() && scope != "0")
    advice += "; for processes of your own kernel.yama.ptrace_scope, which is " + scope + " here, must be 0";
  return name + " may not be looked at: " + advice;
}

std::unique_ptr<Memory> live_memory(int pid) { return std::make_unique<LiveMemory>(pid); }

int process_of(const std::string& target) {
  char* rest = nullptr;
  const long number = std::strtol(target.c_str(), &rest, 10);
  if (target.empty() || *rest != 0 || target[0] < '0' || target[0] > '9') return process_named(target);
  if (number <= 0 || number > INT_MAX) throw Failure(kCannot, "no process has the number " + target);
  return static_cast<int>(number);
}

std::unique_ptr<Memory> memory_of(const std::string& target) {
  const int pid = process_of(target);
  return pid == 0 ? core_memory(target) : live_memory(pid);
}

}  // namespace freeway_command
