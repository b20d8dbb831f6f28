package cli

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/internal/house"
	"github.com/pawl-dev/pawl/storage"
)

// home is an open database as one tenant sees it.
type home struct {
	*house.House
	eng *pawl.Engine
}

// within opens the database, which must exist, for as long as use runs.
func (p *Program) within(ctx context.Context, use func(*home) error) error {
	st, err := os.Stat(p.db)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return &Error{Unreachable, fmt.Errorf("there is no database %s; nothing was made; name one with --db or PAWL_DB", p.db)}
	case err != nil:
		return &Error{Unreachable, fmt.Errorf("the database cannot be reached: %w", err)}
	case st.Mode().IsRegular() && st.Size() == 0:
		return &storage.OpenError{Where: p.db, Reason: storage.NotPawl, Detail: "the file is empty"}
	}
	return p.made(ctx, use)
}

// made is within for commands that may make the database.
func (p *Program) made(ctx context.Context, use func(*home) error) (err error) {
	h, err := house.Open(ctx, "sqlite:"+p.db, p.Graphs...)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, h.Close()) }()
	return use(&home{h, h.Engine.Tenant(p.tenant)})
}

// serves says whether this program has a graph's code.
func (p *Program) serves(graph string) bool { return slices.Contains(p.served(), graph) }

// needs refuses a verb that runs nodes where their code is not.
func (p *Program) needs(graph, verb string) error {
	if p.serves(graph) {
		return nil
	}
	have := "this program has none"
	if names := p.served(); len(names) > 0 {
		have = "this program has " + strings.Join(names, ", ") + meant(graph, names...)
	}
	return &Error{NotFound, fmt.Errorf("%s needs the code of graph %q (%s); nothing was done; use the graph's own program, made with app.Main",
		verb, graph, have)}
}

// thread finds a thread by its id, or by the start of it that no other has.
func (p *Program) thread(ctx context.Context, eng *pawl.Engine, id string) (*pawl.Thread, *pawl.ThreadState, error) {
	t := eng.Thread("", id)
	state, err := t.State(ctx)
	if err != nil {
		return t, state, err
	}
	if state.Status != pawl.StatusNew || state.Head != nil {
		return eng.Thread(state.Graph, id), state, nil
	}
	list, err := eng.Threads(ctx, id, 5) // ids that start with id follow it
	if err != nil {
		return nil, nil, err
	}
	var found []string
	for _, l := range list {
		if strings.HasPrefix(l.Thread, id) {
			found = append(found, l.Thread)
		}
	}
	switch len(found) {
	case 1:
		state, err = eng.Thread("", found[0]).State(ctx)
		if err != nil {
			return nil, nil, err
		}
		return eng.Thread(state.Graph, found[0]), state, nil
	case 0:
		return nil, nil, &pawl.NotFoundError{What: "thread", ID: id, Hint: p.Name + " threads list shows what there is" + nearThread(ctx, eng, id)}
	}
	return nil, nil, ambiguous("thread", id, found)
}

// nearThread guesses among the first thousand threads.
func nearThread(ctx context.Context, eng *pawl.Engine, id string) string {
	list, err := eng.Threads(ctx, "", 1000)
	if err != nil {
		return ""
	}
	ids := make([]string, len(list))
	for i, l := range list {
		ids[i] = l.Thread
	}
	return meant(id, ids...)
}

// question finds a question in any state by its id or the start of it.
func (p *Program) question(ctx context.Context, eng *pawl.Engine, id string) (*pawl.Question, error) {
	found, err := eng.FindQuestions(ctx, id, 5)
	if err != nil {
		return nil, err
	}
	switch {
	case len(found) == 1 && id != "":
		return &found[0], nil
	case len(found) == 0 || id == "":
		return nil, &pawl.NotFoundError{What: "question", ID: id, Hint: p.Name + " threads show THREAD lists open ones"}
	}
	var ids []string
	for _, q := range found {
		ids = append(ids, q.ID)
	}
	return nil, ambiguous("question", id, ids)
}

// checkpoint finds a checkpoint by its id, or by the start or the end of it that no other has.
func checkpoint(ctx context.Context, t *pawl.Thread, id string) (string, error) {
	if s, err := t.Snapshot(ctx, id); err == nil {
		return s.Checkpoint, nil
	} else if !errors.Is(err, pawl.ErrNotFound) {
		return "", err
	}
	history, err := t.History(ctx, pawl.Page{Limit: 1000})
	if err != nil {
		return "", err
	}
	var found []string
	for _, s := range history {
		if strings.HasPrefix(s.Checkpoint, id) || strings.HasSuffix(s.Checkpoint, id) {
			found = append(found, s.Checkpoint)
		}
	}
	switch len(found) {
	case 1:
		return found[0], nil
	case 0:
		return id, nil // the engine says what there is
	}
	return "", ambiguous("checkpoint", id, found)
}

func ambiguous(what, id string, found []string) error {
	return &Error{Usage, fmt.Errorf("%q is the start of more than one %s (%s, ...); give more of it; nothing was done",
		id, what, strings.Join(found[:2], ", "))}
}
