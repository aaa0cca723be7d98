// ACLs in a mount through the users' tools, compared with the same commands in the server's
// directory.

package fusefs_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/nfsrdma/nfsrdma/test/machine"
	"github.com/nfsrdma/nfsrdma/test/must"
	"golang.org/x/sys/unix"

	"github.com/nfsrdma/nfsrdma/posixacl"
)

// needTools skips the test if a command is missing.
func needTools(t testing.TB, names ...string) {
	t.Helper()
	for _, name := range names {
		if _, err := exec.LookPath(name); err != nil {
			machine.Skip(t, "needs "+name)
		}
	}
}

// sh runs a script in a directory, as root.
func sh(t testing.TB, dir, script string) string {
	t.Helper()
	cmd := exec.Command("sh", "-c", script)
	cmd.Dir = dir
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("in %s: %s: %v\n%s", dir, script, err, out)
	}
	return string(out)
}

// same runs a script in the mount and in local, a directory beside the exported one. It compares
// the scripts' output, and getfacl's output in local and on the server.
func (m *mounted) same(local, script string) {
	m.t.Helper()
	const show = "getfacl -nR . 2>&1; find . -type f -o -type d | sort | xargs ls -ld | cut -d' ' -f1"
	want, got := sh(m.t, local, script), sh(m.t, m.dir, script)
	if got != want {
		m.t.Errorf("%s\nin the mount:\n%s\nlocally:\n%s", script, got, want)
	}
	want = sh(m.t, local, show)
	for _, dir := range []string{m.dir, m.export} {
		if got := sh(m.t, dir, show); got != want {
			m.t.Errorf("%s: in %s\n%s\nlocally:\n%s", script, dir, got, want)
		}
	}
}

// beside returns a directory on the export's file system with the same mode and owner.
func (m *mounted) beside() string {
	local := filepath.Join(filepath.Dir(m.export), "local")
	must.Succeed(m.t, os.Mkdir(local, 0o777))
	must.Succeed(m.t, os.Chmod(local, 0o777))
	return local
}

// setfacl, getfacl, chmod, ls and cp work in a mount as in a local directory.
func TestACLsAsLocally(t *testing.T) {
	needTools(t, "setfacl", "getfacl", "getfattr")
	for _, rdma := range []bool{true, false} {
		m := mountOver(t, options{AcMin: long, AcMax: long}, rdma)
		local := m.beside()
		for _, script := range []string{
			"umask 022; mkdir -p d/sub; echo x >d/file; echo y >plain; ln -s plain link",
			"setfacl -m u:1002:rw,g:1003:r d/file; stat -c %a d/file",
			"setfacl -m u:1002:rwx -m d:u:1002:rwx,d:g:1003:rx d; stat -c %a d",
			"ls -l | cut -c 1-11; ls -ld d | cut -c 1-11",
			"setfacl -m m::r d/file; stat -c %a d/file; chmod 670 d/file; getfacl -nc d/file",
			"getfattr -d -m - -e hex d d/file plain link 2>&1 | sort",
			"setfacl -m u:9:r d; setfacl -x u:9 d", // leaves the default ACL
			"setfacl -R -m g:77:rX d",
			"cp -p d/file copied; cp -a d tree; cp d/file modeless",
			"getfacl d | setfacl --set-file=- tree/sub",
			"setfacl -k tree; setfacl -b tree/file; stat -c %a tree tree/file",
			"setfacl -d -m u:5:rwx plain 2>&1 || echo refused",
			"setfacl -m u:5:rwx link; getfacl -nc link; setfacl -b plain",
			"setfacl --set u::rw,g::r,o::- plain; stat -c %a plain",
			"setfacl -m $(seq -s, -f u:%.0f:r 2000 2400) plain; getfacl -n plain | wc -l",
		} {
			m.same(local, script)
		}
		if n := m.stats().Calls["SETACL"].Count; n == 0 {
			t.Error("no SETACL")
		}
	}
}

// The umask is ignored in a directory with a default ACL, and applies elsewhere, for all kinds of
// new objects.
func TestNewFilesInDirectoryWithDefaultACL(t *testing.T) {
	needTools(t, "setfacl", "getfacl")
	m := mountOver(t, options{AcMin: long, AcMax: long}, true)
	local := m.beside()
	const makeAll = `; for dir in acl no; do cd $dir
		touch file; mkdir dir; mkdir -m 700 private; mkfifo fifo; mknod node p; (set -C; : >excl; : >excl2); touch dir/below; mkdir dir/dir
		cp /etc/passwd copied; cp -p /etc/passwd kept; install -m 640 /etc/passwd installed; cd ..; done`
	for _, acl := range []string{"d:u:1002:rwx,d:g::rx,d:o::-", "d:u::rwx,d:g::-,d:o::r", "d:u:1002:rw,d:m::r", "d:u::rx,d:u:3:w,d:g::rwx,d:o::rwx"} {
		for _, umask := range []string{"022", "077", "0"} {
			script := "rm -rf acl no; mkdir acl no; setfacl -m " + acl + " acl; umask " + umask + makeAll
			m.same(local, script)
		}
	}
	// A default ACL that another client has set applies once the directory's change is seen.
	for _, dir := range []string{m.dir, local} {
		sh(t, dir, "rm -rf acl no; mkdir acl")
	}
	sh(t, m.export, "setfacl -m d:u:1002:rwx acl")
	sh(t, local, "setfacl -m d:u:1002:rwx acl")
	sh(t, m.dir, "echo 3 >/proc/sys/vm/drop_caches") // drop the cached names too
	m.say("sleep")
	m.same(local, "umask 077; touch acl/file; mkdir acl/dir")
}

