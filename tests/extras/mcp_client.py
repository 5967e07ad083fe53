"""The Python client of the Model Context Protocol at a memfold-server: `mcp_client.py stdio PROGRAM BRAIN_DB` or
`mcp_client.py http URL`. Lists the tools, then saves, recalls, is told of a conflict and settles it, plans, applies and
undoes; prints a line of JSON."""

import asyncio
import json
import sys

from mcp import Client, StdioServerParameters

TOOLS = {
    "memory_save",
    "memory_recall",
    "memory_check",
    "memory_duplicates",
    "memory_conflicts",
    "memory_consolidate",
    "memory_resolve",
    "memory_session_context",
}


# 2,000 tokens of English.
CHARS_MAX = 8_000


async def call(client, name, **arguments):
    result = await client.call_tool(name, arguments)
    assert not result.is_error, result
    assert sum(len(part.text) for part in result.content) <= CHARS_MAX, result
    return result.structured_content


async def visit(target):
    async with Client(target) as client:
        tools = (await client.list_tools()).tools
        assert {tool.name for tool in tools} == TOOLS, tools
        assert all(tool.input_schema["type"] == "object" for tool in tools)
        assert all(tool.output_schema["type"] == "object" for tool in tools)
        saved = await call(client, "memory_save", text="Bob is allergic to walnuts")
        found = await call(client, "memory_recall", query="What is Bob allergic to?")
        flagged = await call(client, "memory_save", text="Bob is not allergic to walnuts")
        key = flagged["conflicts"][0]["key"]
        settled = await call(client, "memory_resolve", key=key, settlement="supersede")
        plan = await call(client, "memory_consolidate", action="plan")
        names = {name: plan[name] for name in ("plan_id", "plan_digest")}
        applied = await call(client, "memory_consolidate", action="apply", **names)
        undone = await call(client, "memory_consolidate", action="undo", run_id=applied["run_id"])
        return {
            "tools": len(tools),
            "saved": saved["did"],
            "recalled": found["memories"][0]["text"],
            "flagged": flagged["did"],
            "open": settled["open"],
            "applied": applied["applied"],
            "undone": undone["applied"],
        }


def main():
    match sys.argv[1:]:
        case ["stdio", program, store]:
            arguments = ["mcp", store, "--allow-writes"]
            target = StdioServerParameters(command=program, args=arguments)
        case ["http", url]:
            target = url
        case _:
            sys.exit(__doc__)
    print(json.dumps(asyncio.run(visit(target))))


main()
