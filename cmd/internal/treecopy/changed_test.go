// Sources of a move that have changed since they were copied, and data that a server has lost.

package treecopy

import (
	"context"
	"errors"
	"io"
	"os"
	"testing"
	"time"

	"github.com/nfsrdma/nfsrdma/nfsclient"
	"github.com/nfsrdma/nfsrdma/test/must"
	"github.com/nfsrdma/nfsrdma/transport"
	"golang.org/x/sys/unix"
)

// TestSourceThatChangedStays: a moved file that was written to since it was copied is kept, even at
// the same size. Another file that has taken its name is kept as well.
func TestSourceThatChangedStays(t *testing.T) {
	for what, change := range map[string]func(name string) error{
		"nothing":        func(string) error { return nil },
		"the time alone": func(name string) error { return os.Chtimes(name, time.Time{}, time.Unix(1e9, 1)) },
		"another size": func(name string) error {
			return errors.Join(os.Truncate(name, 3), os.Chtimes(name, time.Time{}, time.Unix(1e9, 0)))
		},
		"another file": func(name string) error {
			return errors.Join(os.Rename(name, name+"2"), os.WriteFile(name, []byte("content"), 0o644))
		},
		"not there at all": os.Remove,
	} {
		top := t.TempDir()
		name := write(t, "content", top, "f")
		must.Succeed(t, os.Chtimes(name, time.Time{}, time.Unix(1e9, 0)))
		d, err := (Local{}).OpenDir(t.Context(), top, top)
		if err != nil {
			t.Fatalf("OpenDir: %v", err)
		}
		m, err := d.Lstat(t.Context(), "f")
		if err != nil {
			t.Fatalf("Lstat: %v", err)
		}
		l := &log{}
		r := New(l.options(Options{}))
		r.opt.move, r.moved = true, map[key]movedFile{}
		r.recordMoved(&job{src: m})
		if err := change(name); err != nil {
			t.Fatalf("change: %v", err)
		}
		r.removeMoved(t.Context(), d, "f")
		_, err = os.Stat(name)
		switch what {
		case "nothing":
			l.want(t)
			if err == nil {
				t.Error("a source that did not change is still there")
			}
		case "not there at all":
			l.want(t, "cannot remove '"+name+"'")
		default:
			l.want(t, "has changed while it was moved, and is kept")
			if err != nil {
				t.Errorf("%s: %v", what, err)
			}
		}
		d.Close()
	}
}

// A forgetful sink loses its data at the first sync.
type forgetful struct {
	buffer
	syncs int
}

func (f *forgetful) Sync() error {
	if f.syncs++; f.syncs == 1 {
		f.b = nil
		return nfsclient.ErrLostWrites
	}
	return nil
}

// TestLostWritesOfAStream: a source that can be read again is copied again as a whole. The copy of
// a stream fails if more than the stream's first block was read.
func TestLostWritesOfAStream(t *testing.T) {
	for _, c := range []struct {
		size  int
		again bool
	}{{10, true}, {blockSize - 1, true}, {3 * blockSize, false}} {
		tree := write(t, "", t.TempDir(), "src")
		f, err := os.Open(tree)
		if err != nil {
			t.Fatalf("os.Open: %v", err)
		}
		src := &cutSource{plainSource{f}, c.size, io.EOF}
		in := &content{src: src, m: &Meta{Mode: os.ModeNamedPipe}}
		if err := in.begin(make([]byte, blockSize)); err != nil {
			t.Fatalf("begin: %v", err)
		}
		run, sink := New(Options{}), &forgetful{}
		err = run.pump(t.Context(), in, sink, true)
		switch {
		case c.again && (err != nil || len(sink.b) != c.size || sink.syncs != 2):
			t.Errorf("%d bytes: %v, %d there, %d syncs; want them sent again", c.size, err, len(sink.b), sink.syncs)
		case !c.again && !errors.Is(err, nfsclient.ErrLostWrites):
			t.Errorf("%d bytes: %v, %d there; want the error", c.size, err, len(sink.b))
		}
		if n := run.Bytes.Load(); c.again && n != int64(c.size) || !c.again && n != 0 {
			t.Errorf("%d bytes: %d are counted", c.size, n)
		}
		f.Close()
	}
}

// A goneSink is a file of a server that disconnects when the file is complete.
type goneSink struct{ Sink }

func (goneSink) SetAttr(context.Context, Attr) error {
	return &transport.ConnectError{Service: "nfs", Err: unix.ECONNREFUSED}
}

// TestMoveToAServerThatGoesAway: an attribute that could not be set does not fail a move, but a
// lost server does.
func TestMoveToAServerThatGoesAway(t *testing.T) {
	src, dst := write(t, "content", t.TempDir(), "f"), t.TempDir()
	tree := &fake{sink: func(_ string, s Sink) (Sink, error) { return goneSink{s}, nil }}
	l := mv(t, Options{}, at(tree, dst+"/f"), at(apart{}, src))
	l.want(t, "connection refused")
	wantFile(t, "content", src)
	if left := names(t, dst); left != "" {
		t.Errorf("left: %s", left)
	}
}

// TestMoveUpdatesDirectories: -u concerns only files; an older directory still replaces an empty
// one.
func TestMoveUpdatesDirectories(t *testing.T) {
	top := t.TempDir()
	write(t, "x", top, "d/f")
	must.Succeed(t, os.Mkdir(top+"/new", 0o755), os.Chtimes(top+"/d", time.Time{}, time.Unix(1e9, 0)))
	mv(t, Options{Update: true, NoTargetDir: true}, local(top+"/new"), local(top+"/d")).want(t)
	wantFile(t, "x", top, "new/f")
}
