// SPDX-License-Identifier: MIT
//
// in_place.cc: succeeds if the library that malloc comes from is the file named by the first argument (its beginning),
// and is the only one of Freeway's that is loaded.
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <set>
#include <string>

int main(int argc, char** argv) {
  if (argc != 2) return 2;
  std::set<std::string> loaded;
  FILE* maps = fopen("/proc/self/maps", "r");
  if (maps == nullptr) return 2;
  for (char line[PATH_MAX + 200]; fgets(line, sizeof line, maps) != nullptr;) {
    line[strcspn(line, "\n")] = 0;
    if (const char* name = strrchr(line, '/'); name != nullptr && strncmp(name + 1, "libfreeway", 10) == 0)
      loaded.insert(name + 1);
  }
  fclose(maps);
  for (const std::string& name : loaded) printf("%s\n", name.c_str());
  return loaded.size() == 1 && loaded.begin()->starts_with(argv[1]) ? 0 : 1;
}
