# SPDX-License-Identifier: Apache-2.0
"""Risks: what a discriminator minimises."""
