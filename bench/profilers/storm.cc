// SPDX-License-Identifier: MIT
//
// storm: what profilers, crash reporters and servers do to a malloc, for so many seconds: threads allocate all the
// time, and meanwhile
//   handlers    SIGPROF comes 10,000 times a second; its handler allocates and frees
//   dumps       SIGPROF comes 200 times a second; its handler dumps the heap profile, and does nothing else
//   forks       main forks; each child allocates, dumps and ends
//   libraries   main loads and unloads a library whose constructor allocates, and dumps now and then
//
// storm SITUATION SECONDS LIBRARY COUNTERS: LIBRARY is the one to load. COUNTERS is a file in which each thread counts
// what it has done, in a page that it shares with who watches: if one of them does not move any more and the program
// has not ended, it hangs. Dumps go to the working folder, by whichever profiler there is; without one there are none.
#include <dlfcn.h>
#include <fcntl.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <string_view>

#ifndef sigev_notify_thread_id  // glibc names it from 2.37 on
#define sigev_notify_thread_id _sigev_un._tid
#endif

namespace {

constexpr int kThreads = 4, kSlots = 512;
constexpr long kAllocatingPerSecond = 10'000, kDumpingPerSecond = 200;
constexpr int kLoadsADump = 50, kBlocksOfAChild = 1000;

struct alignas(64) Counter {
  std::atomic<std::uint64_t> value{0};
};
Counter* counters;  // kThreads of the threads, and one of main
std::atomic<bool> over{false};
long signals_per_second = 0;

// --- Dumps ----------------------------------------------------------------------------------------------------------

int (*freeway_dump)(int) = nullptr;
int (*jemalloc_control)(const char*, void*, size_t*, void*, size_t) = nullptr;
void (*gperftools_dump)(const char*) = nullptr;

template <class Function> void look_up(const char* name, Function*& function) {
  function = reinterpret_cast<Function*>(dlsym(RTLD_DEFAULT, name));
}

// Those that are there and on: what the environment says.
void find_profiler() {
  if (getenv("FREEWAY_PROFILE") != nullptr) look_up("freeway_profile_dump", freeway_dump);
  if (getenv("MALLOC_CONF") != nullptr) look_up("mallctl", jemalloc_control);
  if (getenv("HEAPPROFILE") != nullptr) look_up("HeapProfilerDump", gperftools_dump);
}

void dump() {
  const char* name = "storm.heap";
  if (freeway_dump != nullptr) {
    const int file = open(name, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    freeway_dump(file);
    close(file);
  }
  if (jemalloc_control != nullptr) jemalloc_control("prof.dump", nullptr, nullptr, &name, sizeof(name));
  if (gperftools_dump != nullptr) gperftools_dump("storm");
}

// --- What threads do -------------------------------------------------------------------------------------------------

struct Random {
  std::uint64_t state;
  std::uint32_t below(std::uint32_t bound) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    return static_cast<std::uint32_t>((state >> 33) % bound);
  }
  // Mostly small, one in 64 up to 64 KiB.
  size_t size() { return below(64) == 0 ? 1 + below(65536) : 8 + below(1024); }
};

void replace(void*& slot, Random& random) {
  free(slot);
  const size_t size = random.size();
  slot = malloc(size);
  if (slot == nullptr) _exit(3);
  memset(slot, 0x5A, size < 64 ? size : 64);
}

void allocate_in_handler(int) {
  static std::atomic<unsigned> calls{0};
  const int saved = errno;
  const unsigned call = calls.fetch_add(1, std::memory_order_relaxed);
  Random random{call};
  void* blocks[4] = {};
  for (void*& block : blocks) replace(block, random);
  for (void* block : blocks) free(block);
  errno = saved;
}

void dump_in_handler(int) {
  const int saved = errno;
  dump();
  errno = saved;
}

// The calling thread gets its share of the signals.
timer_t signal_this_thread() {
  sigevent event{};
  event.sigev_notify = SIGEV_THREAD_ID;
  event.sigev_signo = SIGPROF;
  event.sigev_notify_thread_id = static_cast<pid_t>(syscall(SYS_gettid));
  timer_t timer{};
  if (timer_create(CLOCK_MONOTONIC, &event, &timer) != 0) _exit(4);
  const timespec gap{.tv_sec = 0, .tv_nsec = 1'000'000'000 / signals_per_second * kThreads};
  const itimerspec every{.it_interval = gap, .it_value = gap};
  timer_settime(timer, 0, &every, nullptr);
  return timer;
}

void* work(void* argument) {
  Counter* counter = static_cast<Counter*>(argument);
  Random random{static_cast<std::uint64_t>(counter - counters) + 1};
  void* slots[kSlots] = {};
  timer_t timer{};
  if (signals_per_second != 0) timer = signal_this_thread();
  while (!over.load(std::memory_order_relaxed)) {
    replace(slots[random.below(kSlots)], random);
    counter->value.fetch_add(1, std::memory_order_relaxed);
  }
  if (signals_per_second != 0) timer_delete(timer);
  for (void* slot : slots) free(slot);
  return nullptr;
}

// --- What main does meanwhile ----------------------------------------------------------------------------------------

void fork_once(Random& random) {
  const pid_t child = fork();
  if (child == 0) {
    void* slots[kSlots] = {};
    for (int i = 0; i < kBlocksOfAChild; ++i) replace(slots[random.below(kSlots)], random);
    dump();
    _exit(0);
  }
  int status = 0;
  if (child < 0 || waitpid(child, &status, 0) != child || status != 0) _exit(5);
}

void load_once(const char* library, std::uint64_t round) {
  void* handle = dlopen(library, RTLD_NOW | RTLD_LOCAL);
  if (handle == nullptr) {
    fprintf(stderr, "%s\n", dlerror());
    _exit(6);
  }
  dlclose(handle);
  if (round % kLoadsADump == 0) dump();
}

double now() {
  timespec time{};
  clock_gettime(CLOCK_MONOTONIC, &time);
  return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_nsec) * 1e-9;
}

void disturb(std::string_view situation, double seconds, const char* library) {
  Random random{99};
  const double end = now() + seconds;
  for (std::uint64_t round = 1; now() < end; ++round) {
    if (situation == "forks") {
      fork_once(random);
    } else if (situation == "libraries") {
      load_once(library, round);
    } else {
      usleep(1000);
    }
    counters[kThreads].value.fetch_add(1, std::memory_order_relaxed);
  }
}

}  // namespace

int main(int count, char** words) {
  if (count != 5) return 2;
  const std::string_view situation = words[1];
  const int file = open(words[4], O_RDWR | O_CREAT, 0600);
  if (file < 0 || ftruncate(file, sizeof(Counter) * (kThreads + 1)) != 0) return 2;
  void* page = mmap(nullptr, sizeof(Counter) * (kThreads + 1), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  if (page == MAP_FAILED) return 2;
  counters = static_cast<Counter*>(page);
  find_profiler();
  const bool dumps = situation == "dumps";
  signals_per_second = dumps ? kDumpingPerSecond : situation == "handlers" ? kAllocatingPerSecond : 0;
  struct sigaction action{};
  action.sa_handler = dumps ? dump_in_handler : allocate_in_handler;
  action.sa_flags = SA_RESTART;
  sigaction(SIGPROF, &action, nullptr);

  pthread_t threads[kThreads];
  for (int i = 0; i < kThreads; ++i) {
    if (pthread_create(&threads[i], nullptr, work, &counters[i]) != 0) return 2;
  }
  disturb(situation, strtod(words[2], nullptr), words[3]);
  over.store(true, std::memory_order_relaxed);
  for (pthread_t thread : threads) pthread_join(thread, nullptr);
  return 0;
}
