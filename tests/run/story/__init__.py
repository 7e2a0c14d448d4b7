# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""The story that ./demo tells: its steps, what is measured meanwhile, and the page that shows it."""
