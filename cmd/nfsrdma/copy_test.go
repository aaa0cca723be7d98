// Tests of the copy engine against sides that misbehave.

package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/nfsrdma/nfsrdma/nfsclient"
)

// A fakeDir is a source with given entries, and a destination whose server
// restarts while it is written to.
type fakeDir struct {
	dir
	list     []meta
	restarts int

	mu   sync.Mutex // guards data, made
	data []byte
	made int
}

func (d *fakeDir) close() error { return nil }

func (d *fakeDir) entries(context.Context) iter.Seq2[meta, error] {
	return func(yield func(meta, error) bool) {
		for _, m := range d.list {
			if !yield(m, nil) {
				return
			}
		}
	}
}

func (d *fakeDir) sub(context.Context, meta) (dir, error) { return &fakeDir{list: d.list}, nil }

func (d *fakeDir) open(_ context.Context, m meta) (source, error) {
	return nopCloser{bytes.NewReader(make([]byte, m.size))}, nil
}

func (d *fakeDir) readlink(context.Context, meta) (string, error) { return "/", nil }

func (d *fakeDir) create(_ context.Context, m meta) (sink, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.made++
	d.data = make([]byte, m.size)
	return d, nil
}

func (d *fakeDir) WriteAt(p []byte, off int64) (int, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return copy(d.data[off:], p), nil
}

func (d *fakeDir) finish(context.Context, meta) error {
	if d.made <= d.restarts {
		return fmt.Errorf("close: %w", nfsclient.ErrLostWrites)
	}
	return nil
}

func (d *fakeDir) abort() {}

type nopCloser struct{ *bytes.Reader }

func (nopCloser) Close() error { return nil }

// TestLostFileIsSentAgain: a server that restarts before it has the data safe
// gets the whole file again, a few times.
func TestLostFileIsSentAgain(t *testing.T) {
	want := bytes.Repeat([]byte("0123456789abcdef"), 200_000)
	m := meta{name: "f", mode: 0o600, size: int64(len(want))}
	for restarts, ok := range map[int]bool{0: true, 1: true, maxResend: true, maxResend + 1: false} {
		to := &fakeDir{restarts: restarts}
		c := newCopier(t.Logf)
		err := c.file(t.Context(), nopCloser{bytes.NewReader(want)}, to, m)
		if ok && (err != nil || !bytes.Equal(to.data, want) || c.bytes.Load() != m.size) {
			t.Errorf("%d restarts: %v, counted %d octets", restarts, err, c.bytes.Load())
		}
		if !ok && !errors.Is(err, nfsclient.ErrLostWrites) {
			t.Errorf("%d restarts: %v", restarts, err)
		}
	}
}

// TestShrinkingFile: a file that gets shorter while it is copied is an error.
func TestShrinkingFile(t *testing.T) {
	for _, n := range []int64{10, 3 << 20} {
		src := nopCloser{bytes.NewReader(make([]byte, n-1))}
		c := newCopier(t.Logf)
		if err := c.file(t.Context(), src, &fakeDir{}, meta{name: "f", size: n}); !errors.Is(err, errChanged) {
			t.Errorf("%d octets: %v", n, err)
		}
	}
}

// TestHostileTree: nothing that a server lists leads outside of the destination.
func TestHostileTree(t *testing.T) {
	for name, list := range map[string][]meta{
		"name that goes up":    {{name: "../out", mode: 0o600, size: 3}},
		"name that is a path":  {{name: "a/b", mode: 0o600, size: 3}},
		"parent":               {{name: "..", mode: fs.ModeDir | 0o700}},
		"file through a link":  {{name: "link", mode: 0o600, size: 3}},
		"large file of a link": {{name: "link", mode: 0o600, size: 3 << 20}},
		"tree through a link":  {{name: "dirlink", mode: fs.ModeDir | 0o700}},
	} {
		t.Run(name, func(t *testing.T) {
			top := t.TempDir()
			victim := filepath.Join(top, "victim")
			if err := os.MkdirAll(filepath.Join(top, "dst", "new"), 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(victim, []byte("precious"), 0o600); err != nil {
				t.Fatal(err)
			}
			_ = os.Symlink(victim, filepath.Join(top, "dst", "new", "link"))
			_ = os.Symlink(top, filepath.Join(top, "dst", "new", "dirlink"))
			to, err := openLocal(filepath.Join(top, "dst"))
			if err != nil {
				t.Fatal(err)
			}
			defer to.close()
			c := newCopier(t.Logf)
			if err := c.tree(t.Context(), &fakeDir{list: list}, to, meta{name: "x", mode: fs.ModeDir | 0o755}, "new"); err == nil {
				t.Error("the copy went through")
			}
			if b, err := os.ReadFile(victim); string(b) != "precious" || err != nil {
				t.Errorf("outside of the destination: %q, %v", b, err)
			}
			if list, _ := os.ReadDir(top); len(list) != 2 {
				t.Errorf("beside the destination: %v", list)
			}
		})
	}
}
