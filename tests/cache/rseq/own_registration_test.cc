// SPDX-License-Identifier: MIT
//
// Where the C library registers no rseq (GLIBC_TUNABLES=glibc.pthread.rseq=0) Freeway does, for each thread when it
// first comes off the fast path, once; and it gets along with others who do so. Whether a thread is registered shows in
// that another struct of rseq is refused.
#include <dlfcn.h>
#include <pthread.h>
#include <sys/wait.h>

#include <atomic>
#include <csignal>
#include <cstdio>

#include "tests/cache/rseq/registration.h"
#include "tests/support/proof.h"
#include "tests/whole/signal/support/block_mix.h"
#include "tests/whole/signal/support/case_runner.h"
#include "tests/whole/signal/support/heap_account.h"
#include "tests/whole/signal/support/signal_sender.h"

namespace {
std::atomic<uint64_t> keys_of_the_library{0};
}

// The program's comes before the C library's: keys whose destructor is Freeway's are counted.
extern "C" int pthread_key_create(pthread_key_t* key, void (*destructor)(void*)) {
  Dl_info of_destructor = {}, of_library = {};
  const bool known = destructor != nullptr && ::dladdr(reinterpret_cast<void*>(destructor), &of_destructor) != 0 &&
                     ::dladdr(reinterpret_cast<void*>(&::freeway_version), &of_library) != 0;
  if (known && of_destructor.dli_fbase == of_library.dli_fbase) keys_of_the_library++;
  static const auto theirs =
      reinterpret_cast<decltype(&::pthread_key_create)>(::dlsym(RTLD_NEXT, "pthread_key_create"));
  return theirs(key, destructor);
}

