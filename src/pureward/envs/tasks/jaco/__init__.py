# SPDX-License-Identifier: Apache-2.0
"""The table-top scene of lifting and stacking: a Jaco arm, a tray, three blocks and a banana."""
