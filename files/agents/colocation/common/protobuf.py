# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""Protobuf message classes from a table of fields: no generated code, no compiler on any machine.

A table is a mapping of message name to fields: `{"Device": {"ID": (1, "string"), "topology": (3, "TopologyInfo")}}`. A
type is one of protobuf's scalars, the name of a message in the table, `repeated` before either, or
`map<string, string>`. Fields that a table leaves out are kept by protobuf as unknown ones and survive a round trip.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

Fields = Mapping[str, tuple[int, str]]
_Field = descriptor_pb2.FieldDescriptorProto
_SCALARS = {
    "bool": _Field.TYPE_BOOL,
    "bytes": _Field.TYPE_BYTES,
    "int32": _Field.TYPE_INT32,
    "int64": _Field.TYPE_INT64,
    "string": _Field.TYPE_STRING,
    "uint32": _Field.TYPE_UINT32,
    "uint64": _Field.TYPE_UINT64,
}
_MAP = re.compile(r"map<(\w+), *(\w+)>")


def message_classes(package: str, table: Mapping[str, Fields]) -> dict[str, Any]:
    """A class for each message of the table, in a pool of their own."""
    file = descriptor_pb2.FileDescriptorProto(name=f"{package}.proto", package=package, syntax="proto3")
    for name, fields in table.items():
        message = file.message_type.add(name=name)
        for field_name, (number, wanted) in fields.items():
            _add_field(message, field_name, number, wanted, package, table)
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return {name: message_factory.GetMessageClass(pool.FindMessageTypeByName(f"{package}.{name}")) for name in table}


def _add_field(
    message: descriptor_pb2.DescriptorProto,
    name: str,
    number: int,
    wanted: str,
    package: str,
    table: Mapping[str, Fields],
) -> None:
    kind = wanted.removeprefix("repeated ")
    repeated = kind != wanted
    field = message.field.add(name=name, number=number)
    field.label = _Field.LABEL_REPEATED if repeated else _Field.LABEL_OPTIONAL
    mapped = _MAP.fullmatch(kind)
    if mapped:
        entry = "".join(part.capitalize() for part in name.split("_")) + "Entry"
        nested = message.nested_type.add(name=entry)
        nested.options.map_entry = True
        for part, (key, of) in enumerate(zip(("key", "value"), mapped.groups(), strict=True), 1):
            nested.field.add(name=key, number=part, type=_SCALARS[of], label=_Field.LABEL_OPTIONAL)
        field.label = _Field.LABEL_REPEATED
        field.type, field.type_name = _Field.TYPE_MESSAGE, f".{package}.{message.name}.{entry}"
    elif kind in _SCALARS:
        field.type = _SCALARS[kind]
    elif kind in table:
        field.type, field.type_name = _Field.TYPE_MESSAGE, f".{package}.{kind}"
    else:
        raise ValueError(f"{message.name}.{name}: there is no type {kind!r}")
