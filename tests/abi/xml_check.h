// SPDX-License-Identifier: MIT
//
// xml_check.h: is a text well-formed XML, as far as malloc_info uses XML (elements, attributes, text; no comments, no
// declarations, no CDATA)? A parser of this size needs no library and no allocator of its own.
#ifndef FREEWAY_TESTS_ABI_XML_CHECK_H
#define FREEWAY_TESTS_ABI_XML_CHECK_H

#include <cctype>
#include <set>
#include <string>
#include <vector>

namespace freeway::test {

// "" if `text` is one well-formed element, else what is wrong with it.
inline std::string xml_fault(const std::string& text) {
  std::vector<std::string> open;
  size_t at = 0;
  bool root_closed = false;
  const auto is_name = [](char c) {
    return isalnum(static_cast<unsigned char>(c)) || c == '_' || c == '-' || c == ':';
  };
  const auto skip_space = [&] {
    while (at < text.size() && isspace(static_cast<unsigned char>(text[at]))) ++at;
  };
  const auto take_name = [&] {
    const size_t start = at;
    while (at < text.size() && is_name(text[at])) ++at;
    return text.substr(start, at - start);
  };
  while (at < text.size()) {
    if (text[at] != '<') {
      if (open.empty() && !isspace(static_cast<unsigned char>(text[at]))) return "text outside the root element";
      if (text[at] == '&') return "an entity, which the figures of a heap do not need";
      ++at;
      continue;
    }
    if (++at < text.size() && text[at] == '/') {
      ++at;
      const std::string name = take_name();
      skip_space();
      if (open.empty() || open.back() != name) return "</" + name + "> closes what is not open";
      if (at >= text.size() || text[at] != '>') return "</" + name + " is not ended";
      ++at;
      open.pop_back();
      root_closed = open.empty();
      continue;
    }
    if (root_closed) return "a second root element";
    const std::string name = take_name();
    if (name.empty() || isdigit(static_cast<unsigned char>(name[0]))) return "an element without a name";
    std::set<std::string> attributes;
    for (;;) {
      const size_t before_space = at;
      skip_space();
      if (at >= text.size()) return "<" + name + " is not ended";
      if (text[at] == '>') {
        ++at;
        open.push_back(name);
        break;
      }
      if (text.compare(at, 2, "/>") == 0) {
        at += 2;
        root_closed = open.empty();
        break;
      }
      if (at == before_space) return "no space before an attribute of <" + name;
      const std::string attribute = take_name();
      if (attribute.empty() || text.compare(at, 2, "=\"") != 0) return "a broken attribute in <" + name;
      if (!attributes.insert(attribute).second) return "attribute " + attribute + " twice in <" + name;
      const size_t end = text.find('"', at + 2);
      if (end == std::string::npos) return "an open value in <" + name;
      if (text.substr(at + 2, end - at - 2).find_first_of("<&") != std::string::npos) return "a raw < or & in a value";
      at = end + 1;
    }
  }
  if (!open.empty()) return "<" + open.back() + "> is never closed";
  return root_closed ? "" : "no element at all";
}

}  // namespace freeway::test

#endif  // FREEWAY_TESTS_ABI_XML_CHECK_H
