package suite

import "slices"

// Reasons that many rows share.
const (
	compiled = "the compiler refuses it, or Go has no such thing to return"
	noParent = "PARENT commands: a child chooses a node of its parent by its result"
	lowLevel = "the low-level graph of channels is not public"
	noSaver  = "no saver interface: drivers pass storagetest, threads are read by their own verbs"
	noConfig = "a configuration that is passed along and merged: options of one call, and the context"
	jsonOnly = "values are JSON of declared types: nothing is revived by a stored type name"
	deltas   = "a frequency of snapshots: a version is written whole once rebuilding it would cost more"
)

func behaviours() []scenario {
	return slices.Concat(buildRows(), flowRows(), saveRows(), failRows(), stopRows(), givenRows(), parentRows(), storedRows(), strictRows(), askRows(), stateRows(), childRows(), streamRows(), restRows(), cacheRows(), privateRows())
}

func foreign(why string, ids ...string) (out []scenario) {
	for _, id := range ids {
		out = append(out, scenario{id: id, foreign: why})
	}
	return out
}

// recordedRows are proved by scenarios alone.
func recordedRows(ids ...string) (out []scenario) {
	for _, id := range ids {
		out = append(out, scenario{id: id})
	}
	return out
}

// strictRows are proved by scenarios alone, and ask for more than LangGraph does.
func strictRows() (out []scenario) {
	for _, id := range []string{"EDG-15", "LIM-09", "INT-41", "INT-42"} {
		out = append(out, scenario{id: id, strict: true})
	}
	return out
}

func buildRows() []scenario {
	return slices.Concat(
		recordedRows("BLD-01", "BLD-02", "BLD-04", "BLD-05", "BLD-06", "BLD-08", "BLD-09", "BLD-10", "BLD-16", "BLD-17"),
		[]scenario{{id: "BLD-11", run: rowOneFunctionTwice}, {id: "BLD-15", run: rowPaths}, {id: "BLD-20", run: rowTwoRules}, {id: "BLD-25", run: each(rowBuilderAfterwards)}},
		foreign(compiled, "BLD-03", "BLD-12", "BLD-18", "BLD-24", "BLD-27", "BLD-30"), foreign(lowLevel, "BLD-29"))
}

func flowRows() []scenario {
	return slices.Concat(
		recordedRows("RET-01", "RET-02", "RET-03", "RET-04", "RET-08", "RET-10", "RET-13", "RET-14", "RET-15", "RET-16", "RET-17",
			"RET-20", "RET-21"),
		[]scenario{
			{id: "RET-18", run: each(rowNoDestination)},
			{id: "RET-22", run: rowEdgeToWorker, differs: "a worker takes payloads and a node none: an edge to a worker is refused"},
			{id: "RET-23", run: each(undeclaredTarget, unknownTarget), strict: true},
			{id: "RET-24", run: each(undeclaredTarget, unknownTarget), strict: true},
		},
		foreign(compiled, "RET-06", "RET-07"),
		recordedRows("EDG-01", "EDG-03", "EDG-04", "EDG-05", "EDG-06", "EDG-07", "EDG-08", "EDG-10", "EDG-12"),
		[]scenario{{id: "EDG-13", run: each(rowSideBySide)}, {id: "EDG-14", run: each(rowTenThreads)}}, foreign(lowLevel, "EDG-11"),
		recordedRows("CHN-07", "CHN-09"),
		[]scenario{{id: "CHN-17", run: all(branchesDoNotMix)}},
		foreign(lowLevel, "CHN-02", "CHN-10"), liveRows(),
		[]scenario{
			{id: "CHN-13", run: each(rowScalar)},
			{id: "CHN-18", run: each(rowRemovedStays)}, {id: "CHN-28", run: each(rowRemovedStays)},
		},
		[]scenario{
			{id: "CHN-14", run: each(rowRebuilt)}, {id: "CHN-16", run: each(rowRebuilt)},
			{id: "CHN-19", run: each(rowExit("turn 1")), differs: "one checkpoint, which leads to what it needs: no stub before it"},
			{id: "CHN-20", run: each(rowExit(""))}, {id: "CHN-23", run: each(rowModesInTurn)}, {id: "CHN-25", run: each(rowBecomesDeltas)},
			{id: "CHN-26", run: each(rowEditsAppend)},
		},
		foreign(deltas, "CHN-21", "CHN-27", "CHN-30"), foreign("tasks made up for what a run in exit mode wrote", "CHN-24"),
		recordedRows("LIM-01", "LIM-03"),
		[]scenario{
			{id: "LIM-02", run: each(rowHundred)},
			{id: "LIM-04", run: each(rowZeroLimit)},
			{id: "LIM-07", run: each(rowTaskIDs)}, {id: "LIM-08", run: each(rowNewThread)},
		})
}

