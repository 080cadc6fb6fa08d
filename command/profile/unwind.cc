// SPDX-License-Identifier: MIT
// unwind.cc: elfutils unwinds by the tables for exceptions (CFI); what it asks of a live thread, the copy answers.
#include "unwind.h"

#include <elf.h>
#include <fcntl.h>
#include <gelf.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <optional>
#include <string_view>

namespace freeway_profile {
namespace {

constexpr std::size_t kMostFrames = 512;
constexpr pid_t kTheThread = 1;  // which of them it was does not matter

// A register's number in DWARF.
struct Register {
  const char* name;
  unsigned number;
};
constexpr Register kX86Registers[] = {{"rbx", 3},  {"fp", 6},   {"rbp", 6},  {"sp", 7},   {"rsp", 7},
                                      {"r12", 12}, {"r13", 13}, {"r14", 14}, {"r15", 15}, {"pc", 16}};
// x0 to x30 have their own numbers.
constexpr Register kArmRegisters[] = {{"fp", 29}, {"lr", 30}, {"sp", 31}};

struct Machine {
  const char* name;
  unsigned elf;  // EM_…
};
constexpr Machine kMachines[] = {{"x86_64", EM_X86_64}, {"aarch64", EM_AARCH64}};

std::optional<unsigned> number_of(const Machine& machine, const std::string& name) {
  if (machine.elf == EM_AARCH64) {
    if (name.starts_with('x') && name.size() > 1 && name.size() <= 3) {
      const unsigned number = static_cast<unsigned>(std::atoi(name.c_str() + 1));
      if (number <= 30) return number;
    }
    for (const Register& each : kArmRegisters)
      if (name == each.name) return each.number;
    return {};
  }
  for (const Register& each : kX86Registers)
    if (name == each.name) return each.number;
  return {};
}

class Unwinder {
 public:
  Unwinder(const Dump& dump, const Modules& modules) : dump_(dump), modules_(modules) {
    static const Dwfl_Thread_Callbacks kCallbacks = {next_thread,   get_thread, read_memory,
                                                     set_registers, nullptr,    nullptr};
    for (const Machine& each : kMachines)
      if (machine_of_modules() == each.elf) machine_ = &each;
    if (machine_ != nullptr && !dwfl_attach_state(modules.dwfl(), nullptr, kTheThread, &kCallbacks, this))
      machine_ = nullptr;
  }
  ~Unwinder() {
    for (const auto& [path, file] : files_) close(file);
  }
  Unwinder(const Unwinder&) = delete;
  Unwinder& operator=(const Unwinder&) = delete;

  // The addresses in the copy, the innermost first; as many as can be had.
  std::vector<std::uint64_t> addresses_in(const StackCopy& copy) {
    found_.clear();
    if (machine_ == nullptr || copy.machine != machine_->name) return {};
    copy_ = &copy;
    // It ends with an error where the copy ends; what was found is good.
    dwfl_getthread_frames(modules_.dwfl(), kTheThread, add_frame, this);
    return found_;
  }

 private:
  // Of the files: those of another machine cannot be unwound with this one's registers.
  unsigned machine_of_modules() const {
    unsigned machine = EM_NONE;
    const auto look = [](Dwfl_Module* module, void**, const char*, Dwarf_Addr, void* argument) {
      Dwarf_Addr bias;
      GElf_Ehdr header;
      if (Elf* elf = dwfl_module_getelf(module, &bias); elf != nullptr && gelf_getehdr(elf, &header) != nullptr)
        *static_cast<unsigned*>(argument) = header.e_machine;
      return static_cast<int>(DWARF_CB_ABORT);  // the first one will do
    };
    dwfl_getmodules(modules_.dwfl(), look, &machine, 0);
    return machine;
  }

  static pid_t next_thread(Dwfl*, void* self, void** thread) {
    if (*thread != nullptr) return 0;
    *thread = self;
    return kTheThread;
  }
  static bool get_thread(Dwfl*, pid_t, void* self, void** thread) {
    *thread = self;
    return true;
  }

