// SPDX-License-Identifier: MIT
//
// measured_run: runs a command and says what it used: wall and CPU seconds of it and its children, and the greatest peak
// of resident memory of one process among them. `make run` measures with it.
//
//   measured_run RESULT_FILE PRELOAD command arguments...      PRELOAD: a library, or - for none
//
// A script cannot do this itself: the kernel counts the peak of the process that called fork into the new program's, and
// an interpreter is bigger than many programs. This one is linked statically and stays below 1 MiB. It leaves signals
// from the keyboard to the command and ends with its exit status (128 + signal if it was killed).
#include <errno.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

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

pid_t running = 0;

// A polite end reaches the command; keyboard signals reach it anyway, it is in our process group.
void pass_on(int signal) {
  if (running > 0) kill(running, signal);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 4) {
    std::fprintf(stderr, "usage: measured_run RESULT_FILE PRELOAD command arguments...\n");
    return 2;
  }
  const double began = now();
  running = fork();
  if (running < 0) {
    std::perror("measured_run: fork");
    return 1;
  }
  if (running == 0) {
    if (std::strcmp(argv[2], "-") != 0) setenv("LD_PRELOAD", argv[2], 1);
    execvp(argv[3], argv + 3);
    std::fprintf(stderr, "%s: %s\n", argv[3], std::strerror(errno));
    _exit(errno == ENOENT ? 127 : 126);
  }
  signal(SIGINT, SIG_IGN);
  signal(SIGQUIT, SIG_IGN);
  signal(SIGTERM, pass_on);
  int status = 0;
  rusage used;
  while (wait4(running, &status, 0, &used) < 0)
    if (errno != EINTR) {
      std::perror("measured_run: wait4");
      return 1;
    }
  const double wall = now() - began;
  const int code = WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
  std::FILE* result = std::fopen(argv[1], "w");
  if (result == nullptr) {
    std::perror(argv[1]);
    return 1;
  }
  std::fprintf(result, "{\"wall\": %.6f, \"user\": %.6f, \"system\": %.6f, \"peak_rss_kib\": %ld, \"status\": %d}\n", wall,
               seconds(used.ru_utime), seconds(used.ru_stime), used.ru_maxrss, code);
  std::fclose(result);
  return code;
}
