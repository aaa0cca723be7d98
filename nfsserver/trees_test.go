// Trees selected for each caller: separate users and connections, handles of others, restarts,
// eviction, and removal while in use.

package nfsserver_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/nfsrdma/nfsrdma/nfsserver"
	"github.com/nfsrdma/nfsrdma/nfsserver/memfs"
	"github.com/nfsrdma/nfsrdma/test/must"
	"github.com/nfsrdma/nfsrdma/transport"
	"github.com/nfsrdma/nfsrdma/xdr"
	"github.com/nfsrdma/nfsrdma/xdr/mount3"
	"github.com/nfsrdma/nfsrdma/xdr/nfs3"
)

// A users has a tree for each user. User N can mount "", "me" or a directory below, or "N". Content
// stays while the FS is closed, as on a disk.
type users struct {
	t *testing.T

	mu      sync.Mutex
	content map[uint64]nfsserver.FS // the content of all trees, open or not
	open    map[uint64]bool
	gone    map[uint64]bool
	fails   error // the error of the next Open
	opened  int   // number of calls to Open
	most    int   // largest number of trees open at once
}

func newUsers(t *testing.T) *users {
	return &users{t: t, content: map[uint64]nfsserver.FS{}, open: map[uint64]bool{}, gone: map[uint64]bool{}}
}

func (u *users) Mount(c nfsserver.Caller, path string) (uint64, string, error) {
	name, rest, _ := strings.Cut(path, "/")
	tree := uint64(c.UID)
	if name != "" && name != "me" {
		n, err := strconv.ParseUint(name, 10, 64)
		if err != nil {
			return 0, "", fs.ErrNotExist
		}
		tree = n
	}
	return tree, rest, u.May(c, tree)
}

func (u *users) May(c nfsserver.Caller, tree uint64) error {
	u.mu.Lock()
	defer u.mu.Unlock()
	switch {
	case u.gone[tree]:
		return nfsserver.ErrStale
	case uint64(c.UID) != tree:
		return fs.ErrPermission
	}
	return nil
}

func (u *users) Open(c nfsserver.Caller, tree uint64) (nfsserver.FS, error) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.opened++; errors.Is(u.fails, errPanic) {
		panic(u.fails)
	} else if u.fails != nil {
		return nil, u.fails
	}
	if u.open[tree] {
		u.t.Errorf("tree %d is opened while it is open", tree)
	}
	if uint64(c.UID) != tree {
		u.t.Errorf("tree %d is opened for user %d", tree, c.UID)
	}
	if u.content[tree] == nil {
		u.content[tree] = memfs.New(memfs.Options{Mode: 0o777})
	}
	u.open[tree] = true
	u.most = max(u.most, len(u.open))
	return &userTree{FS: u.content[tree], of: u, number: tree}, nil
}

// errPanic makes Open panic.
var errPanic = errors.New("panic")

// A userTree is a tree that is open.
type userTree struct {
	nfsserver.FS
	of     *users
	number uint64
	closed atomic.Bool
}

func (f *userTree) Close() error {
	if f.closed.Swap(true) {
		f.of.t.Errorf("tree %d is closed twice", f.number)
	}
	f.of.mu.Lock()
	defer f.of.mu.Unlock()
	delete(f.of.open, f.number)
	return nil
}

func (f *userTree) Getattr(r nfsserver.Ref) (nfsserver.Attr, error) {
	if f.closed.Load() {
		f.of.t.Errorf("GETATTR in closed tree %d", f.number)
	}
	return f.FS.Getattr(r)
}

func (u *users) set(change func()) {
	u.mu.Lock()
	defer u.mu.Unlock()
	change()
}

// as returns the credential of a user.
func as(uid uint32) transport.Cred {
	return transport.Cred{Flavor: 1, Machine: "test", UID: uid, GID: uid}
}

// serveUsers serves trees as /home, with handles that stay valid.
func serveUsers(t *testing.T, u nfsserver.Trees, most int) *host {
	t.Helper()
	return serve(t, nfsserver.Options{Key: [nfsserver.KeySize]byte{7}, Squash: believeAll, Exports: []nfsserver.Export{{Name: "/home", Trees: u, MaxTrees: most}}})
}

