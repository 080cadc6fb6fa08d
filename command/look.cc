// SPDX-License-Identifier: MIT
#include "look.h"

#include <algorithm>
#include <cstdio>
#include <ctime>

#include "report.h"

namespace freeway_command {

std::vector<std::string> read_arguments(char** argv, const std::vector<LookOption>& options, const char* usage) {
  std::vector<std::string> others;
  for (; *argv != nullptr; ++argv) {
    const std::string argument = *argv;
    const auto is_it = [&](const LookOption& each) { return argument == each.name; };
    if (!argument.starts_with("--") && std::none_of(options.begin(), options.end(), is_it)) {
      others.push_back(argument);
      continue;
    }
    const std::size_t equals = argument.find('=');
    const LookOption* option = nullptr;
    for (const LookOption& each : options)
      if (argument.substr(0, equals) == each.name) option = &each;
    if (option == nullptr || (equals != std::string::npos && !option->has_value))
      throw Failure(kOwnFailure, "what is " + argument + "? (" + usage + ")");
    if (!option->has_value) {
      option->take("");
    } else if (equals != std::string::npos) {
      option->take(argument.substr(equals + 1));
    } else if (argv[1] != nullptr) {
      option->take(*++argv);
    } else {
      throw Failure(kOwnFailure, argument + " wants a value (" + usage + ")");
    }
  }
  return others;
}

int look(const std::function<int()>& f) {
  try {
    const int status = f();
    return std::fflush(stdout) == 0 ? status : fail(kOwnFailure, "the answer could not be written");
  } catch (const Failure& failure) {
    std::fflush(stdout);
    return fail(failure.status, failure.what());
  } catch (const std::bad_alloc&) { return fail(kOwnFailure, "there is not enough memory for what is to be read"); }
}

void warn_of(const Memory& memory) {
  if (!memory.warning().empty())
    std::fprintf(stderr, "freeway: %s; what follows is from the rest\n", memory.warning().c_str());
}

std::string json_text(const std::string& text) {
  std::string json = "\"";
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\') {
      json += {'\\', c};
    } else if (byte < 0x20 || byte >= 0x7f) {  // other bytes than ASCII's as the characters of the same number
      char escape[8];
      std::snprintf(escape, sizeof(escape), "\\u%04x", byte);
      json += escape;
    } else {
      json += c;
    }
  }
  return json + "\"";
}

std::string in_units(std::uint64_t bytes) {
  constexpr const char* kUnits[] = {"B", "KiB", "MiB", "GiB", "TiB"};
  auto size = static_cast<double>(bytes);
  unsigned unit = 0;
  for (; size >= 1024 && unit < 4; ++unit) size /= 1024;
  char text[32];
  std::snprintf(text, sizeof(text), unit == 0 ? "%.0f %s" : "%.1f %s", size, kUnits[unit]);
  return text;
}

std::uint64_t now_ns() {
  timespec time = {};
  clock_gettime(CLOCK_REALTIME, &time);
  return static_cast<std::uint64_t>(time.tv_sec) * 1'000'000'000 + static_cast<std::uint64_t>(time.tv_nsec);
}

}  // namespace freeway_command
