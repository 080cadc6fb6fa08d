# SPDX-License-Identifier: MIT
# hold.rb: hold.c in Ruby.
held = Array.new(8000) { 'x' * 1000 }
puts "held #{Process.pid}"
$stdout.flush
$stdin.read
held.clear
