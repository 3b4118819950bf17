# SPDX-License-Identifier: Apache-2.0
"""What people look at: runs as curves, strips, sentences and a report, and tasks as films."""
