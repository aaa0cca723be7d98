// Gather lists: messages with record marks and items, written by one writev.

package transport

import (
	"encoding/binary"
	"errors"
	"io"
	"net"
	"os"

	"github.com/nfsrdma/nfsrdma/xdr"
)

// A gatherList collects messages and writes them. It reuses its arrays.
type gatherList struct {
	arena []byte // copied pieces; never reallocated while list points into it
	list  [][]byte
	bufs  net.Buffers // the unwritten part of list, during a write
	open  bool        // the last element ends at the arena's end, and can grow
}

// message adds a record with one fragment: e's stream with items and pads in place.
func (g *gatherList) message(mark *[markLen]byte, e *xdr.Encoder) {
	stream := e.Bytes()
	binary.BigEndian.PutUint32(mark[:], uint32(recordSize(e))|lastFragment)
	g.piece(mark[:])
	at := 0
	for _, it := range e.Items() {
		g.piece(stream[at:it.Off])
		g.piece(it.Data)
		g.piece(zeroPad[:xdr.Pad(len(it.Data))])
		at = it.Off
	}
	g.piece(stream[at:])
}

var zeroPad [3]byte

// piece adds bytes to the list, copying short ones.
func (g *gatherList) piece(b []byte) {
	if len(b) == 0 {
		return
	}
	if g.arena == nil {
		g.arena = make([]byte, 0, arenaSize)
	}
	// The list references b until it has been written: so a call is released only after its reply
	// is written.
	if len(b) > gatherCopy || len(b) > cap(g.arena)-len(g.arena) {
		g.reference(b)
		return
	}
	at := len(g.arena)
	g.arena = append(g.arena, b...)
	if g.open {
		last := &g.list[len(g.list)-1]
		// The last element ends at the arena's old end, so extending the element adds the copied
		// bytes.
		*last = (*last)[:len(*last)+len(b)]
		return
	}
	g.list = append(g.list, g.arena[at:])
	g.open = true
}

// reference adds bytes to the list by reference.
func (g *gatherList) reference(b []byte) {
	g.list = append(g.list, b)
	g.open = false
}

// A writeTimeout bounds the wait for a peer that accepts no bytes.
type writeTimeout interface {
	// wait sets a deadline for the next write.
	wait()
	// keepWriting reports whether to continue a write that hit the deadline after n bytes.
	keepWriting(n int64) bool
}

// writeTo writes the list and resets g. If p is nil, a passed deadline is an error like any other.
func (g *gatherList) writeTo(w io.Writer, p writeTimeout) error {
	g.begin()
	defer g.reset()
	return g.drain(w, p)
}

// begin prepares the collected messages for drain.
func (g *gatherList) begin() { g.bufs = g.list }

// drain writes the rest of the list. After an error another drain continues at the first unwritten
// byte.
func (g *gatherList) drain(w io.Writer, p writeTimeout) (err error) {
	for again := true; again; {
		if p != nil {
			p.wait()
		}
		var n int64
		n, err = writeBuffers(w, &g.bufs)
		again = p != nil && errors.Is(err, os.ErrDeadlineExceeded) && p.keepWriting(n)
	}
	return err
}

// writeBuffers consumes and writes bufs: by one writev to a socket, or in full records to a
// tlsStream.
func writeBuffers(w io.Writer, bufs *net.Buffers) (n int64, err error) {
	if s, ok := w.(*tlsStream); ok {
		return s.writeBuffers(bufs)
	}
	return bufs.WriteTo(w)
}

// reset discards the collected messages.
func (g *gatherList) reset() {
	clear(g.list)
	g.list = g.list[:0]
	g.arena = g.arena[:0]
	g.bufs = nil
	g.open = false
}

// recordSize returns a message's record length in bytes, without the mark.
func recordSize(e *xdr.Encoder) int {
	n := len(e.Bytes())
	for _, it := range e.Items() {
		n += xdr.RoundUp(len(it.Data))
	}
	return n
}
