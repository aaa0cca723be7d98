// Checks of attributes: modes, owners, times, device nodes, space, permissions.

package fscheck

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

func attributes(e Env) error {
	f := e.path("f")
	if err := put(f, []byte("x")); err != nil {
		return err
	}
	for _, mode := range []uint32{0, 0o644, 0o777, 0o4711, 0o2755, 0o1700} {
		if err := syscall.Chmod(f, mode); err != nil {
			return err
		}
		var st syscall.Stat_t
		if err := errors.Join(e.Forget(), syscall.Stat(f, &st)); err != nil {
			return err
		}
		if st.Mode&0o7777 != mode {
			return fmt.Errorf("mode %o, want %o", st.Mode&0o7777, mode)
		}
	}
	if e.Root {
		var st syscall.Stat_t
		if err := errors.Join(os.Lchown(f, 1000, 65534), e.Forget(), syscall.Stat(f, &st)); err != nil {
			return err
		}
		if st.Uid != 1000 || st.Gid != 65534 {
			return fmt.Errorf("owner %d:%d, want 1000:65534", st.Uid, st.Gid)
		}
	}
	for _, at := range []time.Time{time.Unix(1, 1), time.Unix(1_000_000_000, 123_456_789), time.Unix(1<<31-1, 999_999_999)} {
		if err := errors.Join(os.Chtimes(f, at.Add(time.Second), at), e.Forget()); err != nil {
			return err
		}
		var st syscall.Stat_t
		if err := syscall.Stat(f, &st); err != nil {
			return err
		}
		if st.Mtim.Nano() != at.UnixNano() || st.Atim.Nano() != at.Add(time.Second).UnixNano() {
			return fmt.Errorf("times %d and %d, want %d", st.Mtim.Nano(), st.Atim.Nano(), at.UnixNano())
		}
	}
	return nil
}

func nodes(e Env) error {
	kinds := []struct {
		name string
		mode uint32
		dev  uint64
	}{
		{"fifo", syscall.S_IFIFO | 0o640, 0},
		{"socket", syscall.S_IFSOCK | 0o600, 0},
		{"char", syscall.S_IFCHR | 0o600, unix.Mkdev(1, 3)},
		{"block", syscall.S_IFBLK | 0o660, unix.Mkdev(259, 70000)},
	}
	for _, k := range kinds {
		if k.dev != 0 && !e.Root {
			continue
		}
		if err := syscall.Mknod(e.path(k.name), k.mode, int(k.dev)); err != nil {
			return fmt.Errorf("%s: %w", k.name, err)
		}
		var st syscall.Stat_t
		if err := errors.Join(e.Forget(), syscall.Lstat(e.path(k.name), &st)); err != nil {
			return err
		}
		if st.Mode&^0o022 != k.mode&^0o022 || uint64(st.Rdev) != k.dev {
			return fmt.Errorf("%s: mode %o, device %x, want %o, %x", k.name, st.Mode, st.Rdev, k.mode, k.dev)
		}
	}
	return nil
}

func statFS(e Env) error {
	var st syscall.Statfs_t
	if err := syscall.Statfs(e.Dir, &st); err != nil {
		return err
	}
	if st.Blocks == 0 || st.Bfree > st.Blocks || st.Bavail > st.Blocks || st.Bsize < 512 || st.Namelen != 255 {
		return fmt.Errorf("%+v", st)
	}
	return nil
}

// permission accesses root's files as an ordinary user.
func permission(e Env) error {
	if !e.Root {
		return nil
	}
	if err := errors.Join(os.Chmod(e.Dir, 0o755), put(e.path("secret"), []byte("s")), os.Chmod(e.path("secret"), 0o600)); err != nil {
		return err
	}
	for what, script := range map[string]string{
		"reading":  "cat secret",
		"creating": ": > new",
		"removing": "rm -f secret",
		"renaming": "mv secret other",
		"changing": "chmod 777 secret",
	} {
		cmd := exec.Command("/bin/sh", "-c", script+" 2>/dev/null")
		cmd.Dir = e.Dir
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 1000, Gid: 1000}}
		if err := cmd.Run(); err == nil {
			return fmt.Errorf("%s is allowed to another user", what)
		} else if exit := new(exec.ExitError); !errors.As(err, &exit) {
			return err
		}
	}
	return holds(e.path("secret"), []byte("s"))
}
