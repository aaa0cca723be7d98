// Record marking: RPC messages on a byte stream, as fragments (RFC 5531 §11).

package transport

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"

	"github.com/nfsrdma/nfsrdma/internal/wait"
	"github.com/nfsrdma/nfsrdma/rpcrdma/mem"
)

// offset  size  field
// 0       4     bit 31: last fragment of its record; bits 30..0: bytes that follow
const (
	markLen      = 4
	xidLen       = 4 // at the start of each message
	lastFragment = 1 << 31
)

// Errors for an invalid record. The stream is unusable after either.
var (
	errRecordSize      = errors.New("rpc: record over the size limit")
	errRecordFragments = errors.New("rpc: record of too many fragments")
)

// A recordReader reads records from a stream. The reader reads ahead up to its window, so that one
// system call reads many small records. A record's part beyond the window is read directly into its
// buffer.
type recordReader struct {
	r     io.Reader
	limit int // largest record, in bytes
	win   []byte
	// win[start:end] is unused input.
	start, end int
	// beforeRead, if set, is called before each read from the stream, which may block; inside
	// means that part of a record has already arrived.
	beforeRead func(inside bool) error
	inside     bool
	burst      wait.Burst
	// charge, if set, is called once for each large record, of at most n bytes.
	charge func(n int) error
	head   []byte // after errRecordSize, the record's first bytes as far as they were read
}

func newRecordReader(r io.Reader, window, limit int) *recordReader {
	return &recordReader{r: r, limit: limit, win: make([]byte, window)}
}

// more reports whether the window has bytes of the next record.
func (r *recordReader) more() bool { return r.start < r.end }

// next returns the next record in a pooled buffer, which the caller must put back. io.EOF means
// that the stream ended between two records.
func (r *recordReader) next() (*mem.Buffer, error) {
	r.inside = false
	var rec *mem.Buffer
	for n := 0; ; n++ {
		length, last, err := r.mark()
		if err == nil && n >= maxFragments {
			err = errRecordFragments
		}
		have := 0
		if rec != nil {
			have = len(rec.B)
		}
		// Check the peer's length against the limit before allocating (RFC 5531 §11).
		if err == nil && length > r.limit-have {
			err = errRecordSize
		}
		if err == nil {
			most := r.limit
			if last {
				most = have + length
			}
			rec, err = r.fragment(rec, have, length, most)
		}
		if err != nil {
			if rec != nil {
				r.head = bytes.Clone(rec.B[:min(have, xidLen)])
			}
			rec.Put()
			return nil, err
		}
		if last {
			return rec, nil
		}
	}
}

// overlongXID returns the XID of the record for which next has returned errRecordSize. It reads the
// XID if need be, and the stream is unusable afterwards.
func (r *recordReader) overlongXID() (xid uint32, err error) {
	for len(r.head)+r.end-r.start < xidLen {
		if err := r.fill(); err != nil {
			return 0, err
		}
	}
	return binary.BigEndian.Uint32(append(r.head, r.win[r.start:r.end]...)), nil
}

// mark reads a fragment header.
func (r *recordReader) mark() (length int, last bool, err error) {
	for r.end-r.start < markLen {
		if err := r.fill(); err != nil {
			return 0, false, err
		}
	}
	v := binary.BigEndian.Uint32(r.win[r.start:])
	r.start += markLen
	r.inside = true
	return int(v &^ lastFragment), v&lastFragment != 0, nil
}

// fragment appends the stream's next length bytes to rec, initially nil, which will have at most
// most bytes. A large record is charged in full, before its buffer is allocated: readers that
// hold a part and wait for the rest could deadlock.
func (r *recordReader) fragment(rec *mem.Buffer, have, length, most int) (*mem.Buffer, error) {
	if rec == nil {
		rec = mem.Get(0)
		rec.B = rec.B[:0]
	}
	if r.charge != nil && have+length > smallRecord && rec.Charged == 0 {
		if err := r.charge(most); err != nil {
			return rec, err
		}
		rec.Charged = most
	}
	rec = rec.Grow(have + length)
	if err := r.readFull(rec.B[have:]); err != nil {
		return rec, err
	}
	return rec, nil
}

// readFull fills b from the window, then from the stream.
func (r *recordReader) readFull(b []byte) error {
	n := copy(b, r.win[r.start:r.end])
	r.start += n
	for b = b[n:]; len(b) > 0; b = b[n:] {
		// Read a large record's tail directly; read a short rest through the window, together
		// with the bytes after it.
		if len(b) < len(r.win)/2 {
			if err := r.fill(); err != nil {
				return err
			}
			n = copy(b, r.win[r.start:r.end])
			r.start += n
			continue
		}
		var err error
		if n, err = r.read(b); err != nil {
			return err
		}
	}
	return nil
}

// fill reads once from the stream into the window.
func (r *recordReader) fill() error {
	if r.start > 0 {
		r.end = copy(r.win, r.win[r.start:r.end])
		r.start = 0
	}
	n, err := r.read(r.win[r.end:])
	r.end += n
	return err
}

// read does one read from the stream and returns bytes or an error.
func (r *recordReader) read(b []byte) (int, error) {
	inside := r.inside || r.end > r.start
	for range 16 { // a reader may return neither bytes nor an error, but not forever
		if r.beforeRead != nil {
			if err := r.beforeRead(inside); err != nil {
				return 0, err
			}
		}
		n, err := r.r.Read(b)
		if n > 0 {
			r.burst.Add(n)
			return n, nil
		}
		if errors.Is(err, io.EOF) && inside {
			return 0, io.ErrUnexpectedEOF
		}
		if err != nil {
			return 0, err
		}
	}
	return 0, io.ErrNoProgress
}
