// The checks form a dependency table; each runs as early as possible.

// Package doctor finds the obstacles between this machine and a working NFS mount, over RDMA and
// TCP. Each check has one finding and, unless it passes, one line of advice.
package doctor

import (
	"context"
	"fmt"
	"time"
)

// A Status is the result of a check.
type Status uint8

// The statuses. Only Fail prevents a mount.
const (
	OK Status = iota
	Warn
	Fail
	Skip
)

// String returns the printed form.
func (s Status) String() string { return [...]string{"OK", "WARN", "FAIL", "SKIP"}[s] }

// MarshalText makes a Status a word in JSON.
func (s Status) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// A Finding is the result of one check.
type Finding struct {
	Check  string `json:"check"`            // its name
	Status Status `json:"status"`           // OK, WARN, FAIL, or SKIP
	Text   string `json:"finding"`          // one line
	Advice string `json:"advice,omitempty"` // what to do; "" with OK

	hidden bool // the check does not concern this mount
}

func ok(format string, args ...any) Finding { return Finding{Text: fmt.Sprintf(format, args...)} }

func warn(advice, format string, args ...any) Finding {
	return Finding{Status: Warn, Text: fmt.Sprintf(format, args...), Advice: advice}
}

func fail(advice, format string, args ...any) Finding {
	return Finding{Status: Fail, Text: fmt.Sprintf(format, args...), Advice: advice}
}

func skip(advice, format string, args ...any) Finding {
	return Finding{Status: Skip, Text: fmt.Sprintf(format, args...), Advice: advice}
}

// A check is one row of the table.
type check struct {
	name  string
	needs []string // checks that must not have failed or been skipped
	after []string // checks that only have to finish first
	run   func(ctx context.Context, cu *checkup) Finding
}

// checkTime limits one check. Checks of ports that never answer take longest.
const checkTime = 4 * time.Second

// An outcome is a check in progress; finding is set when over is closed.
type outcome struct {
	over    chan struct{}
	finding Finding
}

// runChecks runs each check as soon as its dependencies are over, many concurrently, and calls tell
// with the findings in table order, except hidden ones. A check stores its results in the checkup,
// and only checks that need it may read them.
func runChecks(ctx context.Context, cu *checkup, table []check, tell func(Finding)) {
	outcomes := make(map[string]*outcome, len(table))
	for i := range table {
		c, o := &table[i], &outcome{over: make(chan struct{})}
		before := make([]*outcome, 0, len(c.needs)+len(c.after))
		for _, name := range c.needs {
			before = append(before, outcomes[name])
		}
		for _, name := range c.after {
			before = append(before, outcomes[name])
		}
		outcomes[c.name] = o
		go func() {
			defer close(o.over)
			for _, b := range before {
				<-b.over
			}
			o.finding = c.start(ctx, cu, before[:len(c.needs)])
			o.finding.Check = c.name
		}()
	}
	for i := range table {
		o := outcomes[table[i].name]
		<-o.over
		if !o.finding.hidden {
			tell(o.finding)
		}
	}
}

// start runs the check unless a needed check ended badly.
func (c *check) start(ctx context.Context, cu *checkup, needs []*outcome) Finding {
	for i, n := range needs {
		if s := n.finding.Status; s == Fail || s == Skip || n.finding.Status == Warn && cu.down[c.needs[i]] {
			return skip("", "not tried: it needs %q to be well", c.needs[i])
		}
	}
	ctx, cancel := context.WithTimeout(ctx, cu.timeLimit(checkTime))
	defer cancel()
	return c.run(ctx, cu)
}
