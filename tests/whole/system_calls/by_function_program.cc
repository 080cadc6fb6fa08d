// SPDX-License-Identifier: MIT
//
// Which system calls one exported function makes: by_function.py starts this once for each, and once more for each as
// the first call of the process. The gate catches all calls of the process here, so also those that the C library makes
// for the function.
//
//   program NAME          prints a line for each situation: "fast path: ", "slow paths: " … and the calls' names
//   program NAME first    the same for "first call: ", where nothing has been called before
//   program (constructor) the same for the library's own, when it is loaded
//   program list          prints all names, each with its kind
#include <dlfcn.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <new>
#include <utility>

#include "freeway/freeway.h"
#include "freeway/heap.h"
#include "freeway/shared.h"
#include "tests/support/cpu_affinity.h"
#include "tests/whole/signal/support/failure.h"
#include "tests/whole/system_calls/gate.h"
#include "tests/whole/system_calls/names.h"

#if !defined(__x86_64__)
int main() { return freeway_test::kSkipStatus; }
#else

extern "C" {
void free_sized(void* block, size_t size) noexcept;
void free_aligned_sized(void* block, size_t alignment, size_t size) noexcept;
void cfree(void* block) noexcept;
size_t nallocx(size_t size, int flags) noexcept;
freeway_sized_block_t sized_new(size_t size) __asm__("__size_returning_new");
freeway_sized_block_t sized_aligned_new(size_t size,
                                        std::align_val_t alignment) __asm__("__size_returning_new_aligned");
}

