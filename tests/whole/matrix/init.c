/* SPDX-License-Identifier: MIT
 *
 * init: the first process of a machine of the matrix (matrix.py). Runs the programs that /plan lists, one a line,
 *
 *     root<TAB>name<TAB>seconds<TAB>VARIABLE=value,...<TAB>program<TAB>argument<TAB>...
 *
 * each in its root (a C library and what belongs to it, with /programs, /proc, /sys and /dev bound into it), and writes
 * on the console what matrix.py reads:
 *
 *     == kernel RELEASE, rseq debug on|off
 *     == begin ROOT NAME          and what the program says, then
 *     == end ROOT NAME STATUS     its exit status, 128 + the signal that ended it, or "hangs" after so many seconds
 *
 * Linked statically. tests/whole/aarch64/in_machines.py has it, too.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/reboot.h>
#include <sys/stat.h>
#include <sys/utsname.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { kMostFields = 32, kMostRoots = 32 };

static void give_up(const char* what, const char* where) {
  printf("== init: %s %s: %s\n", what, where, strerror(errno));
  fflush(stdout);
  reboot(RB_AUTOBOOT);
}

static void mount_on(const char* source, const char* place, const char* type, unsigned long flags) {
  mkdir(place, 0755);
  if (mount(source, place, type, flags, NULL) != 0) give_up("mount", place);
}

static int switch_rseq_debug_on(void) {
  if (mount("debugfs", "/sys/kernel/debug", "debugfs", 0, NULL) != 0) return 0;
  int file = open("/sys/kernel/debug/rseq/debug", O_WRONLY);
  return file >= 0 && write(file, "1", 1) == 1;
}

/* Once for each root. */
static void furnish(const char* root) {
  static char known[kMostRoots][64];
  static int roots;
  for (int i = 0; i < roots; i++)
    if (strcmp(known[i], root) == 0) return;
  if (roots == kMostRoots || strlen(root) >= sizeof known[0]) give_up("roots", root);
  strcpy(known[roots++], root);
  char whole[128];
  snprintf(whole, sizeof whole, "/roots/%s", root);
  mount_on(whole, whole, NULL, MS_BIND); /* so that programs may say how mounts spread */
  for (const char* const* part = (const char* const[]){"/programs", "/proc", "/sys", "/dev", "/tmp", NULL}; *part;
       part++) {
    char place[256];
    snprintf(place, sizeof place, "/roots/%s%s", root, *part);
    mount_on(*part, place, NULL, MS_BIND | MS_REC);
  }
}

static void start(const char* root, char* variables, char** arguments) {
  char place[128];
  snprintf(place, sizeof place, "/roots/%s", root);
  if (chroot(place) != 0 || chdir("/tmp") != 0) give_up("chroot", place);
  for (char* one = strtok(variables, ","); one != NULL; one = strtok(NULL, ",")) putenv(one);
  dup2(1, 2);
  execv(arguments[0], arguments);
  printf("cannot execute %s: %s\n", arguments[0], strerror(errno));
  fflush(stdout);
  _exit(126);
}

/* Waits for `child`, so many seconds; its status as a shell counts, or -1. Reaps whatever else has ended. */
static int wait_for(pid_t child, int seconds) {
  struct timespec now, end;
  clock_gettime(CLOCK_MONOTONIC, &end);
  for (end.tv_sec += seconds;;) {
    int status;
    pid_t ended = waitpid(-1, &status, WNOHANG);
    if (ended == child) return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    clock_gettime(CLOCK_MONOTONIC, &now);
    if (now.tv_sec >= end.tv_sec) return -1;
    if (ended <= 0) nanosleep(&(struct timespec){0, 20000000}, NULL);
  }
}

static void run(char* line) {
  char* fields[kMostFields + 1];
  int count = 0;
  for (char* field; count < kMostFields && (field = strsep(&line, "\t\n")) != NULL;)
    if (field[0] != 0 || count == 3) fields[count++] = field;
  fields[count] = NULL;
  if (count < 5) return;
  furnish(fields[0]);
  printf("== begin %s %s\n", fields[0], fields[1]);
  fflush(stdout);
  pid_t child = fork();
  if (child == 0) start(fields[0], fields[3], fields + 4);
  int status = wait_for(child, atoi(fields[2]));
  kill(-1, SIGKILL); /* all but this process */
  while (waitpid(-1, NULL, 0) > 0) {}
  if (status < 0) printf("\n== end %s %s hangs\n", fields[0], fields[1]);
  else printf("\n== end %s %s %d\n", fields[0], fields[1], status);
  fflush(stdout);
}

int main(void) {
  mount_on("proc", "/proc", "proc", 0);
  mount_on("sysfs", "/sys", "sysfs", 0);
  mount_on("devtmpfs", "/dev", "devtmpfs", 0);
  mount_on("tmpfs", "/dev/shm", "tmpfs", 0);
  mount_on("tmpfs", "/tmp", "tmpfs", 0);
  int on = switch_rseq_debug_on();
  struct utsname kernel;
  uname(&kernel);
  printf("== kernel %s, rseq debug %s\n", kernel.release, on ? "on" : "off");
  FILE* plan = fopen("/plan", "r");
  if (plan == NULL) give_up("open", "/plan");
  char line[2048];
  while (fgets(line, sizeof line, plan) != NULL) run(line);
  printf("== done\n");
  fflush(stdout);
  sync();
  reboot(RB_AUTOBOOT);
  return 1;
}
