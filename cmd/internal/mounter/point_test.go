// Mount points that are in use or below a dead mount, and the requirements of mounts by users.

package mounter

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/nfsrdma/nfsrdma/test/machine"
	"github.com/nfsrdma/nfsrdma/test/must"
	"golang.org/x/sys/unix"
)

// For a directory with one of our mounts, the advice depends on whether its process lives.
func TestCheckPointOfOurMounts(t *testing.T) {
	m := mountFUSE(t, "fuse.nfsrdma", "srv:/once")
	s := m.serving(t, struct{}{})
	_, err := CheckPoint(m.dir)
	says(t, err, m.dir, "srv:/once is mounted there already")
	s.Close(nil)
	_, err = CheckPoint(m.dir)
	says(t, err, m.dir, "a mount of srv:/once", "process is gone", "nfsrdma umount "+m.dir)
	if !errors.Is(err, syscall.ENOTCONN) {
		t.Errorf("%v is not ENOTCONN", err)
	}
}

// Another program's dead mount, also above the directory, is distinguished from a missing
// directory.
func TestCheckPointOfDeadMounts(t *testing.T) {
	m := mountFUSE(t, "fuse.other", "srv:/dead")
	m.kill()
	_, err := CheckPoint(m.dir)
	says(t, err, m.dir, "process is gone", "umount "+m.dir)
	if strings.Contains(err.Error(), "nfsrdma umount") {
		t.Errorf("%v: that is for mounts of ours", err)
	}
	inside := m.dir + "/x/y"
	_, err = CheckPoint(inside)
	says(t, err, inside, "leads through a mount whose process is gone", "nfsrdma umount")
}

// A mount point may be a working mount.
func TestCheckPointOnAnotherMount(t *testing.T) {
	machine.NeedRoot(t, "mounts: needs root")
	dir, err := filepath.EvalSymlinks(t.TempDir())
	must.Succeed(t, err)
	must.Succeed(t, unix.Mount("none", dir, "tmpfs", 0, "size=4k"))
	t.Cleanup(func() { _ = unix.Unmount(dir, unix.MNT_DETACH) })
	if got, err := CheckPoint(dir + "/."); err != nil || got != dir {
		t.Errorf("%q, %v", got, err)
	}
}

// Links to missing targets and loops of links are errors that have the name as typed.
func TestCheckPointOfLinks(t *testing.T) {
	t.Chdir(t.TempDir())
	must.Succeed(t, os.Symlink("nowhere", "dangling"))
	must.Succeed(t, os.Symlink("round", "round"))
	_, err := CheckPoint("dangling")
	says(t, err, "dangling", "mkdir")
	_, err = CheckPoint("round/x")
	says(t, err, "round/x", "too many")
	if _, err = CheckPoint("."); err != nil {
		t.Errorf("the working directory: %v", err)
	}
}

// A user's missing requirements are detected before any call to the server, and the line says what
// to install or write.
func TestWhatAUserNeedsToMount(t *testing.T) {
	was := fuseConf
	t.Cleanup(func() { fuseConf = was })
	fuseConf = filepath.Join(t.TempDir(), "fuse.conf")
	r := request(t, "allow_other")
	r.Dir = t.TempDir() // this directory belongs to root
	bin := t.TempDir()
	must.Succeed(t, os.Chmod(filepath.Dir(bin), 0o755)) //nolint:gosec // the other user looks into it
	t.Setenv("PATH", bin)
	wasDir := helperDir
	t.Cleanup(func() { helperDir = wasDir })
	helperDir = filepath.Join(bin, "bin")
	must.Succeed(t, os.Mkdir(helperDir, 0o755)) //nolint:gosec // the other user looks into it
	missing := func() {
		t.Helper()
		machine.AsUser(t, 4242, func() {
			if err := r.checkFUSE(); err == nil || !strings.Contains(err.Error(), "install the package fuse3") {
				t.Errorf("without fusermount3: %v", err)
			}
		})
	}
	missing()
	t.Setenv("PATH", "") // helpers of mount(8) have no PATH
	missing()
	must.Succeed(t, os.WriteFile(filepath.Join(helperDir, "fusermount3"), []byte("#!/bin/sh\n"), 0o755)) //nolint:gosec // likewise
	if got, err := fuseHelper(); err != nil || got != filepath.Join(helperDir, "fusermount3") {
		t.Errorf("without PATH: %s, %v", got, err)
	}
	must.Succeed(t, os.Remove(filepath.Join(helperDir, "fusermount3")))
	t.Setenv("PATH", bin)
	must.Succeed(t, os.WriteFile(filepath.Join(bin, "fusermount"), []byte("#!/bin/sh\n"), 0o755)) //nolint:gosec // is run
	st, err := os.Stat("/dev/fuse")
	if err != nil {
		machine.Skip(t, "needs /dev/fuse")
	}
	machine.AsUser(t, 4242, func() {
		err := r.checkFUSE()
		if st.Mode().Perm()&0o006 != 0o006 {
			if err == nil || !strings.Contains(err.Error(), "chmod 666 /dev/fuse") {
				t.Errorf("no right to /dev/fuse: %v", err)
			}
			return
		}
		says(t, err, r.Dir, "only who may write a directory")
		says(t, request(t, "nosymfollow").checkFUSE(), "option nosymfollow", "only root may give it")
	})
	if err := r.checkFUSE(); err != nil {
		t.Errorf("root: %v", err)
	}
}

// A mount by a user is private, and lacks the options that FUSE removes.
func TestOptionsOfAUsersMount(t *testing.T) {
	machine.AsUser(t, 4242, func() {
		f := request(t, "noexec").fuseOptions(nil)
		if words := strings.Join(f.FuseOptions, " "); f.AllowOther || f.Direct || words != "noexec" {
			t.Errorf("%+v", f)
		}
		if !request(t, "allow_other").fuseOptions(nil).AllowOther {
			t.Error("allow_other was dropped")
		}
	})
	if os.Geteuid() == 0 {
		f := request(t, "nodev").fuseOptions(nil)
		words := " " + strings.Join(f.FuseOptions, " ") + " "
		if !strings.Contains(words, " nodev ") || !strings.Contains(words, " suid ") || !strings.Contains(words, " exec ") || strings.Contains(words, " dev ") {
			t.Errorf("root: %q", words)
		}
	}
}

// Detach unmounts a directory, and returns the kernel's error so that callers recognize it.
func TestDetach(t *testing.T) {
	m := mountFUSE(t, "fuse.nfsrdma", "srv:/detach")
	release := holdOpen(t, m.dir)
	if err := detach(m.dir, false); !errors.Is(err, syscall.EBUSY) || !mounted(t, m.dir) {
		t.Errorf("in use: %v", err)
	}
	release()
	link := filepath.Join(t.TempDir(), "link")
	must.Succeed(t, os.Symlink(m.dir, link))
	if err := detach(link, false); !errors.Is(err, syscall.EINVAL) || !mounted(t, m.dir) {
		t.Errorf("a link was followed: %v", err)
	}
	if err := detach(m.dir, false); err != nil || mounted(t, m.dir) {
		t.Errorf("%v", err)
	}
	if err := detach(m.dir, true); !errors.Is(err, syscall.EINVAL) {
		t.Errorf("what is not mounted: %v", err)
	}
}
