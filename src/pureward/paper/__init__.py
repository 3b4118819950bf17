# SPDX-License-Identifier: Apache-2.0
"""The paper's figures: declared sets of runs, a picture and a table of each, and its claims."""
