// SPDX-License-Identifier: MIT
//
// Files for shared heaps, heaps that end with their scope, and children that are processes of their own.
#ifndef FREEWAY_TESTS_SHARED_SHARED_FILE_H
#define FREEWAY_TESTS_SHARED_SHARED_FILE_H

#include <fcntl.h>
#include <gtest/gtest.h>
#include <linux/magic.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <string>
#include <utility>

#include "freeway/shared.h"

namespace freeway_test {

// A descriptor that is closed at the end.
class File {
 public:
  explicit File(int fd) : fd_(fd) {}
  File(File&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  ~File() {
    if (fd_ >= 0) ::close(fd_);
  }
  operator int() const { return fd_; }
  // Bytes of memory, or of a disk, that it takes.
  size_t taken() const {
    struct stat status = {};
    ::fstat(fd_, &status);
    return static_cast<size_t>(status.st_blocks) * 512;
  }
  size_t length() const {
    struct stat status = {};
    ::fstat(fd_, &status);
    return static_cast<size_t>(status.st_size);
  }

 private:
  int fd_;
};

inline File memory_file() { return File(::memfd_create("heap", MFD_CLOEXEC)); }

// A file without a name in that folder.
inline File file_in(const char* folder) {
  std::string name = std::string(folder) + "/freeway-heap-XXXXXX";
  const int fd = ::mkostemp(name.data(), O_CLOEXEC);
  if (fd >= 0) ::unlink(name.c_str());
  return File(fd);
}

// There no heap can be made.
inline bool has_overlayfs(const char* folder) {
  struct statfs system = {};
  return ::statfs(folder, &system) == 0 && system.f_type == OVERLAYFS_SUPER_MAGIC;
}

// Linux 5.14 and later: memory comes without the file's descriptor.
inline bool has_populate_write() {
  const long page = ::sysconf(_SC_PAGESIZE);
  void* memory = ::mmap(nullptr, static_cast<size_t>(page), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  const bool has = ::madvise(memory, static_cast<size_t>(page), /*MADV_POPULATE_WRITE*/ 23) == 0;
  ::munmap(memory, static_cast<size_t>(page));
  return has;
}

// A heap that is detached at the end.
class Heap {
 public:
  explicit Heap(freeway_shared_t* heap) : heap_(heap) {}
  Heap(Heap&& other) noexcept : heap_(std::exchange(other.heap_, nullptr)) {}
  ~Heap() { ::freeway_shared_detach(heap_); }
  operator freeway_shared_t*() const { return heap_; }

 private:
  freeway_shared_t* heap_;
};

inline Heap make_heap(int fd, size_t capacity = size_t{64} << 20, unsigned seats = 0) {
  const freeway_shared_options_t options = {capacity, seats};
  return Heap(::freeway_shared_create(fd, &options, sizeof(options)));
}

inline freeway_shared_audit_t audit_of(freeway_shared_t* heap) {
  freeway_shared_audit_t audit = {};
  ::freeway_shared_audit(heap, &audit, sizeof(audit));
  return audit;
}
inline void expect_in_order(freeway_shared_t* heap) {
  const freeway_shared_audit_t audit = audit_of(heap);
  EXPECT_EQ(audit.errors, 0u);
  EXPECT_EQ(audit.lost, 0u);
  EXPECT_EQ(audit.left_behind, 0u);
}
inline freeway_shared_stats_t stats_of(freeway_shared_t* heap) {
  freeway_shared_stats_t stats = {};
  ::freeway_shared_stats(heap, &stats, sizeof(stats));
  return stats;
}

// Where the frames begin in a heap's file: after the tables.
inline uint64_t frames_begin(int fd) {
  uint64_t begin = 0;
  return ::pread(fd, &begin, sizeof(begin), 80) == sizeof(begin) ? begin : 0;
}
// Gives all tables their memory, which they keep: then the file takes that, and what its frames have.
inline bool fill_tables(int fd) { return ::fallocate(fd, 0, 0, static_cast<off_t>(frames_begin(fd))) == 0; }
// Bytes that the kernel keeps for frames of which the heap knows nothing: 0 while nobody is in a call, and nobody dead
// is there. Of a file in memory whose tables were filled.
inline size_t forgotten(const File& fd, freeway_shared_t* heap) {
  return fd.taken() - frames_begin(fd) - stats_of(heap).backed;
}

// A process that does f() and ends with what it yields as its status (0: all was right).
template <class F> pid_t start_child(F&& f) {
  const pid_t child = ::fork();
  if (child == 0) ::_exit(f());
  if (child < 0) ::abort();  // kill(-1) would be for everybody
  return child;
}
inline int status_of(pid_t child) {
  int status = 0;
  if (::waitpid(child, &status, 0) != child) return -1;
  return WIFEXITED(status) ? WEXITSTATUS(status) : 1000 + WTERMSIG(status);
}
inline constexpr int kKilled = 1000 + SIGKILL;
template <class F> int in_child(F&& f) { return status_of(start_child(f)); }

}  // namespace freeway_test
#endif
