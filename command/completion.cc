// SPDX-License-Identifier: MIT
// completion.cc: scripts by which shells complete what is typed behind `freeway`.
#include "help.h"

namespace freeway_command {
namespace {

// Subcommands that are offered: those of the help's list; the parts of one are offered behind it.
bool is_offered(const Command& command) { return command.group != nullptr; }

std::string parts_of(const Command& whole) {
  std::string names;
  for (const Command& each : commands())
    if (is_part_of(each, whole))
      names += (names.empty() ? "" : " ") + std::string(each.name).substr(std::string(whole.name).size() + 1);
  return names;
}

// Words that the first argument is one of; empty: it is something else.
std::string first_words(const Command& command) {
  if (const std::string parts = parts_of(command); !parts.empty()) return parts;
  std::string words;
  for (const std::string& each : words_of({"", Takes::kValue, command.arguments, ""})) words += each + " ";
  return words;
}

bool takes_process(const Command& command) { return std::string_view(command.arguments).starts_with("PID"); }

// Between single quotes.
std::string in_quotes(const std::string& text) {
  std::string safe = "'";
  for (const char c : text) safe += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return safe + "'";
}

// "--limit=", "--keep": as they are typed.
std::string typed(const Option& option) {
  return option.name + (option.variable != nullptr && option.alone == nullptr ? "=" : "");
}

std::string join(const std::vector<std::string>& words) {
  std::string all;
  for (const std::string& each : words) all += (all.empty() ? "" : " ") + each;
  return all;
}

std::string for_bash() {
  std::string names, options, values, arguments;
  for (const Command& each : commands()) {
    if (*each.description == 0) continue;
    if (is_offered(each)) names += (names.empty() ? "" : " ") + std::string(each.name);
    std::string all;
    for (const Option& option : each.options) {
      all += typed(option) + " ";
      if (option.takes == Takes::kValue)
        if (const auto words = words_of(option); !words.empty())
          values += "    " + in_quotes(std::string(each.name) + " " + option.name) + ") words='" + join(words) +
                    "' " ";;\n";
    }
    options += "    " + in_quotes(each.name) + ") words='" + all + "--help' ;;\n";
    if (const std::string words = first_words(each); !words.empty())
      arguments += "    " + in_quotes(each.name) + ") words='" + words + "' ;;\n";
    else if (takes_process(each)) arguments += "    " + in_quotes(each.name) + ") words=$(ps -eo pid=,comm=) ;;\n";
    else if (std::string_view(each.arguments).find("PROGRAM") != std::string_view::npos)
      arguments += "    " + in_quotes(each.name) + ") COMPREPLY=($(compgen -c -- \"$word\")) ;;\n";
  }
  return "# bash completion of freeway: source <(freeway completion bash)\n"
         "_freeway() {\n"
         "  local word=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD - 1]} command=${COMP_WORDS[1]} "
         "words=''\n"
         "  COMPREPLY=()\n"
         "  if ((COMP_CWORD == 1)); then\n"
         "    COMPREPLY=($(compgen -W '" + names + " --help --version' -- \"$word\"))\n"
         "    return\n"
         "  fi\n"
         "  if [[ $command == profile && $COMP_CWORD -gt 2 ]]; then command+=\" ${COMP_WORDS[2]}\"; fi\n"
         "  if [[ $before == = ]]; then before=${COMP_WORDS[COMP_CWORD - 2]}; fi\n"
         "  if [[ $word == = ]]; then word=''; fi\n"
         "  case \"$command $before\" in\n" + values +
         "  esac\n"
         "  if [[ -z $words && $word == -* ]]; then\n"
         "    case $command in\n" + options +
         "    esac\n"
         "  elif [[ -z $words ]]; then\n"
         "    case $command in\n" + arguments +
         "    esac\n"
         "  fi\n"
         "  if [[ -n $words ]]; then COMPREPLY=($(compgen -W \"$words\" -- \"$word\")); fi\n"
         "  if [[ ${COMPREPLY[0]-} == *= ]]; then compopt -o nospace 2>/dev/null || :; fi\n"
         "}\n"
         "complete -o default -F _freeway freeway\n";
}

// What _arguments takes for `:` and brackets stands behind a backslash.
std::string for_zsh_text(const std::string& text) {
  std::string safe;
  for (const char c : text) {
    if (c == ':' || c == '[' || c == ']' || c == '\\') safe += '\\';
    safe += c;
  }
  return safe;
}

std::string zsh_arguments(const Command& command) {
  std::string text = "_arguments -S";
  for (const Option& option : command.options) {
    const auto words = words_of(option);
    const std::string value = words.empty() ? ":" + for_zsh_text(option.value) + ":_files"
                                            : ":" + option.name.substr(2) + ":(" + join(words) + ")";
    text += " " + in_quotes(option.name +
                            (option.takes == Takes::kNothing    ? ""
                             : option.takes == Takes::kOptional ? "=-"
                             : option.name.starts_with("--")    ? "="
                                                                : "+") +
                            "[" + for_zsh_text(option.meaning) + "]" +
                            (option.takes == Takes::kNothing    ? ""
                             : option.takes == Takes::kOptional ? ":" + value
                                                                : value));
  }
  text += " '--help[Print help.]'";
  if (const std::string words = first_words(command); !words.empty())
    return text + " " + in_quotes("1:word:(" + words + ")") + " '*:file:_files'";
  if (command.starts_program) return text + " '(-)1:program:_command_names -e' '*::argument:_normal'";
  if (takes_process(command))
    return text + " '1:process:{_alternative \"processes:process:($(ps -eo pid=,comm=))\" "
  "\"files:file:_files\"}' '*:file:_files'";
  return text + " '*:file:_files'";
}

std::string for_zsh() {
  std::string names, cases;
  for (const Command& each : commands()) {
    if (*each.description == 0) continue;
    if (is_offered(each)) names += "    " + in_quotes(for_zsh_text(each.name) + ":" + each.summary) + "\n";
    const std::string parts = parts_of(each);
    if (parts.empty()) cases += "    " + in_quotes(each.name) + ") " + zsh_arguments(each) + " ;;\n";
    else cases += "    " + in_quotes(each.name) + ") compadd -- " + parts + " --help ;;\n";
  }
  return "#compdef freeway\n"
         "# zsh completion of freeway: source <(freeway completion zsh), after compinit\n"
         "_freeway() {\n"
         "  local -a commands=(\n" + names +
         "  )\n"
         "  if (( CURRENT == 2 )); then\n"
         "    _describe command commands\n"
         "    return\n"
         "  fi\n"
         "  local command=$words[2]\n"
         "  shift words; (( CURRENT-- ))\n"
         "  if [[ $command == profile && CURRENT -gt 2 ]]; then\n"
         "    command+=\" $words[2]\"\n"
         "    shift words; (( CURRENT-- ))\n"
         "  fi\n"
         "  case $command in\n" + cases +
         "  esac\n"
         "}\n"
         "compdef _freeway freeway\n";
}

std::string for_fish() {
  std::string text = "# fish completion of freeway: freeway completion fish | source\n"
                     "complete -c freeway -n __fish_use_subcommand -f\n";
  for (const Command& each : commands()) {
    if (*each.description == 0) continue;
    const std::string name = each.name;
    const std::size_t blank = name.find(' ');
    std::string where = "__fish_seen_subcommand_from " + name.substr(0, blank);
    if (blank == std::string::npos) {
      text += "complete -c freeway -n __fish_use_subcommand -a " + name + " -d " + in_quotes(each.summary) + "\n";
    } else {
      const std::string part = name.substr(blank + 1);
      text += "complete -c freeway -n " + in_quotes(where + "; and not __fish_seen_subcommand_from top diff convert") +
              " -f -a " + part + " -d " + in_quotes(each.summary) + "\n";
      where += "; and __fish_seen_subcommand_from " + part;
    }
    for (const Option& option : each.options) {
      const bool is_long = option.name.starts_with("--");
      text += "complete -c freeway -n " + in_quotes(where) +
              (is_long ? " -l " + option.name.substr(2) : " -s " + option.name.substr(1)) +
              (option.takes == Takes::kValue ? " -r" : "") +
              (words_of(option).empty() ? "" : " -a " + in_quotes(join(words_of(option)))) + " -d " +
              in_quotes(option.meaning) + "\n";
    }
    text += "complete -c freeway -n " + in_quotes(where) + " -l help -d 'Print help.'\n";
    if (takes_process(each)) text += "complete -c freeway -n " + in_quotes(where) + " -a '(__fish_complete_pids)'\n";
    else if (const std::string words = first_words(each); !words.empty() && parts_of(each).empty())
      text += "complete -c freeway -n " + in_quotes(where) + " -f -a " + in_quotes(words) + "\n";
    else if (each.starts_program)
      text += "complete -c freeway -n " + in_quotes(where) + " -a '(__fish_complete_command)'\n";
  }
  return text;
}

}  // namespace

std::string completion_for(const std::string& shell) {
  return shell == "bash" ? for_bash() : shell == "zsh" ? for_zsh() : shell == "fish" ? for_fish() : "";
}

}  // namespace freeway_command
