// Several servers: choosing one, failing over, and losing no data.

package nfsclient_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/nfsrdma/nfsrdma/nfsclient"
	"github.com/nfsrdma/nfsrdma/test/must"
	"github.com/nfsrdma/nfsrdma/transport"
	"github.com/nfsrdma/nfsrdma/xdr/nfs3"
)

// A volatile keeps the data that its server has not committed in memory, so killing the server
// loses the data. Its write verifier is constant and equal on all servers, the worst case for a
// client.
type volatile struct {
	dir string

	mu      sync.Mutex
	written map[nfs3.FH][]piece
}

type piece struct {
	off  uint64
	data []byte
}

var sameVerf = nfs3.Verf{7}

func (v *volatile) rows(t *testing.T) map[uint32]func(run) run {
	v.written = map[nfs3.FH][]piece{}
	return map[uint32]func(run) run{
		nfs3.ProcWrite: func(run) run {
			return func(c *transport.Call) error {
				var a nfs3.WriteArgs
				a.DecodeXDR(c.Args)
				if c.Args.Err() != nil {
					return c.Args.Err()
				}
				v.mu.Lock()
				v.written[a.FH] = append(v.written[a.FH], piece{a.Offset, bytes.Clone(a.Data)})
				v.mu.Unlock()
				(&nfs3.WriteRes{Count: a.Count, Committed: nfs3.Unstable, Verf: sameVerf}).EncodeXDR(c.Res)
				return nil
			}
		},
		nfs3.ProcCommit: func(run) run {
			return func(c *transport.Call) error {
				var a nfs3.CommitArgs
				a.DecodeXDR(c.Args)
				v.mu.Lock()
				defer v.mu.Unlock()
				// these tests have only this file
				f, err := os.OpenFile(filepath.Join(v.dir, "file"), os.O_WRONLY, 0)
				if err != nil {
					t.Errorf("open the file of the tests: %v", err)
					return err
				}
				defer f.Close()
				for _, p := range v.written[a.FH] {
					if _, err := f.WriteAt(p.data, int64(p.off)); err != nil {
						t.Errorf("write at: %v", err)
					}
				}
				delete(v.written, a.FH)
				(&nfs3.CommitRes{Verf: sameVerf}).EncodeXDR(c.Res)
				return nil
			}
		},
	}
}

func (v *volatile) lose() {
	v.mu.Lock()
	defer v.mu.Unlock()
	clear(v.written)
}

// A program writes and syncs while the servers die in turn with their uncommitted data and have
// equal write verifiers. All data acknowledged by a Sync is on disk.
func TestSyncedDataOutlivesServers(t *testing.T) {
	eachTwin(t, func(t *testing.T, tr nfsclient.Transport, dir string) {
		must.Succeed(t, os.WriteFile(filepath.Join(dir, "file"), nil, 0o666))
		memory := [2]*volatile{{dir: dir}, {dir: dir}}
		a, b := newTwin(t, tr, dir, 1, memory[0].rows(t)), newTwin(t, tr, dir, 1, memory[1].rows(t))
		fsys := mountTwins(t, nfsclient.Options{Conns: 2}, a, b)
		f, err := fsys.OpenFile(t.Context(), "file", os.O_RDWR, 0)
		must.Succeed(t, err)
		const block, rounds, perRound = 1000, 6, 5
		at := func(i int) []byte { return bytes.Repeat([]byte{byte(i + 1)}, block) }
		lost := 0
		for round := range rounds {
			first := round * perRound
			write := func(from, to int) {
				for i := from; i < to; i++ {
					_, err := f.WriteAt(at(i), int64(i)*block)
					must.Succeed(t, err)
				}
			}
			// Half of a round goes to a server killed before its COMMIT.
			write(first, first+perRound/2)
			dying, other := []*twin{a, b}[round%2], []*twin{a, b}[1-round%2]
			if other.rpc == nil {
				other.start()
			}
			dying.kill()
			memory[round%2].lose()
			write(first+perRound/2, first+perRound)
			for {
				err := f.Sync()
				if err == nil {
					break
				}
				if !errors.Is(err, nfsclient.ErrLostWrites) {
					t.Fatalf("sync: got %v, want %v", err, nfsclient.ErrLostWrites)
				}
				lost++
				write(first, first+perRound)
			}
			got, err := os.ReadFile(filepath.Join(dir, "file"))
			must.Succeed(t, err)
			for i := range first + perRound {
				if len(got) < (i+1)*block || !bytes.Equal(got[i*block:(i+1)*block], at(i)) {
					t.Fatalf("round %d: block %d was acknowledged and is not on the disk", round, i)
				}
			}
		}
		if lost == 0 {
			t.Error("no Sync has told of a loss")
		}
	})
}

