# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""The scheduler's extender: scores nodes by their real use, and by what was placed since that was measured."""
