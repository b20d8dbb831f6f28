// Command renew records the scenarios again on LangGraph, says where a committed trace is not what was recorded, and
// compares both engines on random graphs. It ends with 1 when anything differs.
//
//	go run ./conformance/renew -python .venv/bin/python -random 500
package main

import (
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/conformance"
	"github.com/pawl-dev/pawl/memdb"
)

func main() {
	python := flag.String("python", "python3", "an interpreter with what record/requirements.lock lists")
	home := flag.String("dir", "conformance", "the folder of the scenarios")
	random := flag.Int("random", 500, "how many random graphs are compared")
	seed := flag.Uint64("seed", 1, "the first of them")
	own := flag.Bool("differing", false, "write down Pawl's own traces, of what is said to differ on purpose, and nothing else")
	flag.Parse()
	if *own {
		if err := writeOwn(context.Background(), *home); err != nil {
			fmt.Fprintln(os.Stderr, "renew:", err)
			os.Exit(1)
		}
		return
	}
	differ, err := renew(context.Background(), *python, *home)
	if err == nil {
		var more int
		more, err = compare(context.Background(), *python, *home, *seed, *random)
		differ += more
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "renew:", err)
	}
	if err != nil || differ > 0 {
		os.Exit(1)
	}
}

// renew records each file of scenarios and writes its traces.
func renew(ctx context.Context, python, home string) (differ int, err error) {
	files, err := filepath.Glob(filepath.Join(home, "scenarios", "*.json"))
	if err != nil {
		return 0, err
	}
	count := 0
	for _, file := range files {
		all, err := conformance.ReadFile(file)
		if err != nil {
			return differ, err
		}
		var asked []*conformance.Scenario
		for _, s := range all {
			if s.Excluded == "" {
				asked = append(asked, s)
			}
		}
		recorded, unsteady, err := record(ctx, python, home, asked)
		if err != nil || len(unsteady) > 0 {
			return differ, fmt.Errorf("%s: %v %w", file, unsteady, err)
		}
		count += len(recorded)
		for folder, now := range map[string][]byte{"traces": conformance.WriteTraces(recorded), "streams": conformance.WriteStreams(recorded)} {
			more, err := write(filepath.Join(home, folder, filepath.Base(file)), now)
			if err != nil {
				return differ, err
			}
			differ += more
		}
	}
	fmt.Printf("%d scenarios recorded, %d files of traces differ\n", count, differ)
	return differ, nil
}

// write writes a file that is not what was committed, and says so.
func write(path string, now []byte) (differ int, err error) {
	before, err := os.ReadFile(path)
	if err != nil && !os.IsNotExist(err) || bytes.Equal(before, now) {
		return 0, err
	}
	fmt.Printf("%s: what was recorded is not what was committed\n", path)
	return 1, os.WriteFile(path, now, 0o644)
}

// writeOwn runs what is said to differ on Pawl. Read what it wrote before it is committed.
func writeOwn(ctx context.Context, home string) error {
	all, err := conformance.Load(home)
	if err != nil {
		return err
	}
	areas := map[string]map[string]*conformance.Trace{}
	for _, c := range all {
		if c.Differs == "" {
			continue
		}
		if areas[c.Area] == nil {
			areas[c.Area] = map[string]*conformance.Trace{}
		}
		if areas[c.Area][c.ID], err = trace(ctx, c.Scenario); err != nil {
			return fmt.Errorf("%s: %w", c.ID, err)
		}
	}
	if err := os.MkdirAll(filepath.Join(home, "differing"), 0o755); err != nil {
		return err
	}
	for area, traces := range areas {
		if err := os.WriteFile(filepath.Join(home, "differing", area), conformance.WriteTraces(traces), 0o644); err != nil {
			return err
		}
	}
	return nil
}

func trace(ctx context.Context, s *conformance.Scenario) (*conformance.Trace, error) {
	db, err := memdb.Open(pawl.Kinds()...)
	if err != nil {
		return nil, err
	}
	defer db.Close()
	return conformance.Run(ctx, db, s)
}

