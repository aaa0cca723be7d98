// Exports with a missing directory or a file system that does not respond at the start: they are
// opened later.

package nfsserver

import (
	"cmp"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/nfsrdma/nfsrdma/xdr/nfs3"
)

// opening is how far an export is that may be opened while the server runs.
type opening struct {
	mu     sync.Mutex // guards all below
	err    error      // it could not be opened
	closed bool       // it is not to be opened any more

	end chan struct{} // closed with closed
}

// reopenEvery is how long after a failure an export is opened again.
const reopenEvery = time.Second

// openLater opens an export, however long that takes, and retries after a failure, until it is open
// or given up. log takes the lines; nil: slog.Default() of that time.
func (x *export) openLater(open func() (FS, error), log *slog.Logger) {
	for !x.opened(open, log) {
		select {
		case <-x.opening.end:
			return
		case <-time.After(reopenEvery):
		}
	}
}

// opened opens an export, and reports whether that was the last attempt.
// Repeated errors are logged once.
func (x *export) opened(open func() (FS, error), log *slog.Logger) bool {
	fs, err := open() // not under mu: it may take any time
	log = cmp.Or(log, slog.Default())
	o := &x.opening
	o.mu.Lock()
	defer o.mu.Unlock()
	switch {
	case o.closed && err == nil:
		fs.Close()
	case o.closed:
	case err != nil:
		if o.err == nil || o.err.Error() != err.Error() {
			log.Error(fmt.Sprintf("not served until this is repaired: %v", err), "export", x.name)
		}
		o.err = err
		return false
	default:
		o.err = nil
		x.served(fs)
		log.Info("served from now on", "export", x.name)
	}
	return true
}

// available returns nil for an export that is open. Clients of one that is not open yet get ErrBusy
// and retry. They have handles from an earlier run, which MUST NOT become stale, and data that an
// error would lose.
func (x *export) available() error {
	if x.ready.Load() {
		return nil
	}
	return ErrBusy
}

// mountable is available for MNT, which has nothing to lose: it fails for an export that cannot be
// opened.
func (x *export) mountable() error {
	err := x.available()
	o := &x.opening
	o.mu.Lock()
	defer o.mu.Unlock()
	if err != nil && o.err != nil {
		return nfs3.ErrIO
	}
	return err
}

// giveUp has an export that is not open stay closed, and reports whether there was one.
func (x *export) giveUp() bool {
	o := &x.opening
	o.mu.Lock()
	defer o.mu.Unlock()
	if !o.closed {
		o.closed = true
		close(o.end)
	}
	return !x.ready.Load()
}
