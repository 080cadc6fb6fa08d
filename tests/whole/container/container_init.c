/* SPDX-License-Identifier: MIT
 *
 * container_init.c: the init process of an emulated machine (emulated_container.py). It makes a container and runs
 * what /runs says in it, one program after the other: a line each of name, preloaded library and limit, with tabs
 * between them; after each, how it ended. Arguments of the kernel: MEMORY=bytes of the container, ASKED=MiB. */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/reboot.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define GROUPS "/sys/fs/cgroup"

static void must(int holds, const char* what) {
  if (holds) return;
  perror(what);
  reboot(RB_POWER_OFF);
}
static void write_file(const char* path, const char* text) {
  const int file = open(path, O_WRONLY | O_CLOEXEC);
  must(file >= 0 && write(file, text, strlen(text)) == (ssize_t)strlen(text), path);
  close(file);
}

static void make_container(void) {
  mkdir("/proc", 0755);
  mkdir("/sys", 0755);
  must(mount("proc", "/proc", "proc", 0, NULL) == 0, "/proc");
  must(mount("sysfs", "/sys", "sysfs", 0, NULL) == 0, "/sys");
  must(mount("cgroup2", GROUPS, "cgroup2", 0, NULL) == 0, GROUPS);
  write_file(GROUPS "/cgroup.subtree_control", "+memory");
  must(mkdir(GROUPS "/small", 0755) == 0, GROUPS "/small");
  write_file(GROUPS "/small/memory.max", getenv("MEMORY"));
}

static void run(const char* library, const char* limit) {
  write_file(GROUPS "/small/cgroup.procs", "0");
  setenv("LD_PRELOAD", library, 1);
  setenv("FREEWAY_LIMIT", limit, 1);
  execl("/cache_program", "cache_program", getenv("ASKED"), (char*)NULL);
  must(0, "/cache_program");
}

int main(void) {
  setvbuf(stdout, NULL, _IOLBF, 0);
  make_container();
  FILE* runs = fopen("/runs", "re");
  must(runs != NULL, "/runs");
  for (char line[1024]; fgets(line, sizeof line, runs) != NULL;) {
    char* rest = line;
    const char* name = strsep(&rest, "\t");
    const char* library = strsep(&rest, "\t");
    const char* limit = strsep(&rest, "\n");
    printf("\nrun %s\n", name);  // what the firmware wrote has no end of line
    const pid_t child = fork();
    if (child == 0) run(library, limit);
    int status = 0;
    waitpid(child, &status, 0);
    if (WIFSIGNALED(status)) printf("end signal %d\n", WTERMSIG(status));
    else printf("end exit %d\n", WEXITSTATUS(status));
  }
  puts("PASSED");
  sync();
  reboot(RB_POWER_OFF);
}
