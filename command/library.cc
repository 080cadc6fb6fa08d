// SPDX-License-Identifier: MIT
#include "library.h"

#include <cstdlib>

namespace freeway_command {
namespace {

namespace fs = std::filesystem;

fs::path file_name(const std::string& engine) {
  return engine == "freeway" ? "libfreeway.so.0" : "libfreeway-" + engine + ".so.0";
}

// The places for a command in `folder`, best first. For a library installed as
// /usr/lib/x86_64-linux-gnu/libfreeway.so.0 and a command in P/bin these are P/bin/libfreeway.so.0,
// P/x86_64-linux-gnu/…, P/lib/x86_64-linux-gnu/…, …
std::vector<fs::path> candidates(const fs::path& folder, const std::string& engine) {
  const fs::path installed = engine == "freeway" ? fs::path(FREEWAY_INSTALLED_LIBRARY)
                                                 : fs::path(FREEWAY_INSTALLED_ENGINES) / file_name(engine);
  std::vector<fs::path> places = {folder / installed.filename(), folder.parent_path() / "lib" / installed.filename()};
  fs::path tail = installed.filename();
  for (fs::path above = installed.parent_path(); above.has_relative_path(); above = above.parent_path()) {
    tail = above.filename() / tail;
    places.push_back(folder.parent_path() / tail);
  }
  places.push_back(installed);
  return places;
}

// LD_PRELOAD separates names by spaces and colons and knows no quotes.
Library usable(const fs::path& path) {
  if (path.native().find_first_of(" :") != std::string::npos)
    return {{}, "the library's path '" + path.native() + "' has a space or colon in it, which LD_PRELOAD cannot "
                "express; make a link elsewhere and name it in FREEWAY_LIB"};
  return {path, {}};
}

}  // namespace

Library find_library(const std::string& engine) {
  std::error_code error;
  if (const char* named = std::getenv("FREEWAY_LIB"); named != nullptr && *named != 0) {
    fs::path path = fs::absolute(named, error);
    if (!fs::is_regular_file(path, error)) return {{}, std::string("FREEWAY_LIB names no file: ") + named};
    if (engine == "freeway") return usable(path);
    path.replace_filename(file_name(engine));
    if (!fs::is_regular_file(path, error)) return {{}, "there is no " + path.native() + " beside FREEWAY_LIB"};
    return usable(path);
  }
  std::string looked;
  for (const fs::path& place : candidates(fs::read_symlink("/proc/self/exe", error).parent_path(), engine)) {
    if (fs::is_regular_file(place, error)) return usable(place);
    looked += "\n  " + place.native();
  }
  return {{}, "the library is in none of the places where it was looked for (name it in FREEWAY_LIB):" + looked};
}

std::string preload_with(const Library& library) {
  const char* previous = std::getenv("LD_PRELOAD");
  const bool none = previous == nullptr || *previous == 0;
  return none ? library.path.native() : std::string(previous) + ":" + library.path.native();
}

}  // namespace freeway_command
