// SPDX-License-Identifier: MIT
#include "screen.h"

#include <poll.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>

namespace freeway_command {
namespace {

volatile std::sig_atomic_t ended = 0, suspended = 0;

constexpr const char kEnter[] = "\x1b[?1049h\x1b[?25l";  // another page, no cursor
constexpr const char kLeave[] = "\x1b[?25h\x1b[?1049l";

bool says_utf8() {
  for (const char* name : {"LC_ALL", "LC_CTYPE", "LANG"})
    if (const char* value = std::getenv(name); value != nullptr && *value != 0)
      return strcasestr(value, "utf-8") != nullptr || strcasestr(value, "utf8") != nullptr;
  return false;
}

// The first `columns` characters; what stands in escape sequences takes no room.
std::string cut(const std::string& line, std::size_t columns) {
  std::size_t used = 0;
  for (std::size_t i = 0; i < line.size(); ++i) {
    if (line[i] == '\x1b') {
      while (i + 1 < line.size() && line[i] != 'm') ++i;
      continue;
    }
    const bool begins = (static_cast<unsigned char>(line[i]) & 0xc0) != 0x80;
    if (begins && used++ == columns) return line.substr(0, i) + "\x1b[0m";
  }
  return line;
}

}  // namespace

Screen::Screen(bool may_refresh) : utf8_(says_utf8()) {
  terminal_ = may_refresh && isatty(1) == 1;
  const char* none = std::getenv("NO_COLOR");
  colours_ = isatty(1) == 1 && (none == nullptr || *none == 0);
  struct sigaction action = {};
  action.sa_handler = [](int) { ended = 1; };  // without SA_RESTART: a wait ends
  for (const int signal : {SIGINT, SIGTERM, SIGHUP}) sigaction(signal, &action, nullptr);
  action.sa_handler = [](int) { suspended = 1; };
  if (!terminal_) return;
  sigaction(SIGTSTP, &action, nullptr);
  enter();
}

Screen::~Screen() {
  leave();
  std::fflush(stdout);
}

void Screen::enter() {
  if (!terminal_) return;
  std::fputs(kEnter, stdout);
  // From the background neither keys nor the terminal's settings may be had.
  keys_ = tcgetpgrp(STDIN_FILENO) == getpgrp() && tcgetattr(STDIN_FILENO, &before_) == 0;
  if (!keys_) return;
  termios now = before_;
  now.c_lflag &= ~static_cast<tcflag_t>(ICANON | ECHO);
  now.c_cc[VMIN] = 1;
  now.c_cc[VTIME] = 0;
  tcsetattr(STDIN_FILENO, TCSADRAIN, &now);
}

void Screen::leave() {
  if (!terminal_) return;
  if (keys_) tcsetattr(STDIN_FILENO, TCSADRAIN, &before_);
  std::fputs(kLeave, stdout);
}

namespace {

winsize size_of_terminal() {
  winsize size = {};
  return ioctl(1, TIOCGWINSZ, &size) != 0 || size.ws_col == 0 ? winsize{24, 80, 0, 0} : size;
}

}  // namespace

std::size_t Screen::rows() const { return terminal_ ? std::max(2, size_of_terminal().ws_row - 1) : SIZE_MAX; }

void Screen::show(const std::vector<std::string>& lines) {
  const winsize size = size_of_terminal();
  std::string page = terminal_ ? "\x1b[H" : first_ ? "" : "\n";
  for (std::size_t i = 0, most = std::min(lines.size(), rows()); i < most; ++i)
    page += terminal_ ? cut(lines[i], size.ws_col) + "\x1b[K\n" : lines[i] + "\n";
  if (terminal_) page += "\x1b[J";
  first_ = false;
  std::fwrite(page.data(), 1, page.size(), stdout);
  if (std::fflush(stdout) != 0) ended = 1;
}

int Screen::wait(double seconds) {
  const auto whole = static_cast<time_t>(seconds);
  const timespec time = {whole, static_cast<long>((seconds - static_cast<double>(whole)) * 1e9)};
  pollfd input = {keys_ ? STDIN_FILENO : -1, POLLIN, 0};
  char key = 0;
  const bool pressed = ended == 0 && suspended == 0 && ppoll(&input, 1, &time, nullptr) == 1;
  if (pressed && read(STDIN_FILENO, &key, 1) != 1) keys_ = false;  // it has been hung up
  if (suspended != 0 && ended == 0) {
    suspended = 0;
    leave();
    std::fflush(stdout);
    raise(SIGSTOP);  // goes on from here
    enter();
  }
  return ended != 0 ? kEnd : static_cast<unsigned char>(key);
}

std::string Screen::in(int colour, const std::string& text) const {
  return colours_ ? "\x1b[" + std::to_string(colour) + "m" + text + "\x1b[0m" : text;
}

std::string Screen::sparkline(const std::vector<double>& values) const {
  constexpr const char* kBlocks[] = {"▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"};
  constexpr const char* kSigns[] = {"_", ".", ":", "-", "=", "+", "*", "#"};
  const double highest = values.empty() ? 0 : *std::max_element(values.begin(), values.end());
  std::string line;
  for (const double value : values) {
    const auto step = static_cast<std::size_t>(highest > 0 ? std::clamp(value / highest * 7.999, 0.0, 7.0) : 0);
    line += utf8_ ? kBlocks[step] : kSigns[step];
  }
  return line;
}

std::string Screen::bar(double share, unsigned width) const {
  const auto full = static_cast<unsigned>(std::lround(std::clamp(share, 0.0, 1.0) * width));
  std::string line;
  for (unsigned i = 0; i < width; ++i) line += i < full ? (utf8_ ? "█" : "#") : (utf8_ ? "·" : ".");
  return line;
}

}  // namespace freeway_command
