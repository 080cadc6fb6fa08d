// SPDX-License-Identifier: MIT
// process.h: what /proc says of processes.
#pragma once

#include <sys/types.h>

#include <filesystem>
#include <string>
#include <vector>

namespace freeway_command {

// The first line of a file; empty if there is none.
std::string first_line(const std::filesystem::path& path);

// The threads of a process, by number; none if there is no such process.
std::vector<pid_t> threads_of(pid_t process);

// A field of /proc/PID/task/TID/status, without blanks around it; empty if there is none.
std::string thread_status(pid_t process, pid_t thread, const std::string& field);

// Whether there is no such thread any more, but for a status that its parent has not asked for.
bool has_ended(pid_t process, pid_t thread);

// Whether its control group is frozen, or one that this is in: none of its threads runs then.
bool is_frozen(pid_t process);

// Processes of that name: by /proc/PID/comm, of which the kernel keeps 15 bytes, or by the name of the executable file.
// Not this one.
std::vector<pid_t> processes_named(const std::string& name);

// The process and all that descend from it, as far as their parents live.
std::vector<pid_t> family_of(pid_t process);

}  // namespace freeway_command
