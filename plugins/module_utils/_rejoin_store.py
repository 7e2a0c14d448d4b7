# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""The saved state of a rejoining node: a Secret, where any controller finds it, and in which files may hold keys."""

from __future__ import annotations

import base64
import binascii
import json

from ansible_collections.colocation.kubernetes.plugins.module_utils._kube_client import (
    MERGE_PATCH,
    ApiError,
    KubeClient,
    api_path,
)
from ansible_collections.colocation.kubernetes.plugins.module_utils._rejoin_lock import LABELS, MANAGER, object_name
from ansible_collections.colocation.kubernetes.plugins.module_utils._rejoin_plan import (
    Record,
    RejoinRefused,
    read_record,
)

KEY = "state.json"
MOST = 900_000  # bytes of JSON; the API takes 1 MiB, and base64 is counted after decoding


class RecordStore:
    """The Secret of one node."""

    def __init__(self, client: KubeClient, node: str, namespace: str) -> None:
        self._client = client
        self._node = node
        self.name = object_name(node)
        self.namespace = namespace
        self._secrets = api_path("api", "v1", "namespaces", namespace, "secrets")
        self._path = self._secrets + api_path(self.name)

    def read(self) -> Record | None:
        """What was saved, or None; RejoinRefused where it can't be read, for it must not be lost."""
        found = self._client.find(self._path)
        if found is None:
            return None
        try:
            text = base64.b64decode((found.get("data") or {}).get(KEY, ""), validate=True)
            record = read_record(json.loads(text))
            if record.node != self._node:
                raise ValueError(f"it is of the node {record.node}")
        except (binascii.Error, ValueError, RecursionError) as problem:
            raise RejoinRefused(
                f"the saved state in the Secret {self.namespace}/{self.name} can't be read ({problem}); look what it "
                "holds, and delete it to begin anew with what the Node says now"
            ) from None
        return record

    def save(self, record: Record) -> None:
        """Put it there, or in place of what stood."""
        text = json.dumps(record.to_json(), sort_keys=True)
        if len(text) > MOST:
            sizes = sorted(((len(one.content), one.path) for one in record.files), reverse=True)[:3]
            named = ", ".join(f"{path} ({size * 3 // 4} bytes)" for size, path in sizes)
            raise RejoinRefused(
                f"what is to be saved has {len(text)} bytes, and a Secret holds {MOST}: shorten rejoin_keep_files, or "
                f"move away what does not belong there; the largest files: {named}"
            )
        metadata = {"name": self.name, "labels": LABELS, "annotations": {"colocation.kubernetes/phase": record.phase}}
        body = {
            "apiVersion": "v1",
            "kind": "Secret",
            "type": "Opaque",
            "metadata": metadata,
            "data": {KEY: base64.b64encode(text.encode()).decode()},
        }
        try:
            self._client.patch(self._path, body, MERGE_PATCH, field_manager=MANAGER, repeat=True)
        except ApiError as error:
            if error.status != 404:
                raise
            self._client.post(self._secrets, body, {"fieldManager": MANAGER})

    def remove(self) -> None:
        try:
            self._client.delete(self._path)
        except ApiError as error:
            if error.status != 404:
                raise
