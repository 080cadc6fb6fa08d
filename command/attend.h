// SPDX-License-Identifier: MIT
// attend.h: running a program as a child that looks, to whoever started this command, as if it were in its place.
#pragma once

#include <sys/types.h>

#include <functional>
#include <string>

namespace freeway_command {

// Executes the program at `path`; returns only if that fails, with the status to exit with, after a line on fd 2.
int become(const std::string& path, char** argv);

// A program that has ended.
struct Ended {
  pid_t pid = -1;  // -1: there was no process for it
  int status = 0;  // as waitpid gives it
};

// Runs the program at `path` as a child and waits for its end. The terminal's signals are the program's alone; those
// that one sends to a process by hand are passed on to it.
// `meanwhile`, if there is one, is called with the child, and should return when that has ended.
Ended attend(const std::string& path, char** argv, const std::function<void(pid_t)>& meanwhile = {});

// The next child waits, before it becomes the program, until it may begin; or this process has ended.
void hold_next();
void let_begin();

// From now on signals that one sends to this process are not passed on.
void pass_no_more();

// Whether the child has ended, and waits to be asked for its status.
bool has_ended(pid_t child);

// Ends this process as the program ended: by its exit status, or by the same signal.
int end_like(const Ended& program);

}  // namespace freeway_command
