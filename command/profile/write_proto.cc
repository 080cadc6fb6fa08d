// SPDX-License-Identifier: MIT
#include <zlib.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <map>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include "pprof.pb.h"
#include "readable.h"
#include "write.h"

namespace freeway_profile {
namespace {

namespace pb = freeway::pprof;

std::int64_t rounded(double value) {
  constexpr double kMost = 9.2e18;
  return static_cast<std::int64_t>(std::llround(std::clamp(value, -kMost, kMost)));
}

// The format has signed numbers where the dump has others.
std::int64_t limited(std::uint64_t value) {
  return static_cast<std::int64_t>(std::min<std::uint64_t>(value, std::numeric_limits<std::int64_t>::max()));
}

class Writer {
 public:
  explicit Writer(const Dump& dump) : measures_(dump.has_peak() ? kMeasures : kPeakObjects) {
    text("");
    for (unsigned i = 0; i < measures_; ++i)
      set(out_.add_sample_type(), kMeasureNames[i], is_space(static_cast<Measure>(i)) ? "bytes" : "count");
    out_.set_default_sample_type(text(kMeasureNames[dump.has_peak() ? kPeakSpace : kInuseSpace]));
    set(out_.mutable_period_type(), "space", "bytes");
    out_.set_period(limited(dump.interval));
    out_.set_time_nanos(limited(dump.number("time_ns")));
    for (const auto& [key, value] : dump.about)
      if (key != "time_ns") out_.add_comment(text(key + "=" + value));
  }

  void add(Profile& profile) {
    add_mappings(profile);
    for (const Sample& sample : profile.dump.samples) {
      pb::Sample* written =
          add_sample(sample, locations_of(profile, sample), estimate(sample, profile.dump.interval).value);
      if (sample.age_ms && sample.live.blocks != 0) label(written, "age", *sample.age_ms, "milliseconds");
      if (sample.lifetime_ms && sample.all.blocks > sample.live.blocks)
        label(written, "lifetime", *sample.lifetime_ms, "milliseconds");
    }
  }

  // Samples of the same place, size and tag become one, so that what has not changed is not there. Their ages differ.
  void add_difference(Profile& profile, Profile& base) {
    struct Change {
      const Sample* sample = nullptr;  // one of them
      std::array<double, kMeasures> values = {};
    };
    std::map<std::tuple<std::vector<std::uint64_t>, std::uint64_t, std::optional<std::uint64_t>>, Change> changes;
    for (Profile* each : {&profile, &base}) {
      add_mappings(*each);
      for (const Sample& sample : each->dump.samples) {
        Change& change = changes[{locations_of(*each, sample), block_size(sample), sample.tag}];
        change.sample = &sample;
        const Estimate values = estimate(sample, each->dump.interval);
        for (unsigned i = 0; i < kMeasures; ++i)
          change.values[i] += each == &profile ? values.value[i] : -values.value[i];
      }
    }
    for (const auto& [key, change] : changes)
      if (std::any_of(change.values.begin(), change.values.end(), [](double value) { return rounded(value) != 0; }))
        add_sample(*change.sample, std::get<0>(key), change.values);
  }

  std::string finish() {
    std::string bytes;
    if (!out_.SerializeToString(&bytes)) throw DumpError("is too large for this form");
    return bytes;
  }

 private:
  std::int64_t text(const std::string& what) {
    const auto [place, is_new] = texts_.try_emplace(valid_utf8(what), out_.string_table_size());
    if (is_new) out_.add_string_table(place->first);
    return place->second;
  }
  void set(pb::ValueType* type, const char* name, const char* unit) {
    type->set_type(text(name));
    type->set_unit(text(unit));
  }
  pb::Sample* add_sample(const Sample& sample, const std::vector<std::uint64_t>& locations,
                         const std::array<double, kMeasures>& values) {
    pb::Sample* written = out_.add_sample();
    for (unsigned i = 0; i < measures_; ++i) written->add_value(rounded(values[i]));
    for (const std::uint64_t location : locations) written->add_location_id(location);
    label(written, "bytes", block_size(sample), "bytes");
    if (sample.tag) label(written, "tag", *sample.tag, "");
    return written;
  }
  void label(pb::Sample* sample, const char* key, std::uint64_t value, const char* unit) {
    pb::Label* label = sample->add_label();
    label->set_key(text(key));
    label->set_num(limited(value));
    label->set_num_unit(text(unit));
  }

