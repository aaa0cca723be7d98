// Where the socket of a mount's process is, and who may use it.

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

// runDir is where services keep their sockets; tests put another in its place.
var runDir = "/run"

// socketDirs are the directories where the sockets of a user's mounts can be, the
// first choice first. Nothing of the environment counts: who looks for a socket may
// have another one.
func socketDirs(uid uint32) []string {
	if uid == 0 {
		return []string{filepath.Join(runDir, "nfsrdma")}
	}
	id := strconv.FormatUint(uint64(uid), 10)
	return []string{filepath.Join(runDir, "user", id, "nfsrdma"), filepath.Join("/tmp", "nfsrdma-"+id)}
}

// OwnDir makes or finds the directory of this user's sockets, and of what else its mounts keep. One that
// belongs to somebody else, or that others can enter, is none.
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

// checkDir reports what is wrong with a directory that only uid must be able to enter.
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

// socketName is the socket of a mount in its directory.
func socketName(dir string, m Mount) string {
	return filepath.Join(dir, fmt.Sprintf("%d.sock", m.Minor))
}

// peerAllowed reports whether the other end is root, or this process's own user.
func peerAllowed(c *net.UnixConn) bool {
	uid, ok := peer(c)
	return ok && (uid == 0 || uid == uint32(os.Geteuid()))
}

// peer is the user at the other end.
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
