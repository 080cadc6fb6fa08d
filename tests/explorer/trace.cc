// SPDX-License-Identifier: MIT
// trace.cc: an execution as lines that a person can follow.
#include <cstdio>
#include <cstring>

#include "tests/explorer/execution.h"

namespace freeway::model {

bool Site::operator==(const Site& other) const {
  return line == other.line && (file == other.file || (file && other.file && std::strcmp(file, other.file) == 0));
}

namespace {

const char* kind_name(Kind kind) {
  static const char* const kNames[] = {"load",     "store",     "exchange", "fetch_add", "fetch_sub",
                                       "fetch_or", "fetch_and", "cas",      "choose"};
  return kNames[static_cast<int>(kind)];
}

const char* order_name(Order order) {
  static const char* const kNames[] = {"relaxed", "acquire", "release", "acq_rel"};
  return kNames[order];
}

std::string number(std::uint64_t value) {
  char text[32];
  std::snprintf(text, sizeof text, value < 10 ? "%llu" : "0x%llx", static_cast<unsigned long long>(value));
  return text;
}

const char* base_name(const char* file) {
  const char* slash = std::strrchr(file, '/');
  return slash ? slash + 1 : file;
}

}  // namespace

void Execution::trace_line(int thread, const std::string& text) {
  std::string who = thread == kMainThread ? "main" : "T" + std::to_string(thread);
  trace_->push_back("  " + who + std::string(6 - who.size(), ' ') + text);
}

// Accesses to many fields of one array are one line.
void Execution::trace_access(int thread, const std::string& name, bool write) {
  const std::size_t array = name.find('+');
  const std::string line = (write ? "writes " : "reads ") + name.substr(0, array);
  if (!trace_->empty()) {
    std::string& last = trace_->back();
    const std::size_t at = last.find(line);
    if (array != std::string::npos && at != std::string::npos && last.find("T" + std::to_string(thread)) == 2) {
      if (last.back() != '.') last += " ...";
      return;
    }
  }
  trace_line(thread, (write ? "writes " : "reads ") + name);
}

void Execution::trace_operation(int thread, const Operation& op, Timestamp choice) {
  const Location& word = memory_.location(op.location);
  const std::size_t chosen = word.index_of(choice);
  const std::size_t later = word.count - 1 - chosen - op.wrote;  // values newer than the one chosen
  std::string text = kind_name(op.kind) + (std::string(".") + order_name(op.order));
  text.resize(20, ' ');
  text += " " + word.name;
  text.resize(text.size() < 40 ? 40 : text.size() + 1, ' ');
  if (op.kind == Kind::kStore) {
    text += "-> " + number(op.operand);
  } else {
    text += number(op.result);
    if (op.wrote) text += " -> " + number(word.messages[chosen + 1].value);
    else if (op.kind == Kind::kCas) text += " is not " + number(op.expected) + ": fails";
  }
  if (later != 0)
    text += (op.wrote ? " (before " : " (stale by ") + std::to_string(later) + (op.wrote ? " newer)" : ")");
  text.resize(text.size() < 80 ? 80 : text.size() + 1, ' ');
  text += std::string(base_name(op.site.file)) + ":" + std::to_string(op.site.line);
  trace_line(thread, text);
}

}  // namespace freeway::model
