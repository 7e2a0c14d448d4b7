# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""The engine of ./test, ./bench and ./demo: sets up what they need, runs it, counts.

It runs before anything is installed, so it has the standard library and the machine's python3 (3.10 or later), no more.
From the top down, each module knowing only those below it:

    commands            the command lines
    demonstration, benchmarks, parts
    lint, sanity, suites, scenarios
    locks, setup        system packages, virtual environments, staged collection
    debian_python, packages, environment, stage
    junit, report, process, places
"""