// When the server dies all connections move to the other server, and back when the other server
// dies.
func TestConnectionsMoveTogether(t *testing.T) {
	eachTwin(t, func(t *testing.T, tr nfsclient.Transport, dir string) {
		a, b := newTwin(t, tr, dir, 1, nil), newTwin(t, tr, dir, 1, nil)
		var told moves
		fsys := mountTwins(t, nfsclient.Options{Conns: 4, Moved: told.told}, a, b)
		use := func() {
			var calls sync.WaitGroup
			for range 32 {
				calls.Go(func() {
					if _, err := fsys.Stat(t.Context(), "/"); err != nil {
						t.Errorf("stat: %v", err)
					}
				})
			}
			calls.Wait()
		}
		at := func(w *twin) {
			t.Helper()
			use()
			for i, l := range fsys.Client().Links() {
				if l.Up && l.Addr != w.addr {
					t.Errorf("connection %d is to %s, not %s", i, l.Addr, w.addr)
				}
			}
			_, port, err := net.SplitHostPort(w.addr)
			must.Succeed(t, err)
			if host := fsys.Client().ServerAddress(); net.JoinHostPort(host, port) != w.addr {
				t.Errorf("other services are looked for at %s", host)
			}
		}
		at(a)
		a.kill()
		at(b)
		a.start()
		at(b) // connections stay at a live server
		b.kill()
		at(a)
		for i, m := range told.all() {
			if i > 1 {
				t.Errorf("move %d, want two", i+1)
			}
			if want := []*twin{b, a}[i%2].addr; m.to != want || m.err != nil {
				t.Errorf("move %d: to %s, %v; want %s", i, m.to, m.err, want)
			}
		}
	})
}

// One of several connections is cut and cannot reconnect, while the server answers on the others.
// The other connections follow to the next server, so that no file is written at two servers at
// once.
func TestConnectionsToTheOldServerEnd(t *testing.T) {
	nfsclient.BeginWith(t, 0)
	nfsclient.WaitForServers(t)
	dir := t.TempDir()
	a, b := newTwin(t, nfsclient.TCP, dir, 1, nil), newTwin(t, nfsclient.TCP, dir, 1, nil)
	var mu sync.Mutex // guards made and refused
	var made []net.Conn
	refused := ""
	dial := func(ctx context.Context, network, addr string) (net.Conn, error) {
		mu.Lock()
		defer mu.Unlock()
		if addr == refused {
			return nil, errors.New("no more connections")
		}
		nc, err := new(net.Dialer).DialContext(ctx, network, addr)
		made = append(made, nc)
		return nc, err
	}
	fsys := mountTwins(t, nfsclient.Options{Conns: 3, Dial: dial}, a, b)
	mu.Lock()
	refused = a.addr
	made[1].Close()
	mu.Unlock()
	within(t, "not all connections are to the other server", func() bool {
		if _, err := fsys.Stat(t.Context(), "/"); err != nil {
			t.Fatalf("stat: %v", err)
		}
		for _, l := range fsys.Client().Links() {
			if !l.Up || l.Addr != b.addr {
				return false
			}
		}
		return true
	})
}

