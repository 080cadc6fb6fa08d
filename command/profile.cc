// SPDX-License-Identifier: MIT
// profile.cc: `freeway profile`: a program of its own, for the libraries that it needs.
#include "profile.h"

#include <filesystem>
#include <string>
#include <vector>

#include "attend.h"
#include "report.h"

namespace freeway_command {

int profile(char** argv) {
  namespace fs = std::filesystem;
  std::error_code error;
  const std::string name = "freeway-profile";
  const fs::path folder = fs::read_symlink("/proc/self/exe", error).parent_path();
  // Beside this command in a build directory; where installing put it, as seen from this command; where installing put
  // it.
  for (const fs::path& place :
       {folder / name, folder.parent_path() / "libexec/freeway" / name, fs::path(FREEWAY_INSTALLED_LIBEXEC) / name}) {
    if (!fs::is_regular_file(place, error)) continue;
    std::vector<char*> arguments = {const_cast<char*>(name.c_str())};
    for (; *argv != nullptr; ++argv) arguments.push_back(*argv);
    arguments.push_back(nullptr);
    return become(place.native(), arguments.data());
  }
  return fail(kOwnFailure,
              "there is no " + name +
                  " here: it is left out where protobuf, elfutils or zlib is missing when Freeway is built");
}

}  // namespace freeway_command
