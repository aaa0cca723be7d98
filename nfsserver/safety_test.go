// Rules that no other test checks: results of a failed WRITE, the effect of FILE_SYNC, the file
// that an EXCLUSIVE CREATE accepts, and invalid handles, sizes and times.

package nfsserver_test

import (
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/nfsrdma/nfsrdma/nfsserver"
	"github.com/nfsrdma/nfsrdma/transport"
	"github.com/nfsrdma/nfsrdma/xdr/nfs3"
)

// A brokenDisk writes nothing, and records its Syncs.
type brokenDisk struct {
	nfsserver.FS

	mu    sync.Mutex
	fail  error  // the result of writes; guarded by mu
	syncs []bool // dataOnly of each Sync; guarded by mu
}

// next sets the result of the next writes, and returns the Syncs recorded so far.
func (d *brokenDisk) next(fail error) (synced []bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	synced, d.syncs, d.fail = d.syncs, nil, fail
	return synced
}

func (d *brokenDisk) WriteAt(c nfsserver.Cred, r nfsserver.Ref, p []byte, off uint64) (int, error) {
	d.mu.Lock()
	fail := d.fail
	d.mu.Unlock()
	if fail != nil {
		return 0, fail
	}
	return d.FS.WriteAt(c, r, p, off)
}

func (d *brokenDisk) Sync(r nfsserver.Ref, dataOnly bool) error {
	d.mu.Lock()
	d.syncs = append(d.syncs, dataOnly)
	d.mu.Unlock()
	return d.FS.Sync(r, dataOnly)
}

// TestFailedWriteIsReported: a failed WRITE is reported for each kind of stability, even if the
// sync after it succeeds. FILE_SYNC syncs a whole file, DATA_SYNC only its data (RFC 1813 §3.3.7).
func TestFailedWriteIsReported(t *testing.T) {
	d := &brokenDisk{FS: memory(t)}
	h := serve(t, nfsserver.Options{Squash: believeAll, AsyncNames: true, Exports: []nfsserver.Export{{Name: "/e", FS: d}}})
	c := h.dial(root).mount("/e")
	f := c.file(c.root, "f", 0o644)
	for _, how := range []nfs3.StableHow{nfs3.Unstable, nfs3.DataSync, nfs3.FileSync} {
		d.next(nil)
		c.want("WRITE", c.write(f, 0, "data", how).Status, nfs3.OK)
		var want []bool
		if how != nfs3.Unstable {
			want = []bool{how == nfs3.DataSync}
		}
		if got := d.next(syscall.ENOSPC); !slices.Equal(got, want) {
			t.Errorf("WRITE %v: synced with dataOnly %v, want %v", how, got, want)
		}
		c.want("WRITE on a full disk", c.write(f, 0, "data", how).Status, nfs3.ErrNoSpc)
	}
}

// TestExclusiveTakesOnlyItsOwn: a file belongs to another client if either half of its verifier
// differs, or if it has data (RFC 1813 §3.3.8).
func TestExclusiveTakesOnlyItsOwn(t *testing.T) {
	eachFS(t, func(c *client, _ *host) {
		v := nfs3.Verf{1, 2, 3, 4, 5, 6, 7, 8}
		create := func(v nfs3.Verf) nfs3.CreateRes { return c.create(c.root, "f", nfs3.Exclusive, nfs3.Sattr{}, v) }
		made := create(v)
		c.want("CREATE", made.Status, nfs3.OK)
		again := create(v)
		if again.Status != nfs3.OK || again.FH != made.FH {
			t.Errorf("the same call again: %v", again.Status)
		}
		for _, i := range []int{0, 3, 4, 7} {
			other := v
			other[i]++
			c.want("CREATE with another verifier", create(other).Status, nfs3.ErrExist)
		}
		times := c.attr(made.FH.FH)
		c.want("WRITE", c.write(made.FH.FH, 0, "data", nfs3.FileSync).Status, nfs3.OK)
		c.want("SETATTR", c.setattr(made.FH.FH, nfs3.Sattr{AtimeHow: nfs3.SetToClientTime, Atime: times.Atime,
			MtimeHow: nfs3.SetToClientTime, Mtime: times.Mtime}).Status, nfs3.OK)
		c.want("CREATE over data that has these times", create(v).Status, nfs3.ErrExist)
		if a := c.attr(made.FH.FH); a.Size != 4 {
			t.Errorf("%d bytes are left of 4", a.Size)
		}
	})
}

