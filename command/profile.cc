// SPDX-License-Identifier: MIT
// profile.cc: `freeway profile`: a program of its own, for the libraries that it needs.
#include "profile.h"

#include <filesystem>
#include <string>
#include <vector>

#include "attend.h"
#include "report.h"
#include "subcommands.h"

namespace freeway_command {

namespace {
constexpr const char* kName = "freeway-profile";
}

std::string profile_program() {
  namespace fs = std::filesystem;
  std::error_code error;
  const fs::path folder = fs::read_symlink("/proc/self/exe", error).parent_path();
  // Beside this command in a build directory; where installing put it, as seen from this command; where installing put
  // it.
  for (const fs::path& place :
       {folder / kName, folder.parent_path() / "libexec/freeway" / kName, fs::path(FREEWAY_INSTALLED_LIBEXEC) / kName})
    if (fs::is_regular_file(place, error)) return place.native();
  return {};
}

int profile(char** argv) {
  const std::string program = profile_program();
  if (program.empty())
    return fail(kCannot, std::string("there is no ") + kName +
                             " here: it is left out where protobuf, elfutils or zlib is missing when Freeway is built");
  std::vector<char*> arguments = {const_cast<char*>(kName)};
  for (; *argv != nullptr; ++argv) arguments.push_back(*argv);
  arguments.push_back(nullptr);
  return become(program, arguments.data());
}

}  // namespace freeway_command
