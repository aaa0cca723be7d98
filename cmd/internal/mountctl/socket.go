// The path of a mount's socket, and its access check.

package mountctl

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"
)

// runDir is the directory of services' sockets; tests replace it.
var runDir = "/run"

// socketDirs returns the possible directories for a user's sockets, in order of preference. They do
// not depend on the environment, because the command that looks for a socket may have another one.
func socketDirs(uid uint32) []string {
	if uid == 0 {
		return []string{filepath.Join(runDir, "nfsrdma")}
	}
	id := strconv.FormatUint(uint64(uid), 10)
	return []string{filepath.Join(runDir, "user", id, "nfsrdma"), filepath.Join("/tmp", "nfsrdma-"+id)}
}

// OwnDir makes or finds the directory for this user's sockets and other files of mounts. A
// directory of another user, or with access for others, is refused.
func OwnDir() (string, error) {
	uid := uint32(os.Geteuid())
	var err error
	for _, dir := range socketDirs(uid) {
		if err = os.Mkdir(dir, 0o700); err != nil && !os.IsExist(err) {
			continue
		}
		if err = checkDir(dir, uid); err == nil {
			return dir, nil
		}
	}
	return "", err
}

// checkDir returns an error unless only uid can enter the directory.
func checkDir(dir string, uid uint32) error {
	st, err := os.Lstat(dir)
	if err != nil {
		return err
	}
	sys := st.Sys().(*syscall.Stat_t)
	if !st.IsDir() || sys.Uid != uid || st.Mode().Perm()&0o077 != 0 {
		return fmt.Errorf("%s: not a directory that only user %d can enter", dir, uid)
	}
	return nil
}

// socketName returns the path of a mount's socket in its directory.
func socketName(dir string, m Mount) string {
	return filepath.Join(dir, fmt.Sprintf("%d.sock", m.Minor))
}

// peerAllowed reports whether the other end is root or this process's user.
func peerAllowed(c *net.UnixConn) bool {
	uid, ok := peer(c)
	return ok && (uid == 0 || uid == uint32(os.Geteuid()))
}

// peer returns the user at the other end.
func peer(c *net.UnixConn) (uid uint32, ok bool) {
	raw, err := c.SyscallConn()
	if err != nil {
		return 0, false
	}
	_ = raw.Control(func(fd uintptr) {
		if cred, err := unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED); err == nil {
			uid, ok = cred.Uid, true
		}
	})
	return uid, ok
}
