# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""The Huffman code of HTTP/2 headers (RFC 7541, appendix B), decoded a byte at a time.

The code is canonical: all codes follow from the symbols of each length. What a byte does in the middle of which code
is worked out when it first happens and kept; the few hundred steps that headers of gRPC need are there after the first
calls, where a table of all would be 65,536.
"""

from __future__ import annotations

_SYMBOLS = {
    5: b"012aceiost",
    6: b" %-./3456789=A_bdfghlmnpru",
    7: b":BCDEFGHIJKLMNOPQRSTUVWYjkqvwxyz",
    8: b"&*,;XZ",
    10: b'!"()?',
    11: b"'+|",
    12: b"#>",
    13: b"\x00$@[]~",
    14: b"^}",
    15: b"<`{",
    19: b"\\\xc3\xd0",
    20: b"\x80\x82\x83\xa2\xb8\xc2\xe0\xe2",
    21: b"\x99\xa1\xa7\xac\xb0\xb1\xb3\xd1\xd8\xd9\xe3\xe5\xe6",
    22: b"\x81\x84\x85\x86\x88\x92\x9a\x9c\xa0\xa3\xa4\xa9\xaa\xad\xb2\xb5\xb9\xba\xbb\xbd\xbe\xc4\xc6\xe4\xe8\xe9",
    23: b"\x01\x87\x89\x8a\x8b\x8c\x8d\x8f\x93\x95\x96\x97\x98\x9b\x9d\x9e\xa5\xa6\xa8\xae\xaf\xb4\xb6\xb7\xbc\xbf"
    b"\xc5\xe7\xef",
    24: b"\t\x8e\x90\x91\x94\x9f\xab\xce\xd7\xe1\xec\xed",
    25: b"\xc7\xcf\xea\xeb",
    26: b"\xc0\xc1\xc8\xc9\xca\xcd\xd2\xd5\xda\xdb\xee\xf0\xf2\xf3\xff",
    27: b"\xcb\xcc\xd3\xd4\xd6\xdd\xde\xdf\xf1\xf4\xf5\xf6\xf7\xf8\xfa\xfb\xfc\xfd\xfe",
    28: b"\x02\x03\x04\x05\x06\x07\x08\x0b\x0c\x0e\x0f\x10\x11\x12\x13\x14\x15\x17\x18\x19\x1a\x1b\x1c\x1d\x1e\x1f\x7f"
    b"\xdc\xf9",
    30: b"\n\r\x16",  # and the mark of an end, which may not be sent
}
_LONGEST = 30
_MOST_STEPS = 4096

_State = tuple[int, int]  # the bits of a code that has begun: how many, and which
_START: _State = (0, 0)


def _codes() -> dict[_State, int]:
    found = {}
    code = bits = 0
    for length, symbols in _SYMBOLS.items():
        code <<= length - bits
        bits = length
        for symbol in symbols:
            found[bits, code] = symbol
            code += 1
    return found


_CODES = _codes()


class Huffman:
    """A decoder with the steps that it has met."""

    def __init__(self) -> None:
        self._steps: dict[tuple[_State, int], tuple[bytes, _State]] = {}

    def decode(self, content: bytes) -> bytes:
        """The text, or a ValueError."""
        steps = self._steps
        state = _START
        text = []
        for byte in content:
            step = steps.get((state, byte))
            if step is None:
                step = self._work_out(state, byte)
            part, state = step
            text.append(part)
        bits, code = state
        if bits > 7 or code != (1 << bits) - 1:
            raise ValueError("a header's Huffman code is cut off")
        return b"".join(text)

    def _work_out(self, state: _State, byte: int) -> tuple[bytes, _State]:
        bits, code = state
        text = bytearray()
        for place in range(7, -1, -1):
            bits, code = bits + 1, code << 1 | byte >> place & 1
            symbol = _CODES.get((bits, code))
            if symbol is not None:
                text.append(symbol)
                bits = code = 0
            elif bits >= _LONGEST:
                raise ValueError("a header's Huffman code has no such symbol")
        if len(self._steps) >= _MOST_STEPS:
            self._steps.clear()
        self._steps[state, byte] = step = (bytes(text), (bits, code))
        return step
