package pawl_test

import (
	"context"
	"sync/atomic"
	"testing"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/memdb"
	"github.com/pawl-dev/pawl/storage"
)

// note is a state for tests of what happens around nodes.
type note struct {
	Text pawl.Last[string] `json:"text"`
}

// hooks is a home in memory that calls back around an Update. Each hook is called once.
type hooks struct {
	storage.DB
	before, after atomic.Pointer[func()]
	full          atomic.Bool // no Update fits
}

func (h *hooks) Update(ctx context.Context, fn func(context.Context, storage.Tx) error) error {
	call(&h.before)
	if h.full.Load() {
		return storage.ErrFull
	}
	err := h.DB.Update(ctx, fn)
	call(&h.after)
	return err
}

func call(hook *atomic.Pointer[func()]) {
	if f := hook.Swap(nil); f != nil {
		(*f)()
	}
}

func hooked(t *testing.T) *hooks {
	db, err := memdb.Open(pawl.Kinds()...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	return &hooks{DB: db}
}

func opened(t *testing.T, db storage.DB, options *pawl.Options) *pawl.Engine {
	t.Helper()
	eng, err := pawl.NewEngine(db, options)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = eng.Close() })
	return eng
}

func built(t *testing.T, b *pawl.Builder[note]) *pawl.Graph[note] {
	t.Helper()
	g, err := b.Build()
	if err != nil {
		t.Fatal(err)
	}
	return g
}

// single is a graph of one node.
func single(t *testing.T, node func(context.Context, *note) error, options ...pawl.NodeOption) *pawl.Graph[note] {
	t.Helper()
	return built(t, pawl.New[note]("single").Node("only", node, options...).Edge(pawl.Start, "only"))
}

func status(t *testing.T, th *pawl.ThreadOf[note]) *pawl.ThreadState {
	t.Helper()
	st, err := th.State(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	return st
}
