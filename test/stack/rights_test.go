// The rights of users in a served directory, seen through nfsclient: ACLs decide, makers own.

package stack

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/nfsrdma/nfsrdma/nfsclient"
	"github.com/nfsrdma/nfsrdma/nfsserver"
	"github.com/nfsrdma/nfsrdma/test/machine"
	"github.com/nfsrdma/nfsrdma/test/must"
	"github.com/nfsrdma/nfsrdma/test/stack/rig"
	"github.com/nfsrdma/nfsrdma/transport"
	"github.com/nfsrdma/nfsrdma/xdr/oncrpc"
	"golang.org/x/sys/unix"
)

// aclVolume returns a separate ext4 where all users may make files.
func aclVolume(t *testing.T) string {
	t.Helper()
	machine.NeedRoot(t, "acts as several users: needs root")
	for _, p := range []string{"mkfs.ext4", "setfacl", "getfacl"} {
		if _, err := exec.LookPath(p); err != nil {
			machine.Skip(t, p+" is needed")
		}
	}
	image, dir := filepath.Join(t.TempDir(), "image"), t.TempDir()
	runTool(t, "truncate", "-s", "16M", image)
	runTool(t, "mkfs.ext4", "-q", image)
	runTool(t, "mount", "-o", "loop,acl", image, dir)
	t.Cleanup(func() { unix.Unmount(dir, unix.MNT_DETACH) })
	must.Succeed(t, os.Chmod(dir, 0o777))
	old := unix.Umask(0) // as nfsrdmad does
	t.Cleanup(func() { unix.Umask(old) })
	return dir
}

// runTool runs a program, and returns its output.
func runTool(t *testing.T, args ...string) string {
	t.Helper()
	out, err := exec.Command(args[0], args[1:]...).CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %v: %s", args, err, out)
	}
	return string(out)
}

// TestCallersRights: two unprivileged users and root, trusted by the server, have their own rights
// over both transports.
func TestCallersRights(t *testing.T) {
	for name, tr := range map[string]nfsclient.Transport{"rdma": nfsclient.RDMA, "tcp": nfsclient.TCP} {
		t.Run(name, func(t *testing.T) {
			dir := aclVolume(t)
			srv := rig.Start(t, rig.Config{Dir: dir, Squash: &nfsserver.Squash{NoRootSquash: true}})
			as := map[int]*nfsclient.FS{}
			for _, uid := range []int{0, 1000, 2000} {
				cred := transport.Cred{Flavor: oncrpc.FlavorSys, UID: uint32(uid), GID: uint32(uid)}
				as[uid] = srv.Mount(t, nfsclient.Options{Transport: tr, Cred: &cred})
			}
			checkACLs(t, dir, as)
			checkDefaultACL(t, dir, as)
			checkOwners(t, dir, as)
		})
	}
}

// checkACLs: an ACL gives 2000 a right that the mode does not, and takes from 1000 a right that the
// mode gives.
func checkACLs(t *testing.T, dir string, as map[int]*nfsclient.FS) {
	ctx := context.Background()
	for name, c := range map[string]struct {
		mode   fs.FileMode
		acl    string
		read   map[int]bool
		writes map[int]bool
	}{
		"allow": {0o600, "u:2000:rw", map[int]bool{0: true, 1000: false, 2000: true}, map[int]bool{0: true, 1000: false, 2000: true}},
		"deny":  {0o644, "u:1000:---", map[int]bool{0: true, 1000: false, 2000: true}, map[int]bool{0: true, 1000: false, 2000: false}},
	} {
		path := filepath.Join(dir, name)
		must.Succeed(t, os.WriteFile(path, []byte("content"), c.mode))
		// 1000 is in the file's group. chmod and stat show the ACL's mask as the group's
		// permissions, but the mask gives the group no right.
		must.Succeed(t, os.Chown(path, 3000, 1000))
		runTool(t, "setfacl", "-m", c.acl, path)
		for uid, f := range as {
			got, err := f.ReadFile(ctx, name)
			want(t, fmt.Sprintf("%s: reading by %d", name, uid), err, c.read[uid])
			if c.read[uid] && string(got) != "content" {
				t.Errorf("%s: %d reads %q", name, uid, got)
			}
		}
		for uid, f := range as {
			want(t, fmt.Sprintf("%s: writing by %d", name, uid), f.WriteFile(ctx, name, []byte("content"), 0o644), c.writes[uid])
		}
	}
}

// want checks that a call went well, or failed for lack of permission.
func want(t *testing.T, what string, err error, allowed bool) {
	t.Helper()
	if allowed && err != nil || !allowed && !errors.Is(err, fs.ErrPermission) {
		t.Errorf("%s: %v, want it allowed: %t", what, err, allowed)
	}
}

// checkDefaultACL: a new file has its directory's ACL for new files, as a file from a local process
// has.
func checkDefaultACL(t *testing.T, dir string, as map[int]*nfsclient.FS) {
	ctx := context.Background()
	if err := as[1000].Mkdir(ctx, "dir", 0o755); err != nil {
		t.Fatalf("Mkdir: %v", err)
	}
	runTool(t, "setfacl", "-d", "-m", "u:2000:rw,g::r,o::-,m::rw", filepath.Join(dir, "dir"))
	if err := as[1000].WriteFile(ctx, "dir/remote", []byte("content"), 0o666); err != nil {
		t.Fatalf("WriteFile: %v", err)
	}
	must.Succeed(t, os.WriteFile(filepath.Join(dir, "dir/local"), nil, 0o666))
	remote, local := runTool(t, "getfacl", "-nc", filepath.Join(dir, "dir/remote")), runTool(t, "getfacl", "-nc", filepath.Join(dir, "dir/local"))
	if remote != local {
		t.Errorf("the ACL of a file made by a client:\n%s\nand by a local process:\n%s", remote, local)
	}
	want(t, "writing by the user whom the default ACL names", as[2000].WriteFile(ctx, "dir/remote", []byte("content"), 0o666), true)
}

// checkOwners: users own what they make, with the requested mode.
func checkOwners(t *testing.T, dir string, as map[int]*nfsclient.FS) {
	ctx := context.Background()
	for uid, f := range as {
		file, sub := fmt.Sprintf("file%d", uid), fmt.Sprintf("dir%d", uid)
		if err := f.WriteFile(ctx, file, []byte("content"), 0o640); err != nil {
			t.Fatalf("WriteFile: %v", err)
		}
		if err := f.Mkdir(ctx, sub, 0o750); err != nil {
			t.Fatalf("Mkdir: %v", err)
		}
		for name, mode := range map[string]uint32{file: unix.S_IFREG | 0o640, sub: unix.S_IFDIR | 0o750} {
			var st unix.Stat_t
			must.Succeed(t, unix.Stat(filepath.Join(dir, name), &st))
			if st.Uid != uint32(uid) || st.Gid != uint32(uid) || st.Mode != mode {
				t.Errorf("%s belongs to %d:%d with mode %o, want %d and %o", name, st.Uid, st.Gid, st.Mode, uid, mode)
			}
		}
	}
	for uid, allowed := range map[int]bool{0: true, 1000: true, 2000: false} {
		_, err := as[uid].ReadFile(ctx, "file1000")
		want(t, fmt.Sprintf("reading the file of 1000 by %d", uid), err, allowed)
	}
}
