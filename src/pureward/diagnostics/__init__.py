# SPDX-License-Identifier: Apache-2.0
"""Probes, verdicts, evidence, plots and reports of runs, and films of tasks."""