// A user with the right to read only by an ACL can read, and cannot after its removal.
func TestUserWithRightsByACL(t *testing.T) {
	needTools(t, "setfacl")
	m := mount(t, options{AllowOther: true, AcMin: long, AcMax: long})
	sh(t, m.dir, "mkdir d; echo secret >d/file; chmod 600 d/file; chmod 700 d")
	for _, c := range []struct {
		acl    string
		uid    uint32
		script string
		ok     bool
	}{
		{"-m u:1002:x d", 1002, "cat d/file", false},
		{"-m u:1002:r d/file", 1002, "cat d/file", true},
		{"-m u:1002:r d/file", 1003, "cat d/file", false},
		{"-m u:1002:r d/file", 1002, "test -r d/file", true},
		{"-m u:1002:r d/file", 1002, "test -w d/file", false},
		{"-m u:1002:rw d/file", 1002, "echo more >>d/file && test -w d/file", true},
		{"-m m::r d/file", 1002, "echo more >>d/file", false},
		{"-m m::r d/file", 1002, "cat d/file", true},
		{"-m u:1002:- d/file", 1002, "cat d/file", false},
		{"-m u:1002:r d/file", 1002, "setfacl -m u:1002:rwx d/file", false},
		{"-x u:1002 d", 1002, "cat d/file", false},
		{"-m g:1002:rx d", 1002, "cat d/file", true},
		{"-b d", 1002, "cat d/file", false},
		{"-m u:1003:x d", 1003, "cat d/file", false},
		{"-m o::rx d/file", 1003, "cat d/file", true},
	} {
		sh(t, m.dir, "setfacl "+c.acl)
		if out, ok := as(t, c.uid, c.uid, nil, "cd "+m.dir+" && "+c.script); ok != c.ok {
			t.Errorf("%s: %d: %s: %v, %s", c.acl, c.uid, c.script, ok, out)
		}
	}
}

// ACLs set on the server are visible once the mount has fetched attributes again.
func TestACLsOfOthersAreSeen(t *testing.T) {
	needTools(t, "setfacl", "getfacl")
	m := mount(t, options{AcMin: -1, AcMax: -1})
	sh(t, m.dir, "echo x >file; getfacl file")
	sh(t, m.export, "setfacl -m u:1002:rw file")
	if out := sh(t, m.dir, "getfacl -nc file; ls -l file"); !strings.Contains(out, "user:1002:rw-") || !strings.Contains(out, "-rw-rw-r--+") {
		t.Error(out)
	}
}

// An empty buffer asks for the size; a buffer that is too small is an error.
func TestAttributeBuffers(t *testing.T) {
	m := mount(t, options{})
	file := m.at("file")
	must.Succeed(t, os.WriteFile(file, nil, 0o600))
	probe := func(b []byte) (int, error) { return unix.Getxattr(file, posixacl.AttrAccess, b) }
	list := func(b []byte) (int, error) { return unix.Listxattr(file, b) }
	_, err := probe(nil)
	want(t, err, syscall.ENODATA)
	if n, err := list(nil); n != 0 || err != nil {
		t.Error(n, err)
	}
	acl := posixacl.ACL{{Tag: posixacl.UserObj, Perm: 6, ID: posixacl.NoID}, {Tag: posixacl.User, Perm: 4, ID: 7}, {Tag: posixacl.GroupObj, Perm: 0, ID: posixacl.NoID},
		{Tag: posixacl.Mask, Perm: 4, ID: posixacl.NoID}, {Tag: posixacl.Other, Perm: 0, ID: posixacl.NoID}}
	must.Succeed(t, unix.Setxattr(file, posixacl.AttrAccess, acl.Append(nil), 0))
	size, names := posixacl.Size(len(acl)), len(posixacl.AttrAccess)+1
	for _, c := range []struct {
		call func([]byte) (int, error)
		n    int
	}{{probe, size}, {list, names}} {
		if n, err := c.call(nil); n != c.n || err != nil {
			t.Error(n, err)
		}
		_, err = c.call(make([]byte, c.n-1))
		want(t, err, syscall.ERANGE)
		if n, err := c.call(make([]byte, c.n)); n != c.n || err != nil {
			t.Error(n, err)
		}
	}
	must.Succeed(t, unix.Removexattr(file, posixacl.AttrAccess))
	if n, err := list(nil); n != 0 || err != nil {
		t.Error(n, err)
	}
	// As in local file systems, the mode's group bits show the mask.
	if fi, err := os.Stat(file); err != nil || fi.Mode().Perm() != 0o640 {
		t.Error(fi.Mode(), err)
	}
	want(t, unix.Setxattr(file, posixacl.AttrDefault, acl.Append(nil), 0), syscall.EACCES)
	want(t, unix.Setxattr(file, posixacl.AttrAccess, []byte{1, 0, 0, 0}, 0), syscall.EOPNOTSUPP)
	want(t, unix.Setxattr(file, posixacl.AttrAccess, acl.Append(nil)[:20], 0), syscall.EINVAL)
	want(t, unix.Setxattr(file, "user.x", []byte("y"), 0), syscall.EOPNOTSUPP)
	want(t, unix.Removexattr(file, "user.x"), syscall.EOPNOTSUPP)
}

