# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""Header blocks, against the hpack library: it encodes, and on garbage both must agree."""

from __future__ import annotations

import random

import hpack
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from colocation.cri_proxy.hpack import HeaderReader
from colocation.cri_proxy.huffman import Huffman

names = st.sampled_from([b":path", b":method", b"grpc-timeout", b"x-a", b"x-bin", b"user-agent"]) | st.binary(
    max_size=9
)
long_values = st.integers(3900, 5000).map(lambda size: b"v" * size)
values = st.sampled_from([b"POST", b"", b"120000m", b"200"]) | st.binary(max_size=30) | long_values
headers = st.lists(st.tuples(names, values), max_size=6)
sizes = st.none() | st.sampled_from([0, 64, 100, 4096, 10_000])


@given(st.lists(st.tuples(headers, sizes, st.booleans()), max_size=10))
@settings(deadline=None)
def test_what_was_encoded_is_read(blocks: list[tuple[list[tuple[bytes, bytes]], int | None, bool]]) -> None:
    encoder, reader = hpack.Encoder(), HeaderReader()
    reader.allow(10_000)
    for wanted, size, coded in blocks:
        if size is not None:
            encoder.header_table_size = size
        assert list(reader.read(encoder.encode(wanted, huffman=coded))) == wanted


@given(
    st.lists(st.binary(max_size=40) | st.sampled_from([b"\x82\xbe", b"\xbe", b"\x40\x01a\x01b", b"\x20"]), max_size=8)
)
@settings(max_examples=500)
def test_garbage_is_read_as_the_library_reads_it(blocks: list[bytes]) -> None:
    decoder, reader = hpack.Decoder(max_header_list_size=1 << 24), HeaderReader()
    for block in blocks:
        try:
            theirs = decoder.decode(block, raw=True)
        except (hpack.HPACKError, UnicodeDecodeError):
            theirs = None
        try:
            ours = reader.read(block)
        except ValueError:
            return  # a reader is of no use then
        assert theirs is not None, "the library refuses it"
        assert list(theirs) == list(ours)


@given(st.binary(max_size=300))
def test_every_byte_has_a_huffman_code(text: bytes) -> None:
    coded = hpack.Encoder().huffman_coder.encode(text)
    assert Huffman().decode(coded) == text


@pytest.mark.parametrize(
    ("coded", "why"),
    [
        (b"\xff\xff\xff\xff", "no such symbol"),  # the mark of an end
        (b"\xff", "cut off"),  # eight bits of padding
        (b"\x18", "cut off"),  # padding of zeros
    ],
)
def test_bad_huffman_codes_are_refused(coded: bytes, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        Huffman().decode(coded)


@pytest.mark.parametrize(
    "block",
    [
        b"\x80",  # no entry
        b"\xbe",  # not in the table yet
        b"\x40",  # a literal without a name
        b"\x40\x03ab",  # cut off
        b"\xff\xff\xff\xff\xff\xff\xff\x01",  # a number without end
        b"\x3f\xe2\x1f",  # a larger table than anybody allowed
        b"\x82\x20",  # a size after a header
    ],
)
def test_bad_blocks_are_refused(block: bytes) -> None:
    with pytest.raises(ValueError):
        HeaderReader().read(block)


def test_a_remembered_block_is_forgotten_when_the_table_changes() -> None:
    reader = HeaderReader()
    reader.read(b"\x40\x01a\x01b")
    assert reader.read(b"\xbe") == ((b"a", b"b"),)
    assert reader.read(b"\xbe") == ((b"a", b"b"),)
    reader.read(b"\x40\x01a\x01c")
    assert reader.read(b"\xbe") == ((b"a", b"c"),)


def test_steps_of_the_huffman_code_do_not_grow_without_end() -> None:
    coder, source, huffman = hpack.Encoder().huffman_coder, random.Random(1), Huffman()
    for _turn in range(200):
        text = source.randbytes(100)
        assert huffman.decode(coder.encode(text)) == text
    assert len(huffman._steps) <= 4096
