// Descriptors that exports leave to clients.

package program

import (
	"errors"
	"sync"

	"golang.org/x/sys/unix"
)

// errDescriptors is the error of a directory without a file descriptor left for it.
var errDescriptors = errors.New("no file descriptors are left for it: raise their limit (ulimit -n, LimitNOFILE= of systemd)")

// A reserved holds a quarter of the process's descriptors while directories are opened. Each
// directory keeps some for as long as it is served. So the last directories fail, and not
// listeners, clients and the files that they use.
type reserved struct {
	mu    sync.Mutex // guards all below
	users int
	held  []int
}

// left belongs to the process, as the limit does.
var left reserved

// reserve takes the descriptors unless others have, until free; errDescriptors, if there are fewer.
func (r *reserved) reserve() (free func(), err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	var lim unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &lim); err != nil {
		return nil, err
	}
	for want := int(min(lim.Cur/4, 256)); r.users == 0 && len(r.held) < want; {
		fd, err := unix.Open("/", unix.O_PATH|unix.O_CLOEXEC, 0)
		if err != nil {
			r.release()
			return nil, errDescriptors
		}
		r.held = append(r.held, fd)
	}
	r.users++
	return func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		if r.users--; r.users == 0 {
			r.release()
		}
	}, nil
}

// release closes the descriptors; mu is held.
func (r *reserved) release() {
	for _, fd := range r.held {
		unix.Close(fd)
	}
	r.held = nil
}