// TestTreeOfEachUser: each user sees a tree of their own at the same path, over both transports. A
// handle from another user's tree is refused.
func TestTreeOfEachUser(t *testing.T) {
	h := serveUsers(t, newUsers(t), 0)
	a, b := h.dial(as(1)).mount("/home"), h.dialRDMA(as(2)).mount("/home")
	fa, fb := a.file(a.root, "f", 0o666), b.file(b.root, "f", 0o666)
	a.want("WRITE", a.write(fa, 0, "one", nfs3.FileSync).Status, nfs3.OK)
	b.want("WRITE", b.write(fb, 0, "two", nfs3.FileSync).Status, nfs3.OK)
	for _, c := range []struct {
		*client
		own, other nfs3.FH
		root       nfs3.FH
		data       string
	}{{a, fa, fb, b.root, "one"}, {b, fb, fa, a.root, "two"}, {h.dialRDMA(as(1)).mount("/home/me"), fa, fb, b.root, "one"}} {
		if _, data := c.read(c.own, 0, 10); data != c.data {
			t.Errorf("READ: %q, want %q", data, c.data)
		}
		c.want("GETATTR of another's file", c.getattr(c.other).Status, nfs3.ErrAcces)
		c.want("LOOKUP in another's root", c.lookup(c.root, "f").Status, nfs3.ErrAcces)
		c.want("WRITE to another's file", c.write(c.other, 0, "x", nfs3.FileSync).Status, nfs3.ErrAcces)
		c.want("RENAME into another's tree", c.rename(c.client.root, "f", c.root, "g").Status, nfs3.ErrXDev)
		c.want("LINK of one's own file there", c.link(c.own, c.root, "g").Status, nfs3.ErrXDev)
	}
	// a credential without a user is Nobody, not user 0
	if st := h.dial(transport.Cred{}).mnt("/home/0").Status; st != mount3.ErrAcces {
		t.Errorf("MNT of user 0's tree without a user: %v", st)
	}
	if st := a.mnt("/home/2").Status; st != mount3.ErrAcces {
		t.Errorf("MNT of another's tree: %v", st)
	}
	if st := a.mnt("/home/nothing").Status; st != mount3.ErrNoEnt {
		t.Errorf("MNT of no tree: %v", st)
	}
	a.dir(a.root, "d", 0o777)
	inside := a.lookup(a.root, "d").FH
	if got := a.mount("/home/1/d").root; got != inside {
		t.Error("MNT of a directory in a tree gives another handle than LOOKUP")
	}
	a.symlink(inside, "up", "../f")
	a.symlink(inside, "here", "..")
	if got, want := a.mount("/home/me/d/here").root, a.mount("/home").root; got != want {
		t.Error("MNT through a symbolic link gives another handle than MNT of its target")
	}
}

// TestTreeHandlesAreSealed: changing any bit of a handle makes it invalid.
func TestTreeHandlesAreSealed(t *testing.T) {
	u := newUsers(t)
	h := serveUsers(t, u, 0)
	c := h.dial(as(1)).mount("/home")
	for bit := range c.root.Len() * 8 {
		b := append([]byte{}, c.root.Bytes()...)
		b[bit/8] ^= 1 << (bit % 8)
		fh, err := nfs3.MakeFH(b)
		if err != nil {
			t.Fatalf("nfs3.MakeFH: %v", err)
		}
		if st := c.getattr(fh).Status; st != nfs3.ErrBadHandle {
			t.Errorf("bit %d: %v", bit, st)
		}
	}
	u.set(func() {
		if len(u.open) != 1 {
			t.Errorf("%d trees are open", len(u.open))
		}
	})
}

