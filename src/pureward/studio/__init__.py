# SPDX-License-Identifier: Apache-2.0
"""A page in the browser to draw rewards for episodes, and to look at learned ones."""
