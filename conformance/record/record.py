"""Runs scenarios on LangGraph and prints their traces: one JSON line {"id", "trace", "shown"} for each line of standard
input. shown is what a client sees that streams each act."""

import json
import operator
import sys
import tempfile
import time
from typing import Annotated, TypedDict

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, AIMessageChunk
from langchain_core.outputs import ChatGeneration, ChatGenerationChunk, ChatResult
from langgraph.cache.memory import InMemoryCache
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.config import get_stream_writer
from langgraph.errors import GraphRecursionError, InvalidUpdateError, NodeError
from langgraph.graph import END, START, StateGraph
from langgraph.types import CachePolicy, Command, Overwrite, RetryPolicy, Send, interrupt

from shown import CHANNELS, Shown, plain, together


class State(TypedDict, total=False):
    log: Annotated[list[str], operator.add]
    n: Annotated[int, operator.add]
    x: str
    y: str
    messages: Annotated[list, operator.add]


class Speaker(BaseChatModel):
    """Says what it is told to, in tokens."""

    id_of: str
    tokens: list[str]

    @property
    def _llm_type(self):
        return "speaker"

    def _stream(self, messages, stop=None, run_manager=None, **_):
        for token in self.tokens:
            yield ChatGenerationChunk(message=AIMessageChunk(token, id=self.id_of))

    def _generate(self, messages, stop=None, run_manager=None, **_):
        return ChatResult(generations=[ChatGeneration(message=AIMessage("".join(self.tokens), id=self.id_of))])


def spoken(speech, arg):
    id = speech["id"] + within(arg)
    if "tokens" in speech:
        said = Speaker(id_of=id, tokens=speech["tokens"]).invoke("go on")
        return AIMessage(said.content, id=id)
    return AIMessage(speech["text"], id=id)


def within(arg):
    return f"({arg})" if arg else ""


class Scripted(Exception):
    pass


def always(_error):
    return True


TYPES = {"log": list[str], "n": int, "x": str, "y": str}


def schema_of(name, channels):
    """Some of the state's channels, without their reducers; none named: nothing."""
    return TypedDict(name, {c: TYPES[c] for c in channels}, total=False) if channels else None


MEMORY = {"inherit": None, "thread": True, "none": False}


def caller_of(spec, entries, prefix):
    child = spec["child"]
    inner = build(child, entries, MEMORY[child.get("memory") or "inherit"], prefix + spec["name"] + "/")

    def run(state):
        out = inner.invoke({"x": state["arg"] if "arg" in state else state.get("x", "")})
        return {"log": [f"{spec['name']}={'+'.join(out.get('log', []))}"]}

    return run


def performed(spec, lines, counted, entries, state, error=None):
    """Does lines of a node, and returns what it comes to."""
    name, arg = spec["name"], state.get("arg", "")
    counted["n"][arg] = counted["n"].get(arg, 0) + 1
    entry = counted["n"][arg]
    entries[counted["as"]] = entries.get(counted["as"], 0) + 1
    writes, goto = [], []
    for line in lines:
        if line.get("only", arg) != arg or entry > line.get("first", entry):
            continue
        if "write" in line:
            writes.extend(line["write"].items())
        elif "note" in line:
            seen = state.get(line["note"], "")
            if line["note"] == "error":
                seen = f"{error.node} {text_of(error.error)}"
            if isinstance(seen, list):
                seen = "+".join(getattr(item, "content", item) for item in seen)
            writes.append(("log", [f"{name}:{line['note']}={seen}"]))
        elif "replace" in line:
            writes.append(("log", Overwrite(line["replace"])))
        elif "ask" in line:
            asked = line["ask"]
            if "of" in line:
                asked += f":{state.get(line['of'], '')}"
            writes.append(("log", [f"{asked}={interrupt(asked)}"]))
        elif "tell" in line:
            get_stream_writer()(f"{name}{within(arg)}: {line['tell']}")
        elif "speak" in line:
            writes.append(("messages", [spoken(line["speak"], arg)]))
        elif "goto" in line:
            goto += way_of(line["goto"])
        elif "fail" in line and 0 < entry - line["fail"].get("after", 0) <= line["fail"]["first"]:
            time.sleep(0.03)  # siblings end first: what LangGraph stores of them otherwise depends on the scheduler
            raise Scripted(line["fail"]["with"])
    if any(channel == "messages" for channel, _ in writes):  # LangGraph looks for messages in a dict only
        writes = together([{channel: value} for channel, value in writes])
    return Command(update=writes, goto=goto)


