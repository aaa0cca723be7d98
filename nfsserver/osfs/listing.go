// A directory's open listings, one for each client that reads it page by page.

package osfs

import (
	"slices"

	"github.com/nfsrdma/nfsrdma/nfsserver"
	"golang.org/x/sys/unix"
)

// A listing is an open directory, and the cookie up to which the directory was read. Each client
// continues with a listing of its own: on an overlay a descriptor holds the list of names from its
// last rewind, and positions count in that list. Two clients with one descriptor would miss names.
type listing struct {
	fd  int
	pos uint64
}

// takeListing returns the listing that was read up to the cookie, or a new listing positioned
// there. The listing belongs to the caller, which has a reference to n.
func (n *node) takeListing(cookie uint64) (l listing, err error) {
	l.fd = -1
	if cookie != 0 {
		n.dirMu.Lock()
		if i := slices.IndexFunc(n.listings, func(l listing) bool { return l.pos == cookie }); i >= 0 {
			l = n.listings[i]
			n.listings = slices.Delete(n.listings, i, i+1)
			shared.listings.Add(-1)
		}
		n.dirMu.Unlock()
	}
	if l.fd < 0 {
		if l.fd, err = openHere(n.fd(), ".", unix.O_RDONLY|unix.O_DIRECTORY); err != nil {
			return l, err
		}
	}
	if cookie != 0 { // the kernel has read beyond the page that was sent
		if _, err := unix.Seek(l.fd, int64(cookie), unix.SEEK_SET); err != nil {
			unix.Close(l.fd)
			return l, nfsserver.ErrBadCookie
		}
	}
	l.pos = cookie
	return l, nil
}

// keepListing keeps l for the next page. It closes l if the process keeps as many listings as the
// node limit, because connections need descriptors too.
func (n *node) keepListing(l listing) {
	n.dirMu.Lock()
	defer n.dirMu.Unlock()
	switch {
	case len(n.listings) == maxListings:
		unix.Close(n.listings[0].fd)
		n.listings = slices.Delete(n.listings, 0, 1)
	case shared.listings.Add(1) > shared.limit.Load():
		shared.listings.Add(-1)
		unix.Close(l.fd)
		return
	}
	n.listings = append(n.listings, l)
}
