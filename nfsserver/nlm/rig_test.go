// A running Server with locks, clients made by hand, and the clients' lock managers and status
// monitors.

package nlm

import (
	"context"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"sync"
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
	"github.com/nfsrdma/nfsrdma/xdr/nlm4"
	"github.com/nfsrdma/nfsrdma/xdr/nsm"
)

const patience = time.Minute

// A rig is a Server with locks that exports a directory as /disk, and a tree in memory as /memory.
type rig struct {
	*testing.T
	dir    string
	srv    *nfsserver.Server
	nfs    *nfsserver.Service
	locks  *Service
	daemon *daemon
}

// A daemon acts as the lock manager and the status monitor of a client.
type daemon struct {
	mu       sync.Mutex
	fail     int         // number of GRANTED calls to leave unanswered
	answer   nlm4.Status // the reply to GRANTED
	granted  chan nlm4.TestArgs
	results  chan nlm4.Res
	notified chan nsm.StatChange
	port     uint16
	asked    int // number of port mapper queries
}

func newDaemon(t *testing.T) *daemon {
	d := &daemon{granted: make(chan nlm4.TestArgs, 1000), results: make(chan nlm4.Res, 100), notified: make(chan nsm.StatChange, 100)}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatalf("net.Listen: %v", err)
	}
	d.port = netip.MustParseAddrPort(l.Addr().String()).Port()
	result := func(c *transport.Call) error {
		var r nlm4.Res
		r.DecodeXDR(c.Args)
		r.Cookie = append([]byte(nil), r.Cookie...)
		d.results <- r
		return nil
	}
	locks := make([]transport.Procedure, nlm4.ProcGrantedRes+1)
	locks[nlm4.ProcGranted] = transport.Procedure{Name: "GRANTED", Run: d.runGranted, Idempotent: true}
	for n := nlm4.ProcTestRes; n <= nlm4.ProcGrantedRes; n++ {
		locks[n] = transport.Procedure{Name: "RES", Run: result}
	}
	stat := make([]transport.Procedure, nsm.ProcNotify+1)
	stat[nsm.ProcNotify] = transport.Procedure{Name: "NOTIFY", Run: func(c *transport.Call) error {
		var a nsm.StatChange
		a.DecodeXDR(c.Args)
		a.Name = append([]byte(nil), a.Name...)
		d.notified <- a
		return nil
	}}
	srv := transport.NewServer(transport.ServerConfig{},
		&transport.Program{Name: "nlm", Number: nlm4.Program, Version: nlm4.Version, Procs: locks},
		&transport.Program{Name: "nsm", Number: nsm.Program, Version: nsm.Version, Procs: stat})
	go srv.ServeTCP(l)
	t.Cleanup(func() { srv.Shutdown(context.Background()) })
	return d
}

func (d *daemon) runGranted(c *transport.Call) error {
	var a nlm4.TestArgs
	a.DecodeXDR(c.Args)
	if err := c.ArgsErr(); err != nil {
		return err
	}
	d.mu.Lock()
	lost, answer := d.fail > 0, d.answer
	d.fail--
	d.mu.Unlock()
	if lost {
		return transport.ErrSystem
	}
	res := nlm4.Res{Cookie: a.Cookie, Status: answer}
	res.EncodeXDR(c.Res)
	a.Lock.Owner = append([]byte(nil), a.Lock.Owner...)
	d.granted <- a
	return nil
}

// set changes how the next GRANTED calls are answered.
func (d *daemon) set(fail int, answer nlm4.Status) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.fail, d.answer = fail, answer
}

// newRig starts a rig. If tune is not nil, it changes the service before the start.
func newRig(t *testing.T, o Options, squash nfsserver.Squash, readOnly bool, tune func(*Service)) *rig {
	t.Helper()
	r := &rig{T: t, dir: t.TempDir(), daemon: newDaemon(t)}
	if err := os.Chmod(r.dir, 0o755); err != nil {
		t.Fatalf("os.Chmod: %v", err)
	}
	r.begin(o, squash, readOnly, tune)
	t.Cleanup(r.end)
	return r
}

var believeAll = nfsserver.Squash{NoRootSquash: true, TrustLocal: true}

// plainRig is like newRig, with default options.
func plainRig(t *testing.T) *rig { return newRig(t, Options{}, believeAll, false, nil) }

