package pawl

import "sync"

// crew does the jobs of a queue at once, on as few goroutines as that takes: while a job is left there is one goroutine
// without a job, which takes it as soon as the others do theirs, wait, or wait for each other. Thousands of short jobs
// need a handful.
type crew struct {
	do   func(job int)
	most int // goroutines

	hands sync.WaitGroup
	mu    sync.Mutex
	queue []int
	size  int
	spare bool // a goroutine has no job yet
}

func (c *crew) start() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.hire()
}

// hire adds the spare goroutine, if one is wanted. The caller holds c.mu.
func (c *crew) hire() {
	if !c.spare && len(c.queue) > 0 && c.size < c.most {
		c.spare = true
		c.size++
		c.hands.Go(func() { c.work(true) })
	}
}

// next takes a job, and sees to it that somebody can take the one behind it.
func (c *crew) next(spare bool) (job int, ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if spare {
		c.spare = false
	}
	if len(c.queue) == 0 {
		return 0, false
	}
	job, c.queue = c.queue[0], c.queue[1:]
	c.hire()
	return job, true
}

func (c *crew) work(spare bool) {
	over := false
	defer func() {
		if !over { // a job ended this goroutine: another takes its place
			c.hands.Go(func() { c.work(false) })
		}
	}()
	for {
		job, ok := c.next(spare)
		if !ok {
			break
		}
		spare = false
		c.do(job)
	}
	over = true
}
