/* SPDX-License-Identifier: MIT
 *
 * stepper.c: stepper PID: for each number N on fd 0, lets the stopped process PID go on for N instructions; it stands
 * still there until the next number. Says "there" each time. At the end of fd 0 the process is killed.
 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/ptrace.h>
#include <sys/wait.h>

int main(int argc, char** argv) {
  const pid_t pid = argc > 1 ? (pid_t)atoi(argv[1]) : 0;
  int status;
  if (ptrace(PTRACE_SEIZE, pid, NULL, NULL) != 0 || ptrace(PTRACE_INTERRUPT, pid, NULL, NULL) != 0) {
    perror("stepper: attach");
    return 1;
  }
  if (waitpid(pid, &status, __WALL) != pid || kill(pid, SIGCONT) != 0) return 1;
  for (long steps; scanf("%ld", &steps) == 1;) {
    for (; steps > 0; --steps) {
      if (ptrace(PTRACE_SINGLESTEP, pid, NULL, NULL) != 0 || waitpid(pid, &status, __WALL) != pid ||
          !WIFSTOPPED(status)) {
        perror("stepper: step");
        return 1;
      }
    }
    puts("there");
    fflush(stdout);
  }
  kill(pid, SIGKILL);
  return 0;
}