// TestTreeHandlesSurvive: handles stay valid through a restart of the server, and lead to the same
// trees.
func TestTreeHandlesSurvive(t *testing.T) {
	u := newUsers(t)
	h := serveUsers(t, u, 0)
	var files []nfs3.FH
	for uid := range uint32(5) {
		c := h.dial(as(uid)).mount("/home")
		f := c.file(c.root, "f", 0o666)
		c.want("WRITE", c.write(f, 0, fmt.Sprint("of ", uid), nfs3.FileSync).Status, nfs3.OK)
		files = append(files, f)
	}
	h.stop()
	u.set(func() {
		if len(u.open) != 0 {
			t.Errorf("open after Close: %v", u.open)
		}
	})
	h = serveUsers(t, u, 0)
	for uid, f := range files {
		c := h.dial(as(uint32(uid)))
		c.want("GETATTR by another", h.dial(as(99)).getattr(f).Status, nfs3.ErrAcces)
		if res, data := c.read(f, 0, 10); data != fmt.Sprint("of ", uid) {
			t.Errorf("READ of user %d: %v %q", uid, res.Status, data)
		}
	}
	// an export with one tree has the same name: each export refuses the other's handles
	h.stop()
	one := serve(t, nfsserver.Options{Key: [nfsserver.KeySize]byte{7}, Squash: believeAll, Exports: []nfsserver.Export{{Name: "/home", FS: memory(t)}}})
	c := one.dial(root).mount("/home")
	c.want("a handle of a tree", c.getattr(files[1]).Status, nfs3.ErrStale)
	again := serveUsers(t, u, 0)
	c1 := again.dial(as(1))
	c1.want("a handle of the one tree", c1.getattr(c.root).Status, nfs3.ErrStale)
}

// TestManyTrees: a client mounts far more trees than may be open, and memory stays bounded. All
// trees stay usable, also during calls by others.
func TestManyTrees(t *testing.T) {
	const most, trees = 4, 300
	u := newUsers(t)
	h := serveUsers(t, u, most)
	var others sync.WaitGroup
	var done atomic.Bool
	for uid := range uint32(2) {
		c := h.dial(as(uid)).mount("/home")
		f := c.file(c.root, "f", 0o666)
		others.Go(func() {
			for !done.Load() {
				st := c.getattr(f).Status
				if st != nfs3.ErrJukebox { // the two others may both be waiting for room
					c.want("GETATTR beside many mounts", st, nfs3.OK)
				}
			}
		})
	}
	for uid := uint32(10); uid < 10+trees; uid++ {
		c := h.dial(as(uid))
		for c.mnt("/home").Status == mount3.ErrServerFault { // repeats while no tree is idle
		}
		c.rpc.Close()
	}
	done.Store(true)
	others.Wait()
	u.set(func() {
		if u.most > most {
			t.Errorf("%d trees were open at once, want at most %d", u.most, most)
		}
	})
}

// TestTreeVerifier: a tree was closed to make room for others. It then has another write verifier,
// so clients send uncommitted data again.
func TestTreeVerifier(t *testing.T) {
	h := serveUsers(t, newUsers(t), 1)
	a := h.dial(as(1)).mount("/home")
	f := a.file(a.root, "f", 0o666)
	before := a.write(f, 0, "x", nfs3.Unstable).Verf
	same := a.commit(f)
	if same.Status != nfs3.OK || same.Verf != before {
		t.Errorf("COMMIT: %+v, want the verifier %v", same, before)
	}
	h.dial(as(2)).mount("/home")
	if after := a.commit(f); after.Status != nfs3.OK || after.Verf == before {
		t.Errorf("COMMIT after the tree was closed: %+v, want another verifier than %v", after, before)
	}
}

// TestTreeRemovedInUse: a tree is removed while its user makes many calls. From then on its handles
// are stale, and CloseTree returns after the last call.
func TestTreeRemovedInUse(t *testing.T) {
	u := newUsers(t)
	h := serveUsers(t, u, 0)
	c := h.dial(as(1)).mount("/home")
	f := c.file(c.root, "f", 0o666)
	var calls sync.WaitGroup
	for range 4 {
		calls.Go(func() {
			for c.getattr(f).Status == nfs3.OK {
			}
		})
	}
	u.set(func() { u.gone[1] = true })
	if err := h.srv.CloseTree(context.Background(), "/home", 1); err != nil {
		t.Errorf("CloseTree: %v", err)
	}
	u.set(func() {
		if len(u.open) != 0 {
			t.Errorf("open after CloseTree: %v", u.open)
		}
	})
	calls.Wait()
	c.want("GETATTR", c.getattr(f).Status, nfs3.ErrStale)
	if err := h.srv.CloseTree(context.Background(), "/home", 1); err != nil {
		t.Errorf("CloseTree of a closed tree: %v", err)
	}
	if err := h.srv.CloseTree(context.Background(), "/nothing", 1); err == nil {
		t.Error("CloseTree of no export: no error")
	}
	// when the tree is back, old handles lead to it again
	u.set(func() { u.gone[1] = false })
	c.want("GETATTR of a tree that is back", c.getattr(f).Status, nfs3.OK)
}

