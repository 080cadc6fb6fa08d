// SPDX-License-Identifier: MIT
// new.cc: operator new and delete in all their forms, without depending on libstdc++.
//
// Two forms of each are basic (plain and aligned); the others call them, as the standard says, through the dynamic
// linker: a program that replaces only `operator new(size_t)` thereby replaces the array and nothrow forms too. Forms
// of delete that are told the size check it, unless the form that they must call is the program's, or new is: one that
// asks malloc for more works with our delete, too.
//
// Out of memory, the standard has new call the new-handler until there is memory, it throws, or there is none; then
// bad_alloc is thrown. Handler and exception belong to the program's C++ library. They are found by weak reference, or,
// if it was loaded later, by name (that takes the loader's lock: the one path here that may wait).
// Compiled without exceptions but with unwind tables: a handler's exception passes through.
#ifndef FREEWAY_PREFIXED
#include <dlfcn.h>
#include <stdlib.h>

#include <new>

#include "base/compiler.h"
#include "freeway/freeway.h"
#include "malloc/family.h"
#include "os/dynamic_linker.h"
#include "os/options.h"
#include "os/report.h"

using std::align_val_t;
using std::nothrow_t;
using std::size_t;
using Handler = void (*)();

extern "C" {
// std::get_new_handler() and std::__throw_bad_alloc() of libstdc++.
Handler freeway_get_new_handler() __asm__("_ZSt15get_new_handlerv") __attribute__((weak));
void freeway_throw_bad_alloc() __asm__("_ZSt17__throw_bad_allocv") __attribute__((weak));

// The basic forms as the program sees them: ours, or its own.
void* freeway_visible_new(size_t) __asm__("_Znwm");
void* freeway_visible_aligned_new(size_t, align_val_t) __asm__("_ZnwmSt11align_val_t");
void* freeway_visible_new_array(size_t) __asm__("_Znam");
void* freeway_visible_aligned_new_array(size_t, align_val_t) __asm__("_ZnamSt11align_val_t");
void freeway_visible_delete(void*) noexcept __asm__("_ZdlPv");
void freeway_visible_aligned_delete(void*, align_val_t) noexcept __asm__("_ZdlPvSt11align_val_t");
void freeway_visible_delete_array(void*) noexcept __asm__("_ZdaPv");
void freeway_visible_aligned_delete_array(void*, align_val_t) noexcept __asm__("_ZdaPvSt11align_val_t");
// Ours, whatever the program sees: */new.S.
FREEWAY_HIDDEN void* freeway_own_new(size_t);
FREEWAY_HIDDEN void* freeway_own_aligned_new(size_t, align_val_t);
FREEWAY_HIDDEN void freeway_own_delete(void*) noexcept;
FREEWAY_HIDDEN void freeway_own_aligned_delete(void*, align_val_t) noexcept;

// tcmalloc's names, which LLVM knows: new that tells the block's size back.
struct SizedPointer {
  void* p;
  size_t n;
};
SizedPointer freeway_sized_new(size_t) __asm__("__size_returning_new");
SizedPointer freeway_sized_aligned_new(size_t, align_val_t) __asm__("__size_returning_new_aligned");
}

