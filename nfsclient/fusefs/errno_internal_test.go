// The server's errors as programs get them, and the log line for a read-only export.

package fusefs

import (
	"errors"
	"fmt"
	"strings"
	"syscall"
	"testing"

	"github.com/hanwen/go-fuse/v2/fuse"

	"github.com/nfsrdma/nfsrdma/nfsclient"
	"github.com/nfsrdma/nfsrdma/xdr/nfs3"
)

// The mount's log has the reason for EROFS once.
func TestReadOnlyExportIsLogged(t *testing.T) {
	var lines []string
	f := &fileSystem{opt: Options{Log: func(line string) { lines = append(lines, line) }}}
	refused := func(s nfs3.Status) error {
		return fmt.Errorf("x: %w", &nfsclient.StatusError{Proc: nfs3.ProcCreate, Status: s})
	}
	for _, c := range []struct {
		err   error
		want  syscall.Errno
		lines int // lines logged so far
	}{
		{refused(nfs3.ErrAcces), syscall.EACCES, 0}, {errors.New("x"), syscall.EIO, 0},
		{refused(nfs3.ErrROFS), syscall.EROFS, 1}, {refused(nfs3.ErrROFS), syscall.EROFS, 1},
	} {
		if got := f.status(c.err); got != fuse.Status(c.want) {
			t.Errorf("%v: %v, want %v", c.err, got, c.want)
		}
		if len(lines) != c.lines {
			t.Errorf("after %v: %d lines, want %d: %q", c.err, len(lines), c.lines, lines)
		}
	}
	if len(lines) > 0 && !strings.Contains(lines[0], "the export is read-only (to change it: rw in exports(5)") {
		t.Errorf("%q, want the option", lines[0])
	}
}
