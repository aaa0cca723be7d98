// The server in the simulation of files: it may forget unsynced data, stall, and restart.

package sim

import (
	"context"
	"net/netip"
	"slices"
	"sync"
	"syscall"
	"time"

	"github.com/nfsrdma/nfsrdma/nfsserver"
	"github.com/nfsrdma/nfsrdma/nfsserver/memfs"
	"github.com/nfsrdma/nfsrdma/rnic"
	"github.com/nfsrdma/nfsrdma/rnic/iwarp"
	"github.com/nfsrdma/nfsrdma/rpcrdma"
	"github.com/nfsrdma/nfsrdma/transport"
	"github.com/nfsrdma/nfsrdma/xdr/nfs3"
)

const exported = "/e"

// A disk is a tree in memory that loses unsynced writes when the power fails.
type disk struct {
	nfsserver.FS

	mu   sync.Mutex
	undo []undo // the oldest first
}

// An undo is the content that a WRITE has replaced.
type undo struct {
	ref nfsserver.Ref
	off uint64
	old []byte
}

// A server is one run of the server on the disk.
type server struct {
	*disk
	wrote func(p []byte, off uint64) // adds to the trace
	dead  bool                       // guarded by disk.mu
}

func (s *server) WriteAt(c nfsserver.Cred, r nfsserver.Ref, p []byte, off uint64) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.dead { // a procedure that outlives its server
		return 0, syscall.EIO
	}
	old := make([]byte, len(p)) // zeros beyond the end
	if _, err := s.FS.ReadAt(c, r, old, off); err != nil {
		return 0, err
	}
	s.undo = append(s.undo, undo{r, off, old})
	s.wrote(p, off)
	return s.FS.WriteAt(c, r, p, off)
}

func (s *server) Sync(r nfsserver.Ref, dataOnly bool) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.dead {
		return syscall.EIO
	}
	s.undo = slices.DeleteFunc(s.undo, func(u undo) bool { return u.ref == r })
	return s.FS.Sync(r, dataOnly)
}

// Close leaves the disk to the next run.
func (s *server) Close() error { return nil }

// fail cuts the power of s.
func (s *server) fail() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.dead = true
	for _, u := range slices.Backward(s.undo) {
		if _, err := s.FS.WriteAt(nfsserver.Cred{}, u.ref, u.old, u.off); err != nil {
			return err
		}
	}
	s.undo = nil
	return nil
}

// A fileService is one run of the server, with its listeners.
type fileService struct {
	fs   *server
	nfs  *nfsserver.Server
	rpc  *transport.Server
	rdma *listener
	tcp  *listener
	done sync.WaitGroup
}

// serve starts the server.
func (w *filesWorld) serve() *fileService {
	s := &fileService{fs: &server{disk: w.disk, wrote: w.wrote}, rdma: newListener(64), tcp: newListener(64)}
	var err error
	s.nfs, err = nfsserver.New(nfsserver.Options{Exports: []nfsserver.Export{{Name: exported, FS: s.fs}},
		Key: [nfsserver.KeySize]byte{1}, Squash: nfsserver.Squash{All: true}})
	if err != nil {
		w.fail("server: %v", err)
		return nil
	}
	list := slices.Clone(s.nfs.Programs())
	for i, p := range list {
		if p.Number == nfs3.Program {
			changed := *p
			changed.Procs = slices.Clone(p.Procs)
			for _, n := range []uint32{nfs3.ProcWrite, nfs3.ProcCommit} {
				changed.Procs[n].Run = w.stalling(p.Procs[n].Run)
			}
			list[i] = &changed
		}
	}
	s.rpc = transport.NewServer(transport.ServerConfig{RDMA: rpcrdma.Config{Credits: w.credits},
		Owner: func(netip.AddrPort, netip.AddrPort) transport.Owner {
			return transport.Owner{Kind: transport.OwnerRemote}
		}}, list...)
	dev := iwarp.Open(rnic.DeviceConfig{CRC: w.crc})
	l := dev.ListenOn(s.rdma)
	s.done.Go(func() { s.rpc.ServeRDMA(dev, l) })
	s.done.Go(func() { s.rpc.ServeTCP(s.tcp) })
	return s
}

// stalling returns a procedure that now and then waits before it runs, or before it replies.
func (w *filesWorld) stalling(run func(*transport.Call) error) func(*transport.Call) error {
	return func(c *transport.Call) error {
		before, after := w.stall(), w.stall()
		w.note("served, stalls %v and %v", before, after)
		time.Sleep(before)
		err := run(c)
		w.note("done")
		time.Sleep(after)
		return err
	}
}

func (w *filesWorld) stall() time.Duration {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.rng.IntN(w.stallOne) > 0 {
		return 0
	}
	return time.Duration(logUniform(w.rng, int(longestStall)))
}

// stop ends a run of the server. It waits for procedures that stall.
func (s *fileService) stop() {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	s.rpc.Shutdown(ctx)
	s.nfs.Close()
	s.done.Wait()
}

// restart simulates a power failure: unsynced data is gone, and another run begins.
func (w *filesWorld) restart() {
	w.mu.Lock()
	old := w.service
	w.mu.Unlock()
	w.history.crash()
	if err := old.fs.fail(); err != nil {
		w.fail("power failure: %v", err)
	}
	w.ending.Go(old.stop)
	s := w.serve()
	w.mu.Lock()
	w.service = s
	w.mu.Unlock()
	w.cut()
}

func (w *filesWorld) wrote(p []byte, off uint64) {
	w.note("on the disk at %d: %x", off, p[:min(len(p), 4)])
}

func newDisk() *disk { return &disk{FS: memfs.New(memfs.Options{})} }
