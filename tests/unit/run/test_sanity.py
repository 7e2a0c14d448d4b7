# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""What ansible-test's pip is told, since it hands it nothing of the caller's environment."""

from __future__ import annotations

import configparser

from ansible_collections.colocation.kubernetes.tests.run.sanity import pip_configuration


def read(text: str) -> configparser.RawConfigParser:
    parser = configparser.RawConfigParser()
    parser.read_string(text)
    return parser


def test_what_pip_lists_is_written_down() -> None:
    listed = "global.index-url='https://index.example/simple'\ninstall.no-deps='true'\n:env:.timeout='180'\n"
    written = read(pip_configuration(listed, {}))
    assert written.get("global", "index-url") == "https://index.example/simple"
    assert written.get("install", "no-deps") == "true"
    assert written.get("global", "timeout") == "180"


def test_the_environment_wins_over_files() -> None:
    listed = ":env:.cert='/from/environment'\nglobal.cert='/from/file'\n"
    assert read(pip_configuration(listed, {})).get("global", "cert") == "/from/environment"


def test_values_with_equals_quotes_and_percents_survive() -> None:
    listed = 'global.index-url="https://me:p%40ss=\'@index.example/?a=b"\n'
    assert read(pip_configuration(listed, {})).get("global", "index-url") == "https://me:p%40ss='@index.example/?a=b"


def test_a_proxy_and_certificates_of_other_tools_serve_where_pip_has_none() -> None:
    environ = {"HTTPS_PROXY": "http://proxy.example:3128", "REQUESTS_CA_BUNDLE": "/etc/ca.pem"}
    written = read(pip_configuration("", environ))
    assert written.get("global", "proxy") == "http://proxy.example:3128"
    assert written.get("global", "cert") == "/etc/ca.pem"
    assert read(pip_configuration("global.cert='/mine'\n", environ)).get("global", "cert") == "/mine"