  // Code only, the program before its libraries.
  void add_mappings(const Profile& profile) {
    mappings_.clear();
    const auto found = profile.dump.about.find("program");
    const std::string program = found == profile.dump.about.end() ? "" : found->second;  // a path, or its last part
    for (const bool is_program : {true, false})
      for (const Mapping& each : profile.dump.mappings)
        if (each.is_executable && is_program == (each.file == program || each.file.ends_with("/" + program)))
          mappings_[&each] = mapping_id(profile, each);
  }
  // The same code in two processes is one mapping, wherever it was.
  int mapping_id(const Profile& profile, const Mapping& mapping) {
    const std::string build_id = profile.modules.build_id(mapping.start);
    const std::string key = mapping.file + '\0' + build_id + '\0' + std::to_string(mapping.offset) + '\0' +
                            std::to_string(mapping.end - mapping.start) + '\0' +
                            (mapping.file.empty() ? std::to_string(mapping.start) : "");
    const auto [place, is_new] = mapping_ids_.try_emplace(key, out_.mapping_size() + 1);
    if (!is_new) return place->second;
    pb::Mapping* written = out_.add_mapping();
    written->set_id(static_cast<std::uint64_t>(place->second));
    written->set_memory_start(mapping.start);
    written->set_memory_limit(mapping.end);
    written->set_file_offset(mapping.offset);
    written->set_filename(text(mapping.file));
    written->set_build_id(text(build_id));
    return place->second;
  }

  std::vector<std::uint64_t> locations_of(Profile& profile, const Sample& sample) {
    std::vector<std::uint64_t> ids;
    for (const std::uint64_t address : sample.addresses) ids.push_back(location(profile, address));
    return ids;
  }
  std::uint64_t location(Profile& profile, std::uint64_t address) {
    const Mapping* mapping = profile.dump.mapping_of(address - 1);
    const auto known = mappings_.find(mapping);
    pb::Mapping* around = known == mappings_.end() ? nullptr : out_.mutable_mapping(known->second - 1);
    // As if the mapping were where it was first seen.
    const std::uint64_t call = around == nullptr ? address - 1 : address - 1 - mapping->start + around->memory_start();
    const auto [place, is_new] =
        locations_.try_emplace({around == nullptr ? 0 : known->second, call}, out_.location_size() + 1);
    const std::uint64_t id = static_cast<std::uint64_t>(place->second);
    if (!is_new) return id;
    pb::Location* written = out_.add_location();
    written->set_id(id);
    written->set_address(call);
    if (around != nullptr) written->set_mapping_id(around->id());
    const std::vector<Line>& lines = profile.symbols.of_return_address(address);
    for (const Line& line : lines) {
      if (line.function.empty()) continue;
      pb::Line* one = written->add_line();
      one->set_function_id(function(line));
      one->set_line(line.line);
      if (around == nullptr) continue;
      around->set_has_functions(true);
      if (!line.file.empty()) around->set_has_filenames(true);
      if (line.line != 0) around->set_has_line_numbers(true);
      if (lines.size() > 1) around->set_has_inline_frames(true);
    }
    return id;
  }

  std::uint64_t function(const Line& line) {
    const std::string key = line.symbol + '\0' + line.file + '\0' + line.function;
    const auto [place, is_new] = functions_.try_emplace(key, out_.function_size() + 1);
    const std::uint64_t id = static_cast<std::uint64_t>(place->second);
    if (!is_new) return id;
    pb::Function* written = out_.add_function();
    written->set_id(id);
    written->set_name(text(line.function));
    written->set_system_name(text(line.symbol));
    written->set_filename(text(line.file));
    written->set_start_line(line.first_line);
    return id;
  }

  const unsigned measures_;  // those of the peak are the last
  pb::Profile out_;
  std::map<std::string, int> texts_;
  std::map<const Mapping*, int> mappings_;  // ids, of the profile that is being added
  std::map<std::string, int> mapping_ids_;
  std::map<std::pair<int, std::uint64_t>, int> locations_;  // by mapping and address
  std::map<std::string, int> functions_;
};

std::string compressed(const std::string& bytes) {
  z_stream stream = {};
  constexpr int kGzip = 16;  // added to the window: gzip's header and trailer
  constexpr int kMemory = 8;
  if (deflateInit2(&stream, Z_DEFAULT_COMPRESSION, Z_DEFLATED, kGzip + MAX_WBITS, kMemory, Z_DEFAULT_STRATEGY) != Z_OK)
    throw std::bad_alloc();
  std::string out(deflateBound(&stream, static_cast<uLong>(bytes.size())), 0);
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(bytes.data()));
  stream.avail_in = static_cast<uInt>(bytes.size());  // protobuf makes at most 2 GiB
  stream.next_out = reinterpret_cast<Bytef*>(out.data());
  stream.avail_out = static_cast<uInt>(out.size());
  const int status = deflate(&stream, Z_FINISH);
  out.resize(stream.total_out);
  deflateEnd(&stream);
  if (status != Z_STREAM_END) throw DumpError("could not be compressed");
  return out;
}

}  // namespace

std::string write_proto(Profile& profile, Profile* base) {
  Writer writer(profile.dump);
  if (base == nullptr) writer.add(profile);
  else writer.add_difference(profile, *base);
  return compressed(writer.finish());
}

}  // namespace freeway_profile
