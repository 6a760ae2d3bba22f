"""The pages of docs/reference/api, as Markdown."""

import re
from collections.abc import Mapping

import griffe
from reference import PAGES, Entry, attributes, default_of, entries, is_property, members, parameters, said, sections

_WIDTH = 100  # of a signature in one line
_MADE = "Made from docstrings by `make reference`."


def pages() -> dict[str, str]:
    """All pages by their file names."""
    links = {each.title: f"{page}.md#{_anchor(each.title)}" for page, listed in entries().items() for each in listed}
    texts = {f"{page}.md": _page(PAGES[page][0], listed) for page, listed in entries().items()}
    return {"README.md": _index(), **{name: _linked(text, links, name) for name, text in texts.items()}}


def _index() -> str:
    parts = [f"# Python API\n\nThe public names, with their parameters, results and errors. {_MADE}\n"]
    for page, listed in entries().items():
        parts.append(f"\n## [{PAGES[page][0]}]({page}.md)\n\n")
        parts += [f"- [`{each.title}`]({page}.md#{_anchor(each.title)}): {_first_sentence(each)}\n" for each in listed]
    return "".join(parts)


def _first_sentence(entry: Entry) -> str:
    assert entry.described.docstring is not None
    paragraph = " ".join(entry.described.docstring.value.split("\n\n")[0].split())
    return re.split(r"(?<=\.) (?=[A-Z`])", paragraph)[0]


def _page(title: str, listed: list[Entry]) -> str:
    parts = [f"# {title}\n\n{_MADE} [All names](README.md)\n"]
    for entry in listed:
        parts.append(f"\n## {entry.title}\n\n{_imported(entry)}{_told(entry.described)}")
        parts += [
            f"\n### {entry.name}.{member.name}\n\n{_signature(member, member.name)}{_told(member)}"
            for member in members(entry)
        ]
    return "".join(parts)


def _imported(entry: Entry) -> str:
    package, _, name = entry.module.rpartition(".")
    line = f"from {package} import {name}" if entry.title != entry.name else f"from {entry.module} import {entry.name}"
    line = line.removeprefix("from  ")  # the package itself
    if entry.is_error:
        assert isinstance(entry.described, griffe.Class)
        return f"Base: {', '.join(f'`{base}`' for base in entry.described.bases)}. `{line}`\n\n"
    called = entry.title if not package else entry.title.removeprefix("tidegate.")
    return f"```python\n{line}\n```\n\n{_signature(entry.described, called)}"


def _signature(described: griffe.Object, name: str) -> str:
    """A block with it. None for a class that its users do not call."""
    if isinstance(described, griffe.Attribute):
        return f"```python\n{name}: {described.annotation}\n```\n\n"
    given = _written(parameters(described))
    if isinstance(described, griffe.Class) and not said(described, "parameters"):
        given = [_option(each) for each in described.attributes.values() if each.docstring and not is_property(each)]
        if not given:
            return ""
    returned = f" -> {described.returns}" if isinstance(described, griffe.Function) else ""
    line = f"{name}({', '.join(given)}){returned}"
    if len(line) > _WIDTH:
        line = "\n".join([f"{name}(", *(f"    {each}," for each in given), f"){returned}"])
    return f"```python\n{line}\n```\n\n"


def _option(option: griffe.Attribute) -> str:
    """An option of checkpoints, as a parameter. How it is checked is left out."""
    type_ = re.sub(r"^(?:Annotated\[(.*?), .*|OneOf\[(.*)\])$", r"\1\2", str(option.annotation))
    default = re.sub(r"^default\((.*)\)$", r"\1", str(option.value))
    return f"{option.name}: {type_} = {default}"


def _written(given: list[griffe.Parameter]) -> list[str]:
    """Parameters as in Python's source, with what separates their kinds."""
    kinds = griffe.ParameterKind
    stars = {kinds.var_positional: "*", kinds.var_keyword: "**"}
    parts: list[str] = []
    before = None
    for each in given:
        if before is kinds.positional_only and each.kind is not before:
            parts.append("/")
        if each.kind is kinds.keyword_only and before not in (kinds.keyword_only, kinds.var_positional):
            parts.append("*")
        default = f" = {default_of(each.default)}" if each.default is not None and each.kind not in stars else ""
        parts.append(f"{stars.get(each.kind, '')}{each.name}: {each.annotation}{default}")
        before = each.kind
    return parts


def _told(described: griffe.Object) -> str:
    """The docstring: text, parameters or attributes, result, errors, example."""
    found = {section.kind.value: section.value for section in sections(described)}
    documented = said(described, "parameters")
    parts = [found.get("text", "")]
    parts += _list("Parameters", {each.name: documented[each.name] for each in parameters(described) if documented})
    parts += _list("Attributes" if said(described, "attributes") else "Parameters", attributes(described))
    parts += [f"**Returns:** {_line(each.description)}" for each in found.get("returns", ())]
    parts += _list("Raises", said(described, "raises"))
    if "admonition" in found:
        parts.append(f"**Example:**\n\n{found['admonition'].description}")
    return "\n\n".join(parts) + "\n"


def _list(title: str, items: Mapping[str, str]) -> list[str]:
    lines = "\n".join(f"- `{name}`: {_line(text)}" for name, text in items.items())
    return [f"**{title}:**\n\n{lines}"] if items else []


def _line(text: str) -> str:
    return " ".join(text.split())


def _linked(page: str, links: Mapping[str, str], name: str) -> str:
    """With a link wherever the text, not code, names something public."""

    def link(found: re.Match[str]) -> str:
        target = links.get(found[1], "").removeprefix(name)
        return f"[`{found[1]}`]({target})" if target else found[0]

    blocks = re.split(r"(^```.*?^```$)", page, flags=re.MULTILINE | re.DOTALL)
    return "".join(block if block.startswith("```") else re.sub(r"`([\w.]+)`", link, block) for block in blocks)


def _anchor(title: str) -> str:
    """As GitHub makes it of a heading."""
    return re.sub(r"[^\w-]", "", title.lower())
