"""The schemas of tools as TypeScript types, as gpt-oss is told of them.

Source: https://github.com/openai/harmony (Apache-2.0), version 0.0.8, whose rendering was observed; odd spellings, such
as a comment between a key and its object, are what models were trained on.
"""

import json
from collections.abc import Mapping, Sequence
from typing import Any

_SIMPLE = {"string": "string", "number": "number", "integer": "number", "boolean": "boolean"}
_STEP = "    "  # of a property's type
_VARIANT_STEP = "   "


def typescript_of(functions: Sequence[Mapping[str, Any]], namespace: str = "functions") -> str:
    """The section of a namespace of functions.

    Args:
        functions: each with ``name``, perhaps ``description`` and ``parameters``, a JSON schema.
        namespace: its name.
    """
    lines = [f"## {namespace}", "", f"namespace {namespace} {{", ""]
    for function in functions:
        description = function.get("description") or ""
        lines += [f"// {line}" for line in description.split("\n")] if description else []
        parameters = function.get("parameters")
        given = "" if parameters is None else f"_: {schema_type(parameters)}"
        lines += [f"type {function['name']} = ({given}) => any;", ""]
    return "\n".join([*lines, f"}} // namespace {namespace}"])


def schema_type(schema: Mapping[str, Any], indent: str = "") -> str:
    """The type that a schema describes.

    >>> schema_type({"type": "array", "items": {"enum": ["a", "b"], "type": "string"}})
    '"a" | "b"[]'
    """
    if isinstance(schema.get("oneOf"), list):
        step = indent + _VARIANT_STEP
        variants = [f"\n{indent} | {_variant(variant, step)}" for variant in schema["oneOf"]]
        return "".join(variants)
    kind = schema.get("type")
    if isinstance(kind, list) and kind:
        return " | ".join("number" if name == "integer" else str(name) for name in kind)
    if kind == "object":
        return _object(schema, indent)
    if kind == "array":
        items = schema.get("items")
        return "Array<any>" if items is None else f"{schema_type(items, indent)}[]"
    if kind == "string" and isinstance(schema.get("enum"), list):
        words = [f'"{word}"' for word in schema["enum"] if isinstance(word, str)]
        return " | ".join(words) if words else "string"
    return _SIMPLE.get(kind, "any") if isinstance(kind, str) else "any"


def _object(schema: Mapping[str, Any], indent: str) -> str:
    comment = f"{indent}// {schema['description']}\n" if isinstance(schema.get("description"), str) else ""
    required = schema.get("required") or []
    properties = schema.get("properties") or {}
    lines = "".join(_property(key, value, key in required, indent) for key, value in properties.items())
    return f"{comment}{{\n{lines}{indent}}}"


def _property(key: str, schema: Mapping[str, Any], is_required: bool, indent: str) -> str:
    is_union = isinstance(schema.get("oneOf"), list)
    description, title = schema.get("description"), schema.get("title")
    comments = [title, None] if isinstance(title, str) else []
    described = [description] if isinstance(description, str) and (description or not is_union) else []
    comments += [] if is_union else described
    examples = schema.get("examples")
    if isinstance(examples, list) and examples:
        comments += ["Examples:", *(f'- "{example}"' for example in examples if isinstance(example, str))]
    comments += described if is_union else []
    comments += [f"default: {_default(schema)}"] if is_union and "default" in schema else []
    above = "".join(f"{indent}//\n" if comment is None else f"{indent}// {comment}\n" for comment in comments)
    name = f"{indent}{key}" if is_required else f"{indent}{key}?"
    if is_union:
        variants = "".join(f"{indent} | {_variant(one, indent + _VARIANT_STEP)}\n" for one in schema["oneOf"])
        return f"{above}{name}:\n{variants}{indent},\n"
    null = " | null" if schema.get("nullable") is True else ""
    default = f", // default: {_default(schema)}" if "default" in schema else ","
    return f"{above}{name}: {schema_type(schema, indent + _STEP)}{null}{default}\n"


def _variant(schema: Mapping[str, Any], indent: str) -> str:
    null = " | null" if schema.get("nullable") is True else ""
    comments = [schema["description"]] if schema.get("description") else []
    comments += [f"default: {_default(schema)}"] if "default" in schema else []
    return schema_type(schema, indent) + null + (f" // {' '.join(comments)}" if comments else "")


def _default(schema: Mapping[str, Any]) -> str:
    value = schema["default"]
    if isinstance(value, str):
        return value if "enum" in schema else f'"{value}"'
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