// compare runs random graphs on both engines until so many were compared: a graph on which LangGraph does not agree with
// itself is none. One on which they differ is kept in scenarios/found.json.
func compare(ctx context.Context, python, home string, seed uint64, wanted int) (differ int, err error) {
	var found []*conformance.Scenario
	next, compared, unsteady := seed, 0, 0
	for compared < wanted {
		all := make([]*conformance.Scenario, wanted-compared)
		for i := range all {
			all[i] = conformance.Generate(next)
			next++
		}
		recorded, alone, err := record(ctx, python, home, all)
		if err != nil {
			return len(found), err
		}
		if unsteady += len(alone); unsteady > wanted {
			return len(found), fmt.Errorf("LangGraph does not agree with itself on %d of %d random graphs", unsteady, next-seed)
		}
		for _, s := range all {
			if alone[s.ID] != "" {
				continue
			}
			same, err := compareOne(ctx, s, recorded[s.ID])
			if err != nil {
				return len(found), fmt.Errorf("%s: %w", s.ID, err)
			}
			if !same {
				steady, err := agrees(ctx, python, home, s, recorded[s.ID])
				if err != nil {
					return len(found), fmt.Errorf("%s, again: %w", s.ID, err)
				}
				if !steady {
					unsteady++
					fmt.Printf("%s: LangGraph does not agree with itself\n", s.ID)
					continue
				}
				found = append(found, s)
			}
			compared++
		}
	}
	fmt.Printf("%d random graphs compared from seed %d, their streams too, %d differ; on %d more LangGraph does not agree with itself\n",
		compared, seed, len(found), unsteady)
	return len(found), keep(filepath.Join(home, "scenarios", "found.json"), found)
}

// again is how often a random graph is recorded once more that differs.
const again = 12

// agrees says whether LangGraph records a scenario as it did, time after time: that its two savers did one time may be luck,
// where tasks that end at once decide what is seen.
func agrees(ctx context.Context, python, home string, s *conformance.Scenario, want *conformance.Trace) (bool, error) {
	copies := make([]*conformance.Scenario, again)
	for i := range copies {
		c := *s
		c.ID = fmt.Sprintf("%s-%d", s.ID, i+1)
		copies[i] = &c
	}
	recorded, alone, err := record(ctx, python, home, copies)
	if err != nil || len(alone) > 0 {
		return false, err
	}
	for _, got := range recorded {
		if s.Comparable(got).Text() != s.Comparable(want).Text() || conformance.ShownText(got) != conformance.ShownText(want) {
			return false, nil
		}
	}
	return true, nil
}

// keep adds scenarios to a file.
func keep(path string, found []*conformance.Scenario) error {
	if len(found) == 0 {
		return nil
	}
	if known, err := conformance.ReadFile(path); err == nil {
		found = append(known, found...)
	}
	doc, err := json.MarshalIndent(found, "", " ")
	if err != nil {
		return err
	}
	fmt.Printf("they are kept in %s\n", path)
	return os.WriteFile(path, append(doc, '\n'), 0o644)
}

func compareOne(ctx context.Context, s *conformance.Scenario, want *conformance.Trace) (bool, error) {
	got, err := trace(ctx, s)
	if err != nil {
		return false, err
	}
	same := true
	for what, texts := range map[string][2]string{
		"traces":  {s.Comparable(got).Text(), s.Comparable(want).Text()},
		"streams": {conformance.ShownText(got), conformance.ShownText(want)},
	} {
		if texts[0] != texts[1] {
			same = false
			fmt.Printf("%s: the %s differ\n", s.ID, what)
		}
	}
	return same, nil
}

// record runs scenarios on LangGraph.
func record(ctx context.Context, python, home string, all []*conformance.Scenario) (traces map[string]*conformance.Trace, unsteady map[string]string, err error) {
	var in bytes.Buffer
	for _, s := range all {
		if err := json.NewEncoder(&in).Encode(s); err != nil {
			return nil, nil, err
		}
	}
	var said bytes.Buffer
	cmd := exec.CommandContext(ctx, python, filepath.Join(home, "record", "record.py"))
	cmd.Stdin, cmd.Stderr = &in, &said
	out, err := cmd.Output()
	if err != nil {
		return nil, nil, fmt.Errorf("record.py: %w: %s", err, said.Bytes()[max(0, said.Len()-2000):])
	}
	traces, unsteady, err = conformance.ReadRecorded(bytes.NewReader(out))
	if err == nil && len(traces) != len(all) {
		err = fmt.Errorf("%d scenarios gave %d traces", len(all), len(traces))
	}
	return traces, unsteady, err
}