// ls -l costs one call for each file of another owner, and none without ACLs.
func TestACLsCostFewCalls(t *testing.T) {
	const files = "100"
	for _, noACL := range []bool{false, true} {
		m := mount(t, options{AcMin: long, AcMax: long, NoACL: noACL})
		sh(t, m.export, "mkdir theirs; cd theirs; touch $(seq "+files+")")
		calls := func() uint64 { return m.stats().Calls["GETACL"].Count }
		list := func(dir string) uint64 {
			before := calls()
			sh(t, m.dir, "ls -l "+dir)
			return calls() - before
		}
		sh(t, m.dir, "mkdir ours; cd ours; for i in $(seq "+files+"); do echo $i >$i; done")
		most := uint64(5)
		if noACL {
			most = 0
		}
		if n := calls(); n > most {
			t.Errorf("no ACLs %v: %d GETACL to make files, want %d at most", noACL, n, most)
		}
		if n := list("ours"); n > 20 {
			t.Errorf("no ACLs %v: %d GETACL of files that we have made", noACL, n)
		}
		least := uint64(100)
		most = 105
		if noACL {
			least, most = 0, 0
		}
		if n := list("theirs"); n < least || n > most {
			t.Errorf("no ACLs %v: %d GETACL of files that others have made, want %d to %d", noACL, n, least, most)
		}
		if n := list("theirs"); n > 20 {
			t.Errorf("no ACLs %v: %d GETACL at the second look", noACL, n)
		}
		if n := m.stats().Operations["GETXATTR"]; noACL == (n > 0) {
			t.Errorf("no ACLs %v: the kernel asks for %d attributes", noACL, n)
		}
		if noACL {
			want(t, unix.Setxattr(m.at("ours"), posixacl.AttrAccess, posixacl.FromMode(0o700).Append(nil), 0), syscall.EOPNOTSUPP)
			sh(t, m.dir, "umask 027; touch umasked; [ $(stat -c %a umasked) = 640 ]")
		}
	}
}

// A file system without ACLs costs one call, and new files get the usual modes.
func TestNoACLsCostNoCalls(t *testing.T) {
	m := mount(t, options{AcMin: long, AcMax: long, Plain: true})
	sh(t, m.export, "mkdir theirs; cd theirs; touch $(seq 100)")
	sh(t, m.dir, "umask 027; ls -l theirs; mkdir ours; touch ours/file; [ $(stat -c %a ours/file) = 640 ]; ls -l ours theirs")
	if n := m.stats().Calls["GETACL"].Count; n != 1 {
		t.Errorf("%d GETACL", n)
	}
	want(t, unix.Setxattr(m.at("ours"), posixacl.AttrAccess, posixacl.FromMode(0o700).Append(nil), 0), syscall.EOPNOTSUPP)
	if n := m.stats().Calls["GETACL"].Count + m.stats().Calls["SETACL"].Count; n < 2 {
		t.Error("the server is not asked by who sets an ACL")
	}
}

// A directory's mode admits all users, but its ACL excludes one. That user cannot use names that
// another user has looked up.
func TestNamedUserIsKeptOut(t *testing.T) {
	needTools(t, "setfacl")
	m := mount(t, options{AllowOther: true, AcMin: long, AcMax: long})
	for _, dir := range []string{m.export, m.dir} { // changed elsewhere, and here
		sh(t, dir, "mkdir -m 755 d; echo x >d/file; setfacl -m u:1002:- d")
		for range 2 {
			if out, ok := as(t, 1003, 1003, nil, "cat "+m.dir+"/d/file"); !ok {
				t.Error(out)
			}
			if out, ok := as(t, 1002, 1002, nil, "stat "+m.dir+"/d/file"); ok {
				t.Errorf("set in %s: %s", dir, out)
			}
		}
		sh(t, m.dir, "rm -r d")
	}
	// In other directories the kernel resolves names itself, so each directory costs only one call.
	sh(t, m.export, "mkdir -p a/b/c; touch $(seq -f a/b/c/%.0f 100)")
	before := m.stats()
	for range 5 {
		sh(t, m.dir, "stat a/b/c/* >/dev/null")
	}
	d := m.stats()
	d = d.Since(&before)
	if n := d.Calls["GETACL"].Count; n > 8 {
		t.Errorf("%d GETACL for 4 directories", n)
	}
	if n := d.Operations["LOOKUP"]; n > 250 {
		t.Errorf("%d LOOKUPs of the kernel for 100 files", n)
	}
}
