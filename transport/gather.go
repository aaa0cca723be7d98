// Gather lists: messages with their record marks and items, for one writev.

package transport

import (
	"encoding/binary"
	"errors"
	"io"
	"net"
	"os"

	"github.com/nfsrdma/nfsrdma/xdr"
)

// gatherCopy is the size up to which a piece of a message is copied next to its
// neighbours: for so little a further element of the list costs more.
const gatherCopy = 1024

// arenaSize bounds what is copied; what does not fit is pointed at.
const arenaSize = 32 << 10

// A gather collects messages and writes them. It keeps its arrays between writes.
type gather struct {
	arena []byte // copied pieces; its array never moves while the list points at it
	list  [][]byte
	bufs  net.Buffers // list while it is being written
	open  bool        // the last element is the tail of the arena and can grow
}

// message adds one record of one fragment: the stream of e with its items and pads in place.
func (g *gather) message(mark *[markLen]byte, e *xdr.Encoder) {
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

// piece adds bytes to the list, by copy where they are few.
func (g *gather) piece(b []byte) {
	if len(b) == 0 {
		return
	}
	if g.arena == nil {
		g.arena = make([]byte, 0, arenaSize)
	}
	// Pointed at, so b belongs to the list until it has been written: calls are released after that
	// only.
	if len(b) > gatherCopy || len(b) > cap(g.arena)-len(g.arena) {
		g.point(b)
		return
	}
	at := len(g.arena)
	g.arena = append(g.arena, b...)
	if g.open {
		last := &g.list[len(g.list)-1]
		// The element ends where the arena did, so it grows over what was just copied.
		*last = (*last)[:len(*last)+len(b)]
		return
	}
	g.list = append(g.list, g.arena[at:])
	g.open = true
}

// point adds bytes to the list that stay where they are.
func (g *gather) point(b []byte) {
	g.list = append(g.list, b)
	g.open = false
}

// A writeTimeout bounds how long a peer that takes no bytes is waited for.
type writeTimeout interface {
	// wait sets a deadline for the next write.
	wait()
	// goOn tells, of a write that has run into it after n bytes, whether to write on.
	goOn(n int64) bool
}

// writeTo writes all and forgets it. Without p a deadline is an error like any other.
func (g *gather) writeTo(w io.Writer, p writeTimeout) error {
	g.begin()
	defer g.reset()
	return g.drain(w, p)
}

// begin makes what was collected ready for drain.
func (g *gather) begin() { g.bufs = g.list }

// drain writes what is left of it. After an error a further drain goes on where this one ended.
func (g *gather) drain(w io.Writer, p writeTimeout) (err error) {
	for again := true; again; {
		if p != nil {
			p.wait()
		}
		var n int64
		n, err = g.bufs.WriteTo(w)
		again = p != nil && errors.Is(err, os.ErrDeadlineExceeded) && p.goOn(n)
	}
	return err
}

// reset forgets what was collected.
func (g *gather) reset() {
	clear(g.list)
	g.list = g.list[:0]
	g.arena = g.arena[:0]
	g.bufs = nil
	g.open = false
}

// recordSize is how many bytes the record of a message has, without its mark.
func recordSize(e *xdr.Encoder) int {
	n := len(e.Bytes())
	for _, it := range e.Items() {
		n += xdr.RoundUp(len(it.Data))
	}
	return n
}
