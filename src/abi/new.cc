// SPDX-License-Identifier: MIT
// new.cc: operator new and delete in all their forms, without depending on libstdc++.
//
// Out of memory, the standard has new call the new-handler until there is memory, it throws, or there is none; then
// bad_alloc is thrown. Handler and exception belong to the C++ library of the program, which is asked for by weak
// reference, or, where it was loaded later, by name (that takes the loader's lock: the one path here that may wait).
// Compiled without exceptions but with unwind tables: what a handler throws passes through.
#ifndef FREEWAY_PREFIXED
#include <dlfcn.h>
#include <stdlib.h>

#include <new>

#include "engine/freeway/heap.h"
#include "freeway/freeway.h"
#include "os/report.h"

extern "C" {
using Handler = void (*)();
// std::get_new_handler() and std::__throw_bad_alloc() of libstdc++.
Handler freeway_get_new_handler() __asm__("_ZSt15get_new_handlerv") __attribute__((weak));
void freeway_throw_bad_alloc() __asm__("_ZSt17__throw_bad_allocv") __attribute__((weak));
}

namespace {

// A function of the C++ library that was loaded after us, or null.
void* find_late(const char* name) {
  void* library = dlopen("libstdc++.so.6", RTLD_LAZY | RTLD_NOLOAD);
  return library == nullptr ? nullptr : dlsym(library, name);
}

template <class Function>
Function* find(Function* linked, const char* name) {
  return linked != nullptr ? linked : reinterpret_cast<Function*>(find_late(name));
}

Handler new_handler() {
  auto* get = find(&freeway_get_new_handler, "_ZSt15get_new_handlerv");
  return get == nullptr ? nullptr : get();
}

[[noreturn]] void throw_bad_alloc() {
  if (auto* raise = find(&freeway_throw_bad_alloc, "_ZSt17__throw_bad_allocv")) raise();
  freeway::Line().text("freeway: operator new: out of memory, and no C++ library to throw bad_alloc").write();
  freeway::die();
}

template <class Allocate>
void* allocate_or_throw(Allocate&& allocate) {
  for (;;) {
    if (void* block = allocate()) return block;
    const Handler handler = new_handler();
    if (handler == nullptr) throw_bad_alloc();
    handler();
  }
}

// The nothrow forms call the handler too, and what it throws must not leave them. libstdc++'s own nothrow forms do just
// that around the throwing form, which is ours; so when memory is out they are asked. `name`: the mangled name.
template <class Allocate, class Standard>
void* allocate_or_null(Allocate&& allocate, const char* name, Standard&& standard) {
  if (void* block = allocate()) return block;
  if (new_handler() == nullptr) return nullptr;
  void* function = dlsym(RTLD_NEXT, name);
  return function == nullptr ? nullptr : standard(function);
}

void* aligned(std::size_t size, std::align_val_t alignment) {
  return freeway_aligned_alloc(static_cast<std::size_t>(alignment), size);
}

}  // namespace

#define FREEWAY_NEW(form, mangled)                                                                               \
  FREEWAY_EXPORT void* operator form(std::size_t size) {                                                         \
    void* block = freeway_malloc(size);                                                                          \
    return FREEWAY_LIKELY(block != nullptr) ? block : allocate_or_throw([=] { return freeway_malloc(size); });   \
  }                                                                                                              \
  FREEWAY_EXPORT void* operator form(std::size_t size, const std::nothrow_t& tag) noexcept {                     \
    using Standard = void*(std::size_t, const std::nothrow_t&);                                                  \
    return allocate_or_null([=] { return freeway_malloc(size); }, mangled "mRKSt9nothrow_t",                     \
                            [&](void* f) { return reinterpret_cast<Standard*>(f)(size, tag); });                 \
  }                                                                                                              \
  FREEWAY_EXPORT void* operator form(std::size_t size, std::align_val_t alignment) {                             \
    return allocate_or_throw([=] { return aligned(size, alignment); });                                          \
  }                                                                                                              \
  FREEWAY_EXPORT void* operator form(std::size_t size, std::align_val_t alignment,                               \
                                     const std::nothrow_t& tag) noexcept {                                       \
    using Standard = void*(std::size_t, std::align_val_t, const std::nothrow_t&);                                \
    return allocate_or_null([=] { return aligned(size, alignment); }, mangled "mSt11align_val_tRKSt9nothrow_t",  \
                            [&](void* f) { return reinterpret_cast<Standard*>(f)(size, alignment, tag); });      \
  }
FREEWAY_NEW(new, "_Znw")
FREEWAY_NEW(new[], "_Zna")

#define FREEWAY_DELETE(form, ...) \
  FREEWAY_EXPORT void operator form(void* block __VA_OPT__(, ) __VA_ARGS__) noexcept { freeway_free(block); }
#define FREEWAY_DELETES(form)                                  \
  FREEWAY_DELETE(form)                                         \
  FREEWAY_DELETE(form, const std::nothrow_t&)                  \
  FREEWAY_DELETE(form, std::size_t)                            \
  FREEWAY_DELETE(form, std::align_val_t)                       \
  FREEWAY_DELETE(form, std::align_val_t, const std::nothrow_t&) \
  FREEWAY_DELETE(form, std::size_t, std::align_val_t)
FREEWAY_DELETES(delete)
FREEWAY_DELETES(delete[])

#endif  // FREEWAY_PREFIXED
