// Callers have the same permissions on a local file system as local processes.

package nfsserver_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/nfsrdma/nfsrdma/nfsserver"
	"github.com/nfsrdma/nfsrdma/test/machine"
	"github.com/nfsrdma/nfsrdma/transport"
	"github.com/nfsrdma/nfsrdma/xdr/nfs3"
	"golang.org/x/sys/unix"
)

// needTools skips a test if this process is not root or a program is missing. The report of the
// whole run has the skip, and in CI the test fails instead.
func needTools(t *testing.T, programs ...string) {
	t.Helper()
	why := ""
	if os.Geteuid() != 0 {
		why = "not root: not tested is what callers may do on real file systems (ACLs, reserved blocks)"
	}
	for _, p := range programs {
		if _, err := exec.LookPath(p); err != nil {
			why = p + " is missing: not tested is what " + t.Name() + " does with it"
		}
	}
	if why != "" {
		machine.Skip(t, why)
	}
}

// run runs a program, and ends the test if the program fails.
func run(t *testing.T, args ...string) {
	t.Helper()
	if out, err := exec.Command(args[0], args[1:]...).CombinedOutput(); err != nil {
		t.Fatalf("%s: %v\n%s", strings.Join(args, " "), err, out)
	}
}

// A volume is a new ext4 file system with some megabytes, and a server of it. A fifth is reserved
// for root. Tests name users by number.
type volume struct {
	*testing.T
	dir  string
	host *host
	root *client
}

func newVolume(t *testing.T) *volume {
	t.Helper()
	needTools(t, "mkfs.ext4", "setfacl", "chattr")
	image, dir := filepath.Join(t.TempDir(), "image"), t.TempDir()
	run(t, "truncate", "-s", "16M", image)
	run(t, "mkfs.ext4", "-q", "-m", "20", image)
	run(t, "mount", "-o", "loop,acl", image, dir)
	t.Cleanup(func() { unix.Unmount(dir, unix.MNT_DETACH) })
	// the users' processes must reach the directory
	for path, mode := range map[string]os.FileMode{dir: 0o777, filepath.Dir(dir): 0o755} {
		if err := os.Chmod(path, mode); err != nil {
			t.Fatalf("os.Chmod: %v", err)
		}
	}
	old := unix.Umask(0) // as nfsrdmad does
	t.Cleanup(func() { unix.Umask(old) })
	h := serve(t, nfsserver.Options{Squash: believeAll, Exports: []nfsserver.Export{{Name: "/x", FS: diskAt(t, dir)}}})
	return &volume{T: t, dir: dir, host: h, root: h.dial(root).mount("/x")}
}

// as returns a connection as user uid, with the group with the same number and the groups gids.
func (v *volume) as(uid uint32, gids ...uint32) *client {
	v.Helper()
	return v.host.dial(transport.Cred{Flavor: 1, UID: uid, GID: uid, GIDs: gids}).mount("/x")
}

// file creates a file locally on the server, and returns its handle.
func (v *volume) file(name string, mode os.FileMode, uid, gid int) nfs3.FH {
	v.Helper()
	path := filepath.Join(v.dir, name)
	if err := os.WriteFile(path, []byte("content"), mode); err != nil {
		v.Fatalf("os.WriteFile: %v", err)
	}
	v.chown(path, mode, uid, gid)
	return v.root.lookup(v.root.root, name).FH
}

func (v *volume) chown(path string, mode os.FileMode, uid, gid int) {
	v.Helper()
	if err := os.Lchown(path, uid, gid); err != nil {
		v.Fatalf("os.Lchown: %v", err)
	}
	if err := os.Chmod(path, mode); err != nil {
		v.Fatalf("os.Chmod: %v", err)
	}
}

// mayRead checks whether a caller's READ and ACCESS are permitted.
func (v *volume) mayRead(what string, c *client, fh nfs3.FH, want bool) {
	v.Helper()
	status, access := nfs3.ErrAcces, uint32(0)
	if want {
		status, access = nfs3.OK, nfs3.AccessRead
	}
	r, _ := c.read(fh, 0, 7)
	c.want("READ by "+what, r.Status, status)
	if got := c.access(fh, nfs3.AccessRead); got != access {
		v.Errorf("ACCESS of %s: %#x, want %#x", what, got, access)
	}
}

