// SPDX-License-Identifier: MIT
#include "shared/file.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include "os/syscall.h"
#include "os/vm.h"

namespace freeway::shared_file {
namespace {

constexpr std::size_t kAlignment = 64 * kKiB;
constexpr u64 kNone = 0, kReadWrite = 1 | 2;   // PROT_NONE, PROT_READ | PROT_WRITE
constexpr u64 kShared = 0x01;                  // MAP_SHARED
constexpr u64 kPlace = 0x02 | 0x20 | 0x4000;   // MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE
constexpr u64 kFixed = 0x10;                   // MAP_FIXED
constexpr u64 kRandom = 1;                     // MADV_RANDOM
constexpr u64 kRemove = 9;                     // MADV_REMOVE
constexpr u64 kDontFork = 10;                  // MADV_DONTFORK
constexpr u64 kPopulateWrite = 23;             // MADV_POPULATE_WRITE, since Linux 5.14
constexpr u64 kGetFlags = 3;                   // F_GETFL
constexpr u64 kGetLock = 36, kSetLock = 37;    // F_OFD_GETLK, F_OFD_SETLK
constexpr u64 kAddSeals = 1033;                // F_ADD_SEALS
constexpr u64 kSealShrink = 2, kSealGrow = 4;  // F_SEAL_SHRINK, F_SEAL_GROW
constexpr u64 kPunchHole = 1 | 2;              // FALLOC_FL_KEEP_SIZE | FALLOC_FL_PUNCH_HOLE
constexpr u64 kDuplicate = 1030;               // F_DUPFD_CLOEXEC
constexpr u64 kFirstDescriptor = 3;            // never one of those that programs know by number

u64 word(int fd) { return static_cast<u64>(fd); }

// "/proc/thread-self/fd/<fd>": a thread may have descriptors of its own, and the process's first thread may have ended.
struct Path {
  char text[40] = "/proc/thread-self/fd/";
  explicit Path(int fd) {
    char digits[12];
    unsigned count = 0, at = 21;
    for (unsigned number = static_cast<unsigned>(fd); count == 0 || number != 0; number /= 10)
      digits[count++] = static_cast<char>('0' + number % 10);
    while (count != 0) text[at++] = digits[--count];
  }
};

// Whether no file of the process's may become so long.
bool is_beyond_limit(u64 bytes) {
  struct {
    u64 soft, hard;
  } limit = {};
  return raw_syscall(SYS_prlimit64, 0, RLIMIT_FSIZE, 0, reinterpret_cast<u64>(&limit)) == 0 && bytes > limit.soft;
}

struct flock byte_lock(u64 offset, short type) {
  struct flock lock = {};
  lock.l_type = type;
  lock.l_whence = SEEK_SET;
  lock.l_start = static_cast<off_t>(offset);
  lock.l_len = 1;
  return lock;
}

}  // namespace

long find_facts(int fd, Facts& facts) {
  struct stat status;
  const long result = raw_syscall(SYS_fstat, word(fd), reinterpret_cast<u64>(&status));
  if (result == 0)
    facts = {status.st_dev, status.st_ino, static_cast<u64>(status.st_size), (status.st_mode & S_IFMT) == S_IFREG};
  return result;
}

bool is_for_both(int fd) {
  const long flags = raw_syscall(SYS_fcntl, word(fd), kGetFlags);
  return flags >= 0 && (flags & O_ACCMODE) == O_RDWR;
}

long keep(int fd) { return raw_syscall(SYS_fcntl, word(fd), kDuplicate, kFirstDescriptor); }

void close(int fd) { raw_syscall(SYS_close, word(fd)); }

long open_again(int fd) {
  if (fd < 0) return -EBADF;
  const Path path(fd);
  const long result =
      raw_syscall(SYS_openat, static_cast<u64>(AT_FDCWD), reinterpret_cast<u64>(path.text), O_RDWR | O_CLOEXEC);
  return result == -ENOENT ? -ENOSYS : result;  // no /proc
}

long read(int fd, void* to, std::size_t bytes, u64 offset) {
  return raw_syscall(SYS_pread64, word(fd), reinterpret_cast<u64>(to), bytes, offset);
}

long write(int fd, const void* from, std::size_t bytes, u64 offset) {
  if (is_beyond_limit(offset + bytes)) return -EFBIG;
  return raw_syscall(SYS_pwrite64, word(fd), reinterpret_cast<u64>(from), bytes, offset);
}

long clear(int fd, u64 kept, u64 now, u64 bytes) {
  if (is_beyond_limit(bytes)) return -EFBIG;
  const long result = raw_syscall(SYS_ftruncate, word(fd), kept);
  if (result == 0) return raw_syscall(SYS_ftruncate, word(fd), bytes);
  if (result != -EPERM || now <= kept) return result;
  // A memfd that is sealed against it.
  if (const long hole = raw_syscall(SYS_fallocate, word(fd), kPunchHole, kept, now - kept); hole != 0) return hole;
  return now < bytes ? raw_syscall(SYS_ftruncate, word(fd), bytes) : 0;
}

void seal_length(int fd) { raw_syscall(SYS_fcntl, word(fd), kAddSeals, kSealShrink | kSealGrow); }

long map(int fd, u64 bytes, std::size_t before, uptr& address) {
  const u64 whole = before + align_up(bytes, kAlignment) + kAlignment;
  const long place = raw_syscall(SYS_mmap, 0, whole, kNone, kPlace, ~u64{0}, 0);
  if (place < 0 && place >= -4095) return place;
  const uptr begin = align_up(static_cast<uptr>(place), kAlignment), end = begin + whole - kAlignment;
  if (begin != static_cast<uptr>(place)) unmap(static_cast<uptr>(place), begin - static_cast<uptr>(place));
  unmap(end, static_cast<uptr>(place) + whole - end);
  const long result = raw_syscall(SYS_mmap, begin + before, bytes, kReadWrite, kShared | kFixed, word(fd), 0);
  if (result < 0 && result >= -4095) {
    unmap(begin, end - begin);
    return result;
  }
  // Else what a fault reads ahead comes in large folios, and a write to one gives room to all of it, holes as well.
  raw_syscall(SYS_madvise, begin + before, bytes, kRandom);
  address = begin + before;
  return 0;
}

long unmap(uptr address, u64 bytes) { return raw_syscall(SYS_munmap, address, bytes); }

long open_private(uptr address, std::size_t bytes, bool wiped) {
  const long result = raw_syscall(SYS_mprotect, address, bytes, kReadWrite);
  if (result != 0 || !wiped) return result;
  const vm::Answer answer = vm::wipe_on_fork(address, bytes);
  return answer == vm::Answer::kDone ? 0 : answer == vm::Answer::kRefused ? -ENOMEM : -ENOSYS;
}

bool reserve(int fd, const Facts& file, uptr address, u64 offset, u64 bytes) {
  const u64 page = vm::page_size(), ahead = address % page;
  address -= ahead, offset -= ahead;
  bytes = align_up(bytes + ahead, page);
  const long result = raw_syscall(SYS_madvise, address, bytes, kPopulateWrite);
  if (result != -EINVAL) return result == 0;
  Facts now;  // before Linux 5.14
  return find_facts(fd, now) == 0 && now.is_same(file) && raw_syscall(SYS_fallocate, word(fd), 0, offset, bytes) == 0;
}

long punch(uptr address, u64 bytes) { return raw_syscall(SYS_madvise, address, bytes, kRemove); }

long make_pulse(int fd, Pulse& pulse) {
  const long own = open_again(fd);
  if (own < 0) return own;
  const u64 page = vm::page_size();
  const long mapping = raw_syscall(SYS_mmap, 0, page, kNone, kShared, static_cast<u64>(own), 0);
  const bool mapped = mapping >= 0 || mapping < -4095;
  const long result = mapped ? raw_syscall(SYS_madvise, static_cast<u64>(mapping), page, kDontFork) : mapping;
  if (result == 0) {
    pulse = {static_cast<uptr>(mapping), static_cast<int>(own)};
    return 0;
  }
  if (mapped) end_pulse(static_cast<uptr>(mapping));
  close(static_cast<int>(own));
  return result;
}

long keeps_locks(int fd, u64 offset) {
  Pulse pulse;
  if (const long result = make_pulse(fd, pulse); result != 0) return result;
  long result = lock(pulse.fd, offset);
  close(pulse.fd);
  if (result == 0) result = is_locked(fd, offset);
  end_pulse(pulse.mapping);
  return result;
}

void end_pulse(uptr mapping) { unmap(mapping, vm::page_size()); }

long lock(int fd, u64 offset) {
  const struct flock wanted = byte_lock(offset, F_WRLCK);
  const long result = raw_syscall(SYS_fcntl, word(fd), kSetLock, reinterpret_cast<u64>(&wanted));
  return result == -EACCES ? -EAGAIN : result;
}

long unlock(int fd, u64 offset) {
  const struct flock none = byte_lock(offset, F_UNLCK);
  return raw_syscall(SYS_fcntl, word(fd), kSetLock, reinterpret_cast<u64>(&none));
}

long is_locked(int fd, u64 offset) {
  struct flock found = byte_lock(offset, F_WRLCK);
  const long result = raw_syscall(SYS_fcntl, word(fd), kGetLock, reinterpret_cast<u64>(&found));
  return result != 0 ? result : found.l_type != F_UNLCK;
}

}  // namespace freeway::shared_file
