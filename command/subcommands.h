// SPDX-License-Identifier: MIT
// subcommands.h: a function for each subcommand (usage.h says what it does). They return the status to exit with, or
// throw Failure. In the file of its name, where nothing else is said.
#pragma once

#include "arguments.h"

namespace freeway_command {

int blocks(const Arguments& arguments);
int classes(const Arguments& arguments);
int doctor(const Arguments& arguments);
int engines(const Arguments& arguments);
int leaks(const Arguments& arguments);
int map(const Arguments& arguments);
int probe(const Arguments& arguments);  // child.h
// Becomes the program that reads heap profiles (command/profile), with these arguments behind its name.
int profile(char** argv);
int run(const Arguments& arguments);
int stat(const Arguments& arguments);
int top(const Arguments& arguments);
int trim(const Arguments& arguments);

}  // namespace freeway_command
