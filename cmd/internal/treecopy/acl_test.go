// ACLs: a copy grants access to no user without access to its source or the previous target.

package treecopy

import (
	"bytes"
	"context"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/nfsrdma/nfsrdma/nfsclient"
	"github.com/nfsrdma/nfsrdma/test/machine"
)

// setfacl runs setfacl, or skips the test without ACLs.
func setfacl(t *testing.T, args ...string) {
	t.Helper()
	if out, err := exec.Command("setfacl", args...).CombinedOutput(); err != nil {
		machine.Skip(t, "no setfacl, or no ACLs here: "+string(out))
	}
}

func acl(t *testing.T, path string) []byte {
	t.Helper()
	out, err := exec.Command("getfacl", "-cnp", path).Output()
	if err != nil {
		t.Fatalf("getfacl: %v", err)
	}
	return out
}

// TestDefaultACLDoesNotOpenCopies: a directory's default ACL names a user. A file with its source's
// mode, or its predecessor's, does not get that user.
func TestDefaultACLDoesNotOpenCopies(t *testing.T) {
	src, dst := t.TempDir(), t.TempDir()
	file := write(t, "x", src, "f")
	write(t, "x", src, "d/f")
	for _, p := range []string{file, src + "/d/f", write(t, "old", dst, "old")} {
		_ = os.Chmod(p, 0o640)
	}
	_ = os.Chmod(src+"/d", 0o750)
	setfacl(t, "-d", "-m", "u:1000:rw", dst)

	cp(t, Options{Preserve: Preserve{Mode: true}}, local(dst+"/new"), local(file)).want(t)
	cp(t, Options{}, local(dst+"/old"), local(file)).want(t)
	cp(t, all, local(dst+"/tree"), local(src+"/d")).want(t)
	if err := exec.Command("mkfifo", "-m", "640", src+"/p").Run(); err != nil {
		t.Fatalf("mkfifo: %v", err)
	}
	cp(t, all, local(dst+"/p"), local(src+"/p")).want(t)
	for _, name := range []string{"new", "old", "tree", "tree/f", "p"} {
		if got := acl(t, dst+"/"+name); bytes.Contains(got, []byte("1000")) {
			t.Errorf("%s lets in user 1000:\n%s", name, got)
		}
	}
}

// aclTree makes a tree with all kinds of ACLs and returns its path.
func aclTree(t *testing.T) string {
	t.Helper()
	top := t.TempDir() + "/top"
	for _, name := range []string{"named", "masked", "setid", "plain", "needless", "many", "all/f", "default/f", "bare/f", "link"} {
		if p := write(t, name, top, name); os.Chmod(p, 0o640) != nil {
			t.Fatal(p)
		}
	}
	for _, err := range []error{
		os.Chmod(top+"/setid", 0o755|os.ModeSetuid|os.ModeSetgid), os.Chown(top+"/named", 1234, 1235),
		os.Chmod(top+"/all", 0o750|os.ModeSetgid|os.ModeSticky), syscall.Mkfifo(top+"/fifo", 0o600),
		os.Remove(top + "/link"), os.Symlink("named", top+"/link"),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	var many strings.Builder
	for i := range 60 {
		fmt.Fprintf(&many, "u:%d:r,", 2000+i)
	}
	for name, list := range map[string]string{
		"named": "u:1000:rw,g::---", "masked": "u:1000:r,g::rwx,m::r", "setid": "g:1001:rx", "needless": "m::rw", "many": many.String() + "g:7:rw",
		"all": "u:1000:rwx,g::---,d:u:1000:rx,d:g:1001:-,d:o::-", "default": "d:u:1000:rw", "fifo": "u:1000:w", "all/f": "u:1000:-",
	} {
		setfacl(t, "-m", strings.TrimSuffix(list, ","), top+"/"+name)
	}
	return top
}

// aclsOfTree returns what getfacl prints for a tree: owners, set-id bits, modes and ACLs.
func aclsOfTree(t *testing.T, dir string) string {
	t.Helper()
	cmd := exec.Command("sh", "-c", "find . ! -type l | sort | xargs getfacl -np")
	cmd.Dir = dir
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%s: %v\n%s", dir, err, out)
	}
	return string(out)
}