namespace {

// A function of the C++ library if that was loaded after us, else null. Before the C library has begun (IRELATIVE
// relocations) nothing was loaded later, and a question to the loader would end the process.
void* find_late(const char* name) {
  if (!freeway::options_available()) return nullptr;
  void* library = freeway::dynamic_linker::loaded("libstdc++.so.6");
  return library == nullptr ? nullptr : freeway::dynamic_linker::find(library, name);
}

template <class Function> Function* find(Function* linked, const char* name) {
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

template <class Allocate> void* allocate_or_throw(Allocate&& allocate) {
  for (;;) {
    if (void* block = allocate()) return block;
    const Handler handler = new_handler();
    if (handler == nullptr) throw_bad_alloc();
    handler();
  }
}

// Whether the program sees our basic form, or has its own. The asm hides the addresses: the compiler assumes that
// symbols of different names have different ones.
template <class Function> bool is_ours(Function* visible, Function* own) {
  asm("" : "+r"(visible));
  return visible == own;
}
bool new_is_ours() { return is_ours(&freeway_visible_new, &freeway_own_new); }
bool aligned_new_is_ours() { return is_ours(&freeway_visible_aligned_new, &freeway_own_aligned_new); }

// Of what operator new gave, which realloc has not had; `is_new_ours`: else the block's size is not known.
FREEWAY_INLINE void free_sized(void* block, size_t size, size_t alignment, bool is_new_ours, const void* caller) {
  if (FREEWAY_UNLIKELY(!is_new_ours)) return freeway_free(block);
  freeway::family::free_sized(block, size, alignment, /*may_be_resized=*/false, caller);
}

// A nothrow form calls the throwing form (which may be the program's, or call its handler) and catches its exception.
// Catching takes an exception table and so libstdc++; its own nothrow form, named `name`, does exactly that.
template <class Standard, class... Arguments> void* ask_standard(const char* name, Arguments... arguments) {
  auto* function = reinterpret_cast<Standard*>(freeway::dynamic_linker::find(RTLD_NEXT, name));
  return function == nullptr ? nullptr : function(arguments...);
}

void* aligned(size_t size, align_val_t alignment) {
  return freeway_aligned_alloc(static_cast<size_t>(alignment), size);
}

void* nothrow_new(size_t size, const nothrow_t& tag, const char* name) {
  using Standard = void*(size_t, const nothrow_t&);
  if (FREEWAY_LIKELY(new_is_ours())) {
    void* block = freeway_malloc(size);
    if (FREEWAY_LIKELY(block != nullptr) || new_handler() == nullptr) return block;
  }
  return ask_standard<Standard, size_t, const nothrow_t&>(name, size, tag);
}

void* nothrow_aligned_new(size_t size, align_val_t alignment, const nothrow_t& tag, const char* name) {
  using Standard = void*(size_t, align_val_t, const nothrow_t&);
  if (FREEWAY_LIKELY(aligned_new_is_ours())) {
    void* block = aligned(size, alignment);
    if (FREEWAY_LIKELY(block != nullptr) || new_handler() == nullptr) return block;
  }
  return ask_standard<Standard, size_t, align_val_t, const nothrow_t&>(name, size, alignment, tag);
}

template <class Allocate> SizedPointer tell_size(Allocate&& allocate) {
  freeway_sized_block_t given = {};
  allocate_or_throw([&] { return (given = allocate()).ptr; });
  return {given.ptr, given.size};
}

}  // namespace

// Where the basic forms go when they cannot finish in assembly.
extern "C" {
FREEWAY_HIDDEN void* freeway_new_slow(size_t size) {
  return allocate_or_throw([=] { return freeway_malloc(size); });
}
FREEWAY_HIDDEN void* freeway_aligned_new_slow(size_t size, align_val_t alignment) {
  return allocate_or_throw([=] { return aligned(size, alignment); });
}
}

// Theirs where the program has its own: it wins over these, also when the static library brings them along.
#define FREEWAY_REPLACEABLE FREEWAY_EXPORT __attribute__((weak))

extern "C" {
FREEWAY_HIDDEN void* freeway_own_new_array(size_t size) { return freeway_visible_new(size); }
FREEWAY_HIDDEN void* freeway_own_aligned_new_array(size_t size, align_val_t alignment) {
  return freeway_visible_aligned_new(size, alignment);
}
FREEWAY_HIDDEN void freeway_own_delete_array(void* block) noexcept { freeway_visible_delete(block); }
FREEWAY_HIDDEN void freeway_own_aligned_delete_array(void* block, align_val_t alignment) noexcept {
  freeway_visible_aligned_delete(block, alignment);
}

// Whether sized delete, also of arrays, may go past what the program sees.
FREEWAY_HIDDEN bool freeway_delete_is_ours() {
  return is_ours(&freeway_visible_delete, &freeway_own_delete) &&
         is_ours(&freeway_visible_delete_array, &freeway_own_delete_array);
}

// Sized delete, where the assembly has not found that the size is right.
FREEWAY_HIDDEN void freeway_delete_slow(void* block, size_t size) noexcept {
  if (!is_ours(&freeway_visible_delete, &freeway_own_delete)) return freeway_visible_delete(block);
  free_sized(block, size, /*alignment=*/1, new_is_ours(), __builtin_return_address(0));
}
FREEWAY_HIDDEN void freeway_delete_array_slow(void* block, size_t size) noexcept {
  if (!freeway_delete_is_ours()) return freeway_visible_delete_array(block);
  const bool is_new_ours = new_is_ours() && is_ours(&freeway_visible_new_array, &freeway_own_new_array);
  free_sized(block, size, /*alignment=*/1, is_new_ours, __builtin_return_address(0));
}
}

// delete takes back what they give: so where the program has a new of its own, it is that one's block.
FREEWAY_REPLACEABLE SizedPointer freeway_sized_new(size_t size) {
  if (FREEWAY_UNLIKELY(!new_is_ours())) return {freeway_visible_new(size), size};
  return tell_size([=] { return freeway_alloc_at_least(size); });
}
FREEWAY_REPLACEABLE SizedPointer freeway_sized_aligned_new(size_t size, align_val_t alignment) {
  if (FREEWAY_UNLIKELY(!aligned_new_is_ours())) return {freeway_visible_aligned_new(size, alignment), size};
  return tell_size([=] { return freeway_aligned_alloc_at_least(static_cast<size_t>(alignment), size); });
}

#pragma GCC diagnostic ignored "-Wsized-deallocation"  // the unsized and sized ones are not in this file

// The forms that call the basic ones.
FREEWAY_REPLACEABLE void* operator new[](size_t) __attribute__((alias("freeway_own_new_array")));
FREEWAY_REPLACEABLE void* operator new[](size_t, align_val_t) __attribute__((alias("freeway_own_aligned_new_array")));
FREEWAY_REPLACEABLE void* operator new(size_t size, const nothrow_t& tag) noexcept {
  return nothrow_new(size, tag, "_ZnwmRKSt9nothrow_t");
}
FREEWAY_REPLACEABLE void* operator new[](size_t size, const nothrow_t& tag) noexcept {
  return nothrow_new(size, tag, "_ZnamRKSt9nothrow_t");
}
FREEWAY_REPLACEABLE void* operator new(size_t size, align_val_t alignment, const nothrow_t& tag) noexcept {
  return nothrow_aligned_new(size, alignment, tag, "_ZnwmSt11align_val_tRKSt9nothrow_t");
}
FREEWAY_REPLACEABLE void* operator new[](size_t size, align_val_t alignment, const nothrow_t& tag) noexcept {
  return nothrow_aligned_new(size, alignment, tag, "_ZnamSt11align_val_tRKSt9nothrow_t");
}
FREEWAY_REPLACEABLE void operator delete(void* block, const nothrow_t&) noexcept { freeway_visible_delete(block); }
FREEWAY_REPLACEABLE void operator delete[](void*) noexcept __attribute__((alias("freeway_own_delete_array")));
FREEWAY_REPLACEABLE void operator delete[](void* block, const nothrow_t&) noexcept {
  freeway_visible_delete_array(block);
}
FREEWAY_REPLACEABLE void operator delete(void* block, align_val_t alignment, const nothrow_t&) noexcept {
  freeway_visible_aligned_delete(block, alignment);
}
FREEWAY_REPLACEABLE void operator delete(void* block, size_t size, align_val_t alignment) noexcept {
  if (!is_ours(&freeway_visible_aligned_delete, &freeway_own_aligned_delete))
    return freeway_visible_aligned_delete(block, alignment);
  free_sized(block, size, static_cast<size_t>(alignment), aligned_new_is_ours(), __builtin_return_address(0));
}
FREEWAY_REPLACEABLE void operator delete[](void*, align_val_t) noexcept
    __attribute__((alias("freeway_own_aligned_delete_array")));
FREEWAY_REPLACEABLE void operator delete[](void* block, align_val_t alignment, const nothrow_t&) noexcept {
  freeway_visible_aligned_delete_array(block, alignment);
}
FREEWAY_REPLACEABLE void operator delete[](void* block, size_t size, align_val_t alignment) noexcept {
  if (!is_ours(&freeway_visible_aligned_delete, &freeway_own_aligned_delete) ||
      !is_ours(&freeway_visible_aligned_delete_array, &freeway_own_aligned_delete_array))
    return freeway_visible_aligned_delete_array(block, alignment);
  const bool is_new_ours =
      aligned_new_is_ours() && is_ours(&freeway_visible_aligned_new_array, &freeway_own_aligned_new_array);
  free_sized(block, size, static_cast<size_t>(alignment), is_new_ours, __builtin_return_address(0));
}

#endif  // FREEWAY_PREFIXED
