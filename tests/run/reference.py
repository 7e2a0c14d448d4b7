# Copyright: colocation.kubernetes contributors
# Apache-2.0 License (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""Makes a page for each role and module from their specifications, in docs/roles and docs/modules."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

KINDS = ("roles", "modules")
COLLECTION = "colocation.kubernetes"
MADE = "<!-- Made from the specification by ./test --refresh-docs; changes belong there. -->"
OURS = re.compile(rf"M\({re.escape(COLLECTION)}\.(\w+)\)")
AS_CODE = re.compile(r"\b(?:C|O|V|E|RV)\(((?:\\.|[^)\\])*)\)")
LINK = re.compile(r"\bL\(([^,)]+),\s*([^)]+)\)")
PLAIN = re.compile(r"\b(?:U|M|P|I|B)\(((?:\\.|[^)\\])*)\)")


def prose(text: str | Sequence[str], between: str = "\n\n") -> str:
    """Ansible's markup as Markdown; what it calls paragraphs is parted by `between`."""
    if not isinstance(text, str):
        return between.join(prose(paragraph) for paragraph in text)
    text = OURS.sub(r"[`\1`](../modules/\1.md)", text)
    text = LINK.sub(r"[\1](\2)", text)
    text = AS_CODE.sub(lambda found: f"`{found[1].replace(chr(92), '')}`", text)
    return PLAIN.sub(lambda found: found[1].split("#")[0], text).strip()


def role_page(name: str, specs: Mapping[str, Any]) -> str:
    """All that a role takes; entry points with the same options share a table."""
    main = specs["main"]
    lines = [
        *_top(name, main["short_description"], main.get("description", "")),
        f"What it does and why: [the role's README](../../roles/{name}/README.md).",
        "",
        "## Variables",
        "",
        *_options(main.get("options") or {}),
    ]
    for point, spec in specs.items():
        if point == "main":
            continue
        lines += ["", f"## `tasks_from: {point}`", "", prose(spec.get("description", spec["short_description"])), ""]
        options = spec.get("options") or {}
        if options == main.get("options"):
            lines += ["It takes the same variables."]
        elif options:
            lines += _options(options)
    return "\n".join(lines).rstrip() + "\n"


def module_page(name: str, told: Mapping[str, Any]) -> str:
    """All that a module takes, does and returns, in the order in which one asks."""
    doc = told["doc"]
    options = doc.get("options") or {}
    lines = _top(name, doc["short_description"], doc["description"])
    if told.get("examples"):
        lines += ["## Examples", "", "```yaml", told["examples"].strip(), "```", ""]
    needed = sorted(options, key=lambda option: (not options[option].get("required", False), option))
    lines += ["## Options", "", *_options({option: options[option] for option in needed}), ""]
    if doc.get("notes"):
        lines += ["## Notes", "", *(f"- {prose(note)}" for note in doc["notes"]), ""]
    if doc.get("attributes"):
        lines += ["## What it supports", "", *_attributes(doc["attributes"]), ""]
    if told.get("return"):
        lines += ["## What it returns", "", *_returned(told["return"]), ""]
    if doc.get("seealso"):
        lines += ["## See also", "", *(_see(entry) for entry in doc["seealso"]), ""]
    return "\n".join(lines).rstrip() + "\n"


def index_page(what: str, summaries: Mapping[str, str]) -> str:
    """A list of the pages beside it."""
    rows = [f"| [`{name}`]({name}.md) | {_cell(prose(summary))} |" for name, summary in sorted(summaries.items())]
    return "\n".join([MADE, "", f"# {what}", "", "| | |", "|---|---|", *rows]) + "\n"


def _top(name: str, short: str, description: str | Sequence[str]) -> list[str]:
    return [MADE, "", f"# {name}", "", f"**{prose(short).rstrip('.')}.**", "", prose(description), ""]


def _options(options: Mapping[str, Any]) -> list[str]:
    if not options:
        return ["None."]
    return ["| option | type | default | |", "|---|---|---|---|", *_option_rows(options, "")]


