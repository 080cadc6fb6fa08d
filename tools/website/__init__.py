# SPDX-License-Identifier: MIT
"""The documentation as a static site: `make docs`. See README.md."""