// TestExclusiveTakesOnlyTheCallersOwn: another user has set an empty file's times to those of the
// verifier. This file was not made by an earlier transmission.
func TestExclusiveTakesOnlyTheCallersOwn(t *testing.T) {
	eachFS(t, func(c *client, h *host) {
		d := c.dir(c.root, "d", 0o777)
		c.want("chmod", c.setattr(d, nfs3.Sattr{SetMode: true, Mode: 0o777}).Status, nfs3.OK)
		v := nfs3.Verf{1, 2, 3, 4, 5, 6, 7, 8}
		other := h.dial(transport.Cred{Flavor: 1, UID: 2000, GID: 1000})
		made := other.create(d, "f", nfs3.Exclusive, nfs3.Sattr{}, v)
		c.want("CREATE", made.Status, nfs3.OK)
		u := h.dial(user)
		c.want("CREATE by another user", u.create(d, "f", nfs3.Exclusive, nfs3.Sattr{}, v).Status, nfs3.ErrExist)
		c.want("CREATE by root", c.create(d, "f", nfs3.Exclusive, nfs3.Sattr{}, v).Status, nfs3.ErrExist)
		again := other.create(d, "f", nfs3.Exclusive, nfs3.Sattr{}, v)
		if again.Status != nfs3.OK || again.FH != made.FH {
			t.Errorf("CREATE by its owner again: %v", again.Status)
		}
	})
}

// TestCommitTakesPermission: COMMIT needs write permission, which the owner has with any mode. It
// does not matter whether a program is running from the file.
func TestCommitTakesPermission(t *testing.T) {
	eachFS(t, func(c *client, h *host) {
		u := h.dial(user)
		for mode, want := range map[uint32]nfs3.Status{0o644: nfs3.ErrAcces, 0o640: nfs3.ErrAcces, 0o666: nfs3.OK, 0o602: nfs3.OK} {
			f := c.file(c.root, "f", mode)
			c.want("COMMIT by root", c.commit(f).Status, nfs3.OK)
			res := u.commit(f)
			if res.Status != want || !res.Wcc.After.Present {
				t.Errorf("COMMIT of mode %o by another: %v, want %v", mode, res.Status, want)
			}
			c.want("chown", c.setattr(f, nfs3.Sattr{SetUID: true, UID: user.UID, SetMode: true, Mode: 0}).Status, nfs3.OK)
			c.want("COMMIT by the owner", u.commit(f).Status, nfs3.OK)
			c.want("REMOVE", c.remove(c.root, "f").Status, nfs3.OK)
		}
	})
}

// TestCommitOfRunningProgram: after COMMIT, the data of a program that runs on the server is
// stable, whichever process has written it.
func TestCommitOfRunningProgram(t *testing.T) {
	needTools(t, "sleep")
	dir := t.TempDir()
	h := serve(t, nfsserver.Options{Squash: believeAll, Exports: []nfsserver.Export{{Name: "/x", FS: diskAt(t, dir)}}})
	path, err := exec.LookPath("sleep")
	if err != nil {
		t.Fatalf("exec.LookPath: %v", err)
	}
	run(t, "cp", path, filepath.Join(dir, "program"))
	if err := os.Chmod(filepath.Join(dir, "program"), 0o777); err != nil {
		t.Fatalf("os.Chmod: %v", err)
	}
	cmd := exec.Command(filepath.Join(dir, "program"), "3600")
	if err := cmd.Start(); err != nil {
		t.Fatalf("Start: %v", err)
	}
	defer func() { cmd.Process.Kill(); cmd.Wait() }()
	u := h.dial(user).mount("/x")
	f := u.lookup(u.root, "program").FH
	u.want("WRITE", u.write(f, 0, "x", nfs3.Unstable).Status, nfs3.ErrAcces)
	u.want("COMMIT", u.commit(f).Status, nfs3.OK)
}

