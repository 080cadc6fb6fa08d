// SPDX-License-Identifier: MIT
#include "os/memory_size.h"

#include <linux/sysinfo.h>
#include <string.h>

#include "base/compiler.h"
#include "os/syscall.h"
#include "os/text_file.h"

namespace freeway {
namespace {

// The power of 1024 that the letter means; 0: none.
unsigned shift_of(char letter) {
  constexpr char kLetters[] = "kmgt";
  for (unsigned i = 0; i < 4; ++i)
    if ((letter | 0x20) == kLetters[i]) return 10 * (i + 1);
  return 0;
}

}  // namespace

const char* parse_decimal(const char* text, u64* value) {
  if (*text < '0' || *text > '9') return nullptr;
  u64 number = 0;
  for (; *text >= '0' && *text <= '9'; ++text)
    if (__builtin_mul_overflow(number, 10, &number) ||
        __builtin_add_overflow(number, static_cast<u64>(*text - '0'), &number))
      return nullptr;
  *value = number;
  return text;
}

const char* parse_memory_size(const char* text, u64 (*whole)(), u64* bytes) {
  u64 number = 0;
  const char* end = parse_decimal(text, &number);
  if (end == nullptr) return nullptr;
  if (*end == '%') {
    if (number > 100) return nullptr;
    const u64 all = whole();
    *bytes = all / 100 * number + all % 100 * number / 100;
    return end + 1;
  }
  const unsigned shift = shift_of(*end);
  if (shift != 0 && number >> (64 - shift) != 0) return nullptr;
  *bytes = number << shift;
  return shift == 0 ? end : end + 1;
}

bool parse_memory_limits(const char* text, u64 (*whole)(), MemoryLimits* limits) {
  MemoryLimits found;
  if (*text != ',') {
    text = parse_memory_size(text, whole, &found.soft);
    if (text == nullptr) return false;
  }
  if (*text == ',') {
    text = parse_memory_size(text + 1, whole, &found.hard);
    if (text == nullptr) return false;
  }
  const auto is_limit = [](u64 bytes) { return bytes == 0 || bytes >= 64 * kKiB; };
  if (*text != 0 || !is_limit(found.soft) || !is_limit(found.hard)) return false;
  if (found.hard != 0 && found.soft > found.hard) return false;
  *limits = found;
  return true;
}

// --- The memory that the process may have. ---------------------------------------------------------------------------

namespace {

constexpr u64 kUnlimited = u64{1} << 62;  // version 1 writes a number near 2^63 for no limit

FREEWAY_NOINLINE u64 number_in(const char* path) {
  char line[32];
  u64 number = kUnlimited;
  return TextLines(path).next(line, sizeof(line)) && parse_decimal(line, &number) != nullptr ? number : kUnlimited;
}

// A line of /proc/self/cgroup, with room before it for the folders that make the group's name a path.
struct ControlGroup {
  static constexpr std::size_t kRoom = 128, kLongest = 720;
  char text[kRoom + kLongest];
  char* line() { return text + kRoom; }
};

// Whether the controllers of the line, between its first two colons, are these. Returns the start of the group's name,
// or null.
char* name_of(char* line, const char* controllers) {
  const auto colon = [](char* at) {
    while (*at != ':' && *at != 0) ++at;
    return *at == ':' ? at : nullptr;
  };
  char* const begin = colon(line);
  char* const end = begin == nullptr ? nullptr : colon(begin + 1);
  if (end == nullptr) return nullptr;
  const std::size_t wanted = strlen(controllers);
  for (const char* word = begin + 1;; ++word) {
    const char* stop = word;
    while (stop < end && *stop != ',') ++stop;
    if (static_cast<std::size_t>(stop - word) == wanted && strncmp(word, controllers, wanted) == 0) return end + 1;
    if (stop == end) return nullptr;
    word = stop;
  }
}

// The least of the limits in `file` of the group `name`, which lies in `group`, and of all above it, under root +
// folder.
u64 least_limit(ControlGroup& group, char* name, const char* root, const char* folder, const char* file) {
  const std::size_t above = strlen(root), at = strlen(folder), tail = strlen(file);
  if (above + at > static_cast<std::size_t>(name - group.text)) return kUnlimited;
  char* const path = name - at - above;
  std::size_t length = strlen(name);
  // NOLINTBEGIN(bugprone-not-null-terminated-result): `name` follows
  memcpy(path, root, above);
  memcpy(path + above, folder, at);
  // NOLINTEND(bugprone-not-null-terminated-result)
  for (u64 least = kUnlimited;;) {
    while (length > 0 && name[length - 1] == '/') --length;
    if (name + length + tail < group.text + sizeof(group.text)) {
      memcpy(name + length, file, tail + 1);
      const u64 limit = number_in(path);
      if (limit < least) least = limit;
    }
    if (length == 0) return least;
    while (length > 0 && name[length - 1] != '/') --length;
  }
}

}  // namespace

u64 process_memory_under(const char* root, u64 machine) {
  constexpr char kGroups[] = "/proc/self/cgroup";
  const std::size_t above = strlen(root);
  u64 least = machine;
  ControlGroup group;
  if (above + sizeof(kGroups) > sizeof(group.text)) return least;
  memcpy(group.text, root, above);
  memcpy(group.text + above, kGroups, sizeof(kGroups));
  TextLines lines(group.text);
  while (lines.next(group.line(), ControlGroup::kLongest)) {
    u64 limit = kUnlimited;
    if (char* name = name_of(group.line(), "")) limit = least_limit(group, name, root, "/sys/fs/cgroup", "/memory.max");
    else if (char* older = name_of(group.line(), "memory"))
      limit = least_limit(group, older, root, "/sys/fs/cgroup/memory", "/memory.limit_in_bytes");
    if (limit < least) least = limit;
  }
  return least;
}

u64 machine_memory() {
  struct sysinfo info;
  if (raw_syscall(SYS_sysinfo, reinterpret_cast<u64>(&info)) != 0) return kUnlimited;
  return u64{info.totalram} * info.mem_unit;
}

u64 resident_pages() {
  char line[128];
  u64 whole = 0, resident = 0;
  if (!TextLines("/proc/self/statm").next(line, sizeof(line))) return 0;
  const char* end = parse_decimal(line, &whole);
  if (end == nullptr || *end != ' ' || parse_decimal(end + 1, &resident) == nullptr) return 0;
  return resident;
}

u64 process_memory() { return process_memory_under("", machine_memory()); }

}  // namespace freeway
