"""What LangGraph's streams show, without what no two runs have in common.

For each act that is a list, by graph (the thread's own and each child's, by the names of nodes on the way) of what each mode
showed. Of one super-step the order is that in which tasks end, and nothing promises it: lines of one are sorted.
"""

import json

from langchain_core.messages import AIMessageChunk, BaseMessage

CHANNELS = ("log", "n", "x", "y", "messages")
HANDLER = "__error_handler__"


class Graph:
    """What the modes showed of one run of a graph."""

    def __init__(self, path):
        self.path = path
        self.values, self.asks, self.held = [], [], None
        self.updates, self.tasks, self.debug = [[]], [[]], []
        self.custom, self.messages = [[]], [[]]
        self.checkpoints = []
        self.last = []  # what tasks or checkpoints showed, and debug has not: tasks that end at once are shown at once

    def step(self):
        """What follows is of another super-step."""
        for lines in (self.updates, self.tasks, self.custom, self.messages):
            if lines[-1]:
                lines.append([])

    def shown(self):
        if self.asks and not self.path:
            self.values.append(" ".join("? " + ask for ask in sorted(self.asks)))
        told = {"custom": by_teller(self.custom), "messages": by_teller(self.messages)}
        return {
            "graph": "|".join(level.split(":")[0] for level in self.path),
            "values": self.values,
            "updates": [sorted(step) for step in self.updates if step],
            "checkpoints": self.checkpoints,
            "tasks": [lines_of(step) for step in self.tasks if step],
            "debug": self.debug,
        } | {mode: lines for mode, lines in told.items() if lines}


def by_teller(steps):
    """Of one task, and of one message, the order counts."""
    return [sorted(step, key=lambda line: line.split(": ")[0]) for step in steps if step]


def lines_of(step):
    """Of tasks that fail in one super-step LangGraph shows some, and of siblings that they stop as much as they got to."""
    over = {id for kind, id, name, line in step if kind in "<?"}
    failed = {id for kind, id, name, line in step if kind == "!"}
    others = sorted({(id, name) for kind, id, name, line in step if failed and id not in over})
    if len(others) > 1:
        step = [task for task in step if task[0] != "!"] + [("!", "", "", "! " + " ".join(sorted(name for _, name in others)))]
    return sorted(line for _, _, _, line in step)


