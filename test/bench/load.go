// Load generators with many connections, each a process: this program with other arguments.

package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"runtime/debug"
	"strconv"
	"sync"
	"time"

	"github.com/nfsrdma/nfsrdma/nfsclient"
	"github.com/nfsrdma/nfsrdma/rnic"
	"github.com/nfsrdma/nfsrdma/rnic/iwarp"
)

// load runs the load generator named by args[0].
//
// "_conns N DURATION URL" writes the bytes read by each of N connections. "_cold DURATION URL"
// writes the bytes read by a reader of small blocks. "_cost ROUNDS DURATION URL…" writes cost's
// result. "_idle N URL" makes N connections with one call each, writes the memory in bytes for
// them, and keeps them until in ends.
//
// "_work …", "_calls …", "_forward …" and "_sockets …" are described at their functions.
func load(args []string, in io.Reader, out io.Writer) error {
	switch args[0] {
	case "_work":
		return work(args[1:], out)
	case "_calls":
		return calling(args[1:], in, out)
	case "_forward":
		return forward(args[1:], in, out)
	case "_sockets":
		return sockets(args[1:], in, out)
	}
	if args[0] == "_cold" {
		d, err := time.ParseDuration(args[1])
		if err != nil {
			return err
		}
		r, err := readAnywhere(d, args[2])
		if err != nil {
			return err
		}
		return json.NewEncoder(out).Encode(r)
	}
	n, err := strconv.Atoi(args[1])
	if err != nil {
		return err
	}
	if args[0] == "_cost" {
		return writeCost(n, args[2], args[3:], out)
	}
	if args[0] == "_idle" {
		return idle(n, args[2], in, out)
	}
	d, err := time.ParseDuration(args[2])
	if err != nil {
		return err
	}
	r, err := readers(n, d, args[3])
	if err != nil {
		return err
	}
	return json.NewEncoder(out).Encode(r)
}

// readings is the result of reading connections: the time, and the bytes of each.
type readings struct {
	Seconds float64 `json:"seconds"`
	Bytes   []int64 `json:"bytes"`
}

// readDepth and readBlock apply to each reading connection.
const (
	readDepth = 8
	readBlock = 1 << 20
)

// readers makes n clients read the file at url for d, each over a separate connection, and returns
// the bytes each has read.
func readers(n int, d time.Duration, url string) (r readings, err error) {
	t, err := nfsclient.ParseTarget(url)
	if err != nil {
		return r, err
	}
	ctx := context.Background()
	files := make([]*nfsclient.File, n)
	for i := range files {
		fsys, rest, err := nfsclient.Open(ctx, t, nfsclient.Options{Transport: t.Transport})
		if err != nil {
			return r, err
		}
		defer fsys.Client().Close()
		if files[i], err = fsys.Open(ctx, rest); err != nil {
			return r, err
		}
		defer files[i].Close()
	}
	r.Bytes = make([]int64, n)
	failed := make([]error, n)
	for _, d := range []time.Duration{d / 5, d} { // the first run brings the connections to speed
		var wg sync.WaitGroup
		start := time.Now()
		for i, f := range files {
			wg.Go(func() { r.Bytes[i], failed[i] = readFor(f, start.Add(d)) })
		}
		wg.Wait()
		r.Seconds = time.Since(start).Seconds()
		for _, err := range failed {
			if err != nil {
				return r, err
			}
		}
	}
	return r, nil
}

// readFor reads f repeatedly, readDepth blocks at a time, until end, and at least once.
func readFor(f *nfsclient.File, end time.Time) (total int64, err error) {
	var mu sync.Mutex // guards total, err and next
	var wg sync.WaitGroup
	next := int64(0)
	for range readDepth {
		wg.Go(func() {
			p := make([]byte, readBlock)
			for {
				mu.Lock()
				off := next * readBlock % fileSize
				next++
				mu.Unlock()
				n, e := f.ReadAt(p, off)
				mu.Lock()
				total += int64(n)
				if e != nil && err == nil {
					err = e
				}
				failed := err != nil
				mu.Unlock()
				if failed || time.Now().After(end) {
					return
				}
			}
		})
	}
	wg.Wait()
	return total, err
}

// idleAtOnce is the number of connections made concurrently, well below the server's limit for
// connections in start-up.
const idleAtOnce = 16

// idle makes connections, writes the memory of each in bytes, and waits until in ends.
func idle(n int, url string, in io.Reader, out io.Writer) error {
	t, err := nfsclient.ParseTarget(url)
	if err != nil {
		return err
	}
	self := ownPID()
	before, err := resident(self)
	if err != nil {
		return err
	}
	o := nfsclient.Options{Transport: t.Transport, Device: iwarp.Open(rnic.DeviceConfig{CRC: rnic.CRCOn})}
	clients := make([]*nfsclient.Client, n)
	failed := make([]error, idleAtOnce)
	var wg sync.WaitGroup
	for k := range idleAtOnce {
		wg.Go(func() {
			for i := k; i < n && failed[k] == nil; i += idleAtOnce {
				ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
				if clients[i], failed[k] = nfsclient.Dial(ctx, t.Addr(), o); failed[k] == nil {
					failed[k] = clients[i].Null(ctx)
				}
				cancel()
			}
		})
	}
	wg.Wait()
	for _, err := range failed {
		if err != nil {
			return err
		}
	}
	debug.FreeOSMemory() // frees temporary memory of dialing
	after, err := resident(self)
	if err != nil {
		return err
	}
	fmt.Fprintln(out, (after-before)/int64(n))
	_, err = io.Copy(io.Discard, in)
	for _, c := range clients {
		c.Close()
	}
	return err
}
