// A whole server in this process, over RDMA and TCP, for tests and attacks.

// Package rig is shared by the tests of the whole stack: a server, its clients, a client that
// continues to work meanwhile, and the check for leaks.
package rig

import (
	"context"
	"net"
	"os"
	"testing"
	"time"

	"github.com/nfsrdma/nfsrdma/nfsclient"
	"github.com/nfsrdma/nfsrdma/nfsserver"
	"github.com/nfsrdma/nfsrdma/nfsserver/memfs"
	"github.com/nfsrdma/nfsrdma/nfsserver/osfs"
	"github.com/nfsrdma/nfsrdma/rnic"
	"github.com/nfsrdma/nfsrdma/rnic/iwarp"
	"github.com/nfsrdma/nfsrdma/transport"
)

// Export is the export name of every Server.
const Export = "/rig"

// Config configures a Server. The zero value serves an empty memfs.
type Config struct {
	Host   string       // address to listen on; "": 127.0.0.1
	RoCE   *rnic.Device // serves RDMA by this device instead of iWARP, on port 20049 of Host
	Dir    string       // serve this directory; "": a file tree in memory
	FS     osfs.Options // of Dir
	Device rnic.DeviceConfig
	Server transport.ServerConfig
	// Squash maps callers; nil: all callers are the user of this process.
	Squash *nfsserver.Squash
	// Export, if set, changes the tree before it is served.
	Export func(fs nfsserver.FS)
	// Wrap, if set, returns the tree to serve instead.
	Wrap func(fs nfsserver.FS) nfsserver.FS
}

// A Server serves one tree on two loopback ports until the test ends.
type Server struct {
	RDMA, TCP string // addresses
}

// Start starts a Server.
func Start(t testing.TB, cfg Config) *Server {
	t.Helper()
	uid, gid := uint32(os.Geteuid()), uint32(os.Getegid())
	var tree nfsserver.FS = memfs.New(memfs.Options{UID: uid, GID: gid})
	if cfg.Dir != "" {
		dir, err := osfs.New(cfg.Dir, cfg.FS)
		if err != nil {
			t.Fatal(err)
		}
		tree = dir
	}
	if cfg.Export != nil {
		cfg.Export(tree)
	}
	if cfg.Wrap != nil {
		tree = cfg.Wrap(tree)
	}
	squash := nfsserver.Squash{All: true, UID: uid, GID: gid}
	if cfg.Squash != nil {
		squash = *cfg.Squash
	}
	srv, err := nfsserver.New(nfsserver.Options{Exports: []nfsserver.Export{{Name: Export, FS: tree}}, Squash: squash})
	if err != nil {
		t.Fatal(err)
	}
	rpc := transport.NewServer(cfg.Server, srv.Programs()...)
	dev := iwarp.Open(cfg.Device)
	if cfg.Host == "" {
		cfg.Host = "127.0.0.1"
	}
	at := ":0"
	if cfg.RoCE != nil {
		dev, at = cfg.RoCE, ":20049"
	}
	rl, err := dev.Listen("tcp", cfg.Host+at)
	if err != nil {
		t.Fatal(err)
	}
	tl, err := net.Listen("tcp", cfg.Host+":0")
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan error, 2)
	go func() { served <- rpc.ServeRDMA(dev, rl) }()
	go func() { served <- rpc.ServeTCP(tl) }()
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		if err := rpc.Shutdown(ctx); err != nil {
			t.Errorf("shutdown: %v", err)
		}
		<-served
		<-served
		if err := srv.Close(); err != nil {
			t.Errorf("closing the exports: %v", err)
		}
	})
	return &Server{RDMA: rl.Addr().String(), TCP: tl.Addr().String()}
}

// Addr returns the server's address for one kind of client.
func (s *Server) Addr(tr nfsclient.Transport) string {
	if tr == nfsclient.TCP {
		return s.TCP
	}
	return s.RDMA
}

// Mount mounts the export with a separate client, closed at the end of the test.
func (s *Server) Mount(t testing.TB, opt nfsclient.Options) *nfsclient.FS {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	c, err := nfsclient.Dial(ctx, s.Addr(opt.Transport), opt)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	f, err := c.Mount(ctx, Export)
	if err != nil {
		t.Fatal(err)
	}
	return f
}
