// Exports with a missing directory or an unresponsive file system at the start: they are opened
// later.

package nfsserver

import (
	"cmp"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/nfsrdma/nfsrdma/xdr/nfs3"
)

// opening is the state of an export opened while the server runs.
type opening struct {
	mu     sync.Mutex // guards all below
	err    error      // from the last failed attempt
	closed bool       // no further attempt may open the export

	end chan struct{} // closed when closed is set
}

// reopenEvery is the interval between attempts to open an export.
const reopenEvery = time.Second

// openLater opens an export, however long that takes. After a failure it retries until the export
// is open or given up. It logs to log; nil: slog.Default() at the time of each line.
func (x *export) openLater(open func() (FS, error), log *slog.Logger) {
	for !x.opened(open, log) {
		select {
		case <-x.opening.end:
			return
		case <-time.After(reopenEvery):
		}
	}
}

// opened tries to open an export, and reports whether no further attempt is needed. It logs a
// repeated error once.
func (x *export) opened(open func() (FS, error), log *slog.Logger) bool {
	fs, err := open() // not under mu: it may block for any time
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

// available returns nil for an open export. For others it returns ErrBusy, so clients retry: they
// have handles from an earlier run, which MUST NOT become stale, and data that an error would lose.
func (x *export) available() error {
	if x.ready.Load() {
		return nil
	}
	return ErrBusy
}

// mountable is available for MNT. A MNT has no data to lose, so mountable returns an export's
// opening error.
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

// giveUp keeps an unopened export closed permanently, and reports whether the export was unopened.
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