// TestAccessControlLists: an ACL grants and denies access beyond the mode bits.
func TestAccessControlLists(t *testing.T) {
	v := newVolume(t)
	given := v.file("given", 0o600, 1000, 3000)
	// this also makes the mode 0660
	run(t, "setfacl", "-m", "u:2000:rw", filepath.Join(v.dir, "given"))
	v.mayRead("the user that the ACL names", v.as(2000), given, true)
	v.mayRead("the group, which the mode seems to allow", v.as(1500, 3000), given, false)
	v.mayRead("others", v.as(1500), given, false)
	u := v.as(2000)
	u.want("WRITE", u.write(given, 0, "x", nfs3.Unstable).Status, nfs3.OK)
	u.want("SETATTR of the size", u.setattr(given, nfs3.Sattr{SetSize: true, Size: 3}).Status, nfs3.OK)
	u.want("touch", u.setattr(given, nfs3.Sattr{MtimeHow: nfs3.SetToServerTime}).Status, nfs3.OK)
	g := v.as(1500, 3000)
	g.want("WRITE by the group", g.write(given, 0, "x", nfs3.Unstable).Status, nfs3.ErrAcces)
	g.want("touch by the group", g.setattr(given, nfs3.Sattr{MtimeHow: nfs3.SetToServerTime}).Status, nfs3.ErrAcces)

	taken := v.file("taken", 0o644, 3000, 3000)
	run(t, "setfacl", "-m", "u:1000:---", filepath.Join(v.dir, "taken"))
	v.mayRead("the user that the ACL keeps out", v.as(1000), taken, false)
	v.mayRead("others", v.as(1001), taken, true)

	dir := v.root.dir(v.root.root, "dir", 0o700)
	run(t, "setfacl", "-m", "u:2000:rwx", filepath.Join(v.dir, "dir"))
	u.file(dir, "made", 0o600)
	u.want("LOOKUP", u.lookup(dir, "made").Status, nfs3.OK)
	o := v.as(1500)
	o.want("LOOKUP by others", o.lookup(dir, "made").Status, nfs3.ErrAcces)
	o.want("CREATE by others", o.create(dir, "x", nfs3.Guarded, nfs3.Sattr{}, nfs3.Verf{}).Status, nfs3.ErrAcces)
	// A cached permission ends when the ACL changes: through the server at once, by others once the
	// changed attributes are seen.
	u.want("READ", first(u.read(given, 0, 1)).Status, nfs3.OK)
	// the mode does not change
	run(t, "setfacl", "-n", "-m", "u:2000:-", filepath.Join(v.dir, "given"))
	v.mayRead("the user that the ACL named", u, given, false)
}

func first[A, B any](a A, _ B) A { return a }

// TestDefaultACL: a directory's default ACL applies to new objects.
func TestDefaultACL(t *testing.T) {
	v := newVolume(t)
	u := v.as(1000)
	dir := u.dir(u.root, "dir", 0o755)
	run(t, "setfacl", "-d", "-m", "u:2000:rw,g::r,o::-,m::rw", filepath.Join(v.dir, "dir"))
	u.file(dir, "remote", 0o666)
	u.dir(dir, "remote-dir", 0o777)
	u.mknod(dir, "remote-fifo", nfs3.TypeFIFO, nfs3.Specdata{})
	// that user's local process makes the same objects
	cmd := exec.Command("sh", "-c", "umask 0; : > local; mkdir local-dir; mkfifo -m 600 local-fifo")
	cmd.Dir = filepath.Join(v.dir, "dir")
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 1000, Gid: 1000}}
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	for _, kind := range []string{"", "-dir"} {
		remote, local := v.acl("dir/remote"+kind), v.acl("dir/local"+kind)
		if remote != local || !strings.Contains(remote, "2000:rw") {
			t.Errorf("made through the server:\n%s\nby a local process:\n%s", remote, local)
		}
	}
	w := v.as(2000)
	w.want("WRITE by the user whom the ACL names", w.write(v.root.lookup(dir, "remote").FH, 0, "x", nfs3.Unstable).Status, nfs3.OK)
}

func (v *volume) acl(name string) string {
	v.Helper()
	out, err := exec.Command("getfacl", "-pnc", filepath.Join(v.dir, name)).CombinedOutput()
	if err != nil {
		v.Fatalf("getfacl: %v: %s", err, out)
	}
	return string(out)
}

// TestReservedBlocks: only root can use the blocks that ext4 reserves for root.
func TestReservedBlocks(t *testing.T) {
	v := newVolume(t)
	fill := func(c *client, name string) (n uint64, st nfs3.Status) {
		fh := c.file(c.root, name, 0o644)
		data := strings.Repeat("x", 64<<10)
		for {
			res := c.write(fh, n, data, nfs3.FileSync)
			if res.Status != nfs3.OK {
				return n, res.Status
			}
			n += uint64(res.Count)
		}
	}
	u := v.as(1000)
	n, st := fill(u, "user")
	u.want("WRITE by a user of a full disk", st, nfs3.ErrNoSpc)
	more, st := fill(v.root, "root")
	v.root.want("WRITE by root of a full disk", st, nfs3.ErrNoSpc)
	if n < 1<<20 || more < 1<<20 {
		t.Errorf("a user wrote %d bytes, root %d of those reserved", n, more)
	}
}