// TestACLsGoAlong: a tree copied to a server, from it or between two servers, over RDMA or TCP, has
// the same ACLs as with cp -a. New and existing targets keep nothing of their directory's default
// ACL.
func TestACLsGoAlong(t *testing.T) {
	machine.NeedRoot(t, "files of several users: needs root")
	src, out := aclTree(t), t.TempDir()
	r, other := newRig(t, asCaller), newRig(t, asCaller)
	for _, dir := range []string{out, r.dir, other.dir} {
		setfacl(t, "-m", "d:u:1002:rwx,d:g:1003:rwx", dir)
	}
	if msg, err := exec.Command("cp", "-a", src, out+"/cp").CombinedOutput(); err != nil {
		t.Fatalf("cp: %v\n%s", err, msg)
	}
	want := aclsOfTree(t, out+"/cp")
	rdma := r.serveRDMA(t)
	for tr, addr := range map[nfsclient.Transport]string{nfsclient.TCP: r.addr, nfsclient.RDMA: rdma} {
		x, y := mountBy(t, tr, addr, "/dir"), other.mount(t, "/dir")
		name := "/" + tr.String()
		for range 2 { // the second copies replace existing targets
			cp(t, all, at(x, name), local(src+"/.")).want(t)
			cp(t, all, at(y, name), at(x, name+"/.")).want(t)
			cp(t, all, local(out+name), at(y, name+"/.")).want(t)
			for what, dir := range map[string]string{"up": r.dir, "between servers": other.dir, "down": out} {
				if got := aclsOfTree(t, dir+name); got != want {
					t.Errorf("%s by %v:\n%s\nnot\n%s", what, tr, got, want)
				}
			}
			// the second copy must remove this ACL
			setfacl(t, "-R", "-m", "u:1002:rwx,d:u:1002:rwx", r.dir+name)
		}
		setfacl(t, "-k", r.dir+name) // only the target has an ACL, and no default ACL hints at one
		one := Options{InPlace: true, Preserve: Preserve{Mode: true}}
		for _, name := range []string{"plain", "masked"} {
			setfacl(t, "-m", "u:1002:rwx", r.dir+"/"+tr.String()+"/"+name)
			cp(t, one, at(x, "/"+tr.String()+"/"+name), local(src+"/"+name)).want(t)
			if want, got := acl(t, src+"/"+name), acl(t, r.dir+"/"+tr.String()+"/"+name); !bytes.Equal(got, want) {
				t.Errorf("%s in place by %v:\n%s\nnot\n%s", name, tr, got, want)
			}
		}
	}
}

// TestACLsWithoutRoom: a target without ACLs gives one line per object, as cp -p does, and the
// group gets its entry's rights rather than the mask. With mv the lines are warnings, and the
// source is removed.
func TestACLsWithoutRoom(t *testing.T) {
	machine.NeedRoot(t, "files of several users: needs root")
	r := newRig(t, asCaller)
	src := aclTree(t)
	x := r.mount(t, "/mem")
	var lines []string
	for _, name := range []string{"named", "masked", "setid", "needless", "many", "all", "all/f", "default", "fifo"} {
		lines = append(lines, "preserving permissions for '/up/"+name+"': operation not supported")
	}
	modes := map[string]fs.FileMode{"named": 0o600, "masked": 0o640, "setid": 0o755 | fs.ModeSetuid | fs.ModeSetgid,
		"plain": 0o640, "needless": 0o640, "all": 0o700 | fs.ModeSetgid | fs.ModeSticky, "fifo": 0o600}
	check := func() {
		t.Helper()
		for name, want := range modes {
			if m, err := x.Stat(t.Context(), "/up/"+name, false); err != nil || m.Mode&permBits != want {
				t.Errorf("%s: %v, %v; want %v", name, m.Mode, err, want)
			}
		}
	}
	cp(t, all, at(x, "/up"), local(src)).want(t, lines...)
	check()
	cp(t, Options{Recursive: true}, at(x, "/plain"), local(src+"/all")).want(t)
	if err := x.FS.Rename(t.Context(), "/up", "/up2"); err != nil {
		t.Fatalf("Rename: %v", err)
	}
	for i := range lines {
		lines[i] = "warning: " + lines[i]
	}
	mv(t, Options{}, at(x, "/up"), local(src)).want(t, lines...)
	check()
	if _, err := os.Lstat(src); err == nil {
		t.Error("the source of the move is still there")
	}
}

