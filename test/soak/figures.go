// A server's resource usage: its figures, read from outside, and the limits for leaks.

package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"text/tabwriter"
)

// figures has a server's usage at one moment.
type figures struct {
	resident    int64 // resident memory, in bytes
	heap        int64 // Go's heap, in bytes
	goroutines  int64
	threads     int64
	descriptors int64
	conns       int64 // clients' connections
	pool        int64 // data in flight, in bytes; the sum of all the server's budgets
}

// A figure is one field of figures, with its name.
type figure struct {
	name string
	of   func(f *figures) *int64
	unit int64 // display unit
}

var allFigures = []figure{
	{"resident memory, MiB", func(f *figures) *int64 { return &f.resident }, 1 << 20},
	{"heap in use, MiB", func(f *figures) *int64 { return &f.heap }, 1 << 20},
	{"goroutines", func(f *figures) *int64 { return &f.goroutines }, 1},
	{"threads", func(f *figures) *int64 { return &f.threads }, 1},
	{"descriptors", func(f *figures) *int64 { return &f.descriptors }, 1},
	{"connections", func(f *figures) *int64 { return &f.conns }, 1},
	{"data under way, KiB", func(f *figures) *int64 { return &f.pool }, 1 << 10},
}

// figures returns the server's figures.
func (s *server) figures() (f figures, err error) {
	proc := fmt.Sprintf("/proc/%d", s.cmd.Process.Pid)
	status, err := os.ReadFile(proc + "/status")
	if err != nil {
		return f, err
	}
	for line := range strings.Lines(string(status)) {
		name, value, _ := strings.Cut(line, ":")
		n, _ := strconv.ParseInt(strings.TrimSuffix(strings.TrimSpace(value), " kB"), 10, 64)
		switch name {
		case "VmRSS":
			f.resident = n << 10
		case "Threads":
			f.threads = n
		}
	}
	open, err := filepath.Glob(proc + "/fd/*")
	if err != nil {
		return f, err
	}
	f.descriptors = int64(len(open))
	return f, s.scrape(&f)
}

// scrape reads the server's metrics.
func (s *server) scrape(f *figures) error {
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	res, err := client.Get("http://" + s.metrics + "/metrics")
	if err != nil {
		return err
	}
	defer res.Body.Close()
	for in := bufio.NewScanner(res.Body); in.Scan(); {
		name, value, _ := strings.Cut(in.Text(), " ")
		name, _, _ = strings.Cut(name, "{")
		v, err := strconv.ParseFloat(value, 64)
		if err != nil {
			continue // a comment
		}
		switch n := int64(v); name {
		case "go_memstats_heap_inuse_bytes":
			f.heap = n
		case "go_goroutines":
			f.goroutines = n
		case "nfsrdma_connections":
			f.conns += n
		case "nfsrdma_budget_used_bytes":
			f.pool += n
		}
	}
	_, err = io.Copy(io.Discard, res.Body)
	if f.goroutines == 0 || f.heap == 0 {
		err = errors.Join(err, errors.New("the server's figures are not complete"))
	}
	return err
}

// maxOf returns the maximum of each figure.
func (f figures) maxOf(g figures) figures {
	for _, x := range allFigures {
		*x.of(&f) = max(*x.of(&f), *x.of(&g))
	}
	return f
}

// bounds has the permitted growth of each figure after a rest.
type bounds figures

// atRest are the bounds after a minute of rest, as documented in docs/lab/soak.md. Go never ends a
// thread.
var atRest = bounds{resident: 48 << 20, heap: 24 << 20, goroutines: 8, threads: 64, descriptors: 8}

// check returns an error about the figures above their bounds.
func (b bounds) check(before, rested figures) error {
	var errs []error
	for _, x := range allFigures {
		was, is, more := *x.of(&before), *x.of(&rested), *x.of((*figures)(&b))
		if is > was+more {
			errs = append(errs, fmt.Errorf("%s after the rest: %d, want at most %d more than the %d before", x.name, is/x.unit, more/x.unit, was/x.unit))
		}
	}
	return errors.Join(errs...)
}

// table formats the figures as a table.
func table(before, peak, rested figures) string {
	var b strings.Builder
	w := tabwriter.NewWriter(&b, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(w, "\tbefore\tpeak\tafter rest\t")
	for _, x := range allFigures {
		fmt.Fprintf(w, "%s\t%d\t%d\t%d\t\n", x.name, *x.of(&before)/x.unit, *x.of(&peak)/x.unit, *x.of(&rested)/x.unit)
	}
	w.Flush()
	return b.String()
}
