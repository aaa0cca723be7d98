// Opens files with a mode that forbids it to their owner, the server's user.

package osfs

import (
	"github.com/nfsrdma/nfsrdma/nfsserver"
	"golang.org/x/sys/unix"
)

// openOwn opens a file of this process's user whose mode forbids the open. The owner may read and
// write the file (RFC 1813 §4.4): a client may create a file with mode 0444 and write to it. Root
// needs no override. openOwn adds the missing owner bits for a moment, which permit nothing to
// other users. The change could clear a set-group-id bit, so it refuses such files. n.mu is held.
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
