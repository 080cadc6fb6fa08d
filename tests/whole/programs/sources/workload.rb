# SPDX-License-Identifier: MIT
#
# workload.rb: strings, arrays, hashes, big integers, threads, fibers, forks and a compacting collection. Prints the same
# every time. Argument: scale.
scale = (ARGV[0] || 1).to_i
random = Random.new(2004)
rows = Array.new(30_000 * scale) { |i| { key: random.bytes(6).unpack1('H*'), value: i, text: 'x' * random.rand(300) } }
puts rows.sort_by { |row| row[:key] }.first(3).inspect
puts rows.group_by { |row| row[:key][0, 2] }.transform_values(&:size).sort.first(5).inspect
puts rows.map { |row| row[:text] }.join(',').scan(/x{10,20}/).size
puts (1..600).inject(:*).to_s.size
sums = Array.new(4) { |t| Thread.new { (0...5000).sum { |i| "#{t} #{i}".hash == 0 ? 0 : "#{t} #{i}".size } } }
puts sums.map(&:value).inspect
fibers = Array.new(200) { |n| Fiber.new { 10.times { |i| Fiber.yield 'f' * (n + i) } } }
puts (0...10).sum { fibers.sum { |fiber| fiber.resume.size } }
10.times do |n|
  reader, writer = IO.pipe
  pid = fork do
    rows.clear if n.odd?
    GC.start
    writer.puts Array.new(1000) { |i| (i * n).to_s }.join.size
    exit! 0
  end
  writer.close
  Process.wait pid
  puts "child #{$?.exitstatus} #{reader.read}"
end
GC.start
GC.compact if GC.respond_to?(:compact)
puts rows.sum { |row| row[:text].size }
