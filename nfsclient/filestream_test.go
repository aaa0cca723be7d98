// Streams: errors from the reader or writer at the other end are returned unchanged.

package nfsclient_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"testing"
	"testing/iotest"

	"github.com/nfsrdma/nfsrdma/nfsclient"
	"github.com/nfsrdma/nfsrdma/test/must"
)

var (
	errOther = errors.New("the other side's error")
	errCut   = fmt.Errorf("the other side's connection: %w", io.EOF)
)

// A brokenReader returns data in pieces, and err with the last piece or after it.
type brokenReader struct {
	data    []byte
	piece   int
	err     error
	with    bool
	empties int // empty reads before each piece
	skipped int
}

func (r *brokenReader) Read(p []byte) (int, error) {
	if len(r.data) == 0 {
		return 0, r.err
	}
	if r.skipped < r.empties {
		r.skipped++
		return 0, nil
	}
	r.skipped = 0
	n := copy(p, r.data[:min(len(r.data), r.piece)])
	if r.data = r.data[n:]; len(r.data) == 0 && r.with {
		return n, r.err
	}
	return n, nil
}

// Only io.EOF itself is an end. A reader's io.ErrUnexpectedEOF, as from a truncated HTTP body or
// archive, is always returned as an error.
func TestReadFromReportsItsReadersErrors(t *testing.T) {
	fsys := mountNew(t, nfsclient.TCP, "memfs", nfsclient.Options{})
	wtmax := fsys.MaxWrite()
	for _, flag := range []int{0, os.O_APPEND} {
		for _, given := range []int{0, 1, 1000, wtmax - 1, wtmax, wtmax + 1, 5 * wtmax} {
			for _, why := range []error{io.EOF, io.ErrUnexpectedEOF, errOther, errCut} {
				for _, with := range []bool{false, true} {
					want := why
					if why == io.EOF {
						want = nil
					}
					f, err := fsys.OpenFile(t.Context(), "f", os.O_RDWR|os.O_CREATE|os.O_TRUNC|flag, 0o600)
					must.Succeed(t, err)
					data := random(given, 5)
					n, err := f.ReadFrom(&brokenReader{data: data, piece: 100_000, err: why, with: with && given > 0})
					if n != int64(given) || err != want {
						t.Errorf("%d bytes, then %v: %d, %v", given, why, n, err)
					}
					must.Succeed(t, f.Close())
					if got, err := fsys.ReadFile(t.Context(), "f"); err != nil || !bytes.Equal(got, data) {
						t.Errorf("%d bytes, then %v: the file has %d, %v", given, why, len(got), err)
					}
				}
			}
		}
	}
}

// ReadFrom keeps reading if a reader sometimes returns no data, but not forever from a reader that
// never returns data.
func TestReadFromOfAnIdleReader(t *testing.T) {
	fsys := mountNew(t, nfsclient.TCP, "memfs", nfsclient.Options{})
	f, err := fsys.Create(t.Context(), "f", 0o600)
	must.Succeed(t, err)
	defer f.Close()
	if n, err := f.ReadFrom(&brokenReader{data: random(1000, 6), piece: 10, empties: 50, err: io.EOF}); n != 1000 || err != nil {
		t.Errorf("%d, %v", n, err)
	}
	if n, err := f.ReadFrom(&brokenReader{data: []byte{1}, piece: 1, empties: 1 << 40}); n != 0 || !errors.Is(err, io.ErrNoProgress) {
		t.Errorf("a reader that gives nothing: %d, %v", n, err)
	}
	if n, err := f.ReadFrom(iotest.OneByteReader(bytes.NewReader(random(300, 7)))); n != 300 || err != nil {
		t.Errorf("byte by byte: %d, %v", n, err)
	}
}

// A badWriter accepts left bytes. Then its writes are short, with an error or without.
type badWriter struct {
	left int
	err  error
}

func (w *badWriter) Write(p []byte) (int, error) {
	n := min(len(p), w.left)
	w.left -= n
	if n < len(p) {
		return n, w.err
	}
	return n, nil
}

// Bytes not accepted by the writer are neither counted nor skipped by the position.
func TestWriteToStopsAtAShortWrite(t *testing.T) {
	fsys := mountNew(t, nfsclient.TCP, "memfs", nfsclient.Options{})
	data := random(5<<20, 8)
	must.Succeed(t, fsys.WriteFile(t.Context(), "f", data, 0o600))
	for err, want := range map[error]error{errOther: errOther, nil: io.ErrShortWrite} {
		for _, taken := range []int{0, 10, 1 << 20, 3<<20 + 7} {
			f, e := fsys.Open(t.Context(), "f")
			must.Succeed(t, e)
			if n, e := f.WriteTo(&badWriter{taken, err}); n != int64(taken) || e != want {
				t.Errorf("a writer that takes %d: %d, %v", taken, n, e)
			}
			var rest bytes.Buffer
			if n, e := f.WriteTo(&rest); e != nil || n != int64(len(data)-taken) {
				t.Errorf("the rest after %d: %d bytes, %v, want %d", taken, n, e, len(data)-taken)
			}
			if !bytes.Equal(rest.Bytes(), data[taken:]) {
				t.Errorf("the rest after %d has other content", taken)
			}
			must.Succeed(t, f.Close())
		}
	}
}

// Streams on closed files, and on files that are open only for the other direction, are errors.
func TestStreamsOfUnusableFiles(t *testing.T) {
	fsys := mountNew(t, nfsclient.TCP, "memfs", nfsclient.Options{})
	must.Succeed(t, fsys.WriteFile(t.Context(), "f", []byte("old"), 0o600))
	read, err := fsys.Open(t.Context(), "f")
	must.Succeed(t, err)
	write, err := fsys.OpenFile(t.Context(), "f", os.O_WRONLY, 0)
	must.Succeed(t, err)
	if n, err := read.ReadFrom(bytes.NewReader([]byte("new"))); !errors.Is(err, os.ErrPermission) {
		t.Errorf("ReadFrom of a file open to read: %d, %v", n, err)
	}
	if n, err := write.WriteTo(io.Discard); n != 0 || !errors.Is(err, os.ErrPermission) {
		t.Errorf("WriteTo of a file open to write: %d, %v", n, err)
	}
	must.Succeed(t, read.Close())
	must.Succeed(t, write.Close())
	if n, err := read.WriteTo(io.Discard); n != 0 || !errors.Is(err, os.ErrClosed) {
		t.Errorf("WriteTo of a closed file: %d, %v", n, err)
	}
	if _, err := write.ReadFrom(bytes.NewReader([]byte("new"))); !errors.Is(err, os.ErrClosed) {
		t.Errorf("ReadFrom of a closed file: %v", err)
	}
	if b, err := fsys.ReadFile(t.Context(), "f"); string(b) != "old" || err != nil {
		t.Errorf("%q, %v", b, err)
	}
}
