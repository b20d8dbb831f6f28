package pawl

import (
	"runtime"
	"slices"
	"sync"
	"testing"
)

func jobs(n int) []int {
	out := make([]int, n)
	for i := range out {
		out[i] = i
	}
	return out
}

// TestCrew: every job is done once, also those that wait for all others to begin, and those that end their goroutine.
func TestCrew(t *testing.T) {
	t.Parallel()
	const n = 200
	for name, c := range map[string]struct {
		most int
		do   func(begun *sync.WaitGroup, job int)
	}{
		"short ones":               {n, func(*sync.WaitGroup, int) {}},
		"one at a time":            {1, func(*sync.WaitGroup, int) {}},
		"they wait for each other": {n, func(begun *sync.WaitGroup, _ int) { begun.Wait() }},
		"each ends its goroutine":  {n, func(*sync.WaitGroup, int) { runtime.Goexit() }},
		"some of one at a time end theirs": {1, func(_ *sync.WaitGroup, job int) {
			if job%3 == 0 {
				runtime.Goexit()
			}
		}},
		"they wait, then end": {n, func(begun *sync.WaitGroup, _ int) { begun.Wait(); runtime.Goexit() }},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var mu sync.Mutex
			var did []int
			running, highest := 0, 0
			var begun sync.WaitGroup
			begun.Add(n)
			w := crew{queue: jobs(n), most: c.most, do: func(job int) {
				mu.Lock()
				did = append(did, job)
				running++
				highest = max(highest, running)
				mu.Unlock()
				defer func() {
					mu.Lock()
					defer mu.Unlock()
					running--
				}()
				begun.Done()
				c.do(&begun, job)
			}}
			w.start()
			w.hands.Wait()
			if slices.Sort(did); !slices.Equal(did, jobs(n)) {
				t.Errorf("did %v", did)
			}
			if highest > c.most {
				t.Errorf("%d at once, at most %d are allowed", highest, c.most)
			}
		})
	}
	(&crew{do: func(int) { t.Error("there is nothing to do") }, most: 1}).start()
}