// Dial skips a dead server at any position.
func TestDeadServerIsPassedOver(t *testing.T) {
	eachTwin(t, func(t *testing.T, tr nfsclient.Transport, dir string) {
		a, b, c := newTwin(t, tr, dir, 1, nil), newTwin(t, tr, dir, 1, nil), newTwin(t, tr, dir, 1, nil)
		for first, want := range []*twin{b, b, c} {
			a.kill()
			nfsclient.BeginWith(t, first)
			fsys := mountTwins(t, nfsclient.Options{}, a, b, c)
			if got := fsys.Client().Links()[0].Addr; got != want.addr {
				t.Errorf("beginning with server %d: %s, want %s", first, got, want.addr)
			}
		}
		b.kill()
		c.kill()
		opt := nfsclient.Options{Transport: tr}
		if c, err := nfsclient.Dial(t.Context(), together(a, b, c), opt); err == nil {
			c.Close()
			t.Error("connected to dead servers")
		}
	})
}

// otherFile answers GETATTR with attributes of another file system's object, for the same handle.
func otherFile(real run) run {
	return func(c *transport.Call) error {
		c.Args.Rest()
		(&nfs3.GetattrRes{Attr: nfs3.Fattr{Type: nfs3.TypeDir, Fsid: 1, Fileid: 1}}).EncodeXDR(c.Res)
		return nil
	}
}

// The only remaining server has another handle key, or another object for the handle. It gets no
// call, and the error has the reason. When the previous server is back, calls continue.
func TestOtherVolumeIsNotUsed(t *testing.T) {
	for what, key := range map[string]byte{"key": 2, "file": 1} {
		t.Run(what, func(t *testing.T) {
			eachTwin(t, func(t *testing.T, tr nfsclient.Transport, dir string) {
				var asked atomic.Int32
				rows := map[uint32]func(run) run{nfs3.ProcMkdir: func(real run) run {
					return func(c *transport.Call) error { asked.Add(1); return real(c) }
				}}
				if what == "file" {
					rows[nfs3.ProcGetattr] = otherFile
				}
				a, b := newTwin(t, tr, dir, 1, nil), newTwin(t, tr, dir, key, rows)
				var told moves
				fsys := mountTwins(t, nfsclient.Options{Moved: told.told}, a, b)
				err := fsys.Client().CheckServers(t.Context(), func(server string, err error) { t.Errorf("%s: %v", server, err) })
				if !errors.Is(err, nfsclient.ErrOtherVolume) {
					t.Errorf("CheckServers: %v", err)
				}
				a.kill()
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				made := make(chan error, 1)
				go func() { made <- fsys.Mkdir(ctx, "dir", 0o777) }()
				within(t, "nobody was told of the other volume", func() bool { return len(told.all()) > 0 })
				a.start()
				must.Succeed(t, <-made)
				if _, err := os.Stat(filepath.Join(dir, "dir")); err != nil {
					t.Errorf("stat: %v", err)
				}
				if n := asked.Load(); n != 0 {
					t.Errorf("%d calls went to the server of another volume", n)
				}
				for _, m := range told.all() {
					to, want := a.addr, error(nil)
					if m.err != nil {
						to, want = b.addr, nfsclient.ErrOtherVolume
					}
					if m.to != to || !errors.Is(m.err, want) {
						t.Errorf("a move to %s, %v, want %s, %v", m.to, m.err, to, want)
					}
				}
			})
		})
	}
}

// The check of servers accepts those with the same handles, and names those that do not answer.
func TestSameVolumePassesTheCheck(t *testing.T) {
	eachTwin(t, func(t *testing.T, tr nfsclient.Transport, dir string) {
		a, b, c := newTwin(t, tr, dir, 1, nil), newTwin(t, tr, dir, 1, nil), newTwin(t, tr, dir, 1, nil)
		fsys := mountTwins(t, nfsclient.Options{}, a, b, c)
		c.kill()
		var silent []string
		must.Succeed(t, fsys.Client().CheckServers(t.Context(), func(server string, err error) { silent = append(silent, server) }))
		if len(silent) != 1 || silent[0] != c.addr {
			t.Errorf("silent: %v, want %s", silent, c.addr)
		}
	})
}

