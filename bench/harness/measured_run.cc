// SPDX-License-Identifier: MIT
//
// measured_run: runs a command and says what it used. `bench/lab` and `make run` measure with it.
//
//   measured_run RESULT_FILE PRELOAD command arguments...      PRELOAD: a library, or - for none
//
// RESULT_FILE is one object of JSON: wall_s, user_s, system_s, rss_peak_kib (of the biggest single process),
// minor_faults, major_faults, voluntary_switches, involuntary_switches, status (128 + signal if a signal ended it),
// rss: [[seconds, KiB], ...], the resident memory over time of the command and its descendants together, at most 200
// points, and mapped: whether PRELOAD was seen among the mappings of the command (always false without one).
//
// A script cannot do this itself: the kernel counts the peak of the process that called fork into the new program's,
// and an interpreter is bigger than many programs. This one is linked statically and stays below 1 MiB. It leaves
// signals from the keyboard to the command, hands SIGTERM on to it, and ends with its exit status.
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <climits>
#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace {

double now() {
  timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

double seconds(const timeval& time) {
  return static_cast<double>(time.tv_sec) + 1e-6 * static_cast<double>(time.tv_usec);
}

// What the kernel says in a short file of `pid`; "" once the process is gone.
const char* proc_text(pid_t pid, const char* file, char* text, size_t size) {
  char path[96];
  std::snprintf(path, sizeof path, "/proc/%d/%s", pid, file);
  const int fd = open(path, O_RDONLY | O_CLOEXEC);
  ssize_t length = fd < 0 ? -1 : read(fd, text, size - 1);
  if (fd >= 0) close(fd);
  text[length > 0 ? length : 0] = '\0';
  return text;
}

// Resident memory of `pid` and of what its first thread has started, and so on; pages that processes share count in
// each. At most 64 processes: more would cost more than the curve is worth.
long resident_kib(pid_t pid, int* budget) {
  if (--*budget < 0) return 0;
  char text[1024];
  long size = 0, pages = 0;
  std::sscanf(proc_text(pid, "statm", text, sizeof text), "%ld %ld", &size, &pages);
  long kib = pages * (sysconf(_SC_PAGESIZE) / 1024);
  char file[48];
  std::snprintf(file, sizeof file, "task/%d/children", pid);
  const char* at = proc_text(pid, file, text, sizeof text);
  for (int child = 0, used = 0; std::sscanf(at, "%d%n", &child, &used) == 1; at += used)
    kib += resident_kib(child, budget);
  return kib;
}

// Memory over time. When the array is full every second point goes and the interval doubles, so that a run of any
// length has 100 to 200 points, and the cost of taking them falls.
class Curve {
 public:
  double interval() const { return interval_; }
  void add(double time, pid_t pid) {
    int budget = 64;
    if (count_ == kPoints) thin_out();
    points_[count_++] = {time, resident_kib(pid, &budget)};
  }
  void write(std::FILE* file) const {
    for (int i = 0; i < count_; ++i)
      std::fprintf(file, "%s[%.3f, %ld]", i == 0 ? "" : ", ", points_[i].time, points_[i].kib);
  }

 private:
  static constexpr int kPoints = 200;
  struct Point {
    double time;
    long kib;
  };
  void thin_out() {
    for (int i = 0; i < kPoints / 2; ++i) points_[i] = points_[2 * i + 1];
    count_ = kPoints / 2;
    interval_ *= 2;
  }
  Point points_[kPoints];
  int count_ = 0;
  double interval_ = 0.02;
};

// Whether `library` (a real path) is mapped into `pid`.
bool is_mapped(pid_t pid, const char* library) {
  char path[64];
  std::snprintf(path, sizeof path, "/proc/%d/maps", pid);
  std::FILE* maps = std::fopen(path, "re");
  if (maps == nullptr) return false;
  char line[PATH_MAX + 128];
  bool found = false;
  while (!found && std::fgets(line, sizeof line, maps) != nullptr) found = std::strstr(line, library) != nullptr;
  std::fclose(maps);
  return found;
}

// Waits until the command ends, taking points meanwhile. The library is looked for at each point until it is found.
int watch(pid_t running, const sigset_t& awaited, const char* library, Curve* curve, bool* mapped, rusage* used) {
  const double began = now();
  double pause = 0.001;  // the first points soon: many programs are short
  for (;;) {
    const timespec time = {static_cast<time_t>(pause), static_cast<long>((pause - static_cast<long>(pause)) * 1e9)};
    const int signal = sigtimedwait(&awaited, nullptr, &time);
    if (signal == SIGTERM) kill(running, SIGTERM);  // a polite end reaches the command
    int status = 0;
    const pid_t ended = wait4(running, &status, WNOHANG, used);
    if (ended == running) return status;
    if (ended < 0 && errno != EINTR) {
      std::perror("measured_run: wait4");
      std::exit(1);
    }
    if (signal >= 0 || errno != EAGAIN) continue;
    curve->add(now() - began, running);
    if (library != nullptr && !*mapped) *mapped = is_mapped(running, library);
    pause = pause * 2 < curve->interval() ? pause * 2 : curve->interval();
  }
}

pid_t start(char** argv, const sigset_t& previous) {
  const pid_t running = fork();
  if (running != 0) return running;
  sigprocmask(SIG_SETMASK, &previous, nullptr);
  if (std::strcmp(argv[2], "-") != 0) setenv("LD_PRELOAD", argv[2], 1);
  execvp(argv[3], argv + 3);
  std::fprintf(stderr, "%s: %s\n", argv[3], std::strerror(errno));
  _exit(errno == ENOENT ? 127 : 126);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 4) {
    std::fprintf(stderr, "usage: measured_run RESULT_FILE PRELOAD command arguments...\n");
    return 2;
  }
  static char library[PATH_MAX];
  const bool preloaded = std::strcmp(argv[2], "-") != 0 && realpath(argv[2], library) != nullptr;
  // Blocked before the fork, so that no end and no SIGTERM goes unnoticed; the command gets the mask that was.
  sigset_t awaited, previous;
  sigemptyset(&awaited);
  sigaddset(&awaited, SIGCHLD);
  sigaddset(&awaited, SIGTERM);
  sigprocmask(SIG_BLOCK, &awaited, &previous);
  const double began = now();
  const pid_t running = start(argv, previous);
  if (running < 0) {
    std::perror("measured_run: fork");
    return 1;
  }
  signal(SIGINT, SIG_IGN);
  signal(SIGQUIT, SIG_IGN);
  static Curve curve;
  bool mapped = false;
  rusage used;
  const int status = watch(running, awaited, preloaded ? library : nullptr, &curve, &mapped, &used);
  const double wall = now() - began;
  const int code = WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
  std::FILE* result = std::fopen(argv[1], "w");
  if (result == nullptr) {
    std::perror(argv[1]);
    return 1;
  }
  std::fprintf(result,
               "{\"wall_s\": %.6f, \"user_s\": %.6f, \"system_s\": %.6f, \"rss_peak_kib\": %ld, \"minor_faults\": %ld, "
               "\"major_faults\": %ld, \"voluntary_switches\": %ld, \"involuntary_switches\": %ld, \"status\": %d, "
               "\"mapped\": %s, \"rss\": [",
               wall, seconds(used.ru_utime), seconds(used.ru_stime), used.ru_maxrss, used.ru_minflt, used.ru_majflt,
               used.ru_nvcsw, used.ru_nivcsw, code, mapped ? "true" : "false");
  curve.write(result);
  std::fprintf(result, "]}\n");
  std::fclose(result);
  return code;
}