def text_of(error):
    """The words of an error; one that was stored comes back as its representation."""
    text = str(error)
    return text[len("Scripted('") : -len("')")] if text.startswith("Scripted('") else text


def node_of(spec, entries, prefix):
    if spec.get("child"):
        return caller_of(spec, entries, prefix)
    counted = {"as": prefix + spec["name"], "n": {}}

    def run(state):
        return performed(spec, spec.get("do") or [], counted, entries, state)

    return run


def handler_of(spec, entries, prefix):
    counted = {"as": prefix + spec["name"] + "!", "n": {}}

    def handle(state: State, error: NodeError):
        return performed(spec, spec["handle"], counted, entries, state, error)

    return handle


def way_of(way):
    out = [END if to == "__end__" else to for to in way.get("to") or []]
    return out + [Send(s["to"], {"arg": s["arg"]}) for s in way.get("send") or []]


def chooser_of(route):
    def choose(state):
        for way in route["ways"]:
            if way.get("below", 0) and not state.get("n", 0) < way["below"]:
                continue
            return way_of(way)
        return []

    choose.__name__ = route["name"]
    return choose


def build(scenario, entries, saver, prefix=""):
    graph = StateGraph(
        State, input_schema=schema_of("In", scenario.get("inputs")), output_schema=schema_of("Out", scenario.get("outputs"))
    )
    for spec in scenario["nodes"]:
        if spec["name"] == START:
            continue
        options = {}
        if spec.get("tries", 0) > 1:
            options["retry_policy"] = RetryPolicy(
                max_attempts=spec["tries"], initial_interval=0.0, max_interval=0.0, jitter=False, retry_on=always
            )
        if spec.get("defer"):
            options["defer"] = True
        if spec.get("cache"):
            options["cache_policy"] = CachePolicy()
        if spec.get("handle"):
            options["error_handler"] = handler_of(spec, entries, prefix)
        graph.add_node(spec["name"], node_of(spec, entries, prefix), **options)
    for source, target in scenario["edges"]:
        graph.add_edge(source, target)
    for join in scenario.get("joins") or []:
        graph.add_edge(join["from"], join["to"])
    for spec in scenario["nodes"]:
        for route in spec.get("routes") or []:
            targets = []
            for way in route["ways"]:
                targets += (way.get("to") or []) + [s["to"] for s in way.get("send") or []]
            graph.add_conditional_edges(spec["name"], chooser_of(route), sorted(set(targets)))
    return graph.compile(
        checkpointer=saver, cache=InMemoryCache(), interrupt_before=stops_of(scenario, "before"), interrupt_after=stops_of(scenario, "after")
    )


def stops_of(scenario, where):
    nodes = scenario.get(where) or []
    return "*" if nodes == ["*"] else nodes


def values_of(values):
    out = {}
    for key in CHANNELS:
        if values.get(key) not in (None, [], 0):
            out[key] = [plain(m) for m in values[key]] if key == "messages" else values[key]
    return out


def find(app, thread, act):
    point = act.get("fork") or act.get("copy") or act
    if "in" in act:
        return find_inside(app, thread, act["in"], point.get("before", act.get("replay")))
    history = list(app.get_state_history(thread))
    if "from" in point:
        return history[-1 - point["from"]].config if point["from"] < len(history) else None
    for snapshot in history:
        if point.get("before", act.get("replay")) in snapshot.next:
            return snapshot.config
    return None


def find_inside(app, thread, child, before):
    """The newest checkpoint of a child, by the names of nodes on the way there, at which a node was due."""
    for name in child.split("|"):
        at = due(app, thread, name)
        task = at and next(t for t in at.tasks if t.name == name)
        if not task or not task.state:
            return None
        thread = task.state if isinstance(task.state, dict) else task.state.config
    at = due(app, thread, before)
    return at and at.config


def due(app, thread, node):
    for snapshot in app.get_state_history(thread):
        if any(task.name == node for task in snapshot.tasks):
            return snapshot
    return None


def resume_of(snapshot, answers):
    open_ = [i for task in snapshot.tasks for i in task.interrupts]
    return {i.id: answers[i.value] for i in open_ if i.value in answers}


