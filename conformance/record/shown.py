"""What LangGraph's streams show, without what no two runs have in common.

For each act that is a list, by graph (the thread's own and each child's, by the names of nodes on the way) of what each mode
showed. Of one super-step the order is that in which tasks end, and nothing promises it: lines of one are sorted.
"""

import json


class Shown:
    MODES = ["values", "updates", "tasks", "checkpoints"]

    def __init__(self, scenario):
        self.reuses = {spec["name"] for spec in scenario["nodes"] if spec.get("cache")}
        self.asked = set()
        self.done = []

    def act(self):
        self.graphs = {}
        self.done.append(self.graphs)

    def take(self, chunks):
        for namespace, mode, data in chunks:
            graph = self.graphs.setdefault("|".join(namespace), {"values": [], "updates": [[]], "asks": [], "held": None})
            if mode == "values":
                states_of(graph, data)
            elif mode == "checkpoints" or mode == "tasks" and "triggers" in data:
                if graph["updates"][-1]:
                    graph["updates"].append([])
                if mode == "checkpoints" and graph["held"]:
                    graph["values"] += graph["held"]
                graph["held"] = [] if mode == "tasks" and not namespace else None
            elif mode == "updates":
                graph["updates"][-1] += self.updates(data)

    def updates(self, data):
        repeated = (data.get("__metadata__") or {}).get("cached")
        for node, wrote in data.items():
            if node == "__metadata__" or repeated and node not in self.reuses:
                continue  # at a resume LangGraph shows again what had ended before; Pawl's clients have it
            if node != "__interrupt__":
                node = node.removeprefix("__error_handler__")  # in Pawl a handler is its node's last word
                yield f"{node} {text_of(together(wrote))}"
                continue
            for question in wrote:
                if question.id not in self.asked:  # and what was asked before
                    self.asked.add(question.id)
                    yield f"? {question.value}"

    def acts(self):
        out = []
        for graphs in self.done:
            act = []
            for path, graph in graphs.items():
                names = "|".join(level.split(":")[0] for level in path.split("|"))
                if graph["asks"] and not path:
                    graph["values"].append(" ".join("? " + ask for ask in sorted(graph["asks"])))
                steps = [sorted(step) for step in graph["updates"] if step]
                if graph["values"] or steps:
                    act.append({"graph": names, "values": graph["values"], "updates": steps})
            out.append(sorted(act, key=text_of))
        return out


def text_of(doc):
    return json.dumps(doc, sort_keys=True, separators=(",", ":"), ensure_ascii=False)


def states_of(graph, values):
    """A pause is one line, of the thread's own graph. LangGraph shows it for each task that asks, in the child first. The
    state that it shows of a super-step that is not over is left out: Pawl's clients have that by the updates."""
    graph["asks"] += [question.value for question in values.get("__interrupt__") or []]
    if "__interrupt__" not in values:
        state = {key: values[key] for key in ("log", "n", "x", "y") if values.get(key) not in (None, [], 0)}
        lines = graph["values"] if graph["held"] is None else graph["held"]
        lines.append(text_of(state))


def together(wrote):
    """A task that writes to one channel several times shows each; Pawl's shows what they come to."""
    if wrote is None:
        return None
    out = {}
    for writes in wrote if isinstance(wrote, list) else [wrote]:
        for channel, value in (writes or {}).items():
            whole = hasattr(value, "value")
            value = {"__overwrite__": value.value} if whole else value
            if channel in out and channel in ("log", "n") and not whole:
                before = out[channel]
                if isinstance(before, dict):
                    before["__overwrite__"] = before["__overwrite__"] + value
                else:
                    out[channel] = before + value
            else:
                out[channel] = value
    return out or None
