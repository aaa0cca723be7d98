// A server in this process and its client, for tests of procedures.

package nfsserver_test

import (
	"context"
	"testing"
	"time"

	"github.com/nfsrdma/nfsrdma/nfsserver"
	"github.com/nfsrdma/nfsrdma/nfsserver/memfs"
	"github.com/nfsrdma/nfsrdma/nfsserver/osfs"
	"github.com/nfsrdma/nfsrdma/rnic"
	"github.com/nfsrdma/nfsrdma/rnic/iwarp"
	"github.com/nfsrdma/nfsrdma/transport"
	"github.com/nfsrdma/nfsrdma/xdr"
	"github.com/nfsrdma/nfsrdma/xdr/mount3"
	"github.com/nfsrdma/nfsrdma/xdr/nfs3"
)

// root is the superuser, and user an ordinary user.
var (
	root = transport.Cred{Flavor: 1, Machine: "test"}
	user = transport.Cred{Flavor: 1, Machine: "test", UID: 1000, GID: 1000, GIDs: []uint32{100, 200}}
)

// believeAll accepts the users that callers claim, also those of local callers and root.
var believeAll = nfsserver.Squash{NoRootSquash: true, TrustLocal: true}

// A host is a running Server.
type host struct {
	*testing.T
	srv *nfsserver.Server
	svc *nfsserver.Service
}

// serve starts a Server, which ends with the test.
func serve(t *testing.T, o nfsserver.Options) *host {
	t.Helper()
	srv, err := nfsserver.New(o)
	if err != nil {
		t.Fatalf("nfsserver.New: %v", err)
	}
	svc, err := srv.Start(nfsserver.Listen{TCP: "127.0.0.1:0", RDMA: "127.0.0.1:0"})
	if err != nil {
		t.Fatalf("Start: %v", err)
	}
	h := &host{t, srv, svc}
	t.Cleanup(func() { h.stop() })
	return h
}

func (h *host) stop() {
	if h.svc == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if err := h.svc.Shutdown(ctx); err != nil {
		h.Errorf("Shutdown: %v", err)
	}
	if err := h.srv.Close(); err != nil {
		h.Errorf("Close: %v", err)
	}
	h.svc = nil
}

func memory(t *testing.T) nfsserver.FS { return memfs.New(memfs.Options{}) }

func disk(t *testing.T) nfsserver.FS { return diskAt(t, t.TempDir()) }

func diskAt(t *testing.T, dir string) nfsserver.FS {
	t.Helper()
	f, err := osfs.New(dir, osfs.Options{})
	if err != nil {
		t.Fatalf("osfs.New: %v", err)
	}
	return f
}

// A client is a connection with one identity, and the root of its mount.
type client struct {
	*testing.T
	rpc  *transport.Client
	root nfs3.FH
}

// dial connects over TCP with the credential cred.
func (h *host) dial(cred transport.Cred) *client {
	h.Helper()
	rpc, err := transport.DialTCP(context.Background(), h.svc.TCPAddr.String(), transport.ClientConfig{Cred: cred})
	if err != nil {
		h.Fatalf("transport.DialTCP: %v", err)
	}
	h.Cleanup(func() { rpc.Close() })
	return &client{T: h.T, rpc: rpc}
}

// dialRDMA connects over RDMA with the credential cred.
func (h *host) dialRDMA(cred transport.Cred) *client {
	h.Helper()
	rpc, err := transport.DialRDMA(context.Background(), iwarp.Open(rnic.DeviceConfig{}), h.svc.RDMAAddr.String(), transport.ClientConfig{Cred: cred})
	if err != nil {
		h.Fatalf("transport.DialRDMA: %v", err)
	}
	h.Cleanup(func() { rpc.Close() })
	return &client{T: h.T, rpc: rpc}
}

// mount mounts path, and makes its root the client's root.
func (c *client) mount(path string) *client {
	c.Helper()
	var res mount3.MntRes
	c.mountCall(mount3.ProcMnt, &mount3.PathArgs{Path: path}, &res)
	if res.Status != mount3.OK {
		c.Fatalf("MNT %s: %v", path, res.Status)
	}
	fh, err := nfs3.MakeFH(res.Handle)
	if err != nil {
		c.Fatalf("nfs3.MakeFH: %v", err)
	}
	c.root = fh
	return c
}

