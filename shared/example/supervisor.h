// SPDX-License-Identifier: MIT
//
// supervisor.h: starts workers, kills them at random, recovers the heap, starts their successors, and counts in the
// end.
#pragma once

#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include <cstdlib>
#include <new>
#include <optional>

#include "load.h"

namespace cache {

struct Options {
  unsigned long workers = 4;
  unsigned long kills = 5000;
  unsigned long operations = 0;     // at least so many of all workers together, if need be after the last kill
  unsigned long interval_us = 500;  // between two kills, on average, beside what the killer waits for
  unsigned long buckets = 4096;
  unsigned long capacity_mib = 256;
  unsigned long seed = 1;
  unsigned long watch_s = 10;  // a worker that does nothing for so long hangs; 0: nobody looks

  bool parse(int argc, char** argv) {
    struct {
      const char* name;
      unsigned long* value;
    } const all[] = {{"--workers", &workers},
                     {"--kills", &kills},
                     {"--operations", &operations},
                     {"--interval-us", &interval_us},
                     {"--buckets", &buckets},
                     {"--capacity-mib", &capacity_mib},
                     {"--seed", &seed},
                     {"--watch", &watch_s}};
    for (int i = 1; i < argc; i += 2) {
      bool known = false;
      for (const auto& option : all) {
        if (std::strcmp(argv[i], option.name) != 0 || i + 1 == argc) continue;
        char* end = argv[i + 1];
        *option.value = std::strtoul(argv[i + 1], &end, 10);
        known = end != argv[i + 1] && *end == 0;
      }
      if (!known) {
        std::fprintf(stderr, "usage: %s", argv[0]);
        for (const auto& option : all) std::fprintf(stderr, " [%s N]", option.name);
        std::fputs("\n", stderr);
        return false;
      }
    }
    return workers >= 1 && workers <= kMaxWorkers && buckets >= 1;
  }
};

constexpr int kHung = 2;  // exit status

template <class Heap> class Supervisor {
 public:
  explicit Supervisor(const Options& options)
      : options_(options), random_(options.seed), heap_(std::size_t{options.capacity_mib} << 20) {}

  int run() {
    void* shared = mmap(nullptr, sizeof(Board), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (heap_.is_there() && shared != MAP_FAILED) table_ = Cache<Heap>::make(heap_, options_.buckets, options_.workers);
    if (table_ == 0) return std::perror(Heap::kName), 1;
    board_ = new (shared) Board{};
    const Word begin = now_ns();
    for (unsigned w = 0; w < options_.workers; ++w) start(w);
    while (kills_ < options_.kills)
      if (!disturb()) return describe_hang();
    while (operations() < options_.operations) usleep(1000);
    const double seconds = static_cast<double>(now_ns() - begin) / 1e9;
    board_->over = true;
    for (unsigned w = 0; w < options_.workers; ++w) {
      if (places_[w].stopped) end(w);
      else reap(w, /*killed=*/false);
    }
    return recover() && report(seconds) ? 0 : kWrong;
  }

 private:
  struct Place {
    pid_t process;
    bool stopped;
    Word operations;  // of all workers here, when this one began
  };

  void start(unsigned w) {
    Post& post = board_->posts[w];
    post.doing = kElsewhere;
    const std::uint64_t seed = random_.next();
    const pid_t supervisor = getpid(), process = fork();
    if (process < 0) fail("fork");
    if (process == 0) {
      prctl(PR_SET_PDEATHSIG, SIGKILL);
      if (getppid() != supervisor) _exit(0);
      Worker<Heap> worker(heap_, table_, *board_, w, static_cast<unsigned>(options_.workers), seed);
      worker.take_over();
      worker.work();
      _exit(0);
    }
    places_[w] = {process, false, load(post.operations)};
  }

  void reap(unsigned w, bool killed) {
    int status = 0;
    if (waitpid(places_[w].process, &status, 0) != places_[w].process) fail("waitpid");
    if (killed ? !WIFSIGNALED(status) || WTERMSIG(status) != SIGKILL : status != 0) {
      std::fprintf(stderr, "worker %u ended with status %#x\n", w, static_cast<unsigned>(status));
      std::exit(kWrong);
    }
  }

  void end(unsigned w) {
    kill(places_[w].process, SIGKILL);
    reap(w, /*killed=*/true);
    ++kills_;
    const unsigned doing = board_->posts[w].doing;
    ++killed_[doing];
    if (doing != kElsewhere) last_inside_ = kills_;
  }

  bool recover() {
    const Word begin = now_ns();
    if (!heap_.recover()) return std::fputs("the heap cannot be recovered\n", stderr), false;
    const Word took = now_ns() - begin;
    if (took > longest_recovery_ns_) longest_recovery_ns_ = took;
    return true;
  }

  // Stops a worker, or kills one and starts the next. False: one hangs.
  bool disturb() {
    usleep(random_.below(static_cast<unsigned>(2 * options_.interval_us + 1)));
    const unsigned w = random_.below(static_cast<unsigned>(options_.workers));
    const unsigned how = random_.below(16);
    if (how == 0 && !places_[w].stopped) {
      kill(places_[w].process, SIGSTOP);
      ++stops_;
      places_[w].stopped = true;
      return true;
    }
    // Some are killed wherever they are, also before they have done anything.
    if (how > 4 && !places_[w].stopped && !waits_for(w)) return false;
    end(w);
    if (!recover()) std::exit(kWrong);
    start(w);
    return true;
  }

  // Waits until the worker has done something. False: it does nothing.
  bool waits_for(unsigned w) {
    const Word begin = now_ns();
    while (load(board_->posts[w].operations) == places_[w].operations) {
      if (options_.watch_s != 0 && now_ns() - begin > options_.watch_s * 1000000000) return false;
      if (int status; waitpid(places_[w].process, &status, WNOHANG) != 0) {
        std::fprintf(stderr, "worker %u ended with status %#x\n", w, static_cast<unsigned>(status));
        std::exit(kWrong);
      }
      usleep(50);
    }
    return true;
  }

  static const char* place_name(unsigned doing) {
    return doing == kInMalloc ? "in malloc" : doing == kInFree ? "in free" : "elsewhere";
  }

  // The number of the system call that a process is in; none: it runs.
  static std::optional<long> system_call(pid_t process) {
    char text[64] = {};
    const int fd = open(("/proc/" + std::to_string(process) + "/syscall").c_str(), O_RDONLY);
    if (fd < 0) return std::nullopt;
    const ssize_t bytes = read(fd, text, sizeof(text) - 1);
    close(fd);
    if (bytes <= 0 || text[0] < '0' || text[0] > '9') return std::nullopt;
    return std::strtol(text, nullptr, 10);
  }

  int describe_hang() {
    std::printf("%s hangs after %lu kills; the last worker that was killed in malloc or free: kill %lu.\n", Heap::kName,
                kills_, last_inside_);
    for (unsigned w = 0; w < options_.workers; ++w) {
      const std::optional<long> call = system_call(places_[w].process);
      std::printf("  worker %u is %s, %s%s\n", w, place_name(board_->posts[w].doing),
                  !call                ? "runs"
                  : *call == SYS_futex ? "waits for a mutex (futex)"
                                       : "sleeps",
                  places_[w].stopped ? " (it was stopped)" : "");
    }
    std::printf("  killed in malloc %lu, in free %lu, elsewhere %lu; bytes in blocks: %zu\n", killed_[kInMalloc],
                killed_[kInFree], killed_[kElsewhere], heap_.account().live);
    for (unsigned w = 0; w < options_.workers; ++w) kill(places_[w].process, SIGKILL);
    return kHung;
  }

  Word operations() {
    Word all = 0;
    for (unsigned w = 0; w < options_.workers; ++w) all += load(board_->posts[w].operations);
    return all;
  }

  // Nobody else is there any more.
  bool report(double seconds) {
    Word pause = 0;
    // All before the first drains: what hazards of the dead name stays in the others' limbos.
    for (unsigned w = 0; w < options_.workers; ++w) worker(w).take_over();
    for (unsigned w = 0; w < options_.workers; ++w) {
      worker(w).check();
      worker(w).drain();
      pause = pause > board_->posts[w].longest_pause_ns ? pause : board_->posts[w].longest_pause_ns;
    }
    const auto with_table = heap_.account();
    std::vector<Word> blocks;
    worker(0).for_each_block([&](Word offset) { blocks.push_back(offset); });
    for (const Word offset : blocks) heap_.free(offset);
    const auto without = heap_.account();
    std::printf("%s: %lu workers, %.1f s\n", Heap::kName, options_.workers, seconds);
    std::printf("  operations a second    %.0f\n", static_cast<double>(operations()) / seconds);
    std::printf("  kills                  %lu: in malloc %lu, in free %lu, elsewhere %lu; %lu of them stopped before\n",
                kills_, killed_[kInMalloc], killed_[kInFree], killed_[kElsewhere], stops_);
    std::printf("  values                 all right\n");
    std::printf("  the table              %zu blocks, %zu bytes\n", blocks.size(), with_table.live - without.live);
    std::printf("  bytes lost             %zu: what is there without the table\n", without.live);
    std::printf("  longest pause          %.1f ms, of a worker between two operations\n",
                static_cast<double>(pause) / 1e6);
    std::printf("  longest recovery       %.1f ms\n", static_cast<double>(longest_recovery_ns_) / 1e6);
    return with_table.wrong + without.wrong + without.live == 0;
  }

  Worker<Heap> worker(unsigned w) {
    return Worker<Heap>(heap_, table_, *board_, w, static_cast<unsigned>(options_.workers), options_.seed);
  }

  [[noreturn]] static void fail(const char* what) {
    std::perror(what);
    std::exit(1);
  }

  Options options_;
  Random random_;
  Heap heap_;
  Word table_ = 0;
  Board* board_ = nullptr;
  Place places_[kMaxWorkers] = {};
  unsigned long kills_ = 0, stops_ = 0, killed_[3] = {}, last_inside_ = 0;
  Word longest_recovery_ns_ = 0;
};

template <class Heap> int demonstrate(int argc, char** argv) {
  Options options;
  if (!options.parse(argc, argv)) return 1;
  return Supervisor<Heap>(options).run();
}

}  // namespace cache
