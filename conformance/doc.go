// Package conformance holds Pawl against LangGraph. A [Scenario] says as data what a graph is, what its nodes do and what
// is done with a thread of it; record/ runs it on LangGraph in Python, [Run] runs it on Pawl, and both leave a [Trace]:
// what callers saw, the history, and how often each node was started. The traces of LangGraph are committed, so that the
// comparison needs no Python. A scenario on which Pawl differs on purpose carries the reason, and a trace of its own.
package conformance