func (r *rig) begin(o Options, squash nfsserver.Squash, readOnly bool, tune func(*Service)) {
	r.Helper()
	disk, err := osfs.New(r.dir, osfs.Options{})
	if err != nil {
		r.Fatalf("osfs.New: %v", err)
	}
	r.srv, err = nfsserver.New(nfsserver.Options{Key: [nfsserver.KeySize]byte{1}, Squash: squash, Exports: []nfsserver.Export{
		{Name: "/disk", FS: disk, ReadOnly: readOnly}, {Name: "/memory", FS: memfs.New(memfs.Options{Mode: 0o777})}}})
	if err != nil {
		r.Fatalf("nfsserver.New: %v", err)
	}
	r.locks = newService(r.srv, o)
	r.locks.pause = 5 * time.Millisecond
	r.locks.portOf = func(context.Context, netip.Addr, uint32, uint32) (uint16, error) {
		r.daemon.mu.Lock()
		defer r.daemon.mu.Unlock()
		r.daemon.asked++
		return r.daemon.port, nil
	}
	if tune != nil {
		tune(r.locks)
	}
	if err := r.locks.monitor.load(o.StateDir); err != nil {
		r.Fatalf("load: %v", err)
	}
	r.locks.start()
	r.nfs, err = r.srv.Start(nfsserver.Listen{TCP: "127.0.0.1:0", RDMA: "127.0.0.1:0", Programs: r.locks.Programs()})
	if err != nil {
		r.Fatalf("Start: %v", err)
	}
}

func (r *rig) end() {
	if r.nfs == nil {
		return
	}
	if err := r.nfs.Shutdown(context.Background()); err != nil {
		r.Errorf("Shutdown: %v", err)
	}
	r.locks.Close()
	if err := r.srv.Close(); err != nil {
		r.Errorf("Close: %v", err)
	}
	r.nfs = nil
}

var (
	rootCred = transport.Cred{Flavor: 1, Machine: "test"}
	userCred = transport.Cred{Flavor: 1, Machine: "test", UID: 1000, GID: 1000}
)

// A peer is a client: a connection, and the name that the client gives itself.
type peer struct {
	*testing.T
	rpc  *transport.Client
	name string
}

func (r *rig) tcp(name string, cred transport.Cred) *peer {
	r.Helper()
	rpc, err := transport.DialTCP(context.Background(), r.nfs.TCPAddr.String(), transport.ClientConfig{Cred: cred})
	if err != nil {
		r.Fatalf("transport.DialTCP: %v", err)
	}
	r.Cleanup(func() { rpc.Close() })
	return &peer{r.T, rpc, name}
}

func (r *rig) rdma(name string, cred transport.Cred) *peer {
	r.Helper()
	rpc, err := transport.DialRDMA(context.Background(), iwarp.Open(rnic.DeviceConfig{}), r.nfs.RDMAAddr.String(), transport.ClientConfig{Cred: cred})
	if err != nil {
		r.Fatalf("transport.DialRDMA: %v", err)
	}
	r.Cleanup(func() { rpc.Close() })
	return &peer{r.T, rpc, name}
}

// do makes a call, and fails the test unless the call is answered.
func (p *peer) do(prog, vers, proc uint32, args xdr.Marshaler, res xdr.Unmarshaler) {
	p.Helper()
	c := transport.Proc{Prog: prog, Vers: vers, Proc: proc, Name: "call", MaxReply: 8 << 10}
	if err := p.rpc.Call(context.Background(), &c, args, res, nil, 0); err != nil {
		p.Fatalf("program %d procedure %d: %v", prog, proc, err)
	}
}

// file returns the handle of a file in an export; in /memory it creates the file.
func (p *peer) file(export, name string) []byte {
	p.Helper()
	var mnt mount3.MntRes
	p.do(mount3.Program, mount3.Version, mount3.ProcMnt, &mount3.PathArgs{Path: export}, &mnt)
	root, err := nfs3.MakeFH(mnt.Handle)
	if err != nil {
		p.Fatalf("MNT: %v, %v", mnt.Status, err)
	}
	at := nfs3.DirOpArgs{Dir: root, Name: []byte(name)}
	if export == "/memory" {
		var made nfs3.CreateRes
		p.do(nfs3.Program, nfs3.Version, nfs3.ProcCreate, &nfs3.CreateArgs{Where: at, Mode: nfs3.Unchecked}, &made)
	}
	var res nfs3.LookupRes
	p.do(nfs3.Program, nfs3.Version, nfs3.ProcLookup, &at, &res)
	if res.Status != nfs3.OK {
		p.Fatalf("LOOKUP %s: %v", name, res.Status)
	}
	return res.FH.Bytes()
}

