// SPDX-License-Identifier: MIT
//
// One function of the library as the process's very first call into it. Not a line of this program allocates, none of
// the C++ library is linked, and before the call the library's zero memory is looked through: nobody has been in it.
//
//   program list                      every function of the table: "name kind"
//   program NAME WHAT STAGE MEMORY    exit status 0: went well
//
//   WHAT    call      the function does its work (whatever takes a block is given null)
//           foreign   whatever takes a block is given one that is not ours
//   STAGE   resolver     an IRELATIVE relocation of the program: symbols are bound, nothing else is ready
//           preinit      DT_PREINIT_ARRAY: before every constructor, the C library's too
//           constructor  before all constructors of the program, after the C library's
//   MEMORY  enough, none (RLIMIT_AS: no mapping is granted until the call is over)
//
// Not as a wholly static program: glibc calls malloc there itself before anybody else can.
// Afterwards, there and in main once more, all kinds of blocks are taken and given back.
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <link.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/whole/first_calls/functions.h"

namespace freeway_test {

[[noreturn]] void fail(const char* what) {
  (void)!write(2, what, strlen(what));
  (void)!write(2, "\n", 1);
  _exit(1);
}

void require(bool holds, const char* what) {
  if (!holds) fail(what);
}

// The arguments, before anybody has them: from the kernel. Not in zero memory, which must stay as it is.
struct Arguments {
  char text[256];
  const char *name, *what, *stage, *memory;

  Arguments() : text(), name(""), what(""), stage(""), memory("") {
    const int file = open("/proc/self/cmdline", O_RDONLY | O_CLOEXEC);
    const ssize_t bytes = read(file, text, sizeof text - 1);
    close(file);
    const char** const words[] = {nullptr, &name, &what, &stage, &memory};
    const char* word = text;
    for (size_t i = 0; i < 5 && word < text + bytes; ++i, word += strlen(word) + 1)
      if (words[i] != nullptr) *words[i] = word;
  }
};

bool same(const char* a, const char* b) { return strcmp(a, b) == 0; }

// Whether the zero memory of the object that has the library is as it was loaded.
bool untouched() {
  struct Search {
    ElfW(Addr) inside;
    bool found, zero;
  } search = {reinterpret_cast<ElfW(Addr)>(&freeway_version), false, true};
  const auto look = [](dl_phdr_info* object, size_t, void* result) {
    auto& seen = *static_cast<Search*>(result);
    bool here = false;
    for (int i = 0; i < object->dlpi_phnum; ++i) {
      const ElfW(Phdr)& part = object->dlpi_phdr[i];
      here |= part.p_type == PT_LOAD && seen.inside - object->dlpi_addr - part.p_vaddr < part.p_memsz;
    }
    for (int i = 0; here && i < object->dlpi_phnum; ++i) {
      const ElfW(Phdr)& part = object->dlpi_phdr[i];
      if (part.p_type != PT_LOAD || (part.p_flags & PF_W) == 0) continue;
      const auto* byte = reinterpret_cast<const char*>(object->dlpi_addr + part.p_vaddr + part.p_filesz);
      for (size_t left = part.p_memsz - part.p_filesz; left > 0 && seen.zero; --left) seen.zero = *byte++ == 0;
      seen.found |= part.p_memsz > part.p_filesz;
    }
    return 0;
  };
  dl_iterate_phdr(look, &search);
  return search.found && search.zero;
}

// Nothing is mapped any more while this lives.
struct NoMemory {
  rlimit before;
  explicit NoMemory(bool wanted) {
    getrlimit(RLIMIT_AS, &before);
    const rlimit none = {4096, before.rlim_max};
    if (wanted) require(setrlimit(RLIMIT_AS, &none) == 0, "setrlimit");
  }
  ~NoMemory() { setrlimit(RLIMIT_AS, &before); }
};

void fill(void* block, size_t bytes) {
  require(block != nullptr, "no memory after the first call");
  memset(block, 7, bytes);
}

// All kinds of blocks, whatever the first call was.
void work() {
  constexpr size_t kSizes[] = {1, 100, 5000, 50'000, 3'000'000, 300u << 20};
  for (const size_t bytes : kSizes) {
    void* plain = malloc(bytes);
    fill(plain, bytes < 5000 ? bytes : 5000);
    void* zero = calloc(1, bytes);
    require(zero != nullptr && *static_cast<char*>(zero) == 0, "calloc after the first call");
    void* more = realloc(plain, bytes + bytes / 2 + 100);
    require(more != nullptr && *static_cast<char*>(more) == 7, "realloc after the first call");
    void* aligned = aligned_alloc(256, bytes);
    fill(aligned, 1);
    require(reinterpret_cast<uintptr_t>(aligned) % 256 == 0, "aligned_alloc after the first call");
    free(zero);
    free(more);
    free(aligned);
  }
  freeway_audit_t audit;
  require(freeway_audit(&audit, sizeof audit) == 0, "the audit after the first call finds errors");
}

void call(const Function& function, bool foreign, bool memory) {
  constexpr size_t kBytes = 40;
  alignas(64) static char not_a_block[64] = {1};
  if (foreign) {
    require(function.take != nullptr, "takes no block");
    function.take(not_a_block);
  } else if (function.give != nullptr) {
    void* block;
    errno = 0;
    {
      const NoMemory limit(!memory);
      block = function.give(kBytes);
    }
    require(memory ? block != nullptr : block == nullptr && errno == ENOMEM, "the first call's answer");
    if (block == nullptr) return;
    require(reinterpret_cast<uintptr_t>(block) % 16 == 0 && malloc_usable_size(block) >= kBytes, "the first block");
    fill(block, kBytes);
    free(block);
  } else {
    const NoMemory limit(!memory);
    const int before = errno;
    if (function.take != nullptr) {
      function.take(nullptr);
      require(errno == before, "errno was not kept");
    } else {
      require(function.other(), "the first call's answer");
    }
  }
}

void first_call(const char* stage) {
  const Arguments arguments;
  if (!same(stage, arguments.stage)) return;
  for (const Function& function : kFunctions)
    if (same(function.name, arguments.name)) {
      require(untouched(), "somebody has been in the library before");
      call(function, same(arguments.what, "foreign"), same(arguments.memory, "enough"));
      work();
      return;
    }
  fail("no such function");
}

void list() {
  for (const Function& function : kFunctions) {
    const char* kind = function.dies   ? " throws\n"
                       : function.give ? " gives\n"
                       : function.take ? " takes\n"
                                       : " other\n";
    (void)!write(1, function.name, strlen(function.name));
    (void)!write(1, kind, strlen(kind));
  }
}

}  // namespace freeway_test

extern "C" {

void freeway_test_nothing() {}
static void (*freeway_test_resolve())() {
  freeway_test::first_call("resolver");
  return freeway_test_nothing;
}
void freeway_test_resolved() __attribute__((ifunc("freeway_test_resolve")));

static void before_constructors(int, char**, char**) { freeway_test::first_call("preinit"); }
__attribute__((used, section(".preinit_array"))) static void (*preinit)(int, char**, char**) = before_constructors;

__attribute__((constructor(101))) static void early_constructor() { freeway_test::first_call("constructor"); }
}

int main(int argc, char** argv) {
  using namespace freeway_test;
  freeway_test_resolved();
  if (argc == 2 && same(argv[1], "list")) return list(), 0;
  require(argc == 5, "usage: NAME WHAT STAGE MEMORY, or list");
  require(same(argv[3], "resolver") || same(argv[3], "preinit") || same(argv[3], "constructor"), "no such stage");
  work();
  return 0;
}
