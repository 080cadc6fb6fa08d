# SPDX-License-Identifier: MIT
#
# ruby_outcomes.rb: required before Ruby's test/runner.rb, it appends the outcome of each test to the file that the
# variable OUTCOMES names: `passed`, `failed` or `skipped`, and the name. A test that fails in its teardown is noted twice.
# The exit status is 3 where an exception ends the runner: 1, Ruby's own, is that of a failed test.
require "test/unit"

module Outcomes
  REPORT = ENV.fetch("OUTCOMES") # tests change ENV
  RUNNER = Process.pid

  def record(suite, method, assertions, time, error)
    super
    outcome = case error
              when nil then "passed"
              when Test::Unit::PendedError then "skipped"
              else "failed"
              end
    File.write(REPORT, "#{outcome} #{suite.name}##{method}\n", mode: "a")
  end
end

Test::Unit::Runner.prepend(Outcomes)
at_exit { exit!(3) unless $!.nil? || $!.is_a?(SystemExit) || Process.pid != Outcomes::RUNNER }