// TestTreeClosedInUse: while trees are closed again and again, their users' calls succeed.
func TestTreeClosedInUse(t *testing.T) {
	h := serveUsers(t, newUsers(t), 0)
	c := h.dial(as(1)).mount("/home")
	f := c.file(c.root, "f", 0o666)
	var calls sync.WaitGroup
	for range 4 {
		calls.Go(func() {
			for range 200 {
				if st := c.getattr(f).Status; st != nfs3.OK && st != nfs3.ErrJukebox {
					t.Errorf("GETATTR: %v", st)
				}
			}
		})
	}
	for range 20 {
		if err := h.srv.CloseTree(context.Background(), "/home", 1); err != nil {
			t.Errorf("CloseTree: %v", err)
		}
	}
	calls.Wait()
}

// TestTreeFailsToOpen: if a tree fails to open, clients retry, unless the tree is gone.
func TestTreeFailsToOpen(t *testing.T) {
	u := newUsers(t)
	h := serveUsers(t, u, 0)
	c := h.dial(as(1)).mount("/home")
	for _, s := range []struct {
		err error
		nfs nfs3.Status
		mnt mount3.Status
	}{
		{errors.New("no answer"), nfs3.ErrJukebox, mount3.ErrIO}, {errPanic, nfs3.ErrJukebox, mount3.ErrIO}, {fs.ErrNotExist, nfs3.ErrStale, mount3.ErrNoEnt},
		{nfsserver.ErrStale, nfs3.ErrStale, mount3.ErrNoEnt}, {nil, nfs3.OK, mount3.OK},
	} {
		if err := h.srv.CloseTree(context.Background(), "/home", 1); err != nil {
			t.Errorf("CloseTree: %v", err)
		}
		u.set(func() { u.fails = s.err })
		c.want(fmt.Sprint("GETATTR after ", s.err), c.getattr(c.root).Status, s.nfs)
		if st := c.mnt("/home").Status; st != s.mnt {
			t.Errorf("MNT after %v: %v, want %v", s.err, st, s.mnt)
		}
	}
}

// TestTreesExportRemoved: Replace makes handles of all trees stale, and closes the trees.
func TestTreesExportRemoved(t *testing.T) {
	u := newUsers(t)
	h := serve(t, nfsserver.Options{Squash: believeAll, Exports: []nfsserver.Export{{Name: "/home", Trees: u}, {Name: "/stay", FS: memory(t)}}})
	c := h.dial(as(1)).mount("/home")
	stay := h.dial(as(1)).mount("/stay")
	stay.want("RENAME from a tree to an export", c.rename(c.root, "f", stay.root, "f").Status, nfs3.ErrXDev)
	for _, info := range h.svc.Exports(0) {
		if !info.Open {
			t.Errorf("%s is not open", info.Name)
		}
	}
	if err := h.svc.Replace([]nfsserver.Export{{Name: "/home"}, {Name: "/stay"}}); err != nil {
		t.Fatalf("Replace with the same: %v", err)
	}
	c.want("GETATTR of a tree that stays", c.getattr(c.root).Status, nfs3.OK)
	if err := h.svc.Replace([]nfsserver.Export{{Name: "/home", Trees: u, FS: memory(t)}}); err == nil {
		t.Error("an export with Trees and FS is taken")
	}
	if err := h.svc.Replace([]nfsserver.Export{{Name: "/stay"}}); err != nil {
		t.Fatalf("Replace: %v", err)
	}
	c.want("GETATTR in a removed export", c.getattr(c.root).Status, nfs3.ErrStale)
	stay.want("GETATTR beside it", stay.getattr(stay.root).Status, nfs3.OK)
}

// A mayPanics is a users whose May panics on request.
type mayPanics struct {
	*users
	now *atomic.Bool
}

func (p mayPanics) May(c nfsserver.Caller, tree uint64) error {
	if p.now.Load() {
		panic("in May")
	}
	return p.users.May(c, tree)
}