// TestCallsForACLs: known facts cost no call. A source costs a GETACL with -p and none without. A
// target that needs no ACL costs one call for all files in an existing directory.
func TestCallsForACLs(t *testing.T) {
	machine.NeedRoot(t, "files of several users: needs root")
	r := newRig(t, asCaller)
	src, out := t.TempDir(), t.TempDir()
	const files = 200
	for i := range files {
		write(t, "x", src, fmt.Sprintf("d%d/f%d", i%2, i))
	}
	calls := func(x Remote) (get, set uint64) {
		c := x.FS.Client().Calls()
		return uint64(c["GETACL"].Count), uint64(c["SETACL"].Count)
	}
	x := r.mount(t, "/dir")
	for _, c := range []struct {
		what        string
		opt         Options
		dst, src    Operand
		least, most uint64
	}{
		{"up", all, at(x, "/up"), local(src), 1, 1},
		{"up, nothing kept", Options{Recursive: true}, at(x, "/up2"), local(src), 0, 0},
		{"down", all, local(out + "/down"), at(x, "/up"), files + 3, files + 3},
		{"down, nothing kept", Options{Recursive: true}, local(out + "/down2"), at(x, "/up"), 0, 0},
	} {
		before, _ := calls(x)
		cp(t, c.opt, c.dst, c.src).want(t)
		get, set := calls(x)
		if get -= before; get < c.least || get > c.most || set != 0 {
			t.Errorf("%s: %d GETACL and %d SETACL, want %d to %d", c.what, get, set, c.least, c.most)
		}
	}
	mem := r.mount(t, "/mem") // without ACLs
	cp(t, all, at(mem, "/up"), local(src)).want(t)
	cp(t, all, local(out+"/mem"), at(mem, "/up")).want(t)
	if get, set := calls(mem); get > copyWorkers+copyWalkers || set != 0 {
		t.Errorf("of a file system without ACLs: %d GETACL and %d SETACL", get, set)
	}
}

// TestTargetsKeepACLs: a file that is replaced without -p keeps its ACL on a server too.
func TestTargetsKeepACLs(t *testing.T) {
	machine.NeedRoot(t, "files of several users: needs root")
	r := newRig(t, asCaller)
	src := write(t, "new", t.TempDir(), "new")
	setfacl(t, "-m", "d:u:1002:rwx", r.dir)
	for name, list := range map[string]string{"named": "u:1000:rw,g::---", "plain": "o::-"} {
		old := write(t, "old", r.dir, name)
		setfacl(t, "-b", old)
		setfacl(t, "-m", list, old)
		want := acl(t, old)
		cp(t, Options{}, at(r.mount(t, "/dir"), "/"+name), local(src)).want(t)
		if wantFile(t, "new", old); !bytes.Equal(acl(t, old), want) {
			t.Errorf("%s has\n%s\nnot\n%s", name, acl(t, old), want)
		}
	}
}

