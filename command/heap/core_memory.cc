// SPDX-License-Identifier: MIT
// core_memory.cc: the memory of a process as a core file has it. Pages that are not in it, and came from a file, are
// read from that file if it is still there. What the file says of itself is not believed: every offset is looked at.
#include <elf.h>
#include <fcntl.h>
#include <sys/procfs.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cinttypes>
#include <cstdio>
#include <cstring>
#include <string_view>

#include "heap/memory.h"
#include "heap/registers.h"
#include "report.h"

namespace freeway_command {
namespace {

using std::uint64_t;

class File {
 public:
  explicit File(const std::string& path) {
    struct stat status = {};
    if (stat(path.c_str(), &status) != 0) return;
    if (S_ISREG(status.st_mode)) fd_ = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);  // nothing else is opened
    if (fd_ < 0) return;
    bytes_ = static_cast<uint64_t>(status.st_size);
  }
  File(const File&) = delete;
  File& operator=(const File&) = delete;
  ~File() {
    if (fd_ >= 0) close(fd_);
  }
  bool is_open() const { return fd_ >= 0; }
  uint64_t bytes() const { return bytes_; }
  bool read(uint64_t offset, void* to, std::size_t bytes) const {
    if (offset > bytes_ || bytes > bytes_ - offset) return false;
    while (bytes > 0) {
      const ssize_t got = pread(fd_, to, bytes, static_cast<off_t>(offset));
      if (got <= 0) return false;
      to = static_cast<char*>(to) + got;
      offset += static_cast<uint64_t>(got);
      bytes -= static_cast<std::size_t>(got);
    }
    return true;
  }

 private:
  int fd_ = -1;
  uint64_t bytes_ = 0;
};

// A piece of memory in a file: the core's own, or one that was mapped.
struct Piece {
  uint64_t begin, end, offset;
  const File* file;
};

class CoreMemory : public Memory {
 public:
  explicit CoreMemory(const std::string& path) : path_(path), core_(path) {
    if (!core_.is_open())
      throw Failure(
          kCannot,
          path +
              " is neither the number of a process nor a core file that can be read (`gcore PID` " "writes one)");
    Elf64_Ehdr header = {};
    if (!core_.read(0, &header, sizeof(header)) || std::memcmp(header.e_ident, ELFMAG, SELFMAG) != 0)
      throw Failure(
          kCannot,
          path +
              " is no core file. (`coredumpctl dump` and `gcore PID` write one; compressed ones " "must be unpacked)");
    if (header.e_type != ET_CORE || header.e_ident[EI_CLASS] != ELFCLASS64 || header.e_ident[EI_DATA] != ELFDATA2LSB)
      throw Failure(kCannot, path +
                                     " is an ELF file, but no core file of a 64-bit program of this byte order. "
                                     "(Without " "a core file give the number of the process)");
    page_size_ = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
    program_ = "a process";
    read_segments(header);
    std::sort(pieces_.begin(), pieces_.end(), [](const Piece& a, const Piece& b) { return a.begin < b.begin; });
    if (complete_ > core_.bytes())
      warning_ = path + " is truncated: " + std::to_string(core_.bytes()) + " of " + std::to_string(complete_) +
                 " bytes are there (a limit of the file's size? `ulimit -c unlimited`; or a full disk)";
  }

  bool read(uint64_t address, void* to, std::size_t bytes) const override {
    if (address + bytes < address) return false;
    while (bytes > 0) {
      const Piece* piece = piece_of(pieces_, address);
      if (piece == nullptr) piece = piece_of(file_pieces_, address);
      if (piece == nullptr) return false;
      std::size_t here = std::min<uint64_t>(bytes, piece->end - address);
      // Pages that the core has come first.
      if (piece->file != &core_)
        if (const uint64_t next = next_begin(address); next - address < here) here = next - address;
      if (!piece->file->read(piece->offset + (address - piece->begin), to, here)) return false;
      to = static_cast<char*>(to) + here;
      address += here;
      bytes -= here;
    }
    return true;
  }

  // What of it the core file has.
  void each_filled(uint64_t begin, uint64_t end, const std::function<void(uint64_t, uint64_t)>& f) const override {
    for (const Piece& each : pieces_) {
      const uint64_t there = each.offset < core_.bytes() ? core_.bytes() - each.offset : 0;
      const uint64_t from = std::max(begin, each.begin),
                     to = std::min(end, each.begin + std::min(there, each.end - each.begin));
      if (from < to) f(from, to);
    }
  }

  std::string maps() const override {
    std::string all;
    for (const Mapping& each : mappings_) {
      char line[128];
      std::snprintf(line, sizeof(line), "%" PRIx64 "-%" PRIx64 " %c%c%cp %08" PRIx64 " 00:00 %d ", each.begin, each.end,
                    each.readable ? 'r' : '-', each.writable ? 'w' : '-', each.executable ? 'x' : '-', each.offset,
                    each.file.empty() ? 0 : 1);
      all += line + each.file + "\n";
    }
    return all;
  }

