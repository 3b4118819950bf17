# SPDX-License-Identifier: Apache-2.0
"""Class priors η: fixed, scheduled or estimated."""
