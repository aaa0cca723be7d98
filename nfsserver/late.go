// Exports whose file system does not answer when the server starts: they are served once it does.

package nfsserver

import (
	"encoding/binary"
	"sync"

	"github.com/nfsrdma/nfsrdma/xdr/nfs3"
	"github.com/sirupsen/logrus"
)

// opening is how far an export is that may be opened while the server runs.
type opening struct {
	mu     sync.Mutex // guards all below
	err    error      // it cannot be opened
	closed bool       // it is not to be opened any more
}

// served sets what is known of an export by its FS; nothing reads that before ready.
func (x *export) served(fs FS) {
	x.fs, x.root, x.info = fs, fs.Root(), fs.Info().filled()
	binary.BigEndian.PutUint64(x.verf[:], x.info.CookieVerf)
	x.inUse, _ = fs.(InUser)
	x.looks, _ = fs.(QuickLooker)
	if x.info.QuickReads {
		x.reads, _ = fs.(QuickReader)
	}
	x.later, _ = fs.(LaterReader)
	if k, ok := fs.(HandleKeyer); ok {
		if key := k.HandleKey(); key != ([KeySize]byte{}) {
			own := newSipKey(&key)
			x.key = &own
		}
	}
	if r, ok := fs.(CallRecorder); ok {
		x.told = r.RecordsCalls()
	}
	x.ready.Store(true)
}

// openLater opens an export, however long that takes.
func (x *export) openLater(open func() (FS, error)) {
	fs, err := open()
	o := &x.opening
	o.mu.Lock()
	defer o.mu.Unlock()
	switch {
	case o.closed && err == nil:
		fs.Close()
	case o.closed:
	case err != nil:
		o.err = err
		logrus.WithField("export", x.name).Errorf("not served: %v", err)
	default:
		x.served(fs)
		logrus.WithField("export", x.name).Info("its file system answers: served from now on")
	}
}

// available returns nil for an export that is open. While one is not, its clients are to ask
// again later: they have handles from an earlier run, which they MUST NOT be told are stale.
func (x *export) available() error {
	if x.ready.Load() {
		return nil
	}
	o := &x.opening
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.err != nil {
		return nfs3.ErrIO
	}
	return ErrBusy
}

// giveUp has an export that is not open stay closed, and reports whether there was one.
func (x *export) giveUp() bool {
	o := &x.opening
	o.mu.Lock()
	defer o.mu.Unlock()
	o.closed = true
	return !x.ready.Load()
}
