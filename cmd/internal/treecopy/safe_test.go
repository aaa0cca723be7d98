// Data that cp and mv must not lose, and rights that they must not hand out.

package treecopy

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/nfsrdma/nfsrdma/nfsserver"
	"github.com/nfsrdma/nfsrdma/test/machine"
	"github.com/nfsrdma/nfsrdma/test/must"
)

// TestSameFileIsRefused: a file is not copied onto itself, neither by name nor by a hard or
// symbolic link. This holds locally, on a server, through two connections, and through a server on
// this machine.
func TestSameFileIsRefused(t *testing.T) {
	r := newRig(t, asCaller)
	write(t, "precious", r.dir, "f")
	for link, err := range map[string]error{
		"h": os.Link(filepath.Join(r.dir, "f"), filepath.Join(r.dir, "h")),
		"s": os.Symlink("f", filepath.Join(r.dir, "s")),
	} {
		if err != nil {
			t.Fatal(link, err)
		}
	}
	one, two := r.mount(t, "/dir"), r.mount(t, "/dir")
	here := func(name string) Operand { return local(filepath.Join(r.dir, name)) }
	there := func(name string) Operand { return at(one, name) }
	other := func(name string) Operand { return at(two, name) }
	for side, from := range map[string]func(string) Operand{"local": here, "remote": there} {
		for _, name := range []string{"f", "h", "s"} {
			for to, dst := range map[string]Operand{
				"local": here(name), "remote": there(name), "other connection": other(name), "directory": at(one, "/"),
			} {
				if to == "directory" && name != "f" {
					continue
				}
				for _, o := range []Options{{Follow: FollowAlways}, all, {Follow: FollowAlways, InPlace: true}} {
					l := cp(t, o, dst, from("f"))
					if len(l.lines) != 1 || !strings.Contains(l.lines[0], "are the same file") {
						t.Errorf("%s f to %s %s, recursive %v: %q", side, to, name, o.Recursive, l.lines)
					}
					wantFile(t, "precious", r.dir, "f")
				}
			}
		}
	}
	cp(t, Options{Follow: FollowAlways}, here("f"), here("s")).want(t, "are the same file")
	cp(t, all, here("f"), here("s")).want(t, "are the same file")
	mv(t, Options{}, at(one, "h"), at(one, "f")).want(t, "are the same file")
	mv(t, Options{}, at(two, "f"), at(one, "f")).want(t, "are the same file")
	mv(t, Options{}, here("f"), at(one, "f")).want(t, "are the same file")
	wantFile(t, "precious", r.dir, "f")
}

func TestJustCreatedIsNotOverwritten(t *testing.T) {
	r := newRig(t, asCaller)
	x := r.mount(t, "/dir")
	for _, d := range []string{"a", "b"} {
		write(t, d, r.dir, d, "f")
		write(t, d, r.dir, d, "g")
	}
	must.Succeed(t, os.Mkdir(filepath.Join(r.dir, "dst"), 0o755))
	cp(t, Options{}, at(x, "dst"), at(x, "a/f"), at(x, "b/f")).want(t, "will not overwrite just-created 'dst/f' with 'b/f'")
	wantFile(t, "a", r.dir, "dst/f")
	mv(t, Options{}, at(x, "dst"), at(x, "a/g"), at(x, "b/g")).want(t, "will not overwrite just-created 'dst/g' with 'b/g'")
	wantFile(t, "a", r.dir, "dst/g")
	wantFile(t, "b", r.dir, "b/g")
	out := t.TempDir()
	mv(t, Options{}, local(out), at(x, "a/f"), at(x, "b/f")).want(t, "will not overwrite just-created")
	wantFile(t, "a", out, "f")
	wantFile(t, "b", r.dir, "b/f")
}

// TestSetIDStaysWithItsOwner: a copy of a setuid file is setuid only with the same owner.
func TestSetIDStaysWithItsOwner(t *testing.T) {
	machine.NeedRoot(t, "files of several users: needs root")
	const setid = fs.ModeSetuid | fs.ModeSetgid
	open, squashed := newRig(t, asCaller), newRig(t, nfsserver.Squash{All: true, UID: 4321, GID: 4321})
	must.Succeed(t, os.Chmod(squashed.dir, 0o777))
	src := write(t, "program", t.TempDir(), "suid")
	must.Succeed(t, os.Chown(src, 1234, 1234))
	must.Succeed(t, os.Chmod(src, 0o755|setid))
	out := t.TempDir()
	for _, c := range []struct {
		name string
		o    Options
		to   Operand
		path string
		want fs.FileMode
		uid  uint32
	}{
		{"local", Options{}, local(out), filepath.Join(out, "suid"), 0, 0},
		{"local -p mode", Options{Preserve: Preserve{Mode: true}}, local(out), filepath.Join(out, "suid"), 0, 0},
		{"remote", Options{}, at(open.mount(t, "/dir"), "/"), filepath.Join(open.dir, "suid"), 0, 0},
		{"remote -a", all, at(open.mount(t, "/dir"), "/new"), filepath.Join(open.dir, "new"), setid, 1234},
		{"local -a", all, local(filepath.Join(out, "a")), filepath.Join(out, "a"), setid, 1234},
		{"squashed -a", all, at(squashed.mount(t, "/dir"), "/"), filepath.Join(squashed.dir, "suid"), 0, 4321},
	} {
		c.o.Umask = 0o022
		l := cp(t, c.o, c.to, local(src))
		fi, err := os.Stat(c.path)
		if err != nil {
			t.Errorf("%s: %v %q", c.name, err, l.lines)
			continue
		}
		if fi.Mode() != 0o755|c.want || fi.Sys().(*syscall.Stat_t).Uid != c.uid {
			t.Errorf("%s: mode %v of user %d", c.name, fi.Mode(), fi.Sys().(*syscall.Stat_t).Uid)
		}
		if lost := c.name == "squashed -a"; lost != (len(l.lines) == 1 && strings.Contains(l.lines[0], "failed to preserve ownership")) {
			t.Errorf("%s: %q", c.name, l.lines)
		}
	}
}

