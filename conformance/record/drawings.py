"""Draws graphs with LangGraph and writes what its Mermaid says, one file a row, into the folder that is named: nodes,
lines and the frames around children, without ids, classes and order."""

import json
import operator
import pathlib
import re
import sys
from typing import Annotated, TypedDict

from langgraph.graph import END, START, StateGraph


class State(TypedDict, total=False):
    log: Annotated[list[str], operator.add]


def nothing(_state):
    return {"log": []}


def graph(*names):
    b = StateGraph(State)
    for name in names:
        b.add_node(name, nothing)
    return b


def child():
    inner = graph("up")
    inner.add_edge(START, "up")
    b = graph("side")
    b.add_node("inner", inner.compile())
    b.add_edge(START, "inner")
    b.add_edge("inner", "side")
    return b.compile()


def labels():
    b = graph("Researcher", "Chart Generator", "Call Tool")
    b.add_edge(START, "Researcher")
    for name, other in ("Researcher", "Chart Generator"), ("Chart Generator", "Researcher"):
        b.add_conditional_edges(name, nothing, {"continue": other, "call_tool": "Call Tool", "end": END})
    b.add_conditional_edges("Call Tool", nothing, {"Researcher": "Researcher", "Chart Generator": "Chart Generator"})
    return b.compile()


def loop():
    b = graph("human", "agent")
    b.add_edge(START, "human")
    b.add_edge("human", "agent")
    b.add_edge("agent", "human")
    return b.compile()


def deferred():
    b = graph("rewrite", "retriever_one", "retriever_two", "analyzer_one")
    b.add_node("qa", nothing, defer=True)
    b.add_edge(START, "rewrite")
    b.add_edge("rewrite", "retriever_one")
    b.add_edge("rewrite", "retriever_two")
    b.add_edge("retriever_one", "analyzer_one")
    b.add_edge("retriever_one", "qa")
    b.add_edge("retriever_two", "qa")
    return b.compile()


def conditional_entry():
    inner = graph("slow", "fast")
    inner.set_conditional_entry_point(nothing, ["slow", "fast"])
    b = graph("tool_one", "tool_three")
    b.add_node("tool_two", inner.compile())
    b.set_conditional_entry_point(nothing, ["tool_one", "tool_two", "tool_three", END])
    return b.compile()


def destinations(to):
    b = graph("b", "c")
    b.add_node("a", nothing, destinations=to)
    b.add_edge(START, "a")
    return b.compile()


DRAWN = {
    "DRW-02": child(),
    "DRW-03": labels(),
    "DRW-04": loop(),
    "DRW-05": deferred(),
    "DRW-06": conditional_entry(),
    "DRW-07-tuple": destinations(("b", "c")),
    "DRW-07-mapping": destinations({"b": "to b", "c": "to c"}),
}

LINE = re.compile(r"(\S+) (-->|-\.->|-\. &nbsp;(.*)&nbsp; \.->) (\S+);")
NODE = re.compile(r"([\w\\]+)\(.*\)(:::\w+)?")


def plain(name):
    return re.sub(r"\\([0-9a-f]{2})", lambda m: chr(int(m[1], 16)), name)


def said(mermaid):
    out = {"nodes": [], "lines": [], "frames": {}}
    frame = None
    for text in map(str.strip, mermaid.splitlines()):
        if line := LINE.fullmatch(text):
            out["lines"].append({"from": plain(line[1]), "to": plain(line[4]), "dotted": line[2] != "-->", "label": line[3] or ""})
        elif node := NODE.fullmatch(text):
            out["nodes"].append(plain(node[1]))
            if frame:
                out["frames"].setdefault(frame, []).append(plain(node[1]))
        elif text.startswith("subgraph "):
            frame = plain(text.removeprefix("subgraph "))
        elif text == "end":
            frame = None
    out["nodes"].sort()
    out["lines"].sort(key=lambda l: (l["from"], l["to"]))
    for inside in out["frames"].values():
        inside.sort()
    return out


def main():
    folder = pathlib.Path(sys.argv[1])
    folder.mkdir(exist_ok=True)
    for row, drawn in DRAWN.items():
        picture = said(drawn.get_graph(xray=True).draw_mermaid())
        (folder / f"{row}.json").write_text(json.dumps(picture, indent=1, sort_keys=True) + "\n")


if __name__ == "__main__":
    main()