// A death ends a server after it has run a call and before it has replied.
type death struct {
	victim  *twin
	instead func() error  // replaces the call; nil: the call itself
	again   chan struct{} // closed when the call has reached the next server
	dead    chan struct{} // closed when the server is dead
}

// dying returns the procedure for the server that dies.
func (d *death) dying(real run) run {
	return func(c *transport.Call) (err error) {
		if d.instead != nil {
			c.Args.Rest()
			err = d.instead()
		} else {
			err = real(c)
		}
		go func() { defer close(d.dead); d.victim.kill() }()
		<-d.again
		return err
	}
}

// next returns the procedure for the next server.
func (d *death) next(real run) run {
	var once sync.Once
	return func(c *transport.Call) error {
		once.Do(func() { close(d.again) })
		return real(c)
	}
}

// A lostReply is a call whose reply is lost because its server dies.
type lostReply struct {
	name    string
	proc    uint32
	prepare func(dir string) error // prepares the directory
	// call returns an error if the call counts as failed.
	call  func(ctx context.Context, fsys *nfsclient.FS) error
	check func(dir string) error // checks the directory afterwards
	// other is another client's action in place of the call. The call's error, refused, must then
	// reach the caller.
	other   func(dir string) error
	refused error
}

var lostReplies = []lostReply{
	{"REMOVE", nfs3.ProcRemove, makeFile("x"), func(ctx context.Context, f *nfsclient.FS) error { return f.Remove(ctx, "x") }, absent("x"), nil, nil},
	{"RMDIR", nfs3.ProcRmdir, makeDir("x"), func(ctx context.Context, f *nfsclient.FS) error { return f.Remove(ctx, "x") }, absent("x"), nil, nil},
	{"RENAME", nfs3.ProcRename, makeFile("x"), func(ctx context.Context, f *nfsclient.FS) error { return f.Rename(ctx, "x", "y") }, present("y"), removeAll("x"), os.ErrNotExist},
	{"MKDIR", nfs3.ProcMkdir, nil, func(ctx context.Context, f *nfsclient.FS) error { return f.Mkdir(ctx, "x", 0o755) }, present("x"), makeDir("x"), os.ErrExist},
	{"SYMLINK", nfs3.ProcSymlink, nil, func(ctx context.Context, f *nfsclient.FS) error { return f.Symlink(ctx, "to", "x") }, present("x"), makeLink("x"), os.ErrExist},
	{"LINK", nfs3.ProcLink, makeFile("x"), func(ctx context.Context, f *nfsclient.FS) error { return f.Link(ctx, "x", "y") }, present("y"), makeFile("y"), os.ErrExist},
	{"CREATE", nfs3.ProcCreate, nil, createNew, present("x"), makeFile("x"), os.ErrExist},
	{"CREATE GUARDED", nfs3.ProcCreate, nil, createGuarded, present("x"), makeFile("x"), os.ErrExist},
	{"MKNOD", nfs3.ProcMknod, nil, makeFIFO, present("x"), makeFile("x"), os.ErrExist},
}

func makeFile(name string) func(string) error {
	return func(dir string) error { return os.WriteFile(filepath.Join(dir, name), nil, 0o666) }
}

func makeDir(name string) func(string) error {
	return func(dir string) error { return os.Mkdir(filepath.Join(dir, name), 0o777) }
}

func makeLink(name string) func(string) error {
	return func(dir string) error { return os.Symlink("to", filepath.Join(dir, name)) }
}

func removeAll(name string) func(string) error {
	return func(dir string) error { return os.RemoveAll(filepath.Join(dir, name)) }
}

