// SPDX-License-Identifier: MIT
//
// dlopen_test.cc: RTLD_DEEPBIND does not part a library from our malloc; everything else about dlopen is the C
// library's.
#include <dlfcn.h>
#include <gtest/gtest.h>
#include <malloc.h>

#include <cstdlib>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

#include "freeway/freeway.h"

#if !defined(RTLD_DEEPBIND)
#define RTLD_DEEPBIND 8
#endif

namespace freeway::test {
namespace {

constexpr size_t kSizes[] = {1, 100, 5000, 100'000, 5'000'000};

struct Handle {
  explicit Handle(void* library) : value(library) {}
  ~Handle() {
    if (value != nullptr) dlclose(value);
  }
  Handle(const Handle&) = delete;
  Handle& operator=(const Handle&) = delete;

  template <class Function> Function* function(const char* name) const {
    return reinterpret_cast<Function*>(dlsym(value, name));
  }
  void* value;
};

// The file that holds `address`.
std::string file_of(const void* address) {
  Dl_info info{};
  return dladdr(address, &info) != 0 && info.dli_fname != nullptr ? info.dli_fname : "";
}

// Which file's free the plugin calls if it is loaded with `flags`.
std::string free_of_plugin(int flags) {
  const Handle plugin(dlopen(FREEWAY_TEST_PLUGIN, flags));
  return plugin.value == nullptr ? "not loaded" : file_of(plugin.function<void*()>("plugin_address_of_free")());
}

const std::string kOurs = file_of(reinterpret_cast<const void*>(&freeway_version));

TEST(Deepbind, AManyThreadedFirstCallFindsTheSameFunctionForAll) {
  std::vector<std::thread> threads;
  std::vector<void*> handles(8);
  for (void*& handle : handles)
    threads.emplace_back([&handle] { handle = dlopen(FREEWAY_TEST_PLUGIN, RTLD_NOW | RTLD_DEEPBIND); });
  for (std::thread& thread : threads) thread.join();
  for (void* handle : handles) {
    ASSERT_NE(handle, nullptr);
    EXPECT_EQ(handle, handles[0]);
    EXPECT_EQ(dlclose(handle), 0);
  }
}

TEST(Deepbind, ALibraryThatAsksForItHasOurMalloc) {
  EXPECT_EQ(free_of_plugin(RTLD_NOW | RTLD_DEEPBIND), kOurs);
  EXPECT_EQ(free_of_plugin(RTLD_LAZY | RTLD_GLOBAL | RTLD_DEEPBIND), kOurs);
}

TEST(Deepbind, BlocksOfTheProgramAndOfTheLibraryAreFreedByEither) {
  const Handle plugin(dlopen(FREEWAY_TEST_PLUGIN, RTLD_NOW | RTLD_DEEPBIND));
  ASSERT_NE(plugin.value, nullptr) << dlerror();
  auto* make = plugin.function<void*(size_t)>("plugin_make");
  auto* resize = plugin.function<void*(void*, size_t)>("plugin_resize");
  auto* drop = plugin.function<void(void*)>("plugin_drop");
  for (const size_t size : kSizes)
    for (int i = 0; i < 100; ++i) {
      void* ours = malloc(size);
      memset(ours, i, size);
      ours = resize(ours, 2 * size);
      ASSERT_EQ(static_cast<unsigned char*>(ours)[size - 1], i);
      drop(ours);
      void* theirs = make(size);
      memset(theirs, i, size);
      EXPECT_GE(malloc_usable_size(theirs), size);
      free(theirs);
    }
  freeway_audit_t audit;
  EXPECT_EQ(freeway_audit(&audit, sizeof audit), 0);
}

TEST(Dlopen, TheCallersRunpathIsSearched) {
  EXPECT_EQ(dlopen("libloader_hidden.so", RTLD_NOW), nullptr) << "the program itself cannot find it";
  const Handle caller(dlopen(FREEWAY_TEST_CALLER, RTLD_NOW));
  ASSERT_NE(caller.value, nullptr) << dlerror();
  auto* load = caller.function<void*(const char*, int)>("caller_load");
  for (const int flags : {RTLD_NOW, RTLD_NOW | RTLD_DEEPBIND}) {
    const Handle hidden(load("libloader_hidden.so", flags));
    EXPECT_NE(hidden.value, nullptr) << dlerror();
    const Handle by_origin(load("$ORIGIN/hidden/libloader_hidden.so", flags));
    EXPECT_EQ(by_origin.value, hidden.value) << dlerror();
  }
}

TEST(Dlopen, AMissingLibraryIsNamedByDlerror) {
  EXPECT_EQ(dlopen("libno-such-library.so.7", RTLD_NOW | RTLD_DEEPBIND), nullptr);
  const char* said = dlerror();
  ASSERT_NE(said, nullptr);
  EXPECT_NE(strstr(said, "libno-such-library.so.7"), nullptr) << said;
  EXPECT_EQ(dlerror(), nullptr);
}

TEST(Dlopen, NoloadLoadsNothing) {
  EXPECT_EQ(dlopen(FREEWAY_TEST_PLUGIN, RTLD_NOW | RTLD_NOLOAD | RTLD_DEEPBIND), nullptr);
  const Handle plugin(dlopen(FREEWAY_TEST_PLUGIN, RTLD_NOW));
  const Handle again(dlopen(FREEWAY_TEST_PLUGIN, RTLD_NOW | RTLD_NOLOAD));
  ASSERT_NE(plugin.value, nullptr);
  EXPECT_EQ(again.value, plugin.value);
}

TEST(Dlopen, WithoutANameItIsTheProgram) {
  const Handle program(dlopen(nullptr, RTLD_NOW));
  ASSERT_NE(program.value, nullptr);
  EXPECT_EQ(program.function<void*(size_t)>("malloc"), static_cast<void* (*)(size_t)>(&malloc));
}

TEST(Dlopen, WrongFlagsAreRefusedAsByTheCLibrary) {
  EXPECT_EQ(dlopen(FREEWAY_TEST_PLUGIN, 0), nullptr);
  EXPECT_NE(dlerror(), nullptr);
}

// Run with FREEWAY_DEEPBIND=1.
TEST(Kept, DeepbindDoesWhatTheCLibrarySays) {
  EXPECT_NE(free_of_plugin(RTLD_NOW | RTLD_DEEPBIND), kOurs);
  EXPECT_EQ(free_of_plugin(RTLD_NOW), kOurs);
}

}  // namespace
}  // namespace freeway::test
