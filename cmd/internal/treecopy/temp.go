// Temporary names, and getting rid of them.

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
	// maxNames is how many temporary names are tried: one is taken once in a million million.
	maxNames = 8
	// maxNameLen is the bytes of a name on the file systems there are.
	maxNameLen = 255
	// cleanupTime is how long a run that was ended may take to remove a temporary file.
	cleanupTime = 5 * time.Second
)

var nameCode = base32.NewEncoding("abcdefghijklmnopqrstuvwxyz234567").WithPadding(base32.NoPadding)

// tempName is a name beside name that nobody else takes: .NAME.nfsrdma-XXXXXXXX.
func tempName(name string) string {
	var b [5]byte
	_, _ = rand.Read(b[:]) // never fails
	end := ".nfsrdma-" + nameCode.EncodeToString(b[:])
	if over := 1 + len(name) + len(end) - maxNameLen; over > 0 {
		valid := utf8.ValidString(name)
		for name = name[:len(name)-over]; valid && !utf8.ValidString(name); {
			name = name[:len(name)-1] // not in the middle of a character
		}
	}
	return "." + name + end
}

// discard removes a temporary name, also when ctx has ended, and says so when it has to stay.
func (r *Run) discard(ctx context.Context, d Dir, name string) {
	clean, cancel := context.WithTimeout(context.WithoutCancel(ctx), r.cleanup)
	defer cancel()
	if err := d.Remove(clean, name); err != nil && !errors.Is(err, fs.ErrNotExist) {
		r.opt.Report(&Error{What: r.quote(d.Text(name)) + " is left behind, remove it", Err: err})
	}
}

// linger is a context for the making of a temporary file: it goes on for a while
// after ctx has ended, so that it is known whether there is a file to remove.
func (r *Run) linger(ctx context.Context) (context.Context, context.CancelFunc) {
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
