// A server that knows files for longer than their names, as Linux's server does while it has them
// open.

package fusefs_test

import (
	"os"
	"sync"
	"testing"

	"github.com/nfsrdma/nfsrdma/nfsserver"
	"github.com/nfsrdma/nfsrdma/test/must"
)

// A rememberingFS answers for removed files with their last attributes and link count 0. Its top
// directory never shows a change, as if its clock were coarse.
type rememberingFS struct {
	nfsserver.FS

	mu    sync.Mutex // guards known
	known map[nfsserver.Ref]nfsserver.Attr
}

func (r *rememberingFS) Getattr(ref nfsserver.Ref) (nfsserver.Attr, error) {
	attr, err := r.FS.Getattr(ref)
	r.mu.Lock()
	defer r.mu.Unlock()
	old, ok := r.known[ref]
	switch {
	case ok && err != nil:
		old.Nlink = 0
		return old, nil
	case ok && ref == r.Root():
		return old, nil
	}
	if err == nil {
		r.known[ref] = attr
	}
	return attr, err
}

func (r *rememberingFS) Access(c nfsserver.Cred, ref nfsserver.Ref, want uint32) (uint32, error) {
	if _, err := r.FS.Getattr(ref); err != nil {
		return want, nil
	}
	return r.FS.Access(c, ref, want)
}

// A file replaced by another client is not opened by its old handle, although the server still
// accepts it.
func TestReplacedFileIsFoundAgain(t *testing.T) {
	m := mount(t, options{AcMin: long, AcMax: long, Remember: true})
	must.Succeed(t, os.WriteFile(m.there("file"), []byte("old"), 0o600))
	for range 3 { // only once the directory is known, the name is cached
		if got, err := os.ReadFile(m.at("file")); err != nil || string(got) != "old" {
			t.Fatalf("%q, %v", got, err)
		}
	}
	must.Succeed(t, os.WriteFile(m.there("other"), []byte("new"), 0o600))
	must.Succeed(t, os.Rename(m.there("other"), m.there("file")))
	if got, err := os.ReadFile(m.at("file")); err != nil || string(got) != "new" {
		t.Errorf("after another client's rename over it: %q, %v", got, err)
	}
}
