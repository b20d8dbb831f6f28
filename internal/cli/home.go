package cli

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/storage"
)

// home opens the database, which must exist, and the tenant's view of an engine over it, for as long as use runs.
func (p *Program) home(use func(eng *pawl.Engine, db storage.DB) error) (err error) {
	st, err := os.Stat(p.db)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return &Error{Unreachable, fmt.Errorf("there is no database %s; nothing was made; name one with --db or PAWL_DB", p.db)}
	case err != nil:
		return &Error{Unreachable, fmt.Errorf("the database cannot be reached: %w", err)}
	case st.Mode().IsRegular() && st.Size() == 0:
		return &storage.OpenError{Where: p.db, Reason: storage.NotPawl, Detail: "the file is empty"}
	}
	db, err := p.Open(p.db)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	eng, err := pawl.NewEngine(db, nil)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, eng.Close()) }()
	if err := eng.Register(p.Graphs...); err != nil {
		return err
	}
	return use(eng.Tenant(p.tenant), db)
}

// thread finds a thread by its id, or by the start of it that no other has.
func (p *Program) thread(ctx context.Context, eng *pawl.Engine, id string) (*pawl.Thread, *pawl.ThreadState, error) {
	t := eng.Thread("", id)
	state, err := t.State(ctx)
	if err != nil || state.Status != pawl.StatusNew {
		return t, state, err
	}
	var found []string
	list, err := eng.Threads(ctx, id, 5) // ids that start with id follow it
	if err != nil {
		return nil, nil, err
	}
	for _, l := range list {
		if strings.HasPrefix(l.Thread, id) {
			found = append(found, l.Thread)
		}
	}
	switch len(found) {
	case 1:
		t = eng.Thread("", found[0])
		state, err = t.State(ctx)
		return t, state, err
	case 0:
		return nil, nil, &pawl.NotFoundError{What: "thread", ID: id, Hint: "pawl threads list shows what there is" + p.nearThread(ctx, eng, id)}
	}
	return nil, nil, ambiguous("thread", id, found)
}

// nearThread guesses among the first thousand threads.
func (p *Program) nearThread(ctx context.Context, eng *pawl.Engine, id string) string {
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
		return nil, &pawl.NotFoundError{What: "question", ID: id, Hint: "pawl threads show THREAD lists open ones"}
	}
	var ids []string
	for _, q := range found {
		ids = append(ids, q.ID)
	}
	return nil, ambiguous("question", id, ids)
}

func ambiguous(what, id string, found []string) error {
	return &Error{Usage, fmt.Errorf("%q is the start of more than one %s (%s, ...); give more of it; nothing was done",
		id, what, strings.Join(found[:2], ", "))}
}