// TestLimitsOfArguments: sizes, names, times and owners at their limits are accepted, and those
// beyond are refused.
func TestLimitsOfArguments(t *testing.T) {
	eachFS(t, func(c *client, _ *host) {
		f := c.file(c.root, "f", 0o644)
		huge := nfs3.Sattr{SetSize: true, Size: math.MaxUint64}
		c.want("SETATTR of a size beyond all", c.setattr(f, huge).Status, nfs3.ErrFBig)
		c.want("CREATE with it", c.create(c.root, "big", nfs3.Guarded, huge, nfs3.Verf{}).Status, nfs3.ErrFBig)
		c.want("LOOKUP of what was not made", c.lookup(c.root, "big").Status, nfs3.ErrNoEnt)
		var d nfs3.MkdirRes
		c.call(nfs3.ProcMkdir, &nfs3.MkdirArgs{Where: where(c.root, "d"), Attr: huge}, &d)
		c.want("MKDIR, whose size does not count", d.Status, nfs3.OK)
		for what, off := range map[string]uint64{"at the end of all": math.MaxInt64, "that wraps": math.MaxUint64 - 1} {
			c.want("WRITE "+what, c.write(f, off, "data", nfs3.Unstable).Status, nfs3.ErrFBig)
		}
		if a := c.attr(f); a.Size != 0 {
			t.Errorf("size %d after refusals", a.Size)
		}
		for _, s := range []nfs3.Sattr{
			{MtimeHow: nfs3.SetToClientTime, Mtime: nfs3.Time{Sec: 1, Nsec: 1e9}}, {AtimeHow: nfs3.SetToClientTime, Atime: nfs3.Time{Nsec: 1e9}},
			{SetUID: true, UID: math.MaxUint32}, {SetGID: true, GID: math.MaxUint32},
		} {
			c.want("SETATTR of what is no value", c.setattr(f, s).Status, nfs3.ErrInval)
		}
		long := strings.Repeat("n", 255)
		c.file(c.root, long, 0o644)
		c.want("LOOKUP of the longest name", c.lookup(c.root, long).Status, nfs3.OK)
		c.want("LOOKUP of a longer one", c.lookup(c.root, long+"n").Status, nfs3.ErrNameTooLong)
		link := c.symlink(c.root, "l", "f")
		r, _ := c.read(link.FH.FH, 0, 10)
		c.want("READ of a symbolic link", r.Status, nfs3.ErrInval)
	})
}

// TestPageOfManyNames: READDIRPLUS returns a whole directory if it fits in the given size.
func TestPageOfManyNames(t *testing.T) {
	eachFS(t, func(c *client, _ *host) {
		for _, name := range []string{"a", "b", "c", "d"} {
			c.file(c.root, name, 0o644)
		}
		n := 0
		res := nfs3.ReaddirplusRes{Each: func(*nfs3.EntryPlus) { n++ }}
		c.call(nfs3.ProcReaddirplus, &nfs3.ReaddirplusArgs{Dir: c.root, Dircount: 8 << 10, Maxcount: 32 << 10}, &res)
		if n < 6 || !res.EOF { // with "." and ".."; the tree may also have had other names
			t.Errorf("%d names, end %v", n, res.EOF)
		}
	})
}

// TestHandleOfAnExportThatIsGone: a handle has a valid MAC, but its export is no longer served.
// Every procedure returns STALE.
func TestHandleOfAnExportThatIsGone(t *testing.T) {
	key := [nfsserver.KeySize]byte{7}
	start := func(name string) *client {
		h := serve(t, nfsserver.Options{Squash: believeAll, Key: key, Exports: []nfsserver.Export{{Name: name, FS: memory(t)}}})
		return h.dial(root).mount(name)
	}
	old, now := start("/old"), start("/now")
	now.want("GETATTR", now.getattr(old.root).Status, nfs3.ErrStale)
	now.want("WRITE", now.write(old.root, 0, "x", nfs3.Unstable).Status, nfs3.ErrStale)
	now.want("LOOKUP", now.lookup(old.root, "f").Status, nfs3.ErrStale)
	now.want("REMOVE", now.remove(old.root, "f").Status, nfs3.ErrStale)
	now.want("RENAME", now.rename(now.root, "a", old.root, "b").Status, nfs3.ErrStale)
}