// A void has no arguments and no results.
type void struct{}

func (void) EncodeXDR(*xdr.Encoder) {}
func (void) DecodeXDR(*xdr.Decoder) {}

func (c *client) mountCall(proc uint32, args xdr.Marshaler, res xdr.Unmarshaler) {
	c.Helper()
	p := transport.Proc{Prog: mount3.Program, Vers: mount3.Version, Proc: proc, Name: "MOUNT", MaxReply: 64 << 10}
	if err := c.rpc.Call(context.Background(), &p, args, res, nil, 0); err != nil {
		c.Fatalf("MOUNT procedure %d: %v", proc, err)
	}
}

// call makes an NFS call, and fails the test unless it is answered.
func (c *client) call(proc uint32, args xdr.Marshaler, res xdr.Unmarshaler) {
	c.Helper()
	if err := c.try(proc, args, res); err != nil {
		c.Fatalf("%s: %v", nfs3.Bindings[proc].Name, err)
	}
}

func (c *client) try(proc uint32, args xdr.Marshaler, res xdr.Unmarshaler) error {
	b := &nfs3.Bindings[proc]
	p := transport.Proc{Prog: nfs3.Program, Vers: nfs3.Version, Proc: proc, Name: b.Name, MaxReply: b.MaxReply}
	extra := 0
	if b.Grows != nfs3.GrowsNot {
		extra = nfsserver.MaxIO
	}
	return c.rpc.Call(context.Background(), &p, args, res, nil, extra)
}

// want fails the test unless got is want.
func (c *client) want(what string, got, want nfs3.Status) {
	c.Helper()
	if got != want {
		c.Errorf("%s: %v, want %v", what, got, want)
	}
}

func where(dir nfs3.FH, name string) nfs3.DirOpArgs {
	return nfs3.DirOpArgs{Dir: dir, Name: []byte(name)}
}

// The next methods each call one procedure, and return its results.

func (c *client) getattr(fh nfs3.FH) (res nfs3.GetattrRes) {
	c.Helper()
	c.call(nfs3.ProcGetattr, &nfs3.GetattrArgs{FH: fh}, &res)
	return res
}

// attr is like getattr, and fails the test if the status is an error.
func (c *client) attr(fh nfs3.FH) nfs3.Fattr {
	c.Helper()
	res := c.getattr(fh)
	c.want("GETATTR", res.Status, nfs3.OK)
	return res.Attr
}

func (c *client) setattr(fh nfs3.FH, s nfs3.Sattr) (res nfs3.SetattrRes) {
	c.Helper()
	c.call(nfs3.ProcSetattr, &nfs3.SetattrArgs{FH: fh, Attr: s}, &res)
	return res
}

func (c *client) lookup(dir nfs3.FH, name string) (res nfs3.LookupRes) {
	c.Helper()
	a := where(dir, name)
	c.call(nfs3.ProcLookup, &a, &res)
	return res
}

func (c *client) access(fh nfs3.FH, bits uint32) uint32 {
	c.Helper()
	var res nfs3.AccessRes
	c.call(nfs3.ProcAccess, &nfs3.AccessArgs{FH: fh, Access: bits}, &res)
	c.want("ACCESS", res.Status, nfs3.OK)
	return res.Access
}

// read returns a copy of the data in res.Data.
func (c *client) read(fh nfs3.FH, off uint64, n uint32) (res nfs3.ReadRes, data string) {
	c.Helper()
	keep := readRes{ReadRes: &res}
	c.call(nfs3.ProcRead, &nfs3.ReadArgs{FH: fh, Offset: off, Count: n}, &keep)
	return res, keep.data
}

// A readRes copies the data before the message is freed.
type readRes struct {
	*nfs3.ReadRes
	data string
}

func (r *readRes) DecodeXDR(d *xdr.Decoder) {
	r.ReadRes.DecodeXDR(d)
	r.data = string(r.Data)
}

