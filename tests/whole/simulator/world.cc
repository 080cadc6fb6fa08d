// SPDX-License-Identifier: MIT
#include "tests/whole/simulator/world.h"

#include <elf.h>
#include <errno.h>
#include <link.h>
#include <linux/futex.h>
#include <linux/membarrier.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <sys/mman.h>
#include <sys/personality.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include <climits>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "freeway/freeway.h"
#include "tests/whole/simulator/kernel.h"

namespace freeway::sim {

World world;
const char* const kEventNames[kEvents] = {"switch", "signal", "migrate", "kill", "fork", "clock", "audit", "solo"};

namespace {

// Where the kernel's struct rseq lies, from a thread's pointer on; the words that are used of it.
constexpr long kRseqOffset = 64;
constexpr long kCpuId = 4, kNodeId = 20, kMmCid = 24;
constexpr std::uintptr_t kPointers = std::uintptr_t{9} << 30;
constexpr std::size_t kPointerStep = std::size_t{1} << 20;  // more than thread-local variables take

// The library's writable memory, as it was before its first call.
struct Image {
  char* begin = nullptr;  // of what is restored: behind what the loader protects
  char* end = nullptr;
  std::size_t filled = 0;  // bytes from `begin` that are not zero at first
  std::vector<char> saved;
  char* variables = nullptr;  // thread-local
  std::size_t variable_bytes = 0;
};
Image image;

int find_image(dl_phdr_info* info, std::size_t, void*) {
  if (strstr(info->dlpi_name, "freeway_simulated") == nullptr) return 0;
  std::uintptr_t begin = 0, filled = 0, end = 0, constant = 0;
  for (int i = 0; i < info->dlpi_phnum; ++i) {
    const auto& p = info->dlpi_phdr[i];
    const std::uintptr_t at = info->dlpi_addr + p.p_vaddr;
    if (p.p_type == PT_LOAD && (p.p_flags & PF_W) != 0) begin = at, filled = at + p.p_filesz, end = at + p.p_memsz;
    if (p.p_type == PT_GNU_RELRO) constant = (at + p.p_memsz) & ~std::uintptr_t{4095};
    if (p.p_type == PT_TLS) image.variable_bytes = p.p_memsz;
  }
  if (constant > begin) begin = constant;
  image.begin = reinterpret_cast<char*>(begin);
  image.end = reinterpret_cast<char*>(end);
  image.filled = filled > begin ? filled - begin : 0;
  image.variables = static_cast<char*>(info->dlpi_tls_data);
  return 1;
}

void restore_image() {
  memcpy(image.begin, image.saved.data(), image.filled);
  char* at = image.begin + image.filled;
  char* page = reinterpret_cast<char*>((reinterpret_cast<std::uintptr_t>(at) + 4095) & ~std::uintptr_t{4095});
  if (page > image.end) page = image.end;
  memset(at, 0, static_cast<std::size_t>(page - at));
  static std::vector<unsigned char> pages;
  pages.resize(static_cast<std::size_t>(image.end - page + 4095) / 4096);
  if (pages.empty()) return;
  if (mincore(page, static_cast<std::size_t>(image.end - page), pages.data()) != 0) abort();
  for (std::size_t i = 0; i < pages.size(); ++i) {
    if ((pages[i] & 1) == 0) continue;
    char* from = page + i * 4096;
    const auto left = static_cast<std::size_t>(image.end - from);
    memset(from, 0, left < 4096 ? left : 4096);
  }
}

// A seed takes milliseconds: one that takes longer than this does not end, nor make any operation.
void watch() {
  constexpr time_t kSeconds = 20;
  itimerval time = {};
  time.it_value.tv_sec = kSeconds;
  setitimer(ITIMER_VIRTUAL, &time, nullptr);
}

// What the child of a fork says of its failure; shared with the parent.
char* last_words = nullptr;
constexpr std::size_t kMostWords = 4096;

sigjmp_buf after_fault;
volatile sig_atomic_t is_running = 0;

void on_fault(int number, siginfo_t* info, void* context) {
  if (is_running == 0) {
    signal(number, SIG_DFL);
    return;
  }
#if defined(__x86_64__)
  const auto pc = static_cast<std::size_t>(static_cast<ucontext_t*>(context)->uc_mcontext.gregs[REG_RIP]);
#else
  const std::size_t pc = 0;
#endif
  static char text[120];
  snprintf(text, sizeof(text), "signal %d at address %p, code %#zx", number, info->si_addr, pc);
  world.note_report(text, strlen(text));
  siglongjmp(after_fault, 1);
}

}  // namespace

void World::boot(int argc, char** argv) {
  // So that each address is the same in the next run. Where that is refused, a seed may go another way in another run.
  constexpr const char* kPlaced = "FREEWAY_SIMULATOR_PLACED";
  const int now_set = personality(0xffffffff);
  if (argc > 0 && getenv(kPlaced) == nullptr && setenv(kPlaced, "1", 1) == 0 && now_set != -1 &&
      (now_set & ADDR_NO_RANDOMIZE) == 0 && personality(static_cast<unsigned long>(now_set) | ADDR_NO_RANDOMIZE) != -1)
    execv("/proc/self/exe", argv);
  kernel.boot();
  kernel.complain = [](const char* what, Kernel::Address at, std::size_t bytes) {
    char text[120];
    snprintf(text, sizeof(text), "%s: %zu bytes at %#zx", what, bytes, at);
    world.fail(text);
  };
  if (dl_iterate_phdr(find_image, nullptr) == 0 || image.begin == nullptr) abort();
  image.saved.assign(image.begin, image.begin + image.filled);
  void* pointers = mmap(reinterpret_cast<void*>(kPointers), kMostThreads * kPointerStep, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED_NOREPLACE, -1, 0);
  if (pointers != reinterpret_cast<void*>(kPointers)) abort();
  void* shared = mmap(nullptr, kMostWords, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (shared == MAP_FAILED) abort();
  last_words = static_cast<char*>(shared);
  static char stack[65536];
  stack_t alternative = {};
  alternative.ss_sp = stack;
  alternative.ss_size = sizeof(stack);
  sigaltstack(&alternative, nullptr);
  struct sigaction action = {};
  action.sa_sigaction = on_fault;
  action.sa_flags = SA_SIGINFO | SA_ONSTACK | SA_NODEFER;
  for (const int number : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGVTALRM}) sigaction(number, &action, nullptr);
}

void World::reset(std::uint64_t seed) {
  restore_image();
  kernel.is_spoilt = failed();
  kernel.reset();
  failure_.clear();
  report_.clear();
  random = Random(seed);
  for (int t = 0; t < kMostThreads; ++t) {
    Thread& each = threads[t];
    each.state = Thread::kNone;
    each.section = nullptr;
    each.helper = nullptr;
    each.in_call = each.woken = false;
    each.depth = each.signals_blocked = 0;
    each.pointer = reinterpret_cast<char*>(kPointers + static_cast<std::size_t>(t) * kPointerStep);
    memset(each.pointer, 0, 512);
  }
  for (auto& weight : weights) weight = 0;
  for (auto& count : happened) count = 0;
  now = 1'000'000'000;
  is_child = false;
  lost_calls = lost_superblocks = kills_left = forks_left = children = 0;
  lost_bytes = 0;
  operations = 0;
  quiet_ = false;
  solo_depth_ = -1;
  first_ = current = 0;
}

void World::start(int t, void (*body)(int thread), unsigned cpu, bool registered) {
  Thread& each = threads[t];
  each.state = Thread::kReady;
  each.variables.assign(image.variable_bytes, 0);
  each.error = 0;
  each.section = nullptr;
  each.registered = registered;
  each.depth = each.signals_blocked = 0;
  each.in_call = each.woken = false;
  each.in_hand = each.superblocks = 0;
  each.body = body;
  each.helper = nullptr;
  move(each, cpu);
  *reinterpret_cast<int*>(each.pointer + kSimDecoyOffset + kCpuId) = -1;
  each.fiber.restart(entry, t);
}

void World::entry(int t) {
  Thread& self = world.threads[t];
  if (self.helper != nullptr) {
    self.in_call = true;
    self.helper();
    self.in_call = false;
    *self.helper_word = 0;  // the kernel's, as the thread ends
  } else {
    self.body(t);
  }
  self.state = Thread::kFinished;
  self.fiber.leave();
}

void World::move(Thread& t, unsigned cpu) {
  t.cpu = cpu;
  char* area = t.pointer + kRseqOffset;
  *reinterpret_cast<int*>(area + kCpuId) = t.registered ? static_cast<int>(cpu) : -1;
  *reinterpret_cast<unsigned*>(area + kNodeId) = cpu % nodes;
  *reinterpret_cast<unsigned*>(area + kMmCid) = t.registered ? cpu : 0;
  interrupt(t);
}

void World::interrupt(Thread& whose) {
  if (whose.section != nullptr) whose.section->interrupted = true;
}

void World::interrupt_sections() {
  for (Thread& each : threads)
    if (each.state != Thread::kNone) interrupt(each);
}

// A thread that runs on a CPU has interrupted what another did there.
void World::take_cpu(Thread& self) {
  for (Thread& other : threads)
    if (&other != &self && other.section != nullptr && other.cpu == self.cpu && self.registered) interrupt(other);
}

void World::resume(int t) {
  current = on_fiber_ = t;
  Thread& self = threads[t];
  take_cpu(self);
  memcpy(image.variables, self.variables.data(), image.variable_bytes);
  sim_thread_pointer = self.pointer;
  errno = self.error;
  self.fiber.resume();
  self.error = errno;
  memcpy(self.variables.data(), image.variables, image.variable_bytes);
}

void World::leave() { threads[on_fiber_].fiber.leave(); }

// Another thread that can go on, or -1.
int World::choose() {
  int ready[kMostThreads], count = 0;
  for (int t = 0; t < kMostThreads; ++t) {
    Thread& each = threads[t];
    if (each.state == Thread::kSleeping && (each.woken || each.wakes_at <= now)) each.state = Thread::kReady;
    if (each.state == Thread::kReady && t != kLast) ready[count++] = t;
  }
  if (count > 0) return ready[random.below(static_cast<std::uint64_t>(count))];
  // The program is at its end: a helper that is not asleep for long does what is due.
  for (int t = 0; t < kLast; ++t) {
    Thread& each = threads[t];
    if (each.state != Thread::kSleeping || each.wakes_at > now + kShortSleep) continue;
    now = each.wakes_at;
    each.state = Thread::kReady;
    return t;
  }
  return threads[kLast].state == Thread::kReady ? kLast : -1;
}

void World::run() {
  is_running = 1;
  if (sigsetjmp(after_fault, 0) != 0 && failure_.empty()) failure_ = report_;
  watch();
  if (!quiet_) draw();
  while (failure_.empty()) {
    const int next = choose();
    if (next < 0) break;
    resume(next);
  }
  is_running = 0;
  if (failure_.empty()) failure_ = kernel.check();
  if (!failure_.empty() && !report_.empty() && failure_ != report_) failure_ += " (" + report_ + ")";
  if (is_child) {
    snprintf(last_words, kMostWords, "%s", failure_.c_str());
    fflush(stdout);
    _exit(failed() ? 1 : 0);
  }
}

void World::fail(const std::string& what) {
  if (failure_.empty()) failure_ = what;
  if (is_running == 0) {
    fprintf(stderr, "simulator: %s\n", what.c_str());
    abort();
  }
  say("FAILED: %s", what.c_str());
  for (;;) leave();
}

// The first line that the malloc writes is kept.
void World::note_report(const char* text, std::size_t bytes) {
  if (!report_.empty()) return;
  report_.assign(text, bytes);
  report_.erase(report_.find_last_not_of('\n') + 1);
}

void World::draw() { sim_countdown = static_cast<long>(1 + random.about(pace)); }

World::Quiet::Quiet() : before_(sim_countdown), was_(world.quiet_), refused_(kernel.refuses) {
  world.quiet_ = true;
  kernel.refuses = false;
  sim_countdown = LONG_MAX;
}
World::Quiet::~Quiet() {
  world.quiet_ = was_;
  kernel.refuses = refused_;
  sim_countdown = was_ ? LONG_MAX : before_;
}

void World::begin_call(std::size_t in_hand, unsigned superblocks) {
  thread().in_call = true;
  thread().in_hand += in_hand;
  thread().superblocks += superblocks;
}
void World::end_call(std::size_t in_hand, unsigned superblocks) {
  Thread& self = thread();
  self.in_hand -= in_hand;
  self.superblocks -= superblocks;
  if (self.depth == 0) self.in_call = false;
  if (solo_depth_ >= self.depth) {
    if (kLongestCall - sim_countdown > longest_call) longest_call = kLongestCall - sim_countdown;
    solo_depth_ = -1;
    if (!quiet_) draw();
  }
  now += 1000;
}

void World::say(const char* format, ...) {
  if (!trace) return;
  va_list arguments;
  va_start(arguments, format);
  printf("%s%8llu t%d cpu%u  %*s", is_child ? "| " : "", static_cast<unsigned long long>(operations), current,
         thread().cpu, thread().depth * 2, "");
  vprintf(format, arguments);
  putchar('\n');
  va_end(arguments);
}

void World::event(const char* step) {
  if (quiet_) {
    sim_countdown = LONG_MAX;
    return;
  }
  if (solo_depth_ >= 0) fail("a call does not end while all other threads stand still");
  if (++operations > kMostEvents) fail("the program does not end");
  const int me = current;
  Thread& self = threads[me];
  if (self.section != nullptr && self.section->restarts >= kMostRestarts) return draw();
  std::uint64_t sum = 0;
  for (const auto weight : weights) sum += weight;
  std::uint64_t at = random.below(sum);
  int what = 0;
  while (at >= weights[what]) at -= weights[what++];
  draw();
  const char* where = step == nullptr ? "" : step;
  const bool deaf = self.signals_blocked != 0 || self.helper != nullptr || me == kLast;
  switch (what) {
    case kSwitch:
      now += random.below(2000);
      if (me != kLast) leave();
      break;
    case kSignal:
      if (deaf || self.depth >= 2 || signals_left == 0) break;
      --signals_left;
      say("signal %s", where);
      interrupt(self);
      ++self.depth;
      {
        SimSection* outer = self.section;
        const int error = errno;
        self.section = nullptr;
        on_signal_();
        errno = error;
        self.section = outer;
      }
      --self.depth;
      ++happened[what];
      break;
    case kMigrate:
      if (!self.registered) break;
      move(self, static_cast<unsigned>(random.below(cpus)));
      take_cpu(self);
      say("migrates %s", where);
      ++happened[what];
      break;
    case kKill:
      if (kills_left == 0 || me == kLast || !self.in_call) break;
      --kills_left;
      lose(self);
      say("stops for ever %s", where);
      ++happened[what];
      self.state = Thread::kGone;
      // Its section never commits; who runs on its CPU interrupts it.
      self.section = nullptr;
      for (;;) leave();
    case kFork:
      if (forks_left == 0 || deaf) break;
      --forks_left;
      say("forks %s", where);
      ++happened[what];
      interrupt(self);
      fork_process();
      break;
    case kClock:
      now += random.about(400'000'000);
      say("clock %llu ms", static_cast<unsigned long long>(now / 1'000'000));
      ++happened[what];
      break;
    case kAudit: {
      if (me == kLast || audits_left == 0) break;
      --audits_left;
      ++happened[what];
      // As another thread sees it, which finds all others stopped.
      const Quiet quiet;
      char mine[1024];
      const int error = errno;
      if (image.variable_bytes > sizeof(mine)) abort();
      memcpy(mine, image.variables, image.variable_bytes);
      memset(image.variables, 0, image.variable_bytes);
      sim_thread_pointer = threads[kAuditor].pointer;
      current = kAuditor;
      on_audit_();
      current = me;
      sim_thread_pointer = self.pointer;
      memcpy(image.variables, mine, image.variable_bytes);
      errno = error;
      break;
    }
    case kSolo:
      if (!self.in_call || self.helper != nullptr || me == kLast) break;
      say("alone %s", where);
      ++happened[what];
      solo_depth_ = self.depth;
      sim_countdown = kLongestCall;
      break;
    default: break;
  }
  if (self.section != nullptr && self.section->interrupted) {
    ++self.section->restarts;
    _longjmp(self.section->start, 1);
  }
}

// The calls that the thread is in do not come back: its own, and those of handlers.
void World::lose(Thread& t) {
  lost_calls += static_cast<unsigned>(t.depth) + 1;
  lost_bytes += t.in_hand;
  lost_superblocks += t.superblocks + static_cast<unsigned>(t.depth) + 1;
}

void World::fork_process() {
  fflush(stdout);
  last_words[0] = 0;
  const pid_t child = fork();
  if (child < 0) return;
  if (child > 0) {
    int status = 0;
    waitpid(child, &status, 0);
    ++children;
    if (!WIFEXITED(status) || WEXITSTATUS(status) != 0) fail(std::string("in the child of a fork: ") + last_words);
    return;
  }
  is_child = true;
  watch();
  first_ = current;
  kills_left = 0;
  for (int t = 0; t < kLast; ++t) {
    Thread& each = threads[t];
    if (t == current || (each.state != Thread::kReady && each.state != Thread::kSleeping)) continue;
    if (each.state == Thread::kReady && each.in_call) lose(each);
    each.state = Thread::kGone;
    each.section = nullptr;
  }
  kernel.wipe_for_child();
}

bool World::make_helper(unsigned* word, int (*f)()) {
  if (kernel.refuse()) return false;
  for (int t = kMostProgramThreads; t < kLast; ++t) {
    Thread& each = threads[t];
    if (each.state != Thread::kNone && each.state != Thread::kFinished) continue;
    start(t, nullptr, 0, /*registered=*/false);
    each.helper = f;
    each.helper_word = word;
    *word = static_cast<unsigned>(2000 + t);
    say("makes the helper t%d", t);
    return true;
  }
  return false;
}

bool World::wait(std::uint64_t ns, std::uint64_t* order) {
  Thread& self = thread();
  self.wakes_at = now + ns;
  self.woken = false;
  self.in_call = false;
  self.state = Thread::kSleeping;
  leave();
  self.in_call = true;
  *order = self.order;
  self.order = 0;
  return self.woken;
}

bool World::wake(unsigned tid) {
  if (kernel.refuse()) return false;
  for (Thread& each : threads)
    if (each.helper != nullptr && each.state == Thread::kSleeping &&
        tid == 2000 + static_cast<unsigned>(&each - threads))
      each.woken = true;
  return true;
}

// Thread-local variables of another thread's, which lie at the same distance from its pointer as the current thread's.
Thread* World::with_variables_at(std::uintptr_t address, const char** place) {
  for (Thread& each : threads) {
    if (each.state == Thread::kNone) continue;
    const std::uintptr_t mine =
        address - reinterpret_cast<std::uintptr_t>(each.pointer) + reinterpret_cast<std::uintptr_t>(sim_thread_pointer);
    const std::uintptr_t offset = mine - reinterpret_cast<std::uintptr_t>(image.variables);
    if (offset >= image.variable_bytes) continue;
    *place = (&each == &threads[current] ? image.variables : each.variables.data()) + offset;
    return &each;
  }
  return nullptr;
}

}  // namespace freeway::sim