def _option_rows(options: Mapping[str, Any], parent: str) -> list[str]:
    rows = []
    for name, option in options.items():
        default = "**required**" if option.get("required") else _value(option.get("default"))
        text = prose(option.get("description", ""), "<br>")
        if option.get("choices"):
            text += f"<br>One of {_choices(option['choices'])}."
        if option.get("aliases"):
            text += f"<br>Also called {', '.join(f'`{alias}`' for alias in option['aliases'])}."
        rows.append(f"| `{parent}{name}` | {_type(option)} | {_cell(default)} | {_cell(text)} |")
        rows += _option_rows(option.get("options") or option.get("suboptions") or {}, f"{parent}{name}.")
    return rows


def _type(described: Mapping[str, Any]) -> str:
    kind = str(described.get("type", "str"))
    return f"{kind} of {described['elements']}" if described.get("elements") else kind


def _choices(choices: Sequence[Any] | Mapping[str, Any]) -> str:
    if isinstance(choices, Mapping):
        return ", ".join(f"`{choice}` ({prose(meaning, ' ').rstrip('.')})" for choice, meaning in choices.items())
    return ", ".join(_value(choice) for choice in choices)


def _attributes(attributes: Mapping[str, Any]) -> list[str]:
    rows = []
    for name, attribute in attributes.items():
        text = " ".join(prose(attribute.get(key, ""), " ") for key in ("description", "details"))
        rows.append(f"| {name} | {attribute['support']} | {_cell(text.strip())} |")
    return ["| | | |", "|---|---|---|", *rows]


def _returned(values: Mapping[str, Any]) -> list[str]:
    return ["| key | type | returned | |", "|---|---|---|---|", *_returned_rows(values, "")]


def _returned_rows(values: Mapping[str, Any], parent: str) -> list[str]:
    rows = []
    for name, value in values.items():
        text = prose(value.get("description", ""), "<br>")
        if value.get("sample") not in (None, "", [], {}):
            text += f"<br>For example {_value(value['sample'])}"
        rows.append(
            f"| `{parent}{name}` | {_type(value)} | {_cell(prose(value.get('returned', '')))} | {_cell(text)} |"
        )
        rows += _returned_rows(value.get("contains") or {}, f"{parent}{name}.")
    return rows


def _see(entry: Mapping[str, Any]) -> str:
    """A module of ours by its page, everything else by its name."""
    if "module" in entry:
        name = entry["module"]
        text = prose(f"M({name})") if name.startswith(COLLECTION) else f"`{name}`"
    else:
        text = f"[{entry['name']}]({entry['link']})" if "link" in entry else entry.get("ref", entry.get("plugin", ""))
    described = entry.get("description", "")
    return (
        f"- {text}: {prose(described)}" if described and not described.startswith("The official doc") else f"- {text}"
    )


def _value(value: Any) -> str:
    if value is None:
        return ""
    return f"`{value}`" if isinstance(value, str) and value else f"`{json.dumps(value, ensure_ascii=False)}`"


def _cell(text: str) -> str:
    return text.replace("\n", " ").replace("|", r"\|")


def pages(collection: Path) -> dict[Path, str]:
    """Every page by its place in the collection."""
    roles = {
        file.parts[-3]: yaml.safe_load(file.read_text())["argument_specs"]
        for file in sorted(collection.glob("roles/*/meta/argument_specs.yml"))
    }
    modules = _told_of_modules(sorted(file.stem for file in (collection / "plugins/modules").glob("[!_]*.py")))
    role_summaries = {name: specs["main"]["short_description"] for name, specs in roles.items()}
    module_summaries = {name: told["doc"]["short_description"] for name, told in modules.items()}
    return {
        **{Path("docs/roles", f"{name}.md"): role_page(name, specs) for name, specs in roles.items()},
        **{Path("docs/modules", f"{name}.md"): module_page(name, told) for name, told in modules.items()},
        Path("docs/roles/README.md"): index_page("Roles", role_summaries),
        Path("docs/modules/README.md"): index_page("Modules", module_summaries),
    }


def _told_of_modules(names: Sequence[str]) -> dict[str, Any]:
    """What ansible-doc says, which puts the fragments in; it finds the collection as the caller set it up."""
    command = [str(Path(sys.executable).with_name("ansible-doc")), "--type", "module", "--json"]
    answer = subprocess.run(
        [*command, *(f"{COLLECTION}.{name}" for name in names)], capture_output=True, text=True, check=False
    )
    if answer.returncode != 0:
        raise SystemExit(f"ansible-doc failed: {answer.stderr.strip()}")
    told = json.loads(answer.stdout)
    return {name: told[f"{COLLECTION}.{name}"] for name in names}
