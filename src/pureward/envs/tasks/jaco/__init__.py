# SPDX-License-Identifier: Apache-2.0
"""The scene of `lift` and `stack`: a Jaco arm, a tray, three blocks and a banana."""