func saveRows() []scenario {
	return slices.Concat(
		[]scenario{{id: "CKP-01", run: each(rowTasksOfAFailure)}, {id: "CKP-06", run: each(rowTasksOfAFailure)}},
		recordedRows("CKP-02", "CKP-03", "CKP-05", "CKP-07", "CKP-08", "CKP-10", "CKP-12", "CKP-17", "CKP-19", "CKP-20", "CKP-21"),
		[]scenario{
			{id: "CKP-09", run: each(rowPages)}, {id: "CKP-14", run: each(rowClosedHome)}, {id: "CKP-15", run: each(rowNoThread)},
			{id: "CKP-22", run: each(rowFuncSavedAtItsEnd), differs: "a function stands behind Start: its steps are one further"},
			{id: "CKP-23", run: all(killedBetweenResultAndCheckpoint), strict: true}, {id: "CKP-24", run: all(whatACrashLoses),
				differs: "an accepted run is on disk in every mode; of its checkpoints a crash leaves as many, or fewer where fewer were promised"},
		},
		foreign(noConfig, "CKP-13"), foreign(compiled, "CKP-16"))
}

func failRows() []scenario {
	return slices.Concat(
		recordedRows("FLT-01", "FLT-04", "FLT-19", "FLT-21", "FLT-22", "FLT-24", "FLT-25", "FLT-31"),
		[]scenario{
			{id: "FLT-02", run: rowJitter}, {id: "FLT-03", run: rowPolicies}, {id: "FLT-15", run: each(rowPayloadTimeout)}, {id: "FLT-29", run: each(rowSuperStepTimeout)},
			{id: "FLT-05", run: each(rowRetryTable)},
			{id: "FLT-07", run: each(rowTaskInfo)}, {id: "FLT-08", run: each(rowTimeout)}, {id: "FLT-12", run: each(rowTimeout)},
			{id: "FLT-14", run: each(rowOwnTimeout)}, {id: "FLT-16", run: each(rowTimeoutOfAFunction)}, {id: "FLT-17", run: each(rowOwnCancel)}, {id: "FLT-18", run: each(rowCallerLeaves)},
			{id: "FLT-32", run: each(routeFails), strict: true},
		})
}

func askRows() []scenario {
	return slices.Concat(
		recordedRows("INT-01", "INT-04", "INT-05", "INT-07", "INT-08", "INT-10", "INT-11", "INT-12", "INT-13", "INT-17", "INT-18",
			"INT-20", "INT-21", "INT-22", "INT-24", "INT-26", "INT-27", "INT-31", "INT-32", "INT-34"),
		[]scenario{
			{id: "INT-03", run: all(noStorageNoQuestion)}, {id: "INT-38", run: each(unknownNames), strict: true},
			{id: "INT-19", run: each(rowGiveUp)},
			{id: "INT-36", run: each(rowTold)},
			{id: "INT-39", run: each(answersThatLookLikeMaps), strict: true}, {id: "INT-40", run: each(bareValueInsideChild), strict: true},
			{id: "INT-43", run: each(nullIsAnAnswer), strict: true},
		},
		foreign("an answer and a write are two verbs: Resume and Edit", "INT-06"), foreign("XXH3 ids: questions have ids of their own", "INT-35"))
}

func stateRows() []scenario {
	return slices.Concat(
		recordedRows("STA-03", "STA-04", "STA-05", "STA-20", "STA-22", "STA-23", "STA-24", "STA-25", "STA-26", "STA-27", "STA-29",
			"STA-30", "STA-31", "STA-32", "STA-33", "STA-34"),
		[]scenario{
			{id: "STA-01", run: each(rowNewThread)}, {id: "STA-02", run: rowNoStorage}, {id: "STA-08", run: each(rowEditRemoves)},
			{id: "STA-19", run: each(rowNoSuchPoint)}, {id: "STA-37", run: each(goingBackAsksAgain), strict: true},
		},
		[]scenario{
			{id: "STA-06", run: each(rowEditAsNobody)}, {id: "STA-09", run: each(rowEditAsSteps)},
			{id: "STA-10", run: each(rowEditAsRefuses)},
			{id: "STA-11", run: each(rowEditAsRuns)}, {id: "STA-12", run: each(rowEditAsSends)},
			{id: "STA-13", run: each(rowEditAsTasks)},
			{id: "STA-15", run: each(rowCopyStart)}, {id: "STA-16", run: each(rowCopyOne)},
			{id: "STA-17", run: each(rowCopyTwo)}, {id: "STA-18", run: each(rowCopyAgain)},
		})
}