// TestACLsComeFirst: no user has more access during the copy than at its end. A directory is
// private while it is filled. A file gets its ACL before the mode that shows the mask.
func TestACLsComeFirst(t *testing.T) {
	machine.NeedRoot(t, "files of several users: needs root")
	src, dst := t.TempDir()+"/d", t.TempDir()
	file := write(t, "x", src, "f")
	for _, p := range []string{src, file} {
		_ = os.Chmod(p, 0o700)
		setfacl(t, "-m", "u:1000:rwx", p)
	}
	var set []Attr
	hooked := &fake{
		open: func(_ Meta, s Source) (Source, error) { return s, nil },
		sink: func(_ string, s Sink) (Sink, error) {
			if mode := statOf(t, dst, "d").Mode & 0o7777; mode != 0o700 {
				t.Errorf("the directory is filled with mode %o", mode)
			}
			return &sinkAs{Sink: s, attr: func(a Attr) error {
				if err := s.SetAttr(t.Context(), a); err != nil {
					return err
				}
				if a.SetACLs || a.SetMode {
					set = append(set, a)
				}
				return nil
			}}, nil
		},
	}
	cp(t, all, at(hooked, dst+"/d"), local(src)).want(t)
	if len(set) != 2 || !set[0].SetACLs || set[0].SetMode || !set[1].SetMode {
		t.Errorf("of the file were set, in this order: %+v", set)
	}
}

// TestMoveWithACLsThatStay: a target with ACLs that its source lacks does not replace the source.
// The message names the cause.
func TestMoveWithACLsThatStay(t *testing.T) {
	src, dst := t.TempDir(), t.TempDir()
	file := write(t, "x", src, "f")
	refuses := &fake{
		sink: func(_ string, s Sink) (Sink, error) {
			return &sinkAs{Sink: s, attr: func(a Attr) error {
				if a.SetACLs {
					return unix.EIO
				}
				return s.SetAttr(t.Context(), a)
			}}, nil
		},
	}
	line := "preserving permissions for '" + dst + "/f': input/output error"
	mv(t, Options{}, at(refuses, dst+"/f"), at(apart{}, file)).want(t, line)
	wantFile(t, "x", src, "f")
	setfacl(t, "-m", "u:1000:rwx", file) // its loss alone is a warning
	l := mv(t, Options{}, at(refuses, dst+"/f"), at(apart{}, file))
	if got, want := l.lines, []string{"warning: " + line, line}; !slices.Equal(got, want) {
		t.Errorf("with an ACL at the source: got %q, want %q", got, want)
	}
	wantFile(t, "x", src, "f")
	if got := names(t, dst); got != "" {
		t.Errorf("the target's directory has %q, want nothing", got)
	}
}

// TestACLsThatCannotBeRead: one line reports it, and the group gets no rights, because the mode's
// group bits may be a mask.
func TestACLsThatCannotBeRead(t *testing.T) {
	dst := t.TempDir()
	file := write(t, "x", t.TempDir(), "f")
	_ = os.Chmod(file, 0o664)
	broken := &fake{open: func(_ Meta, s Source) (Source, error) { return noACLSource{s}, nil }}
	cp(t, all, local(dst+"/f"), at(broken, file)).want(t, "preserving permissions for '"+dst+"/f': input/output error")
	if mode := statOf(t, dst, "f").Mode & 0o7777; mode != 0o604 {
		t.Errorf("the mode is %o", mode)
	}
}

// A noACLSource is a file with unreadable ACLs.
type noACLSource struct{ Source }

func (noACLSource) ACLs(context.Context) (nfsclient.ACLs, error) {
	return nfsclient.ACLs{}, syscall.EIO
}

// TestACLOfAnUnreadableDirectory: the copy of an unreadable directory still gets its ACL, as with
// cp -a.
func TestACLOfAnUnreadableDirectory(t *testing.T) {
	src, dst := t.TempDir(), t.TempDir()
	write(t, "x", src, "d/shut/f")
	setfacl(t, "-m", "u:1000:rx,d:u:1000:r", src+"/d/shut")
	shut := &fake{sub: func(context.Context, Meta) error { return syscall.EACCES }}
	cp(t, all, local(dst+"/d"), at(shut, src+"/d")).want(t, "cannot access '"+src+"/d/shut': permission denied")
	if want, got := acl(t, src+"/d/shut"), acl(t, dst+"/d/shut"); !bytes.Equal(got, want) {
		t.Errorf("the ACL is\n%s, not\n%s", got, want)
	}
}