namespace {
using namespace freeway_test;

void use_the_heap(uint64_t seed, int rounds = 300) {
  Random random(seed);
  void* blocks[60] = {};
  for (int i = 0; i < rounds; i++) {
    void*& slot = blocks[random.below(60)];
    if (slot == nullptr) {
      slot = allocate_block(random, kUpToMedium);
    } else {
      release_block(slot);
      slot = nullptr;
    }
  }
  for (void* block : blocks)
    if (block != nullptr) release_block(block);
}

void in_a_thread(void (*f)()) {
  pthread_t thread;
  const auto run = [](void* argument) -> void* {
    reinterpret_cast<void (*)()>(argument)();
    return nullptr;
  };
  require(::pthread_create(&thread, nullptr, run, reinterpret_cast<void*>(f)) == 0, "no thread");
  ::pthread_join(thread, nullptr);
}

// Runs `f` in a child that `make` made; whether it said yes.
bool in_a_child(pid_t (*make)(), bool (*f)()) {
  const pid_t child = make();
  if (child == 0) ::_exit(f() ? 0 : 1);
  int status = -1;
  require(child > 0 && ::waitpid(child, &status, 0) == child && WIFEXITED(status), "a child failed");
  return WEXITSTATUS(status) == 0;
}

void a_thread_is_registered_at_its_first_call(const Options&) {
  require(is_registered(), "the first thread is not registered");
  in_a_thread([] {
    require(!is_registered(), "a thread that has called nothing is registered");
    ::free(::malloc(100));
    require(is_registered(), "a thread that called malloc is not registered");
    use_the_heap(1);
    require(is_registered(), "the thread lost its registration");
  });
  require_clean_audit("audit after the first calls");
}

// glibc keeps a thread's struct until the thread is gone, so there is no hook at its end: GUARANTEES.md.
void no_thread_exit_hook_is_made(const Options&) {
  in_a_thread([] {
    use_the_heap(9);
    require(is_registered(), "a thread that called malloc is not registered");
  });
  pthread_key_t own;
  require(::pthread_key_create(&own, [](void*) {}) == 0, "no key");
  require(keys_of_the_library == 0, "Freeway made a key of thread-specific data", keys_of_the_library);
}

void a_forked_child_stays_registered(const Options&) {
  in_a_thread([] {
    ::free(::malloc(100));
    const auto child = [] {
      const bool inherited = is_registered();
      use_the_heap(2);
      return inherited && is_registered();
    };
    require(in_a_child(::fork, child), "a forked child is not registered");
    require(is_registered(), "the parent is not registered after fork");
  });
}

// It would leave its parent's struct with its own CPU number.
void a_vfork_child_is_not_registered(const Options&) {
  in_a_thread([] {
    ::free(::malloc(100));
    const pid_t child = ::vfork();
    if (child == 0) {
      use_the_heap(3);
      ::_exit(is_registered() ? 1 : 0);
    }
    require(is_registered(), "the parent is not registered after vfork");
    int status = -1;
    require(::waitpid(child, &status, 0) == child && status == 0, "the child of a vfork is registered");
    use_the_heap(4);
  });
}

// Nor does the child register in its place, where the thread has not called the heap before.
void a_vfork_child_of_a_fresh_thread_is_not_registered(const Options&) {
  in_a_thread([] {
    const pid_t child = ::vfork();
    if (child == 0) {
      use_the_heap(3);
      ::_exit(is_registered() ? 1 : 0);
    }
    int status = -1;
    require(::waitpid(child, &status, 0) == child && status == 0, "the child of a vfork is registered");
    use_the_heap(4);
    require(is_registered(), "the parent is not registered after vfork");
  });
}

OtherRseq others[2];

void who_came_first_keeps_his_registration(const Options&) {
  in_a_thread([] {
    OtherRseq& other = others[0];
    require(other.enter(), "could not register");
    use_the_heap(5, 3000);
    require(other.cpu() >= 0, "the other's struct is not kept up to date any more");
    require(other.leave(), "the other's registration was taken away");
    use_the_heap(6);
    require(!is_registered(), "a thread that was refused once was registered later");
  });
  require_clean_audit("audit after another's registration");
}

void who_comes_later_is_refused(const Options&) {
  in_a_thread([] {
    ::free(::malloc(100));
    require(!others[1].enter(), "two structs are registered");
    use_the_heap(7, 3000);
    require(is_registered(), "the thread lost its registration");
  });
}

// Threads that live for some calls, under signals whose handler allocates, forks and vforks: before, while and after
// the thread is registered.
SignalSender sender;
std::atomic<uint64_t> handled{0};

void handler(int) {
  const int saved = errno;
  const uint64_t count = handled.fetch_add(1, std::memory_order_relaxed);
  use_the_heap(count, 20);
  if (count % 64 == 1)
    require(in_a_child(::fork,
                       [] {
                         use_the_heap(8, 50);
                         return true;
                       }),
            "a child failed");
  if (count % 64 == 33) {
    const pid_t child = ::vfork();
    if (child == 0) {
      ::free(::malloc(100));
      ::_exit(0);
    }
    ::waitpid(child, nullptr, 0);
  }
  errno = saved;
}

void* live_shortly(void* argument) {
  const auto slot = reinterpret_cast<uintptr_t>(argument);
  sender.set_target(slot, raw_gettid());
  volatile uintptr_t waited = 0;  // so that signals come at different times of its life
  while (waited < slot * 500) waited = waited + 1;
  use_the_heap(slot, 20);
  sender.set_target(slot, 0);
  return nullptr;
}

void threads_register_amid_signals(const Options& options) {
  struct sigaction action = {};
  action.sa_handler = handler;
  action.sa_flags = SA_RESTART;
  ::sigaction(SIGUSR1, &action, nullptr);
  sender.start(options.seed, {SIGUSR1}, 5, 100);
  uint64_t threads = 0;
  for (Deadline deadline(options.seconds); !deadline.passed() || threads < 100;) {
    pthread_t some[6];
    for (uintptr_t i = 0; i < 6; i++)
      require(::pthread_create(&some[i], nullptr, live_shortly, reinterpret_cast<void*>(i)) == 0, "no thread");
    for (pthread_t thread : some) ::pthread_join(thread, nullptr);
    threads += 6;
  }
  sender.stop();
  require(handled.load() != 0, "no signal came");
  require_clean_audit("audit after threads that registered amid signals");
  freeway::test::proof("interruptions", "threads that register for rseq", "handlers", handled.load());
  freeway::test::proof("interruptions", "threads that register for rseq", "threads", threads);
}

}  // namespace

int main(int argc, char** argv) {
  if (!rseq_mode() || !rseq_is_own()) {
    std::puts("skipped: the C library registers rseq");
    return kSkipStatus;
  }
  ::free(::malloc(1));
  if (!is_registered()) {
    std::puts("skipped: no rseq here");
    return kSkipStatus;
  }
  return run_cases(
      argc, argv,
      {{"a_thread_is_registered_at_its_first_call", a_thread_is_registered_at_its_first_call},
       {"no_thread_exit_hook_is_made", no_thread_exit_hook_is_made},
       {"a_forked_child_stays_registered", a_forked_child_stays_registered},
       {"a_vfork_child_is_not_registered", a_vfork_child_is_not_registered},
       {"a_vfork_child_of_a_fresh_thread_is_not_registered", a_vfork_child_of_a_fresh_thread_is_not_registered},
       {"who_came_first_keeps_his_registration", who_came_first_keeps_his_registration},
       {"who_comes_later_is_refused", who_comes_later_is_refused},
       {"threads_register_amid_signals", threads_register_amid_signals}});
}