func childRows() []scenario {
	return slices.Concat(
		recordedRows("SUB-01", "SUB-02", "SUB-03", "SUB-04", "SUB-06", "SUB-07", "SUB-10", "SUB-21", "SUB-22", "SUB-23", "SUB-24",
			"SUB-25", "SUB-27", "SUB-28", "SUB-29", "SUB-30", "SUB-31", "SUB-32"),
		[]scenario{
			{id: "SUB-17", run: all(childPaused)},
			{id: "SUB-20", run: each(rowNoSuchChild)}, {id: "SUB-35", run: each(rowPlace)},
		},
		foreign("memory is a mode of a child: a root has its thread", "SUB-08"))
}

func streamRows() []scenario {
	return slices.Concat(
		[]scenario{
			{id: "STR-02", run: each(rowChildEvents)}, {id: "STR-07", run: each(rowTaskEvents)}, {id: "STR-09", run: each(rowFuncTold)},
			{id: "STR-10", run: each(rowTaskEvents)},
			{id: "STR-11", run: each(rowChildEvents)},
		},
		[]scenario{
			{id: "STR-01", run: each(rowRootValues)}, {id: "STR-03", run: each(rowStablePath)}, {id: "STR-04", run: each(rowModes)},
			{id: "STR-06", run: each(rowCustom)}, {id: "STR-08", run: each(rowDebug)}, {id: "STR-13", run: each(rowMessagesOnce)},
			{id: "STR-14", run: each(rowMessagesOnce)}, {id: "STR-15", run: each(rowMessageMeta)}, {id: "STR-20", run: rowSlow},
			{id: "STR-23", run: each(rowInterrupts)}, {id: "INT-14", run: each(rowAroundAPause)}, {id: "INT-15", run: each(rowEmptyInput)},
		},
		foreign(lowLevel, "STR-16"), foreign(noConfig, "STR-22"))
}

func restRows() []scenario {
	return slices.Concat(
		[]scenario{
			{id: "FUN-01", run: each(rowMappedThenAsks)}, {id: "FUN-03", run: each(rowAsksInSteps)}, {id: "FUN-04", run: each(rowAsksInSteps)},
			{id: "FUN-05", run: each(rowStepsAndQuestions(2, true, []string{"answer1", "answer2"}, []string{"answer1", "answer2"}))},
			{id: "FUN-06", run: each(rowStepsAndQuestions(3, false, []string{"a", "b", "c"}, []string{"2", "a", "4", "b", "6", "c"}))},
			{id: "FUN-10", run: each(rowCaughtError)}, {id: "FUN-11", run: each(rowPrevious)}, {id: "FUN-12", run: each(rowFinal)},
			{id: "FUN-13", run: rowNothingBefore}, {id: "FUN-14", run: each(rowEditedBefore)}, {id: "FUN-19", run: each(rowFuncInside)},
		},
		foreign(compiled, "FUN-15", "FUN-21"),
		[]scenario{
			{id: "FUN-22", run: all(notByPosition), strict: true},
			{id: "FUN-20", run: each(rowDrainedFunction)}, {id: "RUN-03", run: each(rowDrained)}, {id: "RUN-04", run: each(rowDrainedExit)},
			{id: "RUN-05", run: each(rowDrainedLast)}, {id: "RUN-06", run: each(rowDrainedBefore)}, {id: "RUN-07", run: each(rowDrainedChild)},
			{id: "RUN-12", run: each(rowTenAtOnce)}, {id: "RUN-13", run: rowNamespaces}, {id: "RUN-14", run: rowFilters}, {id: "RUN-16", run: rowBatch},
		},
		[]scenario{
			{id: "RUN-09", run: each(rowOneItem)}, {id: "RUN-17", run: each(rowByMeaning)},
			{id: "RUN-18", run: each(rowItemsEnd)},
		},
		foreign(noConfig, "RUN-11"),
		[]scenario{
			{id: "SAV-28..37", run: each(rowSnapshots)}, {id: "SAV-38..53", run: each(rowPages)}, {id: "SAV-54..58", run: each(rowDeleteOne)},
			{id: "SAV-66..73", run: each(rowCopy)}, {id: "SAV-74..81", run: each(rowPrune)},
		},
		foreign(noSaver, "SAV-59..65", "SAV-82..89", "SAV-90"),
		foreign(jsonOnly, "SER-04"), []scenario{{id: "SER-06", run: each(rowEncrypted)}},
		[]scenario{
			{id: "PRE-01", run: rowMessages}, {id: "PRE-02", run: each(rowPushed)}, {id: "PRE-03", run: each(rowUnknownTool)}, {id: "PRE-04", run: each(rowToolErrors)},
			{id: "PRE-05", run: each(rowWhoIsTold)}, {id: "PRE-06", run: each(rowToolAsks)}, {id: "PRE-10", run: rowInjected},
			{id: "PRE-11", run: each(rowLoopEnds)},
			{id: "PRE-12", run: each(rowEditedCall)},
			{id: "PRE-13", run: each(rowReviewed)},
		},
		foreign(noParent, "PRE-08"), foreign("a tool returns one result: the type has no room for two, or for none", "PRE-09"),
		drawRows())
}