class Shown:
    MODES = ["values", "updates", "tasks", "checkpoints", "debug", "custom", "messages"]

    def __init__(self, scenario):
        self.reuses = {spec["name"] for spec in scenario["nodes"] if spec.get("cache")}
        self.handled = {spec["name"] for spec in nodes_of(scenario) if spec.get("handle")}
        self.asked, self.over = set(), set()
        self.places, self.exit = {}, scenario.get("durability") == "exit"
        self.done = []

    def act(self):
        self.graphs = {}
        self.done.append(self.graphs)

    def take(self, chunks):
        for namespace, mode, data in chunks:
            graph = self.graphs.setdefault(namespace, Graph(namespace))
            getattr(self, mode)(graph, data)

    def values(self, graph, values):
        """A pause is one line, of the thread's own graph. LangGraph shows it for each task that asks, in the child first.
        The state that it shows of a super-step that is not over is left out: Pawl's clients have that by the updates."""
        graph.asks += [question.value for question in values.get("__interrupt__") or []]
        if "__interrupt__" not in values:
            lines = graph.values if graph.held is None else graph.held
            lines.append(state_of(values))

    def updates(self, graph, data):
        repeated = (data.get("__metadata__") or {}).get("cached")
        for node, wrote in data.items():
            if node == "__metadata__" or repeated and node not in self.reuses:
                continue  # at a resume LangGraph shows again what had ended before; Pawl's clients have it
            if node != "__interrupt__":
                node = node.removeprefix(HANDLER)  # in Pawl a handler is its node's last word
                graph.updates[-1].append(f"{node}{' again' * bool(repeated)} {text_of(together(wrote))}")
                continue
            for question in wrote:
                if question.id not in self.asked:  # and what was asked before
                    self.asked.add(question.id)
                    graph.updates[-1].append(f"? {question.value}")

    def checkpoints(self, graph, data):
        graph.step()
        if graph.held:
            graph.values += graph.held
        graph.held = None
        places = self.places.setdefault(graph.path, {"": "-"})
        at, parent = id_of(data["config"]), id_of(data["parent_config"])
        place = places.setdefault(at, len(places))
        tasks = filter(None, map(self.standing, data["tasks"]))
        graph.checkpoints.append(
            f"#{place} of {'?' if self.exit else places.get(parent, '?')}: {data['metadata']['step']} {data['metadata']['source'].replace('update', 'edit')} "
            + " ".join([",".join(sorted(data["next"])) or "-", state_of(data["values"]), *sorted(tasks)])
        )
        graph.last.append((data, "checkpoint"))

    def standing(self, task):
        """How a task stands in a checkpoint that was loaded."""
        if task.get("error"):
            return f"! {task['name']} {failure(task['error'])}"
        if task.get("result"):
            return f"< {task['name']} {text_of(together(flat(task['result'])))}"
        return " ".join(["?", task["name"], *sorted(asked["value"] for asked in task["interrupts"])]) if task["interrupts"] else ""

    def tasks(self, graph, data):
        name, line = data["name"].removeprefix(HANDLER), ""
        if "triggers" in data:
            kind, given = ">", data["input"]
            if any(task[0] != ">" for task in graph.tasks[-1]):
                graph.step()
            if not graph.path and graph.held is None:
                graph.held = []
            if data["id"] not in self.over and name == data["name"]:  # at a resume LangGraph shows again what had ended
                line = f"{name} {text_of(given['arg']) if 'arg' in given else state_of(given)}"
        elif data["error"] is not None:
            kind = "!"
            if name not in self.handled or name != data["name"]:  # a handler has the last word
                line = f"{name} {failure(data['error'])}"
        elif data["interrupts"]:
            kind, line = "?", " ".join([name, *sorted(asked["value"] for asked in data["interrupts"])])
        else:
            kind, line = "<", f"{name} {text_of(together(flat(data['result'])))}"
            self.over.add(data["id"])
        graph.last.append((data, line and ("task" if kind == ">" else "task_result")))
        if line:
            graph.tasks[-1].append((kind, name if name in self.handled else data["id"], name, f"{kind} {line}"))

    def debug(self, graph, data):
        """It shows what tasks and checkpoints showed, with the step and the type: of each super-step those are kept."""
        at = next((i for i, (payload, _) in enumerate(graph.last) if payload == data["payload"]), None)
        assert at is not None, f"debug shows {data}, after {graph.last}"
        _, kind = graph.last.pop(at)
        assert kind in ("", data["type"]), f"debug shows {data} for {kind}"
        line = f"{data['step']} {kind}"
        if kind and line not in graph.debug[-2:]:
            graph.debug.append(line)

    def custom(self, graph, told):
        graph.custom[-1].append(told)

    def messages(self, graph, data):
        message, of = data
        token = isinstance(message, AIMessageChunk)
        if message.content or not token:  # the last token is empty
            line = f"{of['langgraph_step']} {of['langgraph_node']} {message.id}: {'+' if token else '='}{message.content}"
            graph.messages[-1].append(line)

    def acts(self):
        out = []
        for graphs in self.done:
            act = [graph.shown() for graph in graphs.values()]
            out.append(sorted((graph for graph in act if any(graph[key] for key in graph if key != "graph")), key=lambda graph: (graph["graph"], text_of(graph))))
        return out


def nodes_of(graph):
    for spec in graph["nodes"]:
        yield spec
        if spec.get("child"):
            yield from nodes_of(spec["child"])


def id_of(config):
    return config["configurable"].get("checkpoint_id", "") if config else ""


def text_of(doc):
    return json.dumps(doc, sort_keys=True, separators=(",", ":"), ensure_ascii=False, default=plain)


def plain(message):
    """A message as Pawl's scenarios write it."""
    assert isinstance(message, BaseMessage), message
    return {"id": message.id, "text": message.content}


def state_of(values):
    return text_of({key: values[key] for key in CHANNELS if values.get(key) not in (None, [], 0)})


def failure(error):
    """The words of an error; one that was stored comes back as its representation."""
    text = str(error)
    return text[len("Scripted('") : -len("')")] if text.startswith("Scripted('") else text


def flat(result):
    """What a task wrote, a write at a time."""
    return [{channel: one} for channel, value in result.items() for one in writes_of(value)]


def writes_of(value):
    return value["$writes"] if isinstance(value, dict) and "$writes" in value else [value]


def together(wrote):
    """A task that writes to one channel several times shows each; Pawl's shows what they come to."""
    if wrote is None:
        return None
    out = {}
    for writes in wrote if isinstance(wrote, list) else [wrote]:
        for channel, value in (writes or {}).items():
            whole = hasattr(value, "value")
            value = {"__overwrite__": value.value} if whole else value
            if channel in out and channel in ("log", "n", "messages") and not whole:
                before = out[channel]
                if isinstance(before, dict):
                    before["__overwrite__"] = before["__overwrite__"] + value
                else:
                    out[channel] = before + value
            else:
                out[channel] = value
    return out or None
