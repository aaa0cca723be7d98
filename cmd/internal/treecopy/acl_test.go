// ACLs: a copy lets in nobody whom its source, or the target before it, kept out.

package treecopy

import (
	"bytes"
	"os"
	"os/exec"
	"testing"
)

// setfacl runs setfacl, or skips the test where there are no ACLs.
func setfacl(t *testing.T, args ...string) {
	t.Helper()
	if out, err := exec.Command("setfacl", args...).CombinedOutput(); err != nil {
		skip(t, "no setfacl, or no ACLs here: "+string(out))
	}
}

func acl(t *testing.T, path string) []byte {
	t.Helper()
	out, err := exec.Command("getfacl", "-cnp", path).Output()
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// TestDefaultACLDoesNotOpenCopies: a directory's default ACL names a user. What has
// its source's mode, or the mode of what it replaces, does not get that user with it.
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
		t.Fatal(err)
	}
	cp(t, all, local(dst+"/p"), local(src+"/p")).want(t)
	for _, name := range []string{"new", "old", "tree", "tree/f", "p"} {
		if got := acl(t, dst+"/"+name); bytes.Contains(got, []byte("1000")) {
			t.Errorf("%s lets in user 1000:\n%s", name, got)
		}
	}
}

// TestACLsOfDirectories: they go along on this machine; a server's directory gives
// the group what the ACL gives it, not the mask.
func TestACLsOfDirectories(t *testing.T) {
	needRoot(t)
	r := newRig(t, asCaller)
	src := t.TempDir() + "/d"
	write(t, "x", src, "f")
	_ = os.Chmod(src, 0o700|os.ModeSetgid)
	setfacl(t, "-m", "u:1000:rwx,g::---,d:u:1000:r", src)
	cp(t, all, at(r.mount(t, "/dir"), "up"), local(src)).want(t, "warning")
	if got := statOf(t, r.dir, "up").Mode & 0o7777; got != 0o2700 {
		t.Errorf("on the server the mode is %o", got)
	}
	cp(t, all, local(r.dir+"/here"), local(src)).want(t)
	if want, got := acl(t, src), acl(t, r.dir+"/here"); !bytes.Equal(got, want) {
		t.Errorf("here the ACL is\n%s, not\n%s", got, want)
	}
}