// --- What the library calls ---

using namespace freeway::sim;

extern "C" {

long sim_countdown = LONG_MAX;
char* sim_thread_pointer = nullptr;
char** sim_environment = nullptr;
char sim_single_threaded = 1;
unsigned sim_rseq_size = 20;
long sim_rseq_offset = 64;
unsigned long sim_feature_size = 28;
unsigned sim_address_bits = 38;
const char* sim_fault = nullptr;

void sim_event(const char* step) { world.event(step); }

void sim_section_begin(SimSection* section) {
  section->outer = world.thread().section;
  section->interrupted = false;
  section->restarts = 0;
  world.thread().section = section;
}
void sim_section_end(SimSection* section) { world.thread().section = section->outer; }

bool sim_make_helper(unsigned* word, int (*f)()) { return world.make_helper(word, f); }
bool sim_wait(unsigned long ns, unsigned long* order) {
  std::uint64_t value = 0;
  const bool woken = world.wait(ns, &value);
  *order = value;
  return woken;
}
bool sim_wake(unsigned thread) { return world.wake(thread); }
void sim_become_bare() {}
void sim_block_signals(bool blocked) { world.thread().signals_blocked += blocked ? 1 : -1; }

bool sim_is_fault(const char* name, const char* file) {
  const char* colon = strchr(sim_fault, ':');
  if (strcmp(colon + 1, name) != 0) return false;
  const std::size_t header = static_cast<std::size_t>(colon - sim_fault), length = strlen(file);
  return length >= header && memcmp(file + length - header, sim_fault, header) == 0;
}

unsigned long sim_auxiliary(unsigned long type) noexcept {
  switch (type) {
    case AT_PAGESZ: return kernel.page;
    case AT_RANDOM: return (1UL << sim_address_bits) - 64;  // where the first stack is
    case 27: return sim_feature_size;                       // AT_RSEQ_FEATURE_SIZE
    default: return 0;
  }
}

int sim_clock(clockid_t, struct timespec* now) noexcept {
  now->tv_sec = static_cast<time_t>(world.now / 1'000'000'000);
  now->tv_nsec = static_cast<long>(world.now % 1'000'000'000);
  return 0;
}

[[noreturn]] void __wrap_abort() { world.fail("the malloc aborts"); }

static long answer(long number, unsigned long a, unsigned long b, unsigned long c, unsigned long d, unsigned long e,
                   unsigned long f) {
  switch (number) {
    case SYS_mmap: return kernel.map(a, b, static_cast<int>(c), static_cast<int>(d));
    case SYS_munmap: return kernel.unmap(a, b);
    case SYS_mprotect: return kernel.protect(a, b, static_cast<int>(c));
    case SYS_madvise: return kernel.advise(a, b, static_cast<int>(c));
    case SYS_mincore: return kernel.resident(a, b, reinterpret_cast<unsigned char*>(c));
    case SYS_mremap: return kernel.remap(a, b, c, static_cast<int>(d), e);
    case SYS_membarrier:
      if (kernel.refuse()) return -EPERM;
      if (a == MEMBARRIER_CMD_PRIVATE_EXPEDITED_RSEQ) world.interrupt_sections();
      return 0;
    case SYS_futex: {  // process::may_read
      const char* place = nullptr;
      if (world.with_variables_at(a, &place) == nullptr) return -EFAULT;
      unsigned value = 0;
      memcpy(&value, place, sizeof(value));
      return value == static_cast<unsigned>(f) ? 0 : -EAGAIN;
    }
    case SYS_sched_getaffinity:
      memset(reinterpret_cast<void*>(c), 0, 8);
      *reinterpret_cast<unsigned long*>(c) = (1UL << world.cpus) - 1;
      return 8;
    case SYS_getcpu: *reinterpret_cast<unsigned*>(b) = world.thread().cpu % world.nodes; return 0;
    case SYS_get_mempolicy: *reinterpret_cast<unsigned long*>(b) = (1UL << world.nodes) - 1; return 0;
    case SYS_getpid: return world.id();
    case SYS_gettid: return world.thread_id();
    case SYS_write:
      if (a != 2) return -EBADF;
      world.note_report(reinterpret_cast<const char*>(b), c);
      world.say("%.*s", static_cast<int>(c), reinterpret_cast<const char*>(b));
      return static_cast<long>(c);
    case SYS_getrandom:  // the first bits choose the window's place: Kernel::kBegin
      *reinterpret_cast<unsigned long*>(a) = kernel.drawn++ == 0 ? 0 : kernel.random.next();
      return static_cast<long>(b);
    case SYS_personality: return 0;
    case SYS_rt_sigprocmask:
    case SYS_rt_sigaction:
    case SYS_prctl:
    case SYS_close: return 0;
    case SYS_openat: return -ENOENT;
    default: return -ENOSYS;
  }
}

long sim_syscall(long number, unsigned long a, unsigned long b, unsigned long c, unsigned long d, unsigned long e,
                 unsigned long f) {
  ++kernel.calls;
  if (--sim_countdown <= 0) sim_event("system call");
  const long result = answer(number, a, b, c, d, e, f);
  if (world.trace && number != SYS_futex && number != SYS_getpid && number != SYS_gettid)
    world.say("system call %ld(%#lx, %#lx, %#lx) = %#lx", number, a, b, c, result);
  return result;
}
}
