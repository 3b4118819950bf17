# SPDX-License-Identifier: Apache-2.0
"""Work that takes a while, done several pieces at once: jobs, who does them, how they stand."""
