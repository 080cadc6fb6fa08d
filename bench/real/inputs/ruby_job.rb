# SPDX-License-Identifier: MIT
#
# ruby_job.rb: strings, symbols, hashes, structs and blocks: a text is made, indexed, grouped and printed; a small
# virtual machine runs. Prints a checksum.
require 'digest'
require 'set'

Entry = Struct.new(:word, :places, :weight)

class Source
  def initialize(seed)
    @random = Random.new(seed)
    @words = Array.new(2000) { Array.new(@random.rand(3..11)) { 'abdeilmnorstu'[@random.rand(13)] }.join }
  end

  def lines(count)
    Array.new(count) { Array.new(@random.rand(4..16)) { @words[@random.rand(@words.size)] }.join(' ') }
  end
end

def index(lines)
  found = {}
  lines.each_with_index do |line, number|
    line.split.each_with_index do |word, column|
      entry = (found[word] ||= Entry.new(word, [], 0.0))
      entry.places << [number, column]
      entry.weight += 1.0 / (column + 1)
    end
  end
  found
end

def report(found)
  groups = found.values.group_by { |entry| entry.word[0, 2].to_sym }
  groups.sort.map do |key, entries|
    best = entries.max_by(3) { |entry| [entry.weight.round(6), entry.word] }
    "#{key}: #{best.map { |entry| format('%s %.3f', entry.word, entry.weight) }.join(', ')} of #{entries.size}"
  end
end

class Machine
  def initialize(code)
    @code = code
    @stack = []
    @memory = Hash.new(0)
  end

  def run
    @code.each do |operation, argument|
      case operation
      when :push then @stack.push(argument)
      when :add then @stack.push((@stack.pop + @stack.pop) % 1_000_003)
      when :multiply then @stack.push((@stack.pop * @stack.pop) % 1_000_003)
      when :store then @memory[argument] += @stack.last
      end
    end
    @memory.sort.to_s
  end
end

def program(turn)
  (0...15_000).flat_map do |i|
    [[:push, i * turn], [:push, i + 1], [i.even? ? :add : :multiply], [:store, "v#{i % 50}"]]
  end
end

digest = Digest::SHA256.new
source = Source.new(1995)
(ARGV[0] || 10).to_i.times do |turn|
  lines = source.lines(4000)
  found = index(lines)
  digest << report(found).join("\n")
  swapped = lines.map { |line| line.gsub(/(\w+) (\w+)/) { "#{$2} #{$1.upcase}" } }
  digest << swapped.sort_by(&:reverse).to_set.first(500).join
  digest << Machine.new(program(turn)).run
end
puts digest.hexdigest
