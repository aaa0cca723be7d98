// The checks of a mount point, before anything is asked of a server.

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

// CheckPoint returns the absolute path of a directory that can be mounted on, or
// one line that says why it cannot be, and what to do. What is mounted there is not
// looked at, and so an automount point is not set off.
func CheckPoint(arg string) (dir string, err error) {
	dir, err = mountctl.Resolve(arg)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return "", fmt.Errorf("%s: no such directory: make it with mkdir", arg)
	case errors.Is(err, syscall.ENOTCONN):
		return "", fmt.Errorf("%s: the way to it leads through a mount whose process is gone: clear that with nfsrdma umount", arg)
	case err != nil:
		var at *fs.PathError // names what a link leads to, or nothing
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

// mountedAlready tells a mount that works from one whose process was killed.
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

// fuseConf is where fusermount3 reads what users may; tests put another in its place.
var fuseConf = "/etc/fuse.conf"

// helperDir is where fusermount3 is looked for besides PATH, as go-fuse does; tests put another in its place.
var helperDir = "/bin"

// fuseHelper finds the program that mounts and unmounts for ordinary users. PATH may be empty: mount(8), run by a user
// for a line of fstab with the option user, removes it from the environment of its helpers.
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

// CheckFUSE says what keeps this machine or this user from mounting by FUSE at all.
func CheckFUSE() error {
	if os.Geteuid() != 0 {
		if _, err := fuseHelper(); err != nil {
			return errors.New("mounting without being root needs fusermount3: install the package fuse3")
		}
	}
	// Opened, as fusermount3 does with the rights of the user: a device group keeps out processes
	// that the mode lets in.
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

// checkFUSE says what keeps this mount from being made by FUSE.
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

// userAllowOther reports whether ordinary users may give allow_other here.
func userAllowOther() bool {
	b, err := os.ReadFile(fuseConf)
	if err != nil {
		return !errors.Is(err, fs.ErrNotExist) // what cannot be read here is for fusermount3 to decide
	}
	for line := range strings.Lines(string(b)) {
		if strings.TrimSpace(line) == "user_allow_other" {
			return true
		}
	}
	return false
}