def act_on(app, thread, act, last, durability, shown):
    """Does an act. False: there is nothing to be done it on."""

    def go(given, config):
        shown.take(app.stream(given, config, stream_mode=shown.MODES, subgraphs=True, durability=durability))

    if "run" in act:
        go(act["run"], thread)
        return True
    if "answer" in act:
        resume = resume_of(app.get_state(thread), act["answer"]) if last == "waiting" else {}
        if resume:
            go(Command(resume=resume), thread)
        return bool(resume)
    if "again" in act:
        if last == "failed":
            go(None, thread)
        return last == "failed"
    if "go_on" in act or "enter" in act:
        go(None, thread)
        return True
    if "delete" in act:
        app.checkpointer.delete_thread(thread["configurable"]["thread_id"])
        return True
    if "clear" in act:
        app.clear_cache()
        return True
    if "edit" in act:
        edit = act["edit"]
        app.update_state(thread, None if edit.get("as") == END else edit["write"], as_node=edit.get("as"))
        return True
    at = find(app, thread, act)
    if at and "fork" in act:
        at = app.update_state(at, act["fork"]["write"], as_node=act["fork"].get("as"))
    if at and "copy" in act:
        tasks = [(task["write"], task["as"]) for task in act["copy"].get("tasks") or []]
        at = app.update_state(at, tasks or None, as_node="__copy__")
    if at:
        go(None, at)
    return bool(at)


def seen_of(app, thread, act, last, durability, shown):
    seen = {"status": "done"}
    try:
        if last == "conflict" or not act_on(app, thread, act, last, durability, shown):
            return {"status": "skipped"}
    except Scripted:
        seen.update(status="failed", cause="error")
    except InvalidUpdateError:
        if "edit" in act:
            return {"status": "refused"}
        seen.update(status="failed", cause="conflict")
    except ValueError:
        return {"status": "refused"}
    except GraphRecursionError:
        seen.update(status="failed", cause="limit")
    if "delete" in act:
        return {"status": "deleted"}
    if "clear" in act:
        return {"status": "cleared"}
    if seen.get("cause") == "conflict":  # reading the latest state would raise it again
        return seen
    snapshot = app.get_state(thread)
    seen["values"] = values_of(snapshot.values)
    seen["next"] = sorted(snapshot.next)
    asks = sorted(i.value for task in snapshot.tasks if not task.result for i in task.interrupts)
    if seen["status"] == "done" and snapshot.next:
        seen["status"] = "waiting"
    if asks:
        seen["asks"] = asks
    return seen


def history_of(app, thread):
    snapshots = list(app.get_state_history(thread))
    places = {s.config["configurable"]["checkpoint_id"]: i for i, s in enumerate(snapshots)}
    out = []
    for i, s in enumerate(snapshots):
        parent = s.parent_config["configurable"]["checkpoint_id"] if s.parent_config else None
        source = s.metadata["source"]
        out.append(
            {
                "step": s.metadata["step"],
                "source": "edit" if source == "update" else source,
                "parent": places.get(parent, -1),
                # What of the head is still due is in the acts: here the savers do not agree.
                "next": sorted(s.next) if i else [],
                "values": values_of(s.values),
            }
        )
    return out


def trace_of(scenario, saver):
    entries = {}
    try:
        app = build(scenario, entries, saver)
    except ValueError:
        return {"refused": True, "acts": [], "history": [], "entries": {}}, []
    thread = {"configurable": {"thread_id": "t"}, "recursion_limit": scenario.get("limit") or 60}
    durability = scenario.get("durability") or "sync"
    acts, last, shown = [], "", Shown(scenario)
    for act in scenario["script"]:
        shown.act()
        acts.append(seen_of(app, thread, act, last, durability, shown))
        if acts[-1]["status"] not in ("skipped", "refused"):
            last = "conflict" if acts[-1].get("cause") == "conflict" else acts[-1]["status"]
    if scenario.get("outputs"):
        given = build(scenario, {}, InMemorySaver()).invoke(scenario["script"][0]["run"], thread)
        acts[0]["output"] = values_of(given)
    return {"acts": acts, "history": history_of(app, thread), "entries": entries}, shown.acts()


def main():
    for line in sys.stdin:
        scenario = json.loads(line)
        trace, shown = trace_of(scenario, InMemorySaver())
        with tempfile.TemporaryDirectory() as folder, SqliteSaver.from_conn_string(folder + "/lg.db") as saver:
            other, again = trace_of(scenario, saver)
        if trace != other or shown != again:
            where = [key for key in trace if trace[key] != other[key]] + ["shown"] * (shown != again)
            print(json.dumps({"id": scenario["id"], "error": f"the memory and SQLite savers differ in {where}"}))
        else:
            print(json.dumps({"id": scenario["id"], "trace": trace, "shown": shown}, sort_keys=True))
        sys.stdout.flush()


if __name__ == "__main__":
    main()
