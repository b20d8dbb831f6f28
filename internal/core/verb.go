package core

// Verb is what somebody wants of a thread.
type Verb string

// The verbs.
const (
	VerbRun    Verb = "run"
	VerbResume Verb = "resume"
	VerbRetry  Verb = "retry"
	VerbFork   Verb = "fork"
	VerbReplay Verb = "replay"
	VerbEdit   Verb = "edit"
	VerbAnswer Verb = "answer"
	VerbCancel Verb = "cancel"
	VerbDelete Verb = "delete"
	VerbRead   Verb = "read"

	VerbMigrate Verb = "migrate" // onto another version of the graph, by a declared mapping, or back
	VerbForce   Verb = "force"   // onto another version of the graph, without one
	VerbDrain   Verb = "drain"   // no new runs under a version of a graph
	VerbPrune   Verb = "prune"   // old checkpoints
	VerbCopy    Verb = "copy"    // into another thread of the lineage
	VerbClear   Verb = "clear"   // kept results of a graph's nodes
)

// Judge is the law: what may be done with a thread in a status, and what to do instead. It is one table on purpose.
func Judge(verb Verb, status Status, cause Cause) (ok bool, advice string) {
	busy := status == StatusRunning || status == StatusPending
	switch {
	case verb == VerbRead || verb == VerbAnswer || verb == VerbCopy:
		return true, ""
	case verb == VerbCancel:
		return status != StatusDone && status != StatusCancelled && status != StatusNew, "there is nothing to cancel"
	case verb == VerbDelete:
		return !busy, "cancel it first"
	case busy:
		return false, "somebody runs it now; wait for it, or cancel it"
	case (verb == VerbRun || verb == VerbRetry) && status == StatusWaiting:
		if cause == CauseDrained {
			return false, "it was drained: resume it, or cancel it first"
		}
		return false, "answer its question and resume, or cancel it first"
	case verb == VerbRun && status == StatusCrashed, verb == VerbRetry && status == StatusCrashed:
		return false, "resume it"
	case verb == VerbRun:
		return true, ""
	case verb == VerbResume && status == StatusNew:
		return false, "there is nothing to resume, it was only edited: run it"
	case verb == VerbResume && status == StatusCancelled, verb == VerbResume && status == StatusFailed && cause == CauseConcluded:
		return false, "retry it"
	case verb == VerbResume:
		return true, ""
	case verb == VerbRetry:
		return status == StatusFailed || status == StatusCancelled, "it did not fail: run it with a new input"
	}
	return true, "" // fork, replay, edit, migrate, force, prune
}

// Legal lists the verbs that go on with a thread, or end it, in a status.
func Legal(status Status, cause Cause) []Verb {
	var out []Verb
	for _, v := range [...]Verb{VerbRun, VerbResume, VerbRetry, VerbFork, VerbReplay, VerbEdit, VerbCancel, VerbDelete} {
		if ok, _ := Judge(v, status, cause); ok {
			out = append(out, v)
		}
	}
	return out
}
