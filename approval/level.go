package approval

import (
	"fmt"
	"slices"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/internal/tally"
)

// Level is who decides, and how long they have.
type Level struct {
	To string // a group, or the id of an actor; empty: whoever may call the desk

	// For is how long a request has before the next level is asked too; of the last level, before it expires. 0: for ever,
	// which only the last one may have.
	For time.Duration

	// Valid is how long a grant of this level may wait for its use; 0: as long as For.
	Valid time.Duration

	// Self lets whoever started the run approve what it asks for. Without it they are refused, as far as the engine knows
	// who that is: a program that runs without pawl.WithActor names nobody, and then nobody is kept out.
	Self bool

	// Rate bounds how much one actor grants. The zero Rate does not.
	Rate Rate
}

// Rate is at most N grants of one actor within Per, of all requests of the tenant together; what one grants counts up to a
// sixtieth of Per longer than Per. Saying no is never refused.
type Rate struct {
	N   int64
	Per time.Duration
}

// Levels are asked one after the other. A level that is reached joins those before it, who may still decide: escalation
// finds more people and takes nobody's right away. When the last level's time is over, the answer is no.
//
// Which levels are reached follows from the request's row and the database's clock. Nothing has to be awake for it.
type Levels []Level

// Check refuses what cannot be meant, naming the level.
func (l Levels) Check() error {
	if len(l) == 0 {
		return fmt.Errorf("approval: no level, so nobody could approve; name one, such as {To: %q}", "finance")
	}
	for i, level := range l {
		switch {
		case level.For < 0:
			return fmt.Errorf("approval: level %q has %s to decide; give it a time, or 0 for no limit", level.To, level.For)
		case level.For == 0 && i < len(l)-1:
			return fmt.Errorf("approval: level %q has no limit, so level %q would never be asked; give it a time", level.To, l[i+1].To)
		case level.Valid < 0:
			return fmt.Errorf("approval: a grant of level %q would be valid for %s; give it a time, or 0 for as long as it has to decide", level.To, level.Valid)
		}
		if level.Rate == (Rate{}) {
			continue
		}
		if err := level.Rate.limit().Fault(); err != nil {
			return fmt.Errorf("approval: the rate of level %q: %w", level.To, err)
		}
	}
	return nil
}

// due is when a request of that time expires; zero: never.
func (l Levels) due(requested time.Time) time.Time {
	if l[len(l)-1].For == 0 {
		return time.Time{}
	}
	return l.reached(requested, len(l))
}

// reached is when a level, counted from 0, is asked.
func (l Levels) reached(requested time.Time, level int) time.Time {
	for _, before := range l[:level] {
		requested = requested.Add(before.For)
	}
	return requested
}

// at is the newest level, counted from 0, that is asked at an instant.
func (l Levels) at(requested, now time.Time) int {
	n := 0
	for n < len(l)-1 && !now.Before(l.reached(requested, n+1)) {
		n++
	}
	return n
}

// Life is how long a request, and then a grant of it, may be there at most; false: for ever. No levels live no time.
func (l Levels) Life() (life time.Duration, ends bool) {
	var asked, granted time.Duration
	for _, level := range l {
		asked, granted = asked+level.For, max(granted, level.valid())
		if level.valid() == 0 || level.For == 0 {
			return 0, false
		}
	}
	return asked + granted, asked+granted >= asked
}

// names says whether a level is for an actor.
func (l Level) names(a pawl.Actor) bool {
	return l.To == "" || l.To == a.ID || slices.Contains(a.Groups, l.To)
}

// valid is how long a grant may wait for its use; 0: for ever.
func (l Level) valid() time.Duration {
	if l.Valid > 0 {
		return l.Valid
	}
	return l.For
}

func (r Rate) limit() tally.Limit { return tally.Limit{Max: r.N, Per: r.Per} }

// entitled finds the level by which an actor may decide, or says why none does.
func (r *Request) entitled(now time.Time, to State, actor pawl.Actor) (Level, string) {
	switch {
	case actor.ID == "":
		return Level{}, "nobody is named as the one who decides; use pawl.WithActor"
	case actor.Kind == "service":
		return Level{}, "services decide nothing"
	case to == Granted && (actor.ID == r.Editor || slices.Contains(r.Editors, actor.ID)):
		return Level{}, "they changed the call themselves, and somebody else must approve what they made of it"
	}
	why := "this is neither their id nor one of their groups"
	newest := r.Levels.at(r.Requested, now)
	for i, level := range r.Levels {
		switch {
		case !level.names(actor):
		case i > newest:
			return Level{}, fmt.Sprintf("level %d, for %q, is not reached; it is asked from %s on", i+1, level.To, stamp(r.Levels.reached(r.Requested, i)))
		case to == Granted && !level.Self && slices.Contains(r.Starters, actor.ID):
			why = "they started the run, and its level does not let them approve it themselves"
		default:
			return level, ""
		}
	}
	return Level{}, why
}

func stamp(t time.Time) string { return t.UTC().Format(time.RFC3339) }
