// SPDX-License-Identifier: MIT
// write_html.cc: the page, with the data in it as JSON. All that comes from the dump or from a file is in the JSON, and
// the page puts it nowhere but into texts: no name can become part of the page.
#include <cmath>
#include <cstdio>

#include "page.h"
#include "readable.h"
#include "write.h"

namespace freeway_profile {
namespace {

// A string of JSON that ends no <script>, either.
std::string quoted(const std::string& text) {
  std::string out = "\"";
  for (const char c : valid_utf8(text)) {
    if (c == '"' || c == '\\') {
      out += {'\\', c};
    } else if (static_cast<unsigned char>(c) < ' ' || c == '<' || c == '>' || c == '&') {
      char escape[8];
      std::snprintf(escape, sizeof(escape), "\\u%04x", static_cast<unsigned>(c));
      out += escape;
    } else {
      out += c;
    }
  }
  return out + "\"";
}

std::string number(double value) {
  char text[400];
  std::snprintf(text, sizeof(text), "%.0f", value);
  return text;
}

// "[a,b]" of what `each` makes of the elements.
template <class Range, class Function> std::string list(const Range& range, const Function& each) {
  std::string out = "[";
  for (const auto& element : range) {
    if (out.size() > 1) out += ',';
    out += each(element);
  }
  return out + "]";
}

template <class Element> std::vector<Element> reversed(const std::vector<Element>& elements) {
  return {elements.rbegin(), elements.rend()};
}

std::string mean(const Mean& of) { return "[" + number(of.sum) + "," + number(of.weight) + "]"; }

std::string object(const Stack& stack) {
  const auto integer = [](auto value) { return std::to_string(value); };
  return "\n{\"functions\":" + list(reversed(stack.functions), integer) +
         ",\"lines\":" + list(reversed(stack.lines), integer) + ",\"now\":" + list(stack.now.value, number) +
         ",\"before\":" + list(stack.before.value, number) + ",\"age\":" + mean(stack.age_ms) +
         ",\"lifetime\":" + mean(stack.lifetime_ms) + "}";
}

std::string title_of(const Dump& dump) {
  const auto program = dump.about.find("program");
  if (program == dump.about.end()) return "Heap profile";
  return "Heap profile of " + program->second.substr(program->second.rfind('/') + 1);
}

std::string about(const Dump& dump, const Stacks& stacks) {
  std::string text;
  const auto say = [&text](const std::string& what) { text += (text.empty() ? "" : " · ") + what; };
  if (const auto pid = dump.about.find("pid"); pid != dump.about.end()) say("process " + pid->second);
  if (const std::uint64_t time = dump.number("time_ns"); time != 0) say(date_in_words(time));
  say(dump.interval > 1 ? "one sample in " + bytes_in_words(static_cast<double>(dump.interval))
                        : "all blocks were sampled");
  if (stacks.has_base()) say("compared with an earlier dump");
  return text;
}

std::string json(const Profile& profile, const Stacks& stacks, Measure measure) {
  std::vector<double> deviations;
  for (unsigned i = 0; i < kMeasures; ++i) deviations.push_back(stacks.now().deviation(static_cast<Measure>(i)));
  const auto function = [](const Function& each) {
    return "[" + quoted(each.name) + "," + quoted(each.file) + "," + quoted(each.module) + "]";
  };
  return "{\"title\":" + quoted(title_of(profile.dump)) + ",\"about\":" + quoted(about(profile.dump, stacks)) +
         ",\"measure\":" + std::to_string(measure) + ",\"hasBase\":" + (stacks.has_base() ? "true" : "false") +
         ",\"now\":" + list(stacks.now().value, number) + ",\"before\":" + list(stacks.before().value, number) +
         ",\"deviation\":" + list(deviations, number) + ",\n\"functions\":" + list(stacks.functions(), function) +
         ",\n\"stacks\":" + list(stacks.all(), object) + "}\n";
}

std::string replaced(const std::string& page, const std::string& mark, const std::string& by) {
  const std::size_t place = page.find(mark);
  return page.substr(0, place) + by + page.substr(place + mark.size());
}

}  // namespace

std::string write_html(const Profile& profile, const Stacks& stacks, Measure measure) {
  std::string page = replaced(kPageHtml, "<!--style-->", kPageCss);
  page = replaced(page, "<!--script-->", kPageScripts);
  return replaced(page, "<!--data-->", json(profile, stacks, measure));  // last: what is in it is not looked at again
}

}  // namespace freeway_profile
