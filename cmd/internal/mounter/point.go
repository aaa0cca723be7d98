// Checks of a mount point, before any call to a server.

package mounter

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/nfsrdma/nfsrdma/cmd/internal/mountctl"
	"golang.org/x/sys/unix"
)

// CheckPoint returns the absolute path of a possible mount point, or a one-line error with a
// remedy. It does not access the file system mounted there, so it does not trigger an automount.
func CheckPoint(arg string) (dir string, err error) {
	dir, err = mountctl.Resolve(arg)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return "", fmt.Errorf("%s: no such directory: make it with mkdir", arg)
	case errors.Is(err, syscall.ENOTCONN):
		return "", fmt.Errorf("%s: the way to it leads through a mount whose process is gone: clear that with nfsrdma umount", arg)
	case err != nil:
		var at *fs.PathError // names the target of a link, or is nil
		if errors.As(err, &at) {
			err = at.Err
		}
		return "", fmt.Errorf("%s: %w", arg, err)
	}
	if m, ok, err := mountctl.At(dir); err != nil {
		return "", err
	} else if ok && m.Type == mountctl.FSType {
		return "", mountedAlready(arg, m)
	}
	st, err := os.Stat(dir)
	switch {
	case errors.Is(err, syscall.ENOTCONN):
		return "", fmt.Errorf("%s: a mount whose process is gone is there (%w): clear it with umount %s", arg, syscall.ENOTCONN, arg)
	case err != nil:
		return "", fmt.Errorf("%s: %w", arg, errors.Unwrap(err))
	case !st.IsDir():
		return "", fmt.Errorf("%s: not a directory: it cannot be mounted on", arg)
	}
	return dir, nil
}

// mountedAlready distinguishes a working mount from a mount with a killed process.
func mountedAlready(arg string, m mountctl.Mount) error {
	c, err := mountctl.Dial(m)
	if errors.Is(err, mountctl.ErrNoProcess) {
		return fmt.Errorf("%s: a mount of %s is there whose process is gone (%w): clear it with nfsrdma umount %s", arg, m.Source, syscall.ENOTCONN, arg)
	}
	if err == nil {
		c.Close()
	}
	return fmt.Errorf("%s: %s is mounted there already", arg, m.Source)
}

// fuseConf is fusermount3's configuration of users' rights; tests replace it.
var fuseConf = "/etc/fuse.conf"

// helperDir is searched for fusermount3 after PATH, as in go-fuse; tests replace helperDir.
var helperDir = "/bin"

// fuseHelper finds the program that mounts and unmounts for ordinary users. PATH may be empty:
// mount(8) removes it from its helpers' environment if a user runs it for an fstab line with the
// option user.
func fuseHelper() (string, error) {
	for _, name := range []string{"fusermount3", "fusermount"} {
		for _, file := range []string{name, filepath.Join(helperDir, name)} {
			if bin, err := exec.LookPath(file); err == nil {
				return bin, nil
			}
		}
	}
	return "", exec.ErrNotFound
}

// fuseDevice is the kernel's FUSE device.
const fuseDevice = "/dev/fuse"

// CheckFUSE returns the reason why this user cannot mount by FUSE on this machine, or nil.
func CheckFUSE() error {
	if os.Geteuid() != 0 {
		if _, err := fuseHelper(); err != nil {
			return errors.New("mounting without being root needs fusermount3: install the package fuse3")
		}
	}
	// It opens the device with the user's rights, as fusermount3 does, because a device cgroup can
	// deny what the mode allows.
	f, err := os.OpenFile(fuseDevice, os.O_RDWR, 0)
	switch {
	case err == nil:
		return f.Close()
	case errors.Is(err, fs.ErrPermission) && os.Geteuid() == 0:
		return fmt.Errorf("root is not allowed to open %s here: give the container that device", fuseDevice)
	case errors.Is(err, fs.ErrPermission):
		return fmt.Errorf("this user is not allowed to open %s: root can allow it (chmod 666 %[1]s), or mount", fuseDevice)
	}
	return fmt.Errorf("%s cannot be opened here (%w): modprobe fuse, or give the container that device", fuseDevice, err)
}

// checkFUSE returns the reason why FUSE cannot make this mount, or nil.
func (r *Request) checkFUSE() error {
	if err := CheckFUSE(); err != nil || os.Geteuid() == 0 {
		return err
	}
	if r.Options.NoSymfollow {
		return errors.New("option nosymfollow: only root may give it: fusermount3 does not support it")
	}
	if unix.Access(r.Dir, unix.W_OK) != nil {
		return fmt.Errorf("%s: only who may write a directory may mount on it, root apart", r.Dir)
	}
	if r.Options.AllowOther && !userAllowOther() {
		return fmt.Errorf("option allow_other: users may give it where %s has the line user_allow_other, which this machine's has not", fuseConf)
	}
	return nil
}

// userAllowOther reports whether ordinary users may use allow_other here.
func userAllowOther() bool {
	b, err := os.ReadFile(fuseConf)
	if err != nil {
		// fusermount3 decides, because it may be able to read the file
		return !errors.Is(err, fs.ErrNotExist)
	}
	for line := range strings.Lines(string(b)) {
		if strings.TrimSpace(line) == "user_allow_other" {
			return true
		}
	}
	return false
}