// TestImmutableFiles: flags set by chattr apply to all users.
func TestImmutableFiles(t *testing.T) {
	v := newVolume(t)
	for flag, name := range map[string]string{"i": "immutable", "a": "append-only"} {
		fh := v.file(name, 0o666, 1000, 1000)
		path := filepath.Join(v.dir, name)
		run(t, "chattr", "+"+flag, path)
		t.Cleanup(func() { exec.Command("chattr", "-"+flag, path).Run() })
		for who, c := range map[string]*client{"root": v.root, "owner": v.as(1000), "other": v.as(2000)} {
			for what, st := range map[string]nfs3.Status{
				"WRITE": c.write(fh, 0, "x", nfs3.Unstable).Status, "REMOVE": c.remove(c.root, name).Status,
				"RENAME": c.rename(c.root, name, c.root, "x").Status, "truncate": c.setattr(fh, nfs3.Sattr{SetSize: true}).Status,
			} {
				if st != nfs3.ErrPerm && st != nfs3.ErrAcces {
					t.Errorf("%s of an %s file by %s: %v", what, name, who, st)
				}
			}
			c.want("READ by "+who, first(c.read(fh, 0, 1)).Status, nfs3.OK)
		}
	}
}

// TestNewObjectsBelongToTheirMaker: new objects have their maker as owner from the first moment. A
// process that watches the directory sees this too.
func TestNewObjectsBelongToTheirMaker(t *testing.T) {
	v := newVolume(t)
	u := v.as(1000, 4000)
	dir := u.dir(u.root, "dir", 0o700)
	done := make(chan struct{})
	var watch sync.WaitGroup
	watch.Go(func() {
		for {
			select {
			case <-done:
				return
			default:
			}
			names, _ := os.ReadDir(filepath.Join(v.dir, "dir"))
			for _, e := range names {
				if in, err := e.Info(); err == nil {
					st := in.Sys().(*syscall.Stat_t)
					if got, want := [3]uint32{st.Uid, st.Gid, st.Mode & 0o7777}, [3]uint32{1000, 1000, 0o640}; got != want {
						t.Errorf("%s: user, group and mode %v, want %v", e.Name(), got, want)
						return
					}
				}
			}
		}
	})
	for i := range 300 {
		switch name := fmt.Sprint(i); i % 3 {
		case 0:
			u.file(dir, name, 0o640)
			u.want("REMOVE", u.remove(dir, name).Status, nfs3.OK)
		case 1:
			u.dir(dir, name, 0o640)
			u.want("RMDIR", u.rmdir(dir, name).Status, nfs3.OK)
		case 2:
			a := nfs3.MknodArgs{Where: where(dir, name), Type: nfs3.TypeFIFO, Attr: nfs3.Sattr{SetMode: true, Mode: 0o640}}
			var res nfs3.MknodRes
			u.call(nfs3.ProcMknod, &a, &res)
			u.want("MKNOD", res.Status, nfs3.OK)
			u.want("REMOVE", u.remove(dir, name).Status, nfs3.OK)
		}
	}
	close(done)
	watch.Wait()
	if a := u.attr(u.file(u.root, "set-id", 0o6755)); a.Mode != 0o6755 {
		t.Errorf("a program made with mode 6755 has %04o", a.Mode)
	}
	if a := u.attr(u.dir(u.root, "set-gid-dir", 0o2775)); a.Mode != 0o2775 {
		t.Errorf("a directory made with mode 2775 has %04o", a.Mode)
	}
	// a new file may have one of the caller's groups, but not another group or user
	res := u.create(u.root, "g", nfs3.Guarded, nfs3.Sattr{SetGID: true, GID: 4000}, nfs3.Verf{})
	u.want("CREATE for a group of one's own", res.Status, nfs3.OK)
	for _, s := range []nfs3.Sattr{{SetGID: true, GID: 4001}, {SetUID: true, UID: 2000}, {SetUID: true}} {
		u.want("CREATE for others", u.create(u.root, "o", nfs3.Guarded, s, nfs3.Verf{}).Status, nfs3.ErrPerm)
		u.want("LOOKUP", u.lookup(u.root, "o").Status, nfs3.ErrNoEnt)
	}
}

// TestInvalidUIDIsNotRoot: the kernel takes one user number as "unchanged". A caller with this
// number must not keep the server's own user.
func TestInvalidUIDIsNotRoot(t *testing.T) {
	v := newVolume(t)
	secret := v.file("secret", 0o600, 0, 0)
	for _, cred := range []transport.Cred{{Flavor: 1, UID: ^uint32(0), GID: 1}, {Flavor: 1, UID: 1, GID: ^uint32(0)}, {Flavor: 1, UID: 1, GID: 1, GIDs: []uint32{^uint32(0)}}} {
		c := v.host.dial(cred)
		v.mayRead(fmt.Sprintf("user %d, group %d", cred.UID, cred.GID), c, secret, false)
		c.want("CREATE", c.create(v.root.root, "new", nfs3.Guarded, nfs3.Sattr{}, nfs3.Verf{}).Status, nfs3.ErrAcces)
	}
}
