// The rig for tests with several servers: servers of one directory with one handle key, killed and
// restarted.

package nfsclient_test

import (
	"context"
	"net"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nfsrdma/nfsrdma/nfsclient"
	"github.com/nfsrdma/nfsrdma/nfsserver"
	"github.com/nfsrdma/nfsrdma/nfsserver/osfs"
	"github.com/nfsrdma/nfsrdma/rnic"
	"github.com/nfsrdma/nfsrdma/rnic/iwarp"
	"github.com/nfsrdma/nfsrdma/test/machine"
	"github.com/nfsrdma/nfsrdma/test/must"
	"github.com/nfsrdma/nfsrdma/transport"
	"github.com/nfsrdma/nfsrdma/xdr/nfs3"
)

// A twin is one of several servers of the same directory.
type twin struct {
	t        *testing.T
	tr       nfsclient.Transport
	addr     string // "host:port", the same after each start
	programs []*transport.Program

	rpc  *transport.Server // nil: the server has been killed
	done chan struct{}
}

// newTwin starts a server of a directory at its own address. rows replace procedures in the table
// of NFSv3; each function gets the original.
func newTwin(t *testing.T, tr nfsclient.Transport, dir string, key byte, rows map[uint32]func(run) run) *twin {
	t.Helper()
	tree, err := osfs.New(dir, osfs.Options{})
	must.Succeed(t, err)
	srv, err := nfsserver.New(nfsserver.Options{
		Exports: []nfsserver.Export{{Name: exportName, FS: tree}}, Key: [nfsserver.KeySize]byte{key}, AsyncNames: true,
		Squash: nfsserver.Squash{All: true, UID: uint32(os.Geteuid()), GID: uint32(os.Getegid())},
	})
	must.Succeed(t, err)
	t.Cleanup(func() { srv.Close() })
	w := &twin{t: t, tr: tr, addr: machine.Addr(t).String() + ":0", programs: slices.Clone(srv.Programs())}
	for i, p := range w.programs {
		if p.Number == nfs3.Program {
			changed := *p
			changed.Procs = slices.Clone(p.Procs)
			for n, wrap := range rows {
				changed.Procs[n].Run = wrap(p.Procs[n].Run)
			}
			w.programs[i] = &changed
		}
	}
	w.start()
	t.Cleanup(w.kill)
	return w
}

// start starts the server again, at its previous address.
func (w *twin) start() {
	w.t.Helper()
	rpc, dev, done := transport.NewServer(transport.ServerConfig{}, w.programs...), iwarp.Open(rnic.DeviceConfig{}), make(chan struct{})
	if w.tr == nfsclient.TCP {
		l, err := net.Listen("tcp", w.addr)
		must.Succeed(w.t, err)
		w.addr = l.Addr().String()
		go func() { defer close(done); rpc.ServeTCP(l) }()
	} else {
		l, err := dev.Listen("tcp", w.addr)
		must.Succeed(w.t, err)
		w.addr = l.Addr().String()
		go func() { defer close(done); rpc.ServeRDMA(dev, l) }()
	}
	w.rpc, w.done = rpc, done
}

// kill ends all connections without answering the calls in flight.
func (w *twin) kill() {
	if w.rpc == nil {
		return
	}
	dead, cancel := context.WithCancel(context.Background())
	cancel()
	w.rpc.Shutdown(dead)
	<-w.done
	w.rpc = nil
}

// together returns the servers' addresses as one argument for Dial.
func together(twins ...*twin) string {
	var all []string
	for _, w := range twins {
		all = append(all, w.addr)
	}
	return strings.Join(all, ",")
}

// eachTwin runs a test over each transport, each in a new directory.
func eachTwin(t *testing.T, f func(t *testing.T, tr nfsclient.Transport, dir string)) {
	for _, tr := range []nfsclient.Transport{nfsclient.RDMA, nfsclient.TCP} {
		t.Run(tr.String(), func(t *testing.T) {
			nfsclient.BeginWith(t, 0)
			nfsclient.WaitForServers(t)
			f(t, tr, t.TempDir())
		})
	}
}

// mountTwins mounts the servers' directory with hard calls.
func mountTwins(t *testing.T, opt nfsclient.Options, twins ...*twin) *nfsclient.FS {
	t.Helper()
	opt.Transport = twins[0].tr
	if opt.CallTimeout == 0 {
		opt.CallTimeout = transport.Hard
	}
	c, err := nfsclient.Dial(t.Context(), together(twins...), opt)
	must.Succeed(t, err)
	t.Cleanup(func() { c.Close() })
	fsys, err := c.Mount(t.Context(), exportName)
	must.Succeed(t, err)
	return fsys
}

// moves records the calls of Options.Moved.
type moves struct {
	mu   sync.Mutex
	list []move
}

type move struct {
	to  string
	err error
}

func (m *moves) told(to string, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.list = append(m.list, move{to, err})
}

func (m *moves) all() []move {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Clone(m.list)
}

// within waits for a condition, and fails the test if it takes too long.
func within(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(2 * time.Minute); !ok(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal(what)
		}
	}
}
