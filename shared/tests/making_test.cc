// SPDX-License-Identifier: MIT
//
// A process that makes a heap is killed before and after each of its system calls, and each of them, or all from one
// on, says no: what is left is a whole heap, or a file that counts as empty, in which the next one makes a heap of
// another layout. On memfds that allow seals, that do not, and that may not shrink; on tmpfs; on a disk.
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/user.h>

#include <cstdint>
#include <vector>

#include "shared/tests/shared_file.h"
#include "tests/support/proof.h"
#include "tests/whole/signal/support/failure.h"

namespace {
using namespace freeway_test;

// --- Files. ----------------------------------------------------------------------------------------------------------

constexpr int kLengthSeals = F_SEAL_SHRINK | F_SEAL_GROW;

File sealable_file(int seals) {
  File fd(::memfd_create("heap", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  require(::fcntl(fd, F_ADD_SEALS, seals) == 0, "seals", static_cast<uint64_t>(errno));
  return fd;
}

struct FileKind {
  const char* name;
  const char* folder;  // null: a memfd
  File (*make)();
  bool is_sealed;  // its length, once there is a heap
};
const FileKind kFiles[] = {
    {"memfd", nullptr, memory_file, false},
    {"memfd that allows seals", nullptr, [] { return sealable_file(0); }, true},
    {"memfd that may not shrink", nullptr, [] { return sealable_file(F_SEAL_SHRINK); }, true},
    {"memfd without further seals", nullptr, [] { return sealable_file(F_SEAL_SEAL); }, false},
    {"tmpfs", "/dev/shm", [] { return file_in("/dev/shm"); }, false},
    {"disk", "/tmp", [] { return file_in("/tmp"); }, false},
};

// --- What is done to the maker. --------------------------------------------------------------------------------------

struct Plan {
  uint64_t kill_at = 0;          // of the calls' begins and ends, counted from 1; 0: it lives
  uint64_t first = 0, last = 0;  // calls that are refused, counted from 1; 0: none
  int error = 0;
};

// Layouts: the parts behind the seats' begin elsewhere.
struct Size {
  size_t capacity;
  unsigned seats;
};
constexpr Size kSizes[] = {{size_t{4} << 20, 8}, {size_t{1} << 20, 2}};

// What the maker says of itself.
struct Common {
  bool begun, ended;  // the call of create
}* common;

Heap make(int fd, const Size& size) { return make_heap(fd, size.capacity, size.seats); }

// All of the heap can be used.
bool is_usable(freeway_shared_t* heap, const Size& size) {
  std::vector<void*> blocks;
  while (void* block = ::freeway_shared_calloc(heap, 1, 1 << 16)) blocks.push_back(block);
  if (errno != ENOMEM || blocks.size() != size.capacity >> 16) return false;
  for (void* block : blocks)
    if (::freeway_shared_free(heap, block) != 0) return false;
  void* small = ::freeway_shared_malloc(heap, 100);
  return small != nullptr && ::freeway_shared_free(heap, small) == 0 && ::freeway_shared_audit(heap, nullptr, 0) == 0;
}

// In the maker. After a failure the file counts as empty, and the next call makes a heap.
int be_maker(int fd, const Size& size, const Size& next) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (::ptrace(PTRACE_TRACEME, 0, nullptr, nullptr) != 0) return kSkipStatus;
  ::raise(SIGSTOP);
  __atomic_store_n(&common->begun, true, __ATOMIC_RELEASE);
  const Heap heap = make(fd, size);
  __atomic_store_n(&common->ended, true, __ATOMIC_RELEASE);
  if (heap != nullptr) return is_usable(heap, size) ? 0 : 1;
  if (::freeway_shared_attach(fd) != nullptr || errno != EINVAL) return 2;
  const Heap again = make(fd, next);
  if (again == nullptr) return 3;
  return is_usable(again, next) ? 0 : 4;
}

// --- The one that does it. -------------------------------------------------------------------------------------------

// These do what they should, whatever they answer.
bool is_certain(uint64_t number) { return number == SYS_close || number == SYS_munmap; }

// How many system calls were seen. `killed`: whether it died as planned.
uint64_t run(const File& fd, const Size& size, const Size& next, const Plan& plan, bool& killed) {
  *common = {};
  const pid_t child = start_child([&] { return be_maker(fd, size, next); });
  int status = 0;
  require(::waitpid(child, &status, 0) == child, "no child");
  if (WIFEXITED(status) && WEXITSTATUS(status) == kSkipStatus) skip("may not look at a process's system calls");
  require(WIFSTOPPED(status) && WSTOPSIG(status) == SIGSTOP, "it does not begin", static_cast<uint64_t>(status));
  require(::ptrace(PTRACE_SETOPTIONS, child, nullptr, PTRACE_O_TRACESYSGOOD) == 0, "options");
  killed = false;
  uint64_t calls = 0;
  for (bool begins = true;; begins = !begins) {
    require(::ptrace(PTRACE_SYSCALL, child, nullptr, nullptr) == 0, "go on", static_cast<uint64_t>(errno));
    require(::waitpid(child, &status, 0) == child, "no child");
    const bool stopped = WIFSTOPPED(status) && WSTOPSIG(status) == (SIGTRAP | 0x80);
    require(stopped, "it does not stop", static_cast<uint64_t>(status));
    if (begins && __atomic_load_n(&common->ended, __ATOMIC_ACQUIRE)) break;
    if (!__atomic_load_n(&common->begun, __ATOMIC_ACQUIRE)) continue;
    calls += begins;
    if (2 * calls - begins == plan.kill_at) {
      ::kill(child, SIGKILL);
      require(status_of(child) == kKilled, "who was to be killed");
      killed = true;
      return calls;
    }
    if (calls < plan.first || calls > plan.last) continue;
    user_regs_struct registers = {};
    require(::ptrace(PTRACE_GETREGS, child, nullptr, &registers) == 0, "registers", static_cast<uint64_t>(errno));
    static uint64_t number;
    if (begins) {
      number = registers.orig_rax;
      if (!is_certain(number)) registers.orig_rax = ~uint64_t{0};
    } else {
      registers.rax = static_cast<uint64_t>(-plan.error);
    }
    require(::ptrace(PTRACE_SETREGS, child, nullptr, &registers) == 0, "registers", static_cast<uint64_t>(errno));
  }
  require(::ptrace(PTRACE_DETACH, child, nullptr, nullptr) == 0, "detach", static_cast<uint64_t>(errno));
  const int ended = status_of(child);
  require(ended == 0, "the maker, or who made a heap after it failed", static_cast<uint64_t>(ended), calls);
  return calls;
}

// What the header promises of a file in which somebody has made a heap, or was killed. Whether it was there.
bool expect_heap_or_empty(const FileKind& kind, const File& fd, const Size& next) {
  Heap heap(::freeway_shared_attach(fd));
  const bool whole = heap != nullptr;
  require(whole || errno == EINVAL, "attach", static_cast<uint64_t>(errno));
  if (!whole) {
    Heap made = make(fd, next);
    require(made != nullptr, "create in a file that counts as empty", static_cast<uint64_t>(errno));
    require(is_usable(made, next), "a heap after one that was begun");
  } else {
    require(make(fd, next) == nullptr && errno == EEXIST, "a heap over another", static_cast<uint64_t>(errno));
    require(::freeway_shared_audit(heap, nullptr, 0) == 0, "a heap in order");
  }
  if (kind.is_sealed) require((::fcntl(fd, F_GET_SEALS) & kLengthSeals) == kLengthSeals, "seals");
  return whole;
}

struct Counts {
  uint64_t kills = 0, refusals = 0;
};

void kill_everywhere(const FileKind& kind, const Size& size, const Size& next, Counts& counts) {
  uint64_t empty = 0, whole = 0;
  for (Plan plan{.kill_at = 1};; ++plan.kill_at) {
    failure_offset = plan.kill_at;
    const File fd = kind.make();
    bool killed;
    run(fd, size, next, plan, killed);
    ++(expect_heap_or_empty(kind, fd, next) ? whole : empty);
    if (!killed) break;
    ++counts.kills;
  }
  require(empty > 10 && whole >= 2, "hardly anything was seen", empty, whole);
}

void refuse_everywhere(const FileKind& kind, const Size& size, const Size& next, int error, bool all, Counts& counts) {
  for (uint64_t n = 1;; ++n) {
    failure_offset = n;
    const File fd = kind.make();
    bool killed;
    const uint64_t calls = run(fd, size, next, {.first = n, .last = all ? ~uint64_t{0} : n, .error = error}, killed);
    require(expect_heap_or_empty(kind, fd, size), "a heap, at the second attempt at the latest");
    if (calls < n) break;
    ++counts.refusals;
  }
}

}  // namespace

int main() {
  void* memory = ::mmap(nullptr, sizeof(Common), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  require(memory != MAP_FAILED, "no memory in common");
  common = static_cast<Common*>(memory);
  Counts counts;
  for (const FileKind& kind : kFiles) {
    if (kind.folder != nullptr && has_overlayfs(kind.folder)) continue;
    failure_context = kind.name;
    kill_everywhere(kind, kSizes[0], kSizes[1], counts);
    kill_everywhere(kind, kSizes[1], kSizes[0], counts);
    for (const int error : {EPERM, ENOMEM, EINVAL, EAGAIN})
      for (const bool all : {false, true}) refuse_everywhere(kind, kSizes[0], kSizes[1], error, all, counts);
  }
  constexpr char kSubject[] = "a process that makes a shared heap";
  freeway::test::proof("stops and kills", kSubject, "kills", counts.kills);
  freeway::test::proof("system calls", kSubject, "calls refused", counts.refusals);
  return 0;
}