namespace {
using namespace freeway_test;

constexpr size_t kAlignment = 64;
constexpr auto kAligned = std::align_val_t{kAlignment};

template <class T> T hidden(T value) {
  asm volatile("" : "+r"(value) : : "memory");
  return value;
}

freeway_heap_t the_heap = nullptr;
freeway_heap_t own_heap() {
  if (the_heap == nullptr) the_heap = ::freeway_heap_new(nullptr, 0);
  return the_heap;
}

// --- The functions, by what they do.
// ----------------------------------------------------------------------------------

using Allocate = void* (*)(size_t);
using Free = void (*)(void*, size_t);
using Resize = void* (*)(void*, size_t);
using Other = void (*)();

// Longer than caches and free memory are kept for a thread that says it is idle. Makes no system call itself.
void rest() {
  constexpr auto kLonger = std::chrono::milliseconds(1100);
  for (const auto began = std::chrono::steady_clock::now(); std::chrono::steady_clock::now() - began < kLonger;)
    continue;
}

struct Function {
  const char* name;
  Allocate allocate = nullptr;
  Free free = nullptr;
  Resize resize = nullptr;
  Other other = nullptr;
};

template <class F> void* or_null(F&& f) {
  try {
    return f();
  } catch (const std::bad_alloc&) { return nullptr; }
}

FILE* null_stream = nullptr;
int null_fd = -1;

void spawn() {
  const pid_t child = ::vfork();
  if (child == 0) ::_exit(0);
  gate::counting = false;
  if (child > 0) ::waitpid(child, nullptr, 0);
  gate::counting = true;
}

// Asks about what is left of ten superblocks.
void move_some() {
  constexpr size_t kBlocks = 640;
  void* some[kBlocks];
  gate::counting = false;
  for (void*& block : some) block = hidden(::malloc(1000));
  for (size_t i = 0; i < kBlocks; i++)
    if (i % 9 != 0) ::free(std::exchange(some[i], nullptr));
  gate::counting = true;
  for (size_t i = 0; i < kBlocks; i += 9) (void)hidden(::freeway_should_move(some[i]));
  gate::counting = false;
  for (void* block : some) ::free(block);
  gate::counting = true;
}

template <class F> void uncounted(F&& f) {
  const bool counted = gate::counting.exchange(false);
  f();
  gate::counting = counted;
}

int empty_file() {
  int fd = -1;
  uncounted([&] { fd = ::memfd_create("heap", MFD_CLOEXEC); });
  return fd;
}

// A heap that processes share: made once, beside what is counted.
freeway_shared_t* shared = nullptr;
int shared_fd = -1;
freeway_shared_t* shared_heap() {
  if (shared != nullptr) return shared;
  shared_fd = empty_file();
  uncounted([] { shared = ::freeway_shared_create(shared_fd, nullptr, 0); });
  return shared;
}
void* shared_block(size_t bytes) {
  void* block = nullptr;
  shared_heap(), uncounted([&] { block = ::freeway_shared_malloc(shared, bytes); });
  return block;
}
// Sizes of small and large blocks, in and out of the seat's magazines.
template <class F> void each_shared_size(F&& f) {
  for (const size_t bytes : {size_t{64}, size_t{3000}, size_t{30'000}, size_t{300'000}, size_t{2'500'000}})
    for (size_t i = 0; i < 4'000'000 / bytes + 1 && i < 300; i++) f(bytes);
}
void take_shared(void* (*take)(size_t)) {
  each_shared_size([&](size_t bytes) {
    void* block = hidden(take(bytes));
    uncounted([&] { ::freeway_shared_free(shared, block); });
  });
}

constexpr Function kFunctions[] = {
    {.name = "malloc", .allocate = [](size_t n) { return ::malloc(n); }},
    {.name = "calloc", .allocate = [](size_t n) { return ::calloc(1, n); }},
    {.name = "aligned_alloc", .allocate = [](size_t n) { return ::aligned_alloc(kAlignment, n); }},
    {.name = "memalign", .allocate = [](size_t n) { return ::memalign(kAlignment, n); }},
    {.name = "posix_memalign",
     .allocate =
         [](size_t n) {
           void* block = nullptr;
           return ::posix_memalign(&block, kAlignment, n) == 0 ? block : nullptr;
         }},
    {.name = "valloc", .allocate = [](size_t n) { return ::valloc(n); }},
    {.name = "pvalloc", .allocate = [](size_t n) { return ::pvalloc(n); }},
    {.name = "freeway_malloc_batch",
     .allocate =
         [](size_t n) {
           void* block = nullptr;
           return ::freeway_malloc_batch(n, 1, &block) == 1 ? block : nullptr;
         }},
    {.name = "freeway_alloc_at_least", .allocate = [](size_t n) { return ::freeway_alloc_at_least(n).ptr; }},
    {.name = "freeway_aligned_alloc_at_least",
     .allocate = [](size_t n) { return ::freeway_aligned_alloc_at_least(kAlignment, n).ptr; }},
    {.name = "__size_returning_new", .allocate = [](size_t n) { return or_null([n] { return sized_new(n).ptr; }); }},
    {.name = "__size_returning_new_aligned",
     .allocate = [](size_t n) { return or_null([n] { return sized_aligned_new(n, kAligned).ptr; }); }},
    {.name = "_Znwm", .allocate = [](size_t n) { return or_null([n] { return ::operator new(n); }); }},
    {.name = "_Znam", .allocate = [](size_t n) { return or_null([n] { return ::operator new[](n); }); }},
    {.name = "_ZnwmRKSt9nothrow_t", .allocate = [](size_t n) { return ::operator new(n, std::nothrow); }},
    {.name = "_ZnamRKSt9nothrow_t", .allocate = [](size_t n) { return ::operator new[](n, std::nothrow); }},
    {.name = "_ZnwmSt11align_val_t",
     .allocate = [](size_t n) { return or_null([n] { return ::operator new(n, kAligned); }); }},
    {.name = "_ZnamSt11align_val_t",
     .allocate = [](size_t n) { return or_null([n] { return ::operator new[](n, kAligned); }); }},
    {.name = "_ZnwmSt11align_val_tRKSt9nothrow_t",
     .allocate = [](size_t n) { return ::operator new(n, kAligned, std::nothrow); }},
    {.name = "_ZnamSt11align_val_tRKSt9nothrow_t",
     .allocate = [](size_t n) { return ::operator new[](n, kAligned, std::nothrow); }},
    {.name = "free", .free = [](void* p, size_t) { ::free(p); }},
    {.name = "cfree", .free = [](void* p, size_t) { ::cfree(p); }},
    {.name = "free_sized", .free = [](void* p, size_t n) { ::free_sized(p, n); }},
    {.name = "free_aligned_sized", .free = [](void* p, size_t n) { ::free_aligned_sized(p, 16, n); }},
    {.name = "freeway_free_batch", .free = [](void* p, size_t) { ::freeway_free_batch(1, &p); }},
    {.name = "_ZdlPv", .free = [](void* p, size_t) { ::operator delete(p); }},
    {.name = "_ZdaPv", .free = [](void* p, size_t) { ::operator delete[](p); }},
    {.name = "_ZdlPvRKSt9nothrow_t", .free = [](void* p, size_t) { ::operator delete(p, std::nothrow); }},
    {.name = "_ZdaPvRKSt9nothrow_t", .free = [](void* p, size_t) { ::operator delete[](p, std::nothrow); }},
    {.name = "_ZdlPvm", .free = [](void* p, size_t n) { ::operator delete(p, n); }},
    {.name = "_ZdaPvm", .free = [](void* p, size_t n) { ::operator delete[](p, n); }},
    {.name = "_ZdlPvSt11align_val_t", .free = [](void* p, size_t) { ::operator delete(p, kAligned); }},
    {.name = "_ZdaPvSt11align_val_t", .free = [](void* p, size_t) { ::operator delete[](p, kAligned); }},
    {.name = "_ZdlPvmSt11align_val_t", .free = [](void* p, size_t n) { ::operator delete(p, n, kAligned); }},
    {.name = "_ZdaPvmSt11align_val_t", .free = [](void* p, size_t n) { ::operator delete[](p, n, kAligned); }},
    {.name = "_ZdlPvSt11align_val_tRKSt9nothrow_t",
     .free = [](void* p, size_t) { ::operator delete(p, kAligned, std::nothrow); }},
    {.name = "_ZdaPvSt11align_val_tRKSt9nothrow_t",
     .free = [](void* p, size_t) { ::operator delete[](p, kAligned, std::nothrow); }},
    {.name = "realloc", .resize = [](void* p, size_t n) { return ::realloc(p, n); }},
    {.name = "reallocarray", .resize = [](void* p, size_t n) { return ::reallocarray(p, 1, n); }},
    {.name = "malloc_usable_size",
     .resize =
         [](void* p, size_t) {
           (void)hidden(::malloc_usable_size(p));
           return static_cast<void*>(nullptr);
         }},
    {.name = "freeway_heap_malloc", .allocate = [](size_t n) { return ::freeway_heap_malloc(own_heap(), n); }},
    {.name = "freeway_heap_calloc", .allocate = [](size_t n) { return ::freeway_heap_calloc(own_heap(), 1, n); }},
    {.name = "freeway_heap_aligned_alloc",
     .allocate = [](size_t n) { return ::freeway_heap_aligned_alloc(own_heap(), kAlignment, n); }},
    {.name = "freeway_heap_realloc",
     .allocate = [](size_t n) { return ::freeway_heap_realloc(own_heap(), nullptr, n); }},
    {.name = "freeway_heap_new", .other = [] { own_heap(); }},
    {.name = "freeway_heap_trim", .other = [] { ::freeway_heap_trim(own_heap()); }},
    {.name = "freeway_heap_stats", .other = [] { ::freeway_heap_stats(own_heap(), nullptr, 0); }},
    {.name = "freeway_heap_destroy", .other = [] { ::freeway_heap_destroy(std::exchange(the_heap, nullptr)); }},
    {.name = "malloc_trim", .other = [] { ::malloc_trim(0); }},
    {.name = "freeway_trim", .other = [] { ::freeway_trim(1 << 20); }},
    {.name = "freeway_reserve", .other = [] { ::freeway_reserve(1000, 100), ::freeway_reserve(100'000, 3); }},
    {.name = "freeway_set_limit", .other = [] { ::freeway_set_limit(1 << 20, 0), ::freeway_set_limit(0, 0); }},
    {.name = "freeway_trim_step", .other = [] { ::freeway_trim_step(1 << 20); }},
    {.name = "freeway_idle", .other = [] { ::freeway_idle(), rest(), ::freeway_idle(); }},
    {.name = "freeway_stats",
     .other =
         [] {
           freeway_stats_t stats;
           ::freeway_stats(&stats, sizeof stats);
         }},
    {.name = "freeway_audit",
     .other =
         [] {
           freeway_audit_t audit;
           require(::freeway_audit(&audit, sizeof audit) == 0, "audit");
         }},
    {.name = "freeway_explain", .other = [] { ::freeway_explain(&environ, nullptr, 0); }},
    {.name = "freeway_explain_to", .other = [] { ::freeway_explain_to(2, &environ); }},
    {.name = "freeway_block_info", .other = [] { ::freeway_block_info(&environ, nullptr, 0); }},
    {.name = "freeway_should_move", .other = [] { move_some(); }},
    {.name = "freeway_profile_start", .other = [] { ::freeway_profile_start(1 << 19); }},
    {.name = "freeway_profile_stop", .other = [] { ::freeway_profile_stop(); }},
    {.name = "freeway_profile_dump", .other = [] { ::freeway_profile_dump(2); }},
    {.name = "freeway_tag", .other = [] { ::freeway_tag(1); }},
    {.name = "freeway_shared_create",
     .other =
         [] {
           const int fd = empty_file();
           freeway_shared_t* made = ::freeway_shared_create(fd, nullptr, 0);
           uncounted([&] { ::freeway_shared_detach(made), ::close(fd); });
         }},
    {.name = "freeway_shared_attach",
     .other =
         [] {
           shared_heap();
           freeway_shared_t* attached = ::freeway_shared_attach(shared_fd);
           uncounted([&] { ::freeway_shared_detach(attached); });
         }},
    {.name = "freeway_shared_detach",
     .other =
         [] {
           freeway_shared_t* attached = nullptr;
           shared_heap(), uncounted([&] { attached = ::freeway_shared_attach(shared_fd); });
           ::freeway_shared_detach(attached);
         }},
    {.name = "freeway_shared_malloc",
     .other = [] { take_shared([](size_t n) { return ::freeway_shared_malloc(shared_heap(), n); }); }},
    {.name = "freeway_shared_calloc",
     .other = [] { take_shared([](size_t n) { return ::freeway_shared_calloc(shared_heap(), 1, n); }); }},
    {.name = "freeway_shared_aligned_alloc",
     .other =
         [] { take_shared([](size_t n) { return ::freeway_shared_aligned_alloc(shared_heap(), kAlignment, n); }); }},
    {.name = "freeway_shared_free",
     .other = [] { each_shared_size([](size_t n) { ::freeway_shared_free(shared_heap(), shared_block(n)); }); }},
    {.name = "freeway_shared_usable_size",
     .other = [] { (void)hidden(::freeway_shared_usable_size(shared_heap(), shared_block(100))); }},
    {.name = "freeway_shared_offset",
     .other = [] { (void)hidden(::freeway_shared_offset(shared_heap(), shared_block(100))); }},
    {.name = "freeway_shared_pointer", .other = [] { (void)hidden(::freeway_shared_pointer(shared_heap(), 1 << 22)); }},
    {.name = "freeway_shared_alloc_into",
     .other =
         [] {
           auto* slot = static_cast<uint64_t*>(shared_block(8));
           each_shared_size([slot](size_t n) { ::freeway_shared_alloc_into(shared_heap(), slot, n); });
         }},
    {.name = "freeway_shared_free_from",
     .other =
         [] {
           auto* slot = static_cast<uint64_t*>(shared_block(8));
           each_shared_size([slot](size_t n) {
             *slot = reinterpret_cast<uint64_t>(shared_block(n)) - reinterpret_cast<uint64_t>(slot);
             *slot += ::freeway_shared_offset(shared_heap(), slot);
             ::freeway_shared_free_from(shared_heap(), slot);
           });
         }},
    {.name = "freeway_shared_root_find", .other = [] { ::freeway_shared_root_find(shared_heap(), "root"); }},
    {.name = "freeway_shared_root_replace",
     .other = [] { ::freeway_shared_root_replace(shared_heap(), "root", 0, 0); }},
    {.name = "freeway_shared_recover", .other = [] { ::freeway_shared_recover(shared_heap()); }},
    {.name = "freeway_shared_trim",
     .other =
         [] {
           uncounted([] { each_shared_size([](size_t n) { ::freeway_shared_free(shared_heap(), shared_block(n)); }); });
           ::freeway_shared_trim(shared);
         }},
    {.name = "freeway_shared_stats",
     .other =
         [] {
           freeway_shared_stats_t stats;
           ::freeway_shared_stats(shared_heap(), &stats, sizeof stats);
         }},
    {.name = "freeway_shared_audit", .other = [] { ::freeway_shared_audit(shared_heap(), nullptr, 0); }},
    {.name = "mallinfo2", .other = [] { (void)::mallinfo2(); }},
    {.name = "mallinfo", .other = [] { (void)::freeway_mallinfo(); }},
    {.name = "nallocx", .other = [] { (void)hidden(::nallocx(100, 0)); }},
    {.name = "mallopt", .other = [] { ::mallopt(M_MXFAST, 64); }},
    {.name = "malloc_stats", .other = [] { ::malloc_stats(); }},
    {.name = "malloc_info", .other = [] { ::malloc_info(0, null_stream); }},
    {.name = "freeway_version", .other = [] { (void)hidden(::freeway_version()); }},
    {.name = "dlopen", .other = [] { ::dlclose(::dlopen(nullptr, RTLD_NOW)); }},
    {.name = "vfork", .other = spawn},
};

// --- The situations.
// --------------------------------------------------------------------------------------------------

enum Situation { kFirst, kFast, kSlow, kRefused, kBadPointer, kSituations };
constexpr const char* kNames[] = {"first call", "fast path", "slow paths", "memory refused", "bad pointer"};
Report reports[kSituations];
Situation situation = kFirst;

// Counts the system calls of f alone.
template <class F> auto measured(F&& f) {
  struct Window {
    Window() {
      gate::report = &reports[situation];
      gate::refusing = situation == kRefused;
      gate::counting = true;
    }
    ~Window() { gate::counting = gate::refusing = false; }
  } window;
  return f();
}

constexpr struct {
  size_t bytes, count;
} kBursts[] = {{64, 6000}, {3000, 300}, {20'000, 150}, {50'000, 20}, {3'000'000, 6}, {(300 << 20) + 70'000, 3}};
void* blocks[6000];

// Bursts of blocks, all taken by `take`, then all given by `give`.
template <class Take, class Give> void bursts(Take&& take, Give&& give) {
  for (const auto& burst : kBursts) {
    for (size_t i = 0; i < burst.count; i++) blocks[i] = take(burst.bytes);
    for (size_t i = 0; i < burst.count; i++)
      if (blocks[i] != nullptr) give(blocks[i], burst.bytes);
  }
}

void* plain_malloc(size_t bytes) { return hidden(::malloc(bytes)); }
void plain_free(void* block, size_t) { ::free(block); }

// Where the kernel places the next mapping decides whether something must be cut off for alignment.
void shift_mappings() { (void)hidden(::mmap(nullptr, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0)); }

// What was free and dirty throughout a tick of a quarter of a second is too much: the next slow call gives it back.
template <class Give> void forget_the_peak(Give&& give) {
  for (size_t i = 0; i < 1200; i++) blocks[i] = plain_malloc(50'000);
  for (size_t i = 0; i < 1200; i++) {
    give(blocks[i], 50'000);
    const timespec tick{0, 260'000'000};
    if (i >= 1000 && i % 50 == 0) ::nanosleep(&tick, nullptr);
  }
}

void run_allocate(Allocate allocate) {
  const auto take = [&](size_t n) { return measured([&] { return hidden(allocate(n)); }); };
  situation = kFast;
  // So many that a heap of the program's has outgrown its strips, which have no magazine where there is no rseq.
  for (int i = 0; i < 20'000; i++) plain_free(hidden(allocate(64)), 64);
  for (int i = 0; i < 2000; i++) plain_free(take(64), 64);
  situation = kSlow;
  for (int cpu = 0; cpu < 2; cpu++) {
    stay_on(usable_cpus()[static_cast<size_t>(cpu) % usable_cpus().size()]);
    for (int i = 0; i < 2; i++, shift_mappings(), ::malloc_trim(0)) bursts(take, plain_free);
  }
  forget_the_peak([](void* p, size_t) { ::free(p); });
  for (size_t i = 0; i < 3000; i++) blocks[i] = take(20'000);
  for (size_t i = 0; i < 3000; i++) ::free(blocks[i]);
  situation = kRefused;
  for (int i = 0; i < 2; i++)
    for (const size_t bytes : {size_t{64}, size_t{3000}, size_t{50'000}, size_t{3'000'000}, size_t{300} << 20}) {
      size_t held = 0;
      for (void* block; held < 3000 && (block = take(bytes)) != nullptr; held++) blocks[held] = block;
      while (held > 0) ::free(blocks[--held]);
    }
}

void run_free(Free give) {
  const auto measured_give = [&](void* p, size_t n) { measured([&] { give(p, n); }); };
  situation = kFast;
  for (int i = 0; i < 2000; i++) {
    void* block = plain_malloc(64);
    if (i < 200) give(block, 64);
    else measured_give(block, 64);
  }
  situation = kSlow;
  for (int cpu = 0; cpu < 2; cpu++) {
    stay_on(usable_cpus()[static_cast<size_t>(cpu) % usable_cpus().size()]);
    for (int i = 0; i < 2; i++, shift_mappings(), ::malloc_trim(0)) bursts(plain_malloc, measured_give);
  }
  forget_the_peak(measured_give);
  situation = kRefused;
  bursts(plain_malloc, measured_give);
  situation = kBadPointer;
  alignas(16) static char no_block[64];
  measured_give(hidden(no_block), 1);
}

void run_resize(Resize resize) {
  const auto keep = [&](void* block, size_t n) {
    void* moved = measured([&] { return hidden(resize(block, n)); });
    return moved != nullptr ? moved : block;
  };
  situation = kFast;
  void* block = plain_malloc(64);
  for (int i = 0; i < 1000; i++) block = keep(block, i % 2 == 0 ? 60 : 40);
  constexpr size_t kSizes[] = {200,       3000,      40'000,    50'000,    200'000, 6'000'000,
                               300 << 20, 310 << 20, 600 << 20, 280 << 20, 100'000, 100};
  for (const Situation s : {kSlow, kRefused})
    for (int i = 0; i < 3; i++, shift_mappings(), ::malloc_trim(0))
      for (const size_t n : kSizes) {
        situation = s;
        void* beside = plain_malloc(n);  // in the way, sometimes
        block = keep(block, n);
        ::free(beside);
        situation = kSlow;
        if (s == kRefused) block = keep(block, n);
      }
  situation = kBadPointer;
  alignas(16) static char no_block[64];
  measured([&] { return hidden(resize(hidden(no_block), 100)); });
  ::free(block);
}

void run_other(Other other) {
  situation = kSlow;
  for (int i = 0; i < 3; i++) {
    bursts(plain_malloc, plain_free);
    for (size_t n = 0; n < 3000; n++) blocks[n] = plain_malloc(100);
    for (size_t n = 0; n < 3000; n++)
      if (n % 80 != 0) ::free(blocks[n]);
    measured(other);
    situation = kRefused;
    measured(other);
    situation = kSlow;
    for (size_t n = 0; n < 3000; n += 80) ::free(blocks[n]);
  }
}

void run_first(const Function& f) {
  situation = kFirst;
  if (f.allocate != nullptr) (void)measured([&] { return hidden(f.allocate(100)); });
  if (f.free != nullptr) measured([&] { f.free(nullptr, 0); });
  if (f.resize != nullptr) (void)measured([&] { return hidden(f.resize(nullptr, 100)); });
  if (f.other != nullptr) measured(f.other);
}

void print() {
  for (int s = 0; s < kSituations; s++) {
    Line line;
    line.text(kNames[s]).text(":");
    for (const SystemCall& call : kSystemCalls)
      if (reports[s].made[call.number] != 0) line.text(" ").text(call.name);
    line.write_to(1);
    for (size_t number = 0; number < kMostNumbers; number++)
      require(reports[s].made[number] == 0 || find_system_call(number) != nullptr, "a call without a name in names.h",
              number);
  }
}

// Functions of a kind share their slow paths.
const char* kind_of(const Function& f) {
  const bool throws = std::strncmp(f.name, "_Zn", 3) == 0 && std::strstr(f.name, "nothrow") == nullptr;
  if (std::strncmp(f.name, "freeway_shared_", 15) == 0) return f.name;
  if (f.allocate != nullptr) return throws ? "throwing" : "allocating";
  if (f.free != nullptr) return "freeing";
  if (std::strstr(f.name, "trim") != nullptr || std::strcmp(f.name, "freeway_idle") == 0) return "trimming";
  if (std::strstr(f.name, "mallinfo") != nullptr || std::strcmp(f.name, "freeway_stats") == 0) return "telling";
  return f.resize != nullptr && std::strcmp(f.name, "malloc_usable_size") != 0 ? "resizing" : f.name;
}

const Function* find(const char* name) {
  for (const Function& f : kFunctions)
    if (std::strcmp(f.name, name) == 0) return &f;
  return nullptr;
}

constexpr char kConstructor[] = "(constructor)";

void first_of_all(int argc, char** argv, char**) {
  if (argc == 2 && std::strcmp(argv[1], kConstructor) == 0) {
    gate::report = &reports[kFirst];
    return gate::install(gate::text_of_library());
  }
  const Function* f = argc > 1 ? find(argv[1]) : nullptr;
  if (f == nullptr) return;
  gate::counting = false;
  gate::plan.budget = gate::plan.longest_map = 1;
  null_fd = ::open("/dev/null", O_WRONLY | O_CLOEXEC);
  const int kept = ::dup(2);
  ::dup2(null_fd, 2);
  gate::install({});
  // malloc_info needs a FILE, and that a call of malloc.
  if (argc > 2 && std::strcmp(f->name, "malloc_info") != 0) run_first(*f);
  ::dup2(kept, 2);
}
[[gnu::section(".preinit_array"), gnu::used]] void (*const preinit)(int, char**, char**) = first_of_all;

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2) return 2;
  gate::counting = false;
  if (std::strcmp(argv[1], kConstructor) == 0) {
    print();
    return 0;
  }
  const Function* f = find(argv[1]);
  if (f == nullptr) {
    std::printf("%s constructor\n", kConstructor);
    for (const Function& each : kFunctions) std::printf("%s %s\n", each.name, kind_of(each));
    return std::strcmp(argv[1], "list") == 0 ? 0 : 2;
  }
  const int kept = ::dup(2);
  ::dup2(null_fd, 2);  // reports and figures
  null_stream = ::fdopen(null_fd, "w");
  if (argc == 2) {
    if (f->allocate != nullptr) run_allocate(f->allocate);
    if (f->free != nullptr) run_free(f->free);
    if (f->resize != nullptr) run_resize(f->resize);
    if (f->other != nullptr) run_other(f->other);
  }
  ::dup2(kept, 2);
  print();
  return 0;
}
#endif