// TestTreeIsNotCopiedIntoItself: nothing is made, however the destination inside is disguised.
func TestTreeIsNotCopiedIntoItself(t *testing.T) {
	r := newRig(t, asCaller)
	write(t, "x", r.dir, "d/in/f")
	must.Succeed(t, os.Symlink("d/in", filepath.Join(r.dir, "link")))
	before := names(t, r.dir)
	one, two := r.mount(t, "/dir"), r.mount(t, "/dir")
	here := func(name string) Operand { return local(filepath.Join(r.dir, name)) }
	for _, c := range [][2]Operand{
		{here("d"), here("d/in")}, {here("d"), here("d/in/new")}, {here("d"), here("d")}, {here("d"), here("link")},
		{at(one, "d"), at(one, "d/in")}, {at(one, "d"), at(one, "d/new")}, {at(one, "d"), at(one, "link/new")},
		{at(one, "d"), at(two, "d/in/new")}, {at(one, "d"), here("d/in/new")}, {here("d"), at(one, "d/in/new")},
	} {
		l := cp(t, all, c[1], c[0])
		if len(l.lines) != 1 || !strings.Contains(l.lines[0], "cannot copy a directory, ") || !strings.Contains(l.lines[0], ", into itself, ") {
			t.Errorf("%s to %s: %q", c[0].Text, c[1].Text, l.lines)
		}
		l = mv(t, Options{}, c[1], c[0])
		if len(l.lines) != 1 || !strings.Contains(l.lines[0], "to a subdirectory of itself") && !strings.Contains(l.lines[0], "are the same file") {
			t.Errorf("mv %s %s: %q", c[0].Text, c[1].Text, l.lines)
		}
	}
	if after := names(t, r.dir); after != before {
		t.Errorf("made: %s", after)
	}
	// a link in the source leads to a directory above the destination
	must.Succeed(t, os.MkdirAll(filepath.Join(r.dir, "src"), 0o755))
	must.Succeed(t, os.Symlink(r.dir, filepath.Join(r.dir, "src/up")))
	cp(t, Options{Recursive: true, Follow: FollowAlways}, here("dst"), here("src")).want(t, "into itself")
}

// TestHostileTree: names and links from a server never lead out of the destination.
func TestHostileTree(t *testing.T) {
	dirMode := fs.ModeDir | 0o700
	r := newRig(t, asCaller)
	for name, list := range map[string][]Meta{
		"name that goes up":   {{Name: "../out", Mode: 0o600, Size: 3}},
		"name that is a path": {{Name: "a/b", Mode: 0o600, Size: 3}},
		"parent":              {{Name: "..", Mode: dirMode}},
		"no name":             {{Name: "", Mode: dirMode}},
	} {
		src, dst := t.TempDir(), t.TempDir()
		l := cp(t, all, local(dst), at(&fake{list: list}, src))
		if len(l.lines) != 1 || len(names(t, dst)) == 0 || strings.Contains(names(t, dst), " ") {
			t.Errorf("%s: %q, made %s", name, l.lines, names(t, dst))
		}
	}
	// A later copy does not write through a link that an earlier copy has made.
	top := t.TempDir()
	victim := write(t, "victim", top, "victim")
	must.Succeed(t, os.MkdirAll(filepath.Join(top, "dst/src"), 0o755))
	for link, target := range map[string]string{"file": victim, "dir": top} {
		must.Succeed(t, os.Symlink(target, filepath.Join(top, "dst/src", link)))
	}
	write(t, "evil", r.dir, "src/file")
	write(t, "evil", r.dir, "src/dir/victim")
	l := cp(t, Options{Recursive: true}, local(filepath.Join(top, "dst")), at(r.mount(t, "/dir"), "src"))
	l.want(t, "not writing through symlink", "cannot overwrite non-directory")
	wantFile(t, "victim", victim)
}
