// SPDX-License-Identifier: MIT
#include "injected_call.h"

#include <elf.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <filesystem>
#include <future>
#include <thread>

#include "heap/description.h"
#include "process.h"
#include "report.h"

namespace freeway_command {

#if defined(__x86_64__)
namespace {

using std::uint32_t, std::uint64_t;

constexpr uint64_t kStackBytes = 256 << 10;           // trim needs 4 KiB (GUARANTEES.md)
constexpr int kPatienceMs = 3000;                     // for a thread that is in the kernel and does not come back
constexpr auto kPatience = std::chrono::seconds(10);  // for all of them
constexpr int kAlways = -1;
constexpr unsigned char kSyscall[] = {0x0f, 0x05};
constexpr int kGetRseqConfiguration = 0x420f;  // of ptrace: PTRACE_GET_RSEQ_CONFIGURATION
constexpr uint64_t kNoCall = ~uint64_t{0};     // in orig_rax
// Of faults: what the kernel raises for the running instruction cannot wait.
constexpr int kFaults[] = {SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGTRAP, SIGSYS};
// These end with EINTR when a tracer stops a thread in them, although nothing happened (signal(7)), and have done
// nothing by then.
constexpr uint64_t kIoPgetevents = 333, kIoUringEnter = 426, kEpollPwait2 = 441;  // which older headers have not
constexpr uint64_t kMadeOnceMore[] = {SYS_epoll_wait, SYS_epoll_pwait, kEpollPwait2, SYS_semop, SYS_semtimedop,
                                      SYS_rt_sigtimedwait, SYS_io_getevents, kIoPgetevents, kIoUringEnter,
                                      // of sockets with SO_RCVTIMEO or SO_SNDTIMEO
                                      SYS_read, SYS_readv, SYS_recvfrom, SYS_recvmsg, SYS_recvmmsg, SYS_accept,
                                      SYS_accept4, SYS_write, SYS_writev, SYS_sendto, SYS_sendmsg, SYS_sendmmsg,
                                      SYS_connect};
// What malloc itself asks the kernel for.
constexpr uint64_t kOfMalloc[] = {SYS_mmap, SYS_munmap, SYS_madvise, SYS_mprotect};

// A thread in which no call can be made, because of what it does now.
struct Unfit {
  std::string why;
};

// A kernel on which no call can be made.
struct Unsupported {
  std::string why;
};

bool has(const auto& list, uint64_t value) { return std::ranges::find(list, value) != std::end(list); }

bool is_library(const Mapping& mapping) {
  return std::filesystem::path(mapping.file).filename().string().starts_with("libfreeway.so");
}

// Where the library has these bytes in code: an instruction may begin anywhere. Other code may be made, and changed, by
// the program while this thread stands still.
uint64_t address_of_syscall(const Memory& memory) {
  for (const Mapping& each : memory.mappings()) {
    if (!each.executable || !each.readable || !is_library(each)) continue;
    uint64_t found = 0;
    any_piece(each.begin, each.end, 1 << 16, [&](uint64_t at, uint64_t bytes) {
      std::vector<unsigned char> code(bytes);
      if (!memory.read(at, code.data(), bytes)) return true;
      const auto place = std::search(code.begin(), code.end(), std::begin(kSyscall), std::end(kSyscall));
      if (place != code.end()) found = at + static_cast<uint64_t>(place - code.begin());
      return found != 0;
    });
    if (found != 0) return found;
  }
  throw Failure(kCannot,
                "process " + std::to_string(memory.pid()) + " has no code of the library that makes a system call");
}

template <class T> T read_as(const Memory& memory, uint64_t address) {
  T value;
  read_or_throw(memory, address, &value, sizeof(value));
  return value;
}

// Of a library that lies at `base`: by its table of symbols in memory, since its file may be another one by now.
uint64_t symbol_in(const Memory& memory, uint64_t base, const std::string& name) {
  const auto header = read_as<Elf64_Ehdr>(memory, base);
  uint64_t symbols = 0, strings = 0, hashes = 0;
  const auto here = [base](uint64_t address) { return address < base ? base + address : address; };
  for (unsigned i = 0; i < header.e_phnum; ++i) {
    const auto part = read_as<Elf64_Phdr>(memory, base + header.e_phoff + i * sizeof(Elf64_Phdr));
    if (part.p_type != PT_DYNAMIC) continue;
    for (uint64_t at = base + part.p_vaddr; at < base + part.p_vaddr + part.p_memsz; at += sizeof(Elf64_Dyn)) {
      const auto entry = read_as<Elf64_Dyn>(memory, at);
      if (entry.d_tag == DT_SYMTAB) symbols = here(entry.d_un.d_ptr);
      if (entry.d_tag == DT_STRTAB) strings = here(entry.d_un.d_ptr);
      if (entry.d_tag == DT_GNU_HASH) hashes = here(entry.d_un.d_ptr);
    }
  }
  if (symbols == 0 || strings == 0 || hashes == 0) return 0;
  uint32_t hash = 5381;
  for (const char c : name) hash = hash * 33 + static_cast<unsigned char>(c);
  const auto [buckets, first, words, shift] = read_as<std::array<uint32_t, 4>>(memory, hashes);
  if (buckets == 0) return 0;
  const uint64_t bucket_at = hashes + 16 + uint64_t{words} * 8, chain_at = bucket_at + uint64_t{buckets} * 4;
  for (auto i = read_as<uint32_t>(memory, bucket_at + hash % buckets * 4); i >= first && i != 0; ++i) {
    const auto each = read_as<uint32_t>(memory, chain_at + uint64_t{i - first} * 4);
    const auto symbol = read_as<Elf64_Sym>(memory, symbols + uint64_t{i} * sizeof(Elf64_Sym));
    std::string text(name.size() + 1, 0);
    if ((each | 1) == (hash | 1) && memory.read(strings + symbol.st_name, text.data(), text.size()) &&
        text.c_str() == name && text.back() == 0)
      return base + symbol.st_value;
    if ((each & 1) != 0) break;
  }
  return 0;
}

uint64_t address_of_function(const Memory& memory, const std::string& name) {
  for (const Mapping& each : memory.mappings())
    if (each.offset == 0 && is_library(each))
      if (const uint64_t found = symbol_in(memory, each.begin, name); found != 0) return found;
  throw Failure(kCannot, "process " + std::to_string(memory.pid()) + " carries the static library, whose " + name +
                             " cannot be found from outside: it must call that itself");
}

// The signals in a field of /proc/PID/task/TID/status.
uint64_t signals_in(pid_t process, pid_t thread, const char* field) {
  return std::strtoull(thread_status(process, thread, field).c_str(), nullptr, 16);
}

// A thread that stands still, and goes on as it was when this object goes.
class Borrowed {
 public:
  Borrowed(pid_t process, pid_t thread);
  ~Borrowed();
  Borrowed(const Borrowed&) = delete;
  Borrowed& operator=(const Borrowed&) = delete;

