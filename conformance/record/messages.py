"""Folds updates of a message list with LangGraph's add_messages and writes what comes of them into the file that is named.
An update is a list of messages {"id", "text"}, of {"remove": id} and of {"all": true}, which takes out all before it."""

import json
import pathlib
import sys

from langchain_core.messages import HumanMessage, RemoveMessage
from langgraph.graph.message import REMOVE_ALL_MESSAGES, add_messages


def said(id, text):
    return {"id": id, "text": text}


def gone(id):
    return {"remove": id}


ALL = {"all": True}

CASES = {
    "append": [[said("1", "a")], [said("2", "b"), said("3", "c")]],
    "replace by id": [[said("1", "a"), said("2", "b")], [said("1", "A")]],
    "replace and append": [[said("1", "a"), said("2", "b")], [said("2", "B"), said("3", "c")]],
    "remove": [[said("1", "a"), said("2", "b")], [gone("1")]],
    "remove and append": [[said("1", "a"), said("2", "b")], [gone("1"), said("3", "c")]],
    "remove twice": [[said("1", "a"), said("2", "b")], [gone("1"), gone("1")]],
    "remove again later": [[said("1", "a"), said("2", "b")], [gone("1")], [gone("1")]],
    "remove unknown": [[said("1", "a")], [gone("9")]],
    "remove what the same update adds": [[said("1", "a")], [said("2", "b"), gone("2")]],
    "add again what was removed": [[said("1", "a"), said("2", "b")], [gone("1")], [said("1", "A")]],
    "remove all": [[said("1", "a"), said("2", "b")], [ALL]],
    "remove all before": [[said("1", "a")], [said("2", "b"), ALL, said("3", "c")]],
    "remove all after": [[said("1", "a")], [said("2", "b"), ALL]],
    "remove all of nothing": [[], [ALL, said("1", "a")]],
    "duplicates": [[], [said("1", "a"), said("2", "b"), said("1", "A")]],
}


def message(m):
    if "all" in m:
        return RemoveMessage(id=REMOVE_ALL_MESSAGES)
    return RemoveMessage(id=m["remove"]) if "remove" in m else HumanMessage(m["text"], id=m["id"])


def folded(updates):
    out = []
    try:
        for update in updates:
            out = add_messages(out, [message(m) for m in update])
    except ValueError:
        return {"refused": True}
    return {"messages": [said(m.id, m.content) for m in out]}


def main():
    out = [{"name": name, "updates": updates} | folded(updates) for name, updates in CASES.items()]
    pathlib.Path(sys.argv[1]).write_text(json.dumps(out, indent=1, sort_keys=True) + "\n")


if __name__ == "__main__":
    main()