// newFile creates a file in /disk with the given mode, and returns its path.
func (r *rig) newFile(name string, mode os.FileMode) string {
	r.Helper()
	path := filepath.Join(r.dir, name)
	if err := os.WriteFile(path, []byte("0123456789"), mode); err != nil {
		r.Fatalf("os.WriteFile: %v", err)
	}
	if err := os.Chmod(path, mode); err != nil {
		r.Fatalf("os.Chmod: %v", err)
	}
	return path
}

func (p *peer) about(fh []byte, svid int32, off, n uint64) nlm4.Lock {
	return nlm4.Lock{Caller: []byte(p.name), FH: fh, Owner: []byte("owner"), Svid: svid, Offset: off, Length: n}
}

// lock sends LOCK without waiting.
func (p *peer) lock(fh []byte, svid int32, off, n uint64, exclusive bool) nlm4.Status {
	p.Helper()
	return p.lockArgs(&nlm4.LockArgs{Exclusive: exclusive, Lock: p.about(fh, svid, off, n)})
}

// block sends a blocking LOCK.
func (p *peer) block(fh []byte, svid int32, off, n uint64, exclusive bool) nlm4.Status {
	p.Helper()
	return p.lockArgs(&nlm4.LockArgs{Block: true, Exclusive: exclusive, Lock: p.about(fh, svid, off, n)})
}

func (p *peer) lockArgs(a *nlm4.LockArgs) nlm4.Status {
	p.Helper()
	a.Cookie = []byte("cookie")
	return p.status(nlm4.ProcLock, a)
}

func (p *peer) unlock(fh []byte, svid int32, off, n uint64) nlm4.Status {
	p.Helper()
	return p.status(nlm4.ProcUnlock, &nlm4.UnlockArgs{Cookie: []byte("cookie"), Lock: p.about(fh, svid, off, n)})
}

func (p *peer) cancel(fh []byte, svid int32, off, n uint64, exclusive bool) nlm4.Status {
	p.Helper()
	return p.status(nlm4.ProcCancel, &nlm4.CancelArgs{Cookie: []byte("cookie"), Block: true, Exclusive: exclusive, Lock: p.about(fh, svid, off, n)})
}

// status makes a call whose result is nlm4_res, and returns the status. The cookie in the reply
// must be "cookie".
func (p *peer) status(proc uint32, args xdr.Marshaler) nlm4.Status {
	p.Helper()
	var res nlm4.Res
	p.do(nlm4.Program, nlm4.Version, proc, args, &res)
	if len(res.Cookie) != len("cookie") {
		p.Errorf("procedure %d: a cookie of %d bytes", proc, len(res.Cookie))
	}
	return res.Status
}

func (p *peer) test(fh []byte, svid int32, off, n uint64, exclusive bool) (nlm4.Status, nlm4.Holder) {
	p.Helper()
	var res heldRes
	p.do(nlm4.Program, nlm4.Version, nlm4.ProcTest, &nlm4.TestArgs{Exclusive: exclusive, Lock: p.about(fh, svid, off, n)}, &res)
	return res.Status, res.Holder
}

// A heldRes copies the owner, which otherwise would be invalid once the message is freed.
type heldRes struct{ nlm4.TestRes }

func (r *heldRes) DecodeXDR(d *xdr.Decoder) {
	r.TestRes.DecodeXDR(d)
	r.Holder.Owner = append([]byte(nil), r.Holder.Owner...)
}

// want fails the test unless got is want.
func (p *peer) want(what string, got, want nlm4.Status) {
	p.Helper()
	if got != want {
		p.Errorf("%s: %v, want %v", what, got, want)
	}
}

// await waits for the next event in a channel.
func await[T any](t *testing.T, what string, c <-chan T) (v T) {
	t.Helper()
	select {
	case v = <-c:
	case <-time.After(patience):
		t.Fatalf("%s: nothing came", what)
	}
	return v
}