func present(name string) func(string) error {
	return func(dir string) error { _, err := os.Lstat(filepath.Join(dir, name)); return err }
}

func absent(name string) func(string) error {
	return func(dir string) error {
		if _, err := os.Lstat(filepath.Join(dir, name)); !errors.Is(err, os.ErrNotExist) {
			return fmt.Errorf("%s is still there (%w)", name, err)
		}
		return nil
	}
}

func createNew(ctx context.Context, f *nfsclient.FS) error {
	file, err := f.OpenFile(ctx, "x", os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		return err
	}
	return file.Close()
}

func createGuarded(ctx context.Context, f *nfsclient.FS) error {
	_, err := f.Client().Create(ctx, f.Root(), "x", nfs3.Guarded, nfs3.Sattr{SetMode: true, Mode: 0o644}, nfs3.Verf{})
	return err
}

func makeFIFO(ctx context.Context, f *nfsclient.FS) error {
	_, err := f.Client().Mknod(ctx, f.Root(), "x", nfs3.TypeFIFO, nfs3.Sattr{SetMode: true, Mode: 0o644}, nfs3.Specdata{})
	return err
}

// A server runs a call and dies, and the next server refuses the repeated call, which counts as
// done. If another client's action is the reason, the call does not count as done.
func TestLostRepliesOfDeadServers(t *testing.T) {
	for _, l := range lostReplies {
		for _, ours := range []bool{true, false} {
			if !ours && l.other == nil {
				continue // the client cannot distinguish these cases
			}
			t.Run(fmt.Sprintf("%s/%v", l.name, ours), func(t *testing.T) {
				eachTwin(t, func(t *testing.T, tr nfsclient.Transport, dir string) {
					if l.prepare != nil {
						must.Succeed(t, l.prepare(dir))
					}
					d := death{again: make(chan struct{}), dead: make(chan struct{})}
					if !ours {
						d.instead = func() error { return l.other(dir) }
					}
					d.victim = newTwin(t, tr, dir, 1, map[uint32]func(run) run{l.proc: d.dying})
					b := newTwin(t, tr, dir, 1, map[uint32]func(run) run{l.proc: d.next})
					fsys := mountTwins(t, nfsclient.Options{}, d.victim, b)
					err := l.call(t.Context(), fsys)
					<-d.dead
					if ours {
						must.Succeed(t, err)
						must.Succeed(t, l.check(dir))
					} else if !errors.Is(err, l.refused) {
						t.Errorf("%v, want %v", err, l.refused)
					}
					if got := fsys.Client().Links()[0].Addr; got != b.addr {
						t.Errorf("answered by %s", got)
					}
				})
			})
		}
	}
}

// The next server first delays the call by JUKEBOX, then refuses it.
func TestLostReplyOfAServerThatPutsOff(t *testing.T) {
	eachTwin(t, func(t *testing.T, tr nfsclient.Transport, dir string) {
		must.Succeed(t, makeFile("x")(dir))
		d := death{again: make(chan struct{}), dead: make(chan struct{})}
		d.victim = newTwin(t, tr, dir, 1, map[uint32]func(run) run{nfs3.ProcRemove: d.dying})
		var later sync.Once
		putsOff := func(real run) run {
			return func(c *transport.Call) error {
				off := false
				later.Do(func() { off = true })
				if !off {
					return real(c)
				}
				c.Args.Rest()
				close(d.again)
				res := nfs3.RemoveRes{Status: nfs3.ErrJukebox}
				res.EncodeXDR(c.Res)
				return nil
			}
		}
		b := newTwin(t, tr, dir, 1, map[uint32]func(run) run{nfs3.ProcRemove: putsOff})
		fsys := mountTwins(t, nfsclient.Options{}, d.victim, b)
		must.Succeed(t, fsys.Remove(t.Context(), "x"))
		<-d.dead
		must.Succeed(t, absent("x")(dir))
	})
}