// TestTreesPanic: a panic in May fails only that call. The export can still be removed, which
// closes its trees.
func TestTreesPanic(t *testing.T) {
	u := mayPanics{newUsers(t), new(atomic.Bool)}
	h := serve(t, nfsserver.Options{Squash: believeAll, Logger: slog.New(slog.DiscardHandler),
		Exports: []nfsserver.Export{{Name: "/home", Trees: u}, {Name: "/stay", FS: memory(t)}}})
	c := h.dial(as(1)).mount("/home")
	u.now.Store(true)
	getattr := transport.Proc{Prog: nfs3.Program, Vers: nfs3.Version, Proc: nfs3.ProcGetattr, MaxReply: 200}
	if err := c.rpc.Call(context.Background(), &getattr, &nfs3.GetattrArgs{FH: c.root}, new(nfs3.GetattrRes), nil, 0); err == nil {
		t.Error("GETATTR with a panic in May: no error")
	}
	u.now.Store(false)
	c.want("GETATTR after it", c.getattr(c.root).Status, nfs3.OK)
	must.Succeed(t, h.svc.Replace([]nfsserver.Export{{Name: "/stay"}}))
	must.Become(t, "the removed export has closed its tree", func() (closed bool) {
		u.set(func() { closed = len(u.users.open) == 0 })
		return closed
	})
}

// TestTreesUnderRules: the rules of the export are checked before May.
func TestTreesUnderRules(t *testing.T) {
	u := newUsers(t)
	h := serve(t, nfsserver.Options{Squash: remote, Exports: []nfsserver.Export{{Name: "/home", Trees: u, Rules: rules(t, "/home 127.0.0.1(ro,insecure)")}}})
	for name, c := range h.dialFrom("127.0.0.1", as(1)) {
		c.mount("/home")
		c.want("CREATE over "+name, c.create(c.root, "f", nfs3.Unchecked, nfs3.Sattr{}, nfs3.Verf{}).Status, nfs3.ErrROFS)
		other := h.dialFrom("127.0.0.2", as(1))[name]
		other.want("GETATTR by another host over "+name, other.getattr(c.root).Status, nfs3.ErrAcces)
	}
}

// TestTreesAtMount: with sec=krb5, a client with AUTH_SYS can read only the attributes of a root.
// This opens no tree.
func TestTreesAtMount(t *testing.T) {
	u := newUsers(t)
	h := serve(t, nfsserver.Options{Squash: remote, Exports: []nfsserver.Export{{Name: "/home", Trees: u, Rules: rules(t, "/home *(rw,insecure,sec=krb5)")}}})
	for name, c := range h.dialFrom("127.0.0.1", as(1)) {
		c.mount("/home")
		c.want("GETATTR over "+name, c.getattr(c.root).Status, nfs3.OK)
		other := h.dialFrom("127.0.0.1", as(2))[name]
		other.want("GETATTR of another root over "+name, other.getattr(c.root).Status, nfs3.OK)
		if err := other.try(nfs3.ProcLookup, &nfs3.LookupArgs{Dir: c.root, Name: []byte("f")}, &nfs3.LookupRes{}); err == nil {
			t.Error("LOOKUP with AUTH_SYS: no error")
		}
		if err := h.srv.CloseTree(context.Background(), "/home", 1); err != nil {
			t.Errorf("CloseTree: %v", err)
		}
		c.want("GETATTR of a closed tree over "+name, c.getattr(c.root).Status, nfs3.ErrAcces)
	}
}

// TestTreesAllocateNothing: GETATTR in an open tree does not allocate.
func TestTreesAllocateNothing(t *testing.T) {
	h := serveUsers(t, newUsers(t), 0)
	c := h.dial(as(1)).mount("/home")
	e := xdr.NewEncoder(nil)
	(&nfs3.GetattrArgs{FH: c.root}).EncodeXDR(e)
	buf := make([]byte, 0, 512)
	call := transport.Call{Cred: as(1), Args: xdr.NewDecoder(nil), Res: xdr.NewEncoder(nil)}
	proc := &h.srv.Programs()[0].Procs[nfs3.ProcGetattr]
	if n := testing.AllocsPerRun(100, func() {
		call.Args.Reset(e.Bytes(), nil)
		call.Res.Reset(buf)
		if err := proc.Run(&call); err != nil || call.Res.Bytes()[3] != 0 {
			t.Fatalf("GETATTR: %v, %x", err, call.Res.Bytes())
		}
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}
