package suite

// seed003: the checkpoint did not undo the transfer.
func seed003() []scenario {
	return []scenario{
		{id: "S003-1", run: stopAfterCommit},
		{id: "S003-2", waits: "effects, approvals"},
		{id: "S003-3", waits: "effects, approvals, audit"},
		{id: "S003-4", waits: "effects, approvals"},
		{id: "S003-5", waits: "effects, gateway, audit"},
		{id: "S003-6", waits: "effects, approvals"},
		{id: "S003-7", waits: "effects"},
		{id: "S003-8", waits: "effects, approvals"},
		{id: "S003-9", waits: "gateway"},
		{id: "S003-10", waits: "gateway"},
		{id: "S003-11", run: notByPosition},
		{id: "S003-12", waits: "effects, graph check, worker"},
		{id: "S003-13", waits: "effects, approvals, gateway, reconciliation"},
		{id: "S003-14", waits: "effects"},
		{id: "S003-15", run: everyDeath},
		{id: "S003-16", waits: "effects, approvals, audit"},
		{id: "S003-17", waits: "effects, approvals"},
		{id: "S003-18", waits: "effects"},
		{id: "S003-19", run: words},
	}
}
