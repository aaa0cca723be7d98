// Calls of one kind to a server, to count their cost for the server and its services.

package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nfsrdma/nfsrdma/nfsclient"
	"github.com/nfsrdma/nfsrdma/xdr/nfs3"
)

// callHandles is the number of files among which file calls are divided.
const callHandles = 64

// A caller makes calls in a directory of a server.
type caller struct {
	c     *nfsclient.Client
	dir   nfs3.FH
	files []nfs3.FH
	data  []byte
}

// A callKind is a kind of call, or two calls that belong together. Calls on names use i in the
// name; the other calls use one of files.
type callKind struct {
	name  string
	files bool // the calls need files
	do    func(ctx context.Context, c *caller, i int) error
}

// callKinds are ordered: later kinds use the objects of earlier kinds, and the last kinds remove
// the objects.
var callKinds = []callKind{
	{"CREATE", false, func(ctx context.Context, c *caller, i int) error {
		_, err := c.c.Create(ctx, c.dir, callName(i), nfs3.Guarded, nfs3.Sattr{SetMode: true, Mode: 0o644}, nfs3.Verf{})
		return err
	}},
	{"LOOKUP", false, func(ctx context.Context, c *caller, i int) error {
		_, err := c.c.Lookup(ctx, c.dir, callName(i))
		return err
	}},
	{"GETATTR", true, func(ctx context.Context, c *caller, i int) error {
		_, err := c.c.Getattr(ctx, c.file(i))
		return err
	}},
	{"ACCESS", true, func(ctx context.Context, c *caller, i int) error {
		_, err := c.c.Access(ctx, c.file(i), 0x3f)
		return err
	}},
	{"SETATTR", true, func(ctx context.Context, c *caller, i int) error {
		return c.c.Setattr(ctx, c.file(i), nfs3.Sattr{SetMode: true, Mode: 0o640 | uint32(i)&7})
	}},
	{"WRITE", true, func(ctx context.Context, c *caller, i int) error {
		_, err := c.c.Write(ctx, c.file(i), c.data, 0, nfs3.Unstable)
		if err == nil {
			_, err = c.c.Commit(ctx, c.file(i), 0, 0)
		}
		return err
	}},
	{"READ", true, func(ctx context.Context, c *caller, i int) error {
		p := make([]byte, len(c.data))
		_, _, err := c.c.Read(ctx, c.file(i), p, 0)
		return err
	}},
	{"RENAME", false, func(ctx context.Context, c *caller, i int) error {
		return c.c.Rename(ctx, c.dir, callName(i), c.dir, callName(i)+".new")
	}},
	{"REMOVE", false, func(ctx context.Context, c *caller, i int) error {
		return c.c.Remove(ctx, c.dir, callName(i)+".new")
	}},
}

func callName(i int) string { return fmt.Sprintf("file%07d", i) }

func (c *caller) file(i int) nfs3.FH { return c.files[i%len(c.files)] }

// calling runs "_calls KIND N DEPTH URL": it prepares, writes a line, waits for a line from in,
// makes N calls and writes the calls' time.
func calling(args []string, in io.Reader, out io.Writer) error {
	n, err := strconv.Atoi(args[1])
	if err != nil {
		return err
	}
	depth, err := strconv.Atoi(args[2])
	if err != nil {
		return err
	}
	ctx := context.Background()
	t, err := nfsclient.ParseTarget(args[3])
	if err != nil {
		return err
	}
	fsys, rest, err := nfsclient.Open(ctx, t, nfsclient.Options{Transport: t.Transport})
	if err != nil {
		return err
	}
	defer fsys.Client().Close()
	sub, err := fsys.Sub(ctx, rest)
	if err != nil {
		return err
	}
	c := &caller{c: fsys.Client(), dir: sub.Root(), data: make([]byte, workSmall)}
	for _, k := range callKinds {
		if k.name != args[0] {
			continue
		}
		for i := 0; k.files && i < callHandles; i++ {
			node, err := c.c.Lookup(ctx, c.dir, callName(i))
			if err != nil {
				return err
			}
			c.files = append(c.files, node.FH)
		}
		fmt.Fprintln(out, "ready")
		if _, err := bufio.NewReader(in).ReadString('\n'); err != nil {
			return err
		}
		d, err := c.many(ctx, k, n, depth)
		if err != nil {
			return err
		}
		return json.NewEncoder(out).Encode(d)
	}
	return fmt.Errorf("no calls %s", args[0])
}

// many makes n calls, depth at a time.
func (c *caller) many(ctx context.Context, k callKind, n, depth int) (done, error) {
	var next atomic.Int64
	failed := make([]error, depth)
	var wg sync.WaitGroup
	start := time.Now()
	for d := range depth {
		wg.Go(func() {
			for failed[d] == nil {
				i := int(next.Add(1)) - 1
				if i >= n {
					return
				}
				failed[d] = k.do(ctx, c, i)
			}
		})
	}
	wg.Wait()
	for _, err := range failed {
		if err != nil {
			return done{}, fmt.Errorf("%s: %w", k.name, err)
		}
	}
	return done{time.Since(start).Seconds(), float64(n)}, nil
}