  std::string why_unreadable() const override {
    if (!warning_.empty()) return warning_ + ", and the heap is in the rest";
    return path_ +
           " holds no memory where Freeway's heap should be: the core was written without private memory "
           "(`echo 0x33 > /proc/PID/coredump_filter`, in the process or before it starts, has it written), or is "
           "damaged";
  }

 private:
  static const Piece* piece_of(const std::vector<Piece>& pieces, uint64_t address) {
    auto behind = std::upper_bound(pieces.begin(), pieces.end(), address,
                                   [](uint64_t wanted, const Piece& piece) { return wanted < piece.begin; });
    if (behind == pieces.begin()) return nullptr;
    --behind;
    return address < behind->end ? &*behind : nullptr;
  }
  uint64_t next_begin(uint64_t address) const {
    const auto behind = std::upper_bound(pieces_.begin(), pieces_.end(), address,
                                         [](uint64_t wanted, const Piece& piece) { return wanted < piece.begin; });
    return behind == pieces_.end() ? ~uint64_t{0} : behind->begin;
  }

  void read_segments(const Elf64_Ehdr& header) {
    uint64_t count = header.e_phnum;
    if (Elf64_Shdr first = {}; count == PN_XNUM && core_.read(header.e_shoff, &first, sizeof(first)))
      count = first.sh_info;
    if (header.e_phentsize != sizeof(Elf64_Phdr) || count > core_.bytes() / sizeof(Elf64_Phdr)) damaged("its segments");
    std::vector<Elf64_Phdr> segments(count);
    if (!core_.read(header.e_phoff, segments.data(), count * sizeof(Elf64_Phdr))) damaged("its segments");
    for (const Elf64_Phdr& each : segments) {
      const uint64_t end = each.p_vaddr + each.p_memsz;
      if (each.p_offset + each.p_filesz < each.p_offset) damaged("the place of a segment");
      complete_ = std::max(complete_, each.p_offset + each.p_filesz);
      if (each.p_type == PT_NOTE) read_notes(each);
      if (each.p_type != PT_LOAD) continue;
      if (end < each.p_vaddr || each.p_filesz > each.p_memsz) damaged("the length of a segment");
      mappings_.push_back({each.p_vaddr,
                           end,
                           (each.p_flags & PF_R) != 0,
                           (each.p_flags & PF_W) != 0,
                           (each.p_flags & PF_X) != 0,
                           0,
                           {}});
      if (each.p_filesz != 0) pieces_.push_back({each.p_vaddr, each.p_vaddr + each.p_filesz, each.p_offset, &core_});
    }
    std::sort(named_.begin(), named_.end(), [](const Named& a, const Named& b) { return a.begin < b.begin; });
    sort_mappings();
    add_left_out();
    name_files();
  }
  void sort_mappings() {
    std::sort(mappings_.begin(), mappings_.end(), [](const Mapping& a, const Mapping& b) { return a.begin < b.begin; });
  }

  [[noreturn]] void damaged(const char* what) const {
    throw Failure(kCannot,
                  path_ + " is damaged or truncated: " + what + " cannot be read (write it again: `gcore PID`)");
  }

  void read_notes(const Elf64_Phdr& segment) {
    constexpr uint64_t kMost = 256 << 20;  // thousands of threads, with all their registers
    if (segment.p_filesz > kMost) damaged("a note");
    // gcore writes them behind everything else: what is truncated lacks them first, and the rest may do without.
    if (segment.p_offset + segment.p_filesz > core_.bytes()) return;
    std::vector<char> notes(segment.p_filesz);
    if (!core_.read(segment.p_offset, notes.data(), notes.size())) damaged("a note");
    for (std::size_t at = 0; notes.size() - at >= sizeof(Elf64_Nhdr);) {
      Elf64_Nhdr note;
      std::memcpy(&note, &notes[at], sizeof(note));
      at += sizeof(note);
      const std::size_t name = (std::size_t{note.n_namesz} + 3) / 4 * 4, rest = notes.size() - at;
      if (name > rest || note.n_descsz > rest - name) damaged("a note");
      const char* text = notes.data() + at;
      at += name;
      const std::string_view owner(text, note.n_namesz);
      if (owner == std::string_view("CORE\0", 5)) read_note(note.n_type, notes.data() + at, note.n_descsz);
      if (owner == std::string_view("LINUX\0", 6) && note.n_type == NT_ARM_TLS && note.n_descsz >= 8 &&
          !threads_.empty())
        std::memcpy(&threads_.back().own, notes.data() + at, 8);
      at += std::min<std::size_t>((std::size_t{note.n_descsz} + 3) / 4 * 4, notes.size() - at);
    }
  }

