// Opens files with a mode that forbids it to their owner, the server's user.

package osfs

import (
	"github.com/nfsrdma/nfsrdma/nfsserver"
	"golang.org/x/sys/unix"
)

// openOwn opens a file of this process's user with a mode that forbids it. The owner may read and
// write it (RFC 1813 §4.4): a client may create a file with mode 0444 and write it. Root would
// simply open it. The mode has the missing bits for a moment, which give no other user anything.
// This could clear a set-group-id bit, so such a file is refused. n.mu is held.
func (f *FS) openOwn(n *node, open func() (int, error)) (int, error) {
	var st unix.Stat_t
	if err := fstat(n.fd(), &st); err != nil {
		return -1, err
	}
	mode := st.Mode & nfsserver.ModeAll
	if f.creds.Switches || st.Uid != f.creds.Self.UID || mode&nfsserver.ModeSetgid != 0 || mode&0o600 == 0o600 {
		return -1, unix.EACCES
	}
	if err := chmod(n.fd(), mode|0o600); err != nil {
		return -1, err
	}
	fd, err := open()
	if err2 := chmod(n.fd(), mode); err == nil && err2 != nil {
		unix.Close(fd)
		return -1, err2
	}
	return fd, err
}
