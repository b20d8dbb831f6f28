package suite

// seed003: the checkpoint did not undo the transfer.
func seed003() []scenario {
	return []scenario{
		{id: "S003-1", run: stopAfterCommit},
		{id: "S003-2", run: replayBeforeDispatch},
		{id: "S003-3", run: forkOfTheFork},
		{id: "S003-4", run: fourWorkers},
		{id: "S003-5", run: changedParameter}, // without its line about the gateway
		{id: "S003-6", run: keyBeforeFirstByte},
		{id: "S003-7", run: intentNotThread},
		{id: "S003-8", run: secondPayment},
		{id: "S003-9", waits: "gateway"},
		{id: "S003-10", waits: "gateway"},
		{id: "S003-11", run: notByPosition, flat: "it has depths of its own"},
		{id: "S003-12", run: insertedEarlier}, // with Engine.Check in place of the command,
		{id: "S003-13", run: greenIsNoProof},
		{id: "S003-14", run: keysLiveLongEnough},
		{id: "S003-15", run: everyDeath},
		{id: "S003-16", run: madeOnPurpose},
		{id: "S003-17", run: notFraudControl},
		{id: "S003-18", run: nothingUndone},
		{id: "S003-19", run: words, flat: noGraph},
	}
}
