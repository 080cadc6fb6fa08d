# SPDX-License-Identifier: MIT
#
# mspec_outcomes.rb: a formatter of mspec, which runs ruby/spec. It appends the outcome of each example to the file that
# the variable OUTCOMES names: `passed` or `failed`, and the name. Examples of the same name are one.
# The exit status is 3 where an exception ends the runner: 1, Ruby's own, is that of a failed example.
require "mspec/runner/formatters/dotted"

class OutcomesFormatter < DottedFormatter
  REPORT = ENV.fetch("OUTCOMES") # examples change ENV
  RUNNER = Process.pid

  def exception(exception)
    super
    note("failed", exception.description.lines.last)
  end

  def after(state = nil)
    note("passed", state.description) unless state.nil? || exception?
    super
  end

  private

  def note(outcome, example)
    File.write(REPORT, "#{outcome} #{example.to_s.tr("\n", " ").scrub.strip}\n", mode: "a")
  end
end

CUSTOM_MSPEC_FORMATTER = OutcomesFormatter
at_exit { exit!(3) unless $!.nil? || $!.is_a?(SystemExit) || Process.pid != OutcomesFormatter::RUNNER }
