// The limit on descriptors, changed under a server.

package changing

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/nfsrdma/nfsrdma/nfsclient"
	"github.com/nfsrdma/nfsrdma/test/must"
	"golang.org/x/sys/unix"
)

// limit sets the server's soft limit on descriptors to n.
func (s *server) limit(n uint64) {
	s.Helper()
	var l unix.Rlimit
	must.Succeed(s.T, unix.Prlimit(s.cmd.Process.Pid, unix.RLIMIT_NOFILE, nil, &l))
	l.Cur = n
	must.Succeed(s.T, unix.Prlimit(s.cmd.Process.Pid, unix.RLIMIT_NOFILE, &l, nil))
}

// TestDescriptorLimitLowered: a server without a free descriptor still answers its clients. It
// accepts new clients after the limit is raised.
func TestDescriptorLimitLowered(t *testing.T) {
	dir := t.TempDir()
	must.Succeed(t, os.WriteFile(filepath.Join(dir, "f"), []byte("content"), 0o644))
	s := start(t, "", t.TempDir(), dir)
	tree, err := s.mount(dir)
	must.Succeed(t, err)
	s.limit(8)
	if err := s.client.Null(t.Context()); err != nil {
		t.Errorf("NULL: %v", err)
	}
	if st, err := tree.Stat(t.Context(), "."); err != nil || !st.IsDir() {
		t.Errorf("the root: %v, %v", st, err)
	}
	dialled := make(chan error, 1)
	go func() {
		c, err := nfsclient.Dial(context.Background(), s.addr, nfsclient.Options{Transport: nfsclient.TCP, CallTimeout: patience, RetryTimeout: patience})
		if err == nil {
			err = errors.Join(c.Null(context.Background()), c.Close())
		}
		dialled <- err
	}()
	looked := make(chan error, 1)
	go func() {
		_, err := tree.Stat(context.Background(), "absent")
		looked <- err
	}()
	s.limit(1024)
	if err := <-dialled; err != nil {
		t.Errorf("a client that came meanwhile: %v", err)
	}
	if err := <-looked; !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a name that was looked up meanwhile: %v, want %v", err, fs.ErrNotExist)
	}
	s.works("afterwards", dir)
}