func (c *client) write(fh nfs3.FH, off uint64, data string, how nfs3.StableHow) (res nfs3.WriteRes) {
	c.Helper()
	c.call(nfs3.ProcWrite, &nfs3.WriteArgs{FH: fh, Offset: off, Count: uint32(len(data)), Stable: how, Data: []byte(data)}, &res)
	return res
}

func (c *client) commit(fh nfs3.FH) (res nfs3.CommitRes) {
	c.Helper()
	c.call(nfs3.ProcCommit, &nfs3.CommitArgs{FH: fh}, &res)
	return res
}

func (c *client) create(dir nfs3.FH, name string, mode nfs3.CreateMode, s nfs3.Sattr, v nfs3.Verf) (res nfs3.CreateRes) {
	c.Helper()
	c.call(nfs3.ProcCreate, &nfs3.CreateArgs{Where: where(dir, name), Mode: mode, Attr: s, Verf: v}, &res)
	return res
}

// file creates a file that must not exist yet, and returns its handle.
func (c *client) file(dir nfs3.FH, name string, mode uint32) nfs3.FH {
	c.Helper()
	res := c.create(dir, name, nfs3.Guarded, nfs3.Sattr{SetMode: true, Mode: mode}, nfs3.Verf{})
	c.want("CREATE "+name, res.Status, nfs3.OK)
	return res.FH.FH
}

func (c *client) mkdir(dir nfs3.FH, name string, mode uint32) (res nfs3.MkdirRes) {
	c.Helper()
	c.call(nfs3.ProcMkdir, &nfs3.MkdirArgs{Where: where(dir, name), Attr: nfs3.Sattr{SetMode: true, Mode: mode}}, &res)
	return res
}

// dir creates a directory that must not exist yet, and returns its handle.
func (c *client) dir(dir nfs3.FH, name string, mode uint32) nfs3.FH {
	c.Helper()
	res := c.mkdir(dir, name, mode)
	c.want("MKDIR "+name, res.Status, nfs3.OK)
	return res.FH.FH
}

func (c *client) symlink(dir nfs3.FH, name, target string) (res nfs3.SymlinkRes) {
	c.Helper()
	c.call(nfs3.ProcSymlink, &nfs3.SymlinkArgs{Where: where(dir, name), Path: []byte(target)}, &res)
	return res
}

func (c *client) readlink(fh nfs3.FH) (nfs3.ReadlinkRes, string) {
	c.Helper()
	var res nfs3.ReadlinkRes
	keep := linkRes{ReadlinkRes: &res}
	c.call(nfs3.ProcReadlink, &nfs3.ReadlinkArgs{FH: fh}, &keep)
	return res, keep.path
}

type linkRes struct {
	*nfs3.ReadlinkRes
	path string
}

func (r *linkRes) DecodeXDR(d *xdr.Decoder) {
	r.ReadlinkRes.DecodeXDR(d)
	r.path = string(r.Path)
}

func (c *client) mknod(dir nfs3.FH, name string, t nfs3.FileType, rdev nfs3.Specdata) (res nfs3.MknodRes) {
	c.Helper()
	c.call(nfs3.ProcMknod, &nfs3.MknodArgs{Where: where(dir, name), Type: t, Attr: nfs3.Sattr{SetMode: true, Mode: 0o600}, Rdev: rdev}, &res)
	return res
}

func (c *client) remove(dir nfs3.FH, name string) (res nfs3.RemoveRes) {
	c.Helper()
	a := where(dir, name)
	c.call(nfs3.ProcRemove, &a, &res)
	return res
}

func (c *client) rmdir(dir nfs3.FH, name string) (res nfs3.RmdirRes) {
	c.Helper()
	a := where(dir, name)
	c.call(nfs3.ProcRmdir, &a, &res)
	return res
}

func (c *client) rename(from nfs3.FH, old string, to nfs3.FH, name string) (res nfs3.RenameRes) {
	c.Helper()
	c.call(nfs3.ProcRename, &nfs3.RenameArgs{From: where(from, old), To: where(to, name)}, &res)
	return res
}

func (c *client) link(fh, dir nfs3.FH, name string) (res nfs3.LinkRes) {
	c.Helper()
	c.call(nfs3.ProcLink, &nfs3.LinkArgs{FH: fh, Link: where(dir, name)}, &res)
	return res
}