  uint64_t call(uint64_t function, uint64_t argument, uint64_t syscall_at);

 private:
  void detach();
  int wait(int patience_ms, const char* otherwise = "");
  void stop(int patience_ms);
  void leave_section();
  void to_system_call(int patience_ms = kAlways);
  user_regs_struct registers() const;
  void set(const user_regs_struct& registers) const;
  uint64_t system_call(uint64_t at, uint64_t number, std::array<uint64_t, 6> arguments);
  void let_system_call_through();
  [[noreturn]] void lost() const;

  pid_t process_, thread_;
  bool is_filtered_ = false, is_held_ = false, has_ended_ = false;
  user_regs_struct before_ = {};
  std::vector<char> vectors_ = std::vector<char>(64 << 10);
  uint64_t blocked_ = 0;
};

void Borrowed::lost() const {
  if (!is_held_) throw Unfit{"it ended meanwhile"};  // another may do
  throw Failure(kCannot, "process " + std::to_string(process_) + " ended meanwhile");
}

Borrowed::Borrowed(pid_t process, pid_t thread) : process_(process), thread_(thread) {
  const std::string seccomp = thread_status(process, thread, "Seccomp");
  if (seccomp == "1") throw Unfit{"it may only read, write and exit (seccomp)"};
  is_filtered_ = seccomp == "2";
  if (thread_status(process, thread, "x86_Thread_features").find("shstk") != std::string::npos)
    throw Unfit{"it has a shadow stack, where every return must be one of its own calls"};
  if (ptrace(PTRACE_SEIZE, thread, nullptr, PTRACE_O_TRACESYSGOOD) != 0) {
    const int error = errno;
    if (error == ESRCH || has_ended(process, thread)) throw Unfit{"it ends"};
    const std::string tracer = thread_status(process, thread, "TracerPid");
    if (!tracer.empty() && tracer != "0")
      throw Failure(kCannot, "process " + std::to_string(process) + " is traced by process " + tracer +
                                 " (a debugger?), and a process has one tracer at most: try it when that has ended");
    throw Failure(kCannot, forbidden(process));
  }
  try {
    stop(kPatienceMs);
    before_ = registers();
    iovec area{vectors_.data(), vectors_.size()};
    if (ptrace(PTRACE_GETREGSET, thread, NT_X86_XSTATE, &area) != 0) throw Unfit{"its registers cannot be read"};
    vectors_.resize(area.iov_len);
    if (ptrace(PTRACE_GETSIGMASK, thread, sizeof(blocked_), &blocked_) != 0) throw Unfit{"its signals cannot be read"};
    leave_section();
    uint64_t mask = ~uint64_t{0};
    for (const int fault : kFaults) mask &= ~(uint64_t{1} << (fault - 1));
    mask |= blocked_;  // one that the program sent itself and holds back may be there
    is_held_ = true;
    ptrace(PTRACE_SETSIGMASK, thread, sizeof(mask), &mask);
  } catch (...) {
    detach();
    throw;
  }
}

Borrowed::~Borrowed() {
  if (has_ended_ || !is_held_) return;
  try {
    stop(kAlways);  // behind this one the kernel takes up a system call again
    user_regs_struct after = before_;
    const uint64_t there = signals_in(process_, thread_, "SigPnd") | signals_in(process_, thread_, "ShdPnd");
    if (after.rax == static_cast<uint64_t>(-EINTR) && has(kMadeOnceMore, after.orig_rax) && (there & ~blocked_) == 0) {
      after.rax = after.orig_rax;
      after.rip -= sizeof(kSyscall);
      after.orig_rax = kNoCall;
    }
    iovec area{vectors_.data(), vectors_.size()};
    ptrace(PTRACE_SETREGSET, thread_, NT_X86_XSTATE, &area);
    set(after);
    ptrace(PTRACE_SETSIGMASK, thread_, sizeof(blocked_), &blocked_);
  } catch (const Failure&) {
    return;  // it was killed
  }
  detach();
}

void Borrowed::detach() { ptrace(PTRACE_DETACH, thread_, nullptr, nullptr); }

// The thread's next stop, as waitpid says it.
int Borrowed::wait(int patience_ms, const char* otherwise) {
  for (int ms = 0; patience_ms == kAlways || ms < patience_ms; ++ms) {
    int status = 0;
    const pid_t found = waitpid(thread_, &status, __WALL | (patience_ms == kAlways ? 0 : WNOHANG));
    if (found == thread_ && WIFSTOPPED(status)) return status;
    if (found == thread_ || (found < 0 && errno != EINTR)) {
      has_ended_ = true;
      lost();
    }
    const timespec pause{0, 1'000'000};
    if (patience_ms != kAlways) nanosleep(&pause, nullptr);
  }
  throw Unfit{otherwise};
}

// Has it stop where no signal is on its way: what comes before is handed on.
void Borrowed::stop(int patience_ms) {
  if (ptrace(PTRACE_INTERRUPT, thread_, nullptr, nullptr) != 0) lost();
  if (before_.rip != 0) ptrace(PTRACE_CONT, thread_, nullptr, nullptr);  // from the stop in which it is
  constexpr const char* kStays = "it waits in the kernel, and does not stop (for a disk, or for a child of vfork)";
  for (int status = wait(patience_ms, kStays); status >> 16 != PTRACE_EVENT_STOP; status = wait(patience_ms, kStays)) {
    const int signal = WSTOPSIG(status) == (SIGTRAP | 0x80) ? 0 : WSTOPSIG(status);
    ptrace(PTRACE_CONT, thread_, nullptr, reinterpret_cast<void*>(static_cast<std::intptr_t>(signal)));
  }
}

// Where it is in a restartable section, it goes on behind it.
void Borrowed::leave_section() {
  struct {
    uint64_t at;
    uint32_t bytes, signature, flags, nothing;
  } area = {};
  if (syscall(SYS_ptrace, kGetRseqConfiguration, thread_, sizeof(area), &area) != sizeof(area))
    throw Unsupported{"this kernel does not say where a thread's restartable sections are (5.13 does)"};
  if (area.at == 0) return;
  const auto memory = live_memory(process_);
  const auto section_at = read_as<uint64_t>(*memory, area.at + 8);
  if (section_at == 0) return;
  struct Section {
    uint32_t version, flags;
    uint64_t start, bytes, abort;
  };
  const auto section = read_as<Section>(*memory, section_at);
  if (before_.rip - section.start < section.bytes) before_.rip = section.abort;
}

user_regs_struct Borrowed::registers() const {
  user_regs_struct all = {};
  iovec area{&all, sizeof(all)};
  if (ptrace(PTRACE_GETREGSET, thread_, NT_PRSTATUS, &area) != 0) lost();
  if (area.iov_len != sizeof(all)) throw Unfit{"it runs 32-bit code"};
  return all;
}

void Borrowed::set(const user_regs_struct& registers) const {
  iovec area{const_cast<user_regs_struct*>(&registers), sizeof(registers)};
  if (ptrace(PTRACE_SETREGSET, thread_, NT_PRSTATUS, &area) != 0) lost();
}

// To the next beginning or end of a system call. Faults are the program's to handle.
void Borrowed::to_system_call(int patience_ms) {
  for (int signal = 0;;) {
    if (ptrace(PTRACE_SYSCALL, thread_, nullptr, reinterpret_cast<void*>(static_cast<std::intptr_t>(signal))) != 0)
      lost();
    const int status = wait(patience_ms, "it does not go on after it was stopped (is it being frozen?)");
    if (WSTOPSIG(status) == (SIGTRAP | 0x80)) return;
    signal = status >> 16 == 0 ? WSTOPSIG(status) : 0;
  }
}

uint64_t Borrowed::system_call(uint64_t at, uint64_t number, std::array<uint64_t, 6> arguments) {
  user_regs_struct now = before_;
  now.rip = at;
  now.rax = number;
  now.orig_rax = kNoCall;
  now.rdi = arguments[0];
  now.rsi = arguments[1];
  now.rdx = arguments[2];
  now.r10 = arguments[3];
  now.r8 = arguments[4];
  now.r9 = arguments[5];
  set(now);
  to_system_call(kPatienceMs);  // up to here it can be given up
  to_system_call();
  return registers().rax;
}

// From its beginning, where the thread stands, to its end. What a filter might kill for is answered as refused; the
// kernel is asked for nothing in its place.
void Borrowed::let_system_call_through() {
  const user_regs_struct asked = registers();
  const bool is_kept = is_filtered_ && !has(kOfMalloc, asked.orig_rax);
  if (is_kept) {
    user_regs_struct nothing = asked;
    nothing.orig_rax = SYS_madvise;  // of no bytes
    nothing.rdi = nothing.rsi = nothing.rdx = 0;
    set(nothing);
  }
  to_system_call();
  if (!is_kept) return;
  user_regs_struct answered = asked;
  answered.rax = static_cast<uint64_t>(-ENOSYS);
  answered.orig_rax = kNoCall;
  set(answered);
}

// The function returns to a system call, and before that is made it has become the one that unmaps its stack.
uint64_t Borrowed::call(uint64_t function, uint64_t argument, uint64_t syscall_at) {
  const uint64_t stack = system_call(syscall_at, SYS_mmap,
                                     {0, kStackBytes, PROT_READ | PROT_WRITE,
                                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_STACK | MAP_NORESERVE, ~uint64_t{0}, 0});
  if (stack >= static_cast<uint64_t>(-4096))
    throw Failure(kCannot, "process " + std::to_string(process_) +
                               " gets no memory for a stack to call it on: " + std::strerror(-static_cast<int>(stack)));
  const uint64_t top = stack + kStackBytes;
  user_regs_struct now = before_;
  now.rip = function;
  now.rdi = argument;
  now.rsp = top - 8;
  now.rax = 0;
  now.orig_rax = kNoCall;
  now.eflags &= ~uint64_t{0x40500};  // AC, DF, TF: as calls have them
  if (ptrace(PTRACE_POKEDATA, thread_, now.rsp, syscall_at) != 0) lost();
  set(now);
  for (;;) {
    to_system_call();
    user_regs_struct there = registers();
    if (there.rip != syscall_at + sizeof(kSyscall) || there.rsp != top) {
      let_system_call_through();
      continue;
    }
    const uint64_t result = there.orig_rax;
    there.orig_rax = SYS_munmap;
    there.rdi = stack;
    there.rsi = kStackBytes;
    set(there);
    to_system_call();
    return result;
  }
}

// While one exists, signals that would end this process wait.
class Undisturbed {
 public:
  Undisturbed() {
    sigset_t all;
    sigfillset(&all);
    sigprocmask(SIG_BLOCK, &all, &before_);
  }
  ~Undisturbed() { sigprocmask(SIG_SETMASK, &before_, nullptr); }
  Undisturbed(const Undisturbed&) = delete;
  Undisturbed& operator=(const Undisturbed&) = delete;

