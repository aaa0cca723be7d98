// Two servers of one volume, one of which is killed under writers: what it had acknowledged is there, and clients go on at the other.

package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/nfsrdma/nfsrdma/nfsclient"
	"github.com/nfsrdma/nfsrdma/nfsserver/juicefs/internal/services"
	"github.com/nfsrdma/nfsrdma/test/machine"
	"github.com/nfsrdma/nfsrdma/xdr/nfs3"
)

// startServer starts the program with a volume, in a process of its own. (Under the race detector heartbeats find a race of JuiceFS's own, between
// its start of a session and the first of them.)
func startServer(t *testing.T, volume string) (addr string, kill func()) {
	t.Helper()
	port, dir := strconv.Itoa(machine.Port(t)), t.TempDir()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), serverEnv+"="+strings.Join([]string{"serve", volume, "--no-root-squash", "--rpcbind", "off", "--rdma-port", "0", "--tcp-port", port,
		"--state-dir", filepath.Join(dir, "state"), "--control", filepath.Join(dir, "control"), "--log-level", "error", "--heartbeat", "10m"}, "\n"))
	cmd.Stderr = os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() {
		_ = cmd.Wait()
		close(ended)
	}()
	kill = func() {
		_ = cmd.Process.Kill()
		<-ended
	}
	t.Cleanup(kill)
	s := &server{addr: "127.0.0.1:" + port, stop: func() string { return "see above" }}
	s.await(t, ended)
	return s.addr, kill
}

const (
	writers   = 3
	blockSize = 64 << 10
	// A writer commits after each commitEvery blocks, and writes no fewer than leastBlocks.
	commitEvery = 4
	leastBlocks = 40
)

// block is what a writer writes at a place.
func block(writer, k int) []byte {
	return bytes.Repeat([]byte(fmt.Sprintf("%07d %07d\n", writer, k)), blockSize/16)
}

// A writer writes a file block by block, at one server and then at another.
type writer struct {
	n      int
	fh     nfs3.FH
	acked  int // blocks that COMMIT has acknowledged
	writes int // blocks written
}

// write goes on until at blocks are committed or it fails.
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

// check reads the blocks that were acknowledged.
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
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

func TestServerKilled(t *testing.T) {
	_, url := services.Redis(t)
	services.Format(t, url, services.StartS3(t))
	first, kill := startServer(t, url+"=/vol")
	second, _ := startServer(t, url+"=/vol")
	a, b := dial(t, first), dial(t, second)
	root, err := a.MountHandle(t.Context(), "/vol")
	if err != nil {
		t.Fatal(err)
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
			t.Fatal(err)
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
			// Its handle is good at the other server, which has all that was acknowledged before anything is written again.
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
	kill()
	dead()
	close(killed)
	wg.Wait()
	if at := acked.Load(); at < writers*leastBlocks {
		t.Errorf("only %d blocks were acknowledged", at)
	}
}
