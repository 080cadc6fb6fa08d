// SPDX-License-Identifier: MIT
// stay.cc: a plugin (a cdylib) that carries Freeway is never unloaded, as libfreeway.so is not (-z nodelete): blocks,
// threads' ends and restartable sections lead into its code until the process ends. A crate cannot give its dependents
// that linker flag, so the plugin asks the loader for it when it is loaded. In programs there is nothing to do, nor
// with musl, where dlclose does nothing.
#include <dlfcn.h>
#include <link.h>

// Missing in static programs, and in musl.
#pragma weak dladdr1
#pragma weak dlopen

__attribute__((constructor)) static void freeway_stay() {
  if (&dladdr1 == nullptr || &dlopen == nullptr) return;
  static const char here = 0;
  Dl_info info;
  link_map* map = nullptr;
  if (dladdr1(&here, &info, reinterpret_cast<void**>(&map), RTLD_DL_LINKMAP) == 0 || map == nullptr) return;
  const bool is_the_program = map->l_name[0] == '\0';
  if (!is_the_program) dlopen(map->l_name, RTLD_NOW | RTLD_NOLOAD | RTLD_NODELETE);
}