 private:
  sigset_t before_;
};

}  // namespace

// In a thread of its own: with the tracer the kernel ends the tracing, also of a thread that never stopped, which could
// be let go in no other way.
static uint64_t call_beside(pid_t process, pid_t thread, uint64_t function, uint64_t argument, uint64_t syscall_at) {
  std::packaged_task<uint64_t()> task([&] { return Borrowed(process, thread).call(function, argument, syscall_at); });
  std::future<uint64_t> result = task.get_future();
  std::thread tracer(std::ref(task));
  if (result.wait_for(kPatience) == std::future_status::timeout)
    std::fprintf(stderr,
                 "freeway: thread %d of process %d does not go on: this waits until it does, since it is in the middle "
                 "of the call; do not kill this command\n",
                 thread, process);
  tracer.join();
  return result.get();
}

std::uint64_t call_in(const Memory& memory, const std::string& function, std::uint64_t argument,
                      const std::string& instead) {
  { Description known(memory); }  // what is refused is refused before anything is stopped
  const pid_t process = memory.pid();
  const std::string name = "process " + std::to_string(process);
  if (is_frozen(process))
    throw Failure(kCannot, name + " is frozen (its control group is), so that no thread of it can make a call");
  const uint64_t address = address_of_function(memory, function), syscall_at = address_of_syscall(memory);
  std::vector<pid_t> threads = threads_of(process);
  std::ranges::sort(threads);  // the first one has been there for longest
  std::ranges::stable_partition(
      threads, [&](pid_t thread) { return !thread_status(process, thread, "State").starts_with("D"); });
  std::string why;
  const auto end = std::chrono::steady_clock::now() + kPatience;
  for (const pid_t thread : threads) {
    if (has_ended(process, thread)) continue;
    why += why.empty() ? "" : "; ";
    if (std::chrono::steady_clock::now() > end) {
      why += "others were not tried for want of time";
      break;
    }
    try {
      const Undisturbed undisturbed;
      return call_beside(process, thread, address, argument, syscall_at);
    } catch (const Unfit& unfit) {
      why += "thread " + std::to_string(thread) + ": " + unfit.why;
    } catch (const Unsupported& unsupported) { throw Failure(kCannot, unsupported.why + ": " + instead); }
  }
  throw Failure(kCannot, name + " has no thread that can be borrowed for a call (" +
                             (why.empty() ? "all have ended" : why) + ")");
}

#else

std::uint64_t call_in(const Memory&, const std::string&, std::uint64_t, const std::string& instead) {
  throw Failure(kCannot, "calls in a process that runs are made on x86-64 alone so far: " + instead);
}

#endif

}  // namespace freeway_command
