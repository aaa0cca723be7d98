// Temporary names, and their removal.

package treecopy

import (
	"context"
	"crypto/rand"
	"encoding/base32"
	"errors"
	"io/fs"
	"time"
	"unicode/utf8"
)

const (
	// maxNames limits the attempts; a name is taken with a probability of 2^-40.
	maxNames = 8
	// maxNameLen is the usual limit of file systems, in bytes.
	maxNameLen = 255
	// cleanupTime limits the removal of a temporary file after the end of a run.
	cleanupTime = 5 * time.Second
)

var nameCode = base32.NewEncoding("abcdefghijklmnopqrstuvwxyz234567").WithPadding(base32.NoPadding)

// tempName returns a unique name for a file next to name: .NAME.nfsrdma-XXXXXXXX.
func tempName(name string) string {
	var b [5]byte
	_, _ = rand.Read(b[:]) // never fails
	end := ".nfsrdma-" + nameCode.EncodeToString(b[:])
	if over := 1 + len(name) + len(end) - maxNameLen; over > 0 {
		valid := utf8.ValidString(name)
		for name = name[:len(name)-over]; valid && !utf8.ValidString(name); {
			name = name[:len(name)-1] // so that no character is cut in two
		}
	}
	return "." + name + end
}

// discard removes a temporary file, also after the end of ctx, and reports a failure.
func (r *Run) discard(ctx context.Context, d Dir, name string) {
	clean, cancel := context.WithTimeout(context.WithoutCancel(ctx), r.cleanup)
	defer cancel()
	if err := d.Remove(clean, name); err != nil && !errors.Is(err, fs.ErrNotExist) {
		r.opt.Report(&Error{What: r.quote(d.Text(name)) + " is left behind, remove it", Err: err})
	}
}

// cleanupContext returns a context for the creation of a temporary file. It continues for a while
// after ctx has ended, because the result shows whether there is a file to remove.
func (r *Run) cleanupContext(ctx context.Context) (context.Context, context.CancelFunc) {
	late, cancel := context.WithCancel(context.WithoutCancel(ctx))
	stop := context.AfterFunc(ctx, func() {
		select {
		case <-late.Done():
		case <-time.After(r.cleanup):
			cancel()
		}
	})
	return late, func() {
		stop()
		cancel()
	}
}
