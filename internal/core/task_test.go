package core

import (
	"fmt"
	"reflect"
	"regexp"
	"testing"
)

func TestPlan(t *testing.T) {
	t.Parallel()
	cp := &Checkpoint{ID: "cp", Step: 4, Due: []Due{{Node: "a"}, {Node: "w"}, sendTo("w", "1"), sendTo("w", "1"), sendTo("v", "2")}}
	tasks := Plan(cp, "thread", "")
	place := Place{Thread: "thread", Checkpoint: "cp", Step: 5}
	want := []struct {
		node  string
		index int
		arg   string
	}{{"a", -1, ""}, {"w", -1, ""}, {"w", 0, "1"}, {"w", 1, "1"}, {"v", 2, "2"}}
	if len(tasks) != len(want) {
		t.Fatalf("planned %d tasks; want %d", len(tasks), len(want))
	}
	seen := map[string]bool{}
	for i, task := range tasks {
		w := want[i]
		if task.Node != w.node || task.Index != w.index || string(task.Arg) != w.arg || task.Step != 5 {
			t.Errorf("task %d is %+v; want %+v", i, task, w)
		}
		if task.ID != TaskID(place, w.node, w.index) || task.Path() != w.node+":"+task.ID || seen[task.ID] {
			t.Errorf("task %d has id %q and path %q", i, task.ID, task.Path())
		}
		seen[task.ID] = true
	}
	if !reflect.DeepEqual(Plan(cp, "thread", ""), tasks) {
		t.Error("the same checkpoint was planned in two ways")
	}
	if got := Plan(&Checkpoint{ID: "cp"}, "thread", ""); got != nil {
		t.Errorf("nothing is due and %v is planned", got)
	}
	if inner := Plan(cp, "thread", "outer:1")[0]; inner.ID == tasks[0].ID {
		t.Error("inside another task the task has the same id")
	}
}

// Of one run, numbered identities tell tasks apart as hashed ones do.
func TestNumberedIDsTellTasksApart(t *testing.T) {
	t.Parallel()
	seen := map[string]bool{}
	n := 0
	for _, checkpoint := range []string{"t1", "t12", "t2"} {
		for _, node := range []string{"a", "1.a", "-1.a", "a.1"} {
			for _, index := range []int{-1, 0, 1, 12} {
				seen[NumberedID(Place{Thread: "t", Checkpoint: checkpoint}, node, index)] = true
				n++
			}
		}
	}
	if len(seen) != n {
		t.Errorf("%d tasks have %d identities", n, len(seen))
	}
}

func TestTaskIDsTellPlacesApart(t *testing.T) {
	t.Parallel()
	base := Place{Thread: "t", Namespace: "n", Checkpoint: "c"}
	seen := map[string]string{}
	for _, c := range []struct {
		name  string
		place Place
		node  string
		index int
	}{
		{"itself", base, "a", -1},
		{"another thread", Place{Thread: "u", Namespace: "n", Checkpoint: "c"}, "a", -1},
		{"another namespace", Place{Thread: "t", Namespace: "m", Checkpoint: "c"}, "a", -1},
		{"another checkpoint", Place{Thread: "t", Namespace: "n", Checkpoint: "d"}, "a", -1},
		{"another node", base, "b", -1},
		{"the first send", base, "a", 0},
		{"the second send", base, "a", 1},
		{"text moved between the parts", Place{Thread: "tn", Checkpoint: "c"}, "a", -1},
		{"text moved into the node", Place{Thread: "t", Namespace: "n"}, "ca", -1},
		{"a node named like a trigger", base, "aedge", -1},
	} {
		id := TaskID(c.place, c.node, c.index)
		if other, twice := seen[id]; twice {
			t.Errorf("%s has the id of %s", c.name, other)
		}
		seen[id] = c.name
		if !regexp.MustCompile(`^[0-9a-f]{32}$`).MatchString(id) {
			t.Errorf("%s: id %q is not 128 bits in hex", c.name, id)
		}
	}
	if moved := TaskID(Place{Thread: "t", Namespace: "n", Checkpoint: "c", Step: 9, Lineage: "l"}, "a", -1); seen[moved] != "itself" {
		t.Error("step and lineage are no part of a task's identity")
	}
}

// A stored id must be the same in every later version: these are fixed for good.
func TestIDsAreFixed(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ got, want string }{
		{TaskID(Place{Thread: "t", Checkpoint: "c"}, "a", -1), ID("task", "t", "", "c", "a", "edge")},
		{TaskID(Place{Thread: "t", Checkpoint: "c"}, "a", 12), ID("task", "t", "", "c", "a", "send/12")},
		{ID(), "e3b0c44298fc1c149afbf4c8996fb924"},
		{ID("a"), "4162fddd39a3e4225e8e2392eced237f"},
	} {
		if c.got != c.want {
			t.Errorf("an id is %q; want %q", c.got, c.want)
		}
	}
}

func TestPartsOfAnIDNeverRunTogether(t *testing.T) {
	t.Parallel()
	seen := map[string][]string{}
	alphabet := []string{"", "a", "1", ":", "1:", "1:a", "a1", "0:"}
	var grow func(parts []string)
	grow = func(parts []string) {
		id := ID(parts...)
		if other, twice := seen[id]; twice {
			t.Fatalf("%q and %q share an id", parts, other)
		}
		seen[id] = append([]string{}, parts...)
		if len(parts) < 4 {
			for _, a := range alphabet {
				grow(append(parts[:len(parts):len(parts)], a))
			}
		}
	}
	grow(nil)
	long := fmt.Sprintf("%0300d", 7)
	if ID(long, "x") == ID(long+"x") || ID(long) == ID(long, "") {
		t.Error("long parts run together")
	}
}

func TestAddresses(t *testing.T) {
	t.Parallel()
	base := Address{Task: "t", Path: "p", Kind: "step", Name: "n", Key: "k"}
	seen := map[string]bool{}
	for _, a := range []Address{
		base,
		{Task: "u", Path: "p", Kind: "step", Name: "n", Key: "k"},
		{Task: "t", Path: "q", Kind: "step", Name: "n", Key: "k"},
		{Task: "t", Path: "p", Kind: "ask", Name: "n", Key: "k"},
		{Task: "t", Path: "p", Kind: "step", Name: "m", Key: "k"},
		{Task: "t", Path: "p", Kind: "step", Name: "n", Key: "l"},
		{Task: "t", Path: "p", Kind: "step", Name: "nk"},
	} {
		if seen[a.ID()] {
			t.Errorf("%+v has the id of another", a)
		}
		seen[a.ID()] = true
	}
	if base.String() != `step "n" with key "k"` || (Address{Kind: "ask", Name: "n"}).String() != `ask "n"` {
		t.Errorf("people read %q", base)
	}
}
