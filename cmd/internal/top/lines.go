// Reports as consecutive lines: without a terminal, and for programs.

package top

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/nfsrdma/nfsrdma/cmd/internal/text"
)

// Options select the output.
type Options struct {
	Source   *Source
	Interval time.Duration
	Count    int // number of reports; 0: until the context ends. Screen ignores Count
	JSON     bool
	Order    Order
	Colors   bool
}

// Lines writes a report per interval. It fails if the server does not answer.
func Lines(ctx context.Context, w io.Writer, o *Options) error {
	before, err := o.Source.Read(ctx)
	if err != nil {
		return err
	}
	tick := time.NewTicker(o.Interval)
	defer tick.Stop()
	for n := 0; o.Count == 0 || n < o.Count; n++ {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
		now, err := o.Source.Read(ctx)
		if err != nil {
			return err
		}
		if err := o.write(w, now.since(before, o.Source.Name)); err != nil {
			return err
		}
		before = now
	}
	return nil
}

func (o *Options) write(w io.Writer, r *Report) error {
	if o.JSON {
		o.Order.operations(r.Operations)
		o.Order.clients(r.Clients)
		// JSONWriter escapes, because a server may send any labels
		return json.NewEncoder(text.JSONWriter(w)).Encode(r)
	}
	s := style{order: o.Order}
	_, err := fmt.Fprintf(w, "%s\n\n", strings.Join(s.lines(r), "\n"))
	return err
}
