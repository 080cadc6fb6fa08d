// SPDX-License-Identifier: MIT
#include "usage.h"

#include <algorithm>
#include <cstdint>
#include <numeric>

#include "os/option_table.h"

namespace freeway_command {
namespace {

constexpr std::size_t kAny = SIZE_MAX;
constexpr const char kTarget[] = "PID|NAME|CORE";

constexpr const char *kRun = "Run a program", *kLook = "Look into a process", *kProfile = "Who allocated it",
                     *kMachine = "This machine", *kResearch = "Research and debugging";

// "ON_ERROR": "--on-error".
std::string flag_of(std::string name) {
  for (char& c : name) c = c == '_' ? '-' : c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  return "--" + name;
}

std::vector<Option> options_of_run() {
  std::vector<Option> all = {
      {"--server", Takes::kNothing, "", "For servers and containers: --background --limit=,90%."},
      {"--realtime", Takes::kOptional, "BYTES",
       "For threads that must not fault: --prefault=BYTES (64m by default) --purge=never."},
  };
  for (const freeway::OptionDescription& each : freeway::kOptionTable)
    all.push_back({flag_of(each.name), each.alone == nullptr ? Takes::kValue : Takes::kOptional, each.values,
                   each.meaning, each.name, each.alone});
  const std::vector<Option> own = {
      {"--pressure", Takes::kNothing, "", "--background, and memory goes back whenever the system is short of it."},
      {"--leaks", Takes::kOptional, "BYTES",
       R"(At exit, report blocks that no pointer reaches, with their stacks; with BYTES, of one sample in so many.)"},
      {"--leaks-status", Takes::kValue, "N",
       R"(With --leaks: exit with N (1 to 255) where something leaked and the program's status is 0.)"},
      {"--leaks-dump", Takes::kValue, "PREFIX", "With --leaks: also write each process's leaks to PREFIX.PID.heap."},
      {"--require", Takes::kNothing, "",
       R"(Refuse a program that would keep another malloc, and report descendants that run without Freeway.)"},
      {"--engine", Takes::kValue, "NAME", "Use a paper's allocator instead of Freeway's own: see `freeway engines`."},
      {"--set", Takes::kValue, "NAME=VALUE", "An option of that engine, such as heaps=4. May be repeated."},
  };
  all.insert(all.end(), own.begin(), own.end());
  return all;
}

std::vector<Option> options_of_profile(bool converts, bool has_base) {
  std::vector<Option> all = {
      {"--sample", Takes::kValue, "inuse_space|peak_space|alloc_space|inuse_objects|peak_objects|alloc_objects|waste",
       R"(Bytes or blocks: live, at the peak, or all allocated (default: peak_space where the dump has it, else
inuse_space); waste: unused memory in superblocks.)"}};
  if (has_base) all.push_back({"--base", Takes::kValue, "DUMP", "Subtract an earlier dump."});
  if (converts)
    all.push_back({"--format", Takes::kValue, "text|collapsed|html|proto",
                   "Default: by the name of FILE: .txt, .collapsed, .html, .pb.gz (proto, for pprof)."});
  else
    all.push_back(
        {"--bottom-up", Takes::kNothing, "", "Show the functions that allocate most, below each its callers."});
  all.push_back({"-n", Takes::kValue, "COUNT", "How many stacks, or functions, a text has (default: 15)."});
  all.push_back({"-o", Takes::kValue, "FILE", "Write there instead of to standard output."});
  return all;
}

const ExitStatus kDone{"0", "done"}, kNotSeen{"1", "it cannot be looked into, or the answer cannot be written"};

std::vector<Command> make_commands() {
  return {
      {"run",
       kRun,
       "[--] PROGRAM [ARGUMENT...]",
       1,
       kAny,
       "run a program with Freeway",
       R"(Runs PROGRAM, and all programs that it starts, with Freeway instead of their malloc, by preloading libfreeway.so.
What `LD_PRELOAD` names already is kept, before Freeway.

Most options set the variable of the same name for the program: `--limit=2g` is `FREEWAY_LIMIT=2g`. Values that the
library does not understand, here or in the environment, are refused, and so are variables that look like misspelt
options. To hand such a variable to the program all the same: `freeway run -- env NAME=VALUE PROGRAM`.

Programs that are linked statically, gain rights when they are executed (setuid, setgid, capabilities), or use a C
library other than glibc and musl cannot be preloaded: nothing is run. A program with a malloc of its own built in
is run with a warning; `--require` refuses it.

`--stats` without a value waits for the program's end, prints its report, and adds a line with the totals of its
other processes. Of a shell script the process that used the heap most is printed. Processes that do not end by exit
leave no report.

`--profile` writes PROGRAM.PID.1.heap into the working directory, with its peak, and says what to type next. (A value
with commas, as FREEWAY_PROFILE takes it, says itself where dumps go.)

`--leaks` examines each process that ends by exit while PROGRAM runs, not those that end by _exit or abort.
`--profile` and `--leaks` also look into PROGRAM before SIGHUP, SIGINT, SIGQUIT or SIGTERM ends it. `--leaks` makes a
heap profile of its own, so `FREEWAY_PROFILE` must not be set. `freeway leaks --help` says which blocks count as lost.

With `--leaks`, `--pressure`, `--profile`, `--require` or `--stats` this command may stay as PROGRAM's parent; without
them it becomes PROGRAM.

`--pressure` follows `MEMORY_PRESSURE_WATCH` and `MEMORY_PRESSURE_WRITE` as systemd sets them, else the cgroup's
memory.pressure, else /proc/pressure/memory.)",
       options_of_run(),
       {{"freeway run -- redis-server --port 7777", "a server"},
        {"freeway run --harden --guard=1000 -- ./program", "find out why it crashes"},
        {"freeway run --leaks --leaks-status 23 -- ./test", "a test that fails where something leaks"}},
       {{"N", "the program's"},
        {"125", "Freeway cannot be preloaded, or --leaks-status is set and nothing could be examined"},
        {"126", "the program cannot be executed"},
        {"127", "there is no such program"}},
       true},
      {"trim",
       kRun,
       "PID|NAME",
       1,
       1,
       "have a process return unused memory to the OS",
       R"(Has a process under Freeway return what it does not need, and prints how much that was. In one that was started
with `FREEWAY_BACKGROUND=1` (`run --background`, `--server`) its background thread does so, which needs the permission
to send it a signal.

In others (with libfreeway.so, on x86-64) one thread is stopped, as by a debugger, makes the call on a stack of its
own, and goes on as it was; the other threads run. System calls in which it waits go on; a wait with a timeout may
begin anew. Needs the permission to trace the process. Do not kill (-9) this command meanwhile.)",
       {{"--keep", Takes::kValue, "BYTES", "Leave about this much unused memory: 300, 64K, 1M, 2G (default: 0)."}},
       {{"freeway trim 1234", "all that is unused"}, {"freeway trim redis-server --keep 64M", "but for 64 MiB"}},
       {kDone, {"1", "there is no such process, or no thread of it can do it: the message says why"}}},
      {"stat",
       kLook,
       kTarget,
       1,
       1,
       "what a process's heap holds",
       R"(Reads the heap of a running or stopped process, or of a core file, from outside. The process is not stopped and runs
no code for it: while it runs, each figure was true at some moment; of a stopped one all are exact. Needs the right
to read the process (its user's, with kernel.yama.ptrace_scope 0, or root's).)",
       {{"--verbose", Takes::kNothing, "",
         "Also address space that is not resident, limits, and totals since the start."},
        {"--json", Takes::kNothing, "", "As JSON."},
        {"--prometheus", Takes::kNothing, "", "In the exposition format of Prometheus."}},
       {{"freeway stat redis-server", "by the name of its only process"},
        {"freeway stat core.1234 --json", "of a core file, which the kernel or gcore wrote"}},
       {kDone, kNotSeen}},
      {"top",
       kLook,
       "PID|NAME",
       1,
       1,
       "the heap over time: how much, who holds it, of which sizes",
       R"(Shows until the process ends what is resident of it, and of its heap, in the words of `freeway stat`: live, cached,
stuck, free, each with its last minute; if the process has a heap profile (`run --profile`), the three stacks with
most live bytes, anew every ten seconds; and the ten size classes with the most memory. Keys: q ends it, s sorts by
another column, p pauses. Where standard output is no terminal, pages follow each other. `NO_COLOR` leaves colours
out. What takes long is done less often: looking, and finding functions, take a twentieth of a CPU each at most.)",
       {{"--interval", Takes::kValue, "SECONDS", "Time between two looks at least, 0.05 to 86400 (default: 1)."},
        {"--once", Takes::kNothing, "", "Print one page and end."}},
       {{"freeway top redis-server", "until it ends"}, {"freeway top 1234 --interval 10 >log", "six pages a minute"}},
       {kDone, kNotSeen}},
      {"classes",
       kLook,
       kTarget,
       1,
       1,
       "the heap by size class, and how full its superblocks are",
       R"(For each size of blocks: superblocks; blocks, of them live, cached and stuck (other free ones); what is resident; and
how many superblocks are how full, in tenths.)",
       {{"--json", Takes::kNothing, "", "As JSON."}},
       {{"freeway classes 1234", "a table"}, {"freeway classes core.1234 --json", "of a core file"}},
       {kDone, kNotSeen}},
      {"map",
       kLook,
       kTarget,
       1,
       1,
       "the heap as a picture, in a page of HTML",
       R"(Writes a page that needs no network: each frame of 64 KiB of the heap, what lies there, and which size classes are
fragmented.)",
       {{"-o", Takes::kValue, "FILE", "Where the page goes (default: freeway-map.PID.html; - is standard output)."}},
       {{"freeway map redis-server", "writes freeway-map.PID.html"},
        {"freeway map core.1234 -o heap.html", "of a core file"}},
       {kDone, kNotSeen}},
      {"blocks",
       kLook,
       "PID|NAME|CORE ADDRESS...",
       2,
       kAny,
       "what lies at an address: live, cached, free",
       R"(Says for each address (hexadecimal, or decimal after 0d) which block it is in, whether that is live, and what is
beside it. Of a block that a heap profile has sampled, also the stack that allocated it.)",
       {},
       {{"freeway blocks 1234 0x7f0012345680", "one address"},
        {"freeway blocks core.1234 7f00123456800 7f0012345700", "two, of a core file"}},
       {kDone, kNotSeen}},
      {"leaks",
       kProfile,
       kTarget,
       1,
       1,
       "blocks that no pointer reaches, and who allocated them",
       R"(Finds sampled blocks that no pointer leads to from the process's writable memory, the used part of its stacks, its
registers, or blocks that are reached so. A pointer to any byte of a block counts. Direct leaks are those that no
other lost block points to. The process must have a heap profile (`run --profile`, `FREEWAY_PROFILE`). It is stopped
for a moment, as by a debugger, and goes on as it was.)",
       {{"-o", Takes::kValue, "FILE", "Also write what leaked as a heap profile, which `freeway profile` reads."},
        {"--status", Takes::kValue, "N", "Exit with N (1 to 255) if something leaked (default: 0)."}},
       {{"freeway leaks 1234", "of a running process"}, {"freeway leaks core.1234 --status 3", "of a core file"}},
       {{"0", "it was examined; where something leaked: that of --status"}, kNotSeen}},
      {"profile",
       kProfile,
       "top|diff|convert DUMP...",
       0,
       kAny,
       "heap profiles as tables, flame graphs, or for pprof",
       R"(Reads heap profiles, which `run --profile` and `FREEWAY_PROFILE` have programs write (freeway-profile(5)). All
values are estimates from samples. Functions and lines are read from the program's files as they are now. A DUMP
named - is standard input; a PID, a NAME or a core file stands for the profile that the process has.)",
       {},
       {{"freeway run --profile -- ./program", "writes program.PID.1.heap"},
        {"freeway profile top program.1234.1.heap", "which stacks hold the memory"},
        {"freeway profile top redis-server", "of a running process that has a profile"}},
       {kDone, {"1", "a dump cannot be read, or the answer cannot be written"}}},
      {"profile top",
       nullptr,
       "DUMP",
       1,
       1,
       "the largest stacks of a heap profile",
       "Prints the stacks that allocated most, and how far off the estimates may be.",
       options_of_profile(false, true),
       {{"freeway profile top server.heap -n 30", "the 30 largest"},
        {"freeway profile top server.heap --bottom-up", "by allocating function, with its callers"},
        {"freeway profile top server.heap --sample waste", "who keeps superblocks that are mostly free"}},
       {kDone, {"1", "a dump cannot be read, or the answer cannot be written"}}},
      {"profile diff",
       nullptr,
       "BEFORE AFTER",
       2,
       2,
       "what has grown and shrunk between two heap profiles",
       "Prints the stacks whose memory changed most between two dumps of a program.",
       options_of_profile(false, false),
       {{"freeway profile diff freeway.1234.1.heap freeway.1234.2.heap", "what the time between added"},
        {"freeway profile diff old.heap new.heap --sample alloc_space", "of all that was allocated"}},
       {kDone, {"1", "a dump cannot be read, or the answer cannot be written"}}},
      {"profile convert",
       nullptr,
       "DUMP",
       1,
       1,
       "a heap profile in another form",
       R"(Writes a dump as text (what `profile top` prints), collapsed (a line for each stack, for flame graph tools), html (a
page with a flame graph that needs no network), or proto (for pprof; it has all that --sample counts).)",
       options_of_profile(true, true),
       {{"freeway profile convert server.heap -o page.html", "a flame graph"},
        {"freeway profile convert after.heap --base before.heap -o new.pb.gz", "for pprof, what was added"}},
       {kDone, {"1", "a dump cannot be read, or the answer cannot be written"}}},
      {"doctor",
       kMachine,
       "[PROGRAM]",
       0,
       1,
       "whether Freeway works here, and with a program",
       R"(Says what this machine offers to Freeway, which path it takes here, and whether a program works under it. With
PROGRAM: whose malloc that has (the C library's, another library's, or one built in), whether `run` gives it
Freeway's, and if not, why and what to do. PROGRAM is not executed.)",
       {},
       {{"freeway doctor", "this machine"}, {"freeway doctor redis-server", "a program"}},
       {{"0", "Freeway works here, or will be the program's malloc"}, {"1", "it does not, or will not be"}}},
      {"options",
       kMachine,
       "",
       0,
       0,
       "the environment variables of the library",
       "Lists the variables that the library reads, their values, defaults and meanings.",
       {{"--markdown", Takes::kNothing, "", "As the table of docs/options.md."}},
       {{"freeway options", "the list"}, {"freeway options | grep HUGE", "one"}},
       {kDone}},
      {"engines",
       kResearch,
       "",
       0,
       0,
       "the papers' allocators, for `run --engine`",
       "Lists the allocators to choose from: paper, promise, and which mode each takes here.",
       {},
       {{"freeway engines", "the list"}, {"freeway run --engine michael -- ./program", "one of them at work"}},
       {kDone}},
      {"completion",
       kMachine,
       "bash|zsh|fish",
       1,
       1,
       "completion for a shell",
       "Prints a script by which the shell completes subcommands, options, processes and files.",
       {},
       {{"source <(freeway completion bash)", "in ~/.bashrc; zsh likewise, after compinit"},
        {"freeway completion fish >~/.config/fish/completions/freeway.fish", "for fish"}},
       {kDone}},
      {"help",
       kMachine,
       "[COMMAND]",
       0,
       2,
       "this list, or what a command does",
       "Prints the list of commands, or what COMMAND does, as COMMAND --help does.",
       {{"--markdown", Takes::kNothing, "", "All commands, as docs/command.md has them."},
        {"--mdoc", Takes::kNothing, "", "All commands, as freeway(1) has them."}},
       {{"freeway help run", "one command"}, {"freeway help profile top", "a part of one"}},
       {kDone}},
      {"version",
       kMachine,
       "",
       0,
       0,
       "the version of this command",
       "Prints the version. Also `freeway --version`.",
       {},
       {{"freeway version", "of this command"}, {"freeway doctor", "also that of the library"}},
       {kDone}},
      {"probe", nullptr, "", 0, 0, "for this command's own use: child.h", "", {}, {}, {}},
  };
}