  static bool set_registers(Dwfl_Thread* thread, void* self) {
    const Unwinder& unwinder = *static_cast<Unwinder*>(self);
    for (const auto& [name, value] : unwinder.copy_->registers) {
      const std::optional<unsigned> number = number_of(*unwinder.machine_, name);
      const Dwarf_Word word = value;
      if (number && !dwfl_thread_state_registers(thread, static_cast<int>(*number), 1, &word)) return false;
    }
    dwfl_thread_state_register_pc(thread, unwinder.copy_->registers.at("pc"));
    return true;
  }

  static int add_frame(Dwfl_Frame* frame, void* self) {
    std::vector<std::uint64_t>& found = static_cast<Unwinder*>(self)->found_;
    Dwarf_Addr address = 0;
    if (!dwfl_frame_pc(frame, &address, nullptr) || address == 0 || found.size() == kMostFrames) return DWARF_CB_ABORT;
    found.push_back(address);
    return DWARF_CB_OK;
  }

  static bool read_memory(Dwfl*, Dwarf_Addr address, Dwarf_Word* word, void* self) {
    Unwinder& unwinder = *static_cast<Unwinder*>(self);
    const std::string& stack = unwinder.copy_->stack;
    const std::uint64_t offset = address - unwinder.copy_->registers.at("sp");
    if (offset >= stack.size()) return unwinder.read_file(address, word);
    if (stack.size() - offset < sizeof(*word)) return false;
    std::memcpy(word, stack.data() + offset, sizeof(*word));
    return true;
  }

  // Of what is mapped from a file and not written to, the file says what is there.
  bool read_file(std::uint64_t address, Dwarf_Word* word) {
    const Mapping* mapping = dump_.mapping_of(address);
    if (mapping == nullptr || mapping->is_writable || modules_.at(address) == nullptr) return false;
    const auto [place, is_new] = files_.try_emplace(mapping->file, -1);
    if (is_new) place->second = open(mapping->file.c_str(), O_RDONLY | O_CLOEXEC);
    const std::uint64_t offset = address - mapping->start + mapping->offset;
    return pread(place->second, word, sizeof(*word), static_cast<off_t>(offset)) == static_cast<ssize_t>(sizeof(*word));
  }

  const Dump& dump_;
  const Modules& modules_;
  const Machine* machine_ = nullptr;  // null: nothing can be unwound
  const StackCopy* copy_ = nullptr;
  std::vector<std::uint64_t> found_;
  std::map<std::string, int> files_;
};

}  // namespace

void unwind_copies(Dump& dump, const Modules& modules) {
  if (std::none_of(dump.samples.begin(), dump.samples.end(), [](const Sample& each) { return each.copy.has_value(); }))
    return;
  Unwinder unwinder(dump, modules);
  std::map<std::uint64_t, std::vector<std::uint64_t>> unwound;
  std::size_t asked = 0, failed = 0;
  for (Sample& sample : dump.samples) {
    if (!sample.copy) continue;
    ++asked;
    const auto [place, is_new] = unwound.try_emplace(*sample.copy);
    if (const auto copy = dump.copies.find(*sample.copy); is_new && copy != dump.copies.end())
      place->second = unwinder.addresses_in(copy->second);
    const std::vector<std::uint64_t>& found = place->second;
    // The innermost ones may be the allocator's own.
    const auto first =
        sample.addresses.empty() ? found.begin() : std::find(found.begin(), found.end(), sample.addresses.front());
    if (static_cast<std::size_t>(found.end() - first) > sample.addresses.size())
      sample.addresses.assign(first, found.end());
    else if (first == found.end()) ++failed;
  }
  if (failed != 0)
    dump.warnings.push_back(std::to_string(failed) + " of " + std::to_string(asked) +
                            " stacks could not be unwound from their copies: they end early");
}

}  // namespace freeway_profile
