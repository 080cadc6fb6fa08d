// SPDX-License-Identifier: MIT
// doctor_program.cc: `freeway doctor PROGRAM`.
#include <cstdio>
#include <string>

#include "binding.h"
#include "doctor.h"
#include "elf_file.h"
#include "facts.h"
#include "library.h"
#include "program.h"
#include "report.h"

namespace freeway_command {
namespace {

std::string named(const MallocFile& file) {
  if (file.path.empty()) return "not known";
  return file.path + (file.allocator.empty() ? "" : " (" + file.allocator + ")");
}

bool is_elf(const std::string& path) {
  const ElfFile file = read_elf(path);
  return file.processor != 0 || !file.loader.empty();
}

void print_binding(const Program& program, const std::string& executed, const Binding& binding) {
  print({"program", program.path,
         executed == program.path
             ? ""
             : "a script: " + executed + " reads it; what it starts is another program, to ask about"});
  print({"malloc", named(binding.alone), {}});
  print({"with Freeway",
         binding.takes ? "Freeway's" : named(binding.obstacle.empty() ? binding.preloaded : binding.alone),
         {}});
  for (const MallocFile& file : binding.further)
    print({"besides", named(file), "serves who calls it by another name; that stays as it is"});
  if (const std::string sanitizer = sanitizer_of(program.path); !sanitizer.empty())
    print({"sanitizer", sanitizer,
           "does not see Freeway's malloc and free: misses errors, or complains where there are none"});
}

}  // namespace

int doctor_of_program(const std::string& name) {
  const Program program = find_program(name);
  if (program.status == kNotFound) return fail(kCannot, "program not found: " + program.path);
  if (program.status == kNotExecutable) return fail(kCannot, "not an executable file: " + program.path);
  const Library library = find_library();
  if (library.path.empty()) return fail(kCannot, library.fault);
  const std::string executed = executed_file(program.path);
  if (!is_elf(executed)) return fail(kCannot, "doctor: " + executed + " is no program of this kind of machine");
  const Binding binding = binding_of(program.path, library);
  print_binding(program, executed, binding);
  const std::string why = why_not_taken(program.path, binding);
  if (why.empty()) std::printf("\nFreeway takes: freeway run -- %s\n", name.c_str());
  else std::printf("\nFreeway does not take: %s.\n", why.c_str());
  if (why.empty() && binding.alone.allocator == "jemalloc")
    std::printf("What it asks jemalloc for by other names (mallctl) still goes there, but with:\n"
                "LD_PRELOAD=libfreeway-jemalloc.so.0 freeway run -- %s\n", name.c_str());
  return why.empty() ? kOk : kCannot;
}

}  // namespace freeway_command