// How many letters have to be put in, taken out, changed or exchanged with their neighbours.
std::size_t distance(std::string_view from, std::string_view to) {
  std::vector<std::vector<std::size_t>> rows(from.size() + 1, std::vector<std::size_t>(to.size() + 1));
  std::iota(rows[0].begin(), rows[0].end(), 0);
  for (std::size_t i = 1; i <= from.size(); ++i) {
    rows[i][0] = i;
    for (std::size_t k = 1; k <= to.size(); ++k) {
      const std::size_t changed = rows[i - 1][k - 1] + (from[i - 1] != to[k - 1]);
      rows[i][k] = std::min({changed, rows[i - 1][k] + 1, rows[i][k - 1] + 1});
      if (i > 1 && k > 1 && from[i - 1] == to[k - 2] && from[i - 2] == to[k - 1])
        rows[i][k] = std::min(rows[i][k], rows[i - 2][k - 2] + 1);
    }
  }
  return rows[from.size()][to.size()];
}

}  // namespace

const std::vector<Command>& commands() {
  static const std::vector<Command> all = [] {
    std::vector<Command> made = make_commands();
    for (Command& each : made)
      for (Option& option : each.options) std::ranges::replace(option.meaning, '\n', ' ');
    return made;
  }();
  return all;
}

