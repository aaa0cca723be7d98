// The rig: this test binary as the child processes, and a server with one export whose file tree
// can lie.

package bench

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/nfsrdma/nfsrdma/cmd/internal/child"
	"github.com/nfsrdma/nfsrdma/nfsclient"
	"github.com/nfsrdma/nfsrdma/nfsserver"
	"github.com/nfsrdma/nfsrdma/nfsserver/memfs"
	"github.com/nfsrdma/nfsrdma/rnic"
	"github.com/nfsrdma/nfsrdma/rnic/iwarp"
	"github.com/nfsrdma/nfsrdma/transport"
)

// TestMain lets the test binary be the other end of a measurement, as the program can.
func TestMain(m *testing.M) {
	if !slices.Contains(os.Environ(), child.Env) {
		UDPOverdue, cleanUpTime = time.Minute, time.Minute
		os.Exit(m.Run())
	}
	var err error
	switch args := os.Args[1:]; {
	case slices.Equal(args, []string{"_rawtcp"}):
		err = RawPeer("127.0.0.1:0", os.Stdin, os.Stdout)
	case slices.Equal(args, []string{"_rawudp"}):
		err = RawUDPPeer(os.Stdin, os.Stdout)
	case slices.Equal(args, []string{"_rnicpeer", "--datagrams"}):
		err = DatagramPeer(os.Stdin, os.Stdout)
	case len(args) == 4 && args[0] == "_rnicpeer":
		mode := Mode{CRC: args[1] == "--crc=true", Markers: args[2] == "--markers=true", RoCE: args[3] == "--roce=true"}
		err = VerbsPeer(context.Background(), mode, os.Stdin, os.Stdout)
	case len(args) == 5 && args[0] == "_mount":
		err = (&standIn{mode: args[1], what: args[2], dir: args[3], log: args[4]}).serve()
	default:
		err = fmt.Errorf("a child is asked for %q", args)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// A liar is a file tree that changes reads and writes as a test requests. The lock orders changes
// of the functions for the race detector, which cannot see their order through mount and server.
type liar struct {
	nfsserver.FS
	mu    sync.Mutex                       // guards the next fields while the tree is served
	read  func(p []byte, off uint64)       // changes the data read; nil: unchanged
	write func(p []byte, off uint64) error // called before each write; nil: all succeed
}

func (l *liar) onRead(f func(p []byte, off uint64)) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.read = f
}

func (l *liar) onWrite(f func(p []byte, off uint64) error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.write = f
}

func (l *liar) lies() (read func(p []byte, off uint64), write func(p []byte, off uint64) error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.read, l.write
}

func (l *liar) ReadAt(c nfsserver.Cred, r nfsserver.Ref, p []byte, off uint64) (int, error) {
	n, err := l.FS.ReadAt(c, r, p, off)
	if lie, _ := l.lies(); lie != nil {
		lie(p[:n], off)
	}
	return n, err
}

func (l *liar) WriteAt(c nfsserver.Cred, r nfsserver.Ref, p []byte, off uint64) (int, error) {
	if _, lie := l.lies(); lie != nil {
		if err := lie(p, off); err != nil {
			return 0, err
		}
	}
	return l.FS.WriteAt(c, r, p, off)
}

// serve exports tree over a transport and mounts it.
func serve(t *testing.T, over nfsclient.Transport, tree nfsserver.FS) *nfsclient.FS {
	t.Helper()
	srv, err := nfsserver.New(nfsserver.Options{AsyncNames: true, Exports: []nfsserver.Export{{Name: "/x", FS: tree}},
		Squash: nfsserver.Squash{All: true, UID: uint32(os.Geteuid()), GID: uint32(os.Getegid())}})
	if err != nil {
		t.Fatalf("New: %v", err)
	}
	rpc := transport.NewServer(transport.ServerConfig{}, srv.Programs()...)
	served := make(chan struct{})
	var addr string
	if over == nfsclient.RDMA {
		dev := iwarp.Open(rnic.DeviceConfig{})
		l, err := dev.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatalf("Listen: %v", err)
		}
		addr = l.Addr().String()
		go func() { defer close(served); _ = rpc.ServeRDMA(dev, l) }()
	} else {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatalf("net.Listen: %v", err)
		}
		addr = l.Addr().String()
		go func() { defer close(served); _ = rpc.ServeTCP(l) }()
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		_ = rpc.Shutdown(ctx)
		<-served
		srv.Close()
	})
	c, err := nfsclient.Dial(t.Context(), addr, nfsclient.Options{Transport: over})
	if err != nil {
		t.Fatalf("Dial: %v", err)
	}
	t.Cleanup(func() { c.Close() })
	fsys, _, err := c.MountPath(t.Context(), "/x")
	if err != nil {
		t.Fatalf("MountPath: %v", err)
	}
	return fsys
}

// memory returns a tree owned by the tests' user.
func memory() nfsserver.FS {
	return memfs.New(memfs.Options{UID: uint32(os.Geteuid()), GID: uint32(os.Getegid())})
}

// left fails the test if a measurement left its file.
func left(t *testing.T, fsys *nfsclient.FS, name string) {
	t.Helper()
	if _, err := fsys.Stat(t.Context(), name); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("%s is still there: %v", path.Base(name), err)
	}
}