  void read_note(unsigned type, const char* data, std::size_t bytes) {
    if (prpsinfo_t info; type == NT_PRPSINFO && bytes >= sizeof(info)) {
      std::memcpy(&info, data, sizeof(info));
      pid_ = info.pr_pid;
      program_.assign(info.pr_fname, strnlen(info.pr_fname, sizeof(info.pr_fname)));
    }
    if (prstatus_t status; type == NT_PRSTATUS && bytes >= sizeof(status)) {
      std::memcpy(&status, data, sizeof(status));
      threads_.push_back(thread_of(status.pr_pid, &status.pr_reg, sizeof(status.pr_reg)));
    }
    if (type == NT_PRFPREG && !threads_.empty()) add_registers(threads_.back(), data, bytes);
    if (type == NT_AUXV)
      for (Elf64_auxv_t word; bytes >= sizeof(word); data += sizeof(word), bytes -= sizeof(word)) {
        std::memcpy(&word, data, sizeof(word));
        const uint64_t value = word.a_un.a_val;
        if (word.a_type == AT_PAGESZ && value >= 512 && value <= (1 << 20) && (value & (value - 1)) == 0)
          page_size_ = value;
        if (word.a_type == AT_RANDOM) main_stack_ = value;
        if (word.a_type == AT_NULL) break;
      }
    if (type == NT_FILE) read_files(data, bytes);
  }

  // count, page size; (begin, end, offset in pages) each; the names, a zero behind each.
  void read_files(const char* data, std::size_t bytes) {
    uint64_t head[2];
    if (bytes < sizeof(head)) return;
    std::memcpy(head, data, sizeof(head));
    if (head[0] > (bytes - sizeof(head)) / 24) damaged("the list of files");
    const char* name = data + sizeof(head) + 24 * head[0];
    const char* const end = data + bytes;
    for (uint64_t i = 0; i < head[0]; ++i) {
      uint64_t range[3];
      std::memcpy(range, data + sizeof(head) + 24 * i, sizeof(range));
      const std::size_t length = strnlen(name, static_cast<std::size_t>(end - name));
      if (name + length == end) damaged("the list of files");
      if (range[0] < range[1]) named_.push_back({range[0], range[1], range[2] * head[1], std::string(name, length)});
      name += length + 1;
    }
  }

  // Whether what is mapped from there on in a program's or library's file is its code.
  bool is_code(const File& file, uint64_t offset) const {
    Elf64_Ehdr header = {};
    if (!file.read(0, &header, sizeof(header)) || std::memcmp(header.e_ident, ELFMAG, SELFMAG) != 0 ||
        header.e_phentsize != sizeof(Elf64_Phdr))
      return false;
    for (uint64_t i = 0; i < header.e_phnum; ++i) {
      Elf64_Phdr segment = {};
      if (!file.read(header.e_phoff + i * sizeof(segment), &segment, sizeof(segment))) return false;
      const uint64_t begin = segment.p_offset - segment.p_offset % page_size_;
      if (segment.p_type == PT_LOAD && (segment.p_flags & PF_X) != 0 && offset >= begin &&
          offset - begin < segment.p_offset % page_size_ + segment.p_filesz)
        return true;
    }
    return false;
  }

  // gcore writes no segment for what it leaves to the files: code above all, whose functions have the names.
  void add_left_out() {
    std::vector<Mapping> left_out;
    for (const Named& each : named_) {
      const auto mapping = std::partition_point(mappings_.begin(), mappings_.end(),
                                                [&](const Mapping& m) { return m.end <= each.begin; });
      const bool is_there = (mapping != mappings_.end() && mapping->begin < each.end) ||
                            (!left_out.empty() && left_out.back().end > each.begin);
      if (!is_there)
        left_out.push_back({each.begin, each.end, true, false, is_code(*file_of(each.file), each.offset), 0, {}});
    }
    mappings_.insert(mappings_.end(), left_out.begin(), left_out.end());
    sort_mappings();
  }

  // Which mapping is of which file; and where its pages are that the core does not have.
  void name_files() {
    for (const Named& each : named_) {
      auto mapping = std::partition_point(mappings_.begin(), mappings_.end(),
                                          [&](const Mapping& m) { return m.end <= each.begin; });
      for (; mapping != mappings_.end() && mapping->begin < each.end; ++mapping) {
        mapping->file = each.file;
        mapping->offset = each.offset + (mapping->begin - std::min(mapping->begin, each.begin));
      }
      if (executable_.empty())
        executable_ = each.file;  // the kernel lists it as the lowest, unless it is a PIE far above
      if (file_pieces_.empty() || file_pieces_.back().end <= each.begin)
        file_pieces_.push_back({each.begin, each.end, each.offset, file_of(each.file)});
    }
  }
  const File* file_of(const std::string& path) {
    for (const auto& each : files_)
      if (each.first == path) return each.second.get();
    files_.emplace_back(path, std::make_unique<File>(path));
    return files_.back().second.get();
  }

  struct Named {
    uint64_t begin, end, offset;
    std::string file;
  };

  std::string path_;
  File core_;
  std::vector<Piece> pieces_;       // in the core
  std::vector<Piece> file_pieces_;  // in files that were mapped
  std::vector<Named> named_;
  std::vector<std::pair<std::string, std::unique_ptr<File>>> files_;
  uint64_t complete_ = 0;  // bytes that the file should have
};

}  // namespace

std::unique_ptr<Memory> core_memory(const std::string& path) { return std::make_unique<CoreMemory>(path); }

}  // namespace freeway_command