const Command* find_command(std::string_view name) {
  for (const Command& each : commands())
    if (name == each.name) return &each;
  return nullptr;
}

bool is_part_of(const Command& part, const Command& whole) {
  return std::string_view(part.name).starts_with(std::string(whole.name) + " ");
}

std::string shown(const Option& option) {
  if (option.takes == Takes::kNothing) return option.name;
  return option.takes == Takes::kValue ? option.name + " " + option.value : option.name + "[=" + option.value + "]";
}

std::vector<std::string> words_of(const Option& option) {
  std::vector<std::string> words;
  for (std::size_t begin = 0; begin <= option.value.size();) {
    const std::size_t end = std::min(option.value.find('|', begin), option.value.size());
    words.push_back(option.value.substr(begin, end - begin));
    begin = end + 1;
  }
  const auto is_word = [](const std::string& word) {
    return !word.empty() && word.find_first_not_of("abcdefghijklmnopqrstuvwxyz0123456789_") == std::string::npos;
  };
  return std::ranges::all_of(words, is_word) ? words : std::vector<std::string>{};
}

std::string usage_of(const Command& command) {
  std::string usage = command.name;
  if (!command.options.empty()) usage += " [OPTION...]";
  if (*command.arguments != 0) usage += std::string(" ") + command.arguments;
  return usage;
}

std::string_view similar_to(std::string_view name, std::span<const std::string_view> known) {
  std::string_view nearest;
  std::size_t least = SIZE_MAX;
  for (const std::string_view each : known)
    if (const std::size_t far = distance(name, each); far <= (each.size() + 2) / 4 && far < least) {
      nearest = each;
      least = far;
    }
  return nearest;
}

std::string did_you_mean(std::string_view name, std::span<const std::string_view> known) {
  const std::string_view meant = similar_to(name, known);
  return meant.empty() ? "" : ": did you mean " + std::string(meant) + "?";
}

}  // namespace freeway_command
