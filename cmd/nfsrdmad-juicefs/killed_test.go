// Two servers of one volume, one of which is killed during writes: acknowledged data is kept, and
// clients continue with the other.

package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nfsrdma/nfsrdma/nfsclient"
	"github.com/nfsrdma/nfsrdma/nfsserver/juicefs/juicefstest"
	"github.com/nfsrdma/nfsrdma/xdr/nfs3"
)

const (
	writers   = 3
	blockSize = 64 << 10
	// A writer commits after each commitEvery blocks, and writes at least leastBlocks.
	commitEvery = 4
	leastBlocks = 40
)

// block returns a writer's data for one position.
func block(writer, k int) []byte {
	return bytes.Repeat([]byte(fmt.Sprintf("%07d %07d\n", writer, k)), blockSize/16)
}

// A writer writes a file block by block, at one server and then at another.
type writer struct {
	n      int
	fh     nfs3.FH
	acked  int // blocks that COMMIT has acknowledged
	writes int // blocks that WRITE has accepted
}

// write writes until at blocks are committed or a call fails.
func (w *writer) write(ctx context.Context, c *nfsclient.Client, at int, acked *atomic.Int64) error {
	for w.writes < at {
		from := w.acked
		var verf nfs3.Verf
		for k := from; k < from+commitEvery; k++ {
			got, err := c.Write(ctx, w.fh, block(w.n, k), uint64(k)*blockSize, nfs3.Unstable)
			if err != nil {
				return err
			}
			if k > from && got.Verf != verf {
				return fmt.Errorf("block %d: the verifier of a server that goes on has changed", k)
			}
			verf = got.Verf
			w.writes = k + 1
		}
		is, err := c.Commit(ctx, w.fh, 0, 0)
		if err != nil {
			return err
		}
		if is != verf {
			return errors.New("COMMIT: the verifier of a server that goes on has changed")
		}
		w.acked = w.writes
		acked.Add(commitEvery)
	}
	return nil
}

// check reads the blocks that COMMIT has acknowledged, and compares them.
func (w *writer) check(ctx context.Context, c *nfsclient.Client) error {
	got := make([]byte, blockSize)
	for k := range w.acked {
		for have := 0; have < blockSize; {
			n, _, err := c.Read(ctx, w.fh, got[have:], uint64(k*blockSize+have))
			if err != nil || n == 0 {
				return fmt.Errorf("block %d of %d: %d bytes, %w", k, w.acked, n, err)
			}
			have += n
		}
		if want := block(w.n, k); !bytes.Equal(got, want) {
			return fmt.Errorf("block %d of %d has %q, want %q", k, w.acked, got[:16], want[:16])
		}
	}
	return nil
}

func dial(t *testing.T, addr string) *nfsclient.Client {
	t.Helper()
	c, err := nfsclient.Dial(t.Context(), addr, nfsclient.Options{Transport: nfsclient.TCP})
	if err != nil {
		t.Fatalf("Dial: %v", err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

func TestServerKilled(t *testing.T) {
	_, url := juicefstest.Redis(t)
	juicefstest.Format(t, url, juicefstest.StartS3(t))
	first, second := startProcess(t, url, "--heartbeat", "10m"), startProcess(t, url, "--heartbeat", "10m")
	a, b := dial(t, first.addr()), dial(t, second.addr())
	root, err := a.MountHandle(t.Context(), "/vol")
	if err != nil {
		t.Fatalf("MountHandle: %v", err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
	defer cancel()
	alive, dead := context.WithCancel(ctx)
	defer dead()
	var acked atomic.Int64
	var wg sync.WaitGroup
	killed := make(chan struct{})
	for i := range writers {
		made, err := a.Create(ctx, root, fmt.Sprint("f", i), nfs3.Guarded, nfs3.Sattr{SetMode: true, Mode: 0o600}, nfs3.Verf{})
		if err != nil {
			t.Fatalf("Create: %v", err)
		}
		w := &writer{n: i, fh: made.FH}
		wg.Go(func() {
			for alive.Err() == nil {
				if err := w.write(alive, a, w.acked+commitEvery, &acked); err != nil && alive.Err() == nil {
					t.Errorf("writer %d: %v", i, err)
					return
				}
			}
			<-killed
			// The file's handle also works at the other server, which has all acknowledged data
			// before any further write.
			if err := w.check(ctx, b); err != nil {
				t.Errorf("writer %d, at the other server: %v", i, err)
				return
			}
			w.writes = w.acked
			if err := w.write(ctx, b, max(w.acked+leastBlocks, 2*leastBlocks), new(atomic.Int64)); err != nil {
				t.Errorf("writer %d goes on: %v", i, err)
				return
			}
			if err := w.check(ctx, b); err != nil {
				t.Errorf("writer %d, in the end: %v", i, err)
			}
		})
	}
	for acked.Load() < writers*leastBlocks && ctx.Err() == nil && !t.Failed() {
		time.Sleep(time.Millisecond)
	}
	first.kill()
	dead()
	close(killed)
	wg.Wait()
	if at := acked.Load(); at < writers*leastBlocks {
		t.Errorf("only %d blocks were acknowledged", at)
	}
}
